"""ONNX Runtime, CPU provider: the reference, and a rival that reads the same file as parallax."""


class Rival:
    name, title = "onnxruntime", "ONNX Runtime"
    python = ".venv/bin/python"
    as_it_is = True
    rewrites = ()

    def __init__(self):
        import onnxruntime
        self._library = onnxruntime

    def version(self):
        return self._library.__version__

    def load(self, file, threads, inputs, outputs):
        options = self._library.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = self._library.InferenceSession(str(file), options, ["CPUExecutionProvider"])
        self._outputs = list(outputs)

    def run(self, inputs):
        return dict(zip(self._outputs, self._session.run(self._outputs, inputs)))
