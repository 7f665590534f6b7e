"""Own cores for each component: the shortest period, and the fewest cores for a period.

A period is the time between two records, 1/throughput. Component c on n instances of p cores sustains D_c(p)/n. The
fewest cores that sustain a period fall as the period grows, so the best period is found by bisection and finished
exactly.
"""

from __future__ import annotations

import numpy as np

from advisor.planning.asked.demand import TIE, Demand, Floats, Ints
from advisor.planning.asked.table_demand import AnyDemand, Shareable, TableDemand

# Bisection ends here; what is left of the bracket is below TIE and therefore a tie.
BRACKET = 1e-13
# Thresholds left in the bracket, beside two a component, at which sorting them is cheaper than halving again.
THRESHOLDS_FEW = 1024


def best_period(demand: AnyDemand, cores: int) -> float:
    """Return the shortest period max_c D_c(p_c)/n_c over all allocations with sum n_c p_c <= cores.

    Parameters
    ----------
    demand : Demand
    cores : int
        At least the sum of ``demand.low``.

    Notes
    -----
    Cost O(n log(P) + n log(n)) for single instances: bisection until the steps of the staircases D_c(p) that lie in the
    bracket are few, then their exact order. With instances O(n (1 + sqrt(P/n)) log(1/BRACKET)).
    """
    lowest = float((demand.seconds(demand.fastest(demand.high)) / demand.instances_max).max())
    if total_cores(*least_cores(demand, lowest)) <= cores:
        return lowest
    highest = float(demand.seconds(demand.low).max())
    if isinstance(demand, Demand) and not demand.single:
        return _period(demand, cores, lowest, highest)
    return _single_period(demand, cores, lowest, highest)


def least_cores(demand: AnyDemand, period_s: float, *, ties: bool = False) -> tuple[Ints, Ints]:
    """Return cores per instance and instances, the fewest n_c p_c with D_c(p_c)/n_c <= period_s.

    With `ties`, among equally few the most cores per instance: the lower latency. The period must be one that each
    component can sustain, D_c(high_c)/instances_max_c <= period_s. Cost O(n), with instances O(n + sum sqrt(n_c p_c)).
    """
    if isinstance(demand, TableDemand) or demand.single:  # tables have instances in the general search only
        cores = fewest_within(demand, np.full(len(demand), period_s))
        return cores, np.ones_like(cores)
    return _cheapest(demand, _narrowest(demand, period_s), period_s, ties=ties)


def total_cores(cores: Ints, instances: Ints) -> int:
    """Return the cores that an allocation takes."""
    return int((cores * instances).sum())


def fewest_within(demand: Shareable, seconds: Floats) -> Ints:
    """Return the fewest cores p_c in [low_c, high_c] with D_c(p_c) <= seconds_c, exact in floating point; else high_c.

    Closed forms, with what they miss by rounding found by bisection over whole cores. Cost O(n), for tables O(n m).
    """
    return _fewest_by_formula(demand, seconds) if isinstance(demand, Demand) else demand.fewest_within(seconds)


def _fewest_by_formula(demand: Demand, seconds: Floats) -> Ints:
    """Return ceil(parallel/(seconds - serial)), which may miss by rounding, far where a curve is flat to the last bit."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        guess = np.ceil(demand.parallel_s / (seconds - demand.serial_s))
    guess = np.where(demand.parallel_s == 0, demand.low, np.where(guess > 0, guess, demand.high))
    cores = np.clip(guess, demand.low, demand.high).astype(np.int64)
    fits = demand.seconds(cores) <= seconds
    wrong = fits & (cores > demand.low) & (demand.seconds(np.maximum(cores - 1, 1)) <= seconds)
    wrong |= ~fits & (cores < demand.high)
    if wrong.any():
        rows = np.flatnonzero(wrong)
        cores[rows] = _bisected(demand.rows(rows), seconds[rows])
    return cores


def _bisected(demand: Demand, seconds: Floats) -> Ints:
    low, high = demand.low.copy(), demand.high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        fits = demand.seconds(middle) <= seconds
        high = np.where(fits, middle, high)
        low = np.where(fits, low, np.minimum(middle + 1, high))
    return high


def _single_period(demand: AnyDemand, cores: int, lowest: float, highest: float) -> float:
    """Return the best period of single instances; `lowest` is not feasible, `highest` is."""
    many, few = (fewest_within(demand, np.full(len(demand), period)) for period in (lowest, highest))
    guess = True
    while (many - few).sum() > THRESHOLDS_FEW + 2 * len(demand):
        if highest - lowest <= BRACKET * highest:
            return highest
        # Cores fall with the period about like a power of it: guess by that, and halve every other time for certainty.
        middle = _between(lowest, highest)
        if guess:
            share = np.log(many.sum() / cores) / np.log(many.sum() / few.sum())
            middle = min(max(lowest ** (1 - share) * highest**share, lowest), highest)
        guess = not guess
        between = fewest_within(demand, np.full(len(demand), middle))
        if between.sum() <= cores:
            highest, few = middle, between
        else:
            lowest, many = middle, between
    # Each step down from `few` to `many` needs one core and passes one threshold. With s cores to spare the s largest
    # thresholds are passed, and the next one is the period.
    component, taken = steps(few, many)
    thresholds = demand.falling_s(component, taken)
    spare = cores - int(few.sum())
    return float(np.partition(thresholds, len(thresholds) - 1 - spare)[len(thresholds) - 1 - spare])


def steps(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return (component, cores) of every single-core step from `first_c` up to, without, `last_c`, in text order."""
    counts = last - first
    component = np.repeat(np.arange(len(first)), counts)
    offset = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return component, np.arange(len(component)) + offset


