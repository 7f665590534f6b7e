"""The mean latency from below, as a convex function of the means and standard deviations of stays.

A stay of mean m and deviation s <= m is m + s (E - 1), E exponential, as joins and order take it; more variance than m^2
makes maxima longer still. The mean of a maximum of such times, of a time in order, of sums, mixtures and random sums is
convex in all m and s together and grows with each, so that the tangent at any allocation is below every allocation.
What branches of a join have in common, and how joins and order themselves vary, is left out: both only add.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from advisor.domain.networks import CHOICE, FEEDBACK, PLACEMENT, REPLICATION, SERIES, SPLIT
from advisor.planning.asked.demand import Floats
from advisor.planning.queues.extremes import TINY, in_order, latest, overtaken
from advisor.planning.queues.structure import Structure, passes_by_share

JOINED, WHOLE, SERVED = range(3)  # deviations of a stay: what branches of a join do not share, all of it, the service's
STEP = 1e-6  # relative, of the differences that give the tangent
APART = 1e-3  # relative, that means are moved by before: equal parts of a join have no tangent
GOLDEN = 0.6180339887498949  # its multiples are far apart, modulo 1


def latency_below(
    structure: Structure, mean: Floats, deviation: Floats, overtakes: Floats, arrival_per_s: float,
    joined: dict[int, Floats] | None = None,
) -> Floats:  # fmt: skip
    """Return a mean latency that is not above the model's, (K,).

    Parameters
    ----------
    mean : (K, n)
    deviation : (3, K, n)
        By JOINED, WHOLE, SERVED.
    overtakes : (n,)
        1 where records overtake each other in every allocation, as with several instances; else 0.
    joined : dict, optional
        Join -> how its time varies, (K,): with this the latency is convex as well. Absent: not at all.

    Notes
    -----
    Cost O(K nodes), with joins and order O(K children^2 of them).
    """
    nodes, rows = structure.network.nodes, len(mean)
    none = np.zeros((3, rows))
    means: list[Floats] = []
    deviations: list[Floats] = []
    mixed: list[bool] = []
    for index, node in enumerate(nodes):
        parts = [(means[child], deviations[child]) for child in node.children]
        passed = any(mixed[child] for child in node.children)
        if index in structure.rows:
            row = structure.rows[index]
            ratio = structure.ratios[row]
            found = ratio * mean[:, row], np.sqrt(ratio) * deviation[:, :, row]
            passed = bool(overtakes[row])
        elif index in structure.joins:
            found = _last(structure, index, parts), none
            if joined and index in joined:
                found = found[0], np.stack([joined[index], none[0], none[0]])
        elif node.kind == SERIES:
            found = sum((m for m, _ in parts), none[0]), np.sqrt(sum((s**2 for _, s in parts), none))
        elif node.kind == CHOICE:
            pairs = list(zip(structure.shares(index), parts, strict=True))
            found = sum((p * m for p, (m, _) in pairs), none[0]), sum((p * s for p, (_, s) in pairs), none)
            passed = True
        elif node.kind in (REPLICATION, FEEDBACK):
            found, passed = _repeated(structure, index, parts[0]), True
        else:
            found = parts[0] if parts else (none[0], none)
        if node.ordered and (rate := arrival_per_s * structure.visits.entries[index]) > 0:
            found, passed = (
                _ordered(structure, index, [*zip(means, deviations, strict=True), found], mixed, rate),
                False,
            )
        means.append(found[0])
        deviations.append(np.minimum(found[1], found[0]))
        mixed.append(passed)
    return means[-1]


Part = tuple[Floats, Floats]  # mean (K,), deviations (3, K)


def _last(structure: Structure, index: int, parts: list[Part]) -> Floats:
    """Return the mean until the last of the parts is there; of a choice, of those that records take."""
    taken = range(len(parts))
    if structure.network.nodes[index].kind == CHOICE:
        taken = [place for place, share in enumerate(structure.shares(index)) if share > 0]
    means: Floats = np.stack([parts[place][0] for place in taken], axis=1)
    spreads: Floats = np.stack([parts[place][1][JOINED] for place in taken], axis=1)
    if not spreads.any():
        return means.max(axis=1)
    return np.maximum(latest(means, spreads**2)[0], means.max(axis=1))


def _repeated(structure: Structure, index: int, part: Part) -> Part:
    """Return the sum over N passes: E[N] m, and sqrt(E[N] s^2 + Var[N] m^2) as far as it stays below E[N] m."""
    numbers, shares = passes_by_share(structure, index)
    times = structure.factor(index)
    if structure.network.nodes[index].kind == FEEDBACK:
        spread = times**2 - times
    else:
        spread = max(float(numbers**2 @ shares) - times**2, 0.0)
    spread = min(spread, max(times**2 - times, 0.0))
    own = min(times, 1.0) * times  # for fewer passes than one on average, less than E[N]
    return times * part[0], np.sqrt(own * part[1] ** 2 + spread * part[0] ** 2)


def _ordered(structure: Structure, index: int, parts: list[Part], mixed: list[bool], rate: float) -> Part:
    """Return the mean until a record leaves after all that entered before it: those of its own branch, then the others."""
    node = structure.network.nodes[index]
    found, branches, shares = parts[index][0], [index], [1.0]
    if node.kind == CHOICE and index not in structure.joins:
        taken = [pair for pair in zip(node.children, structure.shares(index), strict=True) if pair[1] > 0]
        branches, shares = [child for child, _ in taken], [share for _, share in taken]
        passed = [mixed[child] for child in branches]
    else:
        passed = [mixed[node.children[0]] if node.kind == SPLIT else True]
    means = [
        _overtaken(structure, place, parts, rate * share) if over else parts[place][0]
        for place, share, over in zip(branches, shares, passed, strict=True)
    ]
    whole = means[0]
    if len(means) > 1:
        spreads: Floats = np.stack([parts[place][1][WHOLE] for place in branches], axis=1)
        share = np.array(shares)
        whole = in_order(np.stack(means, axis=1), spreads**2, rate * share, share)[0]
    return np.maximum(whole, found), np.zeros((3, len(found)))


def _overtaken(structure: Structure, index: int, parts: list[Part], rate: float) -> Floats:
    """Return the mean until a branch's records are in order again: they overtake by their services and their passes."""
    nodes, at = structure.network.nodes, index
    while nodes[at].kind in (SPLIT, PLACEMENT) and nodes[at].children:
        at = nodes[at].children[0]
    mean, spread = parts[index][0], parts[index][1][SERVED]
    numbers, shares = np.ones(1), np.ones(1)
    if nodes[at].kind in (REPLICATION, FEEDBACK):
        mean, spread = parts[nodes[at].children[0]][0], parts[nodes[at].children[0]][1][SERVED]
        numbers, shares = passes_by_share(structure, at)
    waits = overtaken(mean[:, None] * numbers, spread[:, None] ** 2 * numbers, rate, shares)[0]
    return np.maximum(waits, parts[index][0])


