"""Sends a trace of mixed requests through a running router and judges its predictions of reuse.

usage: python trace.py URL [--requests 200] [--seed 1] [--concurrency 1] [--max-tokens 24] [--json]

Conversations of several turns, shared system prompts, long documents, short questions and plain
completions, from one seed. A turn's answer goes into the next turn's messages, as a chat client does
it. Prints errors, where requests went, and on how many the reused prompt tokens that the backend
reported were the predicted ones. Exit 1 where a request failed.
"""
import argparse
import json
import random
import sys
import threading
import urllib.error
import urllib.request

WORDS = ("board memory router thread kernel tensor branch budget cache token prompt latency core bus "
         "sensor camera window garden river winter letter number simple quiet green open fast small "
         "measure build carry follow answer explain compare describe choose because before after").split()


def text(rng, words):
    out = []
    for i in range(words):
        out.append(rng.choice(WORDS))
        if i % 12 == 11:
            out[-1] += "."
    return " ".join(out).capitalize()


def post(url, path, body, timeout=600):
    request = urllib.request.Request(url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return dict(answer.headers), json.loads(answer.read())


def get(url, path):
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        return json.loads(answer.read())


class Conversation:
    def __init__(self, rng, systems):
        self.messages = []
        if rng.random() < 0.7:
            self.messages.append({"role": "system", "content": rng.choice(systems)})
        self.turns = rng.randint(1, 5)

    def next_turn(self, rng):
        long = rng.random() < 0.2
        words = rng.randint(150, 350) if long else rng.randint(4, 30)
        self.messages.append({"role": "user", "content": text(rng, words) + "?"})
        self.turns -= 1

    def answer(self, message):
        self.messages.append({"role": "assistant", "content": message.get("content") or ""})


def plan(rng, requests):
    """A list of steps: (conversation, None) for its next turn or (None, prompt) for a completion."""
    systems = [text(rng, n) for n in (20, 60, 150)]
    steps, live = [], []
    while len(steps) < requests:
        if rng.random() < 0.1:
            steps.append((None, text(rng, rng.randint(5, 200))))
            continue
        if not live or rng.random() < 0.3:
            live.append(Conversation(rng, systems))
        conversation = live[-1] if rng.random() < 0.6 else rng.choice(live)
        steps.append((conversation, None))
        conversation.turns -= 1
        if conversation.turns <= 0:
            live.remove(conversation)
    return steps


def run(options):
    rng = random.Random(options.seed)
    steps = plan(rng, options.requests)
    errors, ids, lock = [], [], threading.Lock()
    position = iter(enumerate(steps))

    def worker():
        while True:
            with lock:
                step = next(position, None)
                if step is None:
                    return
                number, (conversation, prompt) = step
                own = random.Random(options.seed * 100003 + number)
                budget = own.choice([4, 8, options.max_tokens])
                if conversation is not None:
                    conversation.next_turn(own)
                    body = {"model": options.model, "messages": list(conversation.messages)}
                    path = "/v1/chat/completions"
                else:
                    body = {"model": options.model, "prompt": prompt}
                    path = "/v1/completions"
                body |= {"max_tokens": budget, "temperature": 0}
            try:
                headers, answer = post(options.url, path, body)
            except urllib.error.HTTPError as error:
                errors.append(f"request {number}: {error.code} {error.read()[:300]}")
                continue
            except OSError as error:
                errors.append(f"request {number}: {error}")
                continue
            with lock:
                ids.append(headers.get("x-parallax-decision"))
                if conversation is not None:
                    conversation.answer(answer["choices"][0]["message"])
                if sys.stderr.isatty():
                    print(f"\r{len(ids)}/{options.requests}", end="", file=sys.stderr)

    threads = [threading.Thread(target=worker) for _ in range(options.concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors, ids


def judge(options, ids):
    result = {"backends": {}, "checked": 0, "exact": 0, "counts_exact": 0, "misses": []}
    for id in ids:
        record = get(options.url, f"/v1/decisions/{id}")
        chosen = next(c for c in record["candidates"] if c["name"] == record["chosen"])
        outcome = record["outcome"]
        share = result["backends"].setdefault(record["chosen"], {"requests": 0, "exact": 0})
        share["requests"] += 1
        result["checked"] += 1
        result["counts_exact"] += outcome["prompt_tokens"] == chosen["p"]
        if outcome["predicted_reuse"] == outcome["cached_tokens"]:
            result["exact"] += 1
            share["exact"] += 1
        else:
            result["misses"].append({"id": id, "backend": record["chosen"], "p": chosen["p"],
                                     "predicted": outcome["predicted_reuse"],
                                     "reported": outcome["cached_tokens"]})
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.url = options.url.rstrip("/")
    errors, ids = run(options)
    result = judge(options, ids)
    result["errors"] = errors
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print(f"\n{len(ids)} answers, {len(errors)} errors")
        for error in errors[:5]:
            print("  " + error)
        for name, share in sorted(result["backends"].items()):
            print(f"  {name}: {share['requests']} requests, reuse predicted exactly on {share['exact']}")
        print(f"reuse exact on {result['exact']} of {result['checked']}, "
              f"prompt length on {result['counts_exact']}")
        for miss in result["misses"][:20]:
            print("  " + json.dumps(miss))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
