"""Whole models against ONNX Runtime: alternating rounds, each side in a fresh process, ratios printed.

Before anything is timed the outputs are compared: a fast wrong answer is an error. A round is one process
of parallax, then one of ONNX Runtime, on the same inputs; its ratio is parallax's fastest run over ONNX
Runtime's. Machines drift, so the ratios of rounds say more than the milliseconds. With more than one
thread the machine's own scaling is measured first: what N copies of a one-thread matrix product gain
is the most that N threads can.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

# Only what every side needs is imported here: a child's memory is measured.
DEFAULT_MODELS = ["mobilenetv2", "yolov8n", "swinv2_tiny", "distilbert", "clip_text",
                  "whisper_tiny_encoder", "whisper_tiny_decoder_merged"]
ROUND_SECONDS = 1.0
# The parity tests hold the tight bounds; a timing needs to know that both sides did the same work.
OUTPUT_LIMIT = 2.0**-10


def resident_bytes(field):
    """VmRSS (now) or VmHWM (peak) of this process. getrusage's peak would be the parent's as well."""
    with open("/proc/self/status") as file:
        return next(int(text.split()[1]) * 1024 for text in file if text.startswith(field + ":"))


def child_peer(model, inputs_file, threads, runs, warmup):
    """One process of ONNX Runtime; prints what `parallax bench --json` prints, as far as it can."""
    import numpy as np
    from harness.peer import Peer
    with np.load(inputs_file) as file:
        inputs = {name: file[name] for name in file.files}
    before = resident_bytes("VmRSS")
    start = time.perf_counter()
    peer = Peer(model, threads=threads)
    load = time.perf_counter() - start
    for _ in range(warmup):
        peer.run(inputs)
    took = []
    for _ in range(runs):
        start = time.perf_counter()
        peer.run(inputs)
        took.append((time.perf_counter() - start) * 1e3)
    peak = resident_bytes("VmHWM")
    print(json.dumps({"latency_ms": {"min": min(took), "median": statistics.median(took), "runs": runs},
                      "load_ms": load * 1e3, "peak_rss_bytes": peak, "added_rss_bytes": peak - before}))


def child_product(seconds):
    """Multiplies matrices on one thread for a while; prints how many a second."""
    import numpy as np
    a = np.ones((384, 384), np.float32)
    a @ a
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        a @ a
        count += 1
    print(count / (time.perf_counter() - start))


def spawn(*arguments, environment=None):
    return subprocess.Popen([sys.executable, __file__, *map(str, arguments)], stdout=subprocess.PIPE,
                            text=True, env={**os.environ, **(environment or {})})


def result(process):
    output, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"a benchmark process ended with {process.returncode}")
    return json.loads(output)


def machine_scaling(copies):
    """How much more `copies` one-thread processes at once do than one."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    alone = result(spawn("--child-product", 1, environment=one_thread))
    together = [spawn("--child-product", 1, environment=one_thread) for _ in range(copies)]
    return sum(map(result, together)) / alone


def check_outputs(ours, theirs, name):
    """Ends the benchmark where an output differs by more than rounding."""
    import numpy as np
    if list(ours) != list(theirs):
        raise SystemExit(f"{name}: outputs {list(ours)}, ONNX Runtime's are {list(theirs)}")
    for output, wanted in theirs.items():
        got = ours[output]
        same = got.shape == wanted.shape and got.dtype == wanted.dtype
        if same and wanted.size:
            apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max()
            same = bool(apart <= OUTPUT_LIMIT * max(np.abs(wanted.astype(np.float64)).max(), 1e-30))
        if not same:
            raise SystemExit(f"{name}: output {output} is not ONNX Runtime's; nothing was timed")


def summary(rounds):
    """Fastest and median latency over the rounds, median of the rest."""
    return {"latency_ms": {"min": min(r["latency_ms"]["min"] for r in rounds),
                           "median": statistics.median(r["latency_ms"]["median"] for r in rounds)},
            **{key: statistics.median(r[key] for r in rounds)
               for key in ("load_ms", "plan_ms", "peak_rss_bytes", "added_rss_bytes") if key in rounds[0]}}