def tangent(
    structure: Structure, mean: Floats, deviation: Floats, overtakes: Floats, arrival_per_s: float
) -> tuple[float, Floats, Floats]:
    """Return a function below `latency_below`: a constant, slopes in means (n,) and in deviations (3, n), at least 0.

    It touches near the allocation given, (n,) and (3, n). Cost O(n nodes).
    """
    n = len(mean)
    mean = mean * (1 + APART * (GOLDEN * np.arange(1, n + 1) % 1))
    at = np.vstack([mean, deviation])
    asked = np.zeros((4, n), np.bool_)
    asked[0] = True
    asked[1 + JOINED] = _below(structure, structure.joins)
    ordered = frozenset(index for index, node in enumerate(structure.network.nodes) if node.ordered)
    asked[1 + WHOLE] = asked[1 + SERVED] = _below(structure, ordered)
    kinds, rows = np.nonzero(asked & (at > 0))
    scale = np.ones((len(rows) + 1, 4, n))
    scale[np.arange(1, len(rows) + 1), kinds, rows] += STEP
    some = np.moveaxis(scale * at, 0, 1)
    found = latency_below(structure, some[0], some[1:], overtakes, arrival_per_s)
    slopes = np.zeros((4, n))
    slopes[kinds, rows] = np.maximum((found[1:] - found[0]) / (STEP * at[kinds, rows]), 0.0)
    return float(found[0] - (slopes * at).sum()), slopes[0], slopes[1:]


def alone_below(structure: Structure, seconds_s: Floats, variation: Floats) -> tuple[float, Floats, Floats, Floats]:
    """Return a function below the latency of a record alone, in the components' times t, (n,): b + g t - h |t - t^|.

    Of joins in joins also how they vary counts, s_J, as long as no part varies more than an exponential time: the latency is
    convex in all t and s_J, and s_J moves by no more than h_J |t - t^| (`_moves`). Cost O(n nodes).

    Returns
    -------
    b, g, h, t^
    """
    n = len(seconds_s)
    at = seconds_s * (1 + APART * (GOLDEN * np.arange(1, n + 1) % 1))
    relative, none = np.sqrt(np.minimum(variation, 1.0)), np.zeros(n)
    spreads, moves = _moves(structure, at, variation)
    spreads = {index: spread for index, spread in spreads.items() if spread > 0}
    joins = list(spreads)
    scale = np.ones((n + len(joins) + 1, n))
    scale[np.arange(1, n + 1), np.arange(n)] += STEP
    wide = {index: np.full(len(scale), spread) for index, spread in spreads.items()}
    for place, index in enumerate(joins):
        wide[index][n + 1 + place] *= 1 + STEP
    some = scale * at
    found = latency_below(structure, some, np.stack([relative * some] * 3), none, 0.0, wide)
    slopes = np.maximum((found[1 : n + 1] - found[0]) / (STEP * at), 0.0)
    worth = np.maximum((found[n + 1 :] - found[0]) / (STEP * np.array([spreads[index] for index in joins])), 0.0)
    lost = sum((each * moves[index] for each, index in zip(worth.tolist(), joins, strict=True)), none)
    return float(found[0] - slopes @ at), slopes, lost, at


