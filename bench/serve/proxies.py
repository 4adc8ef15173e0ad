"""What the router adds to a request, beside plain reverse proxies in the same run.

usage: python bench/serve/proxies.py --parallax P --load build/release/serve_load [--rounds 5]
         [--requests 300] [--streams 500] [--json]

A scripted backend answers at once. Rounds alternate: the backend itself, parallax, nginx, haproxy
(those that are installed), each over one kept connection; what is printed is the time to the first
byte and what each adds over the backend in the same round. Then so many streams at once of 50 tokens
a second through parallax: lost events, lateness, memory a stream.
"""
import argparse
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def nginx_config(folder, port, backend):
    return f"""worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream b {{ server 127.0.0.1:{backend}; keepalive 64; }}
  server {{ listen 127.0.0.1:{port}; keepalive_requests 100000;
    location / {{ proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; }} }} }}
"""


def haproxy_config(folder, port, backend):
    return f"""global
  maxconn 4096
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  option http-keep-alive
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  http-reuse always
  server s 127.0.0.1:{backend}
"""


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallax", required=True)
    parser.add_argument("--load", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    processes = []

    def start(*command):
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return processes[-1]

    with tempfile.TemporaryDirectory() as folder:
        try:
            ports = {"direct": free_port()}
            start(options.load, "backend", str(ports["direct"]))
            wait_port(ports["direct"])
            ports["parallax"] = free_port()
            config = pathlib.Path(folder) / "parallax.toml"
            config.write_text(f'[server]\nlisten = "127.0.0.1:{ports["parallax"]}"\nconnections = 4096\n'
                              f'[[backend]]\nname = "b"\nkind = "openai"\nslots = {2 * options.streams}\n'
                              f'queue = 0\nurl = "http://127.0.0.1:{ports["direct"]}"\n')
            router = start(options.parallax, "serve", "--log", "none", "--config", str(config))
            for name, make in (("nginx", nginx_config), ("haproxy", haproxy_config)):
                program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
                if not program:
                    print(f"{name} is not installed: left out", file=sys.stderr)
                    continue
                ports[name] = free_port()
                file = pathlib.Path(folder) / f"{name}.conf"
                file.write_text(make(folder, ports[name], ports["direct"]))
                start(program, *(("-c", str(file)) if name == "nginx" else ("-db", "-f", str(file))))
            for port in ports.values():
                wait_port(port)
            while json.loads(urllib.request.urlopen(
                    f"http://127.0.0.1:{ports['parallax']}/health").read())["status"] != "ok":
                time.sleep(0.1)

            rounds = []
            for number in range(options.rounds):
                row = {}
                for name, port in ports.items():
                    out = subprocess.run([options.load, "latency", str(port), str(options.requests)],
                                         capture_output=True, text=True, check=True).stdout
                    row[name] = json.loads(out)
                rounds.append(row)
            result = {"rounds": rounds, "added_ms": {}}
            for name in ports:
                if name == "direct":
                    continue
                added = {q: [r[name][q] - r["direct"][q] for r in rounds] for q in ("p50_ms", "p99_ms")}
                result["added_ms"][name] = {q: {"min": min(v), "median": statistics.median(v)}
                                            for q, v in added.items()}

            before = resident_kib(router.pid)
            peak = []
            load = subprocess.Popen([options.load, "streams", str(ports["parallax"]),
                                     str(options.streams), "250", "50"],
                                    stdout=subprocess.PIPE, text=True)

            def watch():
                while load.poll() is None:
                    peak.append(resident_kib(router.pid))
                    time.sleep(0.2)

            watcher = threading.Thread(target=watch)
            watcher.start()
            text = load.communicate()[0]
            watcher.join()
            result["streams"] = json.loads(text)
            result["streams"]["kib_a_stream"] = (max(peak) - before) / options.streams
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{'added to first byte, ms':<26} {'p50 min':>8} {'p50 med':>8} {'p99 min':>8} {'p99 med':>8}")
    for name, added in result["added_ms"].items():
        print(f"{name:<26} {added['p50_ms']['min']:>8.3f} {added['p50_ms']['median']:>8.3f} "
              f"{added['p99_ms']['min']:>8.3f} {added['p99_ms']['median']:>8.3f}")
    s = result["streams"]
    print(f"\n{s['streams']} streams of 50 tokens a second: {s['whole']} whole, late by "
          f"{s['late_p50_ms']:.0f} ms (median), {s['late_max_ms']:.0f} ms (most); "
          f"{s['kib_a_stream']:.1f} KiB a stream")


if __name__ == "__main__":
    main()
