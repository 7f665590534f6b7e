"""Query latency of a service process against a bare socket pair, pinned to one core in the same run; and under load.

    python benchmarks/latency.py [--rounds 10] [--seconds 5]

At rest: a round is 500 echoes of the bare pair, 500 `predict` on a clean model and 100 `predict` right after a new row, on
the same core, interleaved. Under load: columns of as many rows as a batch may have, on 10,000 components in turn, at their peak
rate and at 80 % of it, with and without a state file, while another process asks. Beside large messages: 20,000 rows for 500
new components, in messages of as many rows as one may have, while another connection asks what is solved already.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from advisor.domain.limits import NAMES_BATCH_MAX, ROWS_BATCH_MAX

PROGRAM = """
import json, sys
from advisor.service import load_config, run, serve
config = load_config(**json.loads(sys.argv[1]))
if config.sharded:
    from advisor.cluster.serving import serve
run(config, serve)
"""
ROWS, COMPONENTS = ROWS_BATCH_MAX, 10_000
LARGE_ROWS, LARGE_COMPONENTS = 20_000, 500
WINDOW = 64  # batches on their way: two commits of many components


class Wire:
    """A client with as little of its own as can be."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.unpacker = msgpack.Unpacker(max_buffer_size=2**28)

    def message(self) -> list[Any]:
        while True:
            for message in self.unpacker:
                return message
            self.unpacker.feed(self.socket.recv(2**18))

    def call(self, method: str, *params: Any) -> Any:
        self.socket.sendall(msgpack.packb([0, 1, method, list(params)]))
        _, _, error, result = self.message()
        if error is not None:
            raise RuntimeError(error)
        return result


@contextlib.contextmanager
def service(place: Path, *, state: bool, **more: Any) -> Iterator[tuple[Path, int]]:
    options = {"socket": str(place / "s")} | ({"state": str(place / "state")} if state else {}) | more
    log = place / "log"  # a pipe that nobody reads would stop the service when it is full
    with (
        log.open("w") as written,
        subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps(options)], stderr=written) as process,
    ):
        while '"serving"' not in log.read_text() and process.poll() is None:
            time.sleep(0.05)
        try:
            yield place / "s", process.pid
        finally:
            process.terminate()
            process.wait()


def echo(end: socket.socket) -> None:
    while data := end.recv(2**16):
        end.sendall(data)


def microseconds(times: list[float]) -> str:
    ordered = sorted(times)
    p50, p99 = (ordered[int(len(ordered) * share)] * 1e6 for share in (0.5, 0.99))
    return f"p50 {p50:8.1f}  p99 {p99:8.1f} microseconds"


def at_rest(rounds: int) -> None:
    ours, theirs = socket.socketpair()
    pair = multiprocessing.get_context("fork").Process(target=echo, args=(theirs,), daemon=True)
    pair.start()
    theirs.close()
    core = {min(os.sched_getaffinity(0))}
    before = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as place, service(Path(place), state=False) as (path, pid):
        for process in (0, pid, pair.pid):
            os.sched_setaffinity(process or 0, core)
        wire = Wire(path)
        rows = [["matmul", float(x), float(p), 1e-4 * x * (0.1 + 0.9 / p)] for x in range(1, 60) for p in (1, 2, 4, 8)]
        wire.call("observe_rows", {"rows": rows})
        request = msgpack.packb([0, 1, "predict", ["matmul", 30.0, 4]])
        row = msgpack.packb([2, "observe", ["matmul", 31.0, 4.0, 0.001]])
        times: dict[str, list[float]] = {"bare": [], "clean": [], "solved": []}
        medians: dict[str, list[float]] = {kind: [] for kind in times}
        for _ in range(rounds):
            for kind, count in (("bare", 500), ("clean", 500), ("solved", 100)):
                part = []
                for _ in range(count):
                    if kind == "solved":
                        wire.socket.sendall(row)
                    begun = time.perf_counter()
                    if kind == "bare":
                        ours.sendall(request)
                        ours.recv(2**16)
                    else:
                        wire.socket.sendall(request)
                        wire.message()
                    part.append(time.perf_counter() - begun)
                times[kind] += part
                medians[kind].append(statistics.median(part))
    os.sched_setaffinity(0, before)
    ours.close()
    bare = statistics.median(medians["bare"])
    for kind, title in (
        ("bare", "bare socket pair"), ("clean", "predict, clean model"), ("solved", "predict after a new row"),
    ):  # fmt: skip
        ratio = statistics.median(medians[kind]) / bare
        spread = f"[{min(medians[kind]) * 1e6:.1f} – {max(medians[kind]) * 1e6:.1f}]"
        print(f"{title:<26} {microseconds(times[kind])}   medians {spread}   {ratio:5.1f} x bare")


