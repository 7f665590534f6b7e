"""Instances sent as sums: what a tool leaves out of the events where tasks are too many, by type and value of a parameter.

They become visits of their construct's tree and of the parameter's node below it, with creation and waiting below that; where
they ran, their threads are in a region `RegionKind.APART`, a stub. Their waiting counts as no_work, since what was ready
meanwhile is not known, and the longest path goes without them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.domain.task_events import ABSENT_TYPE, SUM
from advisor.profile import layout as at
from advisor.profile.state import Tables

TIMES: Final = ("work", "creation", "waiting", "least", "most")
NUMBERS: Final = ("count", "creates", "waits")
SUM_NODES: Final = 4  # that one sum may take
SUMMED_MAX: Final = 2**61  # of all sums' ns, and of their visits: beside those of threads they stay below 2**63
SLACK: Final = 1e-6  # of a mean, by which rounded squares may fall below what means allow


def fold_sums(tables: Tables, sums: NDArray[np.void], ns_a_tick: float, strings: int) -> list[int]:
    """Book sums of ended instances; return the codes of those that are refused. Cost O(sums).

    `sums`: structured array (k,), of `SUM`. `ns_a_tick`: of the clock whose ticks the times are. `strings`: how many strings
    are known.
    """
    if sums.dtype != SUM:
        raise TypeError("sums have the dtype of advisor.domain.task_events.SUM")
    tables.grow_nodes(min(int(tables.g[at.NODES]) + SUM_NODES * len(sums), tables.caps.nodes))
    refused: list[int] = []
    for row in sums:
        given: dict[str, Any] = {name: row[name].item() for name in SUM.names or ()}
        code = _what_is_wrong(tables, given, ns_a_tick, strings)
        if code == at.ACCEPTED:
            _book(tables, given, ns_a_tick)
        else:
            refused.append(code)
            tables.g[at.COUNTED_REFUSALS + code] += 1
    return refused


def _what_is_wrong(tables: Tables, given: dict[str, Any], ns_a_tick: float, strings: int) -> int:
    if given["type"] >= strings or (given["parameter"] >= strings and given["parameter"] != ABSENT_TYPE):
        return at.UNKNOWN_STRING
    count, total = given["count"], given["work"] + given["creation"] + given["waiting"]
    visits = int(tables.g[at.SUMMED_VISITS]) + sum(given[name] for name in NUMBERS)
    if visits > SUMMED_MAX or int(tables.g[at.SUMMED_TIME]) + total * ns_a_tick > SUMMED_MAX or count < 1:
        return at.BAD_SUM
    if not given["least"] * count <= total <= given["most"] * count or given["most"] * ns_a_tick > SUMMED_MAX:
        return at.BAD_SUM
    mean_square = total * total / count
    return at.ACCEPTED if mean_square * (1.0 - SLACK) <= given["squares"] < float("inf") else at.BAD_SUM


def _book(tables: Tables, given: dict[str, Any], ns_a_tick: float) -> None:
    g = tables.g
    ns = {name: round(given[name] * ns_a_tick) for name in TIMES}
    count, total = given["count"], ns["work"] + ns["creation"] + ns["waiting"]
    spread = max(given["squares"] * ns_a_tick * ns_a_tick - total * total / count, 0.0)
    root = _node(tables, at.NONE, at.TASK_LABEL | given["type"], 0)
    visited = [root]
    if given["parameter"] != ABSENT_TYPE:
        visited.append(_node(tables, root, at.PARAMETER_LABEL | given["parameter"], given["value"]))
    most = root * at.NODE + at.WORKED_MOST
    tables.nodes[most] = max(int(tables.nodes[most]), min(ns["work"], ns["most"]))
    for node in visited:
        _visit(tables, node, count, total, spread, ns["least"], ns["most"])
    _spend(tables, visited[-1], ns["work"])
    inside = (
        ("creates", "creation", at.CREATION << at.LABEL_BITS), ("waits", "waiting", at.WAIT_LABEL),
    )  # fmt: skip
    for times, name, label in inside:
        if given[times] or ns[name]:
            node = _node(tables, visited[-1], label | given["type"], 0)
            _within(tables, node, given[times], ns[name])
            _spend(tables, node, ns[name])
    for place in (at.CREATES, at.BEGINS, at.ENDS, at.SUMMED):
        g[place] += count
    g[at.SUMMED_VISITS] += count + given["creates"] + given["waits"]
    g[at.SUMMED_TIME] += total
    g[at.IDLE_TIME] += ns["waiting"]


def _node(tables: Tables, parent: int, label: int, value: int) -> int:
    return int(tables.kernels["find_node"](tables.g, tables.nodes, tables.node_index, parent, label, value))


def _spend(tables: Tables, node: int, ns: int) -> None:
    tables.nodes[node * at.NODE + at.EXCLUSIVE] += ns


def _within(tables: Tables, node: int, times: int, total: int) -> None:
    """Book visits of which the whole time is known only: each of them is taken to be as long as their mean."""
    if times:
        _visit(tables, node, times, total, 0.0, total // times, -(-total // times))
    else:
        tables.nodes[node * at.NODE + at.INCLUSIVE] += total


def _visit(tables: Tables, node: int, count: int, total: int, spread: float, least: int, most: int) -> None:
    """Book so many visits at once (Chan, Golub, LeVeque 1979): `spread` is their sum of squared deviations."""
    nodes, moments = tables.nodes, tables.moments
    place, moment = node * at.NODE, node * at.MOMENTS
    before, mean = int(nodes[place + at.COUNT]), float(moments[moment])
    off, after = total / count - mean, before + count
    moments[moment] = mean + off * count / after
    moments[moment + 1] += spread + off * off * before * count / after
    nodes[place + at.COUNT] = after
    nodes[place + at.INCLUSIVE] += total
    nodes[place + at.LEAST] = min(int(nodes[place + at.LEAST]), least)
    nodes[place + at.MOST] = max(int(nodes[place + at.MOST]), most)
