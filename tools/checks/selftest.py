"""Feeds each rule trees it must object to, and trees it must not."""

import pathlib
import subprocess
import tempfile

from . import files
from .rules import RULES
from .tree import Tree

TABLE = """# Architecture
| room | what it holds | may include |
|---|---|---|
| base | x | - |
| ir | x | base |
| ops | x | ir base |
| cli | x | all |
"""
GOOD_HEADER = "// Shapes: extents of a tensor.\n#pragma once\n"
PUBLIC = "// Session: runs a model.\n//\n// Role:       a\n// Ownership:  b\n// Threads:    c\n#pragma once\n"


def rooms(files_):
    return {"docs/architecture.md": TABLE, **files_}


def code(text):
    return {"src/base/x.cc": text}


# rule -> (files, part of the message that must come out, or None where nothing may)
CASES = {
    "rooms": [
        (rooms({"src/ir/a.h": '#include "base/b.h"\n#include "ir/c.h"\n#include <vector>\n'}), None),
        (rooms({"src/base/a.h": '\n#include "ir/c.h"\n'}), "src/base/a.h:2: rooms: room base includes"),
        (rooms({"src/ir/a.cc": "#include <ops/c.h>\n"}), "room ir includes ops/c.h"),
        (rooms({"src/cli/a.cc": '#include "ops/c.h"\n#include "parallax/session.h"\n'}), None),
        (rooms({"src/ir/a.cc": '#include "parallax/session.h"\n'}), "below the public headers"),
        (rooms({"src/attic/a.cc": "\n"}), "src/attic is in no row"),
        (rooms({"src/a.cc": "\n"}), "is in no row"),
        (rooms({"src/ir/a.cc": '#include "b.h"\n', "src/ir/b.h": ""}), 'write "ir/b.h"'),
        (rooms({"src/ir/a.cc": '#include "hwy/highway.h"\n'}), None),
        (rooms({"examples/a.cc": '#include "ir/graph.h"\n'}), "public headers only"),
        (rooms({"include/parallax/a.h": '#include "ir/graph.h"\n'}), "public headers only"),
        ({"docs/architecture.md": TABLE.replace("| base | x | - |", "| base | x | ops |")}, "has a cycle"),
        ({"docs/architecture.md": TABLE.replace("| ir | x | base |", "| ir | x | bsae |")}, "no room"),
        ({"docs/architecture.md": "nothing here\n"}, "no table"),
        ({"src/base/a.h": "\n"}, "the room table is missing"),
    ],
    "cycles": [
        ({"src/ir/a.h": '#include "ir/b.h"\n', "src/ir/b.h": '#include "ir/a.h"\n'}, "includes itself"),
        ({"src/ir/a.h": '#include "ir/a.h"\n'}, "includes itself"),
        ({"src/ir/a.h": '#include "ir/b.h"\n#include "ir/c.h"\n', "src/ir/b.h": '#include "ir/c.h"\n',
          "src/ir/c.h": ""}, None),
    ],
    "size": [
        (code("\n" * 500), None),
        (code("\n" * 501), "size: warning: 501 lines"),
        (code("\n" * 800), "size: warning: 800 lines"),
        (code("\n" * 801), "801 lines, the limit is 800"),
    ],
    "header": [
        ({"src/base/a.h": GOOD_HEADER}, None),
        ({"src/base/a.h": "#pragma once\n// Shapes: extents of a tensor.\n"}, "the first line is not"),
        ({"src/base/a.h": "//\n// Shapes: extents of a tensor.\n#pragma once\n"}, "the first line is not"),
        ({"src/base/a.h": "// Shapes.\n#pragma once\n"}, "the first line is not"),
        ({"include/parallax/a.h": PUBLIC}, None),
        ({"include/parallax/a.h": PUBLIC.replace("// Threads:    c\n", "")}, "lacks `Threads:`"),
        ({"include/parallax/a.h": GOOD_HEADER}, "lacks `Role:`"),
    ],
    "once": [
        ({"src/base/a.h": GOOD_HEADER}, None),
        ({"src/base/a.h": "// Shapes: extents of a tensor.\n#ifndef A\n#define A\n#endif\n"}, "no #pragma once"),
        ({"src/kernels/a-inl.h": "// Body.\n#if defined(A_H) == defined(HWY_TARGET_TOGGLE)\n#endif\n"}, None),
    ],
    "globals": [(code(text), f"mutable `{name}`") for name, text in [
        ("count", "namespace a {\nint count = 0;\n}\n"),
        ("count", "int count;"),
        ("count", "static int count{3};"),
        ("g_names", "namespace {\nstd::map<int, const char*> g_names;\n}"),
        ("g_text", 'const char* g_text = "a";'),
        ("g_hook", "void (*g_hook)(int) = nullptr;"),
        ("g_hits", "std::atomic<int> g_hits(0);"),
        ("table", "int table[] = {1, 2, 3};"),
        ("g", "struct S { int a; } g;"),
        ("calls", "int F() {\n  static int calls = 0;\n  return ++calls;\n}"),
        ("cache", "int F() { if (true) { static std::vector<int> cache{1, 2}; } return 0; }"),
        ("pool", "Pool& F() { static Pool& pool = *new Pool(); return pool; }"),
        ("scratch", "thread_local std::vector<float> scratch;"),
        ("scratch", "void F() { thread_local float scratch[4]; }"),
        ("live_", "class C {\n public:\n  int x_ = 0;\n  inline static int live_ = 0;\n};"),
        ("last", "class C { void F() { for (;;) { static int last = 1; } } };"),
        ("late", "Foo::Foo() : a_(1), b_{2} { G(); }\nint late = 3;"),
        ("late", "R\"(\" )\" )\"; }\nint late = 3;"),
        ("g_value", "template <class T>\nT g_value = T();"),
        ("seen", "void F() { switch (a) { case 1: static bool seen = false; } }"),
        ("unexplained", "int unexplained = 0;  // hidden-global ok:\n"),
    ]] + [(code(text), None) for text in [
        "constexpr int kCount = 3;\nconst int kOther = 4;\nstatic const char* const kNames[] = {\"a\", \"b\"};",
        "inline constexpr std::array<int, 2> kPair{1, 2};",
        "namespace a::b {\nclass C;\nstruct D { int x = 0; int y{1}; static int F(); };\nenum class E { kA, kB };\n}",
        "int F(int x = 3);\nint F(int x) { int y = x; auto g = [&] { return y; }; return g(); }",
        "Foo::Foo() : a_(1), b_{2}, c_{3} {}\nFoo& Foo::operator=(const Foo& o) { a_ = o.a_; return *this; }",
        "using T = int;\ntypedef int U;\nextern int g_elsewhere;\nstatic_assert(sizeof(int) == 4);",
        "template <class T> concept Small = sizeof(T) < 4;\ntemplate <class T, int N = 3> T G(T x) { return x; }",
        "void F() { static constexpr int kA = 1; static const Table kT = Make(); static_cast<void>(kA); }",
        "// int commented = 0;\n/* int also = 0; */\n#define COUNT int count = 0;\nconst char kS[] = \"int s = 0;\";",
        "HWY_BEFORE_NAMESPACE();\nnamespace x {\nHWY_EXPORT(Foo);\nTEST(A, B) { int c = 0; }\n}",
        "class C { public: static C Make(); static constexpr int kN = 2; C(const C&) = delete; int a_[3] = {}; };",
        "int slot = 0;  // hidden-global ok: a signal handler has no other place\n",
        "struct A { bool operator==(const A&) const = default; };\nbool operator<(A a, A b) { return a.x < b.x; }",
        "extern \"C\" {\nint F(void);\n}\nextern \"C\" int G(void);\nnamespace n = std::chrono;",
        "const struct { int a; } kTable[] = {{1}, {2}};\nenum Kind { kX, kY };",
        "std::vector<int> F() { return {1, 2}; }\nauto G() -> std::map<int, int> { return {{1, 2}}; }",
        "template <> struct Traits<int> { static constexpr bool kOk = true; };\n[[nodiscard]] int F();",
    ]],
    "cases": [
        ({"src/ops/relu.cc": "OpDef op_relu() {\n", "tests/ops/relu.cases": "# a\nx=f32[1]\n"}, None),
        ({"src/ops/relu.cc": "OpDef op_relu() {\n"}, "op_relu has no tests/ops/relu.cases"),
        ({"src/ops/relu.cc": "OpDef op_relu() {\n", "tests/ops/relu.cases": "# a\n"}, "no case in it"),
        ({"src/ops/shape.cc": "void Helper() {\n"}, None),
    ],
    "links": [
        ({"README.md": "see [a](docs/a.md#the-way) and [b](https://x.y/z)", "docs/a.md": "## The way\n[up](../README.md)"}, None),
        ({"README.md": "\nsee [a](docs/b.md)"}, "README.md:2: links: link to docs/b.md: no such file"),
        ({"README.md": "![a](docs/plot.svg)"}, "no such file"),
        ({"README.md": "[a](docs/a.md#other)", "docs/a.md": "## The way"}, "no such heading"),
        ({"README.md": "[a](../outside.md)"}, "no such file"),
        ({"README.md": "```\n[a](gone.md)\n```\n`[b](gone.md)`"}, None),
    ],
}


