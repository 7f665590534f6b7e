"""What changes of an allocation promise: the judge's figure near it as a sum over components, and moves that it ranks.

Near an allocation the latency is a weighted sum of the components' stays, with its gradient as weights; the period is the
longest of theirs. Both with what components do to each other held as it is there.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from advisor import kernels
from advisor.domain.vectors import Floats, Ints
from advisor.planning.demand import Demand
from advisor.planning.judge import Judged, Placed, judge_placed, waits_of
from advisor.planning.options import NOTHING, Options
from advisor.planning.pieces import PATIENCE, TIE
from advisor.planning.queueing import FULL
from advisor.planning.structure import quantile_of, through

STEP = 1e-4  # relative, of the differences that give the gradient
MOVES_MAX = 96  # exchanges judged in one round of improvement: those that promise most
WIDEST = 4  # cores that one exchange moves at most, beside those that are free
SIDE_MAX = 96  # shapes on either side that are paired: those that promise most by the core
PICKS = 3  # shapes of one component that exchanges consider on either side
NEARLY = 1e-3  # components whose cycle is this near the longest are all tried as takers


def linearised(demand: Demand, options: Options, chosen: Ints) -> tuple[Floats, Ints | None]:
    """Return what each shape contributes near an allocation, (n, shapes), and for a period who must be relieved."""
    placed = options.pick(chosen[None])
    judged = judge_placed(demand, placed)
    periods, stays = _still(demand, options, placed, judged)
    if not demand.request.for_latency:
        return periods, np.flatnonzero(judged.cycle_s[0] >= judged.period_s[0] * (1 - NEARLY))
    weights = _gradient(demand, judged)[:, None]
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(stays), weights * np.where(np.isfinite(stays), stays, 0.0), np.inf), None


def _still(demand: Demand, options: Options, placed: Placed, judged: Judged) -> tuple[Floats, Floats]:
    """Return period and mean stay of each shape with the others as they are in a judged allocation, (n, shapes) each.

    A stay is the service without arrivals, infinite where the shape cannot keep up with them.
    """
    rate = demand.request.arrival_per_s
    flow = 1 / judged.period_s[0] if rate is None else rate
    each = flow * demand.visits * judged.seconds_s[0] * placed.cores[0]
    own = np.minimum(judged.utilization[0], 1.0) * placed.cores[0]
    others = np.maximum(each.sum() - own, 0.0)
    valid = np.isfinite(options.seconds_s)
    seconds = np.where(valid, options.seconds_s, 1.0).T
    slowed = seconds * (1 + demand.contention * others)
    load = demand.visits * options.heaviest.T
    period = np.where(valid, (load * slowed).T, np.inf)
    if rate is None:
        return period, np.where(valid, seconds.T, np.inf)
    every = Placed(options.cores.T, options.instances.T, seconds, options.heaviest.T, options.weight.sum(axis=0))
    wait, _ = waits_of(demand, every, slowed)
    stable = np.minimum(rate * load * slowed, 1.0) < FULL
    return period, np.where(valid & stable.T, (wait + slowed).T, np.inf)


def _gradient(demand: Demand, judged: Judged) -> Floats:
    """Return dL/dt_c at a judged allocation, (n,): at least 0. Cost O(n nodes), O(n) where nothing joins or keeps order."""
    request, structure = demand.request, demand.structure
    if not structure.joins and request.quantile is None:
        return demand.visits
    mean = judged.seconds_s + judged.wait_s if request.arrival_per_s is not None else judged.alone_s
    if not np.isfinite(mean).all():
        return demand.visits
    n = mean.shape[1]
    scale = np.ones((n + 1, n))
    scale[np.arange(1, n + 1), np.arange(n)] += STEP
    latency, spread = through(structure, mean * scale, judged.stay_variance * scale**2)
    if request.quantile is not None:
        latency = quantile_of(latency, spread, request.quantile)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (latency[1:] - latency[0]) / STEP / mean[0]
    return np.where(mean[0] > 0, np.maximum(slope, 0.0), 0.0)


def first_stable(demand: Demand, options: Options) -> Ints | None:
    """Return the least shapes that keep up with the arrivals, (n,), or None where a component has none."""
    rate = demand.request.arrival_per_s
    if rate is None:
        return np.zeros(len(options.number), np.int64)
    with np.errstate(invalid="ignore"):
        fits = rate * demand.visits[:, None] * options.heaviest * options.seconds_s < FULL
    fits |= (demand.visits[:, None] == 0) & np.isfinite(options.seconds_s)
    return fits.argmax(axis=1) if fits.any(axis=1).all() else None


def step_keys(values, weight, number, now, by_sum, keys):
    """Fill `keys` (n, shapes) with what decides when each shape is stepped to from `now`, the largest first; -1: never.

    `by_sum`: what a table of values falls by a core, along the convex hull of each component. Else the value before the step.
    """
    path = np.zeros(values.shape[1], np.int64)
    for row in range(len(values)):
        for shape in range(values.shape[1]):
            keys[row, shape] = -1.0
        path[0], last = now[row], 0
        for shape in range(now[row] + 1, number[row]):
            value = values[row, shape]
            if not value < values[row, path[last]] * (1.0 - TIE):
                continue
            while by_sum and last > 0 and values[row, path[last - 1]] < inf:
                before, here = path[last - 1], path[last]
                fall, extra = values[row, before] - value, weight[row, shape] - weight[row, before]
                if (values[row, before] - values[row, here]) * extra >= fall * (
                    weight[row, here] - weight[row, before]
                ):
                    break
                last -= 1
            last += 1
            path[last] = shape
        key = inf
        for place in range(1, last + 1):
            before, here = path[place - 1], path[place]
            if by_sum:
                extra = max(weight[row, here] - weight[row, before], 1)
                key = min(key, (values[row, before] - values[row, here]) / extra)
            else:
                key = values[row, before]
            keys[row, here] = key


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    table, wide, whole = np.ones((1, 1)), np.ones((1, 2), np.int64), np.ones(1, np.int64)
    yield "step_keys", (table, wide, whole, whole, True, table)


KERNELS = kernels.Source(__name__, (step_keys,), _examples, patience=PATIENCE)


def steps_from(options: Options, values: Floats, chosen: Ints, cores: int, *, by_sum: bool) -> tuple[Ints, Floats]:
    """Return the steps, (K, 2) of component and shape, from one allocation up to `cores`, and how values fall with each.

    Cores go where a table of values (n, shapes) falls most a core, or to the largest value as long as it can be lowered. The
    first step that does not fit ends it: whoever has more cores takes it next, nothing overtakes it. Cost O(n shapes).
    """
    keys = np.empty(values.shape)
    KERNELS.step_keys(np.ascontiguousarray(values), options.weight, options.number, chosen, by_sum, keys)
    rows, shapes = np.nonzero(keys >= 0.0)
    follows = np.concatenate([[False], rows[1:] == rows[:-1]])[: len(rows)]
    before = np.where(follows, np.roll(shapes, 1), chosen[rows])
    taken = np.argsort(-keys[rows, shapes], kind="stable")
    used = options.cores_used(chosen) + np.cumsum((options.weight[rows, shapes] - options.weight[rows, before])[taken])
    taken = taken[np.logical_and.accumulate(used <= cores)]
    if not by_sum:
        last = chosen.copy()
        last[rows] = shapes  # of several steps of one component the last stays
        taken = taken[keys[rows, shapes][taken] > values[np.arange(len(last)), last].max()]
    rows, shapes, before = rows[taken], shapes[taken], before[taken]
    return np.stack([rows, shapes], axis=1), values[rows, before] - values[rows, shapes]


def filled(demand: Demand, options: Options, chosen: Ints, cores: int) -> Ints:
    """Return allocations of rising cores from one on, up to `cores`, by what is promised near it, (K, n)."""
    values, _ = linearised(demand, options, chosen)
    steps, _ = steps_from(options, values, chosen, cores, by_sum=demand.request.for_latency)
    found = np.repeat(chosen[None], len(steps), axis=0)
    for place, (row, shape) in enumerate(steps.tolist()):
        found[place:, row] = shape
    return found


def best_moves(options: Options, values: Floats, chosen: Ints, cores: int, takers: Ints | None = None) -> Ints:
    """Return the exchanges with the largest gains by a table of values (n, shapes), best first, (K, n), K <= MOVES_MAX.

    One component changes its shape, or one gives cores that another takes. Cost O(n shapes + n^2).
    """
    rows = np.arange(len(chosen))
    weight = options.weight[rows, chosen]
    free, valid = cores - int(weight.sum()), options.weight < NOTHING
    extra = np.where(valid, options.weight - weight[:, None], NOTHING)
    with np.errstate(invalid="ignore"):
        gain = np.where(valid & np.isfinite(values), values[rows, chosen][:, None] - values, -np.inf)
        gain = np.where(np.isnan(gain), -np.inf, gain)
    wider, narrower = _picks(gain, extra, 1, max(free, 0) + WIDEST), _picks(gain, extra, -WIDEST, 0)
    takes = range(len(chosen)) if takers is None else set(takers.tolist())
    moves = [(-float(gain[row, shape]), row, shape, -1, -1) for row, shape in narrower]
    for row, shape in wider:
        need, more = int(extra[row, shape]), float(gain[row, shape])
        if row in takes and need <= free:
            moves.append((-more, row, shape, -1, -1))
        elif row in takes:
            moves += [
                (-(more + float(gain[other, less])), row, shape, other, less)
                for other, less in narrower
                if other != row and need + int(extra[other, less]) <= free
            ]
    moves.sort()
    found = np.repeat(chosen[None], min(len(moves), MOVES_MAX), axis=0)
    for place, (_, row, shape, other, less) in enumerate(moves[:MOVES_MAX]):
        found[place, row] = shape
        if other >= 0:
            found[place, other] = less
    return found


def _picks(gain: Floats, extra: Ints, least: int, most: int) -> list[tuple[int, int]]:
    """Return (row, shape) of the shapes with `least` to `most` more cores than now that gain most a core."""
    inside = (extra >= least) & (extra <= most) & (np.isfinite(gain) | (gain == np.inf))
    ranked = np.where(inside, gain / np.maximum(np.abs(extra), 1), -np.inf)
    order = np.argsort(-ranked, axis=1)[:, :PICKS]
    found = [(row, int(shape)) for row, shapes in enumerate(order) for shape in shapes if inside[row, shape]]
    return sorted(found, key=lambda one: -float(ranked[one]))[:SIDE_MAX]