def measure(parallax, name, threads, arguments):
    import numpy as np
    from harness import evaluation, model_path
    from harness.peer import Peer
    model, inputs = model_path(name), evaluation.bench_inputs(name)
    peer = Peer(model, threads=threads)
    check_outputs(parallax.run(model, inputs, threads=threads), peer.run(inputs), name)
    start = time.perf_counter()
    peer.run(inputs)
    runs = arguments.runs or max(5, min(100, int(ROUND_SECONDS / (time.perf_counter() - start))))
    del peer

    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        given = pathlib.Path(folder, "in.npz")
        np.savez(given, **inputs)
        for number in range(arguments.rounds):
            if sys.stderr.isatty():
                print(f"\r{name}, {threads} thread(s): round {number + 1}/{arguments.rounds} ",
                      end="", file=sys.stderr, flush=True)
            ours.append(parallax.bench(model, inputs, threads, runs, arguments.warmup))
            theirs.append(result(spawn("--child-peer", model, given, threads, runs, arguments.warmup)))
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    ratios = [a["latency_ms"]["min"] / b["latency_ms"]["min"] for a, b in zip(ours, theirs)]
    medians = [a["latency_ms"]["median"] / b["latency_ms"]["median"] for a, b in zip(ours, theirs)]
    a, b = summary(ours), summary(theirs)
    return {"model": name, "threads": threads, "rounds": arguments.rounds, "runs": runs,
            "parallax": {**a, "planned_bytes": ours[0]["planned_bytes"]}, "ort": b,
            "ratio": {"min": min(ratios), "median": statistics.median(ratios),
                      "of_minima": a["latency_ms"]["min"] / b["latency_ms"]["min"],
                      "of_medians": statistics.median(medians)}}


HEADER = (f"{'model':28} {'thr':>3}  {'min/median ms':>17} {'ORT':>17}  {'min/median ratio':>16}"
          f"  {'ready ms':>8} {'ORT':>6}  {'peak MB':>7} {'ORT':>5} {'added':>5}")


def line(row):
    ours, theirs, ratio = row["parallax"], row["ort"], row["ratio"]

    def latency(side):
        return f"{side['latency_ms']['min']:8.2f}/{side['latency_ms']['median']:8.2f}"

    return (f"{row['model']:28} {row['threads']:3}  {latency(ours)} {latency(theirs)}"
            f"  {ratio['min']:7.2f} /{ratio['median']:7.2f}"
            f"  {ours['load_ms'] + ours['plan_ms']:8.0f} {theirs['load_ms']:6.0f}"
            f"  {ours['peak_rss_bytes'] / 1e6:7.0f} {theirs['peak_rss_bytes'] / 1e6:5.0f}"
            f" {theirs['added_rss_bytes'] / 1e6:5.0f}")


def model_name(text):
    """One of DEFAULT_MODELS from its name or from the path of its file; anything else is an error that lists them."""
    path = pathlib.Path(text)
    name = path.name.removesuffix(".onnx").removesuffix(".graph") if path.suffix == ".onnx" else text
    in_place = path.name == text or path.resolve().parent in (ROOT / "models", ROOT / "models/generated")
    if name in DEFAULT_MODELS and in_place:
        return name
    raise argparse.ArgumentTypeError(f"no model {text} here; there are {', '.join(DEFAULT_MODELS)}; "
                                     f"`parallax bench` measures any other, without a peer")


def main():
    if sys.argv[1:2] == ["--child-peer"]:
        model, inputs, *numbers = sys.argv[2:]
        return child_peer(model, inputs, *map(int, numbers))
    if sys.argv[1:2] == ["--child-product"]:
        return child_product(float(sys.argv[2]))

    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", type=model_name, help="name or file of: " + " ".join(DEFAULT_MODELS))
    parser.add_argument("--parallax", default=ROOT / "build/release/parallax", metavar="PROGRAM")
    parser.add_argument("--threads", type=int, action="append", metavar="N", help="repeatable; default 1")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument("--runs", type=int, metavar="N", help="timed runs a round; default: about a second of them")
    parser.add_argument("--warmup", type=int, default=3, metavar="N", help="runs before them; default 3")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    threads = arguments.threads or [1]
    numbers = [*threads, arguments.rounds, arguments.runs or 1]
    if min(numbers) < 1 or arguments.warmup < 0:
        parser.error("threads, rounds and runs are at least 1")

    from harness.cli import Parallax, ParallaxError
    parallax = Parallax(arguments.parallax)
    scaling = {count: machine_scaling(count) for count in sorted(set(threads)) if count > 1}
    rows = []
    if not arguments.json:
        for count, gain in scaling.items():
            print(f"{count} copies of a one-thread matrix product at once do {gain:.2f} times the work of one")
        print(HEADER)
    for count in threads:
        for name in arguments.models or DEFAULT_MODELS:
            try:
                rows.append(measure(parallax, name, count, arguments))
            except ParallaxError as error:
                raise SystemExit(str(error)) from None
            if not arguments.json:
                print(line(rows[-1]), flush=True)
    if arguments.json:
        print(json.dumps({"scaling": scaling, "results": rows}, indent=2))
    else:
        print("ready: load and plan until the first run; added: ONNX Runtime's memory without Python's own")
    return 0


if __name__ == "__main__":
    sys.exit(main())
