"""What soak.py lets pass as an answer, and what it keeps of each."""
import collections
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import scripted_llama

HANG_S = 60  # no request may take longer, whatever dies
LOAD_ERRORS = {429, 502, 503, 504, 500}  # 500 is what a scripted backend's own fault says


class Tally:
    """What came of all requests. One for all threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.outcomes = collections.Counter()
        self.slowest = collections.defaultdict(float)
        self.decisions = {}  # id: (backend, whether the client got all of a good answer or None)
        self.problems = []

    def add(self, kind, outcome, seconds):
        with self.lock:
            self.outcomes[f"{kind}: {outcome}"] += 1
            self.slowest[kind] = max(self.slowest[kind], seconds)

    def decided(self, headers, good):
        if "x-parallax-decision" in headers:
            with self.lock:
                self.decisions[headers["x-parallax-decision"]] = (
                    headers.get("x-parallax-backend"), good)

    def problem(self, text):
        with self.lock:
            self.problems.append(text[:600])


class Wrong(Exception):
    """An answer that must not be."""


def get_json(url, path, any_status=False):
    try:
        with urllib.request.urlopen(url + path, timeout=HANG_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            if any_status:
                return json.loads(error.read())
        raise


def metrics(url):
    with urllib.request.urlopen(url + "/metrics", timeout=HANG_S) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in lines if line and line[0] != "#"}


def load(url, model):
    """Asks for a model until it answers: it may have to be started first."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}]}).encode()
    for _ in range(50):
        try:
            with urllib.request.urlopen(url + "/v1/chat/completions", body, timeout=HANG_S) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            time.sleep(0.5)
    raise SystemExit(f"soak: {model} was not loaded in time")


def check_error(status, body, allowed, headers=None):
    """An error as OpenAI's clients expect it; returns what to call it."""
    try:
        error = json.loads(body)["error"]
        message, kind = error["message"], error["type"]
    except (ValueError, KeyError, TypeError):
        raise Wrong(f"{status} with {body[:200]!r} is no OpenAI error") from None
    if not message or not isinstance(message, str) or not isinstance(kind, str):
        raise Wrong(f"{status}: an error without words: {body[:200]!r}")
    if status == 429 and not int((headers or {}).get("retry-after", 0)) >= 1:
        raise Wrong(f"429 without saying when to come again: {headers}")
    if status not in allowed:
        raise Wrong(f"{status} is not what this request earns: {message}")
    return f"{status} {error.get('code') if isinstance(error.get('code'), str) else kind}"


class Asked:
    """A request and its right answer."""

    def __init__(self, path, body, prompt_end, headers=None, allowed=LOAD_ERRORS):
        self.path, self.body, self.headers = path, body, headers or {}
        self.allowed = allowed
        self.words = scripted_llama.answer_words(
            prompt_end, body.get("max_tokens", scripted_llama.DEFAULT_WORDS))

    @property
    def chat(self):
        return self.path == "/v1/chat/completions"

    def text_of(self, choice, part):
        return choice[part].get("content") or "" if self.chat else choice.get("text") or ""


class Connection:
    """One client's connection: kept from request to request, or not."""

    def __init__(self, url):
        self.host = urllib.parse.urlsplit(url)
        self.http = None

    def post(self, asked, raw=None, timeout=HANG_S):
        if self.http is None:
            self.http = http.client.HTTPConnection(self.host.hostname, self.host.port,
                                                   timeout=timeout)
        self.http.request("POST", asked.path, json.dumps(asked.body) if raw is None else raw,
                          {"Content-Type": "application/json"} | asked.headers)
        return self.http.getresponse()

    def close(self):
        if self.http is not None:
            self.http.close()
        self.http = None


def lower(headers):
    return {name.lower(): value for name, value in headers}


def read_events(answer, after_event=lambda: None):
    """The data of each event. Raises Wrong where the answer ends inside one."""
    lines = []
    while True:
        line = answer.readline()
        if not line:
            if lines:
                raise Wrong(f"the stream ends inside an event: {lines[-1][:200]!r}")
            return
        line = line.rstrip(b"\r\n")
        if line:
            lines.append(line)
            continue
        if lines:
            yield b"\n".join(part[6:] for part in lines if part.startswith(b"data: ")).decode()
            lines = []
            after_event()
