"""A model evaluated in double precision: what the f32 results are rounded from.

Every f32 tensor, constant and cast of the graph becomes f64, and ONNX's reference evaluator runs it.
Three of its operators are replaced: convolution, by one that hands its sums to a matrix product, because
the evaluator's own takes minutes on a detector; batch normalisation, which it computes as in training
for opsets 9 to 13; the global maximum pool, which it takes over the channels too.
"""

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE


class Conv(OpRun):
    """y[n,m] = sum over c and kernel of x * w, + b; explicit pads only, as the models have."""

    op_domain = ""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None,
             pads=None, strides=None):
        rank = x.ndim - 2
        if auto_pad not in (None, "NOTSET"):
            raise NotImplementedError(f"auto_pad {auto_pad}")
        group, pads = group or 1, pads or [0] * (2 * rank)
        strides, dilations = strides or [1] * rank, dilations or [1] * rank
        x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[i + rank]) for i in range(rank)])
        extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
        windows = np.lib.stride_tricks.sliding_window_view(x, extents, axis=tuple(range(2, rank + 2)))
        steps = (slice(None), slice(None), *(slice(None, None, s) for s in strides),
                 *(slice(None, None, d) for d in dilations))
        windows = windows[steps]  # [n, c, out..., kernel...]
        batch, channels = windows.shape[:2]
        out = windows.shape[2:2 + rank]
        windows = windows.reshape(batch, group, channels // group, *windows.shape[2:])
        kernel_axes = tuple(range(3 + rank, 3 + 2 * rank))
        order = (1, 0, *range(3, 3 + rank), 2, *kernel_axes)
        rows = windows.transpose(order).reshape(group, batch * int(np.prod(out)), -1)
        weights = w.reshape(group, w.shape[0] // group, -1).transpose(0, 2, 1)
        y = (rows @ weights).reshape(group, batch, *out, -1)
        y = np.moveaxis(y, (0, -1), (1, 2)).reshape(batch, w.shape[0], *out)
        if b is not None:
            y = y + b.reshape(-1, *[1] * rank)
        return (y,)


class BatchNormalization(OpRun):
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias, each per channel: inference."""

    op_domain = ""

    def _run(self, x, scale, bias, mean, variance, epsilon=None, momentum=None, training_mode=None,
             spatial=None):
        if training_mode or spatial == 0:
            raise NotImplementedError("training, or statistics that are not per channel")
        per_channel = (-1, *[1] * (x.ndim - 2))
        factor = scale / np.sqrt(variance + (1e-5 if epsilon is None else epsilon))
        return ((x - mean.reshape(per_channel)) * factor.reshape(per_channel) + bias.reshape(per_channel),)


class GlobalMaxPool(OpRun):
    """The maximum of each channel, spatial extents kept as 1."""

    op_domain = ""

    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


def _graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _widen(tensor):
    if tensor.data_type == FLOAT:
        wide = numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
        tensor.CopyFrom(wide)


def to_double(model):
    """A copy of `model` whose f32 is f64 throughout."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for graph in _graphs(wide.graph):
        del graph.value_info[:]
        for tensor in graph.initializer:
            _widen(tensor)
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type == FLOAT:
                value.type.tensor_type.elem_type = DOUBLE
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    _widen(attribute.t)
                elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                    attribute.i = DOUBLE
                elif node.op_type == "Constant" and attribute.name == "value_float":
                    value = np.array(attribute.f, np.float64)
                    attribute.CopyFrom(onnx.helper.make_attribute("value", numpy_helper.from_array(value)))
    return wide


class DoubleReference:
    """Owns the widened copy of a model; run() takes and gives f64 where the model has f32."""

    def __init__(self, model):
        self._names = [value.name for value in model.graph.output]
        self._evaluator = ReferenceEvaluator(to_double(model), new_ops=[Conv, BatchNormalization, GlobalMaxPool])

    def run(self, inputs):
        wide = {name: array.astype(np.float64) if array.dtype == np.float32 else array
                for name, array in inputs.items()}
        return dict(zip(self._names, self._evaluator.run(None, wide)))
