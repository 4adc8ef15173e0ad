"""The command lines of serve and route: what is wrong with them, and what outlives its reader.

usage: python serve_cli_test.py PARALLAX [UNITTEST OPTION...]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

PROFILE = str(pathlib.Path(__file__).resolve().parents[2] / "profiles/rk3588-deepseek-1.5b.json")
PARALLAX = ""


def run(*arguments):
    return subprocess.run([PARALLAX, *arguments], capture_output=True, text=True, timeout=60)


class CommandLine(unittest.TestCase):
    def config(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "parallax.toml"
        path.write_text(text)
        return str(path)

    def fails(self, code, message, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertTrue(done.stderr.startswith("parallax: "), done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_wrong_command_line_is_an_error_of_usage(self):
        at = ("--backend", "a=http://127.0.0.1:1")
        self.fails(2, "no backend is given", "serve")
        self.fails(2, "'x' is not NAME=URL", "serve", "--backend", "x")
        self.fails(2, "for a model file write x=llama-server:m.gguf",
                   "serve", "--backend", "x=m.gguf")
        self.fails(1, "two backends are named 'a'", "serve", *at, *at)
        self.fails(1, "there is no program 'llama-server-that-is-not' in PATH", "serve", "--config",
                   self.config('[[backend]]\nname = "a"\ncommand = ["llama-server-that-is-not"]'))
        self.fails(1, "m.gguf is a language model", "serve", *at, "--model", "m.gguf")
        self.fails(2, "https is not spoken here", "serve", "--backend", "a=https://host")
        self.fails(2, "no port", "serve", *at, "--listen", "localhost")
        self.fails(2, "no policy 'bogus'", "serve", *at, "--policy", "bogus")
        self.fails(2, "give a REQUEST.json or --prompt-tokens", "route", "--model", PROFILE)
        self.fails(2, "no backend is given", "route", "--prompt-tokens", "8")
        self.fails(2, "NAME=TOKENS", "route", "--model", PROFILE, "--prompt-tokens", "8",
                   "--cached", "nobody=4")

    # A stream over a folder threw an "internal error".
    def test_files_that_cannot_be_read_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.fails(1, f"cannot read {folder}: Is a directory", "serve", "--config", folder)
            self.fails(1, f"cannot read {folder}: Is a directory",
                       "route", folder, "--model", PROFILE)
            self.fails(1, f"cannot read {folder}: Is a directory",
                       "route", "--prompt-tokens", "8", "--model", folder)
            self.fails(1, "No such file", "serve", "--config", folder + "/nothing.toml")

    def test_route_decides_for_a_device_that_is_not_here(self):
        ask = ("route", "--model", PROFILE, "--prompt-tokens", "2048", "--max-tokens", "64")
        self.assertTrue(run(*ask).stdout.startswith("npu: "))
        self.assertTrue(run(*ask, "--cached", "cpu=1800").stdout.startswith("cpu: "))
        long = run("route", "--model", PROFILE, "--prompt-tokens", "9000")
        self.assertEqual(long.returncode, 1)
        self.assertIn("9,000 tokens, the largest context holds 4,096", long.stderr)

    # SIGPIPE ended the server with the reader of its log.
    def test_the_server_outlives_the_reader_of_its_log(self):
        server = subprocess.Popen(
            [PARALLAX, "serve", "--listen", "127.0.0.1:0", "--backend", "a=http://127.0.0.1:1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split()[-1]
            server.stderr.close()
            body = b'{"messages": [{"role": "user", "content": "hi"}]}'
            for _ in range(3):  # each is refused, and each refusal is logged
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(url + "/v1/chat/completions", body, timeout=60)
                refused.exception.close()
            self.assertIsNone(server.poll())
        finally:
            server.terminate()
            self.assertEqual(server.wait(60), 0)
            server.stdout.close()


if __name__ == "__main__":
    PARALLAX = sys.argv.pop(1)
    unittest.main()
