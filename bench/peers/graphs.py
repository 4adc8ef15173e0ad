"""Models as rivals want them: every extent fixed, without `If`, and around what a converter gets wrong.

Fixed extents let a rival decide the most before a run. Some rivals refuse an `If`, or one whose sides differ
in rank: without_ifs() puts the side that is taken in its place. The rewrites at the end are for one rival
each (rivals/) and compute the same.
"""

import numpy as np
import onnx
from harness.peer import Peer
from onnx import AttributeProto, TensorProto, helper, numpy_helper


def subgraphs(node):
    return [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]


def names_read(node):
    """Its inputs, and every name that the graphs inside it read: some of them come from outside."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        names.update(output.name for output in graph.output)
        for inner in graph.node:
            names |= names_read(inner)
    return names


def reduced(model, outputs):
    """A new model that computes only `outputs` (value infos); what they do not need is left out."""
    wanted = {output.name for output in outputs}
    nodes = []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= names_read(node)
    graph = helper.make_graph(nodes[::-1], model.graph.name,
                              [value for value in model.graph.input if value.name in wanted], outputs,
                              [tensor for tensor in model.graph.initializer if tensor.name in wanted])
    return helper.make_model(graph, ir_version=model.ir_version, opset_imports=model.opset_import,
                             functions=model.functions)


def inline_branch(model, node, branch):
    """A new model in which the side `branch` ("then_branch" or "else_branch") stands for the `If` `node`.

    Both sides may use the same names, and either may read names of the graph around: ONNX wants each name
    to be made once in what a node sees, so taking one side out of its graph lets no two of them meet.
    """
    side = next(attribute.g for attribute in node.attribute if attribute.name == branch)
    aliases = [helper.make_node("Identity", [inner.name], [outer])
               for inner, outer in zip(side.output, node.output) if outer and inner.name != outer]
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    for other in model.graph.node:
        result.graph.node.extend([*side.node, *aliases] if other is node else [other])
    result.graph.initializer.extend(side.initializer)
    return reduced(result, model.graph.output)


def without_ifs(model, inputs):
    """A new model with the sides that `inputs` take in the place of each `If`, those inside others too."""
    while node := next((node for node in model.graph.node if node.op_type == "If"), None):
        condition = helper.make_tensor_value_info(node.input[0], TensorProto.BOOL, None)
        deciding = reduced(model, [condition])
        given = {value.name: inputs[value.name] for value in deciding.graph.input}
        taken = Peer(deciding).run(given)[condition.name].item()
        model = inline_branch(model, node, "then_branch" if taken else "else_branch")
    return model


def fix_extents(model, inputs, outputs):
    """Writes the shapes of the arrays `inputs` and `outputs` (by name) into `model`, in place.

    An output without elements, which a side of an `If` has to fill its place, is no longer one.
    """
    del model.graph.value_info[:]
    kept = [output for output in model.graph.output if outputs[output.name].size]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    for values, arrays in ((model.graph.input, inputs), (model.graph.output, outputs)):
        for value in values:
            value.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(
                dim=[onnx.TensorShapeProto.Dimension(dim_value=extent) for extent in arrays[value.name].shape]))


def replaced(model, rewrite):
    """A new model with the nodes that `rewrite(node, constants)` gives, where it gives any, for each node."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    constants |= {node.output[0]: attribute.t for node in model.graph.node if node.op_type == "Constant"
                  for attribute in node.attribute if attribute.name == "value"}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    for node in model.graph.node:
        result.graph.node.extend(rewrite(node, constants) or [node])
    return reduced(result, result.graph.output)


def without_isnan(model):
    """IsNaN(x) as x != x."""
    def rewrite(node, _):
        if node.op_type == "IsNaN":
            equal = node.output[0] + "_equal"
            return [helper.make_node("Equal", [node.input[0]] * 2, [equal]),
                    helper.make_node("Not", [equal], node.output)]

    return replaced(model, rewrite)


def sums_as_means(model):
    """ReduceSum of f32 over constant axes, an input since opset 13, as a mean whose axes are an attribute,
    times the number of elements, for fixed extents that shape inference knows."""
    known = onnx.shape_inference.infer_shapes(model).graph
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
              for value in [*known.value_info, *known.input]
              if value.type.tensor_type.elem_type == TensorProto.FLOAT}

    def rewrite(node, constants):
        if node.op_type != "ReduceSum" or len(node.input) < 2 or node.input[1] not in constants:
            return None
        axes = numpy_helper.to_array(constants[node.input[1]]).tolist()
        extents = [shapes.get(node.input[0], [0] * (axis + 1))[axis] for axis in axes]
        keep = next((attribute.i for attribute in node.attribute if attribute.name == "keepdims"), 1)
        if not all(extents):
            return None
        mean, count = node.output[0] + "_mean", node.output[0] + "_count"
        value = numpy_helper.from_array(np.array(np.prod(extents), np.float32))
        return [helper.make_node("ReduceMean", [node.input[0]], [mean], axes=axes, keepdims=keep),
                helper.make_node("Constant", [], [count], value=value),
                helper.make_node("Mul", [mean, count], node.output)]

    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return replaced(model, rewrite) if 13 <= opset < 18 else model  # from 18 on, a mean's axes are an input too
