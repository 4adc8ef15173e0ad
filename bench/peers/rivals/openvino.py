"""OpenVINO's CPU plugin, pinned to f32: left alone it computes in bf16 where the processor has it.

It refuses Whisper's merged decoder, an `If` whose sides differ in rank, and gets the side that is taken.
"""

PINNED = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}


class Rival:
    name, title = "openvino", "OpenVINO"
    python = ".venv-peers/bin/python"
    as_it_is = False
    rewrites = ()

    def __init__(self):
        import openvino
        self._core = openvino.Core()
        self._version = openvino.__version__.partition("-")[0]  # its build follows

    def version(self):
        return self._version

    def convert(self, graph, inputs, outputs, folder):
        return graph  # it reads ONNX

    def load(self, file, threads, inputs, outputs):
        model = self._core.compile_model(str(file), "CPU", {**PINNED, "INFERENCE_NUM_THREADS": threads})
        self._request = model.create_infer_request()
        self._inputs, self._outputs = inputs, list(outputs)

    def run(self, inputs):
        self._request.infer({name: inputs[name] for name in self._inputs}, share_inputs=True)
        return {name: self._request.get_output_tensor(index).data.copy()
                for index, name in enumerate(self._outputs)}
