"""Single operators against other runtimes: models of one operator, made in memory, in alternating rounds.

Each shape is one that the evaluation models spend their time in. Outputs are compared with ONNX Runtime's
before anything is timed; a round is a fresh process of parallax, then one of each rival, on the same inputs.
Machines drift: the ratios of rounds say more than the rates.

A rival is called from Python and copies its arrays, microseconds that a small operator would be lost in. So a
model repeats its operator: layers that feed each other where they keep the shape (or alternate between two
widths), else layers that read the same input and whose outputs are added. Layers that turn a picture into much
larger ones are followed by a pool. The rivals' heaps keep what is freed, or each copied array would take new
pages. Nothing is subtracted; what a model that does next to nothing takes in each program is printed before
the table: parallax is timed inside its process, without the copies.
"""

import argparse
import dataclasses
import fnmatch
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import machine  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
import shape_report  # noqa: E402
import summary  # noqa: E402
from cases import Case  # noqa: E402
from harness.cli import Parallax  # noqa: E402
from process import KEEPING, present  # noqa: E402
from rivals import NAMES  # noqa: E402
from shapes import OVERHEADS, SHAPES  # noqa: E402

PROTOCOL = measure.Protocol(rounds=5, warmup=3, runs=0, new_inputs=False, seconds=0.3)


def shapes_of(text):
    """Those of a family, or whose names match a shell pattern."""
    found = [shape for shape in SHAPES.values() if text == shape.family or fnmatch.fnmatch(shape.name, text)]
    if not found:
        families = dict.fromkeys(shape.family for shape in SHAPES.values())
        raise argparse.ArgumentTypeError(f"no shape {text}; families are {', '.join(families)}")
    return found


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev bench shapes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="shapes: " + " ".join(SHAPES))
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", type=shapes_of,
                        help="name, family (gemm, conv3x3, dw3x3...) or shell pattern of names; default all")
    parser.add_argument("--parallax", default=ROOT / "build/release/parallax", metavar="PROGRAM")
    parser.add_argument("--rival", action="append", choices=NAMES, help="repeatable; default all")
    parser.add_argument("--threads", type=int, action="append", metavar="N", help="repeatable; default 1")
    parser.add_argument("--rounds", type=int, default=PROTOCOL.rounds, metavar="N", help="default %(default)s")
    parser.add_argument("--seconds", type=float, default=PROTOCOL.seconds, metavar="S",
                        help="of timed runs in a round of one program; default %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args(arguments)
    options.threads = options.threads or [1]
    if min([*options.threads, options.rounds]) < 1 or not options.seconds > 0:
        parser.error("threads and rounds are at least 1, seconds more than 0")
    options.shapes = list(dict.fromkeys(sum(options.shapes, []))) or list(SHAPES.values())
    options.rival = [name for name in NAMES if name in options.rival] if options.rival else list(NAMES)
    return options


def main(arguments):
    options = parse(arguments)
    parallax = Parallax(options.parallax)
    versions, missing = present(options.rival)
    sides = ["parallax", *versions]
    protocol = dataclasses.replace(PROTOCOL, rounds=options.rounds, seconds=options.seconds)
    result = {"command": " ".join(["./dev bench shapes", *arguments]), "machine": machine.describe(),
              "versions": versions, "missing": missing, "protocol": dataclasses.asdict(protocol),
              "calls": [], "results": []}

    def say(text=""):
        if not options.json:
            print(text, flush=True)

    def measured(shape):
        # A layer may be off by the limit; independent errors of a chain add up as their squares do.
        limit = summary.DIFFERENCE_LIMIT * shape.layers**0.5
        case = Case(shape.name, shape.inputs, shape.model, limit)
        return measure.Measured(shape.name, case, parallax, versions, max(options.threads), KEEPING)

    for rival, reason in missing.items():
        say(f"{report.title(rival)} is left out: {reason}")
    checked = {}
    for threads in options.threads:
        say(f"\n{report.threads_title(threads)}")
        for shape in (*OVERHEADS, *options.shapes):
            if shape not in checked:
                checked[shape] = measured(shape)
            timed = checked[shape].time(threads, protocol)
            if shape in OVERHEADS:
                result["calls"].append(timed)
                say(shape_report.call_text(shape.name, timed))
                if shape is OVERHEADS[-1]:
                    say("\n" + shape_report.line(shape_report.head(sides)))
                continue
            row = shape_report.row(shape, timed, checked[shape].profile(threads))
            result["results"].append(row)
            say(shape_report.line(shape_report.cells(shape, row, sides)))
        rows = [row for row in result["results"] if row["threads"] == threads]
        for name, mean in shape_report.means(rows).items():
            say(f"geometric mean of ratios, {name}: {mean:.2f}")
    for note in report.notes([*result["calls"], *result["results"]]):
        say(note)
    say("\n" + shape_report.HOW.rstrip())
    if options.json:
        print(json.dumps(result, indent=2))
    return 1 if any(one["sides"]["parallax"]["outcome"] != "timed" for one in result["results"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
