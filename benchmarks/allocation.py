"""Allocation against a per-core greedy heap in Python, the textbook way, in the same run.

    python benchmarks/allocation.py [--repeats 9] [--large]

Repeats are interleaved (planner, baseline, planner, …), so that a busy machine slows both. The baseline gives one core
at a time to the slowest component (throughput) or to the largest gain (latency); it knows no limits, visits, reasons or
ties. The planner's time is the whole `plan`: visits, limits, allocation, reasons, answer; the network is already read.
"""

from __future__ import annotations

import argparse
import heapq
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from advisor.domain.curves import TabulatedCurves
from advisor.engine import Advisor
from advisor.network import parse
from advisor.planning import Request, plan

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of the tables
WARM = 100  # plans before times are taken
RISE_S = 1e-4  # seconds that each core adds to a table: curves rise again


def greedy_throughput(serial: list[float], parallel: list[float], cores: int) -> list[int]:
    given = [1] * len(serial)
    heap = [(-(s + q), row) for row, (s, q) in enumerate(zip(serial, parallel, strict=True))]
    heapq.heapify(heap)
    for _ in range(cores - len(serial)):
        row = heap[0][1]
        given[row] += 1
        heapq.heapreplace(heap, (-(serial[row] + parallel[row] / given[row]), row))
    return given


def greedy_latency(serial: list[float], parallel: list[float], cores: int) -> list[int]:
    given = [1] * len(serial)
    heap = [(-q / 2, row) for row, q in enumerate(parallel)]
    heapq.heapify(heap)
    for _ in range(cores - len(serial)):
        row = heap[0][1]
        given[row] += 1
        heapq.heapreplace(heap, (-parallel[row] / (given[row] * (given[row] + 1)), row))
    return given


