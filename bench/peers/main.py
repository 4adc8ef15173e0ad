"""Whole models against other runtimes: alternating rounds, each program in a fresh process, ratios printed.

Before anything is timed the outputs are compared with ONNX Runtime's: a fast wrong answer counts for nothing.
A round is one process of each program, another one first each time, on the same inputs. Machines drift, so the
ratios of rounds say more than the milliseconds. With more than one thread the machine's own scaling is
measured first: what N copies of a one-thread matrix product gain is the most that N threads can.

Protocol `paper` is that of the paper: 5 runs to warm up, 20 timed, 30 different inputs; minimum, mean, maximum.
"""

import argparse
import dataclasses
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import machine  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
from cases import CASES  # noqa: E402
from harness.cli import Parallax  # noqa: E402
from process import present  # noqa: E402
from rivals import NAMES  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"


def cases_of(text):
    """The cases of a model: by their own names, the model's, or the path of its file."""
    path = pathlib.Path(text)
    name = path.name.removesuffix(".onnx").removesuffix(".graph") if path.suffix == ".onnx" else text
    in_place = path.name == text or path.parent.resolve() in (ROOT / "models", ROOT / "models/generated")
    found = [case for case in CASES if name in (case, CASES[case].model)]
    if found and in_place:
        return found
    raise argparse.ArgumentTypeError(f"no model {text} here; there are {', '.join(CASES)}; "
                                     f"`parallax bench` measures any other, without a rival")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev bench peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", type=cases_of,
                        help="name or file of: " + " ".join(CASES))
    parser.add_argument("--parallax", default=ROOT / "build/release/parallax", metavar="PROGRAM")
    parser.add_argument("--rival", action="append", choices=NAMES, help="repeatable; default all")
    parser.add_argument("--threads", type=int, action="append", metavar="N", help="repeatable; default 1 and 2")
    parser.add_argument("--protocol", choices=measure.PROTOCOLS, default="rounds",
                        help="`paper`, or rounds on one input (default)")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 5; of the paper 30")
    parser.add_argument("--runs", type=int, metavar="N",
                        help="timed runs a round; default: about a second of them; of the paper 20")
    parser.add_argument("--warmup", type=int, metavar="N", help="runs before them; default 3, of the paper 5")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)} as well")
    options = parser.parse_args(arguments)
    given = {key: value for key in ("rounds", "runs", "warmup") if (value := getattr(options, key)) is not None}
    options.threads = options.threads or [1, 2]
    if min([*options.threads, given.get("rounds", 1), given.get("runs", 1)]) < 1 or given.get("warmup", 0) < 0:
        parser.error("threads, rounds and runs are at least 1")
    options.models = list(dict.fromkeys(sum(options.models, []))) or list(CASES)
    options.rival = [name for name in NAMES if name in options.rival] if options.rival else list(NAMES)
    options.measure = dataclasses.replace(measure.PROTOCOLS[options.protocol], **given)
    return options


def main(arguments):
    options = parse(arguments)
    parallax = Parallax(options.parallax)
    versions, missing = present(options.rival)
    keys = ("min", "mean", "max") if options.protocol == "paper" else ("min", "median")
    tables = report.Report(["parallax", *versions], keys)
    result = {"command": " ".join(["./dev bench peers", *arguments]), "machine": machine.describe(),
              "versions": versions, "missing": missing, "protocol": dataclasses.asdict(options.measure),
              "scaling": {count: machine.scaling(count) for count in sorted(set(options.threads)) if count > 1},
              "results": []}

    def say(text=""):
        if not options.json:
            print(text, flush=True)

    for rival, reason in missing.items():
        say(f"{report.title(rival)} is left out: {reason}")
    for count, gain in result["scaling"].items():
        say(report.scaling_text(count, gain))
    checked = {}
    for threads in options.threads:
        rows = []
        say(f"\n{report.threads_title(threads)}, {tables.latency_title}")
        say(tables.line(tables.latency_head))
        for name in options.models:
            if name not in checked:
                checked[name] = measure.Measured(name, CASES[name], parallax, versions,
                                                 max(options.threads))
            rows.append(checked[name].time(threads, options.measure))
            say(tables.line(tables.latency(rows[-1])))
        say(tables.mean(rows))
        say(f"\n{report.threads_title(threads)}, {tables.cost_title}")
        for cells in (tables.cost_head, *map(tables.cost, rows)):
            say(tables.line(cells))
        result["results"] += rows
    for note in report.notes(result["results"]):
        say(note)
    say("\n" + report.HOW.rstrip())
    if options.json:
        print(json.dumps(result, indent=2))
    if options.write:
        PAGE.write_text(report.page(result, tables))
        say(f"written to {PAGE.relative_to(ROOT)}")
    return 1 if any(one["sides"]["parallax"]["outcome"] != "timed" for one in result["results"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
