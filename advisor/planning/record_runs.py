"""Latency under arrivals by execution: records pass through the network under an allocation, event by event.

The network is laid out as points that a record passes: it is served by a queue, chooses a branch, forks and meets, repeats a
loop, enters and leaves a part that keeps order. Filters, placements and synchrocells take no time. Components that take turns
on the same cores are one queue with one server; below a split each instance has its own queue.

Random numbers are those of integer generators, one for each queue and choice, with the same seeds for every allocation:
differences between allocations are not those of chance, and the same question has the same answer. Services are log-normal,
gaps between arrivals Weibull (exponential for a Poisson stream), both as equally likely values with exact mean and variation.

The mean is corrected by what is known exactly (control variates): the work of each record, and for Poisson arrivals the wait
at one server for each queue that has the work of the whole record to do (Pollaczek and Khinchine). How much of each deviation
the latency has is fitted over batches. A single queue is exact then; of a network most of the noise goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.networks import BOX, CHOICE, FEEDBACK, REPLICATION, SPLIT
from advisor.domain.vectors import Floats, Ints
from advisor.planning import record_kernels as at
from advisor.planning.record_kernels import BITS, KERNELS
from advisor.planning.structure import Structure, work_of
from advisor.planning.visits import heaviest_share

RECORDS_MAX, RECORDS_MIN = 50_000, 2_000  # of one run
VISITS = 160_000  # of components in one run: 8 ms, and 16,000 records of ten boxes
EXECUTED_MAX = 2_000  # visits of a record up to which networks are executed: 0.3 s for RECORDS_MIN
WARM_UP = 10  # one of so many records is left out at the beginning
BATCHES = 30  # over which the noise is fitted: few enough to be independent, enough for two slopes
VARIATION_MAX = 200.0  # of services and gaps: beyond, one of 2**BITS values is nearly all
SEED = 2654435761  # of the generators: they start at its multiples (Knuth: 2**32 over the golden ratio)
NOISE = 1e-20  # relative variances below are those of rounding
STEPS_MAX, NEAR = 40, 1e-9  # of the search for a spread, and how near the variation is then, relatively


@lru_cache(64)
def equal_values(variation: float, kind: str) -> Floats:
    """Return equally likely values, (2**BITS,), of mean 1 and squared coefficient of variation `variation`.

    They are exp(g l) over its mean, l the quantiles of a normal variable (log-normal values) or of the logarithm of an
    exponential one (Weibull), g such that the variation is right.
    """
    share = (np.arange(2**BITS) + 0.5) / 2**BITS
    base: Floats = elementary.log(-elementary.log(1 - share))
    if kind == "normal":  # Abramowitz and Stegun 26.2.23
        t = np.sqrt(-2 * elementary.log(np.minimum(share, 1 - share)))
        z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
        base = np.asarray(np.where(share < 0.5, -z, z), np.float64)
    wanted = elementary.log1p(min(variation, VARIATION_MAX))
    values, spread = np.ones(len(share)), math.sqrt(wanted)
    for _ in range(STEPS_MAX if wanted > NOISE else 0):
        values = elementary.exp(spread * (base - base[-1]))
        values = values / _mean(values)
        ratio = wanted / elementary.log1p(_mean(np.square(values - 1)))
        if abs(ratio - 1) <= NEAR:
            break
        spread *= math.sqrt(ratio)
    return values


def _mean(values: Floats) -> float:
    """Return the mean, added from the first to the last."""
    return float(np.add.accumulate(values)[-1]) / len(values)


def records_of(visits: Floats) -> int:
    """Return the records of one run of a network with these visits per record, (n,); 0: it is too large to be executed."""
    passed = _added(visits)
    if passed > EXECUTED_MAX or len(visits) > EXECUTED_MAX:
        return 0
    return min(max(int(VISITS / max(passed, 1e-9)), RECORDS_MIN), RECORDS_MAX)


class Run(NamedTuple):
    """What records met under one allocation."""

    latency_s: float
    quantile_s: float | None
    wait_s: Floats  # (n,): mean wait of a visit


class RecordRuns:
    """Runs of one network with its demand under one stream of arrivals.

    `variation` (n,) are those of services, `between` that of the gaps between arrivals.
    """

    def __init__(self, structure: Structure, variation: Floats, rate_per_s: float, between: float) -> None:
        self._structure, self._rate, self._poisson = structure, rate_per_s, between == 1.0
        self._layout = NetworkPoints(structure)
        self._values: Floats = np.stack([equal_values(float(value), "normal") for value in variation])
        self._variation = np.array([_mean(np.square(values - 1)) for values in self._values])
        self._gaps = equal_values(between, "exponential") / rate_per_s

    def run_records(
        self, seconds_s: Floats, instances: Ints, group: Ints | None, level: float | None, part: int = 1
    ) -> Run | None:
        """Return what records meet where a visit takes `seconds_s` (n,); None where more are inside than are followed.

        One of `part` records is executed: a first look.
        """
        visits, layout = self._structure.visits.per_record, self._layout
        records, n = records_of(visits) // part, len(seconds_s)
        queue, servers, replica_edges = self._queues(instances, group)
        waited, found, work = np.zeros((n, 2)), np.empty(records), np.zeros((records, len(servers) + 1))
        state = (np.arange(1, n + len(layout.points) + 2) * SEED) % 2**32
        network, demand = (layout.points, layout.edges, layout.targets), (seconds_s, self._values, self._gaps)
        queues = queue, servers, replica_edges
        if not KERNELS.execute(network, demand, queues, (layout.first, *layout.words), state, waited, work, found):
            return None
        speed, weights, skipped = np.ones(len(servers)), np.zeros(len(servers)), records // WARM_UP
        if group is None:
            speed[queue] = instances
        np.add.at(weights, queue, visits)
        means, size = np.zeros((BATCHES, 3)), (records - skipped) // BATCHES
        KERNELS.batch_means(found, work, speed, weights, skipped, means)
        every = work_of(self._structure, queue[None], len(servers), seconds_s[None], self._variation)
        needed, spread = (part[0] for part in every[-1])
        waits = one_server_waits(self._rate, needed / speed, spread / speed**2)
        expected = np.array([_added(weights * waits), _added(needed)])
        if not self._poisson:
            means[:, 1] = expected[0] = 0.0  # nothing is known of it
        quantile = None
        if level is not None:
            steady = np.sort(found[skipped : skipped + size * BATCHES])
            batches = np.sort(found[skipped : skipped + size * BATCHES].reshape(BATCHES, size), axis=1)[
                :, int(level * size)
            ]
            quantile = float(steady[int(level * len(steady))]) - _deviation(batches, means[:, 1:], expected)
        latency = _mean(means[:, 0]) - _deviation(means[:, 0], means[:, 1:], expected)
        return Run(latency, quantile, waited[:, 1] / np.maximum(waited[:, 0], 1.0))

    def _queues(self, instances: Ints, group: Ints | None) -> tuple[Ints, Ints, Floats]:
        """Return the first queue of each component, (n,), the servers of each queue, and the edges of replicas, (n, queues)."""
        n, replicas = len(instances), self._structure.visits.replicas
        if group is not None:
            return group, np.ones(int(group.max()) + 1, np.int64), np.full((n, 1), 2.0**32)
        apart = np.array([row in replicas and instances[row] > 1 for row in range(n)])
        queues = np.where(apart, instances, 1)
        edges = np.full((n, int(queues.max())), 2.0**32)
        for row in np.flatnonzero(apart).tolist():
            shares = heaviest_share(replicas[row], int(instances[row]))[1]
            edges[row, : len(shares) - 1] = np.array(list(accumulate(shares))[:-1]) * 2.0**32
        return np.cumsum(queues) - queues, np.repeat(np.where(apart, 1, instances), queues), edges


def one_server_waits(rate_per_s: float, mean_s: Floats, variance: Floats) -> Floats:
    """Return the mean waits at single servers for Poisson arrivals (Pollaczek and Khinchine), elementwise."""
    return rate_per_s * (variance + mean_s**2) / 2 / (1 - rate_per_s * mean_s)


def _added(values: Floats) -> float:
    return _mean(values) * len(values)


def _deviation(figures: Floats, known: Floats, expected: Floats) -> float:
    """Return the part of a mean figure's error that is explained by what is known, by least squares over batches.

    `figures` (b,), `known` (b, 2) with their expectations (2,).
    """
    first, second = (known[:, place] - _mean(known[:, place]) for place in (0, 1))
    off = [_mean(known[:, place]) - float(expected[place]) for place in (0, 1)]
    first, second = (
        part if _mean(part * part) > NOISE * size * size else 0 * part
        for part, size in zip((first, second), expected, strict=True)
    )  # fmt: skip
    shared = _slope(second, first)
    rest = second - shared * first
    return _slope(figures, first) * off[0] + _slope(figures, rest) * (off[1] - shared * off[0])


def _slope(figures: Floats, around: Floats) -> float:
    """Return the slope of figures over what varies around 0."""
    square = _mean(around * around)
    return _mean(figures * around) / square if square > 0 else 0.0


# ----------------------------------------------------------------------------------------------------------------------------
# The points of a network that records pass (`record_kernels`), from its structure and routing.


class NetworkPoints:
    """The points of a network: rows of (what, next, number, word), and the edges of cumulated shares with their targets."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._points: list[list[int]] = []
        self._edges: list[tuple[float, int]] = []
        self._regions = self._slots = 0
        self.first = self._laid(len(structure.network.nodes) - 1, self._add(at.EXIT, 0), 0, -1)
        self.points = np.array(self._points, np.int64)
        self.edges = np.array([edge for edge, _ in self._edges] or [0.0])
        self.targets = np.array([target for _, target in self._edges] or [0], np.int64)
        self.words = self._slots, self._regions

    def _add(self, what: int, then: int, number: int = 0, slot: int = 0) -> int:
        self._points.append([what, then, number, slot])
        return len(self._points) - 1

    def _among(self, what: int, targets: Sequence[int], shares: Sequence[float], slot: int = 0) -> int:
        self._edges += zip(accumulate(shares), targets, strict=True)
        return self._add(what, len(self._edges) - len(targets), len(targets), slot)

    def _repeated(self, then: int, depths: Sequence[float], slot: int) -> tuple[int, int]:
        """Return the point that draws how often a part is passed, and the one after the part, which is laid next."""
        again = self._add(at.AGAIN, then, 0, slot)
        return self._among(at.LOOP, [then] * len(depths), depths, slot), again

    def _close(self, loop: int, again: int, body: int) -> int:
        """Let the passes of a loop begin at a point; return where records enter."""
        start, count = self._points[loop][1], self._points[loop][2]
        self._edges[start + 1 : start + count] = [(edge, body) for edge, _ in self._edges[start + 1 : start + count]]
        self._points[again][2] = body
        return loop

    def _laid(self, index: int, then: int, slot: int, split: int) -> int:
        """Return the first point of a node before `then`; `slot`: a record's next free word, `split`: that of its replica."""
        structure, node = self._structure, self._structure.network.nodes[index]
        self._slots = max(self._slots, slot + 1)
        leave = -1
        if node.ordered:
            leave = then = self._add(at.LEAVE, then, self._regions, slot)
            self._regions, slot = self._regions + 1, slot + 1
            self._slots = max(self._slots, slot + 1)
        kind, children = node.kind, node.children
        if kind == BOX:
            found = self._box(structure.rows[index], then, slot, split)
        elif index in structure.joins:
            meet = self._add(at.MEET, then, 0, slot)
            shares = structure.shares(index) if kind == CHOICE else [1.0] * len(children)
            parts = [child for child, share in zip(children, shares, strict=True) if share > 0]
            found = self._among(
                at.FORK, [self._laid(child, meet, slot + 1, split) for child in parts], [1.0] * len(parts), slot
            )
        elif kind == CHOICE:
            found = self._among(
                at.CHOOSE, [self._laid(child, then, slot, split) for child in children], structure.shares(index)
            )
        elif kind == FEEDBACK:
            again, back = self._add(at.CHOOSE, 0), structure.visits.routing.returns[index]
            found = self._laid(children[0], again, slot, split)
            self._edges += [(back, found), (1.0, then)]
            self._points[again][1:3] = len(self._edges) - 2, 2
        elif kind == REPLICATION:
            loop, again = self._repeated(then, structure.visits.routing.depths[index], slot)
            found = self._close(loop, again, self._laid(children[0], again, slot + 1, split))
        elif kind == SPLIT:
            found = self._add(at.DRAW, self._laid(children[0], then, slot + 1, slot), 0, slot)
        else:  # a series; filters, placements and synchrocells take no time
            found = then
            for child in reversed(children):
                found = self._laid(child, found, slot, split)
        return self._add(at.ENTER, found, *self._points[leave][2:]) if node.ordered else found

    def _box(self, row: int, then: int, slot: int, split: int) -> int:
        """Return the first point of a box; where visits were given they are a whole number and one more for some records."""
        ratio = float(self._structure.ratios[row])
        whole = int(ratio)
        if ratio == 1.0:
            return self._add(at.SERVE, then, row, split)
        if ratio == 0.0:
            return then
        loop, again = self._repeated(then, [0.0] * whole + [whole + 1 - ratio, ratio - whole], slot)
        return self._close(loop, again, self._add(at.SERVE, again, row, split))
