"""How tasks are divided among processors beforehand: each function gives every task's processor, (n,), for a number of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue
from advisor.simulation.program import Program

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
OUTSIDE = -1  # a task of no loop, or of no group


def _places(program: Program) -> tuple[Ints, Ints]:
    """Return each task's place in its loop, in program order, and the number of tasks of that loop.

    A task of no loop is a loop of its own. In a graph without the column ``loop``, the tasks of one depth, which are
    independent of each other, count as one.
    """
    count = program.count
    loops = program.graph.columns.get("loop", program.depths)
    position = np.empty(count, np.int64)
    position[program.graph.order] = np.arange(count)
    alone = loops == OUTSIDE
    loops = np.where(alone, np.arange(count) + int(loops.max(initial=0)) + 1, loops)
    by_loop = np.lexsort((position, loops))
    sorted_loops = loops[by_loop]
    leads = np.flatnonzero(np.concatenate([[True], sorted_loops[1:] != sorted_loops[:-1]])) if count else by_loop
    sizes = np.diff(np.append(leads, count))
    place, size = np.empty(count, np.int64), np.empty(count, np.int64)
    place[by_loop] = np.arange(count) - np.repeat(leads, sizes)
    size[by_loop] = np.repeat(sizes, sizes)
    return place, size


def blocked(program: Program, cores: int) -> Ints:
    """Consecutive blocks of each loop: task k of N goes to processor floor(k P / N), so that block sizes differ by one at
    most."""
    place, size = _places(program)
    return place * cores // size


def cyclic(program: Program, cores: int) -> Ints:
    """Task k of each loop goes to processor k mod P; in a graph without loops, task k of the program order."""
    if "loop" not in program.graph.columns:
        position = np.empty(program.count, np.int64)
        position[program.graph.order] = np.arange(program.count)
        return position % cores
    return _places(program)[0] % cores


def split_processors(program: Program, cores: int) -> Ints:
    """Processor splitting (PSIM in paper 4): with column ``group``, the loops of group g go cyclically to processors p with
    p mod G = g.

    G is the number of groups. Tasks of no group (-1) go cyclically to all processors, and so does everything where P < G.
    """
    groups = program.graph.column("group", "processor splitting needs to know which loops share processors")
    total = int(groups.max(initial=-1)) + 1
    place = _places(program)[0]
    if total == 0 or cores < total:
        return place % cores
    members = (cores - groups + total - 1) // total  # processors p < P with p mod G = g
    return np.where(groups == OUTSIDE, place % cores, groups + total * (place % np.maximum(members, 1)))


def enumerated(program: Program, cores: int) -> Ints:
    """Column ``queue`` modulo P: rows of a table assigned round robin, as in DynProg."""
    return program.graph.column("queue", "a static enumeration is the column queue of each task") % cores


def queues(program: Program, cores: int) -> Ints:
    """Column ``queue`` modulo P where the graph has it, else equal areas where it has positions, else blocks of each loop."""
    columns = program.graph.columns
    if "queue" in columns:
        return enumerated(program, cores)
    return equal_area(program, cores) if {"x", "y"} <= columns.keys() else blocked(program, cores)


def equal_area(program: Program, cores: int) -> Ints:
    """The rectangle that holds all positions ``x``, ``y``, cut into P rectangles of equal area."""
    x, y = _positions(program)
    box = [(float(np.min(v)), _spread(v)) for v in (x, y)] if program.count else [(0.0, 0.0)] * 2
    found = np.zeros(program.count, np.int64)
    _cut_area(x, y, np.arange(program.count), box, 0, cores, found)
    return found


def equal_work(program: Program, cores: int) -> Ints:
    """The same rectangle cut into P of about equal work, as the column ``area`` guesses it (paper 4, 5.3)."""
    x, y = _positions(program)
    area = np.asarray(program.graph.column("area", "equal work needs a guess of each task's work"), np.float64)
    found = np.zeros(program.count, np.int64)
    _cut_work(x, y, area, np.arange(program.count), 0, cores, found)
    return found


def _positions(program: Program) -> tuple[Floats, Floats]:
    hint = "geographic divisions need where each task works"
    return program.graph.column("x", hint), program.graph.column("y", hint)


def _cut_area(
    x: Floats, y: Floats, tasks: Ints, box: list[tuple[float, float]], base: int, parts: int, found: Ints
) -> None:
    """Cut a box, (low, span) of each axis, across its longer side in the ratio of the halves of `parts`, and so on."""
    if parts == 1:
        found[tasks] = base
        return
    half = parts // 2
    axis = 0 if box[0][1] >= box[1][1] else 1
    low, span = box[axis]
    at = low + span * half / parts
    here = (x, y)[axis][tasks] < at
    first, second = box[:], box[:]
    first[axis], second[axis] = (low, at - low), (at, low + span - at)
    _cut_area(x, y, tasks[here], first, base, half, found)
    _cut_area(x, y, tasks[~here], second, base + half, parts - half, found)


def _cut_work(x: Floats, y: Floats, area: Floats, tasks: Ints, base: int, parts: int, found: Ints) -> None:
    """Cut a set of tasks across its longer side where the work to either side is in the ratio of the halves of `parts`."""
    if parts == 1 or len(tasks) == 0:
        found[tasks] = base
        return
    half = parts // 2
    axis = x if _spread(x[tasks]) >= _spread(y[tasks]) else y
    ordered = tasks[np.argsort(axis[tasks], kind="stable")]
    work: Floats = np.cumsum(area[ordered])
    here: float = work[-1] * half / parts
    at = int((work < here).sum())
    _cut_work(x, y, area, ordered[:at], base, half, found)
    _cut_work(x, y, area, ordered[at:], base + half, parts - half, found)


def _spread(values: Floats) -> float:
    low: float = values.min()
    high: float = values.max()
    return high - low


def checked_owner(owner: Ints, program: Program, cores: int) -> Ints:
    """Return a division that names a processor for every task, or raise InvalidValue."""
    if owner.shape != (program.count,) or (program.count and not 0 <= owner.min() <= owner.max() < cores):
        raise InvalidValue(
            "policy", owner.shape, f"a processor from 0 to {cores - 1} for each of {program.count} tasks"
        )
    return owner
