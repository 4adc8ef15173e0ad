"""Chromium without a window, driven over its DevTools pipe; the standard library is enough for it.

    with chromium.Browser(width=360, height=800) as browser:
        browser.open("http://127.0.0.1:8080/")
        browser.wait_for("document.querySelectorAll('.card').length > 0")
        assert not browser.complaints

`complaints` are the page's errors: uncaught exceptions, what went to console.error or warn, refused
loads and violations of its content security policy.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
ANSWER_S = 120  # on a busy machine a browser takes its time to start
# Puts the pipe's ends where Chromium expects them.
PUT_PIPE = ("import os, sys; r, w = int(sys.argv[1]), int(sys.argv[2]); os.dup2(r, 3); os.dup2(w, 4); "
            "os.execvp(sys.argv[3], sys.argv[3:])")


def program():
    """The browser's path, or None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, width, height, scale=1):
        self.complaints = []
        self.last = 0
        self.unread = b""
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # Above 10, so that putting one end at 3 or 4 cannot close the other.
        ours, theirs = [], []
        for end, (read, write) in enumerate((os.pipe(), os.pipe())):
            keep, give = (write, read) if end == 0 else (read, write)
            ours.append(keep)
            theirs.append(fcntl.fcntl(give, fcntl.F_DUPFD, 10))
            os.close(give)
        self.to, self.back = ours
        self.process = subprocess.Popen(
            [sys.executable, "-c", PUT_PIPE, *map(str, theirs), program(), "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
             "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=theirs)
        for fd in theirs:
            os.close(fd)
        try:
            targets = self.ask("Target.getTargets")["targetInfos"]
            page = next(target for target in targets if target["type"] == "page")
            self.session = self.ask("Target.attachToTarget", targetId=page["targetId"],
                                    flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.tell(domain + ".enable")
            self.resize(width, height, scale)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.to)
        os.close(self.back)
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def ask(self, method, session=None, **parameters):
        """Sends one command; returns its answer. Events that come meanwhile are looked through."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + ANSWER_S
        while True:
            answer = self.receive(end)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def tell(self, method, **parameters):
        return self.ask(method, self.session, **parameters)

    def receive(self, end):
        while b"\0" not in self.unread:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.back, 1 << 16)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.unread += piece
        text, self.unread = self.unread.split(b"\0", 1)
        message = json.loads(text)
        self.look(message.get("method"), message.get("params"))
        return message

    def look(self, event, about):
        if event == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(f"console.{about['type']}: {about['args']}")
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])

    def resize(self, width, height, scale=1, dark=False):
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=width < 500)
        self.tell("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.tell("Page.navigate", url=url)

    def run(self, script):
        """The value of a JavaScript expression in the page."""
        result = self.tell("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']['exception']['description']}")
        return result["result"].get("value")

    def wait_for(self, script, seconds=ANSWER_S):
        end = time.monotonic() + seconds
        while not self.run(script):
            if time.monotonic() > end:
                raise TimeoutError(f"this does not come true: {script}")
            time.sleep(0.1)

    def screenshot(self, path, height=None):
        """The page from its top, all of it or as high as said."""
        width = self.run("document.documentElement.clientWidth")
        height = height or self.run("document.documentElement.scrollHeight")
        picture = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))
