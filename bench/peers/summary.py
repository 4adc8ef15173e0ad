"""The arithmetic of a table: rounds to one line, lines to one figure, outputs to one difference."""

import math
import statistics

import numpy as np

# Of difference(). The parity tests hold the tight bounds of parallax; a timing needs to know that all did the
# same work. Approximations that a rival makes on purpose (MNN's erf) pass below it, a lost mask does not.
DIFFERENCE_LIMIT = 2.0**-10


def latency(rounds):
    """Of rounds' {min, mean, median, max}: fastest, mean of means, median of medians, slowest."""
    join = {"min": min, "mean": statistics.mean, "median": statistics.median, "max": max}
    return {key: function(one["latency_ms"][key] for one in rounds) for key, function in join.items()}


def side(rounds):
    """What one program did in all rounds: its latency, and medians of what is measured once a round."""
    return {"outcome": "timed", "latency_ms": latency(rounds),
            "load_ms": statistics.median(one["load_ms"] for one in rounds),
            "peak_bytes": round(statistics.median(one["peak_bytes"] for one in rounds))}


def ratio(ours, rivals):
    """How many times as long the best rival takes: above 1 parallax is faster. None without a rival.

    `ours` and each of `rivals` by name are the {min, median...} of the rounds, in their order. `best` names the
    rival with the fastest run of all; of_minima and of_medians compare the summaries, min and median are
    over the rounds, each judged by whoever was fastest in it.
    """
    if not rivals:
        return None
    total, each = latency(ours), {name: latency(rounds) for name, rounds in rivals.items()}
    best = min(each, key=lambda name: each[name]["min"])
    rounds = [min(rival[index]["latency_ms"]["min"] for rival in rivals.values()) / one["latency_ms"]["min"]
              for index, one in enumerate(ours)]
    return {"best": best, "of_minima": each[best]["min"] / total["min"],
            "of_medians": min(one["median"] for one in each.values()) / total["median"],
            "min": min(rounds), "median": statistics.median(rounds)}


def geometric_mean(values):
    return math.exp(statistics.mean(math.log(value) for value in values))


def difference(got, wanted):
    """(largest difference over an output's largest value, that output's name), the worst of all outputs.

    A missing output, another shape, or NaN on one side only is infinitely far. Outputs without elements are
    nobody's work and not compared.
    """
    worst = (0.0, "")
    for name, reference in wanted.items():
        if not reference.size:
            continue
        apart = math.inf
        if name in got and got[name].shape == reference.shape:
            ours, theirs = got[name].astype(np.float64), reference.astype(np.float64)
            with np.errstate(invalid="ignore"):
                apart = np.abs(ours - theirs)
            apart[(ours == theirs) | (np.isnan(ours) & np.isnan(theirs))] = 0
            largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
            apart = float(np.nan_to_num(apart, nan=math.inf, posinf=math.inf).max() / max(largest, 1e-30))
        if apart > worst[0]:
            worst = (apart, name)
    return worst
