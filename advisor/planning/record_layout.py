"""The points of a network that records pass (`record_kernels`), from its structure and routing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from advisor.domain.networks import BOX, CHOICE, FEEDBACK, REPLICATION, SPLIT
from advisor.planning.record_kernels import AGAIN, CHOOSE, DRAW, ENTER, EXIT, FORK, LEAVE, LOOP, MEET, SERVE
from advisor.planning.structure import Structure


class NetworkPoints:
    """The points of a network: rows of (what, next, number, word), and the edges of cumulated shares with their targets."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._points: list[list[int]] = []
        self._edges: list[tuple[float, int]] = []
        self._regions = self._slots = 0
        self.first = self._laid(len(structure.network.nodes) - 1, self._add(EXIT, 0), 0, -1)
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
        again = self._add(AGAIN, then, 0, slot)
        return self._among(LOOP, [then] * len(depths), depths, slot), again

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
            leave = then = self._add(LEAVE, then, self._regions, slot)
            self._regions, slot = self._regions + 1, slot + 1
            self._slots = max(self._slots, slot + 1)
        kind, children = node.kind, node.children
        if kind == BOX:
            found = self._box(structure.rows[index], then, slot, split)
        elif index in structure.joins:
            meet = self._add(MEET, then, 0, slot)
            shares = structure.shares(index) if kind == CHOICE else [1.0] * len(children)
            parts = [child for child, share in zip(children, shares, strict=True) if share > 0]
            found = self._among(
                FORK, [self._laid(child, meet, slot + 1, split) for child in parts], [1.0] * len(parts), slot
            )
        elif kind == CHOICE:
            found = self._among(
                CHOOSE, [self._laid(child, then, slot, split) for child in children], structure.shares(index)
            )
        elif kind == FEEDBACK:
            again, back = self._add(CHOOSE, 0), structure.visits.routing.returns[index]
            found = self._laid(children[0], again, slot, split)
            self._edges += [(back, found), (1.0, then)]
            self._points[again][1:3] = len(self._edges) - 2, 2
        elif kind == REPLICATION:
            loop, again = self._repeated(then, structure.visits.routing.depths[index], slot)
            found = self._close(loop, again, self._laid(children[0], again, slot + 1, split))
        elif kind == SPLIT:
            found = self._add(DRAW, self._laid(children[0], then, slot + 1, slot), 0, slot)
        else:  # a series; filters, placements and synchrocells take no time
            found = then
            for child in reversed(children):
                found = self._laid(child, found, slot, split)
        return self._add(ENTER, found, *self._points[leave][2:]) if node.ordered else found

    def _box(self, row: int, then: int, slot: int, split: int) -> int:
        """Return the first point of a box; where visits were given they are a whole number and one more for some records."""
        ratio = float(self._structure.ratios[row])
        whole = int(ratio)
        if ratio == 1.0:
            return self._add(SERVE, then, row, split)
        if ratio == 0.0:
            return then
        loop, again = self._repeated(then, [0.0] * whole + [whole + 1 - ratio, ratio - whole], slot)
        return self._close(loop, again, self._add(SERVE, again, row, split))
