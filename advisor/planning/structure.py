"""From the times of components to the time of a record through the network's structure.

Every node has a mean and a variance of the time that a record which enters it spends there: sums along a series,
mixtures over a choice, the last of all at a join, random sums over replicas and returns. Times of parts are taken as
independent. At replicated synchrocells after a choice a record meets its partner from the other branches: that choice
counts as a join; a bare synchrocell joins once, and is then the identity. Waiting for order (`||`, `**`, `!!`) is left to
`record_runs`: a lone record waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, sqrt
from statistics import NormalDist

import numpy as np

from advisor.domain import elementary
from advisor.domain.networks import CHOICE, FEEDBACK, JOIN, PLACEMENT, REPLICATION, SERIES, SYNC, Network
from advisor.domain.vectors import Floats, Ints
from advisor.planning.visits import Visits, mean_depth


@dataclass(frozen=True, slots=True)
class Structure:
    """A network with its routing, as the latency sees it."""

    network: Network
    visits: Visits
    ratios: Floats  # (n,): Visits per record over the entries that structure gives each box: 1 unless visits were given
    # nodes whose parts a record passes all at once: joins, and choices before replicated synchrocells
    joins: frozenset[int]
    rows: dict[int, int]  # node of a box -> its row in ``network.keys``

    def passes(self, index: int) -> tuple[float, float]:
        """Return mean and variance of how often a record passes the node's only part."""
        kind = self.network.nodes[index].kind
        if kind == REPLICATION:
            depths = self.visits.routing.depths[index]
            mean = mean_depth(depths)
            second = elementary.added(share * depth * depth for depth, share in enumerate(depths))
            return mean, max(second - mean * mean, 0.0)
        back = self.visits.routing.returns[index] if kind == FEEDBACK else 0.0
        return 1 / (1 - back), back / (1 - back) ** 2

    def shares(self, index: int) -> list[float]:
        """Return the shares of a choice's branches; equal ones where no record comes."""
        children = self.network.nodes[index].children
        return list(self.visits.routing.shares.get(index, [1 / len(children)] * len(children)))


