"""A backend that speaks as llama-server or another OpenAI server does, and fails as it is told to.

usage: python scripted_llama.py --port N [--dialect llama-server|openai] [--model NAME] [--alias NAME]
         [-c TOKENS] [-np SLOTS] [--prefill-ms MS] [--decode-ms MS] [--load-s S] [--fail-start SHARE]
         [--faults SHARE] [--fault NAME] [--say TEXT] [--seed N] [--host H]

Its answers follow from the prompt alone, so that whoever asks knows the right one whichever backend
gave it: `answer(last message, budget)`. A token is a word with the space behind it, or a special
token. It has slots
with a cache each, streams word by word, stops when its client leaves, and reports usage and timings.
--faults is the share of generations that end in a fault, drawn from FAULTS; --fault names the only one.
Serves until it is killed.
"""
import argparse
import asyncio
import json
import random
import re
import sys
import time
import zlib

FAULTS = ("cut", "cut_before", "hang", "silence", "error_event", "status_500", "garbage", "half_event",
          "no_end")
MOST_WORDS = 24
DEFAULT_WORDS = 12
TOKEN = re.compile(r"<\|im_start\|>|<\|im_end\|>|[^\s<]+\s?|\s|<")
STATUS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error",
          503: "Service Unavailable"}


def answer_words(prompt_end, budget):
    """The words of the answer to what a prompt ends with."""
    key = f"{zlib.crc32(prompt_end.encode()):08x}"
    return [f"{key}.{i} " for i in range(max(1, min(MOST_WORDS, budget)))]


def answer(prompt_end, budget=DEFAULT_WORDS):
    return "".join(answer_words(prompt_end, budget))


def tokenize(text):
    return [zlib.crc32(word.encode()) & 0xFFFFF for word in TOKEN.findall(text)]


def template(messages):
    text = "".join(f"<|im_start|>{m['role']}\n{m.get('content') or ''}<|im_end|>\n" for m in messages)
    return text + "<|im_start|>assistant\n"


class Left(Exception):
    """The client is gone."""


class Slot:
    def __init__(self):
        self.tokens = []
        self.free = True

    def common(self, tokens):
        n = 0
        for ours, theirs in zip(self.tokens, tokens):
            if ours != theirs:
                break
            n += 1
        return n


