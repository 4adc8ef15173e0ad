"""One case: who computes the right outputs, then their times in alternating rounds."""

import dataclasses
import math
import pathlib
import sys
import tempfile
import time

import convert
import numpy as np
import summary
from harness.cli import ParallaxError
from harness.peer import Peer
from process import RivalError, work

# Of the same shapes; the second one hides a few tokens from the models that take a mask.
CHECKED_SEEDS = (1, 9)
MIN_RUNS, MAX_RUNS = 5, 1000


@dataclasses.dataclass(frozen=True)
class Protocol:
    """What is repeated: rounds of one process for each program in turn, runs inside a process."""

    rounds: int
    warmup: int
    runs: int  # 0: as many as fill `seconds`
    new_inputs: bool  # each round has inputs of its own
    seconds: float = 1.0


PROTOCOLS = {"rounds": Protocol(rounds=5, warmup=3, runs=0, new_inputs=False),
             "paper": Protocol(rounds=30, warmup=5, runs=20, new_inputs=True)}


def progress(text=""):
    if sys.stderr.isatty():
        print(f"\r{text:70}\r", end="", file=sys.stderr, flush=True)


def read_through(model):
    """Reads the model's files once, so that no program's load time is the disk's."""
    for file in model.parent.glob(f"{model.stem}.*"):
        with open(file, "rb") as stream:
            while stream.read(1 << 24):
                pass


class Ours:
    """parallax on a model; every call is a process."""

    def __init__(self, parallax, model):
        self._parallax, self._model = parallax, model

    def outputs(self, inputs, threads):
        return self._parallax.run(self._model, inputs, threads=threads)

    def time(self, inputs, threads, runs, warmup):
        read_through(pathlib.Path(self._model))
        measured = self._parallax.bench(self._model, inputs, threads, runs, warmup)
        return {"latency_ms": measured["latency_ms"], "load_ms": measured["load_ms"] + measured["plan_ms"],
                "peak_bytes": measured["peak_rss_bytes"] - measured["start_rss_bytes"]}

    def profile(self, inputs, threads, runs):
        """`limits` and `ops` of `bench --ops --json`: timing each operator costs, so no round does it."""
        measured = self._parallax.bench(self._model, inputs, threads, runs, warmup=1, ops=True)
        return {"limits": measured["limits"], "ops": measured["ops"]}


class Theirs:
    """A rival on what convert.loaded() gave; every call is a process."""

    def __init__(self, rival, model, environment):
        self._rival, self._model, self._environment = rival, model, environment

    def outputs(self, inputs, threads):
        with tempfile.NamedTemporaryFile(suffix=".npz") as made:
            self._work(inputs, {"work": "run", "threads": threads, "outputs": made.name})
            with np.load(made.name) as stored:
                return dict(stored)

    def time(self, inputs, threads, runs, warmup):
        read_through(pathlib.Path(self._model["file"]))
        return self._work(inputs, {"work": "time", "threads": threads, "runs": runs, "warmup": warmup})

    def _work(self, inputs, job):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "in.npz")
            np.savez(file, **inputs)
            return work(self._rival, {**job, **self._model, "inputs": str(file),
                                      "environment": self._environment})


class Measured:
    """A case whose outputs were compared: those programs are timed that were right."""

    def __init__(self, name, case, parallax, versions, threads, environment=None):
        """`versions` is {rival: version}. Every program runs with `threads` here; rivals get `environment` too."""
        self.name, self._inputs = name, case.inputs
        model = case.path()
        reference = Peer(model, threads=threads)
        given = [case.inputs(seed) for seed in CHECKED_SEEDS]
        wanted = [reference.run(inputs) for inputs in given]
        start = time.perf_counter()
        reference.run(given[0])
        self._run_seconds = time.perf_counter() - start
        del reference

        self._right, self._outcomes = {}, {}
        for side in ("parallax", *versions):
            progress(f"{name}: outputs of {side}")
            try:
                program = Ours(parallax, model) if side == "parallax" else Theirs(
                    side, convert.loaded(name, case, side, versions[side], given[0], wanted[0]),
                    environment or {})
                apart, output = max(summary.difference(program.outputs(inputs, threads), outputs)
                                    for inputs, outputs in zip(given, wanted))
            except (ParallaxError, RivalError) as error:
                self._outcomes[side] = {"outcome": "failed", "detail": str(error)}
                continue
            if apart <= case.limit:
                self._right[side] = program
            else:
                self._outcomes[side] = {
                    "outcome": "wrong result", "difference": apart if math.isfinite(apart) else None,
                    "detail": f"{output} is off by {apart:.2g} of its largest value"}
        progress()

    def profile(self, threads):
        """What parallax's operators took and what the machine allows; None where parallax is not timed."""
        ours = self._right.get("parallax")
        return ours and ours.profile(self._inputs(1), threads, MIN_RUNS)

    def time(self, threads, protocol):
        """One object of `results` in the JSON.

        {model, threads, rounds, runs, sides, ratio}: `sides` has parallax and each rival by name, with an
        `outcome`: "timed", then latency_ms{min,mean,median,max}, load_ms, peak_bytes; "wrong result" (then
        also `difference`) or "failed", then `detail`. `ratio` is summary.ratio()'s, or null.
        """
        runs = protocol.runs or int(np.clip(protocol.seconds / self._run_seconds, MIN_RUNS, MAX_RUNS))
        outcomes, rounds = dict(self._outcomes), {side: [] for side in self._right}
        for number in range(protocol.rounds):
            progress(f"{self.name}, {threads} thread(s): round {number + 1} of {protocol.rounds}")
            inputs = self._inputs(number + 1 if protocol.new_inputs else 1)
            # Another program begins each round: the first one pays for what the machine forgot meanwhile.
            order = list(rounds)
            first = number % max(len(order), 1)
            for side in order[first:] + order[:first]:
                try:
                    rounds[side].append(self._right[side].time(inputs, threads, runs, protocol.warmup))
                except (ParallaxError, RivalError) as error:
                    outcomes[side] = {"outcome": "failed", "detail": str(error)}
                    del rounds[side]
        progress()
        sides = outcomes | {side: summary.side(each) for side, each in rounds.items()}
        ours = rounds.pop("parallax", None)
        return {"model": self.name, "threads": threads, "rounds": protocol.rounds, "runs": runs, "sides": sides,
                "ratio": summary.ratio(ours, rounds) if ours else None}
