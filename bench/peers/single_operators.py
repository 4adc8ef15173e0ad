"""Generated f32 models of one operator, repeated so that a call's own cost stays small beside the work.

A rival is called from Python, copies arrays in and out, and may turn them to a layout of its own. One small
operator would be timed together with all that, so a model has `layers` equal ones:
    chain   each feeds the next: whatever keeps its shape
    pair    there and back: a product or 1x1 convolution of another width, then one of the first width
    fan     all read the same input and their outputs are added: strides and other widths. The sums are a pass
            over the output for each layer beyond the first, which some programs fuse and others do not
    pooled  one layer whose output is much larger than its work is long; a maximum over 4 x 4 shrinks what has
            to be turned and copied
Each layer has weights of its own, scaled so that values keep their size however deep the model is.
"""

import dataclasses
import math
import typing
import zlib

import numpy as np
import onnx
from harness import evaluation
from onnx import TensorProto, helper, numpy_helper

F32 = 4  # bytes


class Graph:
    """A graph that grows node by node; tensors go by their names."""

    def __init__(self, name):
        self._name, self._nodes, self._constants = name, [], []
        self._generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))

    def node(self, kind, *inputs, **attributes):
        output = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, array):
        name = f"w{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def weight(self, *shape, scale=1.0):
        return self.constant(self._generator.standard_normal(shape, np.float32) * np.float32(scale))

    def model(self, shapes, output):
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        assert self._nodes[-1].output[0] == output, "what was made last is what the model gives"
        self._nodes[-1].output[0] = "y"
        graph = helper.make_graph(self._nodes, self._name, inputs,
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], self._constants)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """One operator at one size. `grow(graph, layer, x)` adds a layer that reads `x` and gives its output's name."""

    name: str
    family: str
    layers: int
    amount: float  # of one layer: operations (a multiply-add counts 2), or bytes where memory bounds it
    unit: str  # of amount a nanosecond: "GFLOP/s" or "GB/s"
    arrays: dict  # {input: shape}; the first one is what layers pass on
    grow: typing.Callable
    fan: bool = False
    pooled: bool = False

    def model(self):
        graph = Graph(self.name)
        first = value = next(iter(self.arrays))
        for layer in range(self.layers):
            made = self.grow(graph, layer, first if self.fan else value)
            value = graph.node("Add", value, made) if self.fan and layer else made
        if self.pooled:
            value = graph.node("MaxPool", value, kernel_shape=[4, 4], strides=[4, 4])
        return graph.model(self.arrays, value)

    def inputs(self, seed):
        return {name: evaluation.normal(*shape, seed=seed + index)
                for index, (name, shape) in enumerate(self.arrays.items())}

    def rate(self, milliseconds):
        """`unit` of a run that takes so long."""
        return self.layers * self.amount / (milliseconds * 1e6)


def there_and_back(layers, one, other):
    """The widths before and after each of `layers` layers."""
    assert one == other or layers % 2 == 0, "the last layer comes back to the first width"
    return [(one, other) if layer % 2 == 0 else (other, one) for layer in range(layers)]


def gemm(rows, columns, depth, layers, gelu=False):
    """[rows, depth] times [depth, columns] and back. One row reads its weights once: memory bounds it."""
    widths = there_and_back(layers, depth, columns)

    def grow(graph, layer, x):
        inner, outer = widths[layer]
        x = graph.node("MatMul", x, graph.weight(inner, outer, scale=inner**-0.5))
        return erf_gelu(graph, x) if gelu and layer % 2 == 0 else x

    amount, unit = 2.0 * rows * columns * depth, "GFLOP/s"
    if rows == 1:
        amount, unit = float(F32 * columns * depth), "GB/s"
    family = "gemm_gelu" if gelu else "gemm"
    return Shape(f"{family}_{rows}x{columns}x{depth}", family, layers, amount, unit, {"x": [rows, depth]}, grow)


def batched_gemm(batch, rows, columns, depth, layers):
    """Neither side is known before the run; `a` is [rows, depth] with depth = rows, so that products feed it."""
    assert rows == depth

    def grow(graph, layer, x):
        return graph.node("MatMul", "a", x)

    return Shape(f"gemm_{batch}x{rows}x{columns}x{depth}", "gemm", layers, 2.0 * batch * rows * columns * depth,
                 "GFLOP/s", {"x": [batch, depth, columns], "a": [batch, rows, depth]}, grow)