def structure_of(network: Network, visits: Visits) -> Structure:
    """Return the structure of a network whose visits are known. Cost O(nodes)."""
    entries = visits.entries[list(network.boxes)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(entries > 0, visits.per_record / entries, 0.0)
    joins = {index for index, node in enumerate(network.nodes) if node.kind == JOIN}
    for node in network.nodes:
        if node.kind != SERIES:
            continue
        last = -1
        for child in node.children:
            inner = _inside(network, child)
            if network.nodes[inner].kind == CHOICE:
                last = inner
            elif network.nodes[inner].kind == SYNC and last >= 0 and _joins_on(network, child):
                joins.add(last)
                last = -1
    return Structure(network, visits, ratios, frozenset(joins), {index: row for row, index in enumerate(network.boxes)})


def _joins_on(network: Network, index: int) -> bool:
    """Return whether synchrocells join record after record: in a replication they do, a bare one joins once."""
    while network.nodes[index].kind == PLACEMENT:
        index = network.nodes[index].children[0]
    return network.nodes[index].kind == REPLICATION


def _inside(network: Network, index: int) -> int:
    """Return what a placement, or a replication of a synchrocell, is about."""
    node = network.nodes[index]
    while node.kind == PLACEMENT or (node.kind == REPLICATION and network.nodes[node.children[0]].kind == SYNC):
        index = node.children[0]
        node = network.nodes[index]
    return index


def through(
    structure: Structure,
    mean: Floats,
    variance: Floats,
    places: tuple[Ints, Floats] | None = None,
    *,
    nearly: bool = False,
) -> tuple[Floats, Floats]:
    """Return mean and variance of a record's time in the network, (K,) each, for K allocations; nobody waits for order.

    `mean`, `variance` (K, n) are those of one visit, waiting included. `places` is (group, service), (K, n) each, where
    components take turns: branches of a join then go one after the other where they meet. `nearly`: joins by a formula for a
    search. Cost O(K nodes).
    """
    moments, zero = list[Moments](), np.zeros(len(mean))
    work: list[Moments] = []
    if places is not None and structure.joins:
        group, service_s = places
        n = len(structure.rows)
        work = work_of(structure, group, n, service_s, np.zeros(n))
    for index, node in enumerate(structure.network.nodes):
        if index in structure.rows:
            row = structure.rows[index]
            ratio = structure.ratios[row]
            found = ratio * mean[:, row], ratio * variance[:, row]
        else:
            last = nearly_latest if nearly else latest
            found = _of_parts(structure, index, [moments[child] for child in node.children], zero, last)
        if work and index in structure.joins:
            found = np.maximum(found[0], _one_after_the_other([work[child][0] for child in node.children])), found[1]
        moments.append(found)
    return moments[-1]


def _of_parts(structure: Structure, index: int, children: list[Moments], zero: Floats, last: Last | None) -> Moments:
    """Return the time of a record in a node from those in its parts; of joins the sum, where `last` is None."""
    kind = structure.network.nodes[index].kind
    if index in structure.joins and kind == CHOICE:  # before a synchrocell: of the branches that records take
        children = [some for some, share in zip(children, structure.shares(index), strict=True) if share > 0]
    if index in structure.joins and last is not None:
        return _joined(children, last)
    if kind == SERIES or index in structure.joins:
        return sum((m for m, _ in children), zero), sum((v for _, v in children), zero)
    if kind == CHOICE:
        return _mixture(structure.shares(index), children)
    if kind in (REPLICATION, FEEDBACK):
        return _repeated(structure, index, children[0])
    return children[0] if children else (zero, zero)


def _one_after_the_other(parts: list[Floats]) -> Floats:
    """Return the time until the group with most to do for several branches of a join has done it all, (K,).

    Exact where branches are single visits, and at most what a schedule can reach elsewhere: branches that meet again and
    again at the same group may take longer.
    """
    several: Ints = np.sum([work > 0 for work in parts], axis=0)
    return np.where(several > 1, np.sum(parts, axis=0), 0.0).max(axis=1)


Moments = tuple[Floats, Floats]
Last = Callable[[Floats, Floats], Moments]  # of means and variances, (K, c) each, those of the maximum


def _joined(children: list[Moments], last: Last) -> Moments:
    """Return the last of the parts."""
    means: Floats = np.stack([m for m, _ in children], axis=1)
    variances: Floats = np.stack([v for _, v in children], axis=1)
    if not variances.any():
        return means.max(axis=1), np.zeros(len(means))
    infinite = np.isinf(np.asarray(means.max(axis=1), np.float64))
    some = ~infinite
    mean, variance = np.full(len(means), np.inf), np.full(len(means), np.inf)
    if some.any():
        mean[some], variance[some] = last(means[some], variances[some])
    return mean, variance


def _mixture(shares: list[float], children: list[Moments]) -> Moments:
    mean, second = np.zeros_like(children[0][0]), np.zeros_like(children[0][0])
    for share, (m, v) in zip(shares, children, strict=True):
        if share > 0:
            mean = mean + share * m
            second = second + share * (v + m**2)
    return mean, _positive(second - np.where(np.isfinite(mean), mean, 0.0) ** 2)


def _repeated(structure: Structure, index: int, child: Moments) -> Moments:
    """Return the sum over N passes: E[N] m, E[N] v + Var[N] m^2."""
    times, spread = structure.passes(index)
    if times == 0:
        return np.zeros_like(child[0]), np.zeros_like(child[0])
    return times * child[0], times * child[1] + spread * child[0] ** 2


def work_of(structure: Structure, queue: Ints, queues: int, seconds_s: Floats, variation: Floats) -> list[Moments]:
    """Return mean and variance of what a record needs of each queue inside each node, over all its visits, (K, queues) each.

    `queue` (K, n) is that of each component. Exact for the routing that `record_runs` executes. Cost O(nodes K queues).
    """
    moments, zero, rows = list[Moments](), np.zeros((len(queue), queues)), np.arange(len(queue))
    for index, node in enumerate(structure.network.nodes):
        if index in structure.rows:
            row = structure.rows[index]
            mean, variance, whole = zero.copy(), zero.copy(), float(structure.ratios[row] // 1)
            part, own = float(structure.ratios[row]) - whole, seconds_s[:, row]
            mean[rows, queue[:, row]] = (whole + part) * own
            variance[rows, queue[:, row]] = ((whole + part) * float(variation[row]) + part * (1 - part)) * own * own
            moments.append((mean, variance))
        else:
            moments.append(_of_parts(structure, index, [moments[child] for child in node.children], zero, None))
    return moments


def _positive(values: Floats) -> Floats:
    return np.maximum(values, 0.0)


# ----------------------------------------------------------------------------------------------------------------------------
# The time until the last of several is there, and the quantile of a time, by two moments. Quantiles are those of a log-normal,
# as services are where records are executed.


SMOOTH = 0.35  # of a maximum in a search
# Panels of a Gauss-Legendre rule, in means of the slowest tail: dense where fast tails bend, out to exp(-40).
EDGES = np.array([0.0, 0.02, 0.1, 0.35, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0])
ABSCISSAS, GAUSS = np.polynomial.legendre.leggauss(8)
POINTS = (EDGES[1:, None] + EDGES[:-1, None] + np.diff(EDGES)[:, None] * ABSCISSAS).ravel() / 2
WEIGHTS = (np.diff(EDGES)[:, None] * GAUSS).ravel() / 2
TINY = 1e-300  # a mean above 0, to divide by
SPREAD_MIN = 1e-6  # of the logarithm of a time
TABLE_X = np.linspace(-8.0, 8.0, 4001)
TABLE = np.array([0.5 * erfc(-z / sqrt(2.0)) for z in TABLE_X.tolist()])


def normal_below(z: Floats) -> Floats:
    """Return the standard normal's distribution function, to 5e-7. Cost O(n)."""
    return np.interp(z, TABLE_X, TABLE)


def log_normal(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the logarithms of times with these means, positive, and variances."""
    spread: Floats = elementary.log1p(variance / mean**2)
    return elementary.log(mean) - spread / 2, np.maximum(np.sqrt(spread), SPREAD_MIN)


def nearly_latest(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the maximum of independent times nearly, (K, c) -> (K,) each, for a search. Cost O(K c).

    One after the other: E[max] = (m + n + sqrt((m - n)^2 + c (v + w))) / 2 with c = 0.35, by which two M/M/1 of one stream at
    high load are right (1.39 of one, Nelson and Tantawi 1988); the variance is mixed as the means are.
    """
    most, spread = mean[:, 0], variance[:, 0]
    for place in range(1, mean.shape[1]):
        apart = most - mean[:, place]
        root = np.sqrt(apart * apart + SMOOTH * (spread + variance[:, place]))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(root > 0, (1 + apart / root) / 2, 0.5)
        most = (most + mean[:, place] + root) / 2
        spread = share * spread + (1 - share) * variance[:, place]
    return most, spread


def latest(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the maximum of independent times, (K, c) -> (K,) each. Cost O(K c).

    E[max] = a + int_a P(max > x) dx, a where all of them may be there. A time is d + X with X exponential where its variance is
    at most its mean squared, else one of two exponentials with balanced means: closed tails with both moments.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(mean > 0, variance / mean**2, 0.0)
        heavy, spread = square > 1, np.minimum(np.sqrt(variance), mean)
        share = np.where(heavy, (1 + np.sqrt(np.maximum(square - 1, 0.0) / (square + 1))) / 2, 1.0)
        first, second = np.where(heavy, mean / (2 * share), spread), np.where(heavy, mean / (2 * (1 - share)), 0.0)
        shift = np.where(heavy, 0.0, mean - spread)
        start, scale = shift.max(axis=1, keepdims=True), np.maximum(first, second).max(axis=1, keepdims=True)
        x, weight = start + scale * POINTS, scale * WEIGHTS
        over = x[:, None, :] - shift[:, :, None]
        tail = [
            np.where(phase > 0, part * elementary.exp(-over / np.maximum(phase, TINY)), 0.0)
            for part, phase in ((share[..., None], first[..., None]), (1 - share[..., None], second[..., None]))
        ]
    left = 1 - np.prod(1 - tail[0] - tail[1], axis=1)
    found = start[:, 0] + (weight * left).sum(axis=1)
    return found, np.maximum(start[:, 0] ** 2 + (weight * 2 * x * left).sum(axis=1) - found**2, 0.0)


def quantile_of(mean: Floats, variance: Floats, level: float) -> Floats:
    """Return the quantile of times with these means and variances, elementwise."""
    known = (mean > 0) & np.isfinite(mean)
    middle, spread = log_normal(np.where(known, mean, 1.0), np.where(known, variance, 0.0))
    return np.where(known, elementary.exp(middle + NormalDist().inv_cdf(level) * spread), mean)
