"""Runs one model by every side that is compared, and named comparisons from the command line."""

import argparse

import numpy as np
from compare import UNIT, Reference, Score
from harness.cli import Parallax, ParallaxError
from harness.double_reference import DoubleReference
from harness.peer import Peer


MOVED_SAMPLES = 4


def moved(inputs, generator):
    """The inputs with every f32 value moved by at most half a unit in its last place, then rounded."""
    def move(array):
        factor = 1 + generator.uniform(-UNIT, UNIT, array.shape)
        return (array * factor).astype(np.float32)

    return {name: move(array) if array.dtype == np.float32 else array for name, array in inputs.items()}


class References:
    """One model in f64, and by ONNX Runtime with rewrites on and off."""

    def __init__(self, model):
        self.sides = [DoubleReference(model), Peer(model), Peer(model, optimised=False)]

    def run(self, inputs):
        """{output: Reference} for one set of inputs."""
        runs = [side.run(inputs) for side in self.sides]
        if any(array.dtype == np.float32 for array in inputs.values()):
            generator = np.random.Generator(np.random.PCG64(1))
            runs += [self.sides[1].run(moved(inputs, generator)) for _ in range(MOVED_SAMPLES)]
        return join(runs)


def join(runs):
    """{output: Reference} of an f64 run and f32 runs."""
    return {name: Reference(runs[0][name], tuple(run[name] for run in runs[1:])) for name in runs[0]}


def run_twice(score, parallax, path, inputs, label):
    """Outputs of parallax; the second run has one thread, so team sizes are compared as well."""
    outputs = parallax.run(path, inputs, threads=2)
    score.identical(label, outputs, parallax.run(path, inputs, threads=1))
    return outputs


def run_named(description, comparisons):
    """Runs the comparisons {name: function(name, parallax, score)} named on the command line, or all;
    gives the exit status: 1 where a check fails."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallax", default="build/release/parallax", metavar="PROGRAM")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + " ".join(comparisons))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(comparisons)
    if unknown:
        parser.error(f"nothing is named {min(unknown)}")

    parallax = Parallax(arguments.parallax)
    failed = []
    for name in arguments.names or comparisons:
        score = Score(name)
        try:
            comparisons[name](name, parallax, score)
        except ParallaxError as error:
            score.check(False, str(error))
        print(f"{name}: {score.checks} checks, {score.failures} failed")
        if score.failures:
            failed.append(name)
    if failed:
        print(f"failed: {' '.join(failed)}")
    return 1 if failed else 0
