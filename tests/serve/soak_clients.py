"""The clients of soak.py: what they ask, and how they leave."""
import http.client
import json
import random
import socket
import threading
import time
import urllib.error
import urllib.request

from soak_answers import HANG_S, LOAD_ERRORS, Asked, Connection, Wrong, check_error, lower, read_events

LARGEST_CONTEXT = 8192
PAUSE_S = 0.4          # mean time between two requests of a client,
CROWD_PAUSE_S = 0.03   # and in a crowd
MANY_TOKENS = LARGEST_CONTEXT * 3 // 2  # also where they are estimated from bytes
WORDS = ("board memory router thread kernel tensor branch budget cache token prompt latency core bus "
         "sensor camera window garden river winter letter number simple quiet green open fast").split()
MALFORMED = (
    b"", b"{", b"null", b"[]", b"\xff\xfe{}", b'{"messages": []}', b'{"messages": "hello"}',
    b'{"messages": [{"content": "no role"}]}', b'{"messages": [{"role": "user", "content": 7}]}',
    b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": "many"}',
    b'{"messages": [{"role": "user", "content": "x"}], "stream": "yes"}',
    b'{"messages": [{"role": "user", "content": "x"}], "timeout": -1}',
    b'{"messages": [{"role": "user", "content": "x"}], "model": 5}',
    b'{"messages": ' + b"[" * 3000 + b"]" * 3000 + b"}",
)
LONG_TEXTS = 12  # long prompts share these, so that the caches under test reach their limits early


