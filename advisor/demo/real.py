"""The demo: real components on this machine, and whether following the advice pays.

A learning phase runs records through the pipeline on core counts that take turns. Then every invocation is judged: the
advisor is asked, and the same input is run with one core, with all cores, with the advised cores and with the other
candidates, interleaved and repeated. What the advised run took is sent to the service, as a scheduler would.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from advisor.client import SyncClient
from advisor.demo.kernels import KERNELS, Workers, record
from advisor.errors import Unsupported

Floats = NDArray[np.float64]

SIDES = (16, 640)  # of a record, log-uniform: from runs that threads only slow down to runs that need them
RECORDS_LEARNED = 120  # each component sees every candidate count at many sizes
RECORDS_JUDGED = 80
REPEATS = 3  # of each run that is judged; its time is their median
CANDIDATES_MAX = (
    6  # core counts that are run for the hindsight, besides the advised one: bounds the work on large machines
)
CORES_MAX = 64  # more threads than that on kernels this small measure the operating system
TOLERANCE = 0.05  # the fewest cores within 5 % of the fastest; also what counts as a right choice
POLICIES = ("one core", "all cores", "advised", "hindsight best")
CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # "max 100000", or microseconds of processor a period of microseconds


@dataclass(frozen=True, slots=True)
class Invocation:
    """One judged invocation: the median seconds of each core count that was run, and what was advised."""

    component: str
    side: int
    advised: int
    elapsed_s: dict[int, float]

    def seconds(self, policy: str) -> float:
        """Return what the invocation takes under a policy; policies that agree share their runs."""
        return self.elapsed_s[self.cores(policy)]

    def cores(self, policy: str) -> int:
        """Return how many cores a policy gives the invocation."""
        return {
            "one core": 1,
            "all cores": max(self.elapsed_s),
            "advised": self.advised,
            "hindsight best": min(self.elapsed_s, key=lambda cores: (self.elapsed_s[cores], cores)),
        }[policy]


@dataclass(frozen=True, slots=True)
class JudgedRuns:
    """What the demo measured."""

    cores: int  # all cores: those this process may use, at most CORES_MAX
    learned: int  # runs of the learning phase
    invocations: tuple[Invocation, ...]
    ask_s: Floats  # float64 array: seconds each question took, from asking to the answer
    load: float = 0.0  # what else wanted to run when the demo began: the machine's load average of a minute

    @property
    def components(self) -> tuple[str, ...]:
        """The components judged, in the order of the pipeline."""
        return tuple(dict.fromkeys(run.component for run in self.invocations))

    def total_s(self, policy: str, component: str | None = None) -> float:
        """Return the seconds of all invocations (of one component) under a policy."""
        return sum(run.seconds(policy) for run in self.runs_of(component))

    def core_s(self, policy: str) -> float:
        """Return the core-seconds that a policy holds."""
        return sum(run.seconds(policy) * run.cores(policy) for run in self.invocations)

    def regret(self, policy: str) -> float:
        """Return the share of time that a policy loses against the hindsight best, over all invocations."""
        return self.total_s(policy) / self.total_s("hindsight best") - 1.0

    def slowdown(self, policy: str, component: str | None = None) -> float:
        """Return the geometric mean of an invocation's seconds over its hindsight best: every size counts alike."""
        return float(np.exp(np.mean(np.log(self.ratios(policy, component)))))

    def ratios(self, policy: str, component: str | None = None) -> Floats:
        """Return each invocation's seconds over its hindsight best, at least 1."""
        return np.array([run.seconds(policy) / run.seconds("hindsight best") for run in self.runs_of(component)])

    def right_share(self, policy: str, component: str | None = None) -> float:
        """Return the share of invocations within TOLERANCE of their hindsight best."""
        return float(np.mean(self.ratios(policy, component) <= 1.0 + TOLERANCE))

    def runs_of(self, component: str | None) -> Sequence[Invocation]:
        """Return the invocations of a component; all of them for None."""
        return [run for run in self.invocations if component in (None, run.component)]


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


def run_real(
    client: SyncClient,
    seed: int,
    *,
    cores: int | None = None,
    learned: int = RECORDS_LEARNED,
    judged: int = RECORDS_JUDGED,
    tick: Callable[[], object] = lambda: None,
) -> JudgedRuns:
    """Run the demo against a service and return what was measured; `tick` is called once a record.

    Raises Unsupported when threadpoolctl is not installed: with several threads inside each kernel nothing would be measured.
    """
    try:
        from threadpoolctl import threadpool_limits  # noqa: PLC0415 - an extra, loaded where it is used
    except ImportError as error:
        raise Unsupported(
            "the demo needs threadpoolctl, which is not installed",
            field="threads",
            hint="pip install threadpoolctl",
        ) from error
    load = os.getloadavg()[0]
    every = min(CORES_MAX, usable_cores()) if cores is None else cores
    counts = candidates(every)
    rng = np.random.default_rng(seed)
    with threadpool_limits(limits=1), Workers(every) as workers:
        _warm_up(workers, every, rng)
        for number, side in enumerate(_sides(rng, learned)):
            _learn(client, record(side, rng), counts, number, workers)
            client.flush()  # the service folds on a core of this machine: not while the next record is measured
            tick()
        answers: list[tuple[float, Invocation]] = []
        for side in _sides(rng, judged):
            answers += _judge(client, record(side, rng), counts, workers, rng)
            client.flush()
            tick()
    asked = np.array([ask_s for ask_s, _ in answers])
    return JudgedRuns(every, learned * len(KERNELS), tuple(invocation for _, invocation in answers), asked, load)


def _sides(rng: np.random.Generator, records: int) -> list[int]:
    low, high = np.log(SIDES)
    return [round(side) for side in np.exp(rng.uniform(low, high, records))]


def _warm_up(workers: Workers, cores: int, rng: np.random.Generator) -> None:
    """Start the threads and load the library code, so that no measured run pays for it."""
    for count in (1, cores, cores):
        flow = record(SIDES[1] // 2, rng)
        for kernel in KERNELS.values():
            flow = kernel(flow, count, workers)


def _learn(client: SyncClient, flow: Floats, counts: Sequence[int], number: int, workers: Workers) -> None:
    for place, (name, kernel) in enumerate(KERNELS.items()):
        # Each component takes every candidate in turn, and no two components the same one at a time.
        cores = counts[(number + place) % len(counts)]
        start = perf_counter()
        result = kernel(flow, cores, workers)
        client.observe(name, predictor=len(flow), cores=cores, elapsed_s=perf_counter() - start)
        flow = result


def _judge(
    client: SyncClient, flow: Floats, counts: Sequence[int], workers: Workers, rng: np.random.Generator
) -> Iterator[tuple[float, Invocation]]:
    """Yield for each component of the pipeline the seconds that asking took, and the invocation judged."""
    for name, kernel in KERNELS.items():
        side = len(flow)
        start = perf_counter()
        advised = client.choose_cores(name, predictor=side, cores_max=max(counts), tolerance=TOLERANCE).cores
        ask_s = perf_counter() - start
        times: dict[int, list[float]] = {cores: [] for cores in (*counts, advised)}
        result = flow
        for _ in range(REPEATS):
            for cores in rng.permutation(list(times)).tolist():
                start = perf_counter()
                result = kernel(flow, cores, workers)
                times[cores].append(perf_counter() - start)
        client.observe(name, predictor=side, cores=advised, elapsed_s=times[advised][0])
        yield ask_s, Invocation(name, side, advised, {cores: float(np.median(runs)) for cores, runs in times.items()})
        flow = result
