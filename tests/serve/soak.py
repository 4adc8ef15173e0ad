"""Random load through a router whose backends die and come back, for as long as is wanted.

usage: python soak.py PARALLAX [--seconds 600] [--seed 1] [--clients 24] [--real] [--swap] [--json]
         [--progress] [--keep-log FILE]

Starts `parallax serve` over scripted backends (scripted_llama.py): servers with a URL that are
killed, stopped and started again at random, and programs that the router itself starts, watches and
starts again. Client threads send chats and completions, streaming or not, leave in the queue or
inside a stream, read slowly, send what is not JSON or does not fit, pin backends, ask for models that
are not there, and poll. --real adds SmolLM2 in a real llama-server under a light load of its own. With --swap
the router starts more programs than may be in memory at once, and unloads them for each other.

Checked: every request ends with the one right answer, an OpenAI error, or (inside a stream) an error
event; none hangs, none is cut. When the load stops, gauges fall to 0 and descriptors to what they
were; every answer has its record, once; the counters add up; answers under way at SIGTERM end; the
exit code is 0; nothing that the router started outlives it. Over two minutes and more the router's
memory must stay flat: the median of VmRSS in the last sixth over that in the second sixth.
Exit 1 where anything is wrong.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tools")]
import soak_answers  # noqa: E402
import soak_clients  # noqa: E402
import soak_fleet  # noqa: E402

SETTLE_S = 30       # for gauges and descriptors to fall once the load stops
RSS_EVERY_S = 5
RSS_SHARE = 0.10    # growth that is let pass, and
RSS_KB = 4096       # this on top
MEMORY_FROM_S = 120  # shorter runs do not reach the caches' limits


class Router:
    """The process under test and what the kernel says of it."""

    def __init__(self, program, config, log):
        self.log = open(log, "w")
        self.process = subprocess.Popen([program, "serve", "--config", str(config), "--log", "json"],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise SystemExit("soak: parallax serve did not start: " + pathlib.Path(log).read_text())
        self.url = line.split()[-1]

    def rss_kb(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def descriptors(self):
        """What each open descriptor is, and how many of each."""
        found = []
        for path in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                found.append(os.readlink(path).split(":")[0])
            except OSError:
                pass
        return collections.Counter(found)

    def children(self):
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]


class Sampler(threading.Thread):
    def __init__(self, router):
        super().__init__(daemon=True)
        self.router, self.rss, self.stop = router, [], threading.Event()

    def run(self):
        while not self.stop.wait(RSS_EVERY_S):
            self.rss.append(self.router.rss_kb())


def median(values):
    return sorted(values)[len(values) // 2] if values else 0


def wait_until(true, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.2)
    return true()


def gauges(url):
    """The load that the router believes in: all of it is 0 where nobody asks anything."""
    values = soak_answers.metrics(url)
    load = {name: value for name, value in values.items()
            if name.split("{")[0] in ("parallax_jobs", "parallax_in_flight", "parallax_queued")}
    load["connections but this one"] = values["parallax_http_connections"] - 1
    status = soak_answers.get_json(url, "/status.json")
    load["status.json under_way"] = status["totals"]["under_way"]
    for backend in status["backends"]:
        load[f"status.json jobs {backend['name']}"] = len(backend["jobs"])
        load[f"status.json busy_for_cancelled {backend['name']}"] = backend["busy_for_cancelled"]
    return {name: value for name, value in load.items() if value != 0}


def check_records(path, tally, values, problems):
    """Every answer has its record, once, and it tells what the client saw."""
    lines = path.read_text().splitlines()
    records = {}
    for line in lines:
        record = json.loads(line)
        if record["id"] in records:
            problems.append(f"decision {record['id']} is recorded twice")
        if not record["outcome"]["finished"]:
            problems.append(f"decision {record['id']} is recorded unfinished")
        records[record["id"]] = record
    for decision, (backend, good) in tally.decisions.items():
        record = records.get(decision)
        if record is None:
            problems.append(f"decision {decision} has no record")
            continue
        error = record["outcome"].get("error") or ""
        if good and (error or record["chosen"] != backend):
            problems.append(f"decision {decision} was answered by {backend}, its record says "
                            f"{record['chosen']}, error '{error}'")
        if good is False and not error:
            problems.append(f"decision {decision} failed, its record says nothing of it")
    ended = sum(value for name, value in values.items() if name.startswith("parallax_answers_total"))
    left = values["parallax_cancelled_total"] + values["parallax_queue_cancelled_total"]
    if ended + left != len(lines):
        problems.append(f"{ended:.0f} answers and {left:.0f} cancelled are not {len(lines)} records")
    if values["parallax_decisions_lost_total"]:
        problems.append("records were lost")
    return len(lines)


def check_memory(rss, seconds, problems):
    sixth = len(rss) // 6
    early, late = median(rss[sixth:2 * sixth]), median(rss[-sixth:]) if sixth else 0
    if seconds >= MEMORY_FROM_S and late > early * (1 + RSS_SHARE) + RSS_KB:
        problems.append(f"VmRSS grew from {early} to {late} kB")
    return {"second_sixth_kb": early, "last_sixth_kb": late, "first_kb": rss[0] if rss else 0,
            "peak_kb": max(rss, default=0)}


def stop(router, url, problems):
    """SIGTERM with answers under way: they end, then the router, then what it started."""
    children = router.children()
    last = [soak_clients.LastStream(url) for _ in range(3)]
    for stream in last:
        stream.began.wait(30)
    router.process.send_signal(signal.SIGTERM)
    for stream in last:
        stream.join(60)
        if stream.problem:
            problems.append(f"a stream at SIGTERM: {stream.problem}")
    try:
        code = router.process.wait(60)
    except subprocess.TimeoutExpired:
        router.process.kill()
        code = "none within 60 s"
    if code != 0:
        problems.append(f"exit code {code}")
    alive = [pid for pid in children if pathlib.Path(f"/proc/{pid}").exists()]
    if alive:
        problems.append(f"processes {alive} outlive the router")
    return code


def events(log):
    """How often each thing was logged; a line that is not JSON is a complaint of something else."""
    count = collections.Counter()
    for line in pathlib.Path(log).read_text(errors="replace").splitlines():
        try:
            count[json.loads(line).get("event", "?")] += 1
        except ValueError:
            count["not a log line: " + line[:200]] += 1
    return count


def run(options, folder):
    problems = []
    log = options.keep_log or folder / "log"
    records = folder / "decisions.jsonl"
    fleet = soak_fleet.Fleet(options.seed, folder, options.real, options.swap)
    fleet.start()
    config = folder / "parallax.toml"
    config.write_text(fleet.configuration(records))
    router = Router(options.parallax, config, log)
    url = router.url
    fleet.router = router.process.pid
    try:
        ready = lambda: soak_answers.get_json(url, "/health", any_status=True)["status"] == "ok"  # noqa: E731
        if not wait_until(ready, 120):
            raise SystemExit("soak: the backends were not ready in time")
        if options.swap:  # as many programs as there will be in the end
            for name in list(fleet.startable)[:soak_fleet.MAX_LOADED]:
                soak_answers.load(url, f"{name}-model")
        time.sleep(1)  # the probes' connections are kept by then
        before = router.descriptors()
        sampler = Sampler(router)
        sampler.start()
        tally = soak_answers.Tally()
        clients = [soak_clients.Client(url, tally, fleet.crowd, options.seed * 1000 + i)
                   for i in range(options.clients)]
        clients.append(soak_clients.Poller(url, tally, options.seed))
        for client in clients[:-1]:
            client.backends = sorted(soak_fleet.SERVERS | fleet.startable)
            if options.swap:
                client.models += tuple(f"{name}-model" for name in fleet.startable)
        if options.real:
            for client in clients[:-1]:
                client.models = ("soak",)  # auto would be the real model's too
            clients.append(soak_clients.RealClient(url, tally, fleet.crowd, options.seed))
        for client in clients:
            client.start()
        end = time.monotonic() + options.seconds
        while time.monotonic() < end and router.process.poll() is None:
            fleet.trouble(url, end)
            if options.progress:
                print(f"{end - time.monotonic():5.0f} s left, {sum(tally.outcomes.values())} requests, "
                      f"RSS {router.rss_kb()} kB, {len(problems) + len(tally.problems)} problems",
                      file=sys.stderr, flush=True)
        if router.process.poll() is not None:
            problems.append(f"the router died with {router.process.returncode}")
            return report(options, tally, fleet, problems, log)
        fleet.revive()
        for client in clients:
            client.stop.set()
        for client in clients:
            client.join(soak_answers.HANG_S + 10)
            if client.is_alive():
                problems.append("a client thread hangs")
        sampler.stop.set()
        if not wait_until(lambda: not gauges(url), SETTLE_S):
            problems.append(f"gauges stay above 0: {gauges(url)}")
        if not wait_until(ready, 150):  # a program that died often waits 30 s, and may fail again
            problems.append("backends do not come back: "
                            + str(soak_answers.get_json(url, "/health", any_status=True)))
        few = lambda: router.descriptors().total() <= before.total()  # noqa: E731
        if not wait_until(few, SETTLE_S):
            problems.append(f"descriptors: {dict(before)} before, {dict(router.descriptors())} now")
        after = router.descriptors()
        values = soak_answers.metrics(url)
        lines = check_records(records, tally, values, problems)
        memory = check_memory(sampler.rss, options.seconds, problems)
        code = stop(router, url, problems)
    finally:
        if router.process.poll() is None:
            router.process.kill()
            router.process.wait()
        router.process.stdout.close()
        router.log.close()
        fleet.close()
    return report(options, tally, fleet, problems, log, values=values, records=lines, memory=memory,
                  descriptors={"before": before.total(), "after": after.total()}, exit_code=code)


def report(options, tally, fleet, problems, log, values=None, **more):
    counted = {} if values is None else {
        name.removeprefix("parallax_"): int(value) for name, value in values.items()
        if name.split("{")[0].endswith("_total") and value and "tokens" not in name}
    return {"seconds": options.seconds, "seed": options.seed,
            "requests": sum(tally.outcomes.values()), "outcomes": dict(sorted(tally.outcomes.items())),
            "slowest_s": {kind: round(s, 2) for kind, s in sorted(tally.slowest.items())},
            "troubles": dict(fleet.troubles), "log_events": dict(events(log)),
            "counters": counted} | more | {"problems": problems + tally.problems}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parallax")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--swap", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--progress", action="store_true", help="a line to stderr after each trouble")
    parser.add_argument("--keep-log", metavar="FILE", help="where the router's log goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(options, pathlib.Path(folder))
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for name, value in result.items():
            if name == "problems":
                continue
            print(f"{name}:" + ("" if isinstance(value, dict) else f" {value}"))
            if isinstance(value, dict):
                for key, number in value.items():
                    print(f"  {key:<44} {number}")
        for problem in result["problems"][:50]:
            print("PROBLEM:", problem)
        print(f"{len(result['problems'])} problems")
    sys.exit(1 if result["problems"] else 0)


if __name__ == "__main__":
    main()
