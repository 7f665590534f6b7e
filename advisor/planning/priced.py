"""The lowest latency of tabulated curves of any number, by a price on cores.

At a price L each component takes the cores that minimise D_c(p) + L p: on a segment of its table, where D = a p^-b, that
is p = (a b / L)^(1/(b+1)), else an end. The sum of these minima less L P is a bound of the latency on P cores (Lagrange's
dual), and the price at which the cores are just taken gives an allocation next to it.
"""

from __future__ import annotations

import numpy as np

from advisor.planning.demand import TIE, Floats, Ints
from advisor.planning.table_demand import TableDemand
from advisor.planning.throughput import steps

PRICES_MAX = 40  # bisections of the price: fewer where the cores taken meet those given
CLOSE = 1.0005  # the bisection ends where it brackets the cores this closely: the rest is filled by gains


def lowest_latency_priced(demand: TableDemand, cores: int) -> tuple[Ints, float]:
    """Return cores p_c, sum p_c <= cores, with a latency near the lowest, and a bound of it. Cost O(n m) a price.

    `cores` is at least the sum of ``demand.low``.
    """
    top = demand.useful()
    if top.sum() <= cores:
        return top, demand.latency_s(top)
    taker = _Taker(demand)
    few, many, bound = demand.low, top, -np.inf
    # Work per core bounds the price: nobody pays more for a core than its whole time.
    low, high = taker.least, taker.most
    for turn in range(PRICES_MAX):
        middle = (low * high) ** 0.5
        if turn % 2 and few.sum() > 0 and many.sum() > few.sum():
            # Cores fall with the price about like a power of it.
            share = np.log(many.sum() / cores) / np.log(many.sum() / few.sum())
            middle = low ** (1 - share) * high**share
        taken, value = taker.at(middle)
        bound = max(bound, value - middle * cores)
        if taken.sum() <= cores:
            few, high = taken, middle
        else:
            many, low = taken, middle
        if many.sum() <= CLOSE * few.sum() or high <= low * (1 + TIE):
            break
    return _filled(demand, few, np.maximum(many, few), cores), bound


def least_cores_priced(demand: TableDemand, latency_s: float) -> Ints | None:
    """Return few cores whose latency is at most `latency_s`, or None when no number of cores reaches it.

    Within the gap of the priced latency: bisection over the number of cores. Cost O(n m log) a number.
    """
    limit = latency_s * (1 + TIE)
    best = demand.useful()
    if demand.latency_s(best) > limit:
        return None
    too_few, enough = int(demand.low.sum()) - 1, int(best.sum())
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        found = lowest_latency_priced(demand, middle)[0]
        if demand.latency_s(found) <= limit:
            best, enough = found, min(middle, int(found.sum()))
        else:
            too_few = middle
    return best


class _Taker:
    """What each component takes at a price."""

    def __init__(self, demand: TableDemand) -> None:
        self.demand = demand
        knots = np.concatenate([demand.knots, demand.knots[-1:]])
        self.start = np.maximum(knots[:-1], demand.low[:, None])
        self.end = np.maximum(np.minimum(knots[1:], demand.high[:, None]), self.start)
        self.valid = (knots[:-1] <= demand.high[:, None]) & (knots[1:] >= demand.low[:, None])
        self.fall = np.maximum(-demand.slope, 0.0)
        with np.errstate(divide="ignore"):
            level = np.log(demand.times)[:, None] + np.log(demand.table_s) + self.fall * np.log(demand.knots)
            # log of a, and of a b, of D = a p^-b on each segment.
            self.log_a, self.log_ab = level, level + np.log(self.fall)
        self.log_start, self.log_end = np.log(self.start), np.log(self.end)
        self.power = 1 / (self.fall + 1)
        with np.errstate(under="ignore", over="ignore"):
            last = np.exp(self.log_ab - (self.fall + 1) * self.log_end)
            first = np.exp(self.log_ab - (self.fall + 1) * self.log_start)
        used = self.valid & (last > 0) & np.isfinite(last)
        self.least = float(last[used].min(initial=1.0)) / 2
        # A step over a stretch that rises may pay more than its slopes: never more than the whole time.
        self.most = 2 * max(
            float(first[used].max(initial=0.0)), float(demand.seconds(demand.low).max()), 2 * self.least
        )

    def at(self, price: float) -> tuple[Ints, float]:
        """Return the whole cores taken at a price, and the least sum of seconds and prices over real ones."""
        rows = np.arange(len(self.demand))
        with np.errstate(under="ignore", invalid="ignore"):
            log_p = np.clip((self.log_ab - np.log(price)) * self.power, self.log_start, self.log_end)
            value = np.where(self.valid, np.exp(self.log_a - self.fall * log_p) + price * np.exp(log_p), np.inf)
        rising = self.demand.slope > 0
        if rising.any():
            here = self.demand.times[:, None] * self.demand.table_s + price * self.start
            value = np.where(rising & self.valid, np.where(self.start == self.demand.knots, here, np.inf), value)
            log_p = np.where(rising, self.log_start, log_p)
        place = value.argmin(axis=1)
        real = np.exp(log_p[rows, place])
        lower = np.clip(np.floor(real * (1 + TIE)).astype(np.int64), self.demand.low, self.demand.high)
        upper = np.minimum(lower + 1, self.demand.high)
        cheaper = self.demand.seconds(upper) + price * upper < self.demand.seconds(lower) + price * lower
        return np.where(cheaper, upper, lower), float(value[rows, place].sum())


def _filled(demand: TableDemand, few: Ints, many: Ints, cores: int) -> Ints:
    """Return `few` with the cores left given, along the way to `many`, where they gain most.

    A step counts with the least gain of the steps before it: nobody skips one.
    """
    left = cores - int(few.sum())
    if left <= 0:
        return few
    component, at = steps(few, many)
    if not len(component):
        return few
    chosen = demand.rows(component)
    gain = chosen.seconds(at) - chosen.seconds(at + 1)
    first = np.concatenate([[True], component[1:] != component[:-1]])
    gain = _least_before(gain, first)
    order = np.argsort(-gain, kind="stable")[:left]
    order = order[gain[order] > 0]
    return few + np.bincount(component[order], minlength=len(few))


def _least_before(gain: Floats, first: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """Return the running minimum within each run that starts at `first`."""
    group = np.cumsum(first) - 1
    # Runs are made to fall one after another, so that one running minimum does them all.
    span = float(np.abs(gain).max(initial=0.0)) * 4 + 1.0
    return np.minimum.accumulate(gain - group * span) + group * span
