"""The way of records through a network, made of points: the same for the simulator and for the runtime in `demos`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from execution_points import Fork, Join, Ordered, Point

from advisor.domain import networks as kinds
from advisor.domain.networks import Network


class Around(Point, Protocol):
    """The way into a node around a part: the part's way in is set as `inside`, records come out of it at `round`."""

    inside: Point
    round: Point


class Plant(ABC):
    """The points of a network, made from its end to its beginning: each knows where its records go on.

    What boxes, choices, loops and splits are is the subclass's; order and joins are the same for all.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._key = dict(zip(network.boxes, network.keys, strict=True))

    @abstractmethod
    def box(self, key: str, index: int, then: Point) -> Point:
        """Return the way into a box."""

    @abstractmethod
    def choice(self, index: int, branches: Sequence[Point]) -> Point:
        """Return the way into a choice."""

    @abstractmethod
    def loop(self, index: int, then: Point) -> Around:
        """Return the way into a replication or a feedback."""

    @abstractmethod
    def split(self, index: int, then: Point) -> Point:
        """Return the way into a split."""

    @abstractmethod
    def made(self) -> int:
        """Return how many stations there are."""

    @abstractmethod
    def capacity(self, before: int) -> float:
        """Return how many records the stations hold that were made since there were `before`."""

    def join(self, then: Point) -> Join:
        """Return the end of a join."""
        return Join(then)

    def point(self, index: int, then: Point) -> Point:
        """Return the way into a node whose records go on to `then`."""
        if not self.network.nodes[index].ordered:
            return self._plain(index, then)
        region = Ordered(then, math.inf)
        before = self.made()
        region.inside = self._plain(index, region.leaving)
        region.window = self.capacity(before)
        return region

    def whole(self, then: Point) -> Point:
        """Return the way into the network."""
        return self.point(len(self.network.nodes) - 1, then)

    def _plain(self, index: int, then: Point) -> Point:
        node = self.network.nodes[index]
        if node.kind == kinds.BOX:
            return then if node.once else self.box(self._key[index], index, then)
        if node.kind == kinds.SERIES:
            for child in reversed(node.children):
                then = self.point(child, then)
            return then
        if node.kind == kinds.CHOICE:
            return self.choice(index, [self.point(child, then) for child in node.children])
        if node.kind == kinds.JOIN:
            end = self.join(then)
            return Fork([self.point(child, end) for child in node.children])
        if node.kind in (kinds.REPLICATION, kinds.FEEDBACK):
            loop = self.loop(index, then)
            loop.inside = self.point(node.children[0], loop.round)
            return loop
        if node.kind == kinds.SPLIT:
            return self.split(index, then)
        if node.kind == kinds.PLACEMENT:
            return self.point(node.children[0], then)
        return then  # a synchrocell or a filter
