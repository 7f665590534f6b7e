"""Dynamic programming over the structure: the lowest latency of every part on every number of cores.

f_node(k) is the lowest mean time of a record in the node on at most k cores: for a box its fastest shape, along a series
the best split of the cores between the parts (min-plus), over a choice the same of weighted parts, at a join the best
split for the slowest part (min-max). Exact where times are certain; with varying times the join's maximum of means is
below the mean of the maximum, so f is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION
from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.options import NOTHING, Options
from advisor.planning.queues.structure import Structure

PROGRAM_CELLS_MAX = 10_000_000  # components times the square of the steps: beyond, cores are put in larger steps


@dataclass(slots=True)
class _Part:
    """A part's curve over its cores from `least` on, falling, and how its last two parts were put together."""

    least: int
    best: Floats
    weight: float = 1.0
    row: int = -1  # of a box
    left: _Part | None = None
    right: _Part | None = None
    to_left: Ints | None = None  # cores beyond its least that the left part gets


@dataclass(frozen=True, slots=True)
class TreeProgram:
    """The solved program.

    Attributes
    ----------
    least : int
        Fewest cores of all.
    latency_s : float64 array
        The lowest latency on least, least + unit, least + 2 unit, … cores.
    unit : int
        Cores of one step: 1 while the program is small. Shapes are rounded up to whole steps, or down for a bound.
    """

    least: int
    latency_s: Floats
    root: _Part
    shape: list[Ints]
    unit: int = 1

    @property
    def counts(self) -> Ints:
        """The numbers of cores solved."""
        return self.least + self.unit * np.arange(len(self.latency_s))

    def on(self, cores: int) -> float:
        """Return the lowest latency on at most `cores` cores."""
        return float(self.latency_s[min((cores - self.least) // self.unit, len(self.latency_s) - 1)])

    def fewest(self, latency_s: float) -> int | None:
        """Return the fewest cores of a latency, or None where none of the numbers solved reaches it."""
        reached = self.latency_s <= latency_s * (1 + TIE)
        return self.least + self.unit * int(reached.argmax()) if reached.any() else None

    def chosen(self, cores: int) -> Ints:
        """Return the shape of each component for a number of cores; equal gains go to the first in text order."""
        found = np.zeros(len(self.shape), np.int64)
        todo = [(self.root, min((cores - self.least) // self.unit, len(self.latency_s) - 1))]
        while todo:
            part, extra = todo.pop()
            # As few as do the same: they may do some good elsewhere, or stay free.
            extra = int((part.best <= part.best[extra] * (1 + TIE)).argmax())
            if part.row >= 0:
                found[part.row] = self.shape[part.row][extra]
            elif part.left is not None and part.right is not None and part.to_left is not None:
                some = int(part.to_left[extra])
                todo += [(part.left, some), (part.right, extra - some)]
            elif part.left is not None:
                todo.append((part.left, extra))
        return found


def cells(options: Options, cores: int) -> int:
    """Return about how many steps `tree_program` takes: components times the square of the cores to share."""
    spare = cores - int(options.least.sum()) + 1
    return len(options.number) * spare * spare


def unit_of(options: Options, cores: int) -> int:
    """Return the cores of one step: as few as keep a program within PROGRAM_CELLS_MAX."""
    return max(1, int(np.ceil((cells(options, cores) / PROGRAM_CELLS_MAX) ** 0.5)))


def tree_program(
    structure: Structure, options: Options, times_s: Floats, cores: int, *, bound: bool = False
) -> TreeProgram:
    """Solve for all numbers of cores up to `cores`.

    Parameters
    ----------
    times_s : (n, shapes)
        Mean time of one visit with each shape; infinite where the shape is not to be taken.

    Notes
    -----
    Cost O(n P^2) in n P vector steps, for P cores beyond the least.
    """
    unit = unit_of(options, cores)
    spare = (cores - int(options.least.sum())) // unit
    shape: list[Ints] = []
    parts: list[_Part | None] = []
    for index, node in enumerate(structure.network.nodes):
        children = [part for part in (parts[child] for child in node.children) if part is not None]
        if index in structure.rows:
            row = structure.rows[index]
            part, best = _leaf(options, times_s, row, structure.ratios[row], spare, -unit if bound else unit)
            shape.append(best)
            parts.append(part)
        elif not children:
            parts.append(None)
        elif index in structure.joins:
            parts.append(_joined(structure, index, node.children, parts, spare))
        else:
            if node.kind == CHOICE:
                shares = structure.shares(index)
                pairs = zip(node.children, shares, strict=True)
                weighted = [(parts[child], share) for child, share in pairs]
                children = [_scaled(part, share) for part, share in weighted if part is not None]
            part = _together(children, spare, joined=False)
            repeats = node.kind in (REPLICATION, FEEDBACK)
            parts.append(_scaled(part, structure.factor(index)) if repeats else part)
    root = parts[-1]
    assert root is not None  # a network without boxes has no visits, which is refused before
    ordered: list[Ints] = [np.zeros(0, np.int64)] * len(structure.rows)
    for (_, row), best in zip(sorted(structure.rows.items()), shape, strict=True):
        ordered[row] = best
    return TreeProgram(root.least, root.best, root, ordered, unit)


def sum_program(options: Options, values: Floats, cores: int, *, bound: bool = False) -> TreeProgram:
    """Solve for the least sum of values, (n, shapes), for all numbers of cores up to `cores`. Cost O(n P^2)."""
    unit = unit_of(options, cores)
    spare = (cores - int(options.least.sum())) // unit
    leaves = [_leaf(options, values, row, 1.0, spare, -unit if bound else unit) for row in range(len(options.number))]
    root = _together([part for part, _ in leaves], spare, joined=False)
    return TreeProgram(root.least, root.best, root, [shape for _, shape in leaves], unit)


def _leaf(options: Options, times_s: Floats, row: int, ratio: float, spare: int, unit: int) -> tuple[_Part, Ints]:
    """Return a box's curve in steps of `unit` cores: shapes rounded up, or down where the unit is negative."""
    number = int(options.number[row])
    weight = options.weight[row, :number]
    times = ratio * times_s[row, :number] if ratio > 0 else np.zeros(number)
    least = int(weight[0])
    best, shape = np.full(spare + 1, np.inf), np.zeros(spare + 1, np.int64)
    for place in np.lexsort((times, weight)).tolist()[::-1]:  # the fastest of a weight is written last
        more = int(weight[place]) - least
        extra = -(-more // unit) if unit > 0 else more // -unit
        if extra <= spare and weight[place] < NOTHING and times[place] < best[extra]:
            best[extra], shape[extra] = times[place], place
    running = np.minimum.accumulate(best)
    fresh = np.concatenate([[True], best[1:] < running[:-1]])
    last = np.maximum.accumulate(np.where(fresh, np.arange(spare + 1), 0))
    return _Part(least, best[last], row=row), shape[last]


def _scaled(part: _Part, weight: float) -> _Part:
    return _Part(part.least, weight * part.best if weight > 0 else np.zeros_like(part.best), left=part)


def _joined(structure: Structure, index: int, nodes: tuple[int, ...], parts: list[_Part | None], spare: int) -> _Part:
    """Return the join of the parts; a branch of a choice that no record takes only has its least."""
    kind = structure.network.nodes[index].kind
    shares = structure.shares(index) if kind == CHOICE else [1.0] * len(nodes)
    found: list[_Part] = []
    for child, share in zip(nodes, shares, strict=True):
        part = parts[child]
        if part is not None:
            found.append(part if share > 0 else _scaled(part, 0.0))
    return _together(found, spare, joined=True)


def _together(parts: list[_Part], spare: int, *, joined: bool) -> _Part:
    """Put parts together, left to right: sums, or maxima where joined."""
    whole = parts[0]
    for part in parts[1:]:
        whole = _pair(whole, part, spare, joined=joined)
    return whole


def _pair(left: _Part, right: _Part, spare: int, *, joined: bool) -> _Part:
    best, to_left = np.full(spare + 1, np.inf), np.zeros(spare + 1, np.int64)
    # Only cores that gain something are worth giving: few where curves are flat.
    steps = np.flatnonzero(np.concatenate([[True], right.best[1:] < right.best[:-1]]))
    for extra in steps.tolist():
        end = spare + 1 - extra
        some = np.maximum(left.best[:end], right.best[extra]) if joined else left.best[:end] + right.best[extra]
        better = some < best[extra:] * (1 - TIE)
        np.copyto(best[extra:], some, where=better)
        np.copyto(to_left[extra:], np.arange(end), where=better)
    return _Part(left.least + right.least, best, left=left, right=right, to_left=to_left)
