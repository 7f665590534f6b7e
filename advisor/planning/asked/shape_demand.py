"""Turns by table: what each component takes on m cores with whatever shapes its rules leave it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.planning.asked.demand import Floats, Ints


@dataclass(frozen=True, slots=True)
class ShapeDemand:
    """Seconds of work per record that enters the network, by the cores of the group in which a component takes its turn.

    Counts that are allowed, pinned components, instances and replicas of splits are all in the tables. The names that it
    shares with `Demand` mean the same, a "core" of `low` and `high` being one of the group.

    Attributes
    ----------
    turn_s : float64 array (n, M)
        The shortest turn on m = 1 .. M cores: v_c T_c(p) times the share of the busiest instance, over the shapes
        (p, instances) that fit. Infinite where none does; never rises with m.
    stay_s : float64 array (n, M)
        v_c T_c(p) of that shape: what it adds to a record's latency.
    cores, instances : int64 arrays (n, M)
        The shape.
    low : int64 array (n,)
        Fewest cores of a group that it may be in.
    """

    turn_s: Floats
    stay_s: Floats
    cores: Ints
    instances: Ints
    low: Ints

    def __len__(self) -> int:
        return len(self.low)

    @property
    def widest(self) -> int:
        """M."""
        return len(self.turn_s[0])

    @property
    def single(self) -> bool:
        """True: instances are in the tables."""
        return True

    @property
    def high(self) -> Ints:
        """The most cores of a group, (n,)."""
        return np.full(len(self), self.widest, np.int64)

    @property
    def instances_max(self) -> Ints:
        """Ones: instances are in the tables."""
        return np.ones(len(self), np.int64)

    @property
    def visited(self) -> NDArray[np.bool_]:
        """Which components any record visits."""
        return self.stay_s[:, -1] > 0

    def rows(self, chosen: NDArray[np.bool_] | Ints) -> ShapeDemand:
        """Return the demand of some of the components."""
        return ShapeDemand(
            self.turn_s[chosen], self.stay_s[chosen], self.cores[chosen], self.instances[chosen], self.low[chosen]
        )

    def at(self, sizes: Ints) -> tuple[Floats, Floats, Ints, Ints]:
        """Return turns, stays, cores and instances on `sizes_c` cores, (n,) each. Cost O(n)."""
        rows, place = np.arange(len(self)), np.minimum(sizes, self.widest) - 1
        return self.turn_s[rows, place], self.stay_s[rows, place], self.cores[rows, place], self.instances[rows, place]

    def useful(self, cores: int) -> int:
        """Return the fewest cores, of at most `cores`, on which every stay is as short as on all of them."""
        within = self.stay_s[:, :cores]
        return int((within <= within[:, -1:]).all(axis=0).argmax()) + 1

    def seconds(self, sizes: Ints) -> Floats:
        """Return the turns on `sizes_c` cores, (n,)."""
        return self.at(sizes)[0]

    def fewest_within(self, seconds: Floats) -> Ints:
        """Return the fewest cores with a turn of at most seconds_c; else M. Cost O(n M)."""
        fits = self.turn_s <= seconds[:, None]
        return np.where(fits.any(axis=1), fits.argmax(axis=1) + 1, self.widest)

    def work_s(self, narrowest: Ints | None = None) -> Floats:
        """Return core-seconds of one record, at least, in groups of `narrowest` cores or more."""
        start = self.low if narrowest is None else np.maximum(narrowest, self.low)
        sizes = np.arange(1, self.widest + 1)
        work = np.where(sizes >= start[:, None], sizes * self.turn_s, np.inf)
        least: Floats = work.min(axis=1)
        return least

    def alone_s(self, cores: int) -> Floats:
        """Return a period that no component beats alone on all the cores."""
        return self.seconds(np.full(len(self), cores, np.int64))
