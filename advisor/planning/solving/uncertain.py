"""How sure it is that one allocation is better than another, from the uncertainty of the curves."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.queues.model import Model
from advisor.planning.solving.general import Solved
from advisor.planning.solving.objectives import about_latency, cost_of, latency_of

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


def better_than(solved: Solved, other: Ints) -> float | None:
    """Return the probability that the answer is better than another allocation; None without uncertainty.

    Each curve is its expectation times exp(s_c z_c), z_c standard normal, one for all its counts and independent between
    components; s_c comes from the upper bound at its level. Both allocations are judged on the same draws; equal ones
    count half.
    """
    model, options = solved.problem.model, solved.problem.options
    spread = model.curves.spread
    if not spread.any():
        return None
    unit, draws = _unit(model), normals(len(other))
    values = [_sampled(model, options.pick(one[None]), draws / unit) for one in (solved.found.chosen, other)]
    mine, theirs = values
    clear = mine < theirs * (1 - TIE), theirs < mine * (1 - TIE)
    return float(0.5 + 0.5 * (clear[0].mean() - clear[1].mean()))


def target_probability(solved: Solved) -> float | None:
    """Return the probability that the answer reaches its target, as `better_than` sees it; None without uncertainty."""
    model, options = solved.problem.model, solved.problem.options
    value = next(iter((model.request.target or {}).items()), None)
    if value is None or not model.curves.spread.any():
        return None
    unit = _unit(model)
    reached = _sampled(model, options.pick(solved.found.chosen[None]), normals(len(solved.found.chosen)) / unit)
    limit = value[1] if value[0] == "latency_s" else 1 / value[1]
    return float((reached <= limit * (1 + TIE)).mean())


def _unit(model: Model) -> float:
    """Return how many standard deviations the curves' upper bounds lie above them."""
    level = model.request.level or LEVEL
    return max(NormalDist().inv_cdf(max(level, 0.5 + 1e-6)), 1e-3)


def _sampled(model: Model, shapes: tuple[Ints, Ints, Floats, Floats], draws: Floats) -> Floats:
    cores, instances, _, heaviest = shapes
    at = np.array([int(np.searchsorted(model.curves.counts, int(count))) for count in cores[0]], np.int64)
    rows = np.arange(len(at))
    seconds = model.curves.expected_s[rows, at] * np.exp(model.curves.spread[rows, at] * draws)
    ones, many = np.broadcast_to(cores, seconds.shape), np.broadcast_to(instances, seconds.shape)
    judged = model.judge_shapes(ones, many, seconds, np.broadcast_to(heaviest, seconds.shape))
    used = np.full(len(draws), int((cores * instances).sum()))
    request = model.request
    if about_latency(request):
        return latency_of(request, judged)
    return cost_of(request, judged, used) if request.objective == "cost" else judged.period_s
