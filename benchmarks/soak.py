"""A service under everything at once for as long as asked: its memory, descriptors and threads must be flat.

    PYTHONPATH=.:tests/support python benchmarks/soak.py [--seconds 600] [--rounds 0] [--engine ray]

Each round is a new set of clients: one that sends mixed events of all verbs (rows, columns, runs, tasks, pins,
forgets), one that plans, watches and asks, one whose every question fails, one that is cut off in a message, and a reader
of metrics and of the page. Names repeat, so that what is learned has its final size after the first rounds. Told is the median
of what the service holds in each tenth of the time; the last three tenths are compared with the three before them. With
`--engine ray` the service is the router of two shards, whose memory is shown beside its own. At the end the service has to
have counted as many rows as it has acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgpack
from latency import Wire, service
from lives_events import NETWORK, Stream

EVENTS = 60  # of a round
SEEDS = 8  # rounds repeat
GROWTH_MIB_MAX = 8.0  # between the last three tenths and those before: allocators keep some
TENTHS = 10
ROWS = ("observe_rows", "observe_columns")
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("predict", {"component": "c1", "predictor": 3.0, "cores": [1, 2, 4]}),
    ("choose_cores", {"component": "c2", "cores_max": 8}),
    ("allocate", {"network": NETWORK, "cores": 8}), ("allocate", {"network": NETWORK, "cores": 8, "objective": "latency"}),
    ("watch", {"network": NETWORK, "cores": 4}), ("curves", {"components": ["c1", "c2"]}), ("status", {}),
    ("simulate", {"graph": {"times": bytes(8 * 3)}, "cores": [1, 2]}), ("profile", {}),
    ("suggest", {"component": "c3", "cores_max": 8}),
)  # fmt: skip
WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("predict", {"component": "never", "cores": 1}), ("allocate", {"network": "c0 .. (", "cores": 4}),
    ("flow", {"network": "never"}),
    ("simulate", {"dot": "digraph {", "cores": [1]}), ("task_events", {"records": b"x" * 7}),
    ("pin", {"component": "c0", "model": "?"}),
)  # fmt: skip


def memory(pid: int) -> float:
    """Return the memory of a process, MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def held(pid: int, shards: list[int]) -> tuple[float, int, int, float]:
    """Return what a process holds: MiB of memory, descriptors, threads; and the MiB of its shards."""
    proc = Path(f"/proc/{pid}")
    open_ones, threads = (len(list((proc / each).iterdir())) for each in ("fd", "task"))
    return memory(pid), open_ones, threads, sum(map(memory, shards))


def shards_of(pid: int) -> list[int]:
    """Return the processes below this one that serve shards."""
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    serving = [child for child in children if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"ray::Process")]
    return serving + [shard for child in children for shard in shards_of(child)]


def events(path: Path, number: int, counted: Counter[str]) -> int:
    """Send a round's events, pipelined; count their rows, return how many events were acknowledged."""
    stream, wire = Stream(number % SEEDS), Wire(path)
    with wire.socket:
        own = f"round-{number % SEEDS}-{random.Random(number).randrange(4)}"  # fewer than there may be
        for at in range(EVENTS):
            verb, given = stream.event(at + 1)
            params = {key: value for key, value in given.items() if key not in ("producer", "sequence")}
            if verb == "task_events":
                params["producer"] = own
            wire.socket.sendall(msgpack.packb([0, at, verb, [params]]))
        answers = [wire.message() for _ in range(EVENTS)]
    for _, at, error, found in answers:
        if error is None and stream.event(at + 1)[0] in ROWS:
            counted.update(rows_accepted=found["accepted"], rows_refused=found["refused"]["count"])
    return sum(error is None for _, _, error, _ in answers)


def asked(path: Path, questions: tuple[tuple[str, dict[str, Any]], ...]) -> int:
    """Ask; return how many answers there were."""
    wire = Wire(path)
    with wire.socket:
        for at, (verb, params) in enumerate(questions):
            wire.socket.sendall(msgpack.packb([0, at, verb, [params]]))
        answers = 0
        while answers < len(questions):
            answers += wire.message()[0] == 1  # and not a push
        return answers


def cut_off(path: Path) -> None:
    """Leave in the midst of a message."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        link.sendall(msgpack.packb([0, 1, "observe_rows", [{"rows": [["c1", 1.0, 1.0, 1.0]] * 500}]])[:-7])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=600.0)
    arguments.add_argument("--rounds", type=int, default=0, help="end after so many, whatever the time")
    arguments.add_argument("--engine", default="here", choices=["here", "ray"])
    given = arguments.parse_args()
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as place,
        service(Path(place), state=True, http=f"127.0.0.1:{port}", engine=given.engine) as (path, pid),
    ):
        samples: list[tuple[float, int, int, float]] = []
        rounds = answers = 0
        counted, shards = Counter[str](), shards_of(pid)
        ends = time.monotonic() + given.seconds
        while time.monotonic() < ends and not 0 < given.rounds <= rounds:
            answers += events(path, rounds, counted) + asked(path, QUESTIONS) + asked(path, WRONG)
            cut_off(path)
            for page in ("metrics", "healthz", ""):
                with contextlib.closing(urlopen(f"http://127.0.0.1:{port}/{page}")) as read:
                    read.read()
            rounds += 1
            samples.append(held(pid, shards))
        with contextlib.closing(urlopen(f"http://127.0.0.1:{port}/metrics")) as read:
            defects = [line for line in read.read().decode().splitlines() if 'code="defect"' in line]
        totals = Wire(path).call("status")["totals"]
        parts = [samples[len(samples) * at // TENTHS : len(samples) * (at + 1) // TENTHS] for at in range(TENTHS)]
        medians = [tuple(statistics.median(column) for column in zip(*part, strict=True)) for part in parts if part]
    print(f"{rounds} rounds, {answers} answers, defects: {defects or 'none'}, load average {os.getloadavg()[0]:.1f}")
    exact = all(totals[each] == counted[each] for each in counted)
    print(f"rows acknowledged: {dict(counted)}: {'all counted once' if exact else f'NOT EXACT: {totals}'}")
    for name, column in zip(
        ("memory, MiB", "descriptors", "threads", "shards, MiB"), zip(*medians, strict=True), strict=True
    ):
        print(f"  {name:<12}", "  ".join(f"{value:7.1f}" for value in column))
    before, last = ([statistics.mean(c) for c in zip(*medians[at : at + 3], strict=True)] for at in (4, 7))
    grown = last[0] - before[0]
    print(f"shards grew by {last[3] - before[3]:.1f} MiB")
    flat = max(grown, last[3] - before[3]) <= GROWTH_MIB_MAX and last[1] <= before[1] + 1 and last[2] <= before[2] + 1
    print(f"memory grew by {grown:.1f} MiB ({GROWTH_MIB_MAX:g} allowed): {'flat' if flat else 'NOT FLAT'}")
    raise SystemExit(not (flat and exact) or bool(defects))


if __name__ == "__main__":
    main()
