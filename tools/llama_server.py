"""A llama-server for tests and the demo: xllamacpp's, behind the program's own options.

usage: python tools/llama_server.py -m MODEL.gguf [--host H] [--port N] [-c N] [-np N] [-t N] [-b N]
         [--cache-ram MiB] [--swa-full] [--alias NAME] [--metrics] [--slots]

The names are llama-server's, so that a command line written for it works with this file in front.
Serves until it is killed.
"""
import argparse
import signal
import sys
import threading

import xllamacpp


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("-c", "--ctx-size", type=int, default=4096)
    parser.add_argument("-np", "--parallel", type=int, default=1)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-b", "--batch-size", type=int, default=512)
    parser.add_argument("--cache-ram", type=int, default=8192)
    parser.add_argument("--swa-full", action="store_true")
    parser.add_argument("--alias")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--slots", action="store_true")
    options = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = [options.host]
    params.port = options.port
    params.n_ctx = options.ctx_size
    params.n_parallel = options.parallel
    params.n_batch = options.batch_size
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = options.cache_ram
    params.swa_full = options.swa_full
    params.endpoint_metrics = options.metrics
    params.endpoint_slots = options.slots
    params.use_jinja = True  # the model's own chat template; without it tools are ignored
    if options.alias:
        params.model_alias = {options.alias}
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    threading.Event().wait()


if __name__ == "__main__":
    main()
