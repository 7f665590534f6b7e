"""What an allocation gives on uncertain curves, and the chance that one gives more than another.

Components' times are taken as independent of each other and log-normal about their curves. The error of one component's
curve has two parts: its level, the same on all cores (what is uncertain where the curve is known best), and its shape,
which adds to that elsewhere and is taken as independent from one count of cores to another. So two allocations share a
component's level, and where they give it the same cores its shape, too. Chances are shares of DRAWS such errors, the same
for all allocations, each judged as the plan itself is; near 0 and 1, where draws are too few, a normal tail of them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from advisor.domain import elementary
from advisor.domain.curves import TabulatedCurves
from advisor.domain.vectors import Floats, Ints
from advisor.models.prediction import LEVEL
from advisor.planning.demand import Demand, Shapes, demand_of
from advisor.planning.exact import Plan
from advisor.planning.judge import Placed, execute_placed, figure_of, judge_placed, own_placed
from advisor.planning.pieces import TIE
from advisor.planning.present import InUse
from advisor.planning.requests import MEASURES, PERIOD, RATE, Request
from advisor.planning.structure import TABLE, TABLE_X, normal_below

# What the curves' own bounds cannot know of: a form that does not fit. The base tier is off by some per cent on its own forms.
SPREAD_MIN = 0.02
SPREAD_MAX = 1.0  # what is less known is unknown
LEVEL_LEAST = 0.6  # nearer to 0.5 the bound lies on the curve, and says nothing of its error
DRAWS = 1024  # of the curves' errors: they fill space evenly, so that a share of them is good to about 0.01
TAIL = 12  # draws on one side below which a share is the normal tail's


def drawn(plan: Plan, measure: str, beside: Plan | None = None) -> Floats:
    """Return period or latency for the errors of all draws, (DRAWS,).

    Of components that run otherwise `beside` the shape's error is drawn apart.
    """
    demand, placed = plan.demand, plan.placed
    level, shape = plan.errors or errors_of(demand.curves, demand.request.level, placed.cores[0])
    common, here, there = normals(len(level))
    own = here if beside is None else np.where(plan.same(beside)[:, None], here, there)
    factors = elementary.exp(common * level[:, None] + own * shape[:, None])
    if measure == PERIOD and placed.group is None and not demand.contended:
        return ((demand.visits * placed.heaviest * placed.seconds_s).T * factors).max(axis=0)
    wide = Placed(*(None if part is None else np.repeat(part, DRAWS, axis=0) for part in placed))  # type: ignore[arg-type]
    judged = judge_placed(demand, wide._replace(seconds_s=np.ascontiguousarray(factors.T) * placed.seconds_s))
    return figure_of(measure, judged, wide.used)


def placed_of(demand: Demand, present: InUse) -> Placed:
    """Return what a runtime has as the judge takes it."""
    cores, instances, group, widths = present
    if every := demand.structure.visits.replicas:  # of those with one instance, too
        demand = replace(demand, replicas=every)
    placed = own_placed(demand, Shapes(cores, instances))
    if group is None or widths is None:
        return placed
    used = widths[np.unique(group, return_index=True)[1]].sum(keepdims=True)
    return placed._replace(used=used, group=group[None], widths=widths[None])


def estimated(request: Request, curves: TabulatedCurves, present: InUse) -> Plan:
    """Return what an allocation gives on the curves' expectations, contention and queueing included as the planner has them."""
    demand = demand_of(replace(request, level=None), curves)
    placed = placed_of(demand, present)
    level, shape = errors_of(curves, request.level, placed.cores[0])
    return Plan(*execute_placed(demand, placed), errors=(level, np.maximum(shape, SPREAD_MIN)))


def errors_of(curves: TabulatedCurves, level: float | None, cores: Floats | Ints) -> tuple[Floats, Floats]:
    """Return the relative standard errors of the level and of the shape of T_c(p_c), (n,) each: of the bounds at `level`.

    Between counts of the curves that of the next one counts.
    """
    place = np.minimum(np.searchsorted(curves.cores, cores), len(curves.cores) - 1)
    spread = curves.spread / deviations_of(level or LEVEL)
    everywhere, here = spread.min(axis=1), spread[np.arange(len(cores)), place]
    beyond = np.sqrt(np.maximum(np.square(here) - np.square(everywhere), 0.0))
    return np.minimum(everywhere, SPREAD_MAX), np.minimum(beyond, SPREAD_MAX)


@lru_cache(64)
def deviations_of(level: float) -> float:
    """Return how many standard deviations an upper bound at a level lies above its curve."""
    return NormalDist().inv_cdf(max(level, LEVEL_LEAST))


def chance_of(now: Plan, then: Plan, measure: str, *, ties: float = 0.0) -> float:
    """Return the probability that `then` has the lower period or latency; of equals the share `ties` counts.

    Where records come faster than they leave, what counts is the period. Cost: that of 2 DRAWS allocations judged.
    """
    figures = [float(figure_of(measure, one.judged, one.placed.used)[0]) for one in (now, then)]
    if not math.isfinite(figures[0]) or not math.isfinite(figures[1]):
        return chance_of(now, then, MEASURES[RATE], ties=ties) if math.isfinite(figures[1]) else 0.0
    return _share(drawn(now, measure), drawn(then, measure, now), ties)


def reaches(one: Plan, name: str, bound: float) -> float:
    """Return the probability that an allocation reaches its target: a throughput or a latency."""
    limit = 1 / bound if name == RATE else bound
    return _share(np.full(DRAWS, limit * (1 + TIE)), drawn(one, MEASURES[name]), 1.0)


def _share(before: Floats, after: Floats, ties: float) -> float:
    """Return the share of draws in which `after` is lower; where hardly any or nearly all are, by a normal tail."""
    with np.errstate(invalid="ignore"):
        saved = before - after
    saved = np.sort(saved[np.abs(saved) > TIE * np.abs(before)])
    equal, lower = len(before) - len(saved), int((saved > 0).sum())
    share, few = lower / max(len(saved), 1), min(lower, len(saved) - lower) < TAIL
    if few and len(saved) > 4 * TAIL:
        rare = -saved[::-1] if share > 0.5 else saved  # what is rare lies above 0
        middle, edge = float(rare[len(rare) // 2]), float(rare[-TAIL])
        if edge > middle:
            z = NormalDist().inv_cdf(1 - TAIL / len(rare)) * -middle / (edge - middle)
            tail = 1 - float(normal_below(np.array([z]))[0])
            share = 1 - tail if share > 0.5 else tail
    return ((len(before) - equal) * share + ties * equal) / len(before)


@lru_cache(8)
def normals(components: int) -> tuple[Floats, Floats, Floats]:
    """Return three tables (n, DRAWS) of standard normals that fill space evenly: a Kronecker sequence of roots of primes."""
    primes: list[int] = []
    candidate = 2
    while len(primes) < 3 * components:
        if all(candidate % prime for prime in primes if prime * prime <= candidate):
            primes.append(candidate)
        candidate += 1
    uniform = (np.sqrt(np.array(primes, np.float64))[:, None] * np.arange(1, DRAWS + 1) + 0.5) % 1
    first, second, third = np.split(np.interp(uniform, TABLE, TABLE_X), 3)
    return first, second, third
