"""The best grouping for figures that no program over subsets knows: all of them where they are few, else by descent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from math import comb

import numpy as np

from advisor.planning.asked.demand import TIE, Ints
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.closed_forms.turns import Grouping, grouping
from advisor.planning.in_turns.asking import Asked
from advisor.planning.in_turns.figures import Figures, figures_of
from advisor.planning.in_turns.rooms import placeable

EVERY_MAX = 2_000  # groupings that are all judged: half a second
JUDGED_MAX, JUDGED_LEAST = 10_000, 300  # groupings times components judged by default in a descent: some half a second
MEMBERS_MAX = 60  # components up to which each is tried in each group

Value = Callable[[Figures, int], float]  # of a grouping's figures and the cores that it takes: what is minimised


class Descent:
    """Groupings of a question by a figure."""

    def __init__(self, asked: Asked, value: Value, cores: int | None = None) -> None:
        self.asked, self.value = asked, value
        self.cores = asked.cores if cores is None else cores
        self.steps = 0
        self.work_max = asked.request.work_max or max(JUDGED_LEAST, JUDGED_MAX // len(asked.demand))
        self.best: Grouping | None = None
        self.best_key = (np.inf, np.inf, np.inf)
        self.every = False

    def run(self, starts: Iterable[Grouping]) -> Grouping | None:
        """Return the best grouping, or None where none has a finite figure; `every` says whether all were judged."""
        self.every = how_many(len(self.asked.demand), self.cores) <= min(EVERY_MAX, self.work_max)
        if self.every:
            for group, sizes in _all(len(self.asked.demand), self.cores):
                self._offer(group, sizes)
            return self.best
        for start in starts:
            if int(start.sizes.sum()) <= self.cores:
                self._offer(start.group, start.sizes)
        seen: set[bytes] = set()
        while self.best is not None and self.steps < self.work_max:
            before = self.best_key
            for group, sizes in self._near(self.best):
                mark = group.tobytes() + sizes.tobytes()
                if mark not in seen:
                    seen.add(mark)
                    self._offer(group, sizes)
                if self.steps >= self.work_max:
                    break
            if not _before(self.best_key, before):
                break
        return self.best

    def _offer(self, group: Ints, sizes: Ints) -> None:
        self.steps += 1
        found = grouping(self.asked.demand, group, sizes, exact=False)
        if not np.isfinite(found.turns_s).all():
            return
        figures, used = figures_of(self.asked, found), int(found.sizes.sum())
        value = self.value(figures, used)
        key = (value, float(used), figures.latency_s if np.isfinite(figures.latency_s) else figures.unloaded_s)
        if np.isfinite(value) and _before(key, self.best_key) and placeable(self.asked, found):
            self.best, self.best_key = found, key

    def _near(self, found: Grouping) -> Iterator[tuple[Ints, Ints]]:
        """Give the groupings next to one: cores moved, components moved, groups put together, cores left or taken."""
        group, sizes = found.group, found.sizes
        k, spare = len(sizes), self.cores - int(found.sizes.sum())
        for taker in range(k):
            for step in _steps(spare):
                yield group, _changed(sizes, {taker: step})
            for step in _steps(int(sizes[taker]) - 1):
                yield group, _changed(sizes, {taker: -step})
            for giver in range(k):
                if giver != taker:
                    for step in _steps(int(sizes[giver]) - 1):
                        yield group, _changed(sizes, {taker: step, giver: -step})
        for one, other in itertools.combinations(range(k), 2):
            yield (
                np.where(group == other, one, group),
                _changed(sizes, {one: int(sizes[other]), other: 1 - int(sizes[other])}),
            )
        if len(group) > MEMBERS_MAX:
            return
        for row in range(len(group)):
            for target in range(k + 1):
                yield from self._moved(group, sizes, row, target, spare)

    def _moved(self, group: Ints, sizes: Ints, row: int, target: int, spare: int) -> Iterator[tuple[Ints, Ints]]:
        if target == group[row]:
            return
        moved = group.copy()
        moved[row] = target
        if target < len(sizes):
            yield moved, sizes
            return
        if (group == group[row]).sum() < 2:
            return
        if spare:
            yield moved, np.append(sizes, spare)
        mine = int(sizes[group[row]])
        for step in _steps(mine - 1):
            yield moved, np.append(_changed(sizes, {int(group[row]): -step}), step)


def _before(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Return whether a key is better; differences below TIE are ties."""
    for a, b in zip(one, other, strict=True):
        if a == b or (np.isfinite(a) and np.isfinite(b) and abs(a - b) <= TIE * max(abs(a), abs(b))):
            continue
        return a < b
    return False


def _steps(most: int) -> list[int]:
    """Return numbers of cores to move: one, and halves of what there is."""
    return sorted({step for step in (1, most // 4, most // 2, most) if 1 <= step <= most})


def _changed(sizes: Ints, by: dict[int, int]) -> Ints:
    new = sizes.copy()
    for place, change in by.items():
        new[place] += change
    return new


def how_many(n: int, cores: int) -> float:
    """Return how many groupings there are: partitions into k groups (Stirling) times sizes that fit."""
    if n > 8:
        return np.inf
    ways = [1] + [0] * n
    for _ in range(n):
        ways = [0] + [k * ways[k] + ways[k - 1] for k in range(1, n + 1)]
    return float(sum(ways[k] * comb(cores, k) for k in range(1, min(n, cores) + 1)))


def every_grouping(demand: Shareable, cores: int) -> Iterator[Grouping]:
    """Give every grouping on at most so many cores."""
    for group, sizes in _all(len(demand), cores):
        yield grouping(demand, group, sizes, exact=False)


def _all(n: int, cores: int) -> Iterator[tuple[Ints, Ints]]:
    """Give every grouping of n components on at most so many cores."""
    for labels in _labels(n, cores):
        k = max(labels) + 1
        group = np.array(labels, np.int64)
        for cuts in itertools.combinations(range(1, cores + 1), k):
            yield group, np.diff(np.array((0, *cuts)))


def _labels(n: int, groups: int) -> Iterator[tuple[int, ...]]:
    """Give partitions as labels, each new one the next number."""

    def extend(labels: tuple[int, ...], used: int) -> Iterator[tuple[int, ...]]:
        if len(labels) == n:
            yield labels
            return
        for label in range(min(used + 1, groups)):
            yield from extend((*labels, label), max(used, label + 1))

    return extend((), 0)
