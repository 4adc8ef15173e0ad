"""./dev demo: reads text, finds speech, tells file types, shows what a detector costs and how fast it is.

Everything here runs in the library's own programs; Python only draws the pictures, speaks the sentence
and compares with ONNX Runtime.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image, ImageDraw, ImageFont

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models" / "generated"
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
LINE = "Small boards read text well 2026"
PAGE = ["Every byte is planned", "before the first kernel", "runs on two cores"]
SPEECH = ('Parallax places work on small machines.<break time="1500ms"/>'
          'It says what it does, and why.<break time="1200ms"/>Nothing is guessed.')


def title(text):
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}== {text}{plain}", flush=True)


def run(*command):
    """Runs a program, prints what it prints, and gives it back; ends the demo when it fails."""
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    sys.stdout.write(result.stdout)
    if result.returncode != 0:
        sys.exit(f"{pathlib.Path(command[0]).name} failed ({result.returncode}): {result.stderr.strip()}")
    return result.stdout


def draw(lines, path, size):
    """Lines of text in black on white, as a binary PPM."""
    font = ImageFont.truetype(FONT, 40)
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        pen.text((40, 12 + 110 * i), line, font=font, fill="black")
    image.save(path)


def text(programs, work):
    title("Text recognition (PP-OCR)")
    draw([LINE], work / "line.ppm", (900, 72))
    print(f"drawn: {LINE}\nread:  ", end="", flush=True)
    read = run(programs / "example_read_text", "-", MODELS / "ppocr_rec.onnx", work / "line.ppm").strip()
    draw(PAGE, work / "page.ppm", (900, 360))
    print("a page of three lines, found by the detector:")
    page = run(programs / "example_read_text", MODELS / "ppocr_det.onnx", MODELS / "ppocr_rec.onnx",
               work / "page.ppm").strip()
    if read != LINE or page.splitlines() != PAGE:
        sys.exit("the text was not read right")


def speech(programs, work):
    title("Speech detection (silero-vad), three sentences with pauses")
    wav = work / "speech.wav"
    subprocess.run(["espeak-ng", "-m", "-w", wav, SPEECH], check=True)
    found = run(programs / "example_speech_segments", MODELS / "silero_vad.onnx", wav)
    if found.count("speech ") < 2:
        sys.exit("the pauses were not found")


def files(programs):
    title("File types (magika)")
    names = ["README.md", "CMakeLists.txt", "src/api/session.cc", "dev", "demo/demo.py", "models/yolov8n.graph.onnx",
             "CMakePresets.json", "tests/ops/relu.cases", "/bin/ls", "/usr/share/common-licenses/GPL-3", FONT,
             "/etc/fstab"]
    kept = [p for p in names if (ROOT / p).is_file()]
    out = subprocess.run([programs / "example_file_type", MODELS / "magika.onnx", MODELS / "magika.json", *kept],
                         cwd=ROOT, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    sys.stdout.write(out.stdout)


def detector(parallax):
    title("YOLOv8n: what it is made of")
    model, shape = MODELS / "yolov8n.onnx", "images=1x3x640x640"
    out = subprocess.run([parallax, "analyze", model, "--shape", shape], capture_output=True, text=True, check=True)
    print("\n".join(out.stdout.replace(str(ROOT) + "/", "").splitlines()[:24]))
    title("YOLOv8n: how fast, on one thread and on all")
    for threads in (["--threads", "1"], []):
        out = subprocess.run([parallax, "bench", model, "--shape", shape, "--runs", "10", "--json", *threads],
                             capture_output=True, text=True, check=True)
        r = json.loads(out.stdout)
        latency = r["latency_ms"]
        print(f"{r['threads']} thread(s): min {latency['min']:.1f} ms, median {latency['median']:.1f} ms; "
              f"activations {r['planned_bytes']['activations'] / 2**20:.1f} MiB, "
              f"packed weights {r['planned_bytes']['weights'] / 2**20:.1f} MiB, "
              f"peak resident {r['peak_rss_bytes'] / 2**20:.0f} MiB; load {r['load_ms']:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallax", type=pathlib.Path, required=True, help="the parallax binary")
    args = parser.parse_args()
    parallax = args.parallax.resolve()
    with tempfile.TemporaryDirectory() as work:
        text(parallax.parent, pathlib.Path(work))
        speech(parallax.parent, pathlib.Path(work))
        files(parallax.parent)
    detector(parallax)
    print("\nTry: parallax analyze MODEL.onnx, parallax run MODEL.onnx --random 1, parallax bench MODEL.onnx --ops")


if __name__ == "__main__":
    main()
