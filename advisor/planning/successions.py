"""Where a record goes next: how often a visit at one component follows one at another, with nothing between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SERIES
from advisor.planning.requests import Floats
from advisor.planning.structure import Structure

Flows = dict[int, float]  # row -> records


class Succession(NamedTuple):
    """Who comes after whom."""

    follows: Floats  # (n, n): share of each component's visits that follow a visit at another directly, (from, to)
    enters: Floats  # (n,): share of each component's visits that are the first of their record


NOTHING = Succession(np.zeros((0, 0)), np.zeros(0))  # where no records arrive


@dataclass(frozen=True, slots=True)
class _Ends:
    """Of one record that enters a part: first visits and last visits inside, and the share that passes without any."""

    first: Flows
    last: Flows
    without: float


def successions(structure: Structure) -> Succession:
    """Return who comes after whom. Cost O(nodes + n^2 of neighbours).

    What is missing to a sum of 1 comes from a join: its last branch is not known.
    """
    nodes, n = structure.network.nodes, len(structure.rows)
    found = np.zeros((n, n))
    ends: list[_Ends] = []
    for index, node in enumerate(nodes):
        parts = [ends[child] for child in node.children]
        times = max(float(structure.visits.entries[index]), 0.0)
        if index in structure.rows:
            row = structure.rows[index]
            ends.append(_Ends({row: 1.0}, {row: 1.0}, 0.0))
        elif index in structure.joins:
            first = _summed([(part.first, 1.0) for part in parts])
            ends.append(_Ends(first, {}, 0.0))
        elif node.kind == SERIES:
            ends.append(_series(parts, found, times))
        elif node.kind == CHOICE:
            shares = structure.shares(index)
            ends.append(_Ends(
                _summed([(part.first, share) for part, share in zip(parts, shares, strict=True)]),
                _summed([(part.last, share) for part, share in zip(parts, shares, strict=True)]),
                elementary.added(part.without * share for part, share in zip(parts, shares, strict=True)),
            ))  # fmt: skip
        elif node.kind in (REPLICATION, FEEDBACK):
            ends.append(_loop(structure, index, parts[0], found, times))
        else:
            ends.append(parts[0] if parts else _Ends({}, {}, 1.0))
    entries = structure.visits.entries[list(structure.network.boxes)]
    enters = np.zeros(n)
    for row, times in ends[-1].first.items():
        enters[row] = times
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (np.where(entries > 0, np.minimum(some / entries, 1.0), 0.0) for some in (found, enters))
        return Succession(*shares)


def _summed(parts: list[tuple[Mapping[int, float], float]]) -> Flows:
    found: Flows = {}
    for flows, weight in parts:
        if weight > 0:
            for row, value in flows.items():
                found[row] = found.get(row, 0.0) + weight * value
    return found


def _follow(found: Floats, last: Mapping[int, float], first: Mapping[int, float], times: float) -> None:
    if times <= 0:
        return
    for before, out in last.items():
        for after, into in first.items():
            found[before, after] += times * out * into


def _series(parts: list[_Ends], found: Floats, times: float) -> _Ends:
    first: Flows = {}
    last: Flows = {}
    without = 1.0
    for part in parts:
        _follow(found, last, part.first, times)
        first = _summed([(first, 1.0), (part.first, without)])
        last = _summed([(last, part.without), (part.last, 1.0)])
        without *= part.without
    return _Ends(first, last, without)


def _loop(structure: Structure, index: int, part: _Ends, found: Floats, times: float) -> _Ends:
    """Return the ends of a part that a record passes again: a pass follows a pass."""
    routing = structure.visits.routing
    if structure.network.nodes[index].kind == FEEDBACK:
        back = routing.returns.get(index, 0.0)
        again, some = back / (1 - back), 1.0
    else:
        depths = routing.depths.get(index, (0.0, 1.0))
        some = 1.0 - float(depths[0])
        again = elementary.added(max(depth - 1, 0) * share for depth, share in enumerate(depths))
    _follow(found, part.last, part.first, times * again)
    first, last = _summed([(part.first, some)]), _summed([(part.last, some)])
    return _Ends(first, last, 1.0 - some + some * part.without)