class Client(threading.Thread):
    """Asks one thing after the other until told to stop."""

    KINDS = {"chat": 22, "chat stream": 26, "completion": 8, "completion stream": 8, "talk": 10,
             "long": 5, "slow reader": 3, "pinned": 5, "deadline": 4, "no cache": 3,
             "leaves the stream": 7, "leaves at once": 6, "half a body": 2, "malformed": 5,
             "not HTTP": 1, "wrong method": 1, "oversized": 3, "unknown model": 2,
             "unknown backend": 1, "route": 5}

    models = ("soak", "soak", "auto")
    backends = ()

    def __init__(self, url, tally, crowd, seed):
        super().__init__(daemon=True)
        self.url, self.tally, self.crowd, self.rng = url, tally, crowd, random.Random(seed)
        self.stop = threading.Event()
        self.connection = Connection(url)
        self.said = []

    def run(self):
        while not self.stop.is_set():
            kind = self.rng.choices(list(self.KINDS), self.KINDS.values())[0]
            self.attempt(kind, getattr(self, kind.replace(" ", "_").lower()))
            if self.rng.random() < 0.2:
                self.connection.close()
            pause = CROWD_PAUSE_S if self.crowd.is_set() else PAUSE_S
            self.stop.wait(self.rng.expovariate(1 / pause))
        self.connection.close()

    def attempt(self, kind, ask):
        began = time.monotonic()
        try:
            outcome = ask()
        except Wrong as wrong:
            outcome = "WRONG"
            self.tally.problem(f"{kind}: {wrong}")
        except TimeoutError:
            outcome = "HANGS"
            self.tally.problem(f"{kind}: no answer within {HANG_S} s")
        except (OSError, http.client.HTTPException) as error:
            outcome = "CUT"
            self.tally.problem(f"{kind}: after {time.monotonic() - began:.2f} s: {error!r}")
        if outcome in ("WRONG", "HANGS", "CUT"):
            self.connection.close()
        self.tally.add(kind, outcome, time.monotonic() - began)

    # What is asked.

    def text(self, words):
        return " ".join(self.rng.choice(WORDS) for _ in range(words)) + f" {self.rng.random():.9f}"

    def budget(self):
        return {"max_tokens": self.rng.randint(1, 24)} if self.rng.random() < 0.8 else {}

    def ask_chat(self, **more):
        options = {name: more.pop(name) for name in ("headers", "allowed") if name in more}
        text = self.text(self.rng.randint(2, 60))
        messages = [{"role": "user", "content": text}]
        if self.rng.random() < 0.5:
            system = random.Random(self.rng.randrange(LONG_TEXTS)).choices(WORDS, k=80)
            messages.insert(0, {"role": "system", "content": " ".join(system)})
        return Asked("/v1/chat/completions",
                     {"model": self.rng.choice(self.models), "messages": messages}
                     | self.budget() | more, text, **options)

    def ask_completion(self, **more):
        text = self.text(self.rng.randint(2, 60))
        return Asked("/v1/completions", {"model": "soak", "prompt": text} | self.budget() | more, text)

    # How an answer is read.

    def whole(self, asked):
        answer = self.connection.post(asked)
        body = answer.read()
        headers = lower(answer.getheaders())
        if answer.status != 200:
            self.tally.decided(headers, False)
            return check_error(answer.status, body, asked.allowed, headers)
        self.tally.decided(headers, True)
        said = json.loads(body)
        text = asked.text_of(said["choices"][0], "message")
        if text != "".join(asked.words):
            raise Wrong(f"said '{text}', not '{''.join(asked.words)}'")
        if said["choices"][0]["finish_reason"] != "length":
            raise Wrong(f"finish_reason {said['choices'][0]['finish_reason']}")
        if said["usage"]["completion_tokens"] != len(asked.words):
            raise Wrong(f"usage {said['usage']} for {len(asked.words)} words")
        if headers.get("x-parallax-backend") not in self.backends:
            raise Wrong(f"answered by {headers.get('x-parallax-backend')}")
        return "answered"

    def streamed(self, asked, after_event=lambda: None):
        asked.body["stream"] = True
        answer = self.connection.post(asked)
        headers = lower(answer.getheaders())
        if answer.status != 200:
            self.tally.decided(headers, False)
            return check_error(answer.status, answer.read(), asked.allowed, headers)
        text, done, failed = "", False, None
        for data in read_events(answer, after_event):
            if done or failed:
                raise Wrong(f"after the end comes '{data[:200]}'")
            if data == "[DONE]":
                done = True
                continue
            chunk = json.loads(data)
            if "error" in chunk:
                failed = check_error(500, data, {500})
            for choice in chunk.get("choices", ()):
                text += asked.text_of(choice, "delta")
        self.tally.decided(headers, done)
        right = "".join(asked.words)
        if not right.startswith(text) or (done and text != right):
            raise Wrong(f"streamed '{text}', not '{right}'")
        if not done and not failed:
            raise Wrong(f"the stream ends without [DONE] or an error after '{text}' "
                        f"({headers.get('x-parallax-decision')})")
        return "answered" if done else "error event"

    def chat(self):
        return self.whole(self.ask_chat())

    def chat_stream(self):
        more = {"stream_options": {"include_usage": True}} if self.rng.random() < 0.3 else {}
        return self.streamed(self.ask_chat(**more))

    def completion(self):
        return self.whole(self.ask_completion())

    def completion_stream(self):
        return self.streamed(self.ask_completion())

    def talk(self):
        """A conversation goes on with its answers in it, or another begins."""
        if len(self.said) > 8 or self.rng.random() < 0.1:
            self.said = []
        turn = self.text(self.rng.randint(3, 20))
        self.said = self.said + [{"role": "user", "content": turn}]
        asked = Asked("/v1/chat/completions",
                      {"model": "soak", "messages": self.said, "max_tokens": 8}, turn)
        outcome = self.whole(asked)
        if outcome == "answered":
            self.said = self.said + [{"role": "assistant", "content": "".join(asked.words)}]
        else:
            self.said = []
        return outcome

    def long(self):
        text = " ".join(random.Random(self.rng.randrange(LONG_TEXTS)).choices(WORDS, k=1500))
        end = self.text(3)
        return self.whole(Asked("/v1/chat/completions", {"model": "soak", "max_tokens": 4, "messages": [
            {"role": "system", "content": text}, {"role": "user", "content": end}]}, end))

    def slow_reader(self):
        asked = self.ask_chat()
        return self.streamed(asked, lambda: time.sleep(self.rng.random() * 0.1))

    def pinned(self):
        asked = self.ask_chat(model="soak",
                              headers={"x-parallax-backend": self.rng.choice(self.backends)})
        return self.streamed(asked) if self.rng.random() < 0.5 else self.whole(asked)

    def deadline(self):
        return self.whole(self.ask_chat(timeout=self.rng.choice((0.05, 0.2, 1, 5))))

    def no_cache(self):
        return self.whole(self.ask_chat(cache_prompt=False))

    def oversized(self):
        text = "word " * MANY_TOKENS
        # 503 where all that could tell how much they hold are down.
        return self.whole(Asked("/v1/chat/completions", {"model": "soak", "messages": [
            {"role": "user", "content": text}]}, text, allowed={400, 503, 429}))

    def unknown_model(self):
        return self.whole(self.ask_chat(model="nobody", allowed={404}))

    def unknown_backend(self):
        return self.whole(self.ask_chat(headers={"x-parallax-backend": "nobody"}, allowed={404}))

    def malformed(self):
        answer = self.connection.post(Asked("/v1/chat/completions", {}, ""),
                                      raw=self.rng.choice(MALFORMED))
        return check_error(answer.status, answer.read(), {400})

    def wrong_method(self):
        self.connection.close()
        with urllib.request.urlopen(self.url + "/health", timeout=HANG_S) as answer:
            answer.read()
        try:
            urllib.request.urlopen(self.url + "/v1/chat/completions", timeout=HANG_S)
        except urllib.error.HTTPError as error:
            with error:
                return check_error(error.code, error.read(), {405})
        raise Wrong("GET was answered")

    def not_http(self):
        with socket.create_connection((self.connection.host.hostname, self.connection.host.port),
                                      timeout=HANG_S) as s:
            s.sendall(self.rng.choice((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                       b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n")))
            answer = b""
            while piece := s.recv(4096):
                answer += piece
        if not answer.startswith(b"HTTP/1.1 "):
            raise Wrong(f"answered {answer[:100]!r}")
        return check_error(int(answer[9:12]), answer.split(b"\r\n\r\n", 1)[1], {400, 505})

    def route(self):
        asked = self.ask_chat()
        asked.path = "/v1/route"
        answer = self.connection.post(asked)
        body = answer.read()
        if answer.status != 200:
            raise Wrong(f"{answer.status} {body[:200]!r}")
        record = json.loads(body)
        if not record["reason"] or {c["name"] for c in record["candidates"]} < set(self.backends):
            raise Wrong(f"a decision without reason or candidates: {body[:300]!r}")
        return record["status"]

    # Those that leave.

    def leaves_the_stream(self):
        asked = self.ask_chat()
        asked.body |= {"stream": True, "max_tokens": 24}
        answer = self.connection.post(asked)
        headers = lower(answer.getheaders())
        try:
            if answer.status != 200:
                self.tally.decided(headers, False)
                return check_error(answer.status, answer.read(), asked.allowed, headers)
            self.tally.decided(headers, None)
            events = read_events(answer)
            for _, _ in zip(range(self.rng.randint(1, 12)), events):
                pass
            return "left"
        finally:
            self.connection.close()

    def send_and_leave(self, share):
        body = json.dumps(self.ask_chat(stream=self.rng.random() < 0.5).body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((self.connection.host.hostname, self.connection.host.port),
                                      timeout=HANG_S) as s:
            s.sendall(head.encode() + body[:int(len(body) * share)])
            time.sleep(self.rng.choice((0, 0.001, 0.02, 0.1)))
            if self.rng.random() < 0.5:  # a reset instead of an end
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return "left"

    def leaves_at_once(self):
        return self.send_and_leave(1)

    def half_a_body(self):
        return self.send_and_leave(self.rng.random())


class Poller(threading.Thread):
    """What dashboards and people ask all the time."""

    PATHS = ("/metrics", "/status.json", "/health", "/v1/models", "/v1/decisions", "/")

    def __init__(self, url, tally, seed):
        super().__init__(daemon=True)
        self.url, self.tally, self.rng = url, tally, random.Random(seed)
        self.stop = threading.Event()

    def run(self):
        while not self.stop.wait(0.3):
            path = self.rng.choice(self.PATHS)
            began = time.monotonic()
            try:
                with urllib.request.urlopen(self.url + path, timeout=HANG_S) as answer:
                    text = answer.read().decode()
                if path in ("/status.json", "/v1/models", "/v1/decisions"):
                    json.loads(text)
                outcome = "answered"
            except urllib.error.HTTPError as error:
                outcome = str(error.code)
                error.close()
                if (path, error.code) != ("/health", 503):
                    self.tally.problem(f"{path} answers {error.code}")
            except (OSError, ValueError, http.client.HTTPException) as error:
                outcome = "WRONG"
                self.tally.problem(f"{path}: {error!r}")
            self.tally.add("poll " + path, outcome, time.monotonic() - began)


class RealClient(Client):
    """A short question to a real model every few seconds: its answer is not known, its form is."""

    def run(self):
        while not self.stop.wait(self.rng.uniform(2, 6)):
            self.attempt("real model", self.real)
        self.connection.close()

    def real(self):
        self.connection.close()
        asked = Asked("/v1/chat/completions",
                      {"model": "smol", "max_tokens": 6, "stream": True, "messages": [
                          {"role": "user", "content": self.text(8)}]}, "")
        answer = self.connection.post(asked)
        headers = lower(answer.getheaders())
        if answer.status != 200:
            self.tally.decided(headers, False)
            return check_error(answer.status, answer.read(), LOAD_ERRORS)
        events = list(read_events(answer))
        done = bool(events) and events[-1] == "[DONE]"
        self.tally.decided(headers, done)
        if done:
            return "answered"
        if events and "error" in json.loads(events[-1]):
            return "error event"
        raise Wrong(f"the stream ends with {events[-1:]}")


class LastStream(threading.Thread):
    """A stream that is under way when the router is told to stop: it is served to its end."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.problem, self.began = url, "it did not end", threading.Event()
        self.start()

    def run(self):
        asked = Asked("/v1/chat/completions", {"model": "soak", "stream": True, "max_tokens": 24,
                                               "messages": [{"role": "user", "content": "the end"}]},
                      "the end")
        connection = Connection(self.url)
        try:
            answer = connection.post(asked)
            if answer.status != 200:
                self.problem = ""  # a fault before its first word; told in order
                return
            last = ""
            for last in read_events(answer, self.began.set):
                pass
            good = last == "[DONE]" or "error" in json.loads(last)  # or a fault inside it
            self.problem = "" if good else f"it ends with {last}"
        except (OSError, http.client.HTTPException, Wrong, ValueError) as error:
            self.problem = repr(error)
        finally:
            self.began.set()
            connection.close()
