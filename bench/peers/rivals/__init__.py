"""One file a rival: what it is called, where it is installed, how it converts, loads and runs a model.

A rival is a class `Rival` with
    name, title     the key in JSON and on the command line; what tables call it
    python          the interpreter, from the root of the tree, that has its packages
    as_it_is        True: it reads the model's own file. False: convert() gets a graph that graphs.py made
                    for this use, every extent fixed and no `If`
    rewrites        functions of graphs.py that this graph goes through for it
and, only ever called in a process of that interpreter (worker.py),
    __init__()      imports its packages, so that what they take is not counted as the model's memory
    version()       text
    convert(graph, inputs, outputs, folder)   writes to `folder` what load() reads and gives its path. The arrays
                    by name are in the graph's order; `outputs` is what ONNX Runtime makes of `inputs`
    load(file, threads, inputs, outputs)   f32 on the CPU. `inputs` are the graph's names in order, `outputs`
                    its {name: shape} in order
    run(inputs)     {name: array} to {name: array}, arrays that stay valid
Whatever fails raises; the message becomes the rival's outcome.
"""

import importlib

NAMES = ("onnxruntime", "openvino", "mnn", "ncnn")


def rival_class(name):
    return importlib.import_module(f"rivals.{name}").Rival
