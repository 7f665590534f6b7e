"""Servers that follow load: Advisor's rule beside HPA's and DS2's, on real arrival times, each task one server.

`python benchmarks/load_following.py DATA/sizey.csv [--wait 120] [--change 60] [--planted SEED] [--service] [--only NAME …]`:
SLA misses (tasks that waited longer than `--wait`) against core-seconds (of servers that are started, starting or finishing).
A started server takes `--change` seconds; one that is given up ends its task first. Every rule is asked each 15 s, has at
least one server, and knows the mean seconds of the tasks that ended. HPA: ceil(n utilization / target), tolerance 10 %, the
highest answer of the last 300 s (`stabilizationWindowSeconds`), at most twice or 4 more in 15 s. DS2: ceil(rate x seconds /
target) over 60 s.
With `--service` a service on sockets gives the answers: it reads a Prometheus of the simulated queue, learns the tasks that
ended, and is asked for `/advice/film`; only its clock is the simulation's.
A rule is beaten at a point if another point has fewer misses at no more core-seconds, or as few misses at fewer.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from urllib.request import urlopen

import anyio
import numpy as np
from anyio.from_thread import start_blocking_portal

from advisor.client import SyncClient
from advisor.planning.load import ObservedLoad
from advisor.service import http, load_config, serve
from advisor.service.advice import AdviceFace
from advisor.service.load import ARRIVED, UNFINISHED

LOOK_S = 15.0  # HPA's sync period
SERVERS_MAX = 4_096  # of a plan
TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9)
Trace = list[tuple[float, float]]  # when a task came, and the seconds that it takes


class Seen:
    """What a rule may know at a look."""

    now = servers = utilization = arrived = unfinished = 0.0
    mean_s = 60.0
    ended: Sequence[float] = ()  # seconds of the tasks that ended since the last look


Rule = Callable[[Seen], int]


def hpa(target: float) -> Rule:
    """Return Kubernetes' rule with its defaults."""
    answers: deque[tuple[float, int]] = deque()

    def rule(seen: Seen) -> int:
        n, ratio = int(seen.servers), seen.utilization / target
        wanted = n if abs(ratio - 1.0) <= 0.1 else math.ceil(n * ratio)
        answers.append((seen.now, wanted))
        while answers[0][0] < seen.now - 300.0:
            answers.popleft()
        return min(max(wanted for _, wanted in answers) if wanted < n else wanted, max(2 * n, n + 4))

    return rule


def ds2(target: float) -> Rule:
    """Return DS2's rule: the true rate of a server is the inverse of its busy seconds a task."""
    arrived: deque[float] = deque(maxlen=4)

    def rule(seen: Seen) -> int:
        arrived.append(seen.arrived)
        return math.ceil(sum(arrived) / (len(arrived) * LOOK_S) * seen.mean_s / target)

    return rule


def advised(change_s: float, wait_s: float) -> Rule:
    """Return Advisor's rule."""
    load = ObservedLoad(change_s)

    def rule(seen: Seen) -> int:
        load.report(seen.now, int(seen.arrived), int(seen.unfinished))
        return math.ceil(load.required_per_s(seen.now, seen.mean_s, wait_s) * seen.mean_s)

    return rule


@contextmanager
def answered(change_s: float, wait_s: float) -> Generator[Rule]:
    """Give the rule of a service, which lasts as long as the block."""
    now, totals, faces = [0.0], {ARRIVED: 0, UNFINISHED: 0}, list[AdviceFace]()

    class SteppedAdvice(AdviceFace):
        """Advice that is looked after when the simulation says so."""

        def __init__(self, hub: Any, asked: Any, defined: Any) -> None:
            super().__init__(hub, asked, defined, clock=lambda: now[0])
            faces.append(self)

        async def run(self) -> None:
            await anyio.sleep_forever()

    class Prometheus(BaseHTTPRequestHandler):
        """Answers the query for the load."""

        def do_GET(self) -> None:
            series = [
                {"metric": {"__name__": name, "network": "film"}, "value": [now[0], str(value)]}
                for name, value in totals.items()
            ]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"result": series}}).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Prometheus) as prometheus, TemporaryDirectory() as folder:
        threading.Thread(target=prometheus.serve_forever, daemon=True).start()
        follow = f"film=follow:http://127.0.0.1:{prometheus.server_port},wait_s:{wait_s:g},change_s:{change_s:g}"
        asked = f"{follow},cores:{SERVERS_MAX},instances_max:{SERVERS_MAX}"
        config = load_config(socket=f"{folder}/s", http="127.0.0.1:0", advise=[asked])
        with patch.object(http, "AdviceFace", SteppedAdvice), start_blocking_portal() as portal:
            stop = portal.call(anyio.Event)
            done, bound = portal.start_task(partial(serve, config, stop=stop))
            with SyncClient(f"{folder}/s") as client:
                client.define_network("task", id="film")
                client.observe_rows([("task", 1.0, 1.0, 60.0)])  # stands for what nobody knows yet
                client.set_allowed("task", [1])

                def rule(seen: Seen) -> int:
                    if seen.ended:
                        client.observe_rows([("task", 1.0, 1.0, seconds) for seconds in seen.ended])
                    now[0] = seen.now
                    totals[ARRIVED] += int(seen.arrived)
                    totals[UNFINISHED] = int(seen.unfinished)
                    portal.call(faces[-1].refresh)
                    with urlopen(f"http://{bound.http[0]}:{bound.http[1]}/advice/film") as answer:
                        return json.load(answer)["instances"]["task"]

                yield rule
            portal.call(stop.set)
            done.result()
        prometheus.shutdown()


