"""The status page in a real browser: what it shows, that it obeys nobody, that it fits a phone.

usage: python status_page_test.py PARALLAX [UNITTEST OPTION...]

Starts `parallax serve` over scripted backends, among them ones whose model, program and last words
are HTML with scripts, and loads the page in Chromium without a window.
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

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import chromium  # noqa: E402
from soak_fleet import free_port  # noqa: E402

PARALLAX = ""
# Each would set `pwned` were it ever parsed as HTML or run as a script.
MODEL = '<script>window.pwned="model"</script>"\'><b>'
PROGRAM = '"><img src=x onerror=window.pwned=`program`>'
LAST_WORDS = '<svg onload=window.pwned="words">&amp;${window.pwned="template"}'
FAULT = '<img src="x" onerror="window.pwned=\'fault\'">'
PROMPT = '<script>window.pwned="prompt"</script>'
LONG_NAME = "a-name-that-somebody-made-far-too-long-for-any-screen-" * 3


class StatusPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        folder = pathlib.Path(cls.folder.name)
        hostile = folder / PROGRAM
        hostile.write_text(f"#!/bin/sh\ncat <<'END'\n{LAST_WORDS}\nEND\nexit 1\n")
        hostile.chmod(0o755)
        text = '[server]\nlisten = "127.0.0.1:0"\n\n[routing]\ntimeout_floor_s = 120\nprobe_s = 0.5\n'
        for name, options in {"fast": ["-np", "2"], "slow": ["--decode-ms", "20", "--alias", MODEL],
                              "faulty": ["--faults", "1", "--fault", "error_event", "--say", FAULT],
                              LONG_NAME: ["--alias", "x" * 150]}.items():
            port = free_port()
            backend = subprocess.Popen([sys.executable, str(HERE / "scripted_llama.py"), "--port",
                                        str(port), "--seed", "1", *options])
            cls.addClassCleanup(backend.wait)
            cls.addClassCleanup(backend.kill)
            models = [] if name == "faulty" else ["both"]
            text += (f'\n[[backend]]\nname = "{name}"\nkind = "llama-server"\n'
                     f'url = "http://127.0.0.1:{port}"\nmodels = {json.dumps(models)}\n')
        text += (f'\n[[backend]]\nname = "hostile"\nkind = "llama-server"\n'
                 f'command = [{json.dumps(str(hostile))}]\n'
                 f'\n[[backend]]\nname = "absent"\nkind = "openai"\nmodels = ["both"]\n'
                 f'url = "http://127.0.0.1:{free_port()}"\n')
        config = folder / "parallax.toml"
        config.write_text(text)
        cls.server = subprocess.Popen([PARALLAX, "serve", "--config", str(config), "--log", "none"],
                                      stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.server.stdout.close)
        cls.addClassCleanup(cls.server.wait)
        cls.addClassCleanup(cls.server.kill)
        cls.url = cls.server.stdout.readline().split()[-1]
        cls.wait(lambda: sum(b["state"] == "ready" for b in cls.status()["backends"]) == 4
                 and "svg" in cls.backend("hostile")["reason"])
        for prompt in ("hello there", PROMPT, "hello there, again"):
            cls.ask({"model": "both", "messages": [{"role": "user", "content": prompt}]})
        cls.ask({"model": MODEL, "messages": [{"role": "user", "content": PROMPT}]})
        cls.ask({"messages": [{"role": "user", "content": "x"}], "stream": True}, "faulty")
        cls.ask({"model": "both", "messages": [{"role": "user", "content": "x"}]}, "absent")
        cls.browser = chromium.Browser(width=1000, height=900)
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def status(cls):
        with urllib.request.urlopen(cls.url + "/status.json", timeout=60) as answer:
            return json.loads(answer.read())

    @classmethod
    def backend(cls, name):
        return next(b for b in cls.status()["backends"] if b["name"] == name)

    @classmethod
    def wait(cls, true, seconds=120):
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(str(cls.status()))
            time.sleep(0.1)

    @classmethod
    def ask(cls, body, backend=None):
        request = urllib.request.Request(
            cls.url + "/v1/chat/completions", json.dumps({"max_tokens": 8} | body).encode(),
            {"x-parallax-backend": backend} if backend else {})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def open(self, width=1000, height=900):
        self.browser.complaints.clear()
        self.browser.resize(width, height)
        self.browser.open(self.url + "/")
        # The address is looked at too: until the page is there, the last one's cards are.
        self.browser.wait_for(f"location.href === '{self.url}/' && document.readyState === 'complete' "
                              "&& document.querySelectorAll('.card').length > 0")

    def texts(self, selector):
        return self.browser.run(f"[...document.querySelectorAll('{selector}')].map(e => e.innerText)")

    def card(self, name):
        return next(text for text in self.texts(".card") if text.startswith(name + "\n"))

    def test_backends_are_shown_as_they_are(self):
        self.open()
        status = self.status()
        self.assertEqual(len(self.texts(".card")), len(status["backends"]))
        for backend in status["backends"]:
            text = self.card(backend["name"])
            if backend["name"] == "hostile":  # dies and is started again all the time
                continue
            self.assertIn(backend["state"], text)
            self.assertIn(backend["place"], text)
            self.assertIn(f"{backend['completed']} / {backend['failed']} / {backend['cancelled']}", text)
        self.assertIn("4,096, 2", self.card("fast"))
        self.assertIn("exact", self.card("fast"))
        self.assertIn("Connection refused", self.card("absent"))
        self.assertIn("policy extended", self.texts("#totals")[0])

    def test_decisions_tell_reason_and_both_times(self):
        self.open()
        status = self.status()
        shown = self.texts(".decision")
        self.assertEqual(len(shown), len(status["decisions"]))
        for decision, text in zip(status["decisions"], shown):
            self.assertIn(decision["id"], text)
            self.assertIn(decision["reason"], text)
            if decision["backend"]:
                self.assertTrue(text.startswith(decision["backend"] + "\n"), text)
                self.assertRegex(text, r"predicted\s+[\d.,]+ m?s\s+measured\s+[\d.,]+ m?s")
            else:
                self.assertTrue(text.startswith(decision["status"] + "\n"), text)
                self.assertNotIn("predicted\n", text)
            if decision["error"]:
                self.assertIn(decision["error"], text)
        self.assertEqual({d["backend"] for d in status["decisions"]} - {"fast", LONG_NAME},
                         {"slow", "faulty", ""})

    def test_load_is_live(self):
        self.open()
        load = [subprocess.Popen(["curl", "-sN", self.url + "/v1/chat/completions", "-H",
                                  "x-parallax-backend: slow", "-d", json.dumps(
                                      {"max_tokens": 24, "messages": [{"role": "user",
                                                                       "content": f"load {i}"}]})],
                                 stdout=subprocess.DEVNULL) for i in range(12)]
        try:
            self.browser.wait_for("document.querySelectorAll('.jobs li').length > 1")
            self.browser.wait_for("[...document.querySelectorAll('.jobs li')].some("
                                  "e => e.innerText.startsWith('queued for '))")
            for client in load:
                self.assertEqual(client.wait(120), 0)
            self.browser.wait_for("document.querySelectorAll('.jobs li').length === 0")
            self.browser.wait_for("document.getElementById('totals').innerText.includes('0 under way')")
        finally:
            for client in load:
                client.kill()
                client.wait()

    def test_nothing_from_outside_is_ever_run(self):
        self.open()
        for hostile in (PROGRAM, LAST_WORDS, FAULT, MODEL.split("/")[-1]):
            self.browser.wait_for(f"document.body.innerText.includes({json.dumps(hostile)})")
        self.assertIsNone(self.browser.run("window.pwned"))
        self.assertEqual(self.browser.run("document.querySelectorAll('img, svg, b b').length"), 0)
        self.assertEqual(self.browser.run("document.scripts.length"), 1)
        self.assertEqual(self.browser.complaints, [])

    def test_a_script_that_got_in_could_not_talk_to_others(self):
        self.open()
        self.browser.run("fetch('http://127.0.0.1:9/').catch(() => { window.refused = true; }); 0")
        self.browser.wait_for("window.refused")
        self.assertIn("Content Security Policy", " ".join(self.browser.complaints))

    def test_a_phone_does_not_scroll_sideways(self):
        for width in (360, 320, 1000):
            with self.subTest(width):
                self.open(width)
                self.assertEqual(self.browser.run("innerWidth"), width)
                wide = self.browser.run("""[...document.querySelectorAll('body *')].filter(
                    e => e.getBoundingClientRect().right > innerWidth + 0.5).map(
                    e => e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 60))""")
                self.assertEqual(wide, [])
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                self.assertEqual(self.browser.complaints, [])

    def test_a_key_is_asked_for_and_used(self):
        with tempfile.TemporaryDirectory() as _:
            server = subprocess.Popen(
                [PARALLAX, "serve", "--listen", "127.0.0.1:0", "--api-key", "sesame", "--log", "none",
                 "--backend", "only=openai:http://127.0.0.1:1"], stdout=subprocess.PIPE, text=True)
            try:
                url = server.stdout.readline().split()[-1]
                self.browser.tell("Page.addScriptToEvaluateOnNewDocument",
                                  source="window.prompt = () => { window.asked = true; return 'sesame'; }")
                self.browser.open(url + "/")
                self.browser.wait_for("document.querySelectorAll('.card').length === 1")
                self.assertIs(self.browser.run("window.asked"), True)
                self.assertIn("only", self.texts(".card")[0])
            finally:
                server.terminate()
                self.assertEqual(server.wait(60), 0)
                server.stdout.close()
        self.browser.wait_for(
            "document.getElementById('lost').innerText === 'The router does not answer.'")


if __name__ == "__main__":
    if chromium.program() is None:
        print(f"skipped: no browser is installed (looked for {', '.join(chromium.NAMES)})")
        sys.exit(77)  # what ctest is told to count as skipped
    PARALLAX = sys.argv.pop(1)
    unittest.main()
