"""Pytest plugin: llama.cpp's server tests, with this project's router between them and the server.

Loaded by llama_cpp_tests.py (`-p llama_cpp_plugin`); nothing of llama.cpp lies in this tree. The
tests' own ServerProcess keeps its options and its requests; the plugin replaces how it starts:
tools/llama_server.py with the wanted options and, where PARALLAX names the program, `parallax serve`
in front of it. Without PARALLAX the same tests go to the llama-server itself.

What a test means for the router:
- /completion and /completions are llama-server's own protocol. They are sent as /v1/completions with
  "verbose", whose answer holds llama-server's fields beside OpenAI's; those are handed to the test.
- /tokenize, /slots and the like only prepare or look: they go to the llama-server itself.
- A path that the router does not offer skips the test.
The tests expect what stories260K says, a model that is not at hand: match_regex accepts any text, the
parameter n_prompt any count, and completions do not end early (ignore_eos) where the test leaves that
open. What the model said is compared between the runs instead: every answer is written to REPORT.
"""
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARALLAX = os.environ.get("PARALLAX", "")
MODEL = os.environ.get("MODEL", "")
REPORT = os.environ.get("REPORT", "")
START_S = 60

NATIVE = ("/completion", "/completions")
OFFERED = ("/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/models", "/models",
           "/health", "/v1/health", "/")
BACKENDS = ("/tokenize", "/detokenize", "/slots", "/props", "/apply-template", "/metrics")
# What the router does otherwise on purpose: a test's name, its cases' first words too where only some
# are meant, and why it is not run.
BY_DESIGN = {
    "test_basic.py::test_server_models": "the router's list of models has \"auto\" as well",
    "test_basic.py::test_server_model_aliases_and_tags": "the router's list of models has ids only",
    "test_basic.py::test_no_ui": "the page at / is the router's own",
    "test_completion.py::test_completion[Write": "a stream's debug object, which the router gets, has "
                                                 "no tokens",
    "test_security.py::test_cors_options": "the router lets pages of configured origins ask, not of any",
    "test_sleep.py::test_server_sleep": "the router's list of models has \"auto\" as well",
}

# Options of ServerProcess: how tools/llama_server.py takes them.
VALUES = {"n_ctx": "-c", "n_batch": "-b", "n_ubatch": "-ub", "n_predict": "-n", "temperature": "--temp",
          "seed": "--seed", "model_alias": "--alias", "model_tags": "--tags",
          "chat_template": "--chat-template", "chat_template_file": "--chat-template-file",
          "slot_save_path": "--slot-save-path", "sleep_idle_seconds": "--sleep-idle-seconds",
          "cache_ram": "--cache-ram"}
SWITCHES = {"server_metrics": "--metrics", "kv_unified": "--kv-unified", "swa_full": "--swa-full",
            "server_slots": "--slots", "enable_ctx_shift": "--context-shift", "debug": "--verbose",
            "no_cache_idle_slots": "--no-cache-idle-slots"}
MISSING = {"model_draft": "a draft model", "lora_files": "a LoRA adapter",
           "server_embeddings": "an embedding model", "server_reranking": "a reranking model",
           "mmproj_url": "a model that sees", "media_path": "a model that sees",
           "spec_type": "speculative decoding",
           "server_tools": "llama-server's tools", "mcp_servers_config": "llama-server's MCP tools",
           "mcp_servers_json": "llama-server's MCP tools", "ui_mcp_proxy": "llama-server's MCP proxy",
           "gcp_compat": "Google's protocol", "models_dir": "llama-server's own router",
           "models_preset": "llama-server's own router", "backend_sampling": "sampling on the device",
           "reasoning": "the reasoning option",
           "cors_origins": "llama-server's CORS options"}

sys.modules["wget"] = types.ModuleType("wget")  # the tests import it to download; nothing is here
trace = []   # what the running test was answered
asked = 0    # its requests that the router has to answer
folder = tempfile.TemporaryDirectory()


