"""A service near and beyond what it can do: acknowledgements, questions, memory, nothing lost, and how soon it is well again.

    python benchmarks/overload.py [--seconds 60] [--state]

The peak is found first, in the same run: batches of 1000 rows in columns from two processes, a window of 64 each, as fast as
they are acknowledged; a row of each batch is of a component that was never seen. Then the same is offered at 80 % and at 200 %
of it, at times that do not wait for answers: an acknowledgement is timed from when its batch was due. `predict` is asked all
the while, by a process of its own and at times of its own. After each load it is timed when questions are as fast as before.

Senders, asker and service share the machine, so the CPU seconds of each are told: where they add up to all cores, or where
others take some, the tail is the scheduler's. The peak is taken before and after the loads:
where the two differ much the machine has changed meanwhile, and the figures say little.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import select
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from latency import Wire, service

ROWS = 1000  # a batch, as clients send them
NEW_ROWS = 1  # of them of components that are new: some 100,000 in a run, which is what a service knows by default
KNOWN = (
    250  # components known from the beginning, of each sender: few enough for the peak to be that of well-known ones
)
SENDERS = 2
WINDOW = 64  # batches on their way, as a client has: beyond, it holds back
KERNELS_S = 120.0  # given to the child that compiles the kernels where there is no cache of them
WELL_WITHIN = 2.0  # times as slow as before the load: well again
WELL_FOR = 20  # questions in a row
ASK_EVERY_S = 0.003


@dataclass
class Sent:
    """What one sender saw: seconds of each acknowledgement, batches acknowledged, batches that were due and not sent."""

    seconds: list[float] = field(default_factory=list)
    behind: int = 0
    took: float = 0.0
    cpu: float = 0.0


def batch(rng: np.random.Generator, names: list[str]) -> dict[str, Any]:
    """Return the columns of a batch; the names of its new components come behind those it has."""
    index = np.concatenate([rng.integers(0, len(names), ROWS - NEW_ROWS), np.arange(NEW_ROWS) + len(names)])
    used, index = np.unique(index, return_inverse=True)
    return {
        "components": [names[i] for i in used.tolist() if i < len(names)],
        "index": index.astype("<u4").tobytes(),
        "predictor": rng.uniform(1, 100, ROWS).tobytes(),
        "cores": rng.choice([1.0, 2.0, 4.0, 8.0], ROWS).tobytes(),
        "elapsed_s": rng.uniform(0.1, 1.0, ROWS).tobytes(),
    }


def send(path: Path, number: int, first: int, rate: float | None, seconds: float, results: Any) -> None:
    """Send batches, `rate` a second or as fast as they are acknowledged, from sequence `first` on."""
    wire, rng, found = Wire(path), np.random.default_rng(number), Sent()
    names = [f"sender-{number}-{i}" for i in range(KNOWN)]
    ready = [batch(rng, names) for _ in range(256)]  # made before, so that their making takes no time
    spent = time.process_time()
    on_their_way: deque[float] = deque()
    sequence = first - 1
    began = time.perf_counter()
    due, ends = began, began + seconds
    while time.perf_counter() < ends or on_their_way:
        now = time.perf_counter()
        while now < ends and len(on_their_way) < WINDOW and (rate is None or due <= now):
            sequence += 1
            columns = ready[sequence % len(ready)]
            new = [f"new-{number}-{sequence}-{i}" for i in range(NEW_ROWS)]
            reported = {"components": columns["components"] + new, "producer": f"sender-{number}", "sequence": sequence}
            numbered = columns | reported
            on_their_way.append(now if rate is None else due)
            wire.socket.sendall(msgpack.packb([0, sequence % 2**32, "observe_columns", [numbered]]))
            due += 1 / rate if rate else 0.0
            now = time.perf_counter()
        wait = 0.05 if rate is None or now >= ends else min(0.05, max(0.0, due - now))
        if not on_their_way:
            time.sleep(wait)
        elif select.select([wire.socket], [], [], 0.05 if len(on_their_way) >= WINDOW else wait)[0]:
            wire.unpacker.feed(wire.socket.recv(2**18))
            now = time.perf_counter()
            for _, _, error, _ in wire.unpacker:  # commits release them in bursts
                if error is not None:
                    raise RuntimeError(error)
                found.seconds.append(now - on_their_way.popleft())
    found.took = time.perf_counter() - began
    found.cpu = time.process_time() - spent
    found.behind = max(0, int((ends - due) * rate)) if rate else 0
    results.put((number, sequence, found))


def ask(path: Path, until: Any, results: Any) -> None:
    """Ask at times that do not wait for answers, but one by one; tell how long each took from when it was due."""
    wire, seconds, spent = Wire(path), list[float](), time.process_time()
    due = time.perf_counter()
    while not until.is_set():
        time.sleep(max(0.0, due - time.perf_counter()))
        wire.call("predict", "asked", 30.0, 4)
        now = time.perf_counter()
        seconds.append(now - due)
        due = max(due + ASK_EVERY_S, now)
    results.put((seconds, time.process_time() - spent))


def cpu_seconds(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass
class Phase:
    """What was seen of one load: the senders' view, seconds of questions, CPU seconds by whom, memory before and after, MiB."""

    senders: list[Sent]
    asked: list[float]
    cpu: dict[str, float]
    memory: tuple[float, float]

    @property
    def rate(self) -> float:
        """Batches a second that were acknowledged."""
        return sum(len(each.seconds) / each.took for each in self.senders)


