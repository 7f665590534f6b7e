"""Mean response of jobs in an `AdvisedPool`, over that of a pool where each gets at most `P // waiting` cores, or the most.

    python benchmarks/job_pool.py FOLDER [--tables NAME …] [--load .7] [--streams 2] [--seconds 30] [--seed 1] [--cold]

Jobs of measured tables (see `pays`) arrive at random on a pool of twice the largest count. They are submitted to the real
executor, and sleep for a measured time of the count that they were given, scaled so that a stream lasts `--seconds`: no core
is needed for them, so that any number can be shown on any machine. All arms run the same stream, one after the other.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_protocol import read_table
from pays import COMPONENTS, Stream, inputs_of, stream_of, taught
from pays_policies import Input

from advisor.adapters.threads import Advised, AdvisedPool, Job

WORKERS = 256  # threads that sleep: more jobs never run at once here


class Rule:
    """Gives each waiting job, in its turn, the largest count that it may use within a cap."""

    def __init__(self, cap: Callable[[int, int], float]) -> None:
        self.cap = cap

    def choose_together(self, jobs: Sequence[Mapping[str, Any]], cores: int) -> dict[Any, int]:
        """Return the cores of the jobs that wait, while there are free ones."""
        free = cores - sum(job["cores_now"] or 0 for job in jobs)
        waiting = [job for job in jobs if not job["cores_now"]]
        found: dict[Any, int] = {}
        for job in waiting:
            cap = self.cap(cores, len(waiting) - len(found))
            count = max((p for p in job["allowed"] if p <= cap), default=min(job["allowed"]))
            if count > free:
                if cap >= cores:
                    break  # the most: first come, first served
                continue
            found[job["id"]], free = count, free - count
        return found

    def learn_run(self, *_: Any, **__: Any) -> None:
        """Learn nothing."""


class Teacher:
    """Lets `pays.taught` teach an `Advised`, in scaled seconds."""

    def __init__(self, advised: Advised, scale: float) -> None:
        self.advised, self.scale = advised, scale

    def learn(self, job: Input, count: int, elapsed_s: float) -> None:
        """Learn a run."""
        self.advised.learn_run(job.component, job.x, count, elapsed_s * self.scale, 0.0, ok=True)


def mean_response(adviser: Any, stream: Stream, scale: float) -> float:
    """Return the mean response time of a stream's jobs in a real pool, in scaled seconds; all jobs must have run."""
    ends: list[float] = []

    def sleep(times: Mapping[int, float], due: float, cores: int) -> None:
        time.sleep(times[cores] * scale)
        ends.append(time.perf_counter() - due)

    begun = time.perf_counter()
    with AdvisedPool(adviser, stream.cores, ThreadPoolExecutor(min(stream.cores, WORKERS))) as pool:
        for arrival, job, times in stream.jobs:
            due = begun + arrival * scale
            time.sleep(max(0.0, due - time.perf_counter()))
            kind = Job(job.component, predictor=job.x, allowed=job.counts, cores_as="cores")
            pool.submit_job(kind, sleep, times, due)
    assert len(ends) == len(stream.jobs)
    return statistics.fmean(ends)


def main() -> None:
    """Print the ratios of each table, and their geometric means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="*", default=["adaptdl", "c3o", "gavel", "manticore16"])
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="begin without rows")
    given = parser.parse_args()
    logs: list[tuple[float, float]] = []
    for name in given.tables:
        table = read_table(given.folder / f"{name}.csv")
        if isinstance(table, str):
            raise SystemExit(table)
        inputs = inputs_of(table)
        order = [sorted(inputs)[i] for i in np.random.default_rng(given.seed).permutation(len(inputs))]
        for number in range(given.streams):
            names = [order[(number * COMPONENTS + i) % len(order)] for i in range(min(COMPONENTS, len(order)))]
            stream = stream_of(inputs, names, given.load, given.seed + number)
            scale = given.seconds / stream.jobs[-1][0]
            with tempfile.TemporaryDirectory() as folder:
                advised = Advised(path=Path(folder) / "t.state", load=lambda: 0.0)
                rng = np.random.default_rng(given.seed)
                for own in () if given.cold else stream.rows.values():
                    taught(Teacher(advised, scale), own, rng)  # type: ignore[arg-type]
                ours = mean_response(advised, stream, scale)
                advised.flush()
            cap = mean_response(Rule(lambda cores, waiting: cores // waiting), stream, scale)
            most = mean_response(Rule(lambda cores, _: cores), stream, scale)
            logs.append((math.log(ours / cap), math.log(ours / most)))
            print(
                f"{name}, stream {number + 1}, {stream.cores} cores: {ours:.3g} s advised, {cap:.3g} s by P // waiting,"
                f" {most:.3g} s with the most: {ours / cap:.2f}, {ours / most:.2f}",
                flush=True,
            )
    means = [math.exp(statistics.fmean(each)) for each in zip(*logs, strict=True)]
    print(f"geometric means: {means[0]:.2f} x P // waiting, {means[1]:.2f} x the most")


if __name__ == "__main__":
    main()