def check_format():
    """clang-format works on files, so it gets a repository of its own."""
    style = "BasedOnStyle: Google\n"
    for text, expected in (("int f() { return 1; }\n", 0), ("int  f( ) {return 1 ;}\n", 1)):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            (root / "src").mkdir()
            (root / "src/a.cc").write_text(text)
            (root / ".clang-format").write_text(style)
            found = list(files.clang_format(Tree.of_repository(root)))
            if len(found) != expected:
                yield f"format: {text!r} gave {[f.text('format') for f in found]}"


def run():
    wrong, count = list(check_format()), 2
    for rule, cases in CASES.items():
        for number, (content, expected) in enumerate(cases, start=1):
            count += 1
            found = [finding.text(rule) for finding in RULES[rule](Tree(content))]
            if expected is None and found:
                wrong.append(f"{rule} {number}: should hold, but: {found[0]}")
            elif expected is not None and not any(expected in text for text in found):
                wrong.append(f"{rule} {number}: should find {expected!r}, found {found or 'nothing'}")
    untested = set(RULES) - set(CASES) - {"format"}
    wrong += [f"{rule}: has no case" for rule in sorted(untested)]
    for line in wrong:
        print("self-test:", line)
    print(f"check: self-test, {count} cases, {len(wrong)} wrong")
    return 1 if wrong else 0
