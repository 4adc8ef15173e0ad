"""Two real language models behind one endpoint: where each request went, and why.

usage: python demo/serve.py --parallax build/release/parallax [--models FOLDER] [--keep]

Starts `parallax serve` with SmolLM2-135M and Gemma3-270M, each in a llama-server of its own that
the router spawns. One is faster at reading, the other at writing, so requests of different shapes
belong to different ones. The models are tiny: what they say is beside the point. --keep serves on
until Ctrl-C, with the status page.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import llm_models  # noqa: E402

SYSTEM = "You answer questions about small computers in one sentence. " * 6
REPORT = "The board ran for an hour and its memory stayed flat while requests came and went. " * 40


def configuration(models):
    """The router's configuration; both models answer to one name."""
    text = '[server]\nlisten = "127.0.0.1:0"\n'
    for name, path in models.items():
        command = [sys.executable, str(ROOT / "tools/llama_server.py"), "-m", path,
                   "--cache-ram", "0", "--swa-full", "-t", "2"]
        text += (f'\n[[backend]]\nname = "{name}"\nkind = "llama-server"\n'
                 f'command = {json.dumps(command)}\nmodels = ["small"]\ncache_sequences = 1\n')
    return text


def ask(url, body, path="/v1/chat/completions"):
    request = urllib.request.Request(url + path, json.dumps({"model": "small", "temperature": 0} | body)
                                     .encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return dict(answer.headers), json.loads(answer.read())


def fetch(url, path):
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        return json.loads(answer.read())


def wait_ready(url, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if fetch(url, "/health")["status"] == "ok":
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("demo: the models were not ready in time")


def user(text):
    return {"role": "user", "content": text}


def warm_up(url):
    """The latency models start from a guess; a handful of requests to each makes them measured."""
    for backend in ("smollm2", "gemma3"):
        for words, budget in [(4, 4), (60, 8), (200, 4), (10, 24), (120, 16), (30, 4), (5, 12), (90, 4)]:
            body = {"messages": [user(f"{words} {budget} " + "tell me more about it " * (words // 5))],
                    "max_tokens": budget, "model": "small", "temperature": 0}
            request = urllib.request.Request(
                url + "/v1/chat/completions", json.dumps(body).encode(),
                {"Content-Type": "application/json", "x-parallax-backend": backend})
            urllib.request.urlopen(request, timeout=600).read()


def show(url, title, body):
    headers, answer = ask(url, body)
    record = fetch(url, f"/v1/decisions/{headers['x-parallax-decision']}")
    chosen = next(c for c in record["candidates"] if c["name"] == record["chosen"])
    outcome = record["outcome"]
    print(f"{title:<31} {record['chosen']:<8} {chosen['p']:>6} {outcome['cached_tokens']:>7} "
          f"{outcome['generated_tokens']:>5} {chosen['total_ms']:>10.0f} {outcome['total_ms']:>9.0f}")
    print(f"    {record['reason']}")
    return answer["choices"][0]["message"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallax", required=True)
    parser.add_argument("--models", default=str(ROOT / "models/generated"))
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    models = llm_models.paths(options.models)
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "parallax.toml"
        config.write_text(configuration(models))
        with open(pathlib.Path(folder) / "log", "w") as log:
            server = subprocess.Popen([options.parallax, "serve", "--config", str(config)],
                                      stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = server.stdout.readline()
            if "http://" not in line:
                raise SystemExit("demo: parallax serve did not start\n"
                                 + (pathlib.Path(folder) / "log").read_text())
            url = line.split()[-1]
            wait_ready(url)
            warm_up(url)
            print("one endpoint, two models: smollm2 (135M) and gemma3 (270M)")
            print(f"{'request':<31} {'went to':<8} {'prompt':>6} {'cached':>7} {'out':>5} "
                  f"{'expected':>10} {'took ms':>9}")
            talk = [{"role": "system", "content": SYSTEM}, user("What is a cache?")]
            show(url, "short question, short answer", {"messages": [user("Name a color.")],
                                                       "max_tokens": 4})
            show(url, "short question, long answer", {"messages": [user("Tell me a story.")],
                                                      "max_tokens": 96})
            show(url, "long report, one word", {"messages": [user(REPORT + "Good or bad?")],
                                                "max_tokens": 2})
            message = show(url, "conversation, first turn", {"messages": talk, "max_tokens": 24})
            talk += [message, user("And why is it small?")]
            show(url, "conversation, second turn", {"messages": talk, "max_tokens": 24})
            if options.keep:
                print(f"\nserving on {url} (status page), model \"small\"; Ctrl-C stops")
                server.wait()
        except KeyboardInterrupt:
            pass
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


if __name__ == "__main__":
    main()
