"""Loops: how often records pass, and which visits count as one service with the visit before."""

from __future__ import annotations

import numpy as np

from advisor.domain import elementary
from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION
from advisor.planning.requests import Floats
from advisor.planning.structure import StreamState, Structure

NEVER = 1e-12  # utilizations below count as no stream at all


def passes_of(structure: Structure, index: int) -> tuple[float, float]:
    """Return the share of records that pass a loop at all, and how often those do on average."""
    times = structure.factor(index)
    if structure.network.nodes[index].kind == FEEDBACK:
        return 1.0, times
    enters = 1 - structure.visits.routing.depths[index][0]
    return (enters, times / enters) if enters > 0 else (0.0, 1.0)


def busiest_of(structure: Structure, rho: Floats) -> list[Floats]:
    """Return the highest utilization inside each node, (K,) each."""
    busiest: list[Floats] = []
    for index, node in enumerate(structure.network.nodes):
        if index in structure.rows:
            busiest.append(rho[:, structure.rows[index]])
        else:
            busiest.append(np.maximum.reduce([np.zeros(len(rho)), *(busiest[child] for child in node.children)]))
    return busiest


def returning(structure: Structure, rho: Floats, busiest: list[Floats], feels_s: Floats, seen: StreamState) -> Floats:
    """Return the share of each component's visits after which a record comes again before it meets a busier one, (K, n).

    Such visits hold the queue up together, as one service (Whitt and You 2022, near-immediate feedback). A pass of a loop
    with return probability r = 1 - 1 / E[passes] comes to the component with probability p, to nobody busier instead with
    probability b, and is otherwise lost: q = r p / (1 - r b). Visits that are L apart are together in windows of t to the
    share E[(1 - L / t)+], which is all that they add to its dispersion: 1 - (1 - exp(-t / L)) L / t for exponential L of
    that mean, with t the window that the queue feels (`feels_s`, over 1 - q). Cost O(K nodes depth).
    """
    nodes = structure.network.nodes
    none = np.zeros(len(rho))
    once = np.ones(rho.shape)  # the share that does not come again
    for index, node in enumerate(nodes):
        if node.kind not in (REPLICATION, FEEDBACK):
            continue
        back = 1 - 1 / max(passes_of(structure, index)[1], 1.0)
        if back <= 0:
            continue
        todo: list[tuple[int, Floats, float, tuple[tuple[float, Floats], ...]]] = [(node.children[0], none, 1.0, ())]
        while todo:
            at, beside, reached, elsewhere = todo.pop()
            inner = nodes[at]
            if at in structure.rows:
                row = structure.rows[at]
                own = rho[:, row]
                other = sum((share * (most <= own) for share, most in elsewhere), none)
                soon = back * reached / (1 - back * other)
                if index in seen.passes_s and seen.stays_s is not None:
                    away = np.maximum(seen.passes_s[index] - reached * seen.stays_s[:, row], 0.0) / (1 - back * other)
                    ratio = np.maximum(feels_s[:, row] / (1 - soon) / np.maximum(away, NEVER), NEVER)
                    soon = soon * (1 + elementary.expm1(-ratio) / ratio)
                once[:, row] *= np.where(beside <= own, 1 - soon, 1.0)
                continue
            for place, child in enumerate(inner.children):
                rest = [busiest[some] for some in inner.children[:place] + inner.children[place + 1 :]]
                if inner.kind == CHOICE and at not in structure.joins:
                    shares = structure.shares(at)
                    others = [reached * share for share in shares[:place] + shares[place + 1 :]]
                    here = elsewhere + tuple(zip(others, rest, strict=True))
                    todo.append((child, beside, reached * shares[place], here))
                else:
                    todo.append((child, np.maximum.reduce([beside, *rest]), reached, elsewhere))
    return 1 - once


def in_the_long_run(structure: Structure, entering: float) -> tuple[Floats, Floats, Floats]:
    """Return how often a record passes each box once it does, and what its streams have beyond Poisson's for ever, (n,).

    Of the records new to all loops, and of all that come. Queues change neither: only splits and loops do.
    """
    nodes = structure.network.nodes
    found = np.ones((3, len(structure.rows)))
    todo = [(len(nodes) - 1, 1.0, entering - 1, entering - 1)]
    while todo:
        index, passes, first, last = todo.pop()
        node = nodes[index]
        if index in structure.rows:
            found[:, structure.rows[index]] = passes, first, last
        shares = structure.shares(index) if node.kind == CHOICE else [1.0] * len(node.children)
        times = 1.0
        if node.kind in (REPLICATION, FEEDBACK):
            enters, times = passes_of(structure, index)
            shares = [enters]
        todo += [(child, passes * times, first * share, last * share / times)
                 for child, share in zip(node.children, shares, strict=True)]  # fmt: skip
    return found[0], found[1], found[2]
