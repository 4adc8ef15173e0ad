"""A llama-server for tests and the demo: xllamacpp's, behind the program's own options.

usage: python tools/llama_server.py -m MODEL.gguf [--host H] [--port N] [-c N] [-np N] [-t N] [-b N]
         [-ub N] [-n N] [--temp X] [--seed N] [--cache-ram MiB] [--no-cache-idle-slots]
         [--kv-unified] [--swa-full]
         [--context-shift] [--alias NAME[,NAME...]] [--tags TAG[,TAG...]] [--api-key KEY]
         [--chat-template TEXT] [--chat-template-file FILE] [--jinja | --no-jinja]
         [--slot-save-path FOLDER] [--sleep-idle-seconds N] [--metrics] [--slots] [--verbose]

The names are llama-server's, so that a command line written for it works with this file in front.
Serves until it is killed.
"""
import argparse
import pathlib
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
    parser.add_argument("-ub", "--ubatch-size", type=int, default=512)
    parser.add_argument("-n", "--n-predict", type=int, default=-1)
    parser.add_argument("--temp", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--cache-ram", type=int, default=8192)
    parser.add_argument("--cache-idle-slots", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--kv-unified", action="store_true")
    parser.add_argument("--swa-full", action="store_true")
    parser.add_argument("--context-shift", action="store_true")
    parser.add_argument("--alias")
    parser.add_argument("--tags")
    parser.add_argument("--api-key")
    parser.add_argument("--chat-template", default="")
    parser.add_argument("--chat-template-file")
    # The model's own chat template; without it tools are ignored.
    parser.add_argument("--jinja", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--slot-save-path", default="")
    parser.add_argument("--sleep-idle-seconds", type=int, default=-1)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--slots", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
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
    params.use_jinja = options.jinja
    params.n_ubatch = options.ubatch_size
    params.n_predict = options.n_predict
    params.cache_idle_slots = options.cache_idle_slots
    params.kv_unified = options.kv_unified
    params.ctx_shift = options.context_shift
    params.sleep_idle_seconds = options.sleep_idle_seconds
    if options.temp is not None:
        params.sampling.temp = options.temp
    if options.seed is not None:
        params.sampling.seed = options.seed
    if options.slot_save_path:
        params.slot_save_path = options.slot_save_path.rstrip("/") + "/"
    if options.chat_template_file:
        params.chat_template = pathlib.Path(options.chat_template_file).read_text()
    elif options.chat_template:
        params.chat_template = options.chat_template
    if options.alias:
        params.model_alias = set(options.alias.split(","))
    if options.tags:
        params.model_tags = set(options.tags.split(","))
    if options.api_key:
        params.api_keys = [options.api_key]
    if options.verbose:
        params.verbosity = 10  # from here on answers carry "__verbose"
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    threading.Event().wait()


if __name__ == "__main__":
    main()
