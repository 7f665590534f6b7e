"""How far the streams of any allocation can be from those of one: affine in what each component is given.

Behind a box a stream's dispersion beyond Poisson's is J' = k J + a, with k (the share kept) and a (what its services add)
known from the box's own shape. Along a series, over choices and at joins J is a polynomial of all k and a, so by the mean
value theorem, for every allocation x and one reference x^,

    J_b(x) - J_b(x^) = sum_j T_bj d_j(x_j) + sum_j E_bj e_j(x_j),

with d_j the change of the stream right behind box j for the stream that comes in the reference, e_j that of its k, and
slopes T, E between bounds that hold for all shapes. Streams here are never burstier than those of `streams`: batches of
records in order are left out, and behind a loop the calmest stream is taken that can be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SERIES
from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.queues.streams import BUSY, NEVER, behind
from advisor.planning.queues.structure import Structure


@dataclass(slots=True)
class Moving:
    """A quantity in W windows: in the reference, at least, at most, and its slopes.

    Attributes
    ----------
    here, low, high : (W,)
    least, most : (2, n, W)
        Bounds of the slopes in what each box does: T and E.
    """

    here: Floats
    low: Floats
    high: Floats
    least: Floats
    most: Floats

    @classmethod
    def fixed(cls, value: Floats, components: int) -> Moving:
        """Return what no allocation changes."""
        none = np.zeros((2, components, len(value)))
        return cls(value, value, value, none, none)

    def times(self, share: float) -> Moving:
        """Return the part that a share of the records makes; share at least 0."""
        return Moving(*(share * some for some in (self.here, self.low, self.high, self.least, self.most)))

    def plus(self, other: Moving) -> Moving:
        """Return the sum."""
        return Moving(self.here + other.here, self.low + other.low, self.high + other.high,
                      self.least + other.least, self.most + other.most)  # fmt: skip

    def by(self, other: Moving) -> Moving:
        """Return the product with a quantity that is never negative: xy - x^y^ = y (x - x^) + x^ (y - y^)."""
        corners = np.stack([self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high])
        first, second = self.here * other.least, self.here * other.most
        return Moving(
            self.here * other.here, corners.min(axis=0), corners.max(axis=0),
            np.minimum(self.least * other.low, self.least * other.high) + np.minimum(first, second),
            np.maximum(self.most * other.low, self.most * other.high) + np.maximum(first, second),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shapes:
    """What shapes do to streams: utilization, services and instances, (n, shapes) each; which may be chosen."""

    seconds_s: Floats
    instances: Ints
    possible: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class Influence:
    """The streams of all allocations of the possible shapes, from those of a reference.

    Attributes
    ----------
    arriving : list of Moving
        The stream that reaches each box, J.
    apart, kept : (n, shapes, W)
        d_j and e_j: 0 in the reference.
    looped : set of int
        Boxes in loops: of them only the least that they feel is known.
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
        self.arriving = [Moving.fixed(np.zeros(windows), n)] * n
        self.apart = np.zeros((n, shapes.seconds_s.shape[1], windows))
        self.kept = np.zeros_like(self.apart)
        self.looped: set[int] = set()
        least = float(variation[self.rates > 0].min(initial=1.0)) - 1
        self.calmest = min(0.0, least, float(entering.min()))  # of what enters, of all services and of a Poisson stream
        start, whole = Moving.fixed(entering, n), Moving.fixed(np.ones(windows), n)
        self._walk(len(structure.network.nodes) - 1, start, whole, float(entering[-1]))

    def _walk(self, index: int, into: Moving, way: Moving, ever: float) -> tuple[Moving, Moving]:
        """Return the stream behind a node, and what it keeps of a way that has kept so much; `ever`: J in the long run."""
        structure = self.structure
        node = structure.network.nodes[index]
        if index in structure.rows:
            return self._box(structure.rows[index], into, way, ever)
        if node.kind == CHOICE:
            return self._choice(index, into, way, ever)
        if node.kind in (REPLICATION, FEEDBACK):
            return self._loop(node.children[0], into)
        if node.kind == SERIES or len(node.children) < 2:
            for child in node.children:
                into, way = self._walk(child, into, way, ever)
            return into, way
        streams, kept = Moving.fixed(np.zeros_like(into.here), len(self.chosen)), None
        for child in node.children:
            stream, some = self._walk(child, into, way, ever)
            streams = streams.plus(stream.times(1 / len(node.children)))
            kept = some.times(1 / len(node.children)) if kept is None else kept.plus(some.times(1 / len(node.children)))
        return streams, kept or way

    def _box(self, row: int, into: Moving, way: Moving, ever: float) -> tuple[Moving, Moving]:
        into.low, into.high = np.maximum(into.low, self.calmest), np.maximum(into.high, self.calmest)
        self.arriving[row] = into
        if self.rates[row] <= 0:
            return into, way
        servers = self.shapes.instances[row][:, None]
        rho = np.clip(self.rates[row] * self.shapes.seconds_s[row][:, None] / servers, NEVER, BUSY)
        gone, services = behind(rho, self.variation[row], self.rates[row], servers, np.array(ever), self.windows_s)
        kept, adds, some = 1 - gone, gone * services, self.shapes.possible[row]
        at = int(self.chosen[row])
        self.kept[row] = kept - kept[at]
        self.apart[row] = kept * into.here + adds - (kept[at] * into.here + adds[at])
        own = Moving.fixed(kept[at], len(self.chosen))
        own.low, own.high = kept[some].min(axis=0), kept[some].max(axis=0)
        # d_j has the box's own change in it, so only what comes in moves along with k.
        ends = np.stack([kept[some] * into.low + adds[some], kept[some] * into.high + adds[some]])
        least, most = into.least * own.low, into.most * own.high
        flipped = into.least < 0, into.most < 0
        least = np.where(flipped[0], into.least * own.high, least)
        most = np.where(flipped[1], into.most * own.low, most)
        least[0, row] = most[0, row] = 1.0
        out = Moving(kept[at] * into.here + adds[at], ends.min(axis=(0, 1)), ends.max(axis=(0, 1)), least, most)
        slopes = way.least * own.low, way.most * own.high
        slopes[0][1, row] = slopes[1][1, row] = way.here
        left = Moving(way.here * own.here, way.low * own.low, way.high * own.high, *slopes)
        return out, left

    def _choice(self, index: int, into: Moving, way: Moving, ever: float) -> tuple[Moving, Moving]:
        """As `streams._split`: each branch's records, and what two branches still have in common of the stream."""
        n, one = len(self.chosen), np.ones_like(into.here)
        shares = self.structure.shares(index)
        pairs = zip(self.structure.network.nodes[index].children, shares, strict=True)
        taken = [(share, self._walk(child, into.times(share), Moving.fixed(one, n), share * ever))
                 for child, share in pairs if share > 0]  # fmt: skip
        if not taken:
            return into, way
        out, both = Moving.fixed(0 * one, n), Moving.fixed(0 * one, n)
        for place, (share, (stream, kept)) in enumerate(taken):
            out = out.plus(stream.times(share))
            for other, (_, more) in taken[:place]:
                both = both.plus(kept.by(more).times(2 * share * other))
        if any(self._loops(child) for child in self.structure.network.nodes[index].children):
            # What a loop keeps is not known: at most all of it, which a stream of at least so much bears.
            into = Moving.fixed(np.minimum(into.low, 0.0), n)
        single = Moving.fixed(0 * one, n)
        for share, (_, kept) in taken:
            single = single.plus(kept.times(share**2))
        return out.plus(into.by(both)), way.by(both.plus(single))

    def _loop(self, child: int, into: Moving) -> tuple[Moving, Moving]:
        """Return the calmest stream that boxes which see records again can make of it, and what they may keep."""
        n, lowest = len(self.chosen), np.minimum(into.low, 0.0)
        for row in self._inside(child):
            if self.rates[row] > 0:
                lowest = np.minimum(lowest, min(0.0, float(self.variation[row]) - 1))
        self.looped.update(self._inside(child))
        for row in self._inside(child):
            self.arriving[row] = Moving.fixed(lowest, n)
        return Moving.fixed(lowest, n), Moving.fixed(np.ones_like(lowest), n)

    def _loops(self, index: int) -> bool:
        node = self.structure.network.nodes[index]
        return node.kind in (REPLICATION, FEEDBACK) or any(self._loops(child) for child in node.children)

    def _inside(self, index: int) -> list[int]:
        """Return the rows of the boxes inside a node."""
        if index in self.structure.rows:
            return [self.structure.rows[index]]
        return [row for child in self.structure.network.nodes[index].children for row in self._inside(child)]