def seconds(work: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def spread(times: list[float]) -> str:
    low, _, high = statistics.quantiles(times, n=4) if len(times) > 1 else (times[0],) * 3
    return f"{statistics.median(times) * 1e3:10.2f} ms  [{low * 1e3:.2f} – {high * 1e3:.2f}]"


def compare(components: int, cores: int, repeats: int, *, baseline: bool = True) -> None:
    rng = np.random.default_rng(7)
    network = parse(" .. ".join(f"c{row}" for row in range(components)))
    serial_s, parallel_s = rng.lognormal(-5, 1, components), rng.lognormal(0, 1, components)
    most = 2**20
    curves = TabulatedCurves.from_arrays(
        [1, most], np.stack([serial_s + parallel_s, serial_s + parallel_s / most], axis=1)
    )
    counts = np.array(COUNTS)
    seconds_s = serial_s[:, None] + parallel_s[:, None] / counts + RISE_S * counts
    tables = TabulatedCurves.from_arrays(counts, seconds_s, variation=0.2)
    serial, parallel = serial_s.tolist(), parallel_s.tolist()
    greedy = {"throughput": greedy_throughput, "latency": greedy_latency}
    for objective, request in {
        "throughput": Request(cores=cores),
        "latency": Request(cores=cores, objective="latency"),
        "throughput, 8 instances": Request(cores=cores, instances_max=8),
        "throughput, half the cores": Request(cores=components // 2),
        "throughput, in turns or not": Request(cores=cores, turns="better"),
    }.items():
        run = greedy.get(objective) if baseline else None
        ours: list[float] = []
        theirs: list[float] = []
        tabled: list[float] = []
        for _ in range(repeats):
            ours.append(seconds(plan, network, curves, request))
            if objective in greedy:
                tabled.append(seconds(plan, network, tables, request))
            if run is not None:
                theirs.append(seconds(run, serial, parallel, cores))
        ratio = f"   {statistics.median(theirs) / statistics.median(ours):7.1f} x" if theirs else ""
        print(f"{components:>7} components {cores:>8} cores  {objective:<27} plan     {spread(ours)}{ratio}")
        if tabled:
            print(f"{'':>7}            {'':>8}        {'':<27} tables   {spread(tabled)}")
        if theirs:
            print(f"{'':>7}            {'':>8}        {'':<27} baseline {spread(theirs)}")


def fifty(repeats: int) -> None:
    """50 components on 200 cores: pipelines of tables with certain and with varying times, and their gaps."""
    rng = np.random.default_rng(3)
    counts = np.array(COUNTS)
    network = parse(" .. ".join(f"c{row}" for row in range(50)))
    seconds_s = (
        rng.lognormal(0, 1, (50, 1)) * (rng.random((50, 1)) * 0.3 + 1 / counts) + rng.random((50, 1)) * 0.02 * counts
    )
    curves = TabulatedCurves.from_arrays(counts, seconds_s, variation=0.5)
    rate = 0.5 * plan(network, curves, Request(cores=200)).throughput_per_s
    loaded = Request(cores=200, objective="latency", arrival_per_s=rate)
    target = 1.2 * float(plan(network, curves, loaded).latency_queued_s or 0.0)
    for name, request in {
        "throughput": Request(cores=200),
        "latency": Request(cores=200, objective="latency"),
        "latency, queues at half load": loaded,
        "fewest cores for 1.2 x that": replace(loaded, objective="fewest_cores", target={"latency_s": target}),
        "throughput, 4 instances": Request(cores=200, instances_max=4),
        "throughput, nodes of 16": Request(cores=200, nodes=16),
    }.items():
        times = [seconds(plan, network, curves, request) for _ in range(repeats)]
        gap = plan(network, curves, request).gap
        reported = "none" if gap is None else f"{100 * gap:.2f} %"
        print(f"     50 components      200 cores  {name:<29} plan   {spread(times)}   gap {reported}")


def after_a_row(components: int, cores: int, repeats: int, *, read: bool = False) -> None:
    """A row comes in, then a plan of all components is asked for; with `read` its reasons and tables are read, too."""
    rng, advisor = np.random.default_rng(5), Advisor()
    names = [f"c{row}" for row in range(components)]
    scale, share = rng.lognormal(-4, 1, components), rng.uniform(0.7, 0.999, components)
    for p in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0) * 4:
        x = rng.lognormal(0, 0.5, components)
        times = x * scale * (1 - share + share / p) * rng.lognormal(0, 0.05, components)
        advisor.observe_columns(
            components=names, index=np.arange(components), predictor=x, cores=np.full(components, p), elapsed_s=times
        )
    network, row, times = parse(" .. ".join(names)), 0, list[float]()
    for order in range(3 * repeats + WARM):  # kernels are loaded meanwhile
        row = (row + 1) % components
        advisor.observe(names[row], predictor=1.0, cores=4, elapsed_s=float(scale[row]))

        def asked() -> object:
            found = advisor.allocate(network, cores=cores)
            return found.why if read else found

        spent = seconds(asked)
        if order >= WARM:
            times.append(spent)
        elif order == WARM // 2:
            time.sleep(3.0)  # the compiler's child, where the kernels are not made yet
    reported = "after a row, reasons read" if read else "after a row"
    print(f"{components:>7} components {cores:>8} cores  {reported:<27} plan     {spread(times)}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=9)
    arguments.add_argument("--large", action="store_true", help="also 100,000 components on 1,000,000 cores")
    given = arguments.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    print("median [quartiles]; the last column is baseline / plan")
    compare(1_000, 10_000, given.repeats)
    for components, cores in ((4, 16), (1_000, 10_000)):
        after_a_row(components, cores, given.repeats)
        after_a_row(components, cores, given.repeats, read=True)
    fifty(max(3, given.repeats // 3))
    if given.large:
        compare(100_000, 1_000_000, max(3, given.repeats // 3))
    text = " .. ".join(f"c{row}" for row in range(1_000))
    parse("a")  # builds the parser, once a process
    print(f"reading 1000 components from text {spread([seconds(parse, text) for _ in range(given.repeats)])}")


if __name__ == "__main__":
    main()
