"""The lowest sum of times with cores of one's own: one price on cores (Lagrange), for which each takes what gains it most."""

from __future__ import annotations

import numpy as np

from advisor.planning.demand import TIE, Demand
from advisor.planning.requests import Floats, Ints

# Thresholds left in the bracket, beside two a component, at which sorting them is cheaper than halving again.
THRESHOLDS_FEW = 1024
TINY = 1e-300  # a price of nothing at all
PRICES_MAX = 60  # bisections of the price: the bracket falls to 1e-9


def lowest_sum(demand: Demand, cores: int, sum_s: float = 0.0) -> tuple[Ints, float]:
    """Return cores p_c, sum p_c <= cores, with a sum of v_c T_c(p_c) near the lowest, and a bound of that (Lagrange).

    Single instances. With `sum_s` no more cores are taken than such a sum needs. At a price L each component takes the p
    that minimises v T(p) + L p: sqrt(v fall / L) of a piece, or an end. What is left of the cores goes where it gains
    most; exact where curves are convex. Cost O(n m) a price.
    """
    low, top = demand.low, demand.fastest(demand.high)

    def enough(taken: Ints) -> bool:
        return float((demand.visits * demand.seconds(taken)).sum()) <= sum_s * (1 + TIE)

    def too_many(taken: Ints) -> bool:
        return int(taken.sum()) > cores or (sum_s > 0 and enough(taken))

    if not too_many(top):
        return top, float((demand.visits * demand.seconds(top)).sum())
    few, many = low, top
    gains = demand.visits[:, None] * np.maximum(demand.fall, 0.0)
    least, most = (
        float(gains[gains > 0].min(initial=1.0)) / float(top.max()) ** 2 / 2,
        2 * float(gains.max(initial=1.0)),
    )
    price, bound = most, -np.inf
    for _ in range(PRICES_MAX):
        price = max((least * most) ** 0.5, TINY)
        taken, value = _taken(demand, price)
        bound = max(bound, value - price * cores)
        if too_many(taken):
            many, least = taken, price
        else:
            few, most = taken, price
        if int(np.abs(many - few).sum()) <= THRESHOLDS_FEW + 2 * len(few) or most <= least * (1 + TIE):
            break
    component, at = _steps(few, np.maximum(many, few))
    gain = demand.visits[component] * (demand.rows(component).seconds(at) - demand.rows(component).seconds(at + 1))
    gain = _least_before(gain, component)
    count = cores - int(few.sum())
    if sum_s > 0:
        missing = float((demand.visits * demand.seconds(few)).sum()) - sum_s * (1 + TIE)
        count = min(count, int(np.searchsorted(np.cumsum(np.sort(gain)[::-1]), missing)) + 1)
    count = min(count, int((gain > 0).sum()))
    if count > 0:  # the bound is sharpest at the price of the last core given
        last = float(np.partition(gain, len(gain) - count)[len(gain) - count])
        bound = max(bound, _taken(demand, last)[1] - last * cores)
    return _with_largest(few, component, gain, count), max(bound, 0.0)


def _steps(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return (component, cores) of every single-core step from `first_c` up to, without, `last_c`, in text order."""
    counts = np.maximum(last - first, 0)
    component = np.repeat(np.arange(len(first)), counts)
    offset = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return component, np.arange(len(component)) + offset


def _taken(demand: Demand, price: float) -> tuple[Ints, float]:
    """Return the whole cores taken at a price, and the least sum of seconds and prices."""
    start = np.maximum(demand.knots, demand.low[:, None].astype(np.float64))
    end = np.minimum(np.append(demand.knots[1:], np.inf), demand.high[:, None])
    valid, visits = end >= start, demand.visits[:, None]
    last = np.maximum(end, start)
    real = np.clip(np.sqrt(np.maximum(visits * demand.fall, 0.0) / price), start, last)
    some = np.stack([np.floor(real), np.minimum(np.floor(real) + 1, last)])
    value = np.where(valid, visits * (demand.level + demand.fall / some) + price * some, np.inf)
    each = value.min(axis=0)
    rows, place = np.arange(len(demand)), each.argmin(axis=1)
    side = value[:, rows, place].argmin(axis=0)
    return some[side, rows, place].astype(np.int64), float(each[rows, place].sum())


def _least_before(gain: Floats, component: Ints) -> Floats:
    """Return the least gain of each component's steps so far: nobody skips one. Convex curves are left as they are."""
    if not ((np.diff(gain) > 0) & (component[1:] == component[:-1])).any():
        return gain
    span = float(np.abs(gain).max(initial=0.0)) * 4 + 1.0  # runs are made to fall one after another
    fallen: Floats = np.minimum.accumulate(gain - component * span)
    return fallen + component * span


def _with_largest(few: Ints, component: Ints, gain: Floats, count: int) -> Ints:
    """Return `few` with the `count` largest gains taken, equal ones in text order."""
    if count <= 0:
        return few.copy()
    cut = float(np.partition(gain, len(gain) - count)[len(gain) - count])
    chosen = gain > cut * (1 + TIE)
    equal = np.flatnonzero(~chosen & (gain >= cut * (1 - TIE)))
    chosen[equal[: count - int(chosen.sum())]] = True
    return few + np.bincount(component[chosen], minlength=len(few))
