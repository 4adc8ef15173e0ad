"""The command line from outside: exit codes, messages, files, wrong input.

usage: cli_test.py PARALLAX_BINARY
"""

import io
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
        self.refused(parallax("run", self.model, "--inputs", self.path / "extra.npz"), "no input 'z'", "'x' f32[batch,3], 'b' f32[3]")
        np.savez(self.path / "less.npz", x=np.zeros((1, 3), np.float32))
        self.refused(parallax("run", self.model, "--inputs", self.path / "less.npz"), "missing", "'b' f32[3]", code=2)
        self.refused(parallax("run", self.model), "missing", "'x' f32[batch,3]", code=2)
        (self.path / "junk.npz").write_bytes(b"junk")
        self.refused(parallax("run", self.model, "--inputs", self.path / "junk.npz"), "junk.npz")
        np.save(self.path / "text.npy", np.array(["a", "b"]))
        self.refused(parallax("run", self.model, "--input", f"x={self.path / 'text.npy'}"), "dtype")
        self.refused(parallax("run", self.model, "--input", f"x={self.path / 'none.npy'}"), "none.npy")
        self.refused(parallax("run", self.model, "--random", 1, "--shape", "x=4x4"), "wanted f32[batch,3]", code=2)
        for shape in ("x=4xa", "x=4x", "batch=1x2", "batch=-1"):
            self.refused(parallax("run", self.model, "--random", 1, "--shape", shape), "should look like", code=2)

    def test_what_is_no_array_file(self):
        fifo = self.path / "fifo.npy"
        os.mkfifo(fifo)
        for path in (fifo, "/dev/zero", self.path):
            self.refused(parallax("run", self.model, "--random", 1, "--input", f"x={path}"), "not a regular file")
            self.refused(parallax("run", self.model, "--random", 1, "--inputs", path), "not a regular file")

    def test_a_bomb_is_not_inflated(self):
        # 4 GB of zeros behind a header that says 12 bytes, then one that says 4 GB.
        for shape in ((1, 3), (1, 1 << 30)):
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
            with zipfile.ZipFile(self.path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                with archive.open("x.npy", "w", force_zip64=True) as entry:
                    entry.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
                    for _ in range(64):
                        entry.write(bytes(1 << 26))
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            result = parallax("run", self.model, "--random", 1, "--inputs", self.path / "bomb.npz", preexec_fn=limit)
            self.refused(result, "wants 12 bytes" if shape == (1, 3) else "wanted f32[batch,3], found f32[1,1073741824]")

    def test_two_arrays_of_one_name(self):
        with zipfile.ZipFile(self.path / "two.npz", "w") as archive:
            for name in ("x.npy", "x"):
                array = io.BytesIO()
                np.save(array, np.zeros((1, 3), np.float32))
                archive.writestr(name, array.getvalue())
        self.refused(parallax("run", self.model, "--random", 1, "--inputs", self.path / "two.npz"),
                     "two arrays named 'x'")

    def test_empty_and_odd_values(self):
        for option in ("--inputs", "--outputs", "--random", "--input", "--shape"):
            self.refused(parallax("run", self.model, option, ""), option, code=2)
        for seed in ("-1", "18446744073709551616", "1.5", "0x10", " 1"):
            self.refused(parallax("run", self.model, "--random", seed), f"'{seed}' should be a whole number", code=2)
        self.assertEqual(parallax("run", self.model, f"--random={2**64 - 1}").returncode, 0)

    def test_names_that_are_not_text(self):
        model = self.path / "names.onnx"
        save(model, [helper.make_node("Neg", ["x"], ["NAME"], "node")], [value("x", [1])], [value("NAME", [1])])
        template = model.read_bytes()

        def rename(name):
            model.write_bytes(template.replace(b"NAME", name))

        def run(*arguments):
            return subprocess.run([PARALLAX, *map(str, arguments)], capture_output=True, timeout=120)

        rename(b"\xff\xfe.y")
        for command in ("run", "bench", "analyze"):
            extra = {"run": ["--random", 1], "bench": ["--runs", 1], "analyze": []}[command]
            result = run(command, model, "--json", *extra)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(json.loads(result.stdout.decode()))
        result = run("run", model, "--random", 1, "--outputs", self.path / "out.npz")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"the output name '\\xff\\xfe.y' is not text", result.stderr)
        rename(b"y\x00.z")
        result = run("run", model, "--random", 1, "--outputs", self.path / "out.npz")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"the output name 'y\\x00.z' is not text", result.stderr)
        # What a terminal would obey.
        rename(b"\x1b[2J")
        for command in (["run", "--random", 1], ["analyze"]):
            result = run(command[0], model, *command[1:])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn(b"\x1b", result.stdout)
            self.assertIn(b"\\x1b[2J", result.stdout)
        result = run("run", self.model, "--random", 1, "--input", b"\x1b[2J=a")
        self.assertNotIn(b"\x1b", result.stderr)
        self.assertIn(b"\\x1b[2J", result.stderr)

    def test_outputs_go_where_a_link_leads(self):
        (self.path / "target").mkdir()
        (self.path / "link.npz").symlink_to("target/out.npz")
        for _ in range(2):  # the target is new, then old
            result = parallax("run", self.model, "--random", 1, "--outputs", self.path / "link.npz")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((self.path / "link.npz").is_symlink())
            with np.load(self.path / "target" / "out.npz") as arrays:
                self.assertEqual(arrays["y"].shape, (1, 3))

    def test_outputs_above_the_file_size_limit(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        result = parallax("run", self.model, "--random", 1, "--shape", "x=1000x3", "--outputs", self.path / "out.npz",
                          preexec_fn=limit)
        self.refused(result, "cannot write", "File too large")
        self.assertEqual([p.name for p in self.path.iterdir() if p.name.startswith("out")], [])

    def test_threads_that_do_not_start(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (300_000 << 10, 300_000 << 10))
        for threads in (64, 1024):
            result = parallax("run", self.model, "--random", 1, "--threads", threads, preexec_fn=limit)
            self.refused(result, "the system starts only", f"of {threads} threads")

    def test_nothing_half_written(self):
        out = self.path / "missing" / "out.npz"
        self.refused(parallax("run", self.model, "--random", 1, "--outputs", out), "cannot write")
        self.assertFalse(out.exists())

    def test_analyze_refuses_what_run_refuses(self):
        wrong = {"shape": np.zeros((1, 4), np.float32), "rank": np.zeros(3, np.float32),
                 "kind": np.zeros((1, 3), np.float64)}
        for name, x in wrong.items():
            np.savez(self.path / f"{name}.npz", x=x, b=np.zeros(3, np.float32))
            messages = {parallax(command, self.model, "--inputs", self.path / f"{name}.npz").stderr
                        for command in ("run", "bench", "analyze")}
            self.assertEqual(len(messages), 1, messages)
            self.refused(parallax("analyze", self.model, "--inputs", self.path / f"{name}.npz"),
                         "input 'x': wanted f32[batch,3], found")
        # Shapes that only do not fit each other.
        two = self.path / "two.onnx"
        save(two, [helper.make_node("Add", ["x", "z"], ["y"], "sum")],
             [value("x", ["n"]), value("z", ["m"])], [value("y", None)])
        np.savez(self.path / "two.npz", x=np.zeros(2, np.float32), z=np.zeros(3, np.float32))
        for command in ("run", "bench", "analyze"):
            self.refused(parallax(command, two, "--inputs", self.path / "two.npz"), "'sum' (Add)")

    def test_shape_by_the_name_of_an_extent(self):
        model = self.path / "pair.onnx"
        save(model, [helper.make_node("Add", ["x", "z"], ["y"])],
             [value("x", ["n", "m"]), value("z", ["n", "m"])], [value("y", None)])

        def shape(*options):
            result = parallax("run", model, "--random", 1, "--json", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)["outputs"][0]["shape"]

        self.assertEqual(shape("--shape", "n=4", "--shape", "m=5"), [4, 5])
        self.assertEqual(shape("--shape", "m=5"), [1, 5])
        # One input's shape holds for the other's extents of the same name.
        self.assertEqual(shape("--shape", "x=6x7"), [6, 7])
        np.save(self.path / "x.npy", np.zeros((2, 3), np.float32))
        self.assertEqual(shape("--input", f"x={self.path / 'x.npy'}"), [2, 3])
        for shapes, part in ((["n=4", "x=6x7"], "input 'x' is given as [6,7]"),
                             (["k=4"], "no input and no open extent 'k'; it has 'x' f32[n,m], 'z' f32[n,m]")):
            options = [word for text in shapes for word in ("--shape", text)]
            self.refused(parallax("run", model, "--random", 1, *options), part, code=2)
        for text in ("x=2x3", "n=3"):
            self.refused(parallax("run", model, "--random", 1, "--input", f"x={self.path / 'x.npy'}", "--shape", text),
                         "given" if text == "n=3" else "a file gives this input", code=2)

    def test_shape_replaces_a_default(self):
        model = self.path / "default.onnx"
        save(model, [helper.make_node("Neg", ["x"], ["y"])], [value("x", ["n"])], [value("y", None)],
             initializers=[helper.make_tensor("x", TensorProto.FLOAT, [2], [1, 2])])
        for options, wanted in (([], [2]), (["--random", "1", "--shape", "x=5"], [5])):
            result = parallax("run", model, "--json", *options)
            self.assertEqual(json.loads(result.stdout)["outputs"][0]["shape"], wanted, result.stderr)
        self.refused(parallax("run", model, "--shape", "x=5"), "missing", code=2)
        # The default itself is a constant: what follows from it is computed once, while planning.
        self.assertEqual(json.loads(parallax("analyze", model, "--json").stdout)["flops"], 0)
        self.assertEqual(json.loads(parallax("analyze", model, "--json", "--shape", "x=5").stdout)["flops"], 5)

    def test_errors_tell_what_was_made_up(self):
        tiles = self.path / "tiles.onnx"
        save(tiles, [helper.make_node("Reshape", ["img", "s"], ["y"], "tile")],
             [value("img", ["batch", 3, "height", "width"])], [value("y", None)],
             initializers=[helper.make_tensor("s", TensorProto.INT64, [2], [4, -1])])
        hint = ("open extents of 'img' f32[batch,3,height,width] were taken as 1", "--shape img=1x3xNxN", "width=N")
        self.refused(parallax("bench", tiles), "'tile' (Reshape)", *hint)
        self.refused(parallax("run", tiles, "--random", 1), "'tile' (Reshape)", *hint)
        self.refused(parallax("analyze", tiles, "--shape", "height=1"), "'tile' (Reshape)", "taken as 1")
        result = parallax("analyze", tiles)
        self.assertEqual(result.returncode, 0, result.stderr)
        for part in (*hint, "counted as f32[1,3,1,1]"):
            self.assertIn(part, result.stdout)
        rows = self.path / "rows.onnx"
        save(rows, [helper.make_node("Gather", ["table", "ids"], ["y"], "pick")],
             [value("ids", [4], TensorProto.INT64)], [value("y", None)],
             initializers=[helper.make_tensor("table", TensorProto.FLOAT, [2], [1, 2])])
        self.refused(parallax("bench", rows), "'pick' (Gather): index", "the values of 'ids' i64[4] were random",
                     "from 0 to 999")
        np.save(self.path / "ids.npy", np.array([0, 1, 2, 0]))
        given = parallax("bench", rows, "--input", f"ids={self.path / 'ids.npy'}")
        self.refused(given, "index 2")
        self.assertNotIn("random", given.stderr)

    def test_numpy_files(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.save(self.path / "x.npy", x.astype(">f4"))
        np.save(self.path / "b.npy", np.asfortranarray(np.ones(3, ">f4")))
        out = self.path / "out.npz"
        b = f"b={self.path / 'b.npy'}"
        result = parallax("run", self.model, "--input", f"x={self.path / 'x.npy'}", "--input", b, "--outputs", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        np.testing.assert_array_equal(np.load(out)["y"], x + 1)
        self.refused(parallax("run", self.model, "--inputs", self.path / "x.npy"), "one array", "--input x=", code=2)
        self.refused(parallax("run", self.model, "--input", f"x={out}", "--input", b), "an .npz file", "--inputs")
        self.refused(parallax("run", self.model, "--random", 1, "--outputs", self.path / "y.npy"), "end in .npz", code=2)
        self.assertFalse((self.path / "y.npy").exists())

    def test_statistics_of_no_numbers(self):
        model = self.path / "log.onnx"
        save(model, [helper.make_node("Log", ["x"], ["y"])], [value("x", ["n"])], [value("y", None)])
        nan, inf = "nan", "inf"
        for x, wanted in (([-1, -2], (nan, nan, nan, 2)), ([0, 1], ("-inf", "-inf", 0, 0)),
                          ([np.inf, -1], (inf, inf, inf, 1)), ([0, np.inf], ("-inf", nan, inf, 0))):
            np.savez(self.path / "x.npz", x=np.array(x, np.float32))
            result = parallax("run", model, "--inputs", self.path / "x.npz", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads(result.stdout)["outputs"][0]
            self.assertEqual(tuple(found[key] for key in ("min", "mean", "max", "nan")), wanted)
        np.savez(self.path / "x.npz", x=np.array([-1], np.float32))
        words = parallax("run", model, "--inputs", self.path / "x.npz").stdout.splitlines()[1].split()
        self.assertEqual(words[2:], ["nan", "nan", "nan", "(1", "NaN)"])

    # usage

    def test_wrong_command_words(self):
        every = ("run", "bench", "analyze")
        self.refused(parallax("fly"), "no command 'fly'", *every, code=2)
        self.refused(parallax("analyse", self.model), "did you mean 'analyze'?", code=2)
        self.refused(parallax("bnech", self.model), "did you mean 'bench'?", code=2)
        self.refused(parallax(self.model), f"the command comes first: parallax run {self.model}", code=2)
        self.refused(parallax(), "a command is missing", *every, code=2)
        self.refused(parallax("run", self.model, "--thread", "1"), "--thread", "did you mean '--threads'?", code=2)

    def test_wrong_options_are_usage(self):
        for arguments, part in ((["--shape", "9x16"], "'9x16' should be NAME=1x3x640x640"),
                                (["--input", "x.npy"], "'x.npy' should be NAME=FILE"),
                                (["--input", "q=x.npy"], "no input 'q'"),
                                (["--allow-external", "/no/such/folder"], "/no/such/folder"),
                                (["--threads", "0"], "--threads"), (["--random", "x"], "--random")):
            self.refused(parallax("run", self.model, *arguments), part, "parallax run --help", code=2)

    def test_results_that_reach_nobody_are_a_failure(self):
        for arguments in (["--help"], ["--version"], ["run", "--help"], ["analyze", self.model],
                          ["analyze", self.model, "--json"], ["run", self.model, "--random", "1"],
                          ["run", self.model, "--random", "1", "--json"], ["bench", self.model, "--runs", "1"],
                          ["bench", self.model, "--runs", "1", "--json"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([PARALLAX, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE,
                                        text=True, timeout=120)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertEqual(result.stderr, "parallax: cannot write to standard output: No space left on device\n")

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
        self.refused(parallax("run", "/dev/stdin", stdin=subprocess.PIPE), "not a regular file", "a pipe")
        whole = self.model.read_bytes()
        for content in (b"", b"\x89PNG\r\n\x1a\n", os.urandom(4096), whole[: len(whole) // 2], whole[:-1]):
            bad = self.path / "bad.onnx"
            bad.write_bytes(content)
            for command in ("run", "bench", "analyze"):
                self.refused(parallax(command, bad), "bad.onnx")

    def test_graphs_without_their_weights(self):
        graphs = sorted((ROOT / "models").glob("*.onnx"))
        self.assertTrue(graphs)
        for graph in graphs:
            self.assertTrue(graph.name.endswith(".graph.onnx"), "a file that cannot run must say so by its name")
            self.refused(parallax("run", graph, "--random", 1), "found 0 (is this a graph without its weights?)")

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
        self.assertLess(found["start_rss_bytes"], found["peak_rss_bytes"])
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

    def test_analyze_structure(self):
        # Two branches side by side, of which one is an If.
        sides = [helper.make_graph([helper.make_node(op, ["a"], ["s"])], op, [], [value("s", [4])])
                 for op in ("Relu", "Neg")]
        model = self.path / "diamond.onnx"
        save(model, [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["e"]),
                     helper.make_node("Tanh", ["e"], ["t"]),
                     helper.make_node("If", ["c"], ["i"], name="which", then_branch=sides[0], else_branch=sides[1]),
                     helper.make_node("Add", ["t", "i"], ["y"])],
             [value("x", [4]), value("c", [], TensorProto.BOOL)], [value("y", [4])])
        found = json.loads(parallax("analyze", model, "--json").stdout)
        counts = {"nodes": 5, "layers": 3, "parallel_layers": 1, "max_branches": 2}
        self.assertEqual(found["graph"], {graph: counts for graph in ("pre", "post", "planned")})
        self.assertEqual([(s["node"], s["body"]) for s in found["subgraphs"]],
                         [("which", "else_branch"), ("which", "then_branch")])
        one = {"nodes": 1, "layers": 1, "parallel_layers": 0, "max_branches": 1}
        self.assertEqual(found["subgraphs"][0]["graph"]["pre"], one)
        text = parallax("analyze", model).stdout
        self.assertRegex(text, r"graph +5 +4 +3 +1 +2\n")
        self.assertIn("and 2 bodies with one branch a layer", text)

    def test_analyze_follows_trip_counts(self):
        body = helper.make_graph([helper.make_node("Add", ["a", "a"], ["b"])], "body",
                                 [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("a", [8])],
                                 [value("c", [], TensorProto.BOOL), value("b", [8])])
        model = self.path / "loop.onnx"
        save(model, [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
             [value("trips", [], TensorProto.INT64), value("x", [8])], [value("y", None)])
        for trips in (1, 100):
            np.savez(self.path / "in.npz", trips=np.int64(trips), x=np.zeros(8, np.float32))
            found = json.loads(parallax("analyze", model, "--inputs", self.path / "in.npz", "--json").stdout)
            self.assertEqual((found["flops"], found["loops_counted_once"]), (8 * trips, 0))
        found = json.loads(parallax("analyze", model, "--json").stdout)
        self.assertEqual((found["flops"], found["loops_counted_once"]), (8, 1))
        self.assertIn("1 loop(s) of unknown length count their body once", parallax("analyze", model).stdout)

    def test_analyze_keeps_values_out_of_folding(self):
        # Given token ids must not turn the work on them into constants.
        model = self.path / "ids.onnx"
        save(model, [helper.make_node("Gather", ["table", "ids"], ["e"]), helper.make_node("Add", ["e", "e"], ["y"])],
             [value("ids", [4], TensorProto.INT64)], [value("y", None)],
             initializers=[helper.make_tensor("table", TensorProto.FLOAT, [2], [1, 2])])
        np.savez(self.path / "in.npz", ids=np.array([0, 1, 1, 0]))
        for options in ([], ["--inputs", self.path / "in.npz"]):
            self.assertEqual(json.loads(parallax("analyze", model, "--json", *options).stdout)["flops"], 4)

    def test_analyze_is_a_table_of_what_is_known(self):
        name = "a_very_long_input_name_that_no_column_was_made_for"
        model = self.path / "reshape.onnx"
        save(model, [helper.make_node("Reshape", [name, "s"], ["y"]), helper.make_node("Relu", [name], ["z"])],
             [value(name, [2, 8]), value("s", [2], TensorProto.INT64)], [value("y", ["rows", 4]), value("z", None)])
        lines = parallax("analyze", model).stdout.splitlines()
        self.assertEqual({line.index(kind) for line in lines for kind in (" f32[", " i64[") if kind in line},
                         {2 + len(name)})
        self.assertIn("f32[rows,4]", next(line for line in lines if line.startswith("  y ")))
        found = json.loads(parallax("analyze", model, "--json").stdout)
        self.assertEqual(found["outputs"][0]["shape"], ["rows", 4])
        self.assertEqual(found["symbolic_dims"], ["rows"])
        self.assertIn(" 16 FLOPs ", next(line for line in lines if line.startswith("work")))

    def test_bench_units(self):
        # Three elements take far less than a millisecond; its digits must not all be zeros.
        lines = parallax("bench", self.model, "--runs", 3).stdout.splitlines()
        self.assertEqual(lines[1], "inputs       x f32[1,3], b f32[3]")
        latency = next(line for line in lines if line.startswith("latency"))
        self.assertRegex(latency, r"^latency (us|ms)   min \d+\.\d{3}  median ")
        self.assertNotIn("min 0.000", latency)

    def test_names_of_peer_benchmarks(self):
        def bench(*models):
            # No round is 0 long: names that pass end at that.
            return subprocess.run([sys.executable, ROOT / "bench/peers/main.py", "--rounds", "0", *models], text=True,
                                  capture_output=True, timeout=120, cwd=ROOT)

        for wrong in ("bogus", "bogus.onnx", "/somewhere/mobilenetv2.onnx"):
            result = bench(wrong)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"no model {wrong} here; there are yolov8n, mobilenetv2", result.stderr)
        for right in ("mobilenetv2", "whisper_tiny_decoder_merged", "whisper_tiny_decoder_cached",
                      "models/generated/mobilenetv2.onnx", "models/mobilenetv2.graph.onnx"):
            self.assertIn("at least 1", bench(right).stderr)

    def test_cpu_set(self):
        cpu = str(min(os.sched_getaffinity(0)))
        result = subprocess.run(["taskset", "-c", cpu, PARALLAX, "bench", self.model, "--shape", "x=2x3", "--runs",
                                 "1", "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["threads"], 1)


if __name__ == "__main__":
    unittest.main()
