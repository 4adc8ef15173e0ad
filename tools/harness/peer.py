"""ONNX Runtime on the CPU."""

import onnxruntime


class Peer:
    """One session. `optimised` False switches every graph rewrite off."""

    def __init__(self, model, optimised=True, threads=0):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if not optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        source = model.SerializeToString() if hasattr(model, "SerializeToString") else str(model)
        self._session = onnxruntime.InferenceSession(source, options, ["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self, inputs):
        return dict(zip(self._names, self._session.run(None, inputs)))

    def metadata(self):
        return self._session.get_modelmeta().custom_metadata_map
