"""The search for the best allocation: all of them where they are few, else bounds, programs and exchanges.

Three ways, one answer (`Found`): enumeration is exact for whatever the model says; without coupling between components
thresholds (throughput) and the program over the structure (latency) are exact at any size; with coupling (contention,
queues that shape streams, maxima of varying times, nodes) these solve a relaxation with the coupling held still, again
and again, exchanges improve the result under the whole model, and a bound says how far from the best it can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.options import NOTHING, Options
from advisor.planning.queues.model import Judged, Model
from advisor.planning.solving.linear import best_moves, weights_of
from advisor.planning.solving.objectives import about_latency, score
from advisor.planning.solving.placing import Machine, place

ENUMERATED_MAX = 60_000  # allocations that are all judged: some 100 ms
CHUNK = 8_192  # allocations judged at once: a few MB
COUNTED_MAX = 2e7  # steps of counting allocations: beyond, there are too many anyway
MANY = 1e12  # allocations from which on they are not counted further
KEPT = 64  # best allocations of an enumeration that are kept as runners-up


@dataclass(slots=True)
class Problem:
    """A search's givens, its counted steps and what it has found."""

    model: Model
    options: Options
    machine: Machine
    cores: int
    work_max: int
    steps: int = 0
    best: Ints | None = None
    best_key: tuple[float, float, float] = (np.inf, np.inf, np.inf)
    seen: dict[bytes, tuple[float, float, float]] = field(default_factory=dict[bytes, tuple[float, float, float]])

    def used(self, chosen: Ints) -> Ints:
        """Return the cores that allocations take, (K,)."""
        return self.options.weight[np.arange(len(self.options.number)), chosen].sum(axis=-1)

    @property
    def out_of_work(self) -> bool:
        """True when the steps allowed are taken."""
        return self.steps >= self.work_max

    def judge(self, chosen: Ints) -> tuple[Judged, Floats, Ints]:
        """Judge allocations, (K, n): figures, score, cores."""
        self.steps += len(chosen)
        judged = self.model.judge(self.options, chosen)
        used = self.used(chosen)
        return judged, score(self.model, judged, used), used

    def placeable(self, chosen: Ints) -> bool:
        """Return whether the instances of an allocation can be put on the machine's nodes."""
        cores, instances, _, _ = self.options.pick(chosen[None])
        return place(self.machine, cores[0], instances[0], self.model.curves.peak_bytes) is not None

    def offer(self, chosen: Ints) -> bool:
        """Judge allocations and keep the best that can be placed; return whether it is better than before."""
        if not len(chosen):
            return False
        judged, values, used = self.judge(chosen)
        latency = judged.latency_s if about_latency(self.model.request) else judged.unloaded_s
        better = False
        for place_ in ranking(values, used, latency, chosen):
            if not np.isfinite(values[place_]):
                break
            key = (float(values[place_]), float(used[place_]), float(latency[place_]))
            self.seen[chosen[place_].tobytes()] = key
            ahead = comes_before(key, self.best_key)
            if not ahead and (self.best is not None or len(self.seen) > KEPT):
                break
            if ahead and self.placeable(chosen[place_]):
                self.best, self.best_key, better = chosen[place_].copy(), key, True
                break
        return better


