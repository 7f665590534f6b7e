"""The lowest latency of tabulated curves of any number, by a price on cores.

At a price L each component takes the cores that minimise D_c(p) + L p: on a segment of its table, where D = a p^-b, that
is p = (a b / L)^(1/(b+1)), else an end. The sum of these minima less L P is a bound of the latency on P cores (Lagrange's
dual), and the price at which the cores are just taken gives an allocation next to it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.table_demand import TableDemand
from advisor.planning.closed_forms.throughput import steps

PRICES_MAX = 40  # bisections of the price: fewer where the cores taken meet those given
STEPS_FEW = (
    512  # single cores left in the bracket, beside one for two components, at which sorting their gains is cheaper
)


def lowest_latency_priced(demand: TableDemand, cores: int) -> tuple[Ints, float]:
    """Return cores p_c, sum p_c <= cores, with a latency near the lowest, and a bound of it. Cost O(n m) a price.

    `cores` is at least the sum of ``demand.low``.
    """
    top = demand.useful()
    if top.sum() <= cores:
        return top, demand.latency_s(top)
    taker = _Taker(demand)
    few, many, price = _bracket(taker, top, lambda taken: bool(taken.sum() <= cores), cores)
    found, last = _filled(demand, few, np.maximum(many, few), lambda gains: cores - int(few.sum()))
    # The bound is sharpest near the price of the last core given.
    prices = [price, last] if last > 0 else [price]
    return found, max(taker.at(one)[1] - one * cores for one in prices)


def least_cores_priced(demand: TableDemand, latency_s: float) -> Ints | None:
    """Return few cores whose latency is at most `latency_s`, or None when no number of cores reaches it.

    The price at which the latency is just reached; within the gap of the priced latency. Cost O(n m) a price.
    """
    limit = latency_s * (1 + TIE)
    top = demand.useful()
    if demand.latency_s(top) > limit:
        return None
    if demand.latency_s(demand.low) <= limit:
        return demand.low.copy()
    few, many, _ = _bracket(_Taker(demand), top, lambda taken: demand.latency_s(taken) > limit, None)
    if demand.latency_s(few) <= limit:
        return few
    many = np.maximum(many, few)
    missing = demand.latency_s(few) - limit
    found, _ = _filled(demand, few, many, lambda gains: int(np.searchsorted(np.cumsum(gains), missing)) + 1)
    # Gains count with the least before them: where curves bend both ways a core or two more may be needed.
    return found if demand.latency_s(found) <= limit else many


def _bracket(taker: _Taker, top: Ints, is_few: Callable[[Ints], bool], cores: int | None) -> tuple[Ints, Ints, float]:
    """Return two allocations between which the answer lies, with few steps between them, and a price between theirs."""
    few, many, low, high = taker.demand.low, top, taker.least, taker.most
    middle = (low * high) ** 0.5
    for turn in range(PRICES_MAX):
        middle = (low * high) ** 0.5
        if cores is not None and turn % 2 and many.sum() > few.sum():
            # Cores fall with the price about like a power of it.
            share = np.log(many.sum() / cores) / np.log(many.sum() / few.sum())
            middle = low ** (1 - share) * high**share
        taken, _ = taker.at(middle)
        if is_few(taken):
            few, high = taken, middle
        else:
            many, low = taken, middle
        if np.abs(many - few).sum() <= STEPS_FEW + len(few) // 2 or high <= low * (1 + TIE):
            break
    return few, many, middle


class _Taker:
    """What each component takes at a price."""

    def __init__(self, demand: TableDemand) -> None:
        self.demand = demand
        knots = np.concatenate([demand.knots, demand.knots[-1:]])
        self.start = np.maximum(knots[:-1], demand.low[:, None])
        self.end = np.maximum(np.minimum(knots[1:], demand.high[:, None]), self.start)
        self.valid = (knots[:-1] <= demand.high[:, None]) & (knots[1:] >= demand.low[:, None])
        self.fall = np.maximum(-demand.slope, 0.0)
        # Only the start counts where a segment rises, or has no whole count inside: its end starts the next one.
        self.at_start = (demand.slope > 0) | ((self.end - self.start <= 1) & (self.end == knots[1:]))
        self.of_start = demand.times[:, None] * demand.table_s * (self.start / demand.knots) ** demand.slope
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
        value = np.where(self.at_start & self.valid, self.of_start + price * self.start, value)
        log_p = np.where(self.at_start, self.log_start, log_p)
        place = value.argmin(axis=1)
        real = np.exp(log_p[rows, place])
        lower = np.clip(np.floor(real * (1 + TIE)).astype(np.int64), self.demand.low, self.demand.high)
        upper = np.minimum(lower + 1, self.demand.high)
        cheaper = self.demand.seconds(upper) + price * upper < self.demand.seconds(lower) + price * lower
        return np.where(cheaper, upper, lower), float(value[rows, place].sum())


def _filled(demand: TableDemand, few: Ints, many: Ints, count: Callable[[Floats], int]) -> tuple[Ints, float]:
    """Return `few` with cores given, along the way to `many`, where they gain most, and the gain of the last one.

    `count` tells how many from their gains, sorted. A step counts with the least gain of the steps before it: nobody
    skips one.
    """
    component, at = steps(few, many)
    if not len(component):
        return few, 0.0
    chosen = demand.rows(component)
    gain = chosen.seconds(at) - chosen.seconds(at + 1)
    first = np.concatenate([[True], component[1:] != component[:-1]])
    gain = _least_before(gain, first)
    order = np.argsort(-gain, kind="stable")
    order = order[: max(count(gain[order]), 0)]
    order = order[gain[order] > 0]
    last = float(gain[order[-1]]) if len(order) else 0.0
    return few + np.bincount(component[order], minlength=len(few)), last


def _least_before(gain: Floats, first: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """Return the running minimum within each run that starts at `first`."""
    group = np.cumsum(first) - 1
    # Runs are made to fall one after another, so that one running minimum does them all.
    span = float(np.abs(gain).max(initial=0.0)) * 4 + 1.0
    fallen: Floats = np.minimum.accumulate(gain - group * span)
    return fallen + group * span
