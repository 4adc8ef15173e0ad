"""The backends of soak.py, and what befalls them."""
import collections
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import soak_answers
import soak_clients

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = str(HERE / "scripted_llama.py")
FAULTS = 0.03       # of the generations of each scripted backend
TROUBLE_S = 3.0     # mean time between two troubles
LARGEST = soak_clients.LARGEST_CONTEXT

# Name: options. Unequal in speed, context and slots, so that requests have reasons to go elsewhere.
SERVERS = {
    "quick": ["-c", "2048", "-np", "1", "--prefill-ms", "0.1", "--decode-ms", "4"],
    "wide": ["-c", str(LARGEST), "-np", "3", "--prefill-ms", "0.2", "--decode-ms", "9"],
    "plain": ["--dialect", "openai", "-np", "2", "--prefill-ms", "0.15", "--decode-ms", "7"],
}
PROGRAMS = {
    "watched": ["-c", "4096", "-np", "2", "--prefill-ms", "0.15", "--decode-ms", "6", "--load-s", "1",
                "--fail-start", "0.2"],
    "steady": ["-c", "4096", "-np", "1", "--prefill-ms", "0.05", "--decode-ms", "8"],
}
# With --swap there are more programs than fit in memory at once, each with a model of its own too.
SPARE_PROGRAMS = {
    "spare": ["-c", "4096", "-np", "1", "--prefill-ms", "0.1", "--decode-ms", "3", "--load-s", "0.3"],
    "other": ["-c", "2048", "-np", "2", "--prefill-ms", "0.3", "--decode-ms", "5", "--load-s", "0.1"],
}
MAX_LOADED = 2
# How likely each trouble is. Programs are left alone for longer, so that they come back at all.
TROUBLES = {"kill_server": 30, "stop_server": 12, "kill_program": 8, "stop_program": 4,
            "end_program": 3, "kill_all_servers": 1, "crowd": 6}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Fleet:
    def __init__(self, seed, folder, real, swap):
        self.rng = random.Random(seed)
        self.seed, self.folder, self.real, self.swap = seed, folder, real, swap
        self.startable = PROGRAMS | (SPARE_PROGRAMS if swap else {})
        self.ports = {name: free_port() for name in SERVERS}
        self.running = {}
        self.back_at = {}      # servers that are dead: when they start again
        self.resume_at = {}    # processes that are stopped: when they go on
        self.crowd = threading.Event()  # clients hardly pause between requests
        self.crowd_ends = 0
        self.troubles = collections.Counter()
        self.starts = 0
        self.router = 0        # its process id, once it runs

    def start(self):
        for name in SERVERS:
            self.start_server(name)

    def start_server(self, name):
        self.starts += 1
        self.running[name] = subprocess.Popen(
            [sys.executable, SCRIPT, "--port", str(self.ports[name]), "--faults", str(FAULTS),
             "--seed", str(self.seed * 10_000 + self.starts), *SERVERS[name]],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def configuration(self, records):
        text = ('[server]\nlisten = "127.0.0.1:0"\nidle_s = 20\n'
                + (f"max_loaded = {MAX_LOADED}\nmax_wait_s = 2\n" if self.swap else "") + '\n[routing]\n'
                f'decisions = "{records}"\nprefix_index_bytes = 1048576\ntimeout_floor_s = 3\n'
                'silence_s = 3\nprobe_s = 1\n')
        for name in SERVERS:
            kind = "openai" if name == "plain" else "llama-server"
            text += (f'\n[[backend]]\nname = "{name}"\nkind = "{kind}"\n'
                     f'url = "http://127.0.0.1:{self.ports[name]}"\nmodels = ["soak"]\n'
                     'cache_sequences = 1\nqueue = 2\n')
            text += 'slots = 2\ncontext = 4096\n' if name == "plain" else ""
        for name, options in self.startable.items():
            command = [sys.executable, SCRIPT, "--faults", str(FAULTS), *options]
            text += (f'\n[[backend]]\nname = "{name}"\nkind = "llama-server"\nqueue = 2\n'
                     f'command = {json.dumps(command)}\nmodels = ["soak", "{name}-model"]\n')
        if self.real:
            import llm_models
            model = llm_models.smollm2()
            command = [sys.executable, str(HERE.parent.parent / "tools/llama_server.py"), "-m", model,
                       "-t", "1", "-c", "2048", "-b", "128", "--cache-ram", "0"]
            text += ('\n[[backend]]\nname = "smollm2"\nkind = "llama-server"\ncache_sequences = 1\n'
                     f'command = {json.dumps(command)}\nmodels = ["smol"]\n')
        return text

    def trouble(self, url, end):
        """Waits for a while, makes one trouble, ends those that are over."""
        until = min(time.monotonic() + self.rng.expovariate(1 / TROUBLE_S), end)
        while time.monotonic() < until:
            self.recover()
            time.sleep(0.05)
        if time.monotonic() >= end:
            return
        what = self.rng.choices(list(TROUBLES), TROUBLES.values())[0]
        if what.endswith("program"):
            pids = self.programs(url)
            if not pids:
                return
            name = self.rng.choice(sorted(pids))
            number = {"kill": signal.SIGKILL, "end": signal.SIGTERM, "stop": signal.SIGSTOP}
            if not self.signal(pids[name], number[what.split("_")[0]]):
                return
        elif what == "crowd":
            self.crowd.set()
            self.crowd_ends = time.monotonic() + self.rng.uniform(1, 4)
        elif what == "kill_all_servers":
            for name in SERVERS:
                self.kill(name)
        else:
            alive = [name for name in SERVERS if name not in self.back_at]
            if not alive:
                return
            name = self.rng.choice(alive)
            if what == "kill_server":
                self.kill(name)
            else:
                self.signal(self.running[name].pid, signal.SIGSTOP)
        self.troubles[what] += 1

    def kill(self, name):
        process = self.running[name]
        process.kill()
        process.wait()
        self.resume_at.pop(process.pid, None)
        self.back_at[name] = time.monotonic() + self.rng.uniform(0.2, 5)

    def signal(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        if number == signal.SIGSTOP:
            self.resume_at[pid] = time.monotonic() + self.rng.uniform(0.5, 7)
        return True

    def programs(self, url):
        """Process ids of what the router started, as its status tells; only its own children."""
        found = {}
        for backend in soak_answers.get_json(url, "/status.json")["backends"]:
            process = re.search(r"\(process (\d+),", backend["place"])
            if process and self.is_child(int(process[1])):
                found[backend["name"]] = int(process[1])
        return found

    def is_child(self, pid):
        try:
            return f"\nPPid:\t{self.router}\n" in pathlib.Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return False

    def recover(self):
        now = time.monotonic()
        if now >= self.crowd_ends:
            self.crowd.clear()
        for name in [n for n, at in self.back_at.items() if at <= now]:
            del self.back_at[name]
            self.start_server(name)
        for pid in [p for p, at in self.resume_at.items() if at <= now]:
            del self.resume_at[pid]
            self.signal(pid, signal.SIGCONT)

    def revive(self):
        self.back_at = dict.fromkeys(self.back_at, 0)
        self.resume_at = dict.fromkeys(self.resume_at, 0)
        self.recover()

    def close(self):
        for process in self.running.values():
            process.kill()
            process.wait()