def comes_before(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Return whether a key is better: figures, with differences below TIE as ties."""
    for a, b in zip(one, other, strict=True):
        if a == b or (isfinite(a) and isfinite(b) and abs(a - b) <= TIE * max(abs(a), abs(b))):
            continue
        return a < b
    return False


def ranking(values: Floats, used: Ints, latency: Floats, chosen: Ints) -> Iterator[int]:
    """Give allocations from the best on: score, then fewest cores, then lower latency, then text order.

    The first ones are ranked with ties; only after KEPT of them by the figures alone.
    """
    order = np.argsort(values, kind="stable")
    start = 0
    while start < len(order):
        edge = values[order[start]]
        stop = start + 1
        if np.isfinite(edge):
            stop = start + int(np.searchsorted(values[order[start:]], edge + TIE * abs(edge), side="right"))
        tied = order[start:stop]
        yield from (_untied(tied, used, latency, chosen) if len(tied) > 1 else tied).tolist()
        start = stop


def _untied(tied: Ints, used: Ints, latency: Floats, chosen: Ints) -> Ints:
    """Return equal scores by cores, latency and text order; latencies equal but for rounding leave it to the last."""
    least = float(latency[tied].min())
    rounded = np.zeros(len(tied))
    if np.isfinite(least) and least > 0:
        rounded = np.round(latency[tied] / least / TIE / 4)
    texts = [-chosen[tied][:, row] for row in range(chosen.shape[1] - 1, -1, -1)]
    return tied[np.lexsort((*texts, rounded, used[tied]))]


def combinations(options: Options, cores: int) -> float:
    """Return how many allocations there are on at most `cores` cores. Cost O(shapes P)."""
    if cores * float(options.number.sum()) > COUNTED_MAX:
        return float("inf")
    ways = np.zeros(cores + 1)
    ways[0] = 1.0
    for row, number in enumerate(options.number.tolist()):
        new = np.zeros(cores + 1)
        for weight in options.weight[row, :number].tolist():
            if weight <= cores:
                new[weight:] += ways[: cores + 1 - weight]
        ways = new
        if ways.sum() > MANY:
            return float("inf")
    return float(ways.sum())


def enumerated(options: Options, cores: int) -> Ints:
    """Return all allocations on at most `cores` cores, (K, n) of shapes. Cost O(K n)."""
    rest = int(options.least.sum())
    chosen, used = np.zeros((1, 0), np.int64), np.zeros(1, np.int64)
    for row, number in enumerate(options.number.tolist()):
        rest -= int(options.least[row])
        weight = options.weight[row, :number]
        total = used[:, None] + weight[None, :]
        some, shape = np.nonzero(total + rest <= cores)
        chosen = np.concatenate([chosen[some], shape[:, None]], axis=1)
        used = total[some, shape]
    return chosen


def search_all(problem: Problem) -> None:
    """Judge every allocation. Cost O(K nodes)."""
    every = enumerated(problem.options, problem.cores)
    keep: list[tuple[Floats, Ints, Floats, Ints]] = []
    for start in range(0, len(every), CHUNK):
        chosen = every[start : start + CHUNK]
        judged, values, used = problem.judge(chosen)
        latency = judged.latency_s if about_latency(problem.model.request) else judged.unloaded_s
        keep.append((values, used, latency, chosen))
    values, latency = np.concatenate([part[0] for part in keep]), np.concatenate([part[2] for part in keep])
    used = np.concatenate([part[1] for part in keep])
    for place_ in ranking(values, used, latency, every):
        if not np.isfinite(values[place_]):
            break
        key = (float(values[place_]), float(used[place_]), float(latency[place_]))
        if problem.best is None:
            if problem.placeable(every[place_]):
                problem.best, problem.best_key = every[place_].copy(), key
                problem.seen[every[place_].tobytes()] = key
        elif len(problem.seen) < KEPT:
            problem.seen[every[place_].tobytes()] = key
        else:
            break


def best_threshold(options: Options, periods: Floats, cores: int) -> tuple[float, Ints] | None:
    """Return the shortest period on at most `cores` cores, and the fewest cores that reach it, as shapes.

    `periods` is (n, shapes). None where no finite period is reached. Cost O(n shapes log).
    """
    falling = np.minimum.accumulate(np.where(options.weight < NOTHING, periods, np.inf), axis=1)
    values = np.unique(falling[np.isfinite(falling)])
    if not len(values):
        return None
    low, high = -1, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        shapes = within(options, falling, values[middle])
        if shapes is not None and _weight(options, shapes) <= cores:
            high = middle
        else:
            low = middle
    if high == len(values):
        return None
    shapes = within(options, falling, values[high] * (1 + TIE))
    assert shapes is not None  # it was found above
    return float(values[high]), shapes


def within(options: Options, falling: Floats, period_s: float) -> Ints | None:
    """Return each component's first shape within the period, or None where one has none."""
    fits = falling <= period_s
    shapes = fits.argmax(axis=1)
    return shapes if fits[np.arange(len(shapes)), shapes].all() else None


def _weight(options: Options, shapes: Ints) -> int:
    return int(options.weight[np.arange(len(shapes)), shapes].sum())


def exchanges(options: Options, chosen: Ints, cores: int, *, pairs: bool) -> Ints:
    """Return the allocations next to one: a component's shape a step wider or narrower, and such steps of two.

    With `pairs` one component gives and another takes; (K, n), K up to O(n^2).
    """
    n = len(chosen)
    up, down = _neighbours(options, chosen, wider=True), _neighbours(options, chosen, wider=False)
    found: list[Ints] = []
    for row, shape in [*up, *down]:
        one = chosen.copy()
        one[row] = shape
        found.append(one)
    if pairs:
        for taker, wide in up:
            for giver, narrow in down:
                if taker != giver:
                    one = chosen.copy()
                    one[taker], one[giver] = wide, narrow
                    found.append(one)
    if not found:
        return np.zeros((0, n), np.int64)
    every = np.stack(found)
    total = options.weight[np.arange(n), every].sum(axis=1)
    return every[total <= cores]


def _neighbours(options: Options, chosen: Ints, *, wider: bool) -> list[tuple[int, int]]:
    """Return (row, shape) of the next shapes by weight: those of the next weight, at most a few."""
    found: list[tuple[int, int]] = []
    for row, shape in enumerate(chosen.tolist()):
        number, weight = int(options.number[row]), options.weight[row]
        here = int(weight[shape])
        if wider:
            after = int(np.searchsorted(weight[:number], here, side="right"))
            found += [(row, one) for one in range(after, min(after + 2, number))]
        else:
            before = int(np.searchsorted(weight[:number], here, side="left"))
            found += [(row, one) for one in range(max(before - 2, 0), before)]
        same = np.flatnonzero(weight[:number] == here)
        found += [(row, one) for one in same[:4].tolist() if one != shape] if wider else []
    return found


def climb(problem: Problem) -> None:
    """Improve the best by exchanges until none helps or the work is done: those first that promise most."""
    model, options = problem.model, problem.options
    while problem.best is not None and not problem.out_of_work:
        chosen = problem.best[None]
        judged = model.judge(options, chosen)
        cores, instances, _, _ = options.pick(chosen)
        others, streams = model.coupling(judged, cores)
        periods, stays = model.stays(options, others[0], streams.first())
        if about_latency(model.request) or model.request.objective == "cost":
            weights = weights_of(model, judged, instances)[:, None]
            values, takers = (
                np.where(np.isfinite(stays), weights * np.where(np.isfinite(stays), stays, 0.0), np.inf),
                None,
            )
        else:
            values, takers = (
                periods,
                np.flatnonzero(judged.utilization[0] >= judged.utilization[0].max() * (1 - NEARLY)),
            )
        if not problem.offer(best_moves(options, values, problem.best, problem.cores, takers)):
            return


NEARLY = 1e-3  # components whose utilization is this near the highest are all tried as takers