class Server:
    def __init__(self, options):
        self.options = options
        self.slots = [Slot() for _ in range(options.slots)]
        self.room = asyncio.Semaphore(options.slots)
        self.rng = random.Random(options.seed)
        self.ready_at = time.monotonic() + options.load_s
        self.requests = 0

    async def serve(self):
        server = await asyncio.start_server(self.connection, self.options.host, self.options.port,
                                            limit=1 << 20)
        async with server:
            await server.serve_forever()

    async def connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, target, _ = head.split("\r\n", 1)[0].split(" ")
                length = re.search(r"(?im)^content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if not await self.answer(method, target, body, reader, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, Left, ValueError,
                asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def send(self, writer, status, value, content_type="application/json"):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        writer.write(f"HTTP/1.1 {status} {STATUS[status]}\r\nContent-Type: {content_type}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return True

    async def fail(self, writer, status, message, **more):
        return await self.send(writer, status, {"error": {"code": status, "message": message,
                                                          "type": "server_error"} | more})

    async def answer(self, method, target, body, reader, writer):
        """Answers one request; False where the connection must end."""
        llama = self.options.dialect == "llama-server"
        if time.monotonic() < self.ready_at:
            return await self.fail(writer, 503, "Loading model", type="unavailable_error")
        if target == "/v1/models":
            return await self.send(writer, 200, {"object": "list", "data": [
                {"id": self.options.alias or self.options.model, "object": "model"}]})
        if llama and target == "/health":
            return await self.send(writer, 200, {"status": "ok"})
        if llama and target == "/props":
            return await self.send(writer, 200, {
                "default_generation_settings": {"n_ctx": self.options.context},
                "total_slots": self.options.slots, "model_path": self.options.model,
                "chat_template": "im", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})
        if method == "POST":
            try:
                asked = json.loads(body)
            except ValueError:
                return await self.fail(writer, 400, "not JSON")
            if llama and target == "/apply-template":
                return await self.send(writer, 200, {"prompt": template(asked["messages"])})
            if llama and target == "/tokenize":
                return await self.send(writer, 200, {"tokens": tokenize(asked["content"])})
            if target in ("/v1/chat/completions", "/v1/completions"):
                return await self.generate(target, asked, reader, writer)
        return await self.fail(writer, 404, "File Not Found", type="not_found_error")

    async def pause(self, seconds, reader):
        """Sleeps as the work would take, in steps in which a client that leaves is noticed."""
        end = time.monotonic() + seconds
        while True:
            if reader.at_eof():
                raise Left
            left = end - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, 0.05))

    async def generate(self, target, asked, reader, writer):
        chat = target == "/v1/chat/completions"
        if not asked.get("stream"):
            return await self.fail(writer, 400, "the router always asks for a stream")
        ends_with = asked["messages"][-1].get("content") or "" if chat else asked["prompt"]
        tokens = tokenize(template(asked["messages"]) if chat else asked["prompt"])
        if len(tokens) >= self.options.context:
            return await self.fail(
                writer, 400, "the request exceeds the available context size, try increasing it",
                type="exceed_context_size_error", n_prompt_tokens=len(tokens),
                n_ctx=self.options.context)
        budget = asked.get("max_tokens")
        words = answer_words(ends_with, DEFAULT_WORDS if budget is None else budget)
        fault = ""
        if self.rng.random() < self.options.faults:
            fault = self.options.fault or self.rng.choice(FAULTS)
        async with self.room:
            if reader.at_eof():
                raise Left
            free = [slot for slot in self.slots if slot.free]
            slot = max(free, key=lambda s: s.common(tokens))
            slot.free = False
            try:
                return await self.stream(chat, asked, tokens, words, slot, fault, reader, writer)
            finally:
                slot.free = True

    async def stream(self, chat, asked, tokens, words, slot, fault, reader, writer):
        options = self.options
        self.requests += 1
        cached = min(slot.common(tokens), len(tokens) - 1) if asked.get("cache_prompt", True) else 0
        began = time.monotonic()
        if fault == "status_500":
            return await self.fail(writer, 500, options.say or "it ran out of luck")
        if fault == "garbage":
            return await self.send(writer, 200, b"<html>It works!</html>", "text/html")
        if fault == "cut_before":
            raise Left
        if fault == "hang":
            await self.pause(3600, reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        slot.tokens = tokens[:cached]
        await self.pause(options.prefill_ms * (len(tokens) - cached) / 1000, reader)
        slot.tokens = tokens + tokenize("".join(words))[:-1]
        prefilled = time.monotonic()

        async def event(value):
            data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()

        def chunk(text, finish=None, **more):
            choice = {"index": 0, "finish_reason": finish}
            if chat:
                choice["delta"] = {} if finish else {"content": text}
            else:
                choice["text"] = text
            return {"id": f"cmpl-{self.requests}", "created": int(time.time()),
                    "object": "chat.completion.chunk" if chat else "text_completion",
                    "model": asked.get("model", options.model), "choices": [choice]} | more

        at = self.rng.randrange(len(words)) if fault else len(words)
        for i, word in enumerate(words):
            await self.pause(options.decode_ms / 1000, reader)
            if i == at and fault == "cut":
                raise Left
            if i == at and fault == "silence":
                await self.pause(3600, reader)
            if i == at and fault == "error_event":
                await event({"error": {"code": 500, "message": options.say or "out of luck",
                                       "type": "server_error"}})
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return False
            if i == at and fault == "half_event":
                writer.write(b"e\r\ndata: {\"choice\r\n")
                await writer.drain()
                raise Left
            await event(chunk(word))
        if fault == "no_end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return False
        now = time.monotonic()
        timings = {"cache_n": cached, "prompt_n": len(tokens) - cached,
                   "prompt_ms": (prefilled - began) * 1000, "predicted_n": len(words),
                   "predicted_ms": (now - prefilled) * 1000}
        llama = options.dialect == "llama-server"
        await event(chunk("", "length", **({"timings": timings} if llama else {})))
        if (asked.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": len(tokens), "completion_tokens": len(words),
                     "total_tokens": len(tokens) + len(words),
                     "prompt_tokens_details": {"cached_tokens": cached}}
            await event(chunk("", usage=usage) | {"choices": []})
        await event("[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dialect", choices=("llama-server", "openai"), default="llama-server")
    parser.add_argument("--model", default="models/scripted.gguf")
    parser.add_argument("--alias")
    parser.add_argument("-c", "--context", type=int, default=4096)
    parser.add_argument("-np", "--slots", type=int, default=1)
    parser.add_argument("--prefill-ms", type=float, default=0.1)
    parser.add_argument("--decode-ms", type=float, default=5)
    parser.add_argument("--load-s", type=float, default=0)
    parser.add_argument("--fail-start", type=float, default=0)
    parser.add_argument("--faults", type=float, default=0)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--say", default="")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    if random.random() < options.fail_start:
        sys.exit("cannot load the model")
    asyncio.run(Server(options).serve())


if __name__ == "__main__":
    main()
