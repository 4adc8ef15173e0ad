"""What the benchmark of single operators says: one line a shape, each program's rate, who is ahead."""

import collections

import report
import summary

NAME_WIDTH = 28
SHOWN_SHARE = 0.1  # a kernel that takes less of the time is not named
HOW = """\
Rates are those of each program's fastest run: GFLOP/s, a multiply-add counts 2, as if computed directly
(Winograd's products need fewer: they exceed the peak); or GB/s where memory bounds the operator, each layer
reading and writing its tensor once, or its weights. Ratio: the best rival's time divided by parallax's, above 1
parallax is faster; in brackets minimum and median of the ratios of single rounds. `of limit` is parallax's rate
over the multiply-add peak or read bandwidth that it measures in the same run. Kernels are parallax's, with the
share of its time that each takes if it is a tenth or more. `x8` are eight equal layers in one model: each feeds
the next, or all read the same input (`+`), or one is shrunk by a pool (`p`). Nothing is subtracted: parallax is
timed inside its process, rivals around a call from Python with arrays copied as their interface wants it. What
a call costs each of them is printed first.
"""


def layers_text(shape):
    return f"x{shape.layers}{'p' if shape.pooled else '+' if shape.fan and shape.layers > 1 else ''}"


def kernels(ops):
    """The kernels that take most of the time, with their shares."""
    spent = collections.Counter()
    for op in ops:
        spent[op["kernel"] or op["op"]] += op["us"]
    total = sum(spent.values()) or 1
    return ", ".join(f"{kernel} {us / total:.0%}" for kernel, us in spent.most_common()
                     if us / total >= SHOWN_SHARE)


def limit(shape, limits):
    """What `shape.unit` could reach at most."""
    return limits["fma_gflops" if shape.unit == "GFLOP/s" else "read_gbps"]


def row(shape, timed, profile):
    """`timed` (Measured.time()) with what is known of the shape: rates by program, kernels, fraction of a limit."""
    rates = {side: shape.rate(outcome["latency_ms"]["min"]) for side, outcome in timed["sides"].items()
             if outcome["outcome"] == "timed"}
    found = {"kernels": "", "of_limit": None, "limits": None}
    if profile and "parallax" in rates:
        found = {"kernels": kernels(profile["ops"]), "limits": profile["limits"],
                 "of_limit": rates["parallax"] / limit(shape, profile["limits"])}
    known = {"family": shape.family, "layers": shape.layers, "amount": shape.amount, "unit": shape.unit}
    return timed | known | {"rates": rates} | found


def head(sides):
    return ["shape", "layers", "unit", *map(report.title, sides), "ratio", "against", "of limit", "kernels"]


def cells(shape, row, sides):
    rates = [f"{row['rates'][side]:.{0 if row['rates'][side] >= 100 else 1}f}" if side in row["rates"] else
             row["sides"][side]["outcome"] for side in sides]
    ratio = row["ratio"]
    judged = [f"{ratio['of_minima']:.2f} ({ratio['min']:.2f} / {ratio['median']:.2f})",
              report.title(ratio["best"])] if ratio else ["", ""]
    return [shape.name, layers_text(shape), shape.unit, *rates, *judged,
            "" if row["of_limit"] is None else f"{row['of_limit']:.2f}", row["kernels"]]


def line(cells):
    """One line for people."""
    sides = len(cells) - 7
    widths = [NAME_WIDTH, 8, 10, *[14] * sides, 21, 14, 10]
    return "".join(f"{cell:>{width}}" if 3 <= index < 3 + sides else
                   f"  {cell:{width - 2}}" if index else f"{cell:{width}}"
                   for index, (cell, width) in enumerate(zip(cells, widths))) + f"  {cells[-1]}".rstrip()


def call_text(name, row):
    """The line about a model that does next to nothing."""
    times = [f"{report.title(side)} {outcome['latency_ms']['min'] * 1e3:.1f}"
             for side, outcome in row["sides"].items() if outcome["outcome"] == "timed"]
    return f"a call of {name} in microseconds: {', '.join(times)}"


def means(rows):
    """Geometric means of the ratios, over all shapes and for each family, by name."""
    groups = {}
    for one in rows:
        if one["ratio"]:
            for name in ("all", one["family"]):
                groups.setdefault(name, []).append(one["ratio"]["of_minima"])
    return {name: summary.geometric_mean(ratios) for name, ratios in groups.items()}
