"""MNN by its sessions, in f32 ("high" precision).

The compiled modules are imported by themselves: the converter's Python wrapper sets up a logger of usage
that installs packages and calls home.
"""

import numpy as np


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

    def convert(self, graph, inputs, folder):
        import _tools
        file = folder / "model.mnn"
        _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", str(graph), "--MNNModel", str(file),
                           "--bizCode", "parallax"])
        if not file.exists():
            raise RuntimeError("the converter refuses the model")
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
