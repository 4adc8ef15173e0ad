"""Compares outputs with a reference and keeps the score.

Where the tolerance comes from. Let r be the output in f64, and a, b, c... the same in f32 by ONNX Runtime:
with its rewrites on, with them off, and again with each f32 input moved by at most half a unit in its last
place, which draws another sample of all roundings on the way. e = max(|a - r|, |b - r|, ...), over all
elements, is what rounding does to this output of this graph: it holds the depth, the condition and the
norms of the network, which a bound from norms alone (n * u * sum |x||w| per layer, multiplied up)
overestimates by orders of magnitude. Ours is one more f32 evaluation that adds the same numbers in another
order, so its largest error is of the same size, and
    |ours - r| <= 4 e + 4 u max|r|,   u = 2^-24,
where the last term is for outputs that ONNX Runtime happens to hit exactly. e itself must stay under
2^-10 max|r|: more is not rounding but a reference that computes something else. Against ONNX Runtime
itself the bound is that plus |a - r|. The f64 values come from ONNX's reference evaluator, so an error that
all f32 evaluations share, or a wrong one of ours, cannot hide.
"""

import dataclasses

import numpy as np

UNIT = 2.0**-24
ROUNDING_LIMIT = 2.0**-10


def distance(x, y):
    """Largest |x - y|; unequal infinities or NaN on one side only are infinitely far."""
    if x.shape != y.shape:
        return np.inf
    if x.size == 0:
        return 0.0
    x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(x - y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
    return float(apart.max())


@dataclasses.dataclass(frozen=True)
class Reference:
    """What an output should be: in f64, and in f32 by ONNX Runtime, its usual evaluation first."""

    double: np.ndarray
    single: tuple

    def rounding(self):
        return max(distance(one, self.double) for one in self.single)

    def largest(self):
        return float(np.abs(self.double).max()) if self.double.size else 0.0

    def tolerance(self):
        return 4 * self.rounding() + 4 * UNIT * self.largest()

    def part(self, index):
        return Reference(self.double[index], tuple(one[index] for one in self.single))


class Score:
    """Counts checks, prints one line each, remembers failures."""

    def __init__(self, title):
        self.title = title
        self.checks = self.failures = 0

    def check(self, good, what):
        self.checks += 1
        self.failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {self.title}: {what}", flush=True)
        return good

    def close(self, name, ours, reference):
        """`ours` is f32, has the reference's shape and lies within the derived tolerance."""
        wanted = reference.single[0]
        if ours.dtype != wanted.dtype or ours.shape != wanted.shape:
            self.check(False, f"{name}: {ours.dtype}{list(ours.shape)}, wanted {wanted.dtype}{list(wanted.shape)}")
            return
        if reference.rounding() > ROUNDING_LIMIT * reference.largest():
            self.check(False, f"{name}: the references are {reference.rounding():.2e} apart, which is not rounding")
            return
        tolerance = reference.tolerance()
        from_double = distance(ours, reference.double)
        from_peer = distance(ours, reference.single[0])
        peer = distance(reference.single[0], reference.double)
        self.check(from_double <= tolerance and from_peer <= tolerance + peer,
                   f"{name}: max|d| {from_double:.2e} to f64 (tolerance {tolerance:.2e}, ONNX Runtime's own "
                   f"{reference.rounding():.2e}), {from_peer:.2e} to ONNX Runtime")

    def same_class(self, name, ours, reference, axis):
        """The arg max along `axis` agrees wherever its margin exceeds the tolerance."""
        if ours.shape != reference.double.shape:
            return
        ordered = np.sort(reference.double, axis=axis)
        margin = np.take(ordered, -1, axis) - np.take(ordered, -2, axis)
        decided = margin > reference.tolerance()
        equal = ours.argmax(axis) == reference.double.argmax(axis)
        self.check(bool(decided.any()) and bool(equal[decided].all()),
                   f"{name}: arg max equal in {int(equal[decided].sum())} of {int(decided.sum())} "
                   f"places with a margin above the tolerance ({decided.size} in all)")

    def identical(self, name, first, second):
        """Two runs gave the same names, types, shapes and bits."""
        same = list(first) == list(second) and all(
            first[n].dtype == second[n].dtype and first[n].shape == second[n].shape
            and first[n].tobytes() == second[n].tobytes() for n in first)
        self.check(same, f"{name}: the same bits twice")
