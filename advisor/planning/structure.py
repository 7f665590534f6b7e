"""From the times of components to the time of a record through the network's structure.

Every node has a mean and a variance of the time that a record which enters it spends there: sums along a series,
mixtures over a choice, the last of all at a join, random sums over replicas and returns. Times of parts are taken as
independent, but for the waits in branches of a join, which the same arrivals cause. At replicated synchrocells after a
choice a record meets its partner from the other branches: that choice counts as a join; a bare synchrocell joins once,
and is then the identity. Where order is kept (`||`, `**`, `!!`) a record waits for those before it, once records arrive
at a rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.networks import CHOICE, FEEDBACK, JOIN, PLACEMENT, REPLICATION, SERIES, SPLIT, SYNC, Network
from advisor.planning.extremes import TINY, Held, in_order, latest, overtaken
from advisor.planning.requests import Floats, Ints
from advisor.planning.routing import mean_depth
from advisor.planning.visits import Visits


@dataclass(frozen=True, slots=True)
class Structure:
    """A network with its routing, as the latency sees it."""

    network: Network
    visits: Visits
    ratios: Floats  # (n,): Visits per record over the entries that structure gives each box: 1 unless visits were given
    # nodes whose parts a record passes all at once: joins, and choices before replicated synchrocells
    joins: frozenset[int]
    rows: dict[int, int]  # node of a box -> its row in ``network.keys``

    @property
    def keeps_order(self) -> bool:
        """True when a part hands its records on in order."""
        return any(node.ordered for node in self.network.nodes)

    @property
    def loops(self) -> bool:
        """True when records may pass a part again."""
        return any(node.kind in (REPLICATION, FEEDBACK) for node in self.network.nodes)

    def factor(self, index: int) -> float:
        """Return how often a record passes the node's only part."""
        kind = self.network.nodes[index].kind
        if kind == REPLICATION:
            return mean_depth(self.visits.routing.depths[index])
        return 1 / (1 - self.visits.routing.returns[index]) if kind == FEEDBACK else 1.0

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
    instances: Ints,
    arrival_per_s: float = 0.0,
    own_variance: Floats | None = None,
    common: Floats | None = None,
    seen: StreamState | None = None,
    places: tuple[Ints, Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Return mean and variance of a record's time in the network, (K,) each, for K allocations.

    `mean`, `variance` (K, n) are those of one visit, waiting included; `own_variance` the part of it in which
    neighbouring records differ (services: waits are common to neighbours, so records do not overtake each other by them),
    `common` the part that branches of a join around it share. Where a component has several `instances` records overtake
    each other. `arrival_per_s` 0 means one record alone, which waits for nobody's order. `seen` takes batches and times
    of passes. `places` is (group, service, wait), (K, n) each, where components take turns: branches of a join then go
    one after the other where they meet. Cost O(K nodes), with joins and order O(K children^2 of them).
    """
    halves = arrival_per_s > 0 and structure.keeps_order
    if halves:  # the second half of all rows has the same means, and the variances by which records overtake
        own = variance if own_variance is None else own_variance
        mean, variance, instances = np.tile(mean, (2, 1)), np.concatenate([variance, own]), np.tile(instances, (2, 1))
        common = None if common is None else np.concatenate([common, np.zeros_like(common)])
        places = None if places is None else tuple(np.tile(part, (2, 1)) for part in places)  # type: ignore[assignment]
    nodes, parts = structure.network.nodes, len(mean)
    moments: list[Moments] = []
    unordered: list[Floats] = []
    zero = np.zeros(parts)
    shared = [zero] * len(nodes)
    asked: list[Asked] = []
    meets = places is not None and bool(structure.joins)
    for index, node in enumerate(nodes):
        children = [moments[child] for child in node.children]
        mixed = [unordered[child] for child in node.children]
        overtakes = np.maximum.reduce(mixed) if mixed else zero
        if index in structure.rows:
            row = structure.rows[index]
            ratio = structure.ratios[row]
            found = ratio * mean[:, row], ratio * variance[:, row]
            overtakes = (instances[:, row] > 1).astype(np.float64)
        else:
            found = _of_parts(structure, index, children, [shared[child] for child in node.children], zero)
            if node.kind in (CHOICE, REPLICATION, FEEDBACK) and index not in structure.joins:
                overtakes = np.ones(parts)
        if meets and places is not None:
            asked.append(_asked(structure, index, places, [asked[child] for child in node.children]))
            if index in structure.joins:
                found = np.maximum(found[0], _one_after_the_other([asked[child] for child in node.children])), found[1]
        if node.ordered and (rate := arrival_per_s * structure.visits.entries[index]) > 0:
            found, batches = _ordered(structure, index, found, [*moments, found], mixed, rate)
            overtakes = zero
            _note(seen, index, batches)
        if common is not None and structure.joins:
            shared[index] = _in_common(structure, index, common, [shared[child] for child in node.children], found[1])
        moments.append(found)
        unordered.append(overtakes)
    _note_passes(seen, structure, moments, parts // 2 if halves else parts)
    whole, spread = moments[-1]
    return (whole[: parts // 2], spread[: parts // 2]) if halves else (whole, spread)


def _of_parts(structure: Structure, index: int, children: list[Moments], common: list[Floats], zero: Floats) -> Moments:
    """Return the time of a record in a node from those in its parts."""
    kind = structure.network.nodes[index].kind
    if index in structure.joins:
        return _joined(structure, index, children, common)
    if kind == SERIES:
        return sum((m for m, _ in children), zero), sum((v for _, v in children), zero)
    if kind == CHOICE:
        return _mixture(structure.shares(index), children)
    if kind in (REPLICATION, FEEDBACK):
        return _repeated(structure, index, children[0])
    return children[0] if children else (zero, zero)


Asked = tuple[Floats, Floats]  # of each group, (K, n) each: work of a record, and the longest wait for a turn


def _asked(structure: Structure, index: int, places: tuple[Ints, Floats, Floats], parts: list[Asked]) -> Asked:
    """Return what a record asks of the groups inside a node."""
    group, service_s, wait_s = places
    if index in structure.rows:
        row = structure.rows[index]
        work, waits, ratio = np.zeros(group.shape), np.zeros(group.shape), float(structure.ratios[row])
        at = np.arange(len(group)), group[:, row]
        work[at] = ratio * service_s[:, row]
        waits[at] = wait_s[:, row] * (ratio > 0)
        return work, waits
    kind = structure.network.nodes[index].kind
    times = [structure.factor(index)] * len(parts)
    if kind == CHOICE:  # before a synchrocell every branch that records take is passed, as in a join
        shares = structure.shares(index)
        times = [float(share > 0) for share in shares] if index in structure.joins else shares
    none = np.zeros(group.shape)
    work = sum((some * part[0] for some, part in zip(times, parts, strict=True)), none)
    waits = [part[1] for some, part in zip(times, parts, strict=True) if some > 0]
    return work, np.maximum.reduce(waits) if waits else none


def _one_after_the_other(parts: list[Asked]) -> Floats:
    """Return the time until the group with most to do for several branches of a join has done it all, (K,).

    Exact where branches are single visits, and at most what a schedule can reach elsewhere: branches that meet again and
    again at the same group may take longer.
    """
    several: Ints = np.sum([work > 0 for work, _ in parts], axis=0)
    total = np.sum([work for work, _ in parts], axis=0) + np.maximum.reduce([waits for _, waits in parts])
    return np.where(several > 1, total, 0.0).max(axis=1)


def _note(seen: StreamState | None, index: int, batches: Batches) -> None:
    if seen is not None:
        seen.batches[index] = batches


def _note_passes(seen: StreamState | None, structure: Structure, moments: list[Moments], rows: int) -> None:
    if seen is not None:
        nodes = enumerate(structure.network.nodes)
        loops = ((index, node.children[0]) for index, node in nodes if node.kind in (REPLICATION, FEEDBACK))
        seen.passes_s.update((index, moments[child][0][:rows]) for index, child in loops)


Moments = tuple[Floats, Floats]
RARE = 1e-3  # of records: how many pass a feedback more often than is told apart
PASSES_MAX = 16  # told apart


@dataclass(slots=True)
class StreamState:
    """What records meet in an allocation, from one round of its streams to the next, (K,) or (K, n) each."""

    # node that keeps order -> batches in which records leave it, of those that overtake within a branch and across
    batches: dict[int, Batches]
    passes_s: dict[int, Floats]  # loop -> mean time of one pass of its part
    stays_s: Floats | None = None  # (K, n): mean time of a visit


Batches = tuple[Held, Held]


def _in_common(structure: Structure, index: int, common: Floats, parts: list[Floats], variance: Floats) -> Floats:
    """Return the variance of a node's time that the other branches of a join around it have too."""
    if index in structure.rows:
        row = structure.rows[index]
        return structure.ratios[row] * common[:, row]
    if not parts:
        return np.zeros(len(common))
    if index in structure.joins:
        found: Floats = np.maximum.reduce(parts)
    else:
        kind = structure.network.nodes[index].kind
        weights = structure.shares(index) if kind == CHOICE else [structure.factor(index)] * len(parts)
        found = sum((weight * part for weight, part in zip(weights, parts, strict=True)), np.zeros(len(common)))
    return np.minimum(found, variance)


def _joined(structure: Structure, index: int, children: list[Moments], common: list[Floats]) -> Moments:
    """Return the last of the parts; of a choice before a synchrocell, of the branches that records take."""
    taken = np.arange(len(children))
    if structure.network.nodes[index].kind == CHOICE:
        taken = np.flatnonzero(np.array(structure.shares(index)) > 0)
    means: Floats = np.stack([children[some][0] for some in taken], axis=1)
    variances: Floats = np.stack([children[some][1] for some in taken], axis=1)
    together: Floats = np.stack([common[some] for some in taken], axis=1)
    if not variances.any():
        return means.max(axis=1), np.zeros(len(means))
    infinite = np.isinf(np.asarray(means.max(axis=1), np.float64))
    some = ~infinite
    mean, variance = np.full(len(means), np.inf), np.full(len(means), np.inf)
    if some.any():
        mean[some], variance[some] = latest(means[some], variances[some], together[some])
    return mean, variance


def _mixture(shares: list[float], children: list[Moments]) -> Moments:
    mean, second = np.zeros(len(children[0][0])), np.zeros(len(children[0][0]))
    for share, (m, v) in zip(shares, children, strict=True):
        if share > 0:
            mean = mean + share * m
            second = second + share * (v + m**2)
    return mean, _positive(second - np.where(np.isfinite(mean), mean, 0.0) ** 2)


def _repeated(structure: Structure, index: int, child: Moments) -> Moments:
    """Return the sum over N passes: E[N] m, E[N] v + Var[N] m^2."""
    if structure.network.nodes[index].kind == FEEDBACK:
        back = structure.visits.routing.returns[index]
        times, spread = 1 / (1 - back), back / (1 - back) ** 2
    else:
        numbers, shares = passes_by_share(structure, index)
        times = elementary.weighted(numbers, shares)
        spread = max(elementary.weighted(numbers**2, shares) - times**2, 0.0)
    if times == 0:
        return np.zeros_like(child[0]), np.zeros_like(child[0])
    return times * child[0], times * child[1] + spread * child[0] ** 2


def passes_by_share(structure: Structure, index: int) -> tuple[Floats, Floats]:
    """Return numbers of passes through a loop and their shares; of a feedback up to what hardly any record reaches."""
    routing = structure.visits.routing
    if structure.network.nodes[index].kind == REPLICATION:
        depths = np.asarray(routing.depths[index])
        return np.arange(len(depths), dtype=np.float64), depths
    back = routing.returns[index]
    most = 1 if back <= 0 else math.ceil(math.log(RARE) / math.log(back)) + 1
    numbers = np.arange(1, min(most, PASSES_MAX) + 1, dtype=np.float64)
    shares = (1 - back) * elementary.power(back, numbers - 1)
    # The rest passes as often as keeps the mean right.
    shares[-1] = 1 - shares[:-1].sum()
    numbers[-1] += back / (1 - back)
    return numbers, shares


def _cases(structure: Structure, index: int, moments: list[Moments]) -> tuple[list[Moments], Floats]:
    """Return the times of a node's records by the passes that they take, where the node is a loop and nothing else."""
    nodes, at = structure.network.nodes, index
    while nodes[at].kind in (SPLIT, PLACEMENT) and nodes[at].children:
        at = nodes[at].children[0]
    if nodes[at].kind not in (REPLICATION, FEEDBACK):
        return [moments[index]], np.ones(1)
    numbers, shares = passes_by_share(structure, at)
    mean, variance = moments[nodes[at].children[0]]
    return [(number * mean, number * variance) for number in numbers.tolist()], shares


def _ordered(
    structure: Structure, index: int, found: Moments, moments: list[Moments], mixed: list[Floats], rate: float
) -> tuple[Moments, Batches]:
    """Return the time until a record may leave in order, and in what batches records leave, of the first half of rows.

    Those of its own branch come first, then the others.

    Rows come in halves, as `through` makes them: the whole variances, and those by which records overtake.
    """
    stable = np.isfinite(found[0]) & np.isfinite(found[1])
    half = len(stable) // 2
    stable[:half] &= stable[half:]
    stable[half:] = stable[:half]
    if not stable.any():
        return found, (_none(half), _none(half))
    if structure.network.nodes[index].kind == CHOICE and index not in structure.joins:
        shares = np.array(structure.shares(index))
        chosen = np.flatnonzero(shares > 0)
        places = [structure.network.nodes[index].children[branch] for branch in chosen]
        branches, shares = list(zip(places, [mixed[branch] for branch in chosen], strict=True)), shares[chosen]
    else:
        own = mixed[0] if structure.network.nodes[index].kind == SPLIT else np.ones(len(stable))
        branches, shares = [(index, own)], np.ones(1)
    kept = [_within(moments[place], _cases(structure, place, moments), overtakes, rate * share, stable)
            for (place, overtakes), share in zip(branches, shares.tolist(), strict=True)]  # fmt: skip
    means: Floats = np.stack([mean for mean, _, _ in kept], axis=1)
    variances: Floats = np.stack([variance for _, variance, _ in kept], axis=1)
    ordered, across = (means[:, 0], variances[:, 0]), _none(len(means))
    if len(kept) > 1:
        mean, variance, across = in_order(means, variances, rate * shares, shares)
        ordered = mean, variance
    results = found[0].copy(), found[1].copy()
    for result, value in zip(results, ordered, strict=True):
        result[stable] = value
    first = stable[:half]
    batches = _none(half), _none(half)
    for share, (_, _, one) in zip(shares.tolist(), kept, strict=True):
        batches[0].behind[first] += share * one.behind
        batches[0].lasts_s[first] += share * one.behind * one.lasts_s
    batches[0].lasts_s[:] /= np.maximum(batches[0].behind, TINY)
    batches[1].behind[first], batches[1].lasts_s[first] = (
        some[: first.sum()] for some in (across.behind, across.lasts_s)
    )
    return (np.maximum(results[0], found[0]), results[1]), batches


def _none(rows: int) -> Held:
    return Held(np.zeros(rows), np.zeros(rows))


def _within(
    whole: Moments, cases: tuple[list[Moments], Floats], overtakes: Floats, rate: float, stable: NDArray[np.bool_]
) -> tuple[Floats, Floats, Held]:
    """Return a branch's moments once its own records are in order, and in what batches they leave, for stable rows."""
    mean, variance = whole[0][stable], whole[1][stable]
    passed = overtakes[stable] > 0
    half = len(mean) // 2
    if not passed.any():
        return mean, variance, _none(half)
    means, variances = (np.stack([some[which][stable][half:] for some in cases[0]], axis=1) for which in (0, 1))
    waits, spread, batches = overtaken(means, variances, rate, cases[1])
    more = np.where(passed[half:], np.maximum(waits - mean[half:], 0.0), 0.0)
    wider = np.where(passed[half:], np.maximum(spread - variance[half:], 0.0), 0.0)
    batches = Held(np.where(passed[half:], batches.behind, 0.0), batches.lasts_s)
    return mean + np.tile(more, 2), variance + np.tile(wider, 2), batches


def _positive(values: Floats) -> Floats:
    return np.maximum(values, 0.0)
