"""What is minimised: one figure an allocation, by objective."""

from __future__ import annotations

import numpy as np

from advisor.planning.demand import TIE
from advisor.planning.judge import Judged
from advisor.planning.requests import CORES, COST, LATENCY, PERIOD, RATE, Floats, Ints, Request


def figure_of(measure: str, request: Request, judged: Judged, used: Ints) -> Floats:
    """Return the period, the latency that the request is about, the cores or the cost, (K,)."""
    if measure == CORES:
        return used.astype(np.float64)
    if measure == COST:
        return cost_of(request, judged, used)
    return latency_of(judged) if measure == LATENCY else judged.period_s


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


def latency_of(judged: Judged) -> Floats:
    """Return the latency that the request is about, (K,): the mean or its quantile."""
    return judged.latency_s if judged.quantile_s is None else judged.quantile_s


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
            met &= latency_of(judged) <= value * (1 + TIE)
    return met
