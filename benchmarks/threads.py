"""Advice for threads: recorded calls of numpy kernels replayed, a live run, machines planted, and what a call costs.

`python -m benchmarks.threads record FILE | replay FILE | live | planted | cost | futures`, with `--calls 1500` and
`--seed 1`, and `live` with `--scale 2` for matrices up to twice as large. Each prints the machine and its load, and for the
advised calls, from the first on and after 200, their time over that of the best constant number of threads, of all threads,
and of hindsight (the best number for each call).

A replay and a planted machine run the adapter itself on a clock that recorded or planted times move.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from advisor.adapters.threads import Advised
from advisor.adapters.threads.machine import MachineLoad

Floats = NDArray[np.float64]
OTHERS = "others"  # the column with the cores that other processes kept busy
AFTER = 200  # calls, from which on the goals hold


def _square(n: int, rng: np.random.Generator) -> Floats:
    return rng.normal(size=(n, n))


# Each kernel: the sizes that it is called with, and what is called. Small ones lose by threads, large ones gain.
KERNELS: dict[str, tuple[tuple[int, int], Callable[[Floats], Any]]] = {
    "matmul": ((16, 700), lambda a: a @ a),
    "solve": ((16, 600), lambda a: np.linalg.solve(a, a[:, 0])),
    "inv": ((16, 400), np.linalg.inv),
    "qr": ((16, 400), np.linalg.qr),
    "svd": ((8, 200), np.linalg.svd),
    "eigh": ((8, 250), lambda a: np.linalg.eigh(a + a.T)),
    "cholesky": ((16, 700), lambda a: np.linalg.cholesky(a @ a.T + len(a) * np.eye(len(a)))),
    "lstsq": ((8, 200), lambda a: np.linalg.lstsq(a, a[:, 0], rcond=None)),
    "fft": ((16, 700), np.fft.fft2),
    "exp": ((16, 1000), np.exp),
}


def machine() -> str:
    """Return the machine and its load, in one line."""
    cores = len(os.sched_getaffinity(0))
    text = Path("/proc/cpuinfo").read_text().split("model name", 2)
    model = text[1].split(":", 1)[1].split("\n", 1)[0].strip() if len(text) > 1 else platform.processor()
    return f"{model}, {cores} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, numpy {np.__version__}"


def counts_to(cores: int) -> list[int]:
    """Return the powers of two below a number of cores, and it."""
    return sorted({*(1 << k for k in range(cores.bit_length()) if 1 << k <= cores), cores})


def drawn(calls: int, seed: int, scale: float = 1.0) -> list[tuple[str, int]]:
    """Return (kernel, size) of calls: kernels in turn of chance, sizes even in the logarithm, the largest times `scale`."""
    rng = np.random.default_rng(seed)
    names = list(KERNELS)
    found: list[tuple[str, int]] = []
    for _ in range(calls):
        name = names[rng.integers(len(names))]
        low, high = KERNELS[name][0]
        found.append((name, round(low * (scale * high / low) ** rng.random())))
    return found


def record(path: Path, calls: int, seed: int) -> None:
    """Run each call on each number of threads, one after another; write their seconds, and the cores that others had."""
    counts = counts_to(len(os.sched_getaffinity(0)))
    load = MachineLoad()
    rng = np.random.default_rng(seed)
    pools = ThreadpoolController()
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "n", *counts, OTHERS])
        for name, n in drawn(calls, seed):
            matrix = _square(n, rng)
            times = np.empty(len(counts))
            KERNELS[name][1](matrix)  # its pages are there
            for turn in rng.permutation(len(counts)).tolist():
                with pools.limit(limits=counts[turn]):
                    begun = time.perf_counter()
                    KERNELS[name][1](matrix)
                    times[turn] = time.perf_counter() - begun
            writer.writerow([name, n, *(f"{seconds:.3g}" for seconds in times), f"{load.cores():g}"])


class Clock:
    """Seconds that only recorded times move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now


