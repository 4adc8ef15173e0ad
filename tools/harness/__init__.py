"""What the demo, the parity tests and the benchmarks share; development only.

cli               runs build/release/parallax as any other program would
peer              ONNX Runtime, the reference
double_reference  a model in f64
evaluation        seeded inputs of the evaluation graphs
text, speech, filetype   from a picture, a sound, a file to tensors and back, as each trained model wants
"""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = ROOT / "models" / "generated"


def model_path(name):
    """The path of models/generated/NAME.onnx, which `./dev models` writes."""
    path = GENERATED / f"{name}.onnx"
    if not path.exists():
        raise SystemExit(f"{path} is missing; run ./dev models")
    return path
