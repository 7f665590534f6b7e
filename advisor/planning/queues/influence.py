"""How far the streams of any allocation can be from those of one: affine in what each component is given.

Behind a box a stream's dispersion beyond Poisson's is at least J' = k J + a, with k (the share kept) and a (what its
services add) known from the box's own shape. Along a series, over choices, at joins and in loops J is a polynomial of all
k and a, so by the mean value theorem, for every allocation x and one reference x^,

    J_b(x) - J_b(x^) >= sum_j T_bj d_j(x_j) + sum_j E_bj e_j(x_j),

with d_j the change of the stream right behind box j for the stream that comes in the reference, e_j that of its k, and
slopes T, E between bounds that hold for all shapes. Batches of records in order are left out: they only add. In loops,
how many visits count as one service is known up to an interval, and so are k and a: the least line over it is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SERIES
from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.queues.returns import NEVER, depths_of, passes_of, returning_at_most
from advisor.planning.queues.streams import BUSY, kept_of, renewal
from advisor.planning.queues.structure import Structure


@dataclass(slots=True)
class Moving:
    """A quantity in W windows: in the reference, at least, at most, and its slopes.

    Attributes
    ----------
    here, low, high : (W,)
    least, most : (parts, W)
        Bounds of the slopes in what boxes do: T and E.
    unsure : (W,)
        By how much the quantity may differ from what is said here; 0 for streams, which are bounded from below.
    """

    here: Floats
    low: Floats
    high: Floats
    least: Floats
    most: Floats
    unsure: Floats

    @classmethod
    def fixed(cls, value: Floats, parts: int) -> Moving:
        """Return what no allocation changes."""
        none = np.zeros((parts, len(value)))
        return cls(value, value, value, none, none, np.zeros(len(value)))

    def times(self, share: float) -> Moving:
        """Return the part that a share of the records makes; share at least 0."""
        parts = self.here, self.low, self.high, self.least, self.most, self.unsure
        return Moving(*(share * some for some in parts))

    def plus(self, other: Moving) -> Moving:
        """Return the sum."""
        return Moving(self.here + other.here, self.low + other.low, self.high + other.high, self.least + other.least,
                      self.most + other.most, self.unsure + other.unsure)  # fmt: skip

    def by(self, other: Moving) -> Moving:
        """Return the product with a quantity that is never negative: xy - x^y^ = y (x - x^) + x^ (y - y^)."""
        corners = np.stack([self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high])
        first, second = self.here * other.least, self.here * other.most
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        return Moving(
            self.here * other.here, corners.min(axis=0), corners.max(axis=0),
            np.minimum(self.least * other.low, self.least * other.high) + np.minimum(first, second),
            np.maximum(self.most * other.low, self.most * other.high) + np.maximum(first, second),
            size * other.unsure + self.unsure * (other.high + other.unsure),
        )  # fmt: skip

    def at_least(self) -> Moving:
        """Return a stream that is surely not burstier."""
        less = self.unsure
        none = np.zeros_like(less)
        return Moving(self.here - less, self.low - less, self.high, self.least, self.most, none)


@dataclass(frozen=True, slots=True)
class Shapes:
    """What shapes do to streams: services and instances, (n, shapes) each; which may be chosen."""

    seconds_s: Floats
    instances: Ints
    possible: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Place:
    """How records have come to a node: passes of each of them, streams in the long run, and all loops around."""

    passes: float
    ever: tuple[float, ...]


TINY = 1e-9  # ranges of J below are none
Streams = list[Moving]  # those new to each loop around, from the outermost on, and last all that comes


class Influence:
    """The streams of all allocations of the possible shapes, from those of a reference.

    Attributes
    ----------
    arriving : list of Moving
        The stream that reaches each box, J: of all that comes.
    less : (n, shapes, W)
        By how much less a shape may feel, where visits count together.
    again : (n, shapes)
        The largest share of visits that count together with the one before.
    changes : (parts, shapes, W)
        What each box does to what passes it, by shape, 0 in the reference: d_j of each stream, and e_j.
    owner : (parts,)
        Whose they are.
    """

    def __init__(
        self, structure: Structure, shapes: Shapes, variation: Floats, chosen: Ints, arrival_per_s: float,
        entering: Floats, windows_s: Floats,
    ) -> None:  # fmt: skip
        """Follow the stream that enters, J of shape (W,), through the structure. Cost O(n nodes W + n shapes W)."""
        self.structure, self.shapes, self.variation, self.chosen = structure, shapes, variation, chosen
        self.windows_s = windows_s
        self.rates = arrival_per_s * structure.visits.per_record
        n, windows = len(chosen), len(windows_s)
        self.rho: Floats = np.clip(self.rates[:, None] * shapes.seconds_s / shapes.instances, NEVER, BUSY)
        self.again = returning_at_most(
            structure, self.rho, shapes.seconds_s, shapes.instances, shapes.possible, variation
        )
        self.less = np.zeros((n, shapes.seconds_s.shape[1], windows))
        # Of each box: what it keeps, and the streams that pass it.
        depths = depths_of(structure)
        each = np.array([2 if depth == 0 else depth + 2 for depth in depths])
        self.first, self.parts = np.concatenate([[0], np.cumsum(each)[:-1]]).tolist(), int(each.sum())
        self.owner = np.repeat(np.arange(n), each)
        self.changes = np.zeros((self.parts, shapes.seconds_s.shape[1], windows))
        least = float(variation[self.rates > 0].min(initial=1.0)) - 1
        self.calmest = min(0.0, least, float(entering.min()))  # of what enters, of all services and of a Poisson stream
        self.one, start = Moving.fixed(np.ones(windows), self.parts), Moving.fixed(entering, self.parts)
        self.arriving = [start] * n
        self._walk(len(structure.network.nodes) - 1, [start], self.one, Place(1.0, (float(entering[-1]),)))

    def _walk(self, index: int, into: Streams, way: Moving, place: Place) -> tuple[Streams, Moving]:
        """Return the streams behind a node, and what it keeps of a way that has kept so much."""
        structure = self.structure
        node = structure.network.nodes[index]
        if index in structure.rows:
            return self._box(structure.rows[index], into, way, place)
        if node.kind == CHOICE:
            pairs = zip(node.children, structure.shares(index), strict=True)
            ways = [(share, *self._walk(child, [one.times(share) for one in into], self.one, _part(place, share)))
                    for child, share in pairs if share > 0]  # fmt: skip
            return self._split(into, way, ways)
        if node.kind in (REPLICATION, FEEDBACK):
            return self._loop(index, into, way, place)
        if node.kind == SERIES or len(node.children) < 2:
            for child in node.children:
                into, way = self._walk(child, into, way, place)
            return into, way
        parts = [self._walk(child, into, way, place) for child in node.children]
        return [_mean([streams[which] for streams, _ in parts]) for which in range(len(into))], _mean(
            [kept for _, kept in parts]
        )

    def _split(self, into: Streams, way: Moving, ways: list[tuple[float, Streams, Moving]]) -> tuple[Streams, Moving]:
        """As `streams._split`: each branch's records, and what two branches still have in common of the stream."""
        if not ways:
            return into, way
        none = self.one.times(0.0)
        both, single = none, none
        for number, (share, _, kept) in enumerate(ways):
            single = single.plus(kept.times(share**2))
            for other, _, more in ways[:number]:
                both = both.plus(kept.by(more).times(2 * share * other))
        found: Streams = []
        for which, stream in enumerate(into):
            out = stream.by(both).at_least()
            for share, streams, _ in ways:
                out = out.plus(streams[which].times(share))
            found.append(out)
        return found, way.by(both.plus(single))

    def _loop(self, index: int, into: Streams, way: Moving, place: Place) -> tuple[Streams, Moving]:
        """Records new to a loop keep a stream of their own in it; all that comes passes it as if it were new."""
        enters, times = passes_of(self.structure, index)
        ways: list[tuple[float, Streams, Moving]] = []
        if enters < 1:
            ways.append((1 - enters, [one.times(1 - enters) for one in into], self.one))
        if enters > 0:
            inner = [*(one.times(enters) for one in into), into[-1].times(enters / times)]
            ever = (*(enters * one for one in place.ever), place.ever[-1] * enters / times)
            child = self.structure.network.nodes[index].children[0]
            streams, kept = self._walk(child, inner, self.one, Place(place.passes * times, ever))
            ways.append((enters, streams[:-1], kept))
        return self._split(into, way, ways)

    def _box(self, row: int, into: Streams, way: Moving, place: Place) -> tuple[Streams, Moving]:
        every = into[-1]
        every.low, every.high = np.maximum(every.low, self.calmest), np.maximum(every.high, self.calmest)
        self.arriving[row] = every
        if self.rates[row] <= 0:
            return into, way
        again, passes = self.again[row][:, None], place.passes
        most = np.minimum(1.0, 1 / (passes * (1 - again)))  # share of what queues here that is new to all loops
        fresh = (most - 1 / passes) / (1 - 1 / passes) if passes > 1 else np.zeros_like(most)
        self.less[row] = fresh * np.maximum(every.high - into[0].low, 0.0)
        other = fresh * (place.ever[0] - place.ever[-1])
        gone = self._gone(row, place.ever[-1] + np.minimum(other, 0.0), place.ever[-1] + np.maximum(other, 0.0))
        keeps = 1 - most * gone[1], 1 - gone[0] / passes
        lines = [(keeps, self._calmest_services(row, again))] * max(len(into) - 1, 1)
        if len(into) > 1:
            lines.append(((1 - gone[1], 1 - gone[0]), self._calmest_services(row, np.zeros_like(again))))
        found = [
            self._passed(row, which, stream, *line)
            for which, (stream, line) in enumerate(zip(into, lines, strict=True))
        ]
        some, at, middle = self.shapes.possible[row], int(self.chosen[row]), (keeps[0] + keeps[1]) / 2
        self.changes[self.first[row]] = middle - middle[at]
        own = Moving.fixed(middle[at], self.parts)
        own.low, own.high = middle[some].min(axis=0), middle[some].max(axis=0)
        own.unsure = (keeps[1] - keeps[0])[some].max(axis=0) / 2
        own.least = own.most = self._seed(self.first[row])
        return found, way.by(own)

    def _seed(self, part: int) -> Floats:
        seed = np.zeros((self.parts, len(self.windows_s)))
        seed[part] = 1.0
        return seed

    def _passed(
        self, row: int, which: int, stream: Moving, keeps: tuple[Floats, Floats], services: Floats
    ) -> Moving:  # fmt: skip
        """Return a stream behind a box: a line over J, the chord of the least of k J + (1 - k) R over what k may be."""
        least, most = (np.minimum(*(k * end + (1 - k) * services for k in keeps)) for end in (stream.low, stream.high))
        width = stream.high - stream.low
        slope = np.where(width > TINY, (most - least) / np.maximum(width, TINY), keeps[0])
        start = least - slope * stream.low
        some, at, part = self.shapes.possible[row], int(self.chosen[row]), self.first[row] + 1 + which
        self.changes[part] = slope * stream.here + start - (slope[at] * stream.here + start[at])
        low, high = slope[some].min(axis=0), slope[some].max(axis=0)
        seed = self._seed(part)
        slopes = (
            np.minimum(stream.least * low, stream.least * high) + seed,
            np.maximum(stream.most * low, stream.most * high) + seed,
        )
        return Moving(
            slope[at] * stream.here + start[at], least[some].min(axis=0), most[some].max(axis=0), *slopes,
            np.zeros_like(low),
        )  # fmt: skip

    def _gone(self, row: int, calm: Floats, wild: Floats) -> tuple[Floats, Floats]:
        """Return at least and at most what departures lose of arrivals that are so bursty in the long run, (shapes, W)."""
        rho, again, rate = self.rho[row][:, None], self.again[row][:, None], self.rates[row]
        several = again_of(float(self.variation[row]), again)
        least, most = np.minimum(several, self.variation[row]), np.maximum(several, self.variation[row])
        slow = (1 - rho) ** 2 * rate * self.windows_s / np.maximum(rho * (1 + calm + least), NEVER)
        fast = (1 - rho) ** 2 * rate * (1 - again) * self.windows_s / np.maximum(rho * (1 + wild + most), NEVER)
        servers = np.sqrt(self.shapes.instances[row])[:, None]
        return (1 - kept_of(slow)) / servers, (1 - kept_of(fast)) / servers

    def _calmest_services(self, row: int, again: Floats) -> Floats:
        """Return the least dispersion of services beyond Poisson's, (shapes, W), as `streams.renewal`."""
        counts = self.rates[row] / self.rho[row][:, None] * self.windows_s
        single = float(self.variation[row])
        if single <= 1:
            return renewal(counts, single)
        several = again_of(single, again)
        scaled = 6 * counts * (1 - again) / (1 + single)
        return (several - 1) * (1 + np.expm1(-scaled) / scaled)


def again_of(variation: float, again: Floats) -> Floats:
    """Return c_s^2 of visits of which a share counts as one service with the one before."""
    return again + (1 - again) * variation


def _part(place: Place, share: float) -> Place:
    return Place(place.passes, tuple(share * one for one in place.ever))


def _mean(parts: list[Moving]) -> Moving:
    found = parts[0].times(1 / len(parts))
    for part in parts[1:]:
        found = found.plus(part.times(1 / len(parts)))
    return found


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
    theta = (
        at * pace / np.maximum(1 + into + least, NEVER),
        at * pace * (1 - again) / np.maximum(1 + into + most, NEVER),
    )
    share = np.minimum(*(2 * np.sqrt(some) - some for some in theta))
    found = (1 + into) * share - most * (1 - share)
    window = found.argmax(axis=1, keepdims=True)
    return np.take_along_axis(found, window, axis=1)[:, 0], window
