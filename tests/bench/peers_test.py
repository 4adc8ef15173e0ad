"""The benchmark against other runtimes: its arithmetic, its tables, and the graphs that it gives to rivals."""

import math
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "tools")]

import graphs  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import report  # noqa: E402
import summary  # noqa: E402
from harness.peer import Peer  # noqa: E402
from onnx import parser  # noqa: E402
from process import RivalError, work  # noqa: E402


def rounds(*minima):
    """Rounds whose other figures follow from their fastest run."""
    return [{"latency_ms": {"min": low, "mean": low + 2, "median": low + 1, "max": low + 5},
             "load_ms": 10 * low, "peak_bytes": 1000 * low} for low in minima]


class Arithmetic(unittest.TestCase):
    def test_latency_of_rounds(self):
        self.assertEqual(summary.latency(rounds(4, 8, 6)), {"min": 4, "mean": 8, "median": 7, "max": 13})
        side = summary.side(rounds(4, 8, 6))
        self.assertEqual((side["load_ms"], side["peak_bytes"]), (60, 6000))

    def test_ratio_is_the_best_rivals(self):
        # The second rival is the fastest of all; in the last round the first one is.
        ratio = summary.ratio(rounds(10, 10, 20), {"a": rounds(40, 40, 30), "b": rounds(20, 30, 50)})
        self.assertEqual(ratio["best"], "b")
        self.assertEqual(ratio["of_minima"], 2)
        self.assertEqual(ratio["of_medians"], 31 / 11)
        self.assertEqual((ratio["min"], ratio["median"]), (1.5, 2))
        self.assertIsNone(summary.ratio(rounds(10), {}))

    def test_geometric_mean(self):
        self.assertAlmostEqual(summary.geometric_mean([0.5, 2, 8]), 2)

    def test_difference(self):
        wanted = {"x": np.array([1, -4], np.float32), "empty": np.zeros((0, 3), np.float32)}
        self.assertEqual(summary.difference({"x": wanted["x"]}, wanted), (0, ""))
        self.assertEqual(summary.difference({"x": np.array([2, -4])}, wanted), (0.25, "x"))
        for wrong in ({}, {"x": np.array([[1, -4]])}, {"x": np.array([math.nan, -4])}):
            self.assertEqual(summary.difference(wrong, wanted), (math.inf, "x"))
        special = {"x": np.array([math.nan, math.inf, 2])}
        self.assertEqual(summary.difference(special, special), (0, ""))
        self.assertEqual(summary.difference({"x": np.array([math.nan, 7, 2])}, special), (math.inf, "x"))
        truths = {"x": np.array([True, False])}
        self.assertEqual(summary.difference(truths, truths), (0, ""))


class Tables(unittest.TestCase):
    def test_lines_and_page(self):
        tables = report.Report(["parallax", "mnn", "ncnn"], ("min", "median"))
        sides = {"parallax": summary.side(rounds(10)), "mnn": summary.side(rounds(25)),
                 "ncnn": {"outcome": "wrong result", "detail": "y differs"}}
        row = {"model": "m", "threads": 2, "sides": sides,
               "ratio": summary.ratio(rounds(10), {"mnn": rounds(25)})}
        self.assertEqual(tables.line(tables.latency(row)).split(),
                         "m 10.00 / 11.00 25.00 / 26.00 wrong result 2.50 (2.50 / 2.50) MNN".split())
        self.assertEqual(tables.cost(row), ["m", "100 / 0", "250 / 0", ""])
        self.assertEqual(report.notes([row, row]), ["m, ncnn: wrong result: y differs"])

        failed = row | {"sides": sides | {"parallax": {"outcome": "failed", "detail": "why"}}, "ratio": None}
        self.assertEqual(tables.line(tables.latency(failed)).split()[:3], ["m", "failed", "25.00"])
        self.assertEqual(tables.mean([row, failed]), "geometric mean of 1 ratios: 2.50")

        protocol = {"rounds": 1, "warmup": 3, "runs": 0, "new_inputs": False}
        page = report.page({"command": "./dev bench peers m", "machine": {"memory": "1 GiB"},
                            "versions": {"mnn": "3"}, "missing": {"openvino": "gone"}, "protocol": protocol,
                            "scaling": {2: 1.9}, "results": [row]}, tables)
        for text in ("## 2 threads", "| MNN | 3 |",
                     "| m | 10.00 / 11.00 | 25.00 / 26.00 | wrong result | 2.50 (2.50 / 2.50) | MNN |",
                     "- OpenVINO: not installed", "- m, ncnn: wrong result: y differs"):
            self.assertIn(text + "\n", page)


