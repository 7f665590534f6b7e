"""Instances on nodes: an instance does not straddle, and its memory must fit beside the others'."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.planning.requests import Floats, Ints

SEARCH_MAX = 20_000  # placements tried where the first fails: milliseconds to a tenth of a second
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

    Best fit with the largest first, then, where that fails, a search over all placements, of SEARCH_MAX steps. Cost
    O(instances nodes).
    """
    if (peak_bytes > machine.memory_bytes * (1 + SLACK)).any() or int((cores * instances).sum()) > machine.sizes.sum():
        return None
    if machine.whole:
        memory = float((peak_bytes * instances).sum())
        if memory > machine.memory_bytes * (1 + SLACK):
            return None
        return [[0] * n for n in instances.tolist()]
    rows = np.repeat(np.arange(len(cores)), instances)
    order = rows[np.lexsort((rows, -peak_bytes[rows], -cores[rows]))]
    free, memory = machine.sizes.copy(), np.full(len(machine.sizes), machine.memory_bytes)
    if peak_bytes.any() and np.isfinite(machine.memory_bytes):
        if float((peak_bytes * instances).sum()) > machine.memory_bytes * len(free) * (1 + SLACK):
            return None
    else:
        peak_bytes = np.zeros(len(cores))
        memory[:] = 1.0
    found = _searched(order, cores, peak_bytes, free, memory)
    if not found:
        return found  # type: ignore[return-value]
    placed: list[list[int]] = [[] for _ in cores]
    for row, node in zip(order.tolist(), found, strict=True):
        placed[row].append(node)
    return placed


def _searched(order: Ints, cores: Ints, peak_bytes: Floats, free: Ints, memory: Floats) -> list[int] | None:
    """Search depth first, the largest first; nodes that look alike are tried once."""
    rows, found, steps = order.tolist(), list[int](), 0
    tried: list[list[int]] = [_candidates(rows[0], cores, peak_bytes, free, memory)]
    while tried:
        if not tried[-1]:
            tried.pop()
            if found:
                node, row = found.pop(), rows[len(found)]
                free[node] += cores[row]
                memory[node] += peak_bytes[row]
            continue
        steps += 1
        if steps > SEARCH_MAX + len(rows):
            return []
        node, row = tried[-1].pop(), rows[len(found)]
        free[node] -= cores[row]
        memory[node] -= peak_bytes[row]
        found.append(node)
        if len(found) == len(rows):
            return found
        tried.append(_candidates(rows[len(found)], cores, peak_bytes, free, memory))
    return None


def _candidates(row: int, cores: Ints, peak_bytes: Floats, free: Ints, memory: Floats) -> list[int]:
    """Return the nodes that fit, one of each kind, the fullest last: it is tried first."""
    kinds: dict[tuple[int, float], int] = {}
    for node in np.flatnonzero((free >= cores[row]) & (memory * (1 + SLACK) >= peak_bytes[row])).tolist():
        kinds.setdefault((int(free[node]), float(memory[node])), node)
    return [kinds[kind] for kind in sorted(kinds, reverse=True)]
