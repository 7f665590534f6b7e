"""The latency near an allocation as a weighted sum of the components' stays: for better allocations, and for a bound.

The mean latency is a function of the components' mean stays that, without queues, is convex and of degree one: a stay is
its mean times a variable that no core changes, and maxima, sums and mixtures keep both. With its gradient g at any
allocation, L(t) >= sum_c g_c t_c everywhere, so the least of that sum on P cores bounds the latency of every allocation.
"""

from __future__ import annotations

import numpy as np

from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.asked.options import NOTHING, Options
from advisor.planning.queues.model import Judged, Model
from advisor.planning.queues.structure import through
from advisor.planning.solving.objectives import quantile_of

STEP = 1e-4  # relative, of the differences that give the gradient
MOVES_MAX = 96  # exchanges judged in one round of improvement: those of the largest gains by the weighted sum


def weights_of(model: Model, judged: Judged, instances: Ints) -> Floats:
    """Return g_c = dL/dt_c at the first of judged allocations, (n,): at least 0. Cost O(n nodes)."""
    mean = judged.seconds_s[:1] + judged.wait_s[:1] if model.request.arrival_per_s is not None else judged.alone_s[:1]
    variance = judged.stay_variance[:1]
    own = judged.seconds_s[:1] ** 2 * model.curves.variation
    common = judged.felt.common[:1] * np.maximum(variance - own, 0.0)
    n = mean.shape[1]
    scale = np.ones((n + 1, n))
    scale[np.arange(1, n + 1), np.arange(n)] += STEP
    latency, spread = through(
        model.structure, mean * scale, variance * scale**2, np.broadcast_to(instances[:1], scale.shape),
        model.request.arrival_per_s or 0.0, own * scale**2, common * scale**2,
    )  # fmt: skip
    if model.request.quantile is not None:
        latency = quantile_of(latency, spread, model.request.quantile)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (latency[1:] - latency[0]) / STEP / mean[0]
    return np.where(mean[0] > 0, np.maximum(slope, 0.0), 0.0)


def best_moves(options: Options, values: Floats, chosen: Ints, cores: int, takers: Ints | None = None) -> Ints:
    """Return the exchanges with the largest gains by a table of values (n, shapes), best first, (K, n), K <= MOVES_MAX.

    One component changes its shape, or one gives cores that another takes. Cost O(n shapes + n^2).
    """
    n = len(chosen)
    rows = np.arange(n)
    used = int(options.weight[rows, chosen].sum())
    here, weight = values[rows, chosen], options.weight[rows, chosen]
    valid = options.weight < NOTHING
    extra = np.where(valid, options.weight - weight[:, None], NOTHING)
    with np.errstate(invalid="ignore"):
        gain = np.where(valid & np.isfinite(values), here[:, None] - values, -np.inf)
    # Of each component: the best shapes of a few more cores, and of a few fewer.
    moves: list[tuple[float, int, int, int, int]] = []
    free = cores - used
    wider = _picks(gain, extra, 1, max(free, 0) + WIDEST)
    narrower = _picks(gain, extra, -WIDEST, 0)
    wider, narrower = (
        sorted(some, key=lambda one: -float(gain[one] / max(abs(int(extra[one])), 1)))[:SIDE_MAX]
        for some in (wider, narrower)
    )
    takes = set(takers.tolist()) if takers is not None else None
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
    moves += [(-float(gain[row, shape]), row, shape, -1, -1) for row, shape in narrower]
    moves.sort()
    found = np.repeat(chosen[None], min(len(moves), MOVES_MAX), axis=0)
    for place, (_, row, shape, other, less) in enumerate(moves[:MOVES_MAX]):
        found[place, row] = shape
        if other >= 0:
            found[place, other] = less
    return found


WIDEST = 4  # cores that one exchange moves at most, beside those that are free
SIDE_MAX = 96  # shapes on either side that are paired: those of the largest gains by the core
PICKS = 3  # shapes of one component that exchanges consider on either side


def _picks(gain: Floats, extra: Ints, least: int, most: int) -> list[tuple[int, int]]:
    """Return (row, shape) of the best shapes with `least` to `most` more cores than now."""
    inside = (extra >= least) & (extra <= most) & np.isfinite(gain)
    ranked = np.where(inside, gain / np.maximum(np.abs(extra), 1), -np.inf)
    order = np.argsort(-ranked, axis=1)[:, :PICKS]
    return [(row, int(shape)) for row, shapes in enumerate(order) for shape in shapes if inside[row, shape]]
