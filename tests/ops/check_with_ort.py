"""Judges operator cases by ONNX Runtime, and by ONNX's reference evaluator where that lacks a kernel.

usage: check_with_ort.py EXPORT_CASES_PROGRAM CASES_FOLDER WORK_FOLDER

Prints one line a disagreement and the counts; fails on any disagreement. Rows marked `noort` in the
cases files are left out there, with the reason beside them.
"""

import pathlib
import subprocess
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

UNIT = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53, np.dtype(np.float16): 2.0**-11}


def read(folder, prefix):
    tensors = []
    while (path := folder / f"{prefix}_{len(tensors)}.pb").exists():
        proto = onnx.TensorProto()
        proto.ParseFromString(path.read_bytes())
        tensors.append((proto.name, numpy_helper.to_array(proto)))
    return tensors


def difference(found, expected, tolerance):
    """|found - expected| <= tolerance * (|expected| + largest finite |expected|), as the C++ suite says."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"found {found.dtype}{found.shape}, expected {expected.dtype}{expected.shape}"
    if found.dtype.kind != "f":
        bad = found != expected
    else:
        x, y = found.astype(np.float64), expected.astype(np.float64)
        finite = np.abs(y[np.isfinite(y)])
        scale = finite.max() if finite.size else 0.0
        with np.errstate(invalid="ignore"):
            bad = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= tolerance * (np.abs(y) + scale)))
    if not bad.any():
        return ""
    at = np.unravel_index(np.argmax(bad), bad.shape) if bad.ndim else ()
    return f"element {at}: found {found[at]}, expected {expected[at]} ({int(bad.sum())} of {bad.size})"


def evaluate(model, feeds):
    """Outputs and the name of who computed them; (None, reason) when neither can."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds), "onnxruntime"
    except Exception as error:  # no kernel for the type or opset, or it refuses the input
        first = str(error).splitlines()[0][:120]
    try:
        return ReferenceEvaluator(model).run(None, feeds), "reference"
    except Exception as error:
        return None, f"{first} / {type(error).__name__}: {str(error)[:80]}"


def main():
    program, cases, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    warnings.filterwarnings("ignore")
    subprocess.run([program, cases, str(work)], check=True)
    counts = {"onnxruntime": 0, "reference": 0}
    failed, unjudged = [], []
    for folder in sorted(work.iterdir()):
        model = onnx.load(folder / "model.onnx")
        text, tolerance = (folder / "case.txt").read_text().splitlines()
        feeds = dict(read(folder, "input"))
        results, judge = evaluate(model, feeds)
        if results is None:
            unjudged.append(f"{folder.name}: {judge}")
            continue
        counts[judge] += 1
        for (name, found), expected in zip(read(folder, "output"), results):
            # Both sides round: twice what the C++ suite allows between its own targets.
            limit = float(tolerance) or max(4e-5, 8 * UNIT.get(found.dtype, 0))
            if problem := difference(found, np.asarray(expected), limit):
                failed.append(f"{folder.name} ({judge}): {name}: {problem}\n    {text}")
    for line in unjudged:
        print("not judged", line)
    for line in failed:
        print("FAILED", line)
    print(f"{counts['onnxruntime']} agree or not by ONNX Runtime, {counts['reference']} by the reference evaluator")
    passed = sum(counts.values()) - len(failed)
    print(f"{passed} passed, {len(failed)} failed, {len(unjudged)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
