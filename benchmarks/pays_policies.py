"""Who chooses core counts in `pays`: fixed rules, models of others, the true curves, and Advisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from accuracy_peers import Ernest, LogForm, NearestCell
from accuracy_protocol import Table

from advisor import Advisor
from advisor.domain.allowed_cores import parse_allowed
from advisor.planning.job_pool import JobCurve, PoolJob, share_pool

TOLERANCE = 0.05
FIXED = tuple(2.0**-k for k in range(7))  # shares of the largest count
MODELS: Mapping[str, Callable[[], Any]] = {
    "log-quadratic": lambda: LogForm(quadratic=True), "nearest neighbour": NearestCell,
    "Ernest's features": lambda: Ernest(relative=True),
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """An input of a component: by count, the measured times, and their means."""

    component: str
    x: float
    times: Mapping[int, np.ndarray]
    means: Mapping[int, float]

    @property
    def counts(self) -> list[int]:
        return list(self.means)


def inputs_of(table: Table) -> dict[str, list[Input]]:
    """Return the inputs of each component that were measured on two counts or more."""
    found: dict[str, list[Input]] = {}
    for number, name in enumerate(table.names):
        rows = np.flatnonzero(table.component == number)
        for x in np.unique(table.x[rows]):
            at = rows[table.x[rows] == x]
            times = {int(p): table.t[at[table.p[at] == p]] for p in np.unique(table.p[at])}
            if len(times) > 1:
                means = {p: float(np.mean(each)) for p, each in times.items()}
                found.setdefault(str(name), []).append(Input(str(name), float(x), times, means))
    return found


class Policy(Protocol):
    """Chooses a count for one job, or for the jobs of a pool, and learns what ran."""

    def count(self, job: Input) -> int: ...

    def learn(self, job: Input, count: int, elapsed_s: float) -> None: ...

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]: ...


class Share:
    """The largest allowed count within a share of the largest, or in a pool within `cap(cores, waiting)`; first come first."""

    def __init__(self, share: float, cap: Callable[[int, int], float] | None = None) -> None:
        self.share, self.cap = share, cap

    def count(self, job: Input) -> int:
        return self._within(job, self.share * max(job.counts))

    def learn(self, job: Input, count: int, elapsed_s: float) -> None:
        """Learns nothing."""

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]:
        free, given = cores - sum(count for _, count in running), [0] * len(waiting)
        for i, job in enumerate(waiting):
            left = len(waiting) - sum(map(bool, given))
            count = self._within(job, self.cap(cores, left)) if self.cap else self.count(job)
            if count <= free:
                given[i], free = count, free - count
            elif self.cap is None:
                break
        return given

    def _within(self, job: Input, most: float) -> int:
        return max((p for p in job.counts if p <= most), default=min(job.counts))


class Modelled:
    """Times from a model of each component, or where there is none, the true means; the rules are ours."""

    def __init__(self, make: Callable[[], Any] | None) -> None:
        self.make, self.known = make, dict[str, Any]()

    def learn(self, job: Input, count: int, elapsed_s: float) -> None:
        if self.make is not None:
            self.known.setdefault(job.component, self.make()).learn(job.x, count, elapsed_s)

    def times(self, job: Input) -> dict[int, float] | None:
        """Return predicted seconds by count; None where nothing was learned."""
        if self.make is None:
            return dict(job.means)
        model = self.known.get(job.component)
        return None if model is None else {p: max(float(model.predict(job.x, p)), 1e-9) for p in job.counts}

    def count(self, job: Input) -> int:
        times = self.times(job)
        if times is None:
            return first_count(job.counts)
        return min(p for p, t in times.items() if t <= min(times.values()) * (1.0 + TOLERANCE))

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]:
        jobs = [PoolJob(lambda: JobCurve(*[np.zeros(0)] * 3), count, cores_now=count) for _, count in running]
        for job in waiting:
            times = self.times(job) or {p: p**-0.5 for p in job.counts if p <= first_count(job.counts)}
            curve = JobCurve(np.array(list(times)), np.array(list(times.values())), np.array(list(times.values())))
            jobs.append(PoolJob(lambda curve=curve: curve, min(times)))
        return [each.cores for each in share_pool(jobs, cores)][len(running) :]


class Asking:
    """Advisor itself; `options` go to `choose_cores`."""

    def __init__(self, **options: Any) -> None:
        self.advisor, self.options = Advisor(), options

    def learn(self, job: Input, count: int, elapsed_s: float) -> None:
        self.advisor.observe(job.component, predictor=job.x, cores=count, elapsed_s=elapsed_s)

    def count(self, job: Input) -> int:
        return self.advisor.choose_cores(job.component, predictor=job.x, allowed=job.counts, **self.options).cores

    def start(self, waiting: Sequence[Input], running: Sequence[tuple[Input, int]], cores: int) -> list[int]:
        jobs = [{"id": i, "component": job.component, "cores_now": count} for i, (job, count) in enumerate(running)]
        jobs += [
            {"id": len(running) + i, "component": job.component, "predictor": job.x, "allowed": job.counts}
            for i, job in enumerate(waiting)
        ]
        return [each.cores for each in self.advisor.choose_together(jobs, cores).jobs][len(running) :]


def first_count(counts: Sequence[int]) -> int:
    """Return where Advisor begins: the count nearest the least times (most / least)^(3/4)."""
    least, most = min(counts), max(counts)
    return parse_allowed("counts", list(counts)).nearest(least * (most / least) ** 0.75)


POLICIES: Mapping[str, Callable[[], Policy]] = {
    "always the largest": lambda: Share(1.0), "one core": lambda: Share(0.0),
    "P // waiting": lambda: Share(1.0, lambda cores, waiting: cores // waiting),
    **{name: (lambda make=make: Modelled(make)) for name, make in MODELS.items()},
    "Advisor": Asking, "true curves": lambda: Modelled(None),
}  # fmt: skip
BY_CORE_SECONDS = "Advisor, core-seconds"
ALONE: Mapping[str, Callable[[], Policy]] = {  # asked for one job at a time only
    "Advisor, trying": lambda: Asking(explore=True), BY_CORE_SECONDS: lambda: Asking(objective="core_seconds"),
}  # fmt: skip
