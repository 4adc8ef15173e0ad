"""Gives a piece of work to a fresh process of a rival."""

import json
import os
import pathlib
import subprocess
import tempfile

from harness import ROOT
from rivals import rival_class

WORKER = pathlib.Path(__file__).with_name("worker.py")
SECONDS = 600  # far more than any conversion or round takes here


# A heap that gives back what is freed takes the pages of each copied array anew, on some machines ten times
# what copying takes. Where single operators are timed, not memory, rivals keep them.
KEEPING = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


class RivalError(Exception):
    """A rival is not installed, refuses a model, crashes or takes too long; the message says which."""


def work(rival, job):
    """The result of the dictionary `job` (worker.py) by the rival called `rival`.

    Its "environment", if it has one, is added to that of this process.
    """
    python = ROOT / rival_class(rival).python
    if not python.exists():
        raise RivalError(f"there is no {rival_class(rival).python}; ./dev bench makes it")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "job.json")
        file.write_text(json.dumps(job))
        try:
            done = subprocess.run([python, WORKER, rival, file], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=SECONDS,
                                  env=os.environ | job.get("environment", {}))
        except subprocess.TimeoutExpired:
            raise RivalError(f"took longer than {SECONDS} s") from None
        answer = file.with_suffix(".result.json")
        result = json.loads(answer.read_text()) if answer.exists() else {
            "error": f"its process ended with {done.returncode}"}
    if "error" not in result:
        return result
    # A library prints the reason of its own errors.
    said = done.stdout.decode(errors="replace").split("\n")
    said = "; ".join([line.strip() for line in said if line.strip()][-2:])
    raise RivalError(f"{result['error']}" + (f" ({said})" if said else ""))


def present(rivals):
    """({rival: version}, {rival: why it is not here})."""
    versions, missing = {}, {}
    for rival in rivals:
        try:
            versions[rival] = work(rival, {"work": "version"})["version"]
        except RivalError as error:
            missing[rival] = str(error)
    return versions, missing
