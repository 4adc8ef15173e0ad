"""ncnn in f32, from ONNX by pnnx. Its tensors have no batch."""

import importlib.util
import pathlib
import subprocess

import numpy as np

TYPES = {"float32": "f32", "int64": "i64", "int32": "i32", "bool": "bool"}
NARROW = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage")


class Rival:
    name, title = "ncnn", "ncnn"
    python = ".venv-peers/bin/python"
    as_it_is = False
    rewrites = ("sums_as_means",)  # pnnx loses the axes of sums

    def __init__(self):
        import ncnn
        self._library = ncnn

    def version(self):
        return self._library.__version__

    def convert(self, graph, inputs, outputs, folder):
        shapes = (f"[{','.join(map(str, array.shape))}]{TYPES[str(array.dtype)]}" for array in inputs.values())
        # Looked up, not imported: its package wants PyTorch.
        program = pathlib.Path(importlib.util.find_spec("pnnx").origin).with_name("pnnx")
        done = subprocess.run([program, graph.name, "inputshape=" + ",".join(shapes), "fp16=0"], cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        parameters = folder / f"{graph.stem}.ncnn.param"
        if done.returncode != 0 or not parameters.exists():
            raise RuntimeError(f"pnnx ended with {done.returncode}")
        return parameters

    def load(self, file, threads, inputs, outputs):
        self._network = self._library.Net()
        self._network.opt.num_threads = threads
        self._network.opt.use_vulkan_compute = False
        for option in NARROW:
            setattr(self._network.opt, option, False)
        if self._network.load_param(str(file)) or self._network.load_model(str(file.with_suffix(".bin"))):
            raise RuntimeError("it cannot load what pnnx wrote")
        self._inputs, self._outputs = inputs, outputs

    def run(self, inputs):
        extractor = self._network.create_extractor()
        for index, name in enumerate(self._inputs):
            array = inputs[name] if inputs[name].dtype == np.float32 else inputs[name].astype(np.int32)
            array = array[0] if array.ndim > 1 and array.shape[0] == 1 else array
            # A copy: a Mat over an array counts no owners, and layers that work in place crash for want of it.
            extractor.input(f"in{index}", self._library.Mat(array).clone())
        return {name: np.array(extractor.extract(f"out{index}")[1]).reshape(shape)
                for index, (name, shape) in enumerate(self._outputs.items())}
