"""The time of a record through a network with joins whose branches share cores.

Branches of a join run at the same time as far as their groups let them: the record is through when the last branch is, and not
before any group that several branches need has done all that they ask of it, one after the other. The time of a join is the
later of the two: of the last branch as if each were alone, and of the group with most to do for all of them together. That is
exact where branches are single visits, and at most what a schedule can reach elsewhere: branches that meet again and again at
the same group may take longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SERIES
from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.queues.extremes import latest
from advisor.planning.queues.structure import Structure


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a record that enters a part: mean and variance of its time, and of each group the work and the longest wait."""

    mean: float
    variance: float
    work: Floats
    waits: Floats


def journey(
    structure: Structure, group: Ints, service_s: Floats, wait_s: Floats, variance: Floats
) -> tuple[float, float]:
    """Return mean and variance of a record's time in the network.

    Parameters
    ----------
    group : int64 array (n,)
    service_s, wait_s, variance : float64 arrays (n,)
        Of one visit: mean times, and the variance of their sum.

    Notes
    -----
    Cost O(nodes groups).
    """
    groups = int(group.max()) + 1
    none = np.zeros(groups)
    parts: list[_Part] = []
    for index, node in enumerate(structure.network.nodes):
        inside = [parts[child] for child in node.children]
        if index in structure.rows:
            row = structure.rows[index]
            ratio, at = float(structure.ratios[row]), np.arange(groups) == group[row]
            parts.append(_Part(
                ratio * float(service_s[row] + wait_s[row]), ratio * float(variance[row]),
                np.where(at, ratio * service_s[row], 0.0), np.where(at, wait_s[row], 0.0) if ratio > 0 else none,
            ))  # fmt: skip
        elif index in structure.joins:
            parts.append(_joined(structure, index, inside))
        elif node.kind == CHOICE:
            parts.append(_mixed(structure.shares(index), inside))
        elif node.kind == SERIES:
            parts.append(_summed(inside))
        elif node.kind in (REPLICATION, FEEDBACK):
            parts.append(_repeated(structure, index, inside[0]))
        else:
            parts.append(inside[0] if inside else _Part(0.0, 0.0, none, none))
    return parts[-1].mean, parts[-1].variance


def _summed(parts: list[_Part]) -> _Part:
    work: Floats = np.sum([part.work for part in parts], axis=0)
    waits: Floats = np.maximum.reduce([part.waits for part in parts])
    return _Part(sum(part.mean for part in parts), sum(part.variance for part in parts), work, waits)


def _mixed(shares: list[float], parts: list[_Part]) -> _Part:
    taken = [(share, part) for share, part in zip(shares, parts, strict=True) if share > 0]
    mean = sum(share * part.mean for share, part in taken)
    second = sum(share * (part.variance + part.mean**2) for share, part in taken)
    work: Floats = np.sum([share * part.work for share, part in taken], axis=0)
    waits: Floats = np.maximum.reduce([part.waits for _, part in taken])
    return _Part(mean, max(second - mean**2, 0.0), work, waits)


def _repeated(structure: Structure, index: int, part: _Part) -> _Part:
    routing = structure.visits.routing
    if structure.network.nodes[index].kind == FEEDBACK:
        back = routing.returns[index]
        times, spread = 1 / (1 - back), back / (1 - back) ** 2
    else:
        depths = np.asarray(routing.depths[index], np.float64)
        numbers = np.arange(len(depths))
        times = float(numbers @ depths)
        spread = max(float(numbers**2 @ depths) - times**2, 0.0)
    return _Part(times * part.mean, times * part.variance + spread * part.mean**2, times * part.work, part.waits)


def _joined(structure: Structure, index: int, parts: list[_Part]) -> _Part:
    if structure.network.nodes[index].kind == CHOICE:  # before a synchrocell: what no record takes is not waited for
        parts = [part for part, share in zip(parts, structure.shares(index), strict=True) if share > 0]
    means = np.array([[part.mean for part in parts]])
    variances = np.array([[part.variance for part in parts]])
    mean, variance = float(means.max()), 0.0
    if variances.any():
        last, spread = latest(means, variances, np.zeros_like(means))
        mean, variance = float(last[0]), float(spread[0])
    work: Floats = np.sum([part.work for part in parts], axis=0)
    waits: Floats = np.maximum.reduce([part.waits for part in parts])
    shared = np.sum([part.work > 0 for part in parts], axis=0) > 1
    together = float(np.where(shared, work + waits, 0.0).max(initial=0.0))
    return _Part(max(mean, together), variance, work, waits)
