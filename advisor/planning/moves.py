"""What changes of an allocation promise: the judge's figure near it as a sum over components, and moves that it ranks.

Near an allocation the latency is a weighted sum of the components' stays, with its gradient as weights; the period is the
longest of theirs. Both with what components do to each other held as it is there.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from advisor.planning.demand import Demand
from advisor.planning.judge import Judged, Placed, judge_placed, waits_of
from advisor.planning.options import NOTHING, Options
from advisor.planning.pieces import TIE
from advisor.planning.queueing import FULL
from advisor.planning.requests import Floats, Ints
from advisor.planning.structure import quantile_of, through

STEP = 1e-4  # relative, of the differences that give the gradient
MOVES_MAX = 96  # exchanges judged in one round of improvement: those that promise most
WIDEST = 4  # cores that one exchange moves at most, beside those that are free
SIDE_MAX = 96  # shapes on either side that are paired: those that promise most by the core
PICKS = 3  # shapes of one component that exchanges consider on either side
NEARLY = 1e-3  # components whose cycle is this near the longest are all tried as takers


def linearised(demand: Demand, options: Options, chosen: Ints, *, by_latency: bool) -> tuple[Floats, Ints | None]:
    """Return what each shape contributes near an allocation, (n, shapes), and for a period who must be relieved."""
    placed = options.pick(chosen[None])
    judged = judge_placed(demand, placed)
    periods, stays = _still(demand, options, placed, judged)
    if not by_latency:
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


def filled(demand: Demand, options: Options, chosen: Ints, cores: int, *, by_latency: bool) -> Ints:
    """Return allocations of rising cores from one on, up to `cores`, by what is promised near it, (K, n)."""
    values, _ = linearised(demand, options, chosen, by_latency=by_latency)
    return (_greedy if by_latency else _relieved)(options, values, chosen, cores)


def _relieved(options: Options, periods: Floats, chosen: Ints, cores: int) -> Ints:
    """Return allocations in which whoever is slowest gets its next faster shape, one step after the other."""
    now, free, rows, found = chosen.copy(), cores - options.cores_used(chosen), np.arange(len(chosen)), list[Ints]()
    while True:
        cycles = periods[rows, now]
        row = int(cycles.argmax())
        faster = np.flatnonzero(periods[row, : options.number[row]] < cycles[row] * (1 - TIE))
        if not len(faster):
            break
        free -= int(options.weight[row, faster[0]] - options.weight[row, now[row]])
        if free < 0:
            break
        now[row] = faster[0]
        found.append(now.copy())
    return np.stack(found) if found else np.zeros((0, len(chosen)), np.int64)


def _greedy(options: Options, values: Floats, chosen: Ints, cores: int) -> Ints:
    """Return allocations by the largest gains a core, one component after the other."""
    heap: list[tuple[float, int, int]] = []
    now, free, found = chosen.copy(), cores - options.cores_used(chosen), list[Ints]()

    def push(row: int) -> None:
        at, number = int(now[row]), int(options.number[row])
        extra = options.weight[row, :number] - options.weight[row, at]
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = np.where(extra > 0, (values[row, at] - values[row, :number]) / extra, -np.inf)
        pick = int(gain.argmax())
        if gain[pick] > 0:
            heappush(heap, (-float(gain[pick]), row, pick))

    for row in range(len(now)):
        push(row)
    heapify(heap)
    while heap:
        _, row, pick = heappop(heap)
        extra = int(options.weight[row, pick] - options.weight[row, now[row]])
        if extra > free:
            break  # whoever has more cores takes this step next: nothing overtakes it
        now[row], free = pick, free - extra
        found.append(now.copy())
        push(row)
    return np.stack(found) if found else np.zeros((0, len(chosen)), np.int64)


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
    takes = None if takers is None else set(takers.tolist())
    moves = [(-float(gain[row, shape]), row, shape, -1, -1) for row, shape in narrower]
    for row, shape in wider:
        if takes is not None and row not in takes:
            continue
        need = int(extra[row, shape])
        if need <= free:
            moves.append((-float(gain[row, shape]), row, shape, -1, -1))
            continue
        moves += [
            (-float(gain[row, shape] + gain[other, less]), row, shape, other, less)
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
