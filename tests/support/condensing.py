"""Condensed task graphs: what one process runs between two synchronisations as one task (paper 4, Table I)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.task_graphs import TaskGraph, task_graph
from advisor.simulation.program import Program

Ints = NDArray[np.int64]


class Condensed(NamedTuple):
    """A condensed graph, the processor of each of its tasks, and the condensed task of each task of the full graph."""

    graph: TaskGraph
    owner: Ints
    of: Ints


def condense(program: Program, owner: Ints) -> Condensed:
    """Return the condensed graph of a division of the tasks among processors; it keeps the unit, and no columns.

    Consecutive tasks a, b of one process become one where b waits for no task of another process that the first of them does
    not
    wait for, and every task of another process that waits for a waits for b. Then nobody can tell the two from one: executed as
    divided, condensed and full graph take the same time, tick for tick (the basic model). Cost O(n + m log d).
    """
    graph = program.graph
    of_process = owner.tolist()
    first, children = program.first, program.children
    parents: list[list[int]] = [[] for _ in range(program.count)]
    for parent, child in zip(program.parents.tolist(), program.children, strict=True):
        if of_process[parent] != of_process[child]:
            parents[child].append(parent)
    group = [0] * program.count
    total = 0
    waits_for: dict[int, set[int]] = {}  # of each process's open group: what its first task waits for elsewhere
    waited_by: dict[int, set[int]] = {}  # what waits elsewhere for any task of it
    open_group: dict[int, int] = {}
    for task in program.order:
        process = of_process[task]
        outside = {child for child in children[first[task] : first[task + 1]] if of_process[child] != process}
        joins = process in open_group and waits_for[process].issuperset(parents[task]) and waited_by[process] <= outside
        if not joins:
            open_group[process] = total
            total += 1
            waits_for[process] = set(parents[task])
        waited_by[process] = outside
        group[task] = open_group[process]
    of = np.asarray(group, np.int64)
    ticks = np.zeros(total, np.int64)
    np.add.at(ticks, of, graph.ticks)
    condensed_owner = np.zeros(total, np.int64)
    condensed_owner[of] = owner
    edges = np.column_stack([of[program.parents], of[graph.children]])
    edges = edges[edges[:, 0] != edges[:, 1]]
    made = task_graph(np.zeros(total), edges, unit=graph.unit)
    return Condensed(TaskGraph(ticks, made.first, made.children, graph.unit), condensed_owner, of)
