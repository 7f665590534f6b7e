"""How many visits at most count as one service with the visit before, whatever the other boxes are given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.domain.networks import CHOICE, FEEDBACK, JOIN, REPLICATION
from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.queues.streams import NEVER, passes_of
from advisor.planning.queues.structure import Structure


def depths_of(structure: Structure) -> list[int]:
    """Return how many loops are around each box, (n,)."""
    nodes = structure.network.nodes
    found = [0] * len(structure.rows)
    todo = [(len(nodes) - 1, 0)]
    while todo:
        index, depth = todo.pop()
        if index in structure.rows:
            found[structure.rows[index]] = depth
        inner = depth + (nodes[index].kind in (REPLICATION, FEEDBACK))
        todo += [(child, inner) for child in nodes[index].children]
    return found


def join_shares(structure: Structure) -> Floats:
    """Return the share of the records of the innermost join around a box that come to it, (n,); 0 outside joins."""
    nodes = structure.network.nodes
    found = np.zeros(len(structure.rows))
    todo = [(len(nodes) - 1, 0.0)]
    while todo:
        index, share = todo.pop()
        if index in structure.rows:
            found[structure.rows[index]] = share
        here, node = 1.0 if index in structure.joins else share, nodes[index]
        shares = structure.shares(index) if node.kind == CHOICE else [1.0] * len(node.children)
        if node.kind in (REPLICATION, FEEDBACK):
            shares = [passes_of(structure, index)[0]]
        todo += [(child, here * part) for child, part in zip(node.children, shares, strict=True)]
    return found


def returning_at_most(
    structure: Structure, rho: Floats, seconds_s: Floats, instances: Ints, possible: NDArray[np.bool_], variation: Floats
) -> Floats:
    """Return the largest share of visits that `streams.returning` may say of each shape, (n, shapes).

    Nobody beside it is less busy than with the shape that makes it least so, and no record is away for less than the
    services of the others in a pass. Cost O(n shapes depth).
    """
    nodes = structure.network.nodes
    idle, quick = (np.where(possible, some, np.inf).min(axis=1) for some in (rho, seconds_s))
    busiest: list[float] = []
    lasts: list[float] = []
    for index, node in enumerate(nodes):
        parts = [lasts[child] for child in node.children]
        busiest.append(max([0.0, *(busiest[child] for child in node.children)]))
        if index in structure.rows:
            busiest[-1] = float(idle[structure.rows[index]])
            lasts.append(float(structure.ratios[structure.rows[index]] * quick[structure.rows[index]]))
        elif index in structure.joins:
            lasts.append(max(parts, default=0.0))
        elif node.kind == CHOICE:
            lasts.append(sum(share * part for share, part in zip(structure.shares(index), parts, strict=True)))
        else:
            lasts.append(structure.factor(index) * sum(parts))
    feels = rho * seconds_s / instances * (1 + variation[:, None]) / 2 / (1 - rho) ** 2
    once = np.ones(rho.shape)
    for index, node in enumerate(nodes):
        if node.kind in (REPLICATION, FEEDBACK):
            back = 1 - 1 / max(passes_of(structure, index)[1], 1.0)
            if back > 0:
                _one_loop(structure, node.children[0], back, rho, feels, busiest, lasts, once)
    return 1 - once


def _one_loop(
    structure: Structure, start: int, back: float, rho: Floats, feels: Floats, busiest: list[float], lasts: list[float],
    once: Floats,
) -> None:  # fmt: skip
    """Multiply `once` by the share of visits that this loop does not bring back at once."""
    nodes = structure.network.nodes
    todo: list[tuple[int, float, float, tuple[tuple[float, float], ...], float]] = [(start, 0.0, 1.0, (), 0.0)]
    while todo:
        at, beside, reached, elsewhere, away = todo.pop()
        node = nodes[at]
        if at in structure.rows:
            row = structure.rows[at]
            own = rho[row]
            away = away if structure.ratios[row] >= 1 else 0.0
            other = sum((share * (most <= own) for share, most in elsewhere), np.zeros_like(own))
            soon = back * reached / (1 - back * other)
            ratio = np.maximum(feels[row] / (1 - soon) / max(away, NEVER), NEVER)
            soon = soon * (1 + np.expm1(-ratio) / ratio)
            once[row] *= np.where(beside <= own, 1 - soon, 1.0)
            continue
        if node.kind in (REPLICATION, FEEDBACK) and structure.factor(at) < 1:
            away = -np.inf  # a pass may hold less of the box than one visit
        for place, child in enumerate(node.children):
            others = node.children[:place] + node.children[place + 1 :]
            rest = [busiest[some] for some in others]
            if node.kind == CHOICE and at not in structure.joins:
                shares = structure.shares(at)
                beside_it = shares[:place] + shares[place + 1 :]
                here = elsewhere + tuple(zip((reached * share for share in beside_it), rest, strict=True))
                todo.append((child, beside, reached * shares[place], here, away + reached * sum(
                    share * lasts[some] for share, some in zip(beside_it, others, strict=True))))  # fmt: skip
            else:
                more = 0.0 if at in structure.joins or node.kind == JOIN else sum(lasts[some] for some in others)
                todo.append((child, max(beside, *rest, 0.0), reached, elsewhere, away + reached * more))


def feels_at_least(
    rho: Floats, variation: float, into: Floats, rate: float, again: Floats, lowest: Floats, highest: Floats
) -> tuple[Floats, Ints]:
    """Return at least what `streams.feels` says where up to `again` of the visits count as one with the visit before.

    At the time t = theta t^, t^ the one at which a dispersion I is felt, a queue feels (I + c^2) (2 sqrt(theta) - theta) -
    c^2. With the visits that count together both t^ and c^2 change, each in one direction. Without any it is exact.
    """
    several = again + (1 - again) * variation
    least, most = np.minimum(several, variation), np.maximum(several, variation)
    pace = 2 * (1 - rho) ** 2 * rate / rho**2
    at = np.clip((1 + into + variation) / pace, lowest, highest)
    theta = at * pace / np.maximum(1 + into + least, NEVER), at * pace * (1 - again) / np.maximum(1 + into + most, NEVER)
    share = np.minimum(*(2 * np.sqrt(some) - some for some in theta))
    found = (1 + into) * share - most * (1 - share)
    window = found.argmax(axis=1, keepdims=True)
    return np.take_along_axis(found, window, axis=1)[:, 0], window
