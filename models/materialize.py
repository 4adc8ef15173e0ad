"""Fills the evaluation graphs of this folder with weights and writes them to models/generated/.

The graphs, NAME.graph.onnx, are kept without their large float tensors. A tensor that was dropped
has no data and carries "mean deviation" of the original in its doc_string; here it is drawn from
that normal distribution. The n-th dropped tensor of a file (n from 1; initializers before Constant
nodes, a graph before the graphs inside its nodes) uses PCG64(n), so every machine writes the same
bytes.

Usage: materialize.py [NAME...]                 all graphs, or those named; skips what is up to date
       materialize.py NAME.graph.onnx OUT.onnx  one file, always
"""

import os
import pathlib
import sys
import tempfile

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
GENERATED = HERE / "generated"
SUFFIX = ".graph.onnx"


def tensors_in_order(graph):
    """Every tensor that may have been dropped, in the order that fixes the seeds."""
    yield from graph.initializer
    inner = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR and node.op_type == "Constant":
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                inner.append(attribute.g)
    for graph in inner:
        yield from tensors_in_order(graph)


def fill(model):
    """Gives each dropped tensor of `model` its values."""
    dropped = (t for t in tensors_in_order(model.graph) if t.doc_string)
    for seed, tensor in enumerate(dropped, start=1):
        mean, deviation = (np.float32(float(word)) for word in tensor.doc_string.split())
        generator = np.random.Generator(np.random.PCG64(seed))
        count = int(np.prod(tensor.dims))
        values = generator.standard_normal(count, dtype=np.float32)
        values *= deviation
        values += mean
        tensor.raw_data = values.astype("<f4", copy=False).tobytes()
        tensor.doc_string = ""
    model.doc_string = ""


def write_atomically(path, data):
    """A reader of `path` sees the old file or the whole new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def materialize(source, target):
    model = onnx.load(source)
    fill(model)
    write_atomically(pathlib.Path(target), model.SerializeToString())


def up_to_date(target, *sources):
    if not target.exists():
        return False
    return all(target.stat().st_mtime >= source.stat().st_mtime for source in sources)


def main(arguments):
    if len(arguments) == 2 and arguments[0].endswith(".onnx"):
        materialize(*arguments)
        return 0
    names = arguments or sorted(path.name.removesuffix(SUFFIX) for path in HERE.glob(f"*{SUFFIX}"))
    for name in names:
        source, target = HERE / f"{name}{SUFFIX}", GENERATED / f"{name}.onnx"
        if not source.exists():
            print(f"materialize: no graph {source}", file=sys.stderr)
            return 2
        if not up_to_date(target, source, pathlib.Path(__file__)):
            materialize(source, target)
            print(f"models/generated/{name}.onnx  {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
