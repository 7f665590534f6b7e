"""The demo: real components on this machine, and whether following the advice pays.

A learning phase runs records through the pipeline on core counts that take turns. Then every invocation is judged: the
advisor is asked, and the same input is run with one core, with all cores, with the advised cores and with the other
candidates, interleaved and repeated. What the advised run took is reported, as a scheduler would.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from advisor.demo.kernels import KERNELS, Floats, Workers, record
from advisor.engine import Advisor
from advisor.errors import Unsupported

SIDES = (16, 640)  # of a record, log-uniform: from runs that threads only slow down to runs that need them
RECORDS_LEARNED = 120  # each component sees every candidate count at many sizes
RECORDS_JUDGED = 80
REPEATS = 3  # of each run that is judged; its time is their median
CANDIDATES_MAX = 6  # core counts that are run for the hindsight, besides the advised one: bounds the work
CORES_MAX = 64  # more threads than that on kernels this small measure the operating system
TOLERANCE = 0.05  # the fewest cores within 5 % of the fastest; also what counts as a right choice
POLICIES = ("one core", "all cores", "advised", "hindsight best")
CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # "max 100000", or microseconds of processor a period of microseconds


class Invocation(NamedTuple):
    """One judged invocation: the median seconds of each core count that was run, and what was advised."""

    component: str
    advised: int
    elapsed_s: dict[int, float]
    ask_s: float = 0.0  # that the question took

    def cores(self, policy: str) -> int:
        """Return how many cores a policy gives the invocation; policies that agree share their runs."""
        best = min(self.elapsed_s, key=lambda cores: (self.elapsed_s[cores], cores))
        return {"one core": 1, "all cores": max(self.elapsed_s), "advised": self.advised, "hindsight best": best}[
            policy
        ]

    def seconds(self, policy: str) -> float:
        """Return what the invocation takes under a policy."""
        return self.elapsed_s[self.cores(policy)]


def run_demo(*, seed: int, tick: Callable[[int], object]) -> dict[str, Any]:
    """Run the demo and return what was measured; `tick` gets the number of all records, once a record.

    Raises Unsupported when threadpoolctl is not installed: with several threads inside each kernel nothing would be measured.
    """
    try:
        from threadpoolctl import threadpool_limits  # noqa: PLC0415 - an extra, loaded where it is used
    except ImportError as error:
        hint = "pip install threadpoolctl"
        raise Unsupported("the demo needs threadpoolctl, which is not installed", field="threads", hint=hint) from error
    start, load, cores = perf_counter(), os.getloadavg()[0], min(CORES_MAX, usable_cores())
    counts, rng = candidates(cores), np.random.default_rng(seed)
    advisor, judged = Advisor(), list[Invocation]()
    with threadpool_limits(limits=1), Workers(cores) as workers:
        for count in (1, cores, cores):  # the threads start, library code is loaded: no measured run pays for it
            flow: Any = record(SIDES[1] // 2, rng)
            for kernel in KERNELS.values():
                flow = kernel(flow, count, workers)
        for number in range(RECORDS_LEARNED + RECORDS_JUDGED):
            given = record(round(SIDES[0] * (SIDES[1] / SIDES[0]) ** rng.uniform()), rng)
            if number < RECORDS_LEARNED:
                _learn(advisor, given, counts, number, workers)
            else:
                judged += _judge(advisor, given, counts, workers, rng)
            tick(RECORDS_LEARNED + RECORDS_JUDGED)
    found = {"cores": cores, "runs_learned": RECORDS_LEARNED * len(KERNELS), "load_average": load}
    return {"real": found | summary(judged) | {"seconds": perf_counter() - start}}


def summary(judged: Sequence[Invocation]) -> dict[str, Any]:
    """Return what each policy took: seconds, core-seconds, regret (its share lost against the best), share of right choices."""
    names = dict.fromkeys(run.component for run in judged)
    best = np.array([run.seconds("hindsight best") for run in judged])
    policies: dict[str, Any] = {}
    for policy in POLICIES:
        took = np.array([run.seconds(policy) for run in judged])
        policies[policy] = {
            "total_s": float(took.sum()),
            "core_s": sum(run.seconds(policy) * run.cores(policy) for run in judged),
            "regret": float(took.sum() / best.sum() - 1.0),
            "right_share": float(np.mean(took <= best * (1.0 + TOLERANCE))),
            "components_s": {
                name: sum(run.seconds(policy) for run in judged if run.component == name) for name in names
            },
        }
    ask_s = float(np.median([run.ask_s for run in judged]))
    return {"invocations": len(judged), "ask_median_s": ask_s, "policies": policies}


def usable_cores() -> int:
    """Return the cores this process may use: by affinity, and by its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CGROUP_QUOTA.read_text(encoding="ascii").split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def candidates(cores: int) -> tuple[int, ...]:
    """Return at most CANDIDATES_MAX core counts from 1 to `cores`, both included, evenly spaced in the logarithm."""
    wanted = min(CANDIDATES_MAX, cores.bit_length() + 1)
    return tuple(sorted({round(count) for count in np.geomspace(1, cores, wanted)}))


def _learn(advisor: Advisor, flow: Floats, counts: Sequence[int], number: int, workers: Workers) -> None:
    for place, (name, kernel) in enumerate(KERNELS.items()):
        # Each component takes every candidate in turn, and no two components the same one at a time.
        cores = counts[(number + place) % len(counts)]
        start = perf_counter()
        result = kernel(flow, cores, workers)
        advisor.observe(name, predictor=len(flow), cores=cores, elapsed_s=perf_counter() - start)
        flow = result


def _judge(
    advisor: Advisor, flow: Floats, counts: Sequence[int], workers: Workers, rng: np.random.Generator
) -> Iterator[Invocation]:
    """Yield the judged invocation of each component of the pipeline."""
    for name, kernel in KERNELS.items():
        side, start = len(flow), perf_counter()
        choice = advisor.choose_cores(name, predictor=side, cores_max=max(counts), tolerance=TOLERANCE)
        advised, ask_s = choice.cores, perf_counter() - start
        times: dict[int, list[float]] = {cores: [] for cores in (*counts, advised)}
        result = flow
        for _ in range(REPEATS):
            for cores in rng.permutation(list(times)).tolist():
                start = perf_counter()
                result = kernel(flow, cores, workers)
                times[cores].append(perf_counter() - start)
        advisor.observe(name, predictor=side, cores=advised, elapsed_s=times[advised][0])
        yield Invocation(name, advised, {cores: float(np.median(runs)) for cores, runs in times.items()}, ask_s)
        flow = result