SHARED = 1 / math.e  # E[(E - 1)+] of an exponential variable of mean 1: what a maximum moves by with a part's deviation


def _moves(structure: Structure, seconds_s: Floats, variation: Floats) -> tuple[dict[int, float], dict[int, Floats]]:
    """Return how joins' times vary, and by how much that can change with each component's time, (n,) by join.

    Only of joins none of whose parts varies more than an exponential time. The deviation is a seminorm: it changes by no more
    than the times do, on average over what a record meets, and half of that where a mean alone moves.
    """
    nodes, n = structure.network.nodes, len(seconds_s)
    # Of each node: mean, deviation, by how much either moves with t, or None where it may vary too much.
    known: list[tuple[float, float, Floats, Floats] | None] = []
    spreads: dict[int, float] = {}
    moves: dict[int, Floats] = {}
    for index, node in enumerate(nodes):
        parts = [known[child] for child in node.children]
        if node.kind == CHOICE:
            parts = [part for part, share in zip(parts, structure.shares(index), strict=True) if share > 0]
        tame = [part for part in parts if part is not None]
        found: tuple[float, float, Floats, Floats] | None = None
        if index in structure.rows:
            row, unit = structure.rows[index], np.zeros(n)
            ratio, relative = float(structure.ratios[row]), math.sqrt(float(variation[row]))
            unit[row] = 1.0
            root = math.sqrt(ratio) * relative
            if ratio == 0 or variation[row] <= min(ratio, 1.0):
                found = ratio * float(seconds_s[row]), root * float(seconds_s[row]), ratio * unit, root * unit
        elif len(tame) < len(parts) or (node.kind == CHOICE and index not in structure.joins):
            pass
        elif index in structure.joins:
            means, deviations = np.array([[part[0] for part in tame]]), np.array([[part[1] for part in tame]])
            mean, variance = latest(means, deviations**2) if deviations.any() else (means.max(axis=1), np.zeros(1))
            found = (
                float(mean[0]), math.sqrt(float(variance[0])), sum((part[2] + SHARED * part[3] for part in tame), np.zeros(n)),
                sum((part[2] / 2 + part[3] for part in tame), np.zeros(n)),
            )  # fmt: skip
            spreads[index], moves[index] = found[1], found[3]
        elif node.kind in (REPLICATION, FEEDBACK):
            times = structure.factor(index)
            numbers, shares = passes_by_share(structure, index)
            spread = times**2 - times if node.kind == FEEDBACK else max(float(numbers**2 @ shares) - times**2, 0.0)
            if times >= 1 and spread <= (times**2 - times) * (1 + STEP):
                mean, deviation, first, second = tame[0]
                own, passes = math.sqrt(times), math.sqrt(max(spread, 0.0))
                found = (times * mean, math.hypot(own * deviation, passes * mean), times * first,
                         own * second + passes * first)  # fmt: skip
        else:
            none = np.zeros(n)
            found = (sum(part[0] for part in tame), math.hypot(*(part[1] for part in tame)),
                     sum((part[2] for part in tame), none), sum((part[3] for part in tame), none))  # fmt: skip
        known.append(found)
    return spreads, moves


def nests_tamely(structure: Structure, variation: Floats) -> bool:
    """Return whether joins stand in joins, and no part of any varies more than an exponential time."""
    _, moves = _moves(structure, np.ones(len(structure.rows)), np.maximum(variation, TINY))
    nodes = structure.network.nodes
    todo, inner = [(len(nodes) - 1, False)], False
    while todo:
        index, inside = todo.pop()
        inner = inner or (inside and index in structure.joins)
        todo += [(child, inside or index in structure.joins) for child in nodes[index].children]
    return inner and all(index in moves for index in structure.joins)


def _below(structure: Structure, above: frozenset[int]) -> NDArray[np.bool_]:
    """Return which boxes stand below one of some nodes, (n,)."""
    nodes = structure.network.nodes
    found = np.zeros(len(structure.rows), np.bool_)
    todo = [(len(nodes) - 1, False)]
    while todo:
        index, inside = todo.pop()
        inside = inside or index in above
        if index in structure.rows:
            found[structure.rows[index]] = inside
        todo += [(child, inside) for child in nodes[index].children]
    return found
