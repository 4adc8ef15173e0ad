"""Copies the trained models that Python packages ship into models/generated/.

The packages (requirements-dev.txt) are only looked up, never imported: two of them import
libraries that the project does not want. Skips what is up to date.

Usage: fetch_trained.py
"""

import importlib.util
import pathlib
import sys

from materialize import GENERATED, up_to_date, write_atomically

# name in models/generated/ -> package, file inside it
TRAINED = {
    "ppocr_det.onnx": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"),
    "ppocr_rec.onnx": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
    "ppocr_cls.onnx": ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "silero_vad.onnx": ("silero_vad", "data/silero_vad.onnx"),
    "magika.onnx": ("magika", "models/standard_v3_3/model.onnx"),
    "magika.json": ("magika", "models/standard_v3_3/config.min.json"),
}


def package_folder(package):
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.origin).parent if spec and spec.origin else None


def main():
    for name, (package, inside) in TRAINED.items():
        folder = package_folder(package)
        source = folder / inside if folder else None
        if source is None or not source.is_file():
            print(f"fetch_trained: {package} with {inside} is not installed; run `./dev setup`",
                  file=sys.stderr)
            return 1
        target = GENERATED / name
        if not up_to_date(target, source, pathlib.Path(__file__)):
            write_atomically(target, source.read_bytes())
            print(f"models/generated/{name}  {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
