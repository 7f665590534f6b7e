"""How tasks are divided among processors beforehand: each function gives every task's processor, (n,), for a number of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue
from advisor.simulation.program import Program

Ints = NDArray[np.int64]
OUTSIDE = -1  # a task of no loop, or of no group


def _places(program: Program) -> tuple[Ints, Ints]:
    """Return each task's place in its loop, in program order, and the number of tasks of that loop.

    A task of no loop is a loop of its own. In a graph without the column ``loop``, the tasks of one depth, which are
    independent of each other, count as one.
    """
    count = program.count
    loops = program.graph.columns.get("loop", program.depths)
    loops = np.where(loops == OUTSIDE, np.arange(count) + int(loops.max(initial=0)) + 1, loops)
    by_loop = np.lexsort((program.position, loops))
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
    place = _places(program)[0] if "loop" in program.graph.columns else program.position
    return place % cores


def enumerated(program: Program, cores: int) -> Ints:
    """Column ``queue`` modulo P: rows of a table assigned round robin, as in DynProg."""
    return program.graph.column("queue", "a static enumeration is the column queue of each task") % cores


def queues(program: Program, cores: int) -> Ints:
    """Column ``queue`` modulo P where the graph has it, else blocks of each loop."""
    return (enumerated if "queue" in program.graph.columns else blocked)(program, cores)


def checked_owner(owner: Ints, program: Program, cores: int) -> Ints:
    """Return a division that names a processor for every task, or raise InvalidValue."""
    if owner.shape != (program.count,) or (program.count and not 0 <= owner.min() <= owner.max() < cores):
        raise InvalidValue(
            "policy", owner.shape, f"a processor from 0 to {cores - 1} for each of {program.count} tasks"
        )
    return owner
