"""The best shape of each component on at most so many cores, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from advisor.domain.allowed_cores import AllowedCores
from advisor.planning.demand import Demand, numbers_of, spaced
from advisor.planning.pieces import KERNELS
from advisor.planning.requests import Floats, Ints

CELLS_MAX = 2_000_000  # components times sizes of a table: 16 MB an array; beyond, sizes are thinned
ALL_SIZES = 64  # sizes up to here are never thinned


def sizes_of(
    most: int, components: int, extra: Iterable[Ints | Floats] = (), rules: Iterable[AllowedCores] = ()
) -> Ints:
    """Return the sizes to consider up to `most`: all of them while tables stay small, else ever wider apart and `extra`.

    Of `rules` the counts next to these, so that each component has some.
    """
    if most * components <= CELLS_MAX:
        return np.arange(1, most + 1)
    some = spaced(most, ALL_SIZES)
    near = [[rule.nearest(size) for size in some] for rule in set(rules)]
    sizes = np.concatenate([some, *extra, *near]).astype(np.int64)
    return np.unique(sizes[sizes <= most])


@dataclass(frozen=True, slots=True)
class Places:
    """The best shape of each component on at most so many cores, its own or a group's for the time of its turn."""

    sizes: Ints  # (M,)
    # (n, M): v_c T_c(p) times the share of the busiest instance: the shortest on at most so many cores; infinite where no
    # shape fits, and never rising
    turn_s: Floats
    stay_s: Floats  # (n, M): v_c T_c(p) of that shape: what it adds to a record's latency
    # (n, M): the shape
    cores: Ints
    instances: Ints

    def at(self, sizes: Ints) -> tuple[Floats, Floats, Ints, Ints]:
        """Return turns, stays, cores and instances on `sizes_c` cores, (n,) each, or (K, n) for sizes (K, n)."""
        rows, place = np.arange(len(self.turn_s)), np.searchsorted(self.sizes, sizes, side="right") - 1
        return self.turn_s[rows, place], self.stay_s[rows, place], self.cores[rows, place], self.instances[rows, place]

    @property
    def least(self) -> Ints:
        """The fewest cores that each component may have, (n,)."""
        return self.sizes[np.isfinite(self.turn_s).argmax(axis=1)]


def places_of(demand: Demand, most: int, *, by_stay: bool = False) -> Places:
    """Return the best shapes on 1 .. `most` cores: of equal turns the shortest stay, then the fewest cores; `by_stay` swaps.

    Cost O(n M), with instances that many times.
    """
    sizes = sizes_of(most, len(demand), (demand.knots, demand.low, demand.high), demand.rules.values())
    numbers = np.array([1] if demand.single else numbers_of(1, min(int(demand.most.max()), most)))
    shape = len(demand), len(sizes)
    (turn, stay), (cores, instances) = np.empty((2, *shape)), np.empty((2, *shape), np.int64)
    if not KERNELS.ready:
        KERNELS.count(turn.size)
    curves = demand.level, demand.fall, demand.knots
    KERNELS.best_places(
        curves, demand.limits, demand.visits, sizes, numbers, by_stay, turn, stay, cores, instances
    )  # fmt: skip
    return Places(sizes, turn, stay, cores, instances)
