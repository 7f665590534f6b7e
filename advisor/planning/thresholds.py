"""Own cores for each component, exactly: the shortest period, the fewest cores for a period, the lowest sum of times.

A period is the time between two records, 1/throughput. The fewest cores that sustain a period fall as it grows, and
change at the components' own periods only: so the best is found among those thresholds. The lowest sum of times is found
by one price on cores (Lagrange), for which each component takes what it gains most from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.planning.demand import TIE, Demand, Places
from advisor.planning.pieces import KERNELS
from advisor.planning.requests import Floats, Ints

# Bisection ends here; what is left of the bracket is below TIE and therefore a tie.
BRACKET = 1e-13
# Thresholds left in the bracket, beside two a component, at which sorting them is cheaper than halving again.
THRESHOLDS_FEW = 1024
TINY = 1e-300  # a price of nothing at all
PRICES_MAX = 60  # bisections of the price: the bracket falls to 1e-9


class Shapes(NamedTuple):
    """Cores of an instance, and instances, (n,) each."""

    cores: Ints
    instances: Ints

    @property
    def used(self) -> int:
        """Cores taken."""
        return int((self.cores * self.instances).sum())


def best_in_places(places: Places, cores: int) -> tuple[float, Ints] | None:
    """Return the shortest period on at most `cores` cores and the fewest sizes that reach it; None where too few."""
    values = np.unique(places.turn_s)
    low, high = -1, int(np.searchsorted(values, np.inf))
    if not high or int(places.least.sum()) > cores:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        sizes = sizes_within(places, float(values[middle]))
        low, high = (middle, high) if sizes is None or int(sizes.sum()) > cores else (low, middle)
    sizes = sizes_within(places, float(values[high]) * (1 + TIE))
    return None if sizes is None else (float(values[high]), sizes)


def sizes_within(places: Places, period_s: float) -> Ints | None:
    """Return the fewest cores of each component whose turn is at most the period, or None where one has none."""
    fits = places.turn_s <= period_s
    return places.sizes[fits.argmax(axis=1)] if bool(fits[:, -1].all()) else None


def shapes_in_places(demand: Demand, places: Places, sizes: Ints, period_s: float) -> Shapes:
    """Return the shapes of the shortest stays on these cores that sustain the period; those of the turns may be longer."""
    _, stays, cores, instances = places.at(sizes)
    for number in range(1, int(instances.max())):
        rows = np.flatnonzero((instances > number) & (demand.fewest <= number))
        few = sizes[rows] // number
        pick = places.single[rows, np.maximum(np.searchsorted(places.sizes, few, side="right") - 1, 0)]
        stay = demand.visits[rows] * demand.rows(rows).seconds(pick)
        share = np.array([demand.heaviest(row, number) for row in rows.tolist()])
        better = (pick <= few) & (pick >= demand.low[rows]) & (stay < stays[rows] * (1 - TIE))
        better &= stay * share <= period_s * (1 + TIE)
        rows = rows[better]
        stays[rows], cores[rows], instances[rows] = stay[better], pick[better], number
    return Shapes(cores, instances)


# --- many components: closed forms --------------------------------------------------------------------------------------


def own_period(demand: Demand, cores: int) -> tuple[float, Shapes]:
    """Return the shortest period of single instances, of a plain demand, and the fewest cores that reach it."""
    taken, other = np.empty((2, len(demand)), np.int64)
    period = KERNELS.shortest_period(
        demand.level, demand.fall, demand.knots, demand.low, demand.high, demand.visits, cores, taken, other
    )
    return float(period), Shapes(taken, np.ones_like(taken))


def best_period(demand: Demand, cores: int) -> float:
    """Return the shortest period max_c v_c T_c(p_c) / n_c of a plain demand with sum n_c p_c <= cores.

    `cores` is at least the sum of ``demand.low``. Cost O(n m log(P)) for single instances, else
    O(n (1 + sqrt(P/n)) log(1/BRACKET)).
    """
    if demand.single:
        return own_period(demand, cores)[0]
    lowest = float((demand.visits * demand.seconds(demand.fastest(demand.high)) / demand.most).max())
    if least_shapes(demand, lowest).used <= cores:
        return lowest
    return _period_of_instances(demand, cores, lowest, float((demand.visits * demand.seconds(demand.low)).max()))


def least_shapes(demand: Demand, period_s: float, *, ties: bool = False) -> Shapes:
    """Return the fewest n_c p_c with v_c T_c(p_c) / n_c <= period_s, which each component of a plain demand can sustain.

    With `ties`, among equally few the most cores per instance: the lower latency. Cost O(n m), with instances
    O(n + sum sqrt(n_c p_c)).
    """
    if demand.single:
        return Shapes(_within(demand, period_s), np.ones(len(demand), np.int64))
    narrowest = _within(demand, period_s, demand.most)
    return _cheapest(demand, Shapes(narrowest, _instances_for(demand, narrowest, period_s)), period_s, ties=ties)


def _within(demand: Demand, period_s: float, instances: Ints | int = 1) -> Ints:
    with np.errstate(divide="ignore"):
        return demand.fewest_within(np.where(demand.visits > 0, instances * period_s / demand.visits, np.inf))


def _steps(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return (component, cores) of every single-core step from `first_c` up to, without, `last_c`, in text order."""
    counts = np.maximum(last - first, 0)
    component = np.repeat(np.arange(len(first)), counts)
    offset = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return component, np.arange(len(component)) + offset