class Load:
    """Senders against one service, whose sequences go on from phase to phase."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path, self.pid = path, pid
        self.next = dict.fromkeys(range(SENDERS), 1)
        self.wire = Wire(path)

    def ask(self) -> float:
        began = time.perf_counter()
        self.wire.call("predict", "asked", 30.0, 4)
        return time.perf_counter() - began

    def phase(self, rate: float | None, seconds: float) -> Phase:
        """Load the service with `rate` batches a second, or as many as are acknowledged."""
        context = multiprocessing.get_context("fork")
        results, answers, until = context.Queue(), context.Queue(), context.Event()
        before, spent = resident_mib(self.pid), cpu_seconds(self.pid)
        senders = [
            context.Process(target=send, args=(self.path, n, first, rate and rate / SENDERS, seconds, results))
            for n, first in self.next.items()
        ]
        asker = context.Process(target=ask, args=(self.path, until, answers))
        for process in (*senders, asker):
            process.start()
        found: list[Sent] = []
        for _ in senders:
            number, last, sent = results.get()
            self.next[number] = last + 1
            found.append(sent)
        until.set()
        asked, asking = answers.get()
        for process in (*senders, asker):
            process.join()
        cpu = {
            "service": cpu_seconds(self.pid) - spent, "senders": sum(each.cpu for each in found), "asker": asking
        }  # fmt: skip
        return Phase(found, asked, cpu, (before, resident_mib(self.pid)))

    def well_again(self, rest: float) -> float:
        """Return the seconds until questions are as fast as at rest, and stay so."""
        began = since = time.perf_counter()
        well = 0
        while well < WELL_FOR:
            well = well + 1 if self.ask() <= WELL_WITHIN * rest else 0
            since = time.perf_counter() if not well else since
        return since - began


def kernels(wire: Wire) -> list[str]:
    return list(wire.call("status", {})["service"]["kernels"].values())


def reported(title: str, phase: Phase) -> None:
    seconds = np.concatenate([each.seconds for each in phase.senders]) * 1e3
    questions = np.array(phase.asked) * 1e3
    print(f"{title}: {phase.rate:.0f} batches/s acknowledged, {phase.rate * ROWS / 1e6:.2f} million rows/s")
    for name, values, asked_ms in (("acknowledgement", seconds, 20.0), ("question", questions, 5.0)):
        p50, p99 = np.percentile(values, [50, 99])
        within = f"{np.mean(values <= asked_ms):.2%} within {asked_ms:.0f} ms"
        print(f"    {name:<16} p50 {p50:7.2f} ms   p99 {p99:7.2f} ms   worst {values.max():7.1f} ms   {within}")
    took = max(each.took for each in phase.senders)
    shares = ", ".join(f"{who} {spent / took:.2f}" for who, spent in phase.cpu.items())
    print(f"    cores            {shares}, of {os.cpu_count()}; others' load {os.getloadavg()[0]:.1f} with ours")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--state", action="store_true", help="with a state file: acknowledged is durable")
    arguments.add_argument(
        "--place", type=Path, help="where the state file is made; a tmpfs shows what is not the disk's"
    )
    given = arguments.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.place) as place,
        service(Path(place), state=given.state) as (path, pid),
    ):
        load = Load(path, pid)
        rows = [["asked", float(x), float(p), 1e-4 * x / p] for x in range(1, 60) for p in (1, 2, 4, 8)]
        load.wire.call("observe_rows", {"rows": rows})
        deadline = time.perf_counter() + KERNELS_S
        while time.perf_counter() < deadline and set(kernels(load.wire)) != {"compiled"}:
            time.sleep(0.5)
        words = ", ".join(sorted(set(kernels(load.wire))))
        print(f"kernels: {words}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        load.phase(None, given.seconds / 4)  # warm: names and pages
        first = load.phase(None, given.seconds / 4)
        reported("peak", first)
        rest = float(np.median([load.ask() for _ in range(200)]))
        for share in (0.8, 2.0):
            phase = load.phase(share * first.rate, given.seconds)
            well = load.well_again(rest)
            reported(f"{share:.0%} of the peak", phase)
            behind = sum(each.behind for each in phase.senders)
            print("    memory           {:.0f} to {:.0f} MiB".format(*phase.memory), f"; held back {behind} batches")
            print(f"    well again       {well:.3f} s after the load")
        last = load.phase(None, given.seconds / 4)
        print(f"peak afterwards: {last.rate / first.rate:.2f} of the peak before")
        totals = load.wire.call("status", {})["totals"]
        sent = sum(last - 1 for last in load.next.values()) * ROWS + len(rows)
        taken = totals["rows_accepted"] + sum(n for key, n in totals.items() if key.startswith("refused."))
        print(f"sent {sent} rows, counted {taken}: {'none lost, none twice' if sent == taken else 'WRONG'}")


if __name__ == "__main__":
    main()
