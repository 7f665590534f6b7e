"""What is minimised: one figure an allocation, by objective, and the quantile of a latency."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log
from statistics import NormalDist

import numpy as np

from advisor.domain import elementary
from advisor.planning.demand import TIE
from advisor.planning.judge import Judged
from advisor.planning.requests import CORES, COST, LATENCY, PERIOD, RATE, Floats, Ints, Request

SHAPE_SMOOTH = 30.0  # gamma shapes from here on: Wilson and Hilferty's cube root is within 1e-4
SHAPES: Floats = elementary.spaced(1e-2, SHAPE_SMOOTH, 200)  # where the quantile is tabulated between


def figure_of(measure: str, request: Request, judged: Judged, used: Ints) -> Floats:
    """Return the period, the latency that the request is about, the cores or the cost, (K,)."""
    if measure == CORES:
        return used.astype(np.float64)
    if measure == COST:
        return cost_of(request, judged, used)
    return latency_of(request, judged) if measure == LATENCY else judged.period_s


def score(request: Request, judged: Judged, used: Ints) -> Floats:
    """Return what the objective minimises, (K,); infinite where a target is not met."""
    found = figure_of(request.aim.measure, request, judged, used)
    return np.where(meets(request, judged), found, np.inf) if request.target else found


def driven(request: Request, judged: Judged, used: Ints, *, by_latency: bool) -> Floats:
    """Return what a search lowers on its way, (K,): latency, period or cost; far off, by the period, while that is infinite."""
    measure = COST if request.weights else LATENCY if by_latency else PERIOD
    found = figure_of(measure, request, judged, used)
    if request.aim.by_latency and request.target:
        found = np.where(meets(request, judged), found, np.inf)
    return np.where(np.isfinite(found), found, FAR * (1 + judged.period_s))


FAR = 1e100  # before any score, and before what a search lowers until it is finite


def latency_of(request: Request, judged: Judged) -> Floats:
    """Return the latency that the request is about, (K,): the mean or its quantile."""
    if request.quantile is None:
        return judged.latency_s
    return quantile_of(judged.latency_s, judged.latency_variance, request.quantile)


def cost_of(request: Request, judged: Judged, used: Ints) -> Floats:
    """Return the cost per second, (K,); infinite where records arrive faster than they leave."""
    weights = request.weights or {}
    core, late, worth = (float(weights.get(name, 0.0)) for name in ("core_s", "latency_s", "record"))
    flow = 1 / judged.period_s if request.arrival_per_s is None else np.full(len(used), request.arrival_per_s)
    waits = late * flow * judged.latency_s if late else np.where(np.isfinite(judged.latency_s), 0.0, np.inf)
    return core * used + waits - worth * flow


def meets(request: Request, judged: Judged) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which allocations reach the target, (K,)."""
    met = np.ones(len(judged.period_s), np.bool_)
    for name, value in (request.target or {}).items():
        if name == RATE:
            met &= judged.period_s * value <= 1 + TIE
        else:
            met &= latency_of(request, judged) <= value * (1 + TIE)
    return met


def quantile_of(mean: Floats, variance: Floats, level: float) -> Floats:
    """Return the quantile of gamma distributions with these means and variances, elementwise.

    Below SHAPE_SMOOTH from a table over the shape, to 1e-3; above by Wilson and Hilferty's cube root.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.where(variance > 0, mean**2 / variance, np.inf)
    shape = np.where(np.isfinite(mean), shape, np.inf)
    z = NormalDist().inv_cdf(level)
    root = np.maximum(1 - 1 / (9 * shape) + z / (3 * np.sqrt(shape)), 0.0)
    at: Floats = elementary.log(np.clip(shape, SHAPES[0], SHAPES[-1]))
    knots: Floats = elementary.log(SHAPES)
    table = np.interp(at, knots, _table(level))
    return mean * np.where(shape >= SHAPE_SMOOTH, root * root * root, table)


@lru_cache(64)
def _table(level: float) -> Floats:
    """Return the quantile over the mean, by shape."""
    return np.array([_gamma_quantile(float(shape), level) / shape for shape in SHAPES])


def _gamma_quantile(shape: float, level: float) -> float:
    low, high = 0.0, shape + 60.0 + 10 * shape**0.5
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _gamma_below(shape, middle) < level else (low, middle)
    return high


def _gamma_below(shape: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function by its series. Cost O(x)."""
    if x <= 0:
        return 0.0
    term = exp(shape * log(x) - x - lgamma(shape + 1))
    total, n = term, shape
    while term > total * 1e-16 or n < x:
        n += 1
        term *= x / n
        total += term
    return min(total, 1.0)
