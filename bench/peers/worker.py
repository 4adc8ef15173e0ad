"""One rival at one piece of work, in a process of its own; started by work() of process.py.

usage: worker.py RIVAL JOB.json      writes JOB.result.json: the work's result, or {"error": message}

Only numpy and the rival's packages come into the process: its memory is measured.
"""

import json
import pathlib
import resource
import statistics
import sys
import time

import numpy as np
from rivals import rival_class

# A wrong conversion can want any amount (a sum over no axis of 2 MB became 20 GB); a right one of the models
# here stays below 1 GB, and what a library reserves without touching it below 4.
MEMORY_LIMIT = 8 << 30


def arrays(file):
    with np.load(file) as stored:
        return {name: stored[name] for name in stored.files}


def resident_bytes(field):
    """VmRSS (now) or VmHWM (peak) of this process. getrusage's peak would be the parent's as well."""
    with open("/proc/self/status") as file:
        return next(int(text.split()[1]) * 1024 for text in file if text.startswith(field + ":"))


def forget_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def load(rival, job):
    rival.load(pathlib.Path(job["file"]), job["threads"], job["input_names"], job["output_shapes"])


def version(rival, job):
    return {"version": rival.version()}


def convert(rival, job):
    folder = pathlib.Path(job["folder"])
    file = rival.convert(folder / job["graph"], arrays(job["inputs"]), arrays(job["outputs"]), folder)
    return {"file": file.name}


def run(rival, job):
    load(rival, job)
    np.savez(job["outputs"], **rival.run(arrays(job["inputs"])))
    return {}


def time_runs(rival, job):
    """Latency, load time, and the memory that loading and running added."""
    inputs = arrays(job["inputs"])
    forget_peak()
    before = resident_bytes("VmRSS")
    start = time.perf_counter()
    load(rival, job)
    load_seconds = time.perf_counter() - start
    for _ in range(job["warmup"]):
        rival.run(inputs)
    took = []
    for _ in range(job["runs"]):
        start = time.perf_counter()
        rival.run(inputs)
        took.append((time.perf_counter() - start) * 1e3)
    return {"latency_ms": {"min": min(took), "mean": statistics.mean(took), "median": statistics.median(took),
                           "max": max(took)},
            "load_ms": load_seconds * 1e3, "peak_bytes": resident_bytes("VmHWM") - before}


WORK = {"version": version, "convert": convert, "run": run, "time": time_runs}


def main():
    name, file = sys.argv[1:]
    job = json.loads(pathlib.Path(file).read_text())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    try:
        result = WORK[job["work"]](rival_class(name)(), job)
    except Exception as error:  # a rival may raise anything; it is an outcome, not a fault of the benchmark
        result = {"error": f"{type(error).__name__}: {error}"}
    pathlib.Path(file).with_suffix(".result.json").write_text(json.dumps(result))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
