"""System models bound to a graph: how D_i is found where tasks are alike, of several kinds, or all different."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import InvalidValue

Floats = NDArray[np.float64]
MEMO_MAX = 65_536  # solved states that one analysis keeps, at about 200 bytes
Number = float | str  # a number for all tasks, or the name of the graph's column that has one a task


class BoundSystem(Protocol):
    """A system model bound to a graph; where all tasks are alike it is `Common`, which has a faster loop."""

    def overheads(self, running: Sequence[int], remaining: Sequence[float]) -> Sequence[float]:
        """Return D_i of each running task, for its remaining demand in ticks."""
        ...


@dataclass(slots=True)
class Common:
    """All tasks alike: one ratio for each number of running tasks, each found once."""

    solve: Callable[[int], float]
    _found: dict[int, float] = field(default_factory=dict[int, float])

    def ratio(self, running: int) -> float:
        """Return D_i / r_i."""
        if running not in self._found:
            self._found[running] = self.solve(running)
        return self._found[running]

    def overheads(self, running: Sequence[int], remaining: Sequence[float]) -> Sequence[float]:
        """Return D_i."""
        ratio = self.ratio(len(running))
        return [left * ratio for left in remaining]


@dataclass(slots=True)
class Classes:
    """Tasks of several classes: `solve` gives each class's ratio for the classes that run; memoised on their counts."""

    of: list[int]
    solve: Callable[[list[int]], dict[int, float]]
    _found: dict[Hashable, dict[int, float]] = field(default_factory=dict[Hashable, dict[int, float]])

    def overheads(self, running: Sequence[int], remaining: Sequence[float]) -> Sequence[float]:
        """Return D_i."""
        of = self.of
        present = sorted([of[task] for task in running])
        key = tuple(present)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MEMO_MAX:
                self._found.clear()
            found = self._found[key] = self.solve(present)
        return [left * found[of[task]] for task, left in zip(running, remaining, strict=True)]


@dataclass(slots=True)
class Averaged:
    """Tasks that all differ: the network is solved for their averages (3.3), each pays for its own rate of requests."""

    rate: list[float]
    columns: list[list[float] | float]  # of each parameter: one a task, or the number that all have
    residence: Callable[[float, list[float], int], float]

    def overheads(self, running: Sequence[int], remaining: Sequence[float]) -> Sequence[float]:
        """Return D_i = r_i rate_i R."""
        rate = self.rate
        rates = [rate[task] for task in running]
        total = elementary.added(rates)
        if total <= 0.0:
            return [0.0] * len(rates)
        means: list[float] = [
            values
            if isinstance(values, (float, int))
            else elementary.added([values[task] * each for task, each in zip(running, rates, strict=True)]) / total
            for values in self.columns
        ]
        time = self.residence(total / len(rates), means, len(rates))
        return [left * each * time for left, each in zip(remaining, rates, strict=True)]


def folded(values: Floats) -> list[float] | float:
    """Return a parameter as a number where all tasks have the same."""
    return float(values[0]) if alike(values) else values.tolist()


def column(graph: TaskGraph, name: str, value: Number, most: float = np.inf) -> Floats:
    """Return a parameter of each task, checked."""
    found = (
        np.asarray(graph.column(value, f"the contention model reads {name} there"), np.float64)
        if isinstance(value, str)
        else np.full(max(len(graph), 1), float(value))
    )
    if not (np.isfinite(found) & (found >= 0) & (found <= most)).all():
        raise InvalidValue(name, value, f"finite, from 0 to {most:g}")
    return found


def alike(*columns: Floats) -> bool:
    return all(bool((values == values[0]).all()) for values in columns if len(values))