# The outer side reads t and x of the graph around it, the inner one also the constant of the side between; the
# sides of an If use the same names, and one of them has nothing to give for z.
NESTED = """
<ir_version: 8, opset_import: ["" : 17]>
m (float[n] x, bool outer, bool inner, float[k] unused) => (float[n] y, float[p] z) <float w = {3}> {
  t = Add(x, w)
  a, z = If (outer) <
    then_branch = g () => (float[n] r, float[p] s) {
      one = Constant <value = float {1}> ()
      r = If (inner) <
        then_branch = h () => (float[n] v) { v = Mul(t, one) },
        else_branch = h () => (float[n] v) { u = Sub(x, one)
                                             v = Mul(u, w) }
      >
      s = Identity(x)
    },
    else_branch = g () => (float[n] r, float[0] s) {
      r = Identity(t)
      s = Constant <value = float[0] {}> ()
    }
  >
  y = Neg(a)
}
"""


class Graphs(unittest.TestCase):
    def test_without_ifs(self):
        model = parser.parse_model(NESTED)
        x = np.array([1, 2], np.float32)
        for outer, inner in ((True, True), (True, False), (False, True)):
            inputs = {"x": x, "outer": np.array(outer), "inner": np.array(inner), "unused": x}
            wanted = Peer(model).run(inputs)
            plain = graphs.without_ifs(model, inputs)
            self.assertNotIn("If", {node.op_type for node in plain.graph.node})
            self.assertEqual([value.name for value in plain.graph.input], ["x"])
            graphs.fix_extents(plain, inputs, wanted)
            onnx.checker.check_model(plain, full_check=True)
            got = Peer(plain).run({"x": x})
            self.assertEqual(list(got), ["y", "z"] if outer else ["y"], "outputs without elements are dropped")
            for name, array in got.items():
                np.testing.assert_array_equal(array, wanted[name])
        kept = {node.op_type for node in model.graph.node}
        self.assertEqual(kept, {"Add", "If", "Neg"}, "the original stays what it was")

    def test_reduced(self):
        model = parser.parse_model(NESTED)
        part = graphs.reduced(model, [onnx.helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, None)])
        self.assertEqual([node.op_type for node in part.graph.node], ["Add"])
        self.assertEqual([value.name for value in part.graph.input], ["x"])

    def test_rewrites_compute_the_same(self):
        model = parser.parse_model("""
            <ir_version: 8, opset_import: ["" : 17]>
            m (float[2,3,4] x) => (float[2,4] a, float[1,3,1] b, bool[2,3,4] c) {
              one = Constant <value = int64[1] {1}> ()
              ends = Constant <value = int64[2] {0, -1}> ()
              a = ReduceSum <keepdims = 0> (x, one)
              b = ReduceSum (x, ends)
              root = Sqrt(x)
              c = IsNaN(root)
            }""")
        x = np.random.Generator(np.random.PCG64(1)).standard_normal((2, 3, 4), dtype=np.float32)
        wanted = Peer(model).run({"x": x})
        self.assertTrue(wanted["c"].any() and not wanted["c"].all())
        for rewrite, gone in ((graphs.without_isnan, "IsNaN"), (graphs.sums_as_means, "ReduceSum")):
            rewritten = rewrite(model)
            self.assertNotIn(gone, {node.op_type for node in rewritten.graph.node})
            got = Peer(rewritten).run({"x": x})
            for name, array in wanted.items():
                np.testing.assert_allclose(got[name], array, rtol=0, atol=1e-6, err_msg=name)


class Processes(unittest.TestCase):
    def test_a_rival_in_a_process_of_its_own(self):
        model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
                                      m (float[2] x) => (float[2] y) { y = Neg(x) }""")
        with tempfile.TemporaryDirectory() as folder:
            file, given, made = (pathlib.Path(folder, name) for name in ("m.onnx", "in.npz", "out.npz"))
            onnx.save(model, file)
            np.savez(given, x=np.array([1, -2], np.float32))
            job = {"file": str(file), "input_names": ["x"], "output_shapes": {"y": [2]}, "threads": 1}
            work("onnxruntime", {"work": "run", **job, "inputs": str(given), "outputs": str(made)})
            with np.load(made) as outputs:
                np.testing.assert_array_equal(outputs["y"], [-1, 2])
            timed = work("onnxruntime", {"work": "time", **job, "inputs": str(given), "runs": 3, "warmup": 1})
            latency = timed["latency_ms"]
            self.assertTrue(0 < latency["min"] <= latency["median"] <= latency["max"])
            self.assertGreater(timed["peak_bytes"], 0)
            file.write_bytes(b"not a model")
            with self.assertRaisesRegex(RivalError, "m.onnx"):
                work("onnxruntime", {"work": "run", **job})


if __name__ == "__main__":
    unittest.main()
