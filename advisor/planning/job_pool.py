"""Cores of one pool for jobs that wait and run: a price for jobs that keep their count, shares for jobs that can change it.

A job on p of P cores takes T(p) and delays each job behind it by p T(p) / P, so with w jobs behind it its price is
T(p) (1 + w p / P). For T ~ p^-k the cheapest count is k P / ((1 - k) w). Jobs that can be resized share what is left so that
total flow time falls fastest; for T ~ p^-k with all jobs present these are heSRPT's shares (Berg, Vesilo, Harchol-Balter 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from advisor.domain.elementary import exp2, log2
from advisor.domain.vectors import Floats, Ints
from advisor.domain.wording import seconds as said_seconds

# RUNNING_BEHIND: as many jobs come while a job runs as run now (Little's law), and each waits for half of the run on average
RUNNING_BEHIND = 0.5
# FEWER_NOW: a job takes fewer cores that are free now at up to so many times its least price: to wait costs about as much
FEWER_NOW = 1.5
# TOLERANCE: of a price, where no other job waits, and of a time that is too late in any case: the fewest cores so near the
# best, as `choose_cores` has it. A resizable job that twice the cores speed up by less leaves them to nobody
TOLERANCE = 0.05
LEAST_GAIN = log2(1.0 + TOLERANCE)  # log2 of the speed-up, for each doubling
ORDERS = ("given", "work")
# SHARES_SOUGHT: of the pool, at which the value of a job is sought: 9 % apart, down to a millionth
SHARES_SOUGHT = tuple(2.0 ** (-step / 8) for step in range(8 * 20))


class JobCurve(NamedTuple):
    """Run times of a job on the counts that it may use."""

    counts: Ints  # (n,) ascending
    expected_s: Floats  # (n,)
    high_s: Floats  # (n,) upper ends of intervals: what a due time is held against


@dataclass(frozen=True, slots=True)
class PoolJob:
    """A job that waits or runs.

    Attributes
    ----------
    curve : callable
        Its run times; called only where the job may start or change. The counts of a running job hold `cores_now`.
    least : int
        Its fewest allowed cores.
    cores_now : int
        Cores that it uses, 0 while it waits.
    weight : float
        How much a second of its response time counts.
    due_s : float or None
        Seconds from now by which it should end.
    resizable : bool
        It can change its count while it runs, at the cost of `restart_s` seconds without progress.
    done : float
        Share of its work that is done.
    waited_s : float
        Seconds that it has waited.
    """

    curve: Callable[[], JobCurve]
    least: int
    cores_now: int = 0
    weight: float = 1.0
    due_s: float | None = None
    resizable: bool = False
    restart_s: float = 0.0
    done: float = 0.0
    waited_s: float = 0.0


class Given(NamedTuple):
    """Cores of a job, 0 to wait; seconds to its end from now as expected; and the reason."""

    cores: int
    seconds: float | None
    why: str


def share_pool(
    jobs: Sequence[PoolJob], cores: int, order: str = "given", wait_max_s: float | None = None
) -> list[Given]:
    """Return the cores of each job, in the order of `jobs`.

    A running job that is not resizable keeps its cores. Then the waiting jobs are gone through in their order. One that is
    not resizable starts on its cheapest count, or on fewer cores that are free at up to `FEWER_NOW` times that price. A job
    that does not start leaves the cores to those behind it, until it has waited for `wait_max_s`. Resizable jobs share the
    rest; what they leave goes to waiting jobs again.
    Cost O(jobs log jobs + counts of those that may start), and O(resizable jobs * (their counts + 160)).

    Parameters
    ----------
    order : str
        ``given``, or ``work``: the least expected core-seconds by weight first, behind the jobs that waited for `wait_max_s`.
    """
    pool = _Pool(jobs, cores)
    late = [wait_max_s is not None and job.waited_s >= wait_max_s and job.least <= cores for job in jobs]
    queue = [i for i, job in enumerate(jobs) if not job.cores_now]
    if order == "work":
        queue.sort(key=lambda i: (not late[i], 0.0 if late[i] else _work(jobs[i])))
    elif wait_max_s is not None:
        queue.sort(key=lambda i: not late[i])
    held = ""
    for i in queue:
        if held:
            pool.given[i] = Given(0, None, held)
        elif jobs[i].resizable:
            pool.reserve(i)
        elif not pool.start(i) and late[i]:
            held = f"waits: the cores are kept for a job that has waited for {said_seconds(jobs[i].waited_s)}"
    pool.divide(grow=not held)
    rest = [i for i in queue if not pool.given[i].cores]
    if not any(late[i] for i in rest):
        pool.free = cores - sum(given.cores for given in pool.given)
        for i in rest:
            if not jobs[i].resizable:
                pool.start(i)
    return pool.given


class _Pool:
    """The cores of a pool while they are given away."""

    def __init__(self, jobs: Sequence[PoolJob], cores: int) -> None:
        self.jobs, self.cores, self.free = jobs, cores, cores
        self.given = [Given(0, None, "") for _ in jobs]
        self.shared = [i for i, job in enumerate(jobs) if job.cores_now and job.resizable]
        self.entitled = sum(jobs[i].cores_now for i in self.shared)  # cores that resizable jobs keep when none may grow
        self.waiting = sum(not job.cores_now for job in jobs)
        self.behind = 0.0  # weight of the jobs that a core-second delays
        for i, job in enumerate(jobs):
            if not job.cores_now or job.resizable:
                self.behind += job.weight
                self.free -= _floor(job)
            else:
                self.behind += job.weight * RUNNING_BEHIND
                self.free -= job.cores_now
                self.given[i] = Given(job.cores_now, None, f"runs on {_cores(job.cores_now)} and cannot be resized")

    def start(self, i: int) -> bool:
        """Give a waiting job its cheapest count, or fewer that are free; return False where it waits."""
        job = self.jobs[i]
        if job.least > self.free:
            self.given[i] = Given(0, None, self._no_room(job.least))
            return False
        curve = job.curve()
        others = max(self.behind - job.weight, 0.0) / job.weight
        price, hurry = _in_time(curve, curve.expected_s * (1.0 + others * curve.counts / self.cores), job.due_s)
        tolerance = 0.0 if self.waiting > 1 else TOLERANCE
        best = chosen = int((price <= price.min() * (1.0 + tolerance)).argmax())
        if curve.counts[best] > self.free:
            fits = int(curve.counts.searchsorted(self.free, side="right"))
            if not fits:
                self.given[i] = Given(0, None, self._no_room(int(curve.counts[0])))
                return False
            chosen = int(price[:fits].argmin())
            if not price[chosen] <= FEWER_NOW * price.min():
                why = f"waits: {_cores(int(curve.counts[best]))} serve it best, {self.free} are free"
                self.given[i] = Given(0, None, why)
                return False
        count, seconds = int(curve.counts[chosen]), float(curve.expected_s[chosen])
        why = (
            f"{_cores(count)} for {said_seconds(seconds)}{hurry}, the cheapest with a weight of {others:.3g} behind it"
        )
        if chosen != best:
            why += f"; {int(curve.counts[best])} would serve it best, but fewer are free"
        self.given[i] = Given(count, seconds, why)
        self.free -= count
        self.waiting -= 1
        self.behind -= job.weight * (1.0 - RUNNING_BEHIND)
        return True

    def reserve(self, i: int) -> None:
        """Keep the fewest cores of a resizable job that waits, so that jobs behind it do not starve it."""
        if self.jobs[i].least > self.cores:
            self.given[i] = Given(0, None, self._no_room(self.jobs[i].least))
            return
        least = min(self.jobs[i].least, self.free)
        self.free -= least
        self.entitled += least
        self.shared.append(i)

    def divide(self, *, grow: bool) -> None:
        """Give resizable jobs their shares of all cores that no other job has; without `grow`, of those that they have."""
        if not self.shared:
            return
        rigid = sum(given.cores for given in self.given)
        jobs = [self.jobs[i] for i in self.shared]
        cores = self.cores - rigid if grow else min(self.cores - rigid, self.entitled)
        found = resized(jobs, cores) if cores else [(0, None)] * len(jobs)
        for i, job, (count, seconds) in zip(self.shared, jobs, found, strict=True):
            if not count:
                self.given[i] = Given(0, None, "waits: the cores shorten the total time more in other jobs")
                continue
            kept = " as now" if count == job.cores_now else f", {job.cores_now} now" if job.cores_now else ""
            why = f"{_cores(count)}{kept}: a further core shortens the total time more in other jobs"
            self.given[i] = Given(count, seconds, why)

    def _no_room(self, least: int) -> str:
        if least > self.cores:
            return f"waits: it needs {_cores(least)} or more, the pool has {self.cores}"
        return f"waits: it needs {_cores(least)} or more, {self.free} {'is' if self.free == 1 else 'are'} free"


def _in_time(curve: JobCurve, price: Floats, due_s: float | None) -> tuple[Floats, str]:
    """Return the prices (n,) of the counts that meet a due time, infinite for others; if none does, the run times (n,).

    Run times within the tolerance of the least are made equal: a job that is late in any case takes no cores for nothing.
    """
    if due_s is None:
        return price, ""
    for seconds, words in ((curve.high_s, ""), (curve.expected_s, " as expected, with no margin")):
        meets = seconds <= due_s
        if meets.any():
            return np.where(meets, price, np.inf), f", due in {said_seconds(due_s)}{words}"
    soon = curve.expected_s.min() * (1.0 + TOLERANCE)
    return np.maximum(curve.expected_s, soon), f", too late: due in {said_seconds(due_s)}"


def _work(job: PoolJob) -> float:
    curve = job.curve()
    return float((curve.counts * curve.expected_s).min()) / job.weight


def _cores(n: int) -> str:
    return f"{n} core{'' if n == 1 else 's'}"


# -- resizable jobs -----------------------------------------------------------------------------------------------------------


def resized(jobs: Sequence[PoolJob], cores: int) -> list[tuple[int, float | None]]:
    """Return the cores of each resizable job, 0 to wait, and the seconds to its end.

    A job on p cores progresses at the rate 1 / (r + (1 - d) T(p)) with its share d done, r the restart where p is not what it
    has. With v_i the total weighted flow time that the whole of job i's rest costs, cores go where v_i times the gain of rate
    is the largest. The values are those of a pool with no arrivals in which the smallest job ends first: with jobs 1 to i, the
    largest first, flow grows by w_1 + .. + w_i a second and falls by the best sum of v_j rate_j, which must be equal:
    v_i = min over q of (w_1 + .. + w_i - best(1 .. i - 1 on P - q cores)) / rate_i(q).
    """
    shapes = dict[tuple[int, float, int, float], _Shape]()  # jobs of one kind have one
    of = list[_Shape]()
    curves = [job.curve() for job in jobs]
    for job, curve in zip(jobs, curves, strict=True):
        key = id(curve), job.done, job.cores_now, job.restart_s
        if key not in shapes:
            shapes[key] = _shape_of(curve, job)
        of.append(shapes[key])
    largest = sorted(range(len(jobs)), key=lambda i: -of[i].work_s / jobs[i].weight)
    found = job_values([of[i].hull for i in largest], [jobs[i].weight for i in largest], cores)
    values = dict(zip(largest, found, strict=True))
    chosen = _fill(jobs, of, values, cores)
    return [
        (count, float(1.0 / rates[counts.searchsorted(count)]) if count else None)
        for count, (counts, rates, _, _) in zip(chosen, of, strict=True)
    ]


def _floor(job: PoolJob) -> int:
    """Return the fewest cores that a job is left with: a running one is never stopped."""
    return int(job.curve().counts[0]) if job.cores_now else 0


class _Shape(NamedTuple):
    """How fast the rest of a job goes."""

    counts: Ints  # (n,)
    rates: Floats  # (n,) of the rest a second
    hull: tuple[Floats, Floats]
    work_s: float  # the least core-seconds of the rest


def _shape_of(curve: JobCurve, job: PoolJob) -> _Shape:
    left = curve.expected_s * (1.0 - job.done)
    if job.cores_now:
        left = left + np.where(curve.counts == job.cores_now, 0.0, job.restart_s)
    doublings = log2(curve.counts[left.argmin()] / curve.counts)
    enough = int((left <= left.min() * exp2(LEAST_GAIN * doublings)).argmax()) + 1
    counts, rates = curve.counts[:enough], 1.0 / left[:enough]
    return _Shape(counts, rates, hull(counts, rates), float((counts / rates).min()))


def hull(counts: Ints, rates: Floats, floor: int = 0) -> tuple[Floats, Floats]:
    """Return the vertices (m,) of the least concave curve above rates (n,) on counts (n,), from `floor` to the fastest.

    The first vertex is (0, 0), or where `floor` is not 0, the least count from it on.
    """
    first = int(counts.searchsorted(floor)) if floor else 0
    corners = [(float(counts[first]), float(rates[first]))] if floor else [(0.0, 0.0)]
    for count, rate in zip(counts[first:].tolist(), rates[first:].tolist(), strict=True):
        if rate <= corners[-1][1]:
            continue
        while len(corners) > 1:
            (c0, r0), (c1, r1) = corners[-2:]
            if (r1 - r0) * (count - c0) > (rate - r0) * (c1 - c0):
                break
            corners.pop()
        corners.append((float(count), rate))
    found = np.array(corners)
    return found[:, 0], found[:, 1]


def job_values(hulls: Sequence[tuple[Floats, Floats]], weights: Sequence[float], cores: int) -> list[float]:
    """Return what the whole of each job costs in total flow time, the largest job first: see `resized`.

    `hulls`: counts (m,) and rates (m,) of each, concave from (0, 0) on. Cost O(jobs * (corners of all + 160)).
    """
    grid = cores * np.array(SHARES_SOUGHT)
    slopes, widths, total, found = np.empty(0), np.empty(0), 0.0, list[float]()
    for (counts, rates), weight in zip(hulls, weights, strict=True):
        total += weight
        own = counts[1:][counts[1:] <= cores]
        share = np.concatenate([own, grid])
        at = np.concatenate([[0.0], np.cumsum(widths)])
        best = np.concatenate([[0.0], np.cumsum(slopes * widths)])
        value = float(((total - np.interp(cores - share, at, best)) / np.interp(share, counts, rates)).min())
        found.append(value)
        width = np.diff(counts)
        slope = value * np.diff(rates) / width
        place = np.searchsorted(-slopes, -slope, side="right")
        slopes, widths = np.insert(slopes, place, slope), np.insert(widths, place, width)
        used = int(np.cumsum(widths).searchsorted(cores)) + 1  # what is behind them fits into no pool
        slopes, widths = slopes[:used], widths[:used]
    return found


def _fill(jobs: Sequence[PoolJob], shapes: Sequence[_Shape], values: Mapping[int, float], cores: int) -> list[int]:
    """Return the count of each job: from its floor up by the steps of its hull, that of the largest gain a core first."""
    chosen = [_floor(job) for job in jobs]
    left = cores - sum(chosen)
    for i, job in enumerate(jobs):
        if job.due_s is not None:
            counts, rates, *_ = shapes[i]
            meets = np.flatnonzero(rates * job.due_s >= 1.0)
            soon = rates * (1.0 + TOLERANCE) >= rates.max()
            wanted = int(counts[meets[0]]) if len(meets) else int(counts[soon.argmax()])
            if chosen[i] < wanted <= chosen[i] + left:
                left -= wanted - chosen[i]
                chosen[i] = wanted
    steps = list[tuple[float, int, int, int]]()
    for i, (counts, rates, whole, _) in enumerate(shapes):
        at, rate = hull(counts, rates, chosen[i]) if chosen[i] else whole
        gains = (values[i] * np.diff(rate) / np.diff(at)).tolist()
        steps += [(-gain, i, int(a), int(b)) for gain, a, b in zip(gains, at[:-1], at[1:], strict=True)]
    for _, i, before, after in sorted(steps):
        if chosen[i] == before and after - before <= left:
            left -= after - before
            chosen[i] = after
    if left:
        for i in sorted(range(len(jobs)), key=lambda i: -values[i]):
            counts, rates, *_ = shapes[i]
            able = rates[: int(counts.searchsorted(chosen[i] + left, side="right"))]
            now = rates[counts.searchsorted(chosen[i])] if chosen[i] else 0.0
            if len(able) and able.max() > now:
                count = int(counts[able.argmax()])
                left -= count - chosen[i]
                chosen[i] = count
    return chosen