def load(path: Path, rate: float | None, until: Event, results: Any) -> None:
    """Send batches, at most `rate` a second; tell how many were answered and how long each took."""
    wire = Wire(path)
    rng = np.random.default_rng(os.getpid())
    for first in range(0, COMPONENTS, NAMES_BATCH_MAX):
        last = min(first + NAMES_BATCH_MAX, COMPONENTS)
        wire.call("names", first, [f"component-{i}" for i in range(first, last)])
    turns = rng.permutation(COMPONENTS).astype("<u4")
    columns = {
        "predictor": rng.uniform(1, 100, ROWS).tobytes(),
        "cores": rng.choice([1.0, 2.0, 4.0, 8.0], ROWS).tobytes(),
        "elapsed_s": rng.uniform(0.1, 1.0, ROWS).tobytes(),
    }
    times: list[float] = []
    sent: deque[float] = deque()
    begun = due = time.perf_counter()
    sequence = 0
    while not until.is_set():
        while len(sent) < WINDOW and (rate is None or due <= time.perf_counter()):
            sequence += 1
            index = turns[(sequence * ROWS + np.arange(ROWS)) % COMPONENTS].tobytes()
            numbered = columns | {"index": index, "producer": f"load-{os.getpid()}", "sequence": sequence}
            sent.append(due if rate else time.perf_counter())
            wire.socket.sendall(msgpack.packb([0, sequence, "observe_columns", [numbered]]))
            due += 1 / rate if rate else 0.0
        if sent:
            _, _, error, _ = wire.message()
            if error is not None:
                raise RuntimeError(error)
            times.append(time.perf_counter() - sent.popleft())
        else:
            time.sleep(max(0.0, due - time.perf_counter()))
    results.put((len(times) / (time.perf_counter() - begun), times))


def loaded(path: Path, rate: float | None, seconds: float) -> tuple[float, list[float], list[float]]:
    """Return (batches a second, seconds of each acknowledgement, seconds of each predict meanwhile)."""
    context = multiprocessing.get_context("fork")
    until, results = context.Event(), context.Queue()
    loader = context.Process(target=load, args=(path, rate, until, results))
    loader.start()
    wire = Wire(path)
    asked: list[float] = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        begun = time.perf_counter()
        wire.call("predict", "matmul", 30.0, 4)
        asked.append(time.perf_counter() - begun)
        time.sleep(0.002)
    until.set()
    speed, acknowledged = results.get()
    loader.join()
    return speed, acknowledged, asked


def under_load(seconds: float) -> None:
    peaks: dict[bool, float] = {}
    for state in (False, True):
        with tempfile.TemporaryDirectory() as place, service(Path(place), state=state) as (path, _):
            wire = Wire(path)
            rows = [["matmul", float(x), float(p), 1e-4 * x / p] for x in range(1, 60) for p in (1, 2, 4, 8)]
            wire.call("observe_rows", {"rows": rows})
            loaded(path, None, seconds / 2)  # warm: names, pages
            peaks[state], _, _ = loaded(path, None, seconds)
            speed, acknowledged, asked = loaded(path, 0.8 * peaks[state], seconds)
            title = "with a state file" if state else "in memory only"
            print(f"{title}: peak {peaks[state] * ROWS / 1e6:.2f} million rows/s; at {speed / peaks[state]:.0%} of it")
            print(f"    predict          {microseconds(asked)}")
            print(f"    acknowledgement  {microseconds(acknowledged)}")
            if state:
                status = wire.call("status", {})["service"]
                print(f"    commits          {status['commits']}, mean {status['commit_mean_s'] * 1e3:.1f} ms")
    print(f"durability costs {1 - peaks[True] / peaks[False]:.0%} of the peak")


def beside_a_large_message(repeats: int) -> None:
    rng = np.random.default_rng(3)
    x, p = np.exp(rng.uniform(0, 9, LARGE_ROWS)), rng.choice([1.0, 2.0, 4.0, 8.0, 16.0], LARGE_ROWS)
    t = 1e-4 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1, LARGE_ROWS)
    names = [f"new-{i}" for i in rng.integers(0, LARGE_COMPONENTS, LARGE_ROWS)]
    rows = [list(row) for row in zip(names, x.tolist(), p.tolist(), t.tolist(), strict=True)]
    messages = [
        msgpack.packb([0, 1, "observe_rows", [{"rows": rows[first : first + ROWS]}]])
        for first in range(0, LARGE_ROWS, ROWS)
    ]
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as place, service(Path(place), state=False) as (path, _):
            asking, sending = Wire(path), Wire(path)
            known = [
                ["matmul", float(x), float(p), 1e-4 * x * (0.1 + 0.9 / p)] for x in range(1, 60) for p in (1, 2, 4, 8)
            ]
            asking.call("observe_rows", {"rows": known})
            asking.call("predict", "matmul", 30.0, 4)
            time.sleep(2.0)  # until what is compiled has been loaded
            times: list[float] = []
            begun = time.perf_counter()
            for message in messages:
                sending.socket.sendall(message)
                while not select.select([sending.socket], [], [], 0)[0]:
                    asked = time.perf_counter()
                    asking.call("predict", "matmul", 30.0, 4)
                    times.append(time.perf_counter() - asked)
                _, _, error, _ = sending.message()
                if error is not None:
                    raise RuntimeError(error)
            took = time.perf_counter() - begun
        print(
            f"{LARGE_ROWS} rows of {LARGE_COMPONENTS} new components, {len(messages)} messages, took {took:.2f} s; beside them"
        )
        print(f"    predict, clean  {microseconds(times)}  worst {max(times) * 1e6:.0f}   {len(times)} asked")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--large", type=int, default=3, help="large messages, each to a service of its own")
    given = arguments.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    at_rest(given.rounds)
    beside_a_large_message(given.large)
    under_load(given.seconds)


if __name__ == "__main__":
    main()