def _between(lowest: float, highest: float) -> float:
    """Return the middle of the bracket: of its exponents while it is wide."""
    return lowest**0.5 * highest**0.5 if highest > 2 * lowest else (lowest + highest) / 2


def _period(demand: Demand, cores: int, lowest: float, highest: float) -> float:
    while highest - lowest > BRACKET * highest:
        middle = _between(lowest, highest)
        shapes = _narrowest(demand, middle)
        if total_cores(*shapes) > cores:
            # Too dear as it is; cheaper shapes are worth looking for only where they can be cheap enough.
            possible = int(_cost_bound(demand, shapes[0], middle).sum()) <= cores
            shapes = _cheapest(demand, shapes, middle, ties=False) if possible else shapes
        if total_cores(*shapes) <= cores:
            highest = min(middle, float(demand.period_s(*shapes).max()))
        else:
            lowest = middle
    return highest


def _instances_for(demand: Demand, cores: Ints, period_s: float) -> Ints:
    """Return the fewest instances of `cores` cores that sustain the period, exact in floating point.

    Where they are more than allowed, any number that is.
    """
    seconds = demand.seconds(cores)
    instances = np.clip(np.ceil(seconds / period_s), 1, demand.instances_max + 1).astype(np.int64)
    instances += seconds / instances > period_s
    fewer = np.maximum(instances - 1, 1)
    return np.where(seconds / fewer <= period_s, fewer, instances)


def _narrowest(demand: Demand, period_s: float) -> tuple[Ints, Ints]:
    """Return the shapes of the fewest cores per instance that sustain the period."""
    cores = fewest_within(demand, demand.instances_max.astype(np.float64) * period_s)
    return cores, _instances_for(demand, cores, period_s)


def _cost_bound(demand: Demand, cores: Ints, period_s: float) -> Ints:
    """Return cores that no shape of at least `cores_c` per instance undercuts: n p >= (p serial + parallel)/period."""
    return np.ceil((cores * demand.serial_s + demand.parallel_s) / period_s * (1 - TIE)).astype(np.int64)


def _cheapest(demand: Demand, shapes: tuple[Ints, Ints], period_s: float, *, ties: bool) -> tuple[Ints, Ints]:
    """Return the cheapest shapes (cores per instance, instances) that sustain the period, given the narrowest.

    From one core per instance no other shape is cheaper, by `_cost_bound`. Otherwise a shape no dearer than n0 p0 has
    n or p at most its root: both are tried, p only above p0, n only as far as allowed.
    """
    narrowest = shapes[0]
    cores, instances = narrowest.copy(), shapes[1].copy()
    is_open = (instances > 1) & (ties | (cores * instances > _cost_bound(demand, cores, period_s)))
    rows, step = np.flatnonzero(is_open), 1
    while len(rows):
        rest = demand.rows(rows)
        for some_cores, some in _shapes(rest, step, period_s):
            best_cores, best = cores[rows], instances[rows]
            cost, best_cost = some_cores * some, best_cores * best
            valid = (some <= rest.instances_max) & (rest.seconds(some_cores) / some <= period_s)
            better = valid & ((cost < best_cost) | ((cost == best_cost) & (some_cores > best_cores)))
            cores[rows] = np.where(better, some_cores, best_cores)
            instances[rows] = np.where(better, some, best)
        step += 1
        cost = cores[rows] * instances[rows]
        rows = rows[(step * step <= cost) & ((step <= rest.instances_max) | (narrowest[rows] ** 2 < cost))]
    return cores, instances


def _shapes(rest: Demand, step: int, period_s: float) -> list[tuple[Ints, Ints]]:
    """Return the two shapes that one step tries: `step` cores an instance, and `step` instances."""
    few = np.full(len(rest), step, np.int64)
    narrow = np.clip(few, rest.low, rest.high)
    return [
        (narrow, _instances_for(rest, narrow, period_s)),
        (fewest_within(rest, few.astype(np.float64) * period_s), few),
    ]