def free_ports():
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def command(server, port):
    if not (server.model_hf_repo or "").startswith(("ggml-org/test-model-stories260K", "ggml-org/models")) \
            or "bert" in (server.model_hf_file or "") or "split" in (server.model_hf_file or ""):
        pytest.skip(f"its model is not at hand: {server.model_hf_repo or 'none'}")
    for name, what in MISSING.items():
        if getattr(server, name, None):
            pytest.skip(f"wants {what}")
    if "," in server.server_host:
        pytest.skip("the router listens on one address")
    words = [sys.executable, str(ROOT / "tools/llama_server.py"), "-m", MODEL, "--port", str(port), "-t", "1",
             "--jinja" if server.jinja else "--no-jinja"]
    for name, option in VALUES.items():
        if (value := getattr(server, name)) is not None:
            words += [option, str(value)]
    words += [option for name, option in SWITCHES.items() if getattr(server, name)]
    # llama-server's own choice where none is named: four slots that share the context.
    words += ["-np", str(server.n_slots)] if server.n_slots else ["-np", "4", "--kv-unified"]
    if server.api_key and not PARALLAX:
        words += ["--api-key", server.api_key]
    return words


def router_command(server, port):
    config = pathlib.Path(folder.name) / f"{port}.toml"
    config.write_text(f'[server]\nlisten = "{server.server_host}:{server.server_port}"\n'
                      f'api_key = {json.dumps(server.api_key or "")}\n'
                      '[[backend]]\nname = "llama"\nkind = "llama-server"\nmodels = ["*"]\n'
                      f'url = "http://127.0.0.1:{port}"\n')
    return [PARALLAX, "serve", "--config", str(config)]


def wait_healthy(server, host, port, process, seconds):
    import requests
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[1]} ended with {process.returncode}: "
                               + server.log.read_text(errors="replace")[-2000:])
        try:
            if requests.get(f"http://{host}:{port}/health", timeout=5).status_code == 200:
                return
        except requests.exceptions.RequestException:
            pass
        time.sleep(0.02)
    raise TimeoutError(f"{process.args[1]} was not ready in {seconds} s")


def start(server, timeout_seconds=START_S):
    import utils
    if not hasattr(server, "backend_port"):  # a test may stop its server, start it, and keep its URL
        server.backend_port, front = free_ports()
        server.server_port = front if PARALLAX else server.backend_port
    words = command(server, server.backend_port)
    server.log = pathlib.Path(server.log_path or f"{folder.name}/{server.backend_port}.log")
    server.processes = []
    utils.server_instances.add(server)
    environment = os.environ | {"LLAMA_SERVER_DEBUG_FAKE_TIMING": "1"}
    with open(server.log, "a") as log:
        def launch(line):
            server.processes.append(subprocess.Popen(line, stdout=log, stderr=log, env=environment))
            return server.processes[-1]

        wait_healthy(server, "127.0.0.1", server.backend_port, launch(words), timeout_seconds)
        if PARALLAX:
            wait_healthy(server, server.server_host, server.server_port,
                         launch(router_command(server, server.backend_port)), timeout_seconds)


def stop(server):
    import utils
    utils.server_instances.discard(server)
    processes, server.processes = getattr(server, "processes", []), []
    wrong = None
    for process in reversed(processes):  # the router first, while its backend lives
        process.terminate()
        try:
            code = process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = "nothing within 20 s"
        if process.args[0] == PARALLAX and code != 0:
            wrong = f"parallax serve ended with {code}: "
    if wrong:
        raise AssertionError(wrong + server.log.read_text(errors="replace")[-2000:])


def native_answer(body):
    """llama-server's own answer out of a verbose OpenAI one, as far as both say it."""
    if not isinstance(body, dict) or "__verbose" not in body:
        return body
    own = dict(body["__verbose"])
    choices = body.get("choices") or [{}]
    own["content"] = choices[0].get("text", "")
    if choices[0].get("logprobs"):
        own["completion_probabilities"] = choices[0]["logprobs"]["content"]
    for key in ("timings", "prompt_progress"):
        if key in body:
            own[key] = body[key]
    return own


