"""MNN by its sessions, in f32 ("high" precision).

The compiled modules are imported by themselves: the converter's Python wrapper sets up a logger of usage
that installs packages and calls home.

What the converter makes of a graph depends on how long the names of the files are: the same bytes give CLIP
with its causal mask or without, DistilBERT right to 2e-4 or wrong by 3e-2. So it is asked with several names,
and the first right answer is kept, or else the last one.
"""

import os

import numpy as np
import summary

NAME_LENGTHS = (5, 1, 50, 20, 35, 10)


class Rival:
    name, title = "mnn", "MNN"
    python = ".venv-peers/bin/python"
    as_it_is = False
    rewrites = ("without_isnan",)  # it has no IsNaN

    def __init__(self):
        import _mnncengine
        self._engine = _mnncengine

    def version(self):
        return self._engine.version()

    def convert(self, graph, inputs, outputs, folder):
        import _tools
        os.chdir(folder)  # names alone, wherever the tree is
        for length in NAME_LENGTHS:
            file = folder / ("m" * length + ".mnn")
            _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", graph.name, "--MNNModel", file.name,
                               "--bizCode", "parallax"])
            if not file.exists():
                raise RuntimeError("the converter refuses the model")
            self.load(file, 1, list(inputs), outputs)
            if summary.difference(self.run(inputs), outputs)[0] <= summary.DIFFERENCE_LIMIT:
                break
        return file

    def load(self, file, threads, inputs, outputs):
        self._network = self._engine.Interpreter(str(file))
        self._session = self._network.createSession(
            {"backend": "CPU", "precision": "high", "numThread": threads})
        self._inputs = self._network.getSessionInputAll(self._session)
        self._outputs = self._network.getSessionOutputAll(self._session)

    def run(self, inputs):
        for name, tensor in self._inputs.items():
            tensor.copyFrom(self._host(inputs[name]))
        self._network.runSession(self._session)
        results = {}
        for name, tensor in self._outputs.items():
            host = self._host(np.empty(tensor.getShape(), np.float32))
            tensor.copyToHostTensor(host)
            results[name] = host.getNumpyData().copy()
        return results

    def _host(self, array):
        """A tensor over or of `array`, as dense as numpy's. Its integers have 32 bits."""
        kind = self._engine.Halide_Type_Float
        if array.dtype != np.float32:
            array, kind = array.astype(np.int32), self._engine.Halide_Type_Int
        return self._engine.Tensor(array.shape, kind, array, self._engine.Tensor_DimensionType_Caffe)