def run(trace: Trace, rule: Rule, change_s: float, wait_s: float) -> tuple[float, float]:
    """Return the share of tasks that waited longer than `wait_s`, and core-seconds."""
    seen, waiting, ends = Seen(), deque[tuple[float, float]](), list[tuple[float, float]]()
    starting: deque[tuple[float, int]] = deque()  # when, and how many
    ready, wanted, free_from = 1, 1, trace[0][0]
    missed = done = at = 0
    cost = busy_s = done_s = 0.0
    now = last = trace[0][0]
    look, since = now + LOOK_S, 0
    del free_from
    ended: list[float] = []
    while at < len(trace) or waiting or ends:
        now = min(
            trace[at][0] if at < len(trace) else math.inf, ends[0][0] if ends else math.inf, look,
            starting[0][0] if starting else math.inf,
        )  # fmt: skip
        cost += (now - last) * (max(ready, len(ends)) + sum(n for _, n in starting))
        busy_s += (now - last) * len(ends)
        last = now
        while starting and starting[0][0] <= now:
            ready += starting.popleft()[1]
        while ends and ends[0][0] <= now:
            ended.append(heapq.heappop(ends)[1])
            done_s += ended[-1]
            done += 1
        while at < len(trace) and trace[at][0] <= now:
            waiting.append(trace[at])
            at, since = at + 1, since + 1
        if now >= look:
            seen.now, seen.servers, seen.arrived, seen.unfinished = now, wanted, since, len(waiting) + len(ends)
            seen.utilization = min(1.0, busy_s / LOOK_S / max(ready, 1))
            seen.mean_s = (60.0 + done_s) / (1 + done)  # one task of 60 s stands for what nobody knows yet
            busy_s, since, look = 0.0, 0, now + LOOK_S
            seen.ended, ended = ended, []
            wanted = max(1, rule(seen))
            more = wanted - ready - sum(n for _, n in starting)
            if more > 0:
                starting.append((now + change_s, more))
            while more < 0 and starting:  # what is starting is given up first
                when, n = starting.pop()
                gone = min(n, -more)
                more += gone
                if n > gone:
                    starting.append((when, n - gone))
            ready += min(more, 0)
        while waiting and len(ends) < ready:
            came, seconds = waiting.popleft()
            missed += now - came > wait_s
            heapq.heappush(ends, (now + seconds, seconds))
        if not waiting and not ends and ready == 1 and not starting and at < len(trace) and trace[at][0] > now + 900.0:
            cost += trace[at][0] - now - 600.0  # nothing happens until the next task
            look = last = trace[at][0] - 600.0
    return missed / len(trace), cost


def traces(path: Path) -> dict[str, Trace]:
    """Return the tasks of each workflow, and of all, by the time that they came."""
    found: dict[str, Trace] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            for name in (row["component"].split("|")[0], "whole"):
                found.setdefault(name, []).append((float(row["submit"]) / 1e3, float(row["t"])))
    return {name: sorted(trace) for name, trace in found.items()}


def planted(seed: int) -> dict[str, Trace]:
    """Return generated traces: steady, a day's wave, bursts, a ramp, batches of long tasks."""
    rng = np.random.default_rng(seed)
    laws: dict[str, tuple[Callable[[float], float], float]] = {
        "steady": (lambda t: 0.2, 100.0),
        "wave": (lambda t: 0.2 * (1.0 + math.sin(t / 2_000.0)), 60.0),
        "bursts": (lambda t: 2.0 if t % 3_600 < 120 else 0.02, 90.0),
        "ramp": (lambda t: t / 1e5, 30.0),
        "long": (lambda t: 1.0 if t % 7_200 < 60 else 0.005, 1_500.0),
    }
    found: dict[str, Trace] = {}
    for name, (rate, mean_s) in laws.items():
        times = np.cumsum(rng.exponential(0.5, 60_000))
        times = times[times < 28_800]
        kept = times[rng.random(len(times)) < np.array([rate(t) / 2.0 for t in times])]
        found[name] = list(zip(kept.tolist(), rng.lognormal(math.log(mean_s), 0.7, len(kept)).tolist(), strict=True))
    return found


def beaten(point: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    """Return whether another point has fewer misses at no more cost, or as few at less."""
    return any(o[0] <= point[0] and o[1] <= point[1] and o != point for o in others)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the points of each trace; return on how many Advisor is on or above the front."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", type=Path)
    parser.add_argument("--wait", type=float, default=120.0)
    parser.add_argument("--change", type=float, default=60.0)
    parser.add_argument("--planted", type=int, default=0)
    parser.add_argument("--service", action="store_true")
    parser.add_argument("--only", nargs="*")
    asked = parser.parse_args(arguments)
    held = 0
    found = planted(asked.planted) if asked.planted else traces(asked.table)
    for name, trace in ((name, trace) for name, trace in found.items() if name in (asked.only or found)):
        work = sum(seconds for _, seconds in trace)
        points = {
            f"{kind} {target:.0%}": run(trace, rule(target), asked.change, asked.wait)
            for kind, rule in (("HPA", hpa), ("DS2", ds2))
            for target in (*TARGETS, *((1.0,) if rule is ds2 else ()))
        }
        terms = asked.change, asked.wait
        with answered(*terms) if asked.service else nullcontext(advised(*terms)) as rule:
            own = run(trace, rule, asked.change, asked.wait)
        held += (on := not beaten(own, list(points.values())))
        shown = ", ".join(f"{each} {misses:.1%} {cost / work:.2f}" for each, (misses, cost) in points.items())
        print(f"{name}: advised {own[0]:.1%} {own[1] / work:.2f}{'' if on else ' BEATEN'}; {shown}", flush=True)
    print(f"on or above the front on {held} of {len(found)}")
    return held


if __name__ == "__main__":
    main()