def route(server, path, data, host):
    """Where a request goes: (path, data, port, native)."""
    global asked
    plain = path.split("?")[0]
    if plain in NATIVE:
        asked += 1
        body = {"ignore_eos": True, "verbose": True} | (data or {})
        return "/v1/completions", body, server.server_port, True
    if plain in OFFERED:
        asked += 1
        if plain == "/v1/completions":
            data = {"ignore_eos": True} | (data or {})
        return path, data, server.server_port, False
    if plain.startswith(BACKENDS) and host is None:
        return path, data, server.backend_port, False
    pytest.skip(f"the router does not offer {plain}")


class at_port:
    """The server's address names another port within; make_url reads it at once."""

    def __init__(self, server, port):
        self.server, self.port = server, port

    def __enter__(self):
        self.kept, self.server.server_port = self.server.server_port, self.port

    def __exit__(self, *_):
        self.server.server_port = self.kept


def install(utils):
    make_request = utils.ServerProcess.make_request
    make_stream_request = utils.ServerProcess.make_stream_request
    match_regex = utils.match_regex

    def request(server, method, path, data=None, headers=None, timeout=600, host=None):
        if method == "OPTIONS" and path in NATIVE:
            data = None
        to, body, port, native = route(server, path, data, host)
        # Requests run in parallel: only a port that differs may touch the shared object.
        if port == server.server_port:
            answer = make_request(server, method, to, body if method == "POST" else data, headers,
                                  timeout, host)
        else:
            with at_port(server, port):
                answer = make_request(server, method, to, body, headers, timeout, host)
        if not to.startswith(BACKENDS):
            trace.append([method, to, answer.status_code, answer.body])
        if native and answer.status_code == 200:
            answer.body = native_answer(answer.body)
        return answer

    def stream(server, method, path, data=None, headers=None, host=None):
        to, body, _, native = route(server, path, data, host)
        entry = [method, to, 0, []]
        trace.append(entry)
        try:
            for chunk in make_stream_request(server, method, to, body, headers, host):
                entry[2] = 200
                entry[3].append(chunk)
                yield native_answer(chunk) if native else chunk
        except utils.ServerError as error:
            entry[2:] = [error.code, error.body]
            raise

    def matches(regex, text):
        if not isinstance(text, str):
            return match_regex(regex, text)
        trace.append(["text", regex, 0, text])
        return True

    utils.ServerProcess.start = start
    utils.ServerProcess.stop = stop
    utils.ServerProcess.make_request = request
    utils.ServerProcess.make_stream_request = stream
    utils.match_regex = matches
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.ServerPreset.router = staticmethod(lambda: pytest.skip("llama-server's own router"))


class AnyCount(int):
    """Tokens that stories260K's tokenizer would count: equal to what ours does."""

    def __eq__(self, other):
        return isinstance(other, int) and other > 0

    __hash__ = int.__hash__


def pytest_configure(config):
    import openai
    import utils
    install(utils)
    client_init = openai.OpenAI.__init__

    def counted(client, base_url, **options):
        global asked
        asked += 1
        client_init(client, base_url=base_url, max_retries=0, **options)

    openai.OpenAI.__init__ = counted


def pytest_collection_modifyitems(items):
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "n_prompt" in parameters:
            parameters["n_prompt"] = AnyCount(parameters["n_prompt"])
        why = next((why for test, why in BY_DESIGN.items()
                    if (item.nodeid + "[").startswith(f"unit/{test}" + ("" if "[" in test else "["))), None)
        if item.get_closest_marker("slow"):
            why = "slow: wants a model of gigabytes"
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_runtest_setup(item):
    global asked
    trace.clear()
    asked = 0
    random.seed(0)  # both runs draw the same prompts


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "setup" and report.passed:
        return
    entry = {"test": item.nodeid.removeprefix("unit/"), "when": report.when, "outcome": report.outcome,
             "asked": asked, "trace": trace, "message": "", "place": ""}
    if report.skipped:
        entry["message"] = call.excinfo.value.msg
    elif report.failed:
        at = [f for f in call.excinfo.traceback if "test_" in str(f.path)]
        entry["place"] = f"line {at[-1].lineno + 1}" if at else ""
        entry["message"] = str(call.excinfo.value) or call.excinfo.typename
    with open(REPORT, "a") as out:
        out.write(json.dumps(entry, default=str) + "\n")
