"""What is timed: models and their inputs, seeded, at the sizes that they usually run at."""

import dataclasses
import functools
import typing

import numpy as np
import onnx
import summary
from harness import ROOT, evaluation, model_path, speech

MADE = ROOT / "build" / "peers" / "models"


@dataclasses.dataclass(frozen=True)
class Case:
    """A model in one use; `inputs(seed)` has the same shapes for every seed.

    It is one of models/generated/, or what `make()` gives: the same model, byte for byte, on every call.
    Programs whose difference() from the reference is at most `limit` are right.
    """

    model: str
    inputs: typing.Callable[[int], dict]
    make: typing.Callable[[], onnx.ModelProto] | None = None
    limit: float = summary.DIFFERENCE_LIMIT

    @functools.cache
    def path(self):
        """The model's file."""
        if not self.make:
            return model_path(self.model)
        MADE.mkdir(parents=True, exist_ok=True)
        file = MADE / f"{self.model}.onnx"
        onnx.save(self.make(), file)
        return file


def _evaluation(name):
    return Case(name, evaluation.INPUTS[name][0])


def _whisper_decoder(past):
    """The prompt of four tokens, or one token after `past` others."""
    def inputs(seed):
        step = evaluation.whisper_prefill(evaluation.normal(1, 1500, 384, seed=seed))
        if past:
            step["input_ids"] = np.array([[1000 + seed]], np.int64)
            step["use_cache_branch"] = np.array([True])
            for name, array in step.items():
                if name.startswith("past_key_values."):
                    batch, heads, length, size = array.shape
                    step[name] = evaluation.normal(batch, heads, length or past, size, seed=seed)
        return step

    return Case("whisper_tiny_decoder_merged", inputs)


def _picture(height, width):
    """A picture of noise in [-1, 1], as text detection and recognition take it."""
    return lambda seed: {"x": evaluation.image(1, 3, height, width, seed=seed) * np.float32(2) - np.float32(1)}


def _sound(seed):
    """One step of speech detection on a quiet noise."""
    samples = evaluation.normal(1, speech.CONTEXT + speech.STEP, seed=seed) * np.float32(0.1)
    return {"input": samples, "state": speech.first_state(), "sr": np.array(speech.RATE, np.int64)}


def _file(seed):
    """The head and the tail of a file of random bytes."""
    return {"bytes": np.random.Generator(np.random.PCG64(seed)).integers(0, 256, (1, 2048), dtype=np.int32)}


CASES = {
    "yolov8n": _evaluation("yolov8n"),
    "mobilenetv2": _evaluation("mobilenetv2"),
    "swinv2_tiny": _evaluation("swinv2_tiny"),
    "distilbert": _evaluation("distilbert"),
    "clip_text": _evaluation("clip_text"),
    "whisper_tiny_encoder": _evaluation("whisper_tiny_encoder"),
    "whisper_tiny_decoder_prefill": _whisper_decoder(past=0),
    "whisper_tiny_decoder_cached": _whisper_decoder(past=64),
    "ppocr_det": Case("ppocr_det", _picture(736, 1088)),
    "ppocr_rec": Case("ppocr_rec", _picture(48, 320)),
    "silero_vad": Case("silero_vad", _sound),
    "magika": Case("magika", _file),
}
