"""What a plan promises against what the simulator finds: throughput, and latency under load.

    python benchmarks/plan_prediction.py [--networks 50] [--jobs 2] [--exact] [--worst 10]

Random networks of all operators (`random_networks`), learned from noisy streams of 400 runs a box. Each is planned for
the highest throughput. Then

- the throughput promised is compared with that of a source which always has a next record, streams holding 64 records;
- at 30, 60 and 85 % of the throughput promised, the latency that the planner states for the same allocation and a
  Poisson stream is compared with the simulator's, streams unbounded.

``--exact`` gives the planner the true curves and variations instead: what then remains is due to its approximations.
Simulations run until the half width of their confidence interval is small beside the tolerance, or too many records.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from execution import Box, Outcome, simulate
from random_networks import NOISE, Case, random_case, sketch, teach

from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.engine import Advisor
from advisor.planning import Request, plan

LOADS = (0.3, 0.6, 0.85)
TOLERANCE = {0.3: 0.10, 0.6: 0.10, 0.85: 0.20}  # of the mean latency, as issue C states them
THROUGHPUT_TOLERANCE = 0.05
PRECISION = 0.45  # a simulation ends when its half width is below this share of the tolerance; 0.25 takes hours
STREAM_RECORDS = 64
RECORDS, RECORDS_MAX = 20_000, 640_000


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of a plan and its measurement."""

    seed: int
    what: str
    planned: float
    measured: float
    half_width: float

    @property
    def error(self) -> float:
        """Relative error of the plan."""
        return self.planned / self.measured - 1


def routing(case: Case) -> dict[str, Any]:
    """Return the true flow as options of a question."""
    flow = case.flow
    parts = {"shares": flow.shares, "depths": flow.depths, "fan_outs": flow.fan_outs, "returns": flow.returns}
    return {name: list(part) for name, part in parts.items() if part}


class Exact:
    """A planner that knows the true curves."""

    def __init__(self, case: Case) -> None:
        self._case = case
        counts = np.arange(1, case.cores + 1)
        curves = [case.curves[key] for key in case.network.keys]
        variation = [(1 + curve.variation) * (1 + NOISE**2) - 1 for curve in curves]
        self._curves = TabulatedCurves.from_arrays(
            counts, [curve.seconds(counts) for curve in curves], variation=variation
        )

    def allocate(self, **request: Any) -> Allocation:
        """Answer as `Advisor.allocate` does."""
        return plan(self._case.network, self._curves, Request(**{"turns": "never", **request}))


class Learned:
    """An advisor that has seen a noisy stream."""

    def __init__(self, case: Case, seed: int) -> None:
        advisor = Advisor()
        teach(advisor, case, seed)
        self._case = case
        self._curves = advisor.curve_tables.curves(case.network.components, cores_max=case.cores)

    def allocate(self, **request: Any) -> Allocation:
        """Answer as `Advisor.allocate` does."""
        return plan(self._case.network, self._curves, Request(**{"turns": "never", **request}))


def measured(case: Case, boxes: Mapping[str, Box], seed: int, load_per_s: float, precision: float) -> Outcome:
    """Return the latencies at a load, simulated for as long as it takes."""
    records = RECORDS
    while True:
        found = simulate(case.network, boxes, case.flow, arrival_per_s=load_per_s, records=records, seed=seed)
        if found.latency_s.relative <= precision or records >= RECORDS_MAX:
            return found
        records *= 2 if found.latency_s.relative < 2 * precision else 4


def judge(seed: int, *, exact: bool, instances_max: int) -> list[Row]:
    """Return the figures of one network."""
    case = random_case(seed)
    asked = {"cores": case.cores, "instances_max": instances_max} | routing(case)
    planner = Exact(case) if exact else Learned(case, seed)
    answer = planner.allocate(**asked)
    boxes = case.allocated(answer)
    full = simulate(
        case.network, boxes, case.flow, stream_records=STREAM_RECORDS, records=2 * RECORDS, seed=seed
    ).throughput_per_s
    rows = [Row(seed, "throughput", answer.throughput_per_s, full.mean, full.half_width)]
    pinned = {key: {"cores": answer.cores[key], "instances": answer.instances[key]} for key in case.network.keys}
    for load in LOADS:
        rate = load * answer.throughput_per_s
        reported = planner.allocate(**asked, pinned=pinned, arrival_per_s=rate, objective="latency")
        found = measured(case, boxes, seed, rate, PRECISION * TOLERANCE[load]).latency_s
        rows.append(
            Row(
                seed,
                f"latency at {load:.0%}",
                reported.latency_queued_s or reported.latency_s,
                found.mean,
                found.half_width,
            )
        )
    return rows


def without_order(case: Case) -> Case:
    """Return the case with every ordered operator made unordered: what waiting for order costs."""
    nodes = tuple(replace(node, ordered=False) for node in case.network.nodes)
    return replace(case, network=replace(case.network, nodes=nodes))


def report(rows: Sequence[Row], worst: int) -> None:
    """Print the shares within tolerance, and the worst."""
    tolerance = {"throughput": THROUGHPUT_TOLERANCE} | {f"latency at {load:.0%}": TOLERANCE[load] for load in LOADS}
    print("| planned | within | networks | median error | 90 % below | bias | simulator's half width, median |")
    print("|---|---|---|---|---|---|---|")
    for what, bound in tolerance.items():
        some = [row for row in rows if row.what == what]
        errors = np.array([row.error for row in some])
        width = np.median([row.half_width / row.measured for row in some])
        print(
            f"| {what} | {bound:.0%} | {np.mean(np.abs(errors) <= bound):.0%} of {len(some)}"
            f" | {np.median(np.abs(errors)):.1%} | {np.quantile(np.abs(errors), 0.9):.1%}"
            f" | {np.median(errors):+.1%} | {width:.1%} |"
        )
    print()
    outside = [row for row in rows if abs(row.error) > tolerance[row.what]]
    for row in sorted(outside, key=lambda row: -abs(row.error) / tolerance[row.what])[:worst]:
        print(f"{row.seed:>4} {row.what:<15} {row.error:+7.1%} (± {row.half_width / row.measured:.1%})"
              f"  {sketch(random_case(row.seed).network)}")  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--networks", type=int, default=50)
    arguments.add_argument("--first", type=int, default=0, help="seed of the first network")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--instances", type=int, default=1, help="instances allowed for each box")
    arguments.add_argument("--exact", action="store_true", help="plan on the true curves")
    arguments.add_argument("--worst", type=int, default=10)
    given = arguments.parse_args()
    start = time.perf_counter()
    rows: list[Row] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        work = [
            pool.submit(judge, seed, exact=given.exact, instances_max=given.instances)
            for seed in range(given.first, given.first + given.networks)
        ]
        for done in as_completed(work):  # a long benchmark: what is known is told
            rows += done.result()
            for row in rows[-1 - len(LOADS) :]:
                print(f"{row.seed:>4} {row.what:<15} {row.error:+7.1%}", file=sys.stderr, flush=True)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"{time.perf_counter() - start:.0f} s; {'true curves' if given.exact else 'learned'}, "
          f"at most {given.instances} instances a box")  # fmt: skip
    report(rows, given.worst)


if __name__ == "__main__":
    main()
