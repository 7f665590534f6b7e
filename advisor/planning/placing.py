"""Instances on nodes: an instance does not straddle, and its memory must fit beside the others'."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.domain.vectors import Floats, Ints

SLACK = 1e-9  # of memory: the rounding of sums


@dataclass(frozen=True, slots=True)
class MachineNodes:
    """A machine of nodes; without nodes it is one node of all cores."""

    sizes: Ints  # (k,): cores of each node
    memory_bytes: float  # of each node; infinite where it does not count
    cores: int  # of all nodes
    widest: int  # cores of the largest node

    @property
    def free(self) -> bool:
        """True when nothing but the number of cores limits what is placed."""
        return self.whole and bool(np.isinf(self.memory_bytes))

    @property
    def whole(self) -> bool:
        """True when there is one node and nothing to place."""
        return len(self.sizes) == 1


def machine_of(cores: int, nodes: int | None, memory_bytes: float | None) -> MachineNodes:
    """Return the machine of `cores` cores in nodes of `nodes` cores, the last one with what is left."""
    size = min(nodes or cores, cores)
    sizes = [size] * (cores // size) + ([cores % size] if cores % size else [])
    return MachineNodes(np.array(sizes, np.int64), np.inf if memory_bytes is None else memory_bytes, cores, size)


def place(machine: MachineNodes, cores: Ints, instances: Ints, peak_bytes: Floats) -> list[list[int]] | None:
    """Return the node of each instance of each component; None where no placement is possible, empty where none was found.

    Best fit, those of most cores first, or else those of most memory. Cost O(instances nodes).
    """
    if (peak_bytes > machine.memory_bytes * (1 + SLACK)).any() or int((cores * instances).sum()) > machine.sizes.sum():
        return None
    if machine.whole:
        memory = float((peak_bytes * instances).sum())
        if memory > machine.memory_bytes * (1 + SLACK):
            return None
        return [[0] * n for n in instances.tolist()]
    rows = np.repeat(np.arange(len(cores)), instances)
    if float((peak_bytes * instances).sum()) > machine.memory_bytes * len(machine.sizes) * (1 + SLACK):
        return None
    by_cores, by_memory = -cores[rows], -peak_bytes[rows]
    orders = (rows[np.lexsort((rows, *keys))] for keys in ((by_memory, by_cores), (by_cores, by_memory)))
    found = list[list[int]]()
    for order in orders:
        found = found or _best_fit(machine, cores, peak_bytes, order)
    return found


def _best_fit(machine: MachineNodes, cores: Ints, peak_bytes: Floats, order: Ints) -> list[list[int]]:
    """Return the nodes of each component's instances, placed in some order; empty where one finds no room."""
    free, memory = machine.sizes.copy(), np.full(len(machine.sizes), machine.memory_bytes)
    placed: list[list[int]] = [[] for _ in cores]
    for row in order.tolist():
        fits = np.flatnonzero((free >= cores[row]) & (memory * (1 + SLACK) >= peak_bytes[row]))
        if not len(fits):
            return []
        node = int(fits[np.lexsort((memory[fits], free[fits]))[0]])
        free[node] -= cores[row]
        memory[node] -= peak_bytes[row]
        placed[row].append(node)
    return placed
