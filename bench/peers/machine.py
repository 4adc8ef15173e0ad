"""The machine that a benchmark ran on, in words, and how much more its processors do together than one."""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

from harness import ROOT

# What decides which kernels a program picks; in the order of their generations.
FEATURES = ("sse4_2", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd", "asimdhp",
            "sve")


def first_field(file, *names):
    """The value of the first `name : value` line of /proc/FILE that has one of the names."""
    for line in pathlib.Path("/proc", file).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def describe():
    """{what: text} of machine, system, day and parallax's own commit."""
    flags = set(first_field("cpuinfo", "flags", "Features").split())
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True,
                            text=True)
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.system()
    return {
        "processor": first_field("cpuinfo", "model name", "Model") or platform.machine(),
        "features": " ".join(name for name in FEATURES if name in flags),
        "processors": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{system}, Linux {platform.release()}",
        "date": datetime.date.today().isoformat(),
        "parallax": commit.stdout.strip() or "unknown",
    }


def products_a_second(seconds):
    """One thread's matrix products."""
    import numpy as np
    a = np.ones((384, 384), np.float32)
    a @ a
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        a @ a
        count += 1
    return count / (time.perf_counter() - start)


def scaling(copies):
    """How much more `copies` one-thread processes at once do than one: what as many threads can gain."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                   "PYTHONPATH": os.pathsep.join(sys.path)}
    program = "import machine; print(machine.products_a_second(1))"

    def together(count):
        running = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                                    env=environment) for _ in range(count)]
        return sum(json.loads(process.communicate()[0]) for process in running)

    return together(copies) / together(1)
