"""The file that a rival loads for a case: converted once, kept in build/peers/ under a content hash."""

import hashlib
import json
import pathlib
import shutil
import tempfile

import graphs
import numpy as np
import onnx
from harness import ROOT
from process import RivalError, work
from rivals import rival_class

CACHE = ROOT / "build" / "peers"
HERE = pathlib.Path(__file__).parent
GRAPH = "graph.onnx"


def content_hash(files, texts):
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as stream:
            while part := stream.read(1 << 20):
                digest.update(part)
    for text in texts:
        digest.update(str(text).encode() + b"\0")
    return digest.hexdigest()[:16]


def make_graph(case, rival, inputs, outputs):
    model = graphs.without_ifs(onnx.load(case.path()), inputs)
    graphs.fix_extents(model, inputs, outputs)
    for rewrite in rival.rewrites:
        model = getattr(graphs, rewrite)(model)
    return model


def convert(case, rival, inputs, outputs, folder):
    """Fills `folder`; gives what loaded() reads from it."""
    graph = make_graph(case, rival, inputs, outputs)
    onnx.save(graph, folder / GRAPH)
    given = {value.name: inputs[value.name] for value in graph.graph.input}
    wanted = {value.name: outputs[value.name] for value in graph.graph.output}
    job = {"work": "convert", "graph": GRAPH, "folder": str(folder)}
    with tempfile.TemporaryDirectory() as arrays:
        for key, values in (("inputs", given), ("outputs", wanted)):
            job[key] = f"{arrays}/{key}.npz"
            np.savez(job[key], **values)
        made = work(rival.name, job)
    return {"file": made["file"], "input_names": list(given), "output_shapes": shapes(wanted)}


def shapes(arrays):
    return {name: list(array.shape) for name, array in arrays.items()}


def remove_leftovers(folder, file):
    """Everything that is not the converted model: its own name, and another part of the same stem."""
    for path in folder.iterdir():
        if path.name != file and path.stem != pathlib.Path(file).stem:
            path.unlink()


def loaded(name, case, rival_name, version, inputs, outputs):
    """{file, input_names, output_shapes} as the worker's jobs want them, for the case called `name`.

    `inputs` and `outputs` are arrays by name: what decides shapes and branches. An error of a conversion is
    kept as well: it comes again without waiting for it.
    """
    rival = rival_class(rival_name)
    model = case.path()
    if rival.as_it_is:
        return {"file": str(model), "input_names": list(inputs), "output_shapes": shapes(outputs)}

    sources = [HERE / file for file in ("graphs.py", "convert.py", "requirements.txt", f"rivals/{rival_name}.py")]
    folder = CACHE / f"{name}-{rival_name}-{content_hash([model, *sources], [version, shapes(inputs)])}"
    outcome = folder / "outcome.json"
    if not outcome.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob(f"{name}-{rival_name}-*"):
            shutil.rmtree(old)
        unfinished = pathlib.Path(tempfile.mkdtemp(dir=CACHE, prefix="unfinished-"))
        try:
            try:
                result = convert(case, rival, inputs, outputs, unfinished)
            except RivalError as error:
                result = {"file": "", "error": str(error)}
            remove_leftovers(unfinished, result["file"])
            (unfinished / outcome.name).write_text(json.dumps(result))
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    result = json.loads(outcome.read_text())
    if "error" in result:
        raise RivalError(result["error"])
    return result | {"file": str(folder / result["file"])}
