"""Records what a real llama-server answers, streaming and not, for tests of the aggregate.

usage: python tests/server/openai/record.py > tests/server/openai/recorded.json

Each request is sent twice, greedily and without the prompt cache, so that both answers say the same.
Run it again when a newer llama-server streams in another form.
"""
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import llm_models  # noqa: E402

CHAT = {"messages": [{"role": "user", "content": "Say hello, 你好, in one line."}]}
REQUESTS = [
    ("chat", "/v1/chat/completions", CHAT | {"max_tokens": 12}),
    ("chat with log probabilities", "/v1/chat/completions",
     CHAT | {"max_tokens": 4, "logprobs": True, "top_logprobs": 2}),
    ("chat with two choices", "/v1/chat/completions", CHAT | {"max_tokens": 4, "n": 2}),
    ("chat that is stopped", "/v1/chat/completions", CHAT | {"max_tokens": 24, "stop": [" ", "e"]}),
    ("completion", "/v1/completions", {"prompt": "1, 2, 3,", "max_tokens": 8}),
    ("completion with log probabilities", "/v1/completions",
     {"prompt": "1, 2, 3,", "max_tokens": 3, "logprobs": 2}),
    ("completion of nothing", "/v1/completions", {"prompt": "1, 2, 3,", "max_tokens": 0}),
]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


def main():
    model = llm_models.paths(ROOT / "models/generated")["smollm2"]
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tools/llama_server.py"), "-m", model, "--port", "18131",
         "-c", "4096", "-np", "2", "--alias", "m", "--cache-ram", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        server.stdout.readline()
        url = "http://127.0.0.1:18131"
        for _ in range(200):
            try:
                urllib.request.urlopen(url + "/health", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        recorded = []
        for name, path, body in REQUESTS:
            body = body | {"model": "m", "temperature": 0, "cache_prompt": False}
            stream = body | {"stream": True, "stream_options": {"include_usage": True}}
            recorded.append({"name": name, "path": path, "request": body,
                             "stream": post(url + path, stream),
                             "whole": json.loads(post(url + path, body))})
        json.dump(recorded, sys.stdout, indent=1, ensure_ascii=False)
        print()
    finally:
        server.kill()


if __name__ == "__main__":
    main()