def conv(channels, filters, kernel, size, layers, stride=1, group=1, silu=False, transposed=False,
         pooled=False):
    """`size` is the extents of the picture, or of a sound. A kernel is as wide in every direction."""
    family = ("dw" if group > 1 else "convtr" if transposed else "conv") + "x".join([str(kernel)] * len(size))
    pointwise = kernel == 1 and stride == 1
    same = channels == filters and stride == 1
    widths = there_and_back(layers, channels, filters) if pointwise else [(channels, filters)] * layers
    pads = [0 if transposed or stride == kernel else kernel // 2] * len(size) * 2
    outer = [extent * stride if transposed else -(-extent // stride) for extent in size]
    taps = kernel**len(size)
    amount = 2.0 * channels * filters // group * taps * math.prod(size if transposed else outer)

    def grow(graph, layer, x):
        before, after = widths[layer]
        inner = before // group
        shape = [before, after] if transposed else [after, inner]
        # A stride's transposed convolution brings few of its taps to each output.
        reached = inner * taps / (stride**len(size) if transposed else 1)
        weight = graph.weight(*shape, *[kernel] * len(size), scale=reached**-0.5)
        bias = graph.weight(after, scale=0.1)
        x = graph.node("ConvTranspose" if transposed else "Conv", x, weight, bias, strides=[stride] * len(size),
                       pads=pads, kernel_shape=[kernel] * len(size), group=group)
        return graph.node("Mul", x, graph.node("Sigmoid", x)) if silu else x

    extents = "x".join(map(str, size if len(set(size)) > 1 else size[:1]))
    width = str(channels) if channels == filters else f"{channels}_{filters}"
    name = f"{family}{f'_s{stride}' if stride > 1 else ''}{'_silu' if silu else ''}_{width}_{extents}"
    return Shape(name, family + ("_silu" if silu else ""), layers, amount, "GFLOP/s",
                 {"x": [1, channels, *size]}, grow, fan=not same and not pointwise, pooled=pooled)


def attention(batch, heads, length, depth, layers):
    """Softmax(q kT / sqrt(depth)) v as its operators; the output is the next layer's q, of the same k and v."""
    def grow(graph, layer, x):
        # A mean over about length / e values is that much smaller than one of them.
        grown = math.sqrt(length / math.e) if layer else 1.0
        keys = graph.node("Transpose", "k", perm=[0, 1, 3, 2])
        scores = graph.node("Mul", graph.node("MatMul", x, keys), graph.constant(grown / math.sqrt(depth)))
        return graph.node("MatMul", graph.node("Softmax", scores, axis=-1), "v")

    shape = [batch, heads, length, depth]
    return Shape(f"attention_{batch}x{heads}x{length}x{depth}", "attention", layers,
                 4.0 * batch * heads * length * length * depth, "GFLOP/s",
                 {"q": shape, "k": shape, "v": shape}, grow)


def passing(family, shape, layers, grow):
    """A layer that reads and writes its tensor once."""
    return Shape(f"{family}_{'x'.join(map(str, shape))}", family, layers, 2.0 * F32 * math.prod(shape), "GB/s",
                 {"x": list(shape)}, grow)


def softmax(*shape, layers):
    """With a factor for each column before it: softmax of a softmax alone would soon be uniform."""
    def grow(graph, layer, x):
        factors = graph.weight(shape[-1], scale=shape[-1] if layer else 1)
        return graph.node("Softmax", graph.node("Mul", x, factors), axis=-1)

    return passing("softmax", shape, layers, grow)


def layer_norm(*shape, layers):
    def grow(graph, layer, x):
        return graph.node("LayerNormalization", x, graph.weight(shape[-1]), graph.weight(shape[-1]), axis=-1,
                          epsilon=1e-5)

    return passing("layer_norm", shape, layers, grow)


def erf_gelu(graph, x):
    """x (1 + erf(x / sqrt 2)) / 2, the five nodes that exporters write."""
    inner = graph.node("Erf", graph.node("Div", x, graph.constant(math.sqrt(2))))
    product = graph.node("Mul", x, graph.node("Add", inner, graph.constant(1)))
    return graph.node("Mul", product, graph.constant(0.5))


def gelu(*shape, layers):
    return passing("gelu", shape, layers, lambda graph, layer, x: erf_gelu(graph, x))


def silu(*shape, layers):
    return passing("silu", shape, layers, lambda graph, layer, x: graph.node("Mul", x, graph.node("Sigmoid", x)))


def nothing(*shape):
    """What a call costs, and copying its arrays: a clamp of `shape`."""
    return passing("nothing", shape, 1, lambda graph, layer, x: graph.node("Relu", x))
