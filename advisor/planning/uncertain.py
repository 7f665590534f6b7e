"""How sure it is that one allocation is better than another, from the uncertainty of the curves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from advisor.planning.demand import TIE
from advisor.planning.judge import Placed
from advisor.planning.requests import RATE, Floats
from advisor.planning.scores import driven, latency_of

if TYPE_CHECKING:
    from advisor.planning.answers import Solution

LEVEL = 0.9  # one-sided, of the upper bounds where the request names none
SAMPLES = 512  # of the curves' uncertainty: a probability is then good to about 0.02


@lru_cache(8)
def normals(columns: int) -> Floats:
    """Return SAMPLES standard normal rows that fill the space evenly: a Kronecker sequence of roots of primes."""
    primes: list[int] = []
    candidate = 2
    while len(primes) < columns:
        if all(candidate % prime for prime in primes if prime * prime <= candidate):
            primes.append(candidate)
        candidate += 1
    steps = np.sqrt(np.array(primes, np.float64)) % 1
    uniform = (np.arange(1, SAMPLES + 1)[:, None] * steps + 0.5) % 1
    grid = np.linspace(1e-4, 1 - 1e-4, 2001)
    normal = np.array([NormalDist().inv_cdf(float(p)) for p in grid])
    return np.interp(uniform, grid, normal)


def better_than(found: Solution, others: Sequence[Placed]) -> list[float | None]:
    """Return the probability that the answer is better than each of other allocations; None without uncertainty.

    Each curve is its expectation times exp(s_c z_c), z_c standard normal, one for all its counts and independent between
    components; s_c comes from the upper bound at its level. All are judged on the same draws; equal ones count half.
    """
    if not others or not found.question.demand.spread.any():
        return [None] * len(others)
    mine = _sampled(found, found.placed)
    told: list[float | None] = []
    for one in others:
        theirs = _sampled(found, one)
        told.append(float(0.5 + 0.5 * ((mine < theirs * (1 - TIE)).mean() - (theirs < mine * (1 - TIE)).mean())))
    return told


def price_of(chance: float, components: int, level: float | None) -> float:
    """Return where to plan, by the curves' bounds at `level`, for all of so many to be faster with such a chance.

    They are taken as independent: each stays below its bound at chance**(1 / components), in units of the bounds given.
    """
    return NormalDist().inv_cdf(chance ** (1 / components)) / _deviations(level or LEVEL)


def target_probability(found: Solution) -> float | None:
    """Return the probability that the answer reaches its target, as `better_than` sees it; None without uncertainty."""
    target = next(iter((found.question.request.target or {}).items()), None)
    if target is None or not found.question.demand.spread.any():
        return None
    limit = 1 / target[1] if target[0] == RATE else target[1]
    return float((_sampled(found, found.placed, of_target=True) <= limit * (1 + TIE)).mean())


@lru_cache(64)
def _deviations(level: float) -> float:
    """Return how many standard deviations an upper bound lies above its curve."""
    return max(NormalDist().inv_cdf(max(level, 0.5 + 1e-6)), 1e-3)


def _sampled(found: Solution, placed: Placed, *, of_target: bool = False) -> Floats:
    """Return what is minimised, or what the target is about, of one allocation for all draws, (SAMPLES,)."""
    demand, request, model = found.question.demand, found.question.request, found.model
    unit = _deviations(request.level or LEVEL)
    spread = demand.spread_at(placed.cores[0])
    # Planned beyond the expectation, that lies so far below.
    seconds = placed.seconds_s[0] * np.exp(spread * normals(len(demand)) / unit - spread * demand.price)
    for_latency = request.for_latency and (not of_target or RATE not in (request.target or {}))
    if not for_latency and request.weights is None and not model.contended and placed.group is None:
        return (demand.visits * placed.heaviest[0] * seconds).max(axis=1)
    wide = (None if part is None else np.broadcast_to(part, (SAMPLES, *part.shape[1:])) for part in placed)
    some = Placed(*wide)._replace(seconds_s=seconds)  # type: ignore[arg-type]
    judged = model.judge(some)
    if of_target:
        return latency_of(request, judged) if for_latency else judged.period_s
    return driven(request, judged, some.used, request.measure)
