"""Trained models on real input by parallax, by ONNX Runtime and in f64: right answers, equal tensors.

compare.py says how the tolerances are derived.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from compare import Reference  # noqa: E402
from harness import filetype, model_path, speech, text  # noqa: E402
from harness.double_reference import DoubleReference  # noqa: E402
from harness.peer import Peer  # noqa: E402
from references import References, run_named, run_twice  # noqa: E402

LINES = ["parallax reads this line 42", "The quick brown fox, 1.5 ms!", "Ship models on small machines"]
PAGE = [(60, 50, 54, "parallax"), (60, 150, 36, "runs ONNX models on small machines"),
        (60, 240, 36, "one arena, 33.6 MB planned"), (480, 400, 40, "page 1 of 12"),
        (60, 520, 36, "Results are the same bits twice.")]

PHRASES = ["The model runs on the processor.", "Every byte is planned before it runs.", "The results are the same bits."]
PAUSES = [0.8, 1.0, 1.5, 0.7]
# The model's own resolution: a step is 32 ms, and it holds on to a sound that fades. What it may be off at an
# end is the shortest speech it reports.
SEGMENT_SLACK = speech.MIN_SPEECH

FILES = {
    "/usr/bin/ls": "elf",
    "/usr/lib/python3.11/os.py": "python",
    "/usr/include/stdio.h": "c",
    "/usr/lib/x86_64-linux-gnu/perl-base/strict.pm": "perl",
    "/usr/include/google/protobuf/any.proto": "proto",
    text.FONT: "ttf",
    "src/threads/team.cc": "cpp",
    "CMakeLists.txt": "cmake",
    "docs/architecture.md": "markdown",
    "dev": "shell",
    "CMakePresets.json": "json",
    "models/mobilenetv2.graph.onnx": "onnx",
    "models/README.md": "markdown",
}


def only(outputs):
    (output,) = outputs.values()
    return output


def compare_reading(name, parallax, score):
    path = model_path("ppocr_rec")
    references = References(onnx.load(path))
    table = text.characters(Peer(path).metadata())
    for line in LINES:
        inputs = text.reading_input(text.draw_line(line))
        ours = only(run_twice(score, parallax, path, inputs, repr(line)))
        wanted = only(references.run(inputs))
        score.close(repr(line), ours, wanted)
        score.same_class(repr(line), ours, wanted, 2)
        read = text.decode(ours, table)
        score.check(read == line, f"drawn {line!r}, read {read!r}")


def compare_finding(name, parallax, score):
    find, read = model_path("ppocr_det"), model_path("ppocr_rec")
    table = text.characters(Peer(read).metadata())
    page = text.draw_page(PAGE)
    inputs, scale = text.finding_input(page)
    ours = only(run_twice(score, parallax, find, inputs, "page"))
    wanted = only(References(onnx.load(find)).run(inputs))
    score.close("page", ours, wanted)
    boxes = text.boxes(ours, scale, page)
    score.check(boxes == text.boxes(wanted.single[0], scale, page), f"{len(boxes)} boxes, ONNX Runtime's")
    for box, (_, _, _, line) in zip(boxes, PAGE):
        got = text.decode(only(parallax.run(read, text.reading_input(text.crop(page, box)))), table)
        score.check(got == line, f"at {box}: drawn {line!r}, read {got!r}")
    score.check(len(boxes) == len(PAGE), f"{len(boxes)} boxes of {len(PAGE)} lines")


def compare_turning(name, parallax, score):
    """The classifier of upright and turned lines: its input is recognition's, 192 wide."""
    path = model_path("ppocr_cls")
    references = References(onnx.load(path))
    picture = text.draw_line(LINES[2])
    for label, shown in (("upright", picture), ("turned", picture[::-1, ::-1])):
        inputs = {"x": np.ascontiguousarray(text.reading_input(shown)["x"][..., :192])}
        ours = only(run_twice(score, parallax, path, inputs, label))
        wanted = only(references.run(inputs))
        score.close(label, ours, wanted)
        score.check(("upright", "turned")[ours[0].argmax()] == label, f"{label}: probability {ours[0].max():.3f}")


def compare_speech(name, parallax, score):
    """Step by step, every side with the state that it made itself."""
    path = model_path("silero_vad")
    model = onnx.load(path)
    sound, truth = speech.conversation(PHRASES, PAUSES)
    sides = [DoubleReference(model), Peer(model), Peer(model, optimised=False)]
    heard = [speech.listen(side.run, sound) for side in sides]
    ours = speech.listen(lambda inputs: parallax.run(path, inputs), sound)
    again = speech.listen(lambda inputs: parallax.run(path, inputs, threads=1), sound)
    score.identical(f"{len(ours[0])} steps", dict(enumerate(ours)), dict(enumerate(again)))
    for index, what in enumerate(("probability", "state")):
        score.close(f"{len(ours[0])} steps, {what}", ours[index], Reference(heard[0][index], (heard[1][index], heard[2][index])))
    found = speech.segments(ours[0])
    score.check(found == speech.segments(heard[1][0]), f"{len(found)} segments, ONNX Runtime's")
    score.check(len(found) == len(truth), f"{len(found)} segments of {len(truth)} phrases")
    for (start, end), (said, ended) in zip(found, truth):
        score.check(abs(start - said) < SEGMENT_SLACK and abs(end - ended) < SEGMENT_SLACK,
                    f"found {start:.2f}-{end:.2f} s, spoken {said:.2f}-{ended:.2f} s")


def compare_files(name, parallax, score):
    path = model_path("magika")
    references, types = References(onnx.load(path)), filetype.FileTypes()
    present = {file: label for file, label in FILES.items() if (ROOT / file).is_file()}
    score.check(len(present) >= 12, f"{len(present)} of {len(FILES)} files are here")
    for file, label in present.items():
        inputs = types.features((ROOT / file).read_bytes())
        ours = only(run_twice(score, parallax, path, inputs, file))
        wanted = only(references.run(inputs))
        score.close(file, ours, wanted)
        score.same_class(file, ours, wanted, 1)
        answer, probability = types.answer(ours)
        score.check(answer == label, f"{file}: {answer} ({probability:.3f}), is {label}")


COMPARE = {"reading": compare_reading, "finding": compare_finding, "turning": compare_turning,
           "speech": compare_speech, "files": compare_files}

if __name__ == "__main__":
    sys.exit(run_named(__doc__, COMPARE))
