"""What a benchmark says: tables for people on a terminal, and the same as a Markdown page."""

import itertools

import summary
from rivals import rival_class

MODEL_WIDTH = 29
HOW = """\
Ratio: the best rival's fastest run divided by parallax's; above 1 parallax is faster. In brackets minimum and
median of the ratios of single rounds. Load time, with the file in memory, includes planning. Memory is the peak
that was resident: what reading the model and running it added to the process. Parallax and ONNX Runtime read
the model as it is; the others get it with its extents fixed and without `If`. Rivals are called from Python,
which is some microseconds of a run.
"""


def title(side):
    return side if side == "parallax" else rival_class(side).title


def threads_title(threads):
    return f"{threads} thread" + "s" * (threads > 1)


def scaling_text(copies, gain):
    return f"{copies} copies of a one-thread matrix product at once do {gain:.2f} times the work of one"


def sentence(text):
    return text[0].upper() + text[1:]


def number(milliseconds):
    """Three digits or more that say something."""
    return f"{milliseconds:.{3 if milliseconds < 1 else 2 if milliseconds < 100 else 0}f}"


class Report:
    """Cells of the tables. `sides` are parallax and the rivals that are here; `keys` of the latency to show."""

    def __init__(self, sides, keys):
        self._sides, self._keys = sides, keys
        self._width = 4 + 8 * len(keys)
        self.latency_title = f"latency in ms ({' / '.join(keys)})"
        self.latency_head = ["model", *map(title, sides), "ratio", "against"]
        self.cost_title = "load time in ms / memory in MB"
        self.cost_head = ["model", *map(title, sides)]

    def latency(self, row):
        cells = [side["outcome"] if side["outcome"] != "timed" else
                 " / ".join(number(side["latency_ms"][key]) for key in self._keys)
                 for side in map(row["sides"].get, self._sides)]
        ratio = row["ratio"]
        if not ratio:
            return [row["model"], *cells, "", ""]
        return [row["model"], *cells, f"{ratio['of_minima']:.2f} ({ratio['min']:.2f} / {ratio['median']:.2f})",
                title(ratio["best"])]

    def cost(self, row):
        return [row["model"], *("" if side["outcome"] != "timed" else
                                f"{side['load_ms']:.0f} / {side['peak_bytes'] / 1e6:.0f}"
                                for side in map(row["sides"].get, self._sides))]

    def line(self, cells):
        """One line for people; columns beyond the sides are as wide as the ratio's."""
        last = 1 + len(self._sides)
        parts = [f"{cells[0]:{MODEL_WIDTH}}", *(f"{cell:>{self._width}}" for cell in cells[1:last]),
                 *(f"  {cell:18}" for cell in cells[last:])]
        return "".join(parts).rstrip()

    def mean(self, rows):
        """The geometric mean of the ratios, as a sentence."""
        ratios = [row["ratio"]["of_minima"] for row in rows if row["ratio"]]
        if not ratios:
            return "no ratio"
        return f"geometric mean of {len(ratios)} ratios: {summary.geometric_mean(ratios):.2f}"


def notes(rows):
    """A line for each outcome that is not a time; the same for every thread count."""
    found = {f"{row['model']}, {title(name)}: {side['outcome']}: {side['detail']}": None
             for row in rows for name, side in row["sides"].items() if side["outcome"] != "timed"}
    return list(found)


def markdown_table(head, rows):
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def protocol_text(protocol):
    """`protocol` as --json has it."""
    return (f"Rounds: {protocol['rounds']}. A round is a fresh process of each program, one after another, with\n"
            f"{protocol['warmup']} runs to warm up and {protocol['runs'] or 'about a second of'} timed runs"
            f"{' on an input of its own' if protocol['new_inputs'] else ''}.\n"
            f"A program whose outputs are not ONNX Runtime's is not timed.\n")


def page(result, report):
    """docs/benchmarks.md; `result` is what --json prints."""
    machine = {**result["machine"], **{title(rival): version for rival, version in result["versions"].items()}}
    scaling = "".join(f"{scaling_text(count, gain)}.\n" for count, gain in result["scaling"].items())
    parts = ["# Benchmarks\n", f"Written by `{result['command']}`: one machine on one day.\n",
             protocol_text(result["protocol"]), HOW,
             markdown_table(["machine and versions", ""], [list(item) for item in machine.items()])]
    if scaling:
        parts.append(scaling)
    for threads, group in itertools.groupby(result["results"], key=lambda row: row["threads"]):
        rows = list(group)
        parts += [f"## {threads_title(threads)}\n", f"{sentence(report.latency_title)}; {report.mean(rows)}.\n",
                  markdown_table(report.latency_head, map(report.latency, rows)),
                  f"{sentence(report.cost_title)}.\n", markdown_table(report.cost_head, map(report.cost, rows))]
    left_out = [*(f"{title(rival)}: not installed" for rival in result["missing"]), *notes(result["results"])]
    if left_out:
        parts += ["## Not timed\n", "".join(f"- {note}\n" for note in left_out)]
    return "\n".join(parts)
