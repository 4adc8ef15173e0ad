"""Rules about one file at a time: format, size, what opens a header, cases beside operators."""

import concurrent.futures
import os
import pathlib
import re
import subprocess

from .tree import Finding

WARN_LINES, FAIL_LINES = 500, 800
CXX = (".cc", ".h")
CXX_FOLDERS = ("src", "include", "tests", "bench", "examples", "tools")
FORMAT_ERROR = re.compile(r"^(?P<path>[^:]+):(?P<line>\d+):\d+: error: ")
OPERATOR = re.compile(r"^OpDef (op_\w+)\(", re.MULTILINE)
PUBLIC_FIELDS = ("Role", "Ownership", "Threads")
# Highway compiles such a header once per SIMD target; its guard flips with the target.
TARGET_GUARD = "HWY_TARGET_TOGGLE"


def clang_format(tree):
    """clang-format would change nothing."""
    if tree.root is None:
        return
    paths = list(tree.under(*CXX_FOLDERS, endings=CXX))
    workers = os.cpu_count() or 1
    # Small batches keep every processor busy to the end: files differ much in length.
    batches = [paths[i:i + 8] for i in range(0, len(paths), 8)]

    def check(batch):
        command = ["clang-format", "--dry-run", "-Werror", "--style=file", *batch]
        return subprocess.run(command, cwd=tree.root, capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            results = list(pool.map(check, batches))
        except FileNotFoundError:
            yield Finding(".clang-format", 0, "clang-format is not installed; run ./dev check")
            return
    for result in results:
        seen = set()
        for line in result.stderr.splitlines():
            found = FORMAT_ERROR.match(line)
            if found and found["path"] not in seen:  # the first place of a file is enough
                seen.add(found["path"])
                yield Finding(found["path"], int(found["line"]), "not formatted; run ./dev fmt")
        if result.returncode and not seen:
            yield Finding(".clang-format", 0, result.stderr.strip().splitlines()[0])


def size(tree):
    """A source file warns past 500 lines and fails past 800."""
    for path in tree.under("", endings=(".cc", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt")):
        count = len(tree.lines(path))
        if count > FAIL_LINES:
            yield Finding(path, 0, f"{count} lines, the limit is {FAIL_LINES}: split it")
        elif count > WARN_LINES:
            yield Finding(path, 0, f"{count} lines, more than {WARN_LINES}", warning=True)


def opening_comment(lines):
    """The text of the // lines that a file starts with, without the slashes."""
    block = []
    for line in lines:
        if not line.startswith("//"):
            break
        block.append(line[2:].strip())
    return block


def header_comment(tree):
    """A header opens with what it is for; a public one also says Role, Ownership, Threads."""
    for path in tree.under("src", "include", endings=".h"):
        block = opening_comment(tree.lines(path))
        if not block or len(block[0].split()) < 3:
            yield Finding(path, 1, "the first line is not a comment that says what this header is")
        elif path.startswith("include/"):
            for field in PUBLIC_FIELDS:
                if not any(line.startswith(field + ":") for line in block):
                    yield Finding(path, 1, f"the opening comment lacks `{field}:`")


def included_once(tree):
    """A header has #pragma once, or Highway's per-target guard."""
    for path in tree.under("src", "include", "tests", "bench", "examples", endings=".h"):
        text = tree.text(path)
        if not re.search(r"^#pragma once$", text, re.MULTILINE) and TARGET_GUARD not in text:
            yield Finding(path, 1, "no #pragma once")


def operator_cases(tree):
    """Each file that defines an operator has tests/ops/<same name>.cases, which is not empty."""
    for path in tree.under("src/ops", endings=".cc"):
        operator = OPERATOR.search(tree.text(path))
        if not operator:
            continue
        cases = f"tests/ops/{pathlib.PurePosixPath(path).stem}.cases"
        if cases not in tree.paths:
            yield Finding(path, 0, f"{operator[1]} has no {cases}")
        elif not any(line.split("#")[0].strip() for line in tree.lines(cases)):
            yield Finding(cases, 0, "no case in it")