def _between(lowest: float, highest: float) -> float:
    """Return the middle of the bracket: of its exponents while it is wide."""
    return lowest**0.5 * highest**0.5 if highest > 2 * lowest else (lowest + highest) / 2


def _period_of_instances(demand: Demand, cores: int, lowest: float, highest: float) -> float:
    while highest - lowest > BRACKET * highest:
        middle = _between(lowest, highest)
        shapes = least_shapes(demand, middle)
        if shapes.used <= cores:
            reached = demand.visits * demand.seconds(shapes.cores) / shapes.instances
            highest = min(middle, float(reached.max()))
        else:
            lowest = middle
    return highest


def _instances_for(demand: Demand, cores: Ints, period_s: float) -> Ints:
    """Return the fewest instances of `cores` cores that sustain the period; where they are more than allowed, any number."""
    seconds = demand.visits * demand.seconds(cores)
    instances = np.clip(np.ceil(seconds / period_s), 1, demand.most + 1).astype(np.int64)
    instances += seconds / instances > period_s
    fewer = np.maximum(instances - 1, 1)
    return np.where(seconds / fewer <= period_s, fewer, instances)


def _cheapest(demand: Demand, shapes: Shapes, period_s: float, *, ties: bool) -> Shapes:
    """Return the cheapest shapes that sustain the period, given the narrowest.

    No shape takes fewer cores than the work on the narrowest, over the period. A shape no dearer than n0 p0 has n or p at
    most its root: both are tried.
    """
    cores, instances = shapes.cores.copy(), shapes.instances.copy()
    bound = np.ceil(demand.work_s(cores) / period_s * (1 - TIE)).astype(np.int64)
    rows, step = np.flatnonzero((instances > 1) & (ties | (cores * instances > bound))), 1
    while len(rows):
        rest = demand.rows(rows)
        few = np.full(len(rows), step, np.int64)
        narrow = np.clip(few, rest.low, rest.high)
        for some in (Shapes(narrow, _instances_for(rest, narrow, period_s)), Shapes(_within(rest, period_s, few), few)):
            cost, best = some.cores * some.instances, cores[rows] * instances[rows]
            valid = some.instances <= rest.most
            valid &= rest.visits * rest.seconds(some.cores) / some.instances <= period_s
            better = valid & ((cost < best) | ((cost == best) & (some.cores > cores[rows])))
            cores[rows] = np.where(better, some.cores, cores[rows])
            instances[rows] = np.where(better, some.instances, instances[rows])
        step += 1
        cost = cores[rows] * instances[rows]
        rows = rows[(step * step <= cost) & ((step <= rest.most) | (shapes.cores[rows] ** 2 < cost))]
    return Shapes(cores, instances)


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
