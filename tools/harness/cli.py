"""Runs the parallax program: tensors in and out through .npz files."""

import json
import pathlib
import subprocess
import tempfile

import numpy as np


class ParallaxError(Exception):
    """The program ended with another status than 0; the message is its stderr."""


class Parallax:
    """Owns nothing but the program's path; every call is a process of its own."""

    def __init__(self, program):
        self.program = pathlib.Path(program).resolve()
        if not self.program.exists():
            raise SystemExit(f"{program} is missing; run ./dev build")

    def call(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise ParallaxError(f"parallax {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def run(self, model, inputs, threads=None):
        """{output name: array} of `model` for {input name: array}."""
        with tempfile.TemporaryDirectory() as folder:
            given, made = pathlib.Path(folder, "in.npz"), pathlib.Path(folder, "out.npz")
            np.savez(given, **inputs)
            options = ["--threads", threads] if threads else []
            self.call("run", model, "--inputs", given, "--outputs", made, *options)
            with np.load(made) as outputs:
                return {name: outputs[name] for name in outputs.files}

    def bench(self, model, inputs, threads, runs, warmup, ops=False):
        """The object that `bench --json` prints; `ops` times every operator as well."""
        with tempfile.TemporaryDirectory() as folder:
            given = pathlib.Path(folder, "in.npz")
            np.savez(given, **inputs)
            return json.loads(self.call("bench", model, "--inputs", given, "--threads", threads,
                                        "--runs", runs, "--warmup", warmup, "--json",
                                        *(["--ops"] if ops else [])))
