"""Real clients through the router to real models: the openai package, curl, raw sockets.

usage: python clients_test.py PARALLAX [UNITTEST OPTION...]

Starts `parallax serve` with SmolLM2-135M and Gemma3-270M, each in a llama-server of its own.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import openai

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "demo")]
import llm_models  # noqa: E402
import serve as demo  # noqa: E402

PARALLAX = ""
HELLO = [{"role": "user", "content": "Say hello."}]
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}]


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        config = pathlib.Path(cls.folder.name) / "parallax.toml"
        records = pathlib.Path(cls.folder.name) / "decisions.jsonl"
        config.write_text(demo.configuration(llm_models.paths(ROOT / "models/generated"))
                          + f'\n[routing]\ndecisions = "{records}"\n')
        cls.records = records
        cls.log = open(pathlib.Path(cls.folder.name) / "log", "w+")
        cls.server = subprocess.Popen([PARALLAX, "serve", "--config", str(config)],
                                      stdout=subprocess.PIPE, stderr=cls.log, text=True)
        line = cls.server.stdout.readline()
        cls.url = line.split()[-1] if "http://" in line else ""
        if not cls.url:
            cls.log.seek(0)
            raise RuntimeError("parallax serve did not start: " + cls.log.read())
        demo.wait_ready(cls.url)
        cls.client = openai.OpenAI(base_url=cls.url + "/v1", api_key="none", timeout=300,
                                   max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        code = cls.server.wait(60)
        cls.server.stdout.close()
        cls.log.seek(0)
        text = cls.log.read()
        cls.log.close()
        cls.folder.cleanup()
        assert code == 0, f"parallax serve ended with {code}: {text[-2000:]}"

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[-1])
        self.fail(f"no metric {name}")

    def gauge_falls(self, name, seconds=60):
        end = time.monotonic() + seconds
        while self.metric(name) > 0:
            self.assertLess(time.monotonic(), end, f"{name} stays above 0")
            time.sleep(0.05)

    def test_chat(self):
        answer = self.client.chat.completions.create(model="small", messages=HELLO, max_tokens=8)
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertTrue(answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertLessEqual(answer.usage.completion_tokens, 8)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_completion(self):
        answer = self.client.completions.create(model="small", prompt="One, two, three,", max_tokens=6)
        self.assertEqual(answer.object, "text_completion")
        self.assertTrue(answer.choices[0].text)

    def test_streams_say_what_whole_answers_say(self):
        for backend in ("smollm2", "gemma3"):
            with self.subTest(backend):
                ask = dict(model="small", messages=HELLO, max_tokens=12, temperature=0,
                           extra_headers={"x-parallax-backend": backend})
                whole = self.client.chat.completions.create(**ask).choices[0]
                chunks = list(self.client.chat.completions.create(stream=True, **ask))
                text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
                self.assertEqual(text, whole.message.content)
                self.assertEqual(chunks[-1].choices[0].finish_reason, whole.finish_reason)
                self.assertTrue(all(c.usage is None for c in chunks), "usage was not asked for")

    def test_usage_in_a_stream_where_asked_for(self):
        chunks = list(self.client.chat.completions.create(
            model="small", messages=HELLO, max_tokens=4, stream=True,
            stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)

    def test_logprobs_and_choices_pass_through(self):
        answer = self.client.chat.completions.create(
            model="small", messages=HELLO, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2)
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), answer.usage.completion_tokens)
        self.assertEqual(len(content[0].top_logprobs), 2)

    def test_stop_passes_through(self):
        answer = self.client.completions.create(model="small", prompt="1 2 3 4 5 6", max_tokens=24,
                                                temperature=0, stop=["9"])
        self.assertNotIn("9", answer.choices[0].text)

    # Neither model's template knows tools, so no call comes back: that is tested over scripted
    # backends. Here: the fields reach llama-server, which checks them.
    def test_tools_reach_the_backend(self):
        answer = self.client.chat.completions.create(
            model="small", max_tokens=4, tools=TOOLS, tool_choice="auto",
            messages=[{"role": "user", "content": "What is the weather in Paris?"}])
        self.assertTrue(answer.choices)
        with self.assertRaises(openai.APIStatusError):
            self.client.chat.completions.create(model="small", max_tokens=4, messages=HELLO,
                                                tools=[{"type": "function"}])

    def test_a_client_that_leaves_stops_its_generation(self):
        before = self.metric("parallax_cancelled_total")
        stream = self.client.chat.completions.create(
            model="small", messages=HELLO, max_tokens=2000, stream=True,
            extra_body={"ignore_eos": True})
        for _, _ in zip(range(3), stream):
            pass
        stream.close()
        self.gauge_falls("parallax_jobs")
        self.assertEqual(self.metric("parallax_cancelled_total"), before + 1)
        # And the backend serves the next one at once.
        self.client.chat.completions.create(model="small", messages=HELLO, max_tokens=2)

    def test_a_conversation_is_reused(self):
        talk = [{"role": "system", "content": "Answer in one short sentence, as a sailor would."},
                {"role": "user", "content": "What is a harbour?"}]
        for turn in range(3):
            raw = self.client.chat.completions.with_raw_response.create(
                model="small", messages=talk, max_tokens=16, temperature=0,
                extra_headers={"x-parallax-backend": "smollm2"})
            answer = raw.parse()
            record = demo.fetch(self.url, "/v1/decisions/" + raw.headers["x-parallax-decision"])
            chosen = next(c for c in record["candidates"] if c["name"] == "smollm2")
            self.assertEqual(chosen["p"], answer.usage.prompt_tokens)
            if turn > 0:
                self.assertGreater(record["outcome"]["cached_tokens"], 20)
            talk += [{"role": "assistant", "content": answer.choices[0].message.content},
                     {"role": "user", "content": "Go on."}]

    def test_errors_are_openai_errors(self):
        with self.assertRaises(openai.NotFoundError) as unknown:
            self.client.chat.completions.create(model="nobody", messages=HELLO)
        self.assertEqual(unknown.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as long:
            self.client.completions.create(model="small", prompt="word " * 9000, max_tokens=4)
        self.assertEqual(long.exception.body["type"], "exceed_context_size_error")
        self.assertEqual(long.exception.body["n_ctx"], 4096)
        self.assertGreater(long.exception.body["n_prompt_tokens"], 9000)
        with self.assertRaises(openai.BadRequestError):
            self.client.chat.completions.create(model="small", messages=[])

    def test_models(self):
        names = [model.id for model in self.client.models.list()]
        self.assertIn("small", names)
        self.assertIn("auto", names)

    def test_curl(self):
        out = subprocess.run(
            ["curl", "-sN", self.url + "/v1/chat/completions", "-d",
             json.dumps({"model": "small", "messages": HELLO, "max_tokens": 4, "stream": True})],
            capture_output=True, text=True, timeout=300, check=True).stdout
        self.assertTrue(out.startswith("data: {"), out[:100])
        self.assertTrue(out.endswith("data: [DONE]\n\n"), out[-100:])

    def test_records_are_whole(self):
        self.client.chat.completions.create(model="small", messages=HELLO, max_tokens=2)
        self.gauge_falls("parallax_jobs")
        for line in self.records.read_text().splitlines():
            record = json.loads(line)
            self.assertTrue(record["reason"])
            self.assertTrue(record["outcome"]["finished"])


if __name__ == "__main__":
    PARALLAX = sys.argv.pop(1)
    unittest.main()