def replayed(
    calls: Sequence[tuple[str, float]], times: Callable[[int, int], float], cores_max: int,
    others: Sequence[float] | None = None, **options: Any,
) -> Floats:  # fmt: skip
    """Return the seconds that each call took on the cores that the adapter gave it.

    Parameters
    ----------
    times : callable
        (number of the call, cores) to seconds.
    others : sequence of float, optional
        Cores that other processes kept busy at each call; absent: none.
    """
    clock, number = Clock(), 0
    took = np.empty(len(calls))
    with tempfile.TemporaryDirectory() as folder:
        advised = Advised(
            path=Path(folder) / "threads.state", clock=clock, cores_max=cores_max,
            load=lambda: others[number] if others is not None else 0.0, **options,
        )  # fmt: skip
        for number, (name, predictor) in enumerate(calls):
            with advised.cores(name, predictor=predictor, cores_max=cores_max) as cores:
                took[number] = times(number, cores)
                clock.now += took[number]
        advised.flush()
    return took


def read(path: Path) -> tuple[list[tuple[str, float]], list[int], Floats, list[float]]:
    """Return the calls of a recorded table, the counts, the seconds (calls, counts), and the cores that others had."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    counts = [int(cell) for cell in header[2:-1]]
    times = np.array([[float(cell) for cell in row[2:-1]] for row in rows])
    return [(row[0], float(row[1]) ** 2) for row in rows], counts, times, [float(row[-1]) for row in rows]


def between(counts: Sequence[int], times: Floats) -> Callable[[int, int], float]:
    """Return the seconds of a call on any number of cores: between those recorded, even in both logarithms."""
    logs = np.log(times)
    at = np.log(counts)
    return lambda number, cores: float(np.exp(np.interp(np.log(cores), at, logs[number])))


def report(title: str, took: Floats, times: Floats, counts: Sequence[int]) -> dict[str, float]:
    """Print what advice was worth, and return it."""
    reported: dict[str, float] = {}
    for since in (0, AFTER):
        constant = times[since:].sum(axis=0)
        best = int(constant.argmin())
        advised, hindsight = took[since:].sum(), times[since:].min(axis=1).sum()
        print(
            f"{title}, calls {since + 1}-{len(took)}: {advised:.3g} s advised, {constant[best]:.3g} s on {counts[best]},"
            f" {constant[-1]:.3g} s on all {counts[-1]}, {hindsight:.3g} s hindsight:"
            f" {advised / constant[best]:.3f} x the best constant, {advised / constant[-1]:.3f} x all,"
            f" {advised / hindsight:.3f} x hindsight"
        )
        reported = {
            "best": advised / constant[best], "all": advised / constant[-1], "hindsight": advised / hindsight,
            "constant": constant[best] / hindsight, "all_to_best": constant[-1] / constant[best],
        }  # fmt: skip
    return reported


def replay(path: Path) -> dict[str, float]:
    """Replay a recorded table."""
    calls, counts, times, others = read(path)
    return report(path.name, replayed(calls, between(counts, times), counts[-1], others), times, counts)


# Machines of 16 cores: seconds of a run with w seconds of work on p cores. Threads cost; the best count grows with the work.
PLANTED: dict[str, Callable[[Floats, Floats], Floats]] = {
    "forks": lambda w, p: w / p + 2e-4 * (p - 1),
    "barriers": lambda w, p: w / p + 8e-4 * np.log2(p) + 8e-5 * (p - 1),
    "contended": lambda w, p: w / p + 1.2e-5 * (p - 1) ** 2,
}


def planted(calls: int, seed: int, noise: float = 0.05) -> dict[str, dict[str, float]]:
    """Run the adapter on planted machines of 16 cores."""
    reported: dict[str, dict[str, float]] = {}
    for name, law in PLANTED.items():
        rng = np.random.default_rng(seed)
        work = 10 ** rng.uniform(-4.0, -1.0, calls)
        counts = np.arange(1, 17)
        exact = law(work[:, None], counts[None, :].astype(float))
        times = exact * rng.lognormal(0.0, noise, (calls, 1))
        took = replayed(
            [("planted", float(w * 1e9)) for w in work], lambda number, cores, t=times: float(t[number, cores - 1]), 16
        )
        reported[name] = report(f"{name}, seed {seed}", took, times, counts.tolist())
        print(f"  the best constant is {reported[name]['constant']:.2f} x hindsight")
    return reported


def live(calls: int, seed: int, scale: float = 1.0) -> dict[str, float]:
    """Run kernels advised, on one thread and on all, interleaved call by call."""
    pools = ThreadpoolController()
    cores = len(os.sched_getaffinity(0))
    counts = counts_to(cores)
    rng = np.random.default_rng(seed)
    took = np.empty(calls)
    times = np.empty((calls, len(counts)))
    with tempfile.TemporaryDirectory() as folder:
        advised = Advised(path=Path(folder) / "threads.state")
        kernels = {
            name: advised(name, predictor=lambda a: a.size, cores_max=cores)(call)
            for name, (_, call) in KERNELS.items()
        }
        for number, (name, n) in enumerate(drawn(calls, seed, scale)):
            matrix = _square(n, rng)
            KERNELS[name][1](matrix)
            for turn in rng.permutation(len(counts) + 1).tolist():
                begun = time.perf_counter()
                if turn == len(counts):
                    kernels[name](matrix)
                    took[number] = time.perf_counter() - begun
                else:
                    with pools.limit(limits=counts[turn]):
                        begun = time.perf_counter()
                        KERNELS[name][1](matrix)
                        times[number, turn] = time.perf_counter() - begun
        advised.flush()
    return report("live", took, times, counts)


# Tasks on threads: Python's lock lets one run, hashes and sleeps run beside it. How many, and of what size or seconds.
BURSTS: dict[str, tuple[Callable[[Any], Any], int, float]] = {
    "python": (lambda n: sum(range(int(n))), 500, 20_000), "hashes": (lambda n: hashlib.sha256(b"x" * int(n)), 300, 1e6),
} | {f"{count} sleeps of {1e3 * s:g} ms": (time.sleep, count, s)
     for count, s in ((60, 0.001), (60, 0.055), (60, 0.5), (200, 0.01), (200, 0.1), (1000, 0.01), (1000, 0.1))}  # fmt: skip


def bursts(repeats: int) -> dict[str, tuple[float, float]]:
    """Run bursts of tasks on fresh executors and again on the same ones: ours over the best pool of 2 to as many as tasks."""
    reported: dict[str, tuple[float, float]] = {}
    for name, (task, count, size) in BURSTS.items():
        times: dict[int, list[tuple[float, float]]] = {}  # of the first burst and a later one, by threads; 0: ours
        with tempfile.TemporaryDirectory() as folder:
            advised = Advised(path=Path(folder) / "threads.state")
            for number in range(repeats):
                pools = sorted({*(min(threads, count) for threads in (2, 16, 64, 256)), count, 0})
                for threads in pools if number % 2 else reversed(pools):
                    with ThreadPoolExecutor(threads) if threads else advised.executor("task") as executor:
                        took: list[float] = []
                        for _ in range(2):
                            begun = time.perf_counter()
                            for future in [executor.submit(task, size) for _ in range(count)]:
                                future.result()
                            took.append(time.perf_counter() - begun)
                    times.setdefault(threads, []).append((took[0], took[1]))
            advised.flush()
        first, later = (
            {threads: statistics.median(each[k] for each in found) for threads, found in times.items()}
            for k in range(2)
        )
        reported[name] = tuple(found.pop(0) / min(found.values()) for found in (first, later))  # pyright: ignore[reportArgumentType]
        print(
            f"{name}: {reported[name][0]:.3f} x the best pool at first, {reported[name][1]:.3f} later, medians",
            flush=True,
        )
    return reported


def cost(calls: int) -> float:
    """Print and return the median seconds that advice adds to a call that is learned."""
    with tempfile.TemporaryDirectory() as folder:
        advised = Advised(path=Path(folder) / "threads.state")

        def wait(until: float) -> None:
            while time.perf_counter() < until:
                pass

        called = advised("wait", predictor=lambda until: 1000.0, cores_max=2)(wait)
        added: list[float] = []
        for _ in range(calls):
            begun = time.perf_counter()
            called(begun + 1e-3)
            added.append(time.perf_counter() - begun - 1e-3)
        advised.flush()
    print(
        f"a call of 1 ms: {statistics.median(added) * 1e6:.1f} microseconds more (median), mean {np.mean(added) * 1e6:.1f}"
    )
    return statistics.median(added)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "replay", "live", "planted", "cost", "futures"))
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--calls", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args(arguments)
    print(machine())
    if given.what in ("record", "replay") and given.file is None:
        parser.error(f"{given.what} needs a FILE")
    if given.what == "record":
        record(given.file, given.calls, given.seed)
    elif given.what == "replay":
        replay(given.file)
    elif given.what == "planted":
        planted(given.calls, given.seed)
    elif given.what == "live":
        live(given.calls, given.seed, given.scale)
    elif given.what == "futures":
        bursts(given.calls)
    else:
        cost(given.calls)
    print(machine())


if __name__ == "__main__":
    main(sys.argv[1:])
