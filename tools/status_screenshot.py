"""Takes docs/status-page.png anew: two real models behind the router, some requests, one picture.

usage: python tools/status_screenshot.py PARALLAX [OUT.png]

The models and requests are the demo's (demo/serve.py); three more requests are under way while the
picture is taken. On a busy machine predictions are late: take it on a quiet one.
Wants Chromium and the development packages.
"""
import pathlib
import subprocess
import sys
import tempfile
import threading

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "demo"), str(ROOT / "tests/serve")]
import chromium  # noqa: E402
import llm_models  # noqa: E402
import serve as demo  # noqa: E402

WIDTH, HEIGHT = 1000, 1190
COLOURS = 128
ROUNDS = 2  # of warming up, so that the latency models are measured ones


def talk(url):
    """What an afternoon leaves on the page, in a few seconds."""
    messages = [{"role": "system", "content": demo.SYSTEM}, demo.user("What is a cache?")]
    for question in ("And why is it small?", "Who fills it?", None):
        _, answer = demo.ask(url, {"messages": messages, "max_tokens": 24})
        messages += [answer["choices"][0]["message"], demo.user(question)] if question else []
    for prompt, budget in (("Name a color.", 4), ("Tell me a story.", 96), (demo.REPORT + "Good or bad?", 2)):
        demo.ask(url, {"messages": [demo.user(prompt)], "max_tokens": budget})


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = sys.argv[2] if len(sys.argv) == 3 else str(ROOT / "docs/status-page.png")
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "parallax.toml"
        config.write_text(demo.configuration(llm_models.paths(ROOT / "models/generated")))
        server = subprocess.Popen([sys.argv[1], "serve", "--config", str(config), "--log", "none"],
                                  stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split()[-1]
            demo.wait_ready(url)
            for _ in range(ROUNDS):
                demo.warm_up(url)
            talk(url)
            with chromium.Browser(WIDTH, HEIGHT) as browser:
                browser.open(url + "/")
                browser.wait_for("document.querySelectorAll('.decision').length > 0")
                long = {"messages": [demo.user("Tell me a long story about a harbour.")],
                        "max_tokens": 200, "ignore_eos": True}
                load = [threading.Thread(target=demo.ask, args=(url, long)) for _ in range(3)]
                for client in load:
                    client.start()
                browser.wait_for("[...document.querySelectorAll('.jobs li')].some("
                                 "e => e.innerText.startsWith('decode') && / [1-9]\\d tokens/.test("
                                 "e.innerText)) && document.querySelectorAll('.jobs li').length > 2")
                browser.screenshot(out, HEIGHT)
                # Half the size, and looks the same: rare colours are kept too.
                small = Image.open(out).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
                small.save(out, optimize=True)
                for client in load:
                    client.join()
        finally:
            server.terminate()
            server.wait(60)


if __name__ == "__main__":
    main()
