"""The command line from outside: exit codes, messages, files, wrong input.

usage: cli_test.py PARALLAX_BINARY
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

PARALLAX = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/parallax"


def parallax(*arguments, **kwargs):
    return subprocess.run([PARALLAX, *map(str, arguments)], capture_output=True, text=True, timeout=120, **kwargs)


def save(path, nodes, inputs, outputs, opset=17, initializers=(), domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(d, 1) for d in domains]]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return model


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.model = self.path / "add.onnx"
        save(self.model, [helper.make_node("Add", ["x", "b"], ["y"], "sum")],
             [value("x", ["batch", 3]), value("b", [3])], [value("y", None)])
        self.addCleanup(self.folder.cleanup)

    def refused(self, result, *parts, code=1):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        for part in parts:
            self.assertIn(part, result.stderr)
        if code == 1:
            self.assertTrue(result.stderr.startswith("parallax: "), result.stderr)

    # run

    def test_run_keeps_names_and_types(self):
        np.savez(self.path / "in.npz", x=np.array([[1, 2, 3]], np.float32), b=np.array([10, 20, 30], np.float32))
        out = self.path / "out.npz"
        result = parallax("run", self.model, "--inputs", self.path / "in.npz", "--outputs", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        with np.load(out) as arrays:
            self.assertEqual(list(arrays), ["y"])
            np.testing.assert_array_equal(arrays["y"], np.array([[11, 22, 33]], np.float32))
            self.assertEqual(arrays["y"].dtype, np.float32)

    def test_run_single_arrays_compressed_and_column_major(self):
        x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        np.save(self.path / "x.npy", x)
        np.savez_compressed(self.path / "b.npz", b=np.ones(3, np.float32))
        out = self.path / "out.npz"
        result = parallax("run", self.model, "--input", f"x={self.path / 'x.npy'}", "--inputs", self.path / "b.npz",
                          "--outputs", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        np.testing.assert_array_equal(np.load(out)["y"], x + 1)

    def test_every_type_travels(self):
        kinds = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
                 TensorProto.INT8: np.int8, TensorProto.UINT8: np.uint8, TensorProto.INT16: np.int16,
                 TensorProto.UINT16: np.uint16, TensorProto.INT32: np.int32, TensorProto.UINT32: np.uint32,
                 TensorProto.INT64: np.int64, TensorProto.UINT64: np.uint64, TensorProto.BOOL: np.bool_,
                 TensorProto.BFLOAT16: np.uint16}
        model = self.path / "types.onnx"
        save(model, [helper.make_node("Identity", [f"in{k}"], [f"out{k}"]) for k in kinds],
             [value(f"in{k}", [2, 2], k) for k in kinds], [value(f"out{k}", None, k) for k in kinds])
        arrays = {f"in{k}": np.array([[0, 1], [1, 0]]).astype(t) for k, t in kinds.items()}
        np.savez(self.path / "in.npz", **arrays)
        result = parallax("run", model, "--inputs", self.path / "in.npz", "--outputs", self.path / "out.npz")
        self.assertEqual(result.returncode, 0, result.stderr)
        with np.load(self.path / "out.npz") as found:
            for k, t in kinds.items():
                self.assertEqual(found[f"out{k}"].dtype, t)
                np.testing.assert_array_equal(found[f"out{k}"], arrays[f"in{k}"])

    def test_random_inputs_repeat(self):
        outputs = []
        for name in ("a.npz", "b.npz"):
            result = parallax("run", self.model, "--random", 7, "--shape", "x=4x3", "--outputs", self.path / name)
            self.assertEqual(result.returncode, 0, result.stderr)
            outputs.append(np.load(self.path / name)["y"])
        self.assertEqual(outputs[0].shape, (4, 3))
        np.testing.assert_array_equal(*outputs)

    def test_zero_extent(self):
        result = parallax("run", self.model, "--random", 1, "--shape", "x=0x3", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["outputs"][0]["shape"], [0, 3])

    def test_wrong_inputs(self):
        np.savez(self.path / "wrong.npz", x=np.zeros((1, 4), np.float32), b=np.zeros(3, np.float32))
        self.refused(parallax("run", self.model, "--inputs", self.path / "wrong.npz"),
                     "input 'x': wanted f32[batch,3], found f32[1,4]")
        np.savez(self.path / "kind.npz", x=np.zeros((1, 3), np.int64), b=np.zeros(3, np.float32))
        self.refused(parallax("run", self.model, "--inputs", self.path / "kind.npz"), "found i64[1,3]")
        np.savez(self.path / "extra.npz", x=np.zeros((1, 3), np.float32), z=np.zeros(3, np.float32))
        self.refused(parallax("run", self.model, "--inputs", self.path / "extra.npz"), "no input 'z'", "'x' 'b'")
        np.savez(self.path / "less.npz", x=np.zeros((1, 3), np.float32))
        self.refused(parallax("run", self.model, "--inputs", self.path / "less.npz"), "missing", "'b' f32[3]")
        self.refused(parallax("run", self.model), "missing", "'x' f32[batch,3]")
        (self.path / "junk.npz").write_bytes(b"junk")
        self.refused(parallax("run", self.model, "--inputs", self.path / "junk.npz"), "junk.npz")
        np.save(self.path / "text.npy", np.array(["a", "b"]))
        self.refused(parallax("run", self.model, "--input", f"x={self.path / 'text.npy'}"), "dtype")
        self.refused(parallax("run", self.model, "--input", f"x={self.path / 'none.npy'}"), "none.npy")
        self.refused(parallax("run", self.model, "--random", 1, "--shape", "x=4x4"), "wanted f32[batch,3]")
        self.refused(parallax("run", self.model, "--random", 1, "--shape", "x=4xa"), "should look like")

    def test_nothing_half_written(self):
        out = self.path / "missing" / "out.npz"
        self.refused(parallax("run", self.model, "--random", 1, "--outputs", out), "cannot write")
        self.assertFalse(out.exists())

    # usage

    def test_usage_is_two(self):
        for arguments in ([], ["fly"], ["run"], ["run", self.model, "--threads", "0"],
                          ["run", self.model, "--random", "x"], ["bench", self.model, "--runs", "-1"]):
            self.assertEqual(parallax(*arguments).returncode, 2, arguments)
        for arguments in (["--help"], ["run", "--help"], ["--version"]):
            result = parallax(*arguments)
            self.assertEqual(result.returncode, 0)
            self.assertTrue(result.stdout)

    # models

    def test_files_that_are_no_models(self):
        self.refused(parallax("run", self.path / "none.onnx"), "none.onnx", "No such file")
        self.refused(parallax("run", self.path), "not a regular file")
        whole = self.model.read_bytes()
        for content in (b"", b"\x89PNG\r\n\x1a\n", os.urandom(4096), whole[: len(whole) // 2], whole[:-1]):
            bad = self.path / "bad.onnx"
            bad.write_bytes(content)
            for command in ("run", "bench", "analyze"):
                self.refused(parallax(command, bad), "bad.onnx")

    def test_unknown_operators_all_at_once(self):
        model = self.path / "unknown.onnx"
        save(model, [helper.make_node("Foo", ["x"], ["a"], "first", domain="acme"),
                     helper.make_node("Bar", ["a"], ["y"], "second")],
             [value("x", [1])], [value("y", None)], domains=["acme"])
        self.refused(parallax("run", model), "'first': acme::Foo (opset 1)", "'second': ai.onnx::Bar (opset 17)")
        result = parallax("analyze", model)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("acme::Foo", result.stdout)

    def test_more_memory_than_there_is(self):
        model = self.path / "huge.onnx"
        save(model, [helper.make_node("Expand", ["x", "shape"], ["y"], "grow")],
             [value("x", [1]), value("shape", [2], TensorProto.INT64)], [value("y", None)])
        np.savez(self.path / "in.npz", x=np.ones(1, np.float32), shape=np.array([1 << 20, 1 << 14], np.int64))

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

        self.refused(parallax("run", model, "--inputs", self.path / "in.npz", "--threads", 1, preexec_fn=limit),
                     "cannot allocate 68719476736 bytes")

        def tight():
            resource.setrlimit(resource.RLIMIT_AS, (120 << 20, 120 << 20))

        big = self.path / "big.onnx"
        weight = helper.make_tensor("b", TensorProto.FLOAT, [64 << 20], np.zeros(64 << 20, np.float32).tobytes(), True)
        save(big, [helper.make_node("Add", ["x", "b"], ["y"])], [value("x", [1])], [value("y", None)],
             initializers=[weight])
        self.refused(parallax("run", big, "--random", 1, "--threads", 1, preexec_fn=tight), "emory")

    # bench and analyze

    def test_bench_json(self):
        result = parallax("bench", self.model, "--shape", "x=2x3", "--runs", 3, "--warmup", 1, "--ops", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        for key in ("model", "threads", "mode", "latency_ms", "planned_bytes", "peak_rss_bytes", "load_ms", "plan_ms"):
            self.assertIn(key, found)
        self.assertEqual(set(found["latency_ms"]), {"min", "mean", "median", "p90", "max", "runs"})
        self.assertEqual(found["latency_ms"]["runs"], 3)
        self.assertEqual([op["op"] for op in found["ops"]], ["Add"])

    def test_analyze_json(self):
        result = parallax("analyze", self.model, "--shape", "x=2x3", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual(found["inputs"][0], {"name": "x", "dtype": "f32", "shape": ["batch", 3]})
        self.assertEqual(found["symbolic_dims"], ["batch"])
        self.assertEqual(found["flops"], 6)
        self.assertEqual(found["unsupported"], [])

    def test_cpu_set(self):
        cpu = str(min(os.sched_getaffinity(0)))
        result = subprocess.run(["taskset", "-c", cpu, PARALLAX, "bench", self.model, "--shape", "x=2x3", "--runs",
                                 "1", "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["threads"], 1)


if __name__ == "__main__":
    unittest.main()
