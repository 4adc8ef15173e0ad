"""The benchmark of single operators: the models that it makes, what it counts as their work, its table."""

import collections
import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "tools")]

import cases  # noqa: E402
import compare_shapes  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import shape_report  # noqa: E402
import single_operators as single  # noqa: E402
import summary  # noqa: E402
from harness.peer import Peer  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from shapes import SHAPES  # noqa: E402


def weights(model):
    return [numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer]


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


class Models(unittest.TestCase):
    def expect(self, shape, wanted):
        """`wanted(inputs by name, weights in order)` in double precision is what the model computes."""
        model, inputs = shape.model(), shape.inputs(3)
        onnx.checker.check_model(model, full_check=True)
        got = Peer(model).run(inputs)
        reference = wanted({name: array.astype(np.float64) for name, array in inputs.items()}, weights(model))
        self.assertLess(summary.difference(got, {"y": reference})[0], 1e-5, shape.name)

    def test_gemm_there_and_back(self):
        self.expect(single.gemm(5, 7, 3, layers=2), lambda i, w: i["x"] @ w[0] @ w[1])
        self.expect(single.gemm(5, 7, 3, layers=2, gelu=True), lambda i, w: gelu(i["x"] @ w[0]) @ w[-1])
        self.expect(single.batched_gemm(2, 5, 3, 5, layers=2), lambda i, w: i["a"] @ i["a"] @ i["x"])
        with self.assertRaises(AssertionError):
            single.gemm(5, 7, 3, layers=3)

    def test_pointwise_convolutions_there_and_back(self):
        def wanted(inputs, w):
            x = inputs["x"]
            for weight, bias in ((w[0], w[1]), (w[2], w[3])):
                x = np.einsum("oi,bihw->bohw", weight[:, :, 0, 0], x) + bias[:, None, None]
            return x

        self.expect(single.conv(3, 5, 1, (4, 6), layers=2), wanted)

    def test_strided_convolutions_read_one_input_and_are_added(self):
        def wanted(inputs, w):
            padded = np.pad(inputs["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
            return sum(np.einsum("oihw,biyxhw->boyx", weight, windows) + bias[:, None, None]
                       for weight, bias in ((w[0], w[1]), (w[2], w[3])))

        self.expect(single.conv(3, 5, 3, (8, 6), layers=2, stride=2), wanted)

    def test_transposed_convolution_and_its_pool(self):
        def wanted(inputs, w):
            grown = np.einsum("iohw,biyx->boyhxw", w[0], inputs["x"]).reshape(1, 5, 8, 8) + w[1][:, None, None]
            return grown.reshape(1, 5, 2, 4, 2, 4).max((3, 5))

        self.expect(single.conv(3, 5, 2, (4, 4), layers=1, stride=2, transposed=True, pooled=True), wanted)

    def test_attention_softmax_and_activations(self):
        def attended(inputs, _):
            x = inputs["q"]
            for grown in (1, math.sqrt(6 / math.e)):
                x = softmax(x @ inputs["k"].swapaxes(2, 3) * grown / 2) @ inputs["v"]
            return x

        self.expect(single.attention(1, 2, 6, 4, layers=2), attended)
        self.expect(single.softmax(3, 9, layers=2), lambda i, w: softmax(softmax(i["x"] * w[0]) * w[1]))
        self.expect(single.gelu(3, 9, layers=2), lambda i, _: gelu(gelu(i["x"])))
        self.expect(single.silu(3, 9, layers=1), lambda i, _: i["x"] / (1 + np.exp(-i["x"])))

        def normalised(inputs, w):
            x = inputs["x"]
            return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w[0] + w[1]

        self.expect(single.layer_norm(3, 9, layers=1), normalised)

    def test_every_layer_has_weights_of_its_own_and_values_keep_their_size(self):
        for name in ("gemm_1x384x384", "conv3x3_16_160", "dw3x3_960_7", "softmax_192x64x64", "layer_norm_4096x96",
                     "attention_1x8x77x64"):
            shape = SHAPES[name]
            model = shape.model()
            self.assertEqual(model.SerializeToString(), shape.model().SerializeToString(), "seeded")
            kept = [array.tobytes() for array in weights(model) if array.size > 1]
            self.assertEqual(len(kept), len(set(kept)), name)
            layers = collections.Counter(node.op_type for node in model.graph.node)
            self.assertIn(shape.layers, layers.values(), name)
            spread = Peer(model).run(shape.inputs(1))["y"].std()
            self.assertTrue(1e-3 < spread < 30, f"{name}: {spread}")

    def test_work(self):
        # Multiply-adds of one layer, by hand.
        for name, products in {"gemm_128x3072x768": 128 * 3072 * 768, "gemm_64x49x32x49": 64 * 49 * 32 * 49,
                             "conv3x3_64_40": 40 * 40 * 64 * 64 * 9, "conv3x3_s2_3_16_640": 320 * 320 * 3 * 16 * 9,
                             "dw5x5_s2_192_46x68": 23 * 34 * 192 * 25,
                             "convtr2x2_s2_128_40": 80 * 80 * 128 * 128, "conv3_s2_384_3000": 1500 * 384 * 384 * 3,
                             "attention_1x12x128x64": 2 * 12 * 128 * 128 * 64}.items():
            self.assertEqual((SHAPES[name].amount, SHAPES[name].unit), (2 * products, "GFLOP/s"), name)
        self.assertEqual((SHAPES["gemm_1x1536x384"].amount, SHAPES["gemm_1x1536x384"].unit),
                         (4 * 1536 * 384, "GB/s"))
        self.assertEqual(SHAPES["gelu_128x3072"].amount, 2 * 4 * 128 * 3072)
        self.assertEqual(single.gelu(1000, 1000, layers=3).rate(2.0), 12)  # 3 layers of 8 MB in 2 ms

    def test_a_case_writes_the_model_that_it_makes(self):
        shape = single.gelu(2, 3, layers=1)
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(cases, "MADE", pathlib.Path(folder, "new")):
            case = cases.Case(shape.name, shape.inputs, shape.model)
            self.assertEqual(onnx.load(case.path()), shape.model())
            self.assertEqual(case.path(), pathlib.Path(folder, "new", "gelu_2x3.onnx"))


class Table(unittest.TestCase):
    SHAPE = single.gelu(1000, 1000, layers=2)  # 16 MB in all

    def timed(self, milliseconds):
        one = {"latency_ms": dict.fromkeys(("min", "mean", "median", "max"), milliseconds), "load_ms": 1,
               "peak_bytes": 1}
        return summary.side([one]), [one]

    def row(self, profile):
        (ours, our_rounds), (theirs, their_rounds) = self.timed(2.0), self.timed(3.0)
        timed = {"model": self.SHAPE.name, "threads": 1, "ratio": summary.ratio(our_rounds, {"mnn": their_rounds}),
                 "sides": {"parallax": ours, "mnn": theirs, "ncnn": {"outcome": "failed", "detail": "crash"}}}
        return shape_report.row(self.SHAPE, timed, profile)

    def test_line(self):
        ops = [{"kernel": "unary", "op": "Gelu", "us": 700}, {"kernel": "", "op": "Transpose", "us": 250},
               {"kernel": "unary", "op": "Gelu", "us": 1000}, {"kernel": "binary", "op": "Mul", "us": 50}]
        row = self.row({"limits": {"fma_gflops": 100, "read_gbps": 20}, "ops": ops})
        self.assertEqual(row["of_limit"], 0.4)
        line = shape_report.line(shape_report.cells(self.SHAPE, row, ["parallax", "mnn", "ncnn"]))
        self.assertEqual(" ".join(line.split()), "gelu_1000x1000 x2 GB/s 8.0 5.3 failed 1.50 (1.50 / 1.50) MNN 0.40 "
                                                 "unary 85%, Transpose 12%")
        head = shape_report.line(shape_report.head(["parallax", "mnn", "ncnn"]))
        self.assertEqual(head.index("ncnn") + 4, line.index("failed") + 6, "columns stand below their titles")
        self.assertEqual(shape_report.means([row, row | {"ratio": None}]), {"all": 1.5, "gelu": 1.5})

    def test_without_a_time_of_parallax(self):
        row = self.row(None)
        self.assertEqual((row["kernels"], row["of_limit"]), ("", None))
        row |= {"rates": {}, "ratio": None}
        self.assertEqual(shape_report.cells(self.SHAPE, row, [])[3:], ["", "", "", ""])

    def test_layers(self):
        self.assertEqual([shape_report.layers_text(SHAPES[name]) for name in
                          ("conv3x3_64_40", "conv3x3_s2_64_128_80", "conv3x3_s2_3_16_640")], ["x4", "x4+", "x1p"])

    def test_names_on_the_command_line(self):
        def chosen(*texts):
            return [shape.name for shape in compare_shapes.parse([*texts]).shapes]

        self.assertEqual(chosen(), list(SHAPES))
        self.assertEqual(chosen("gelu_128x3072", "gelu"), ["gelu_128x3072", "gelu_1500x1536"])
        self.assertEqual(chosen("dw3x3_s2*"), [name for name in SHAPES if name.startswith("dw3x3_s2")])
        for wrong in (["bogus"], ["--rounds", "0"], ["--seconds", "0"], ["--threads", "0"]):
            with self.assertRaises(SystemExit), mock.patch("sys.stderr"):
                compare_shapes.parse(wrong)


if __name__ == "__main__":
    unittest.main()
