"""Bounds of the latency of a record alone, where times vary and joins wait for the last of several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.queues.convex import alone_below, nests_tamely
from advisor.planning.solving.linear import weights_of
from advisor.planning.solving.loaded import UNSTABLE
from advisor.planning.solving.search import Problem
from advisor.planning.solving.tree_program import PROGRAM_CELLS_MAX, TreeProgram, cells, sum_program

FEWEST_ROUNDS = 4  # of a bound of the fewest cores
# Relative, by which an allocation may be faster than the latency's gradient elsewhere has it, where joins stand in joins and
# nothing varies more than an exponential time. Not proved: 0.21 % is the most of 290,000 allocations of 726 networks.
NOT_CONVEX = 5e-3
SLACK = 1e-5  # relative, of a bound by tangents: what numerical integrals may be wrong by


def is_alone(problem: Problem) -> bool:
    """Return whether the latency is the mean time of a record alone."""
    request = problem.model.request
    return request.arrival_per_s is None and request.quantile is None


def is_unproved(problem: Problem) -> bool:
    """Return whether the bound of the latency may be the one that was tried and not proved: see `NOT_CONVEX`."""
    model = problem.model
    return (
        is_alone(problem)
        and bool(model.curves.variation.any())
        and nests_tamely(model.structure, model.curves.variation)
    )


def alone_table(problem: Problem, chosen: Ints) -> tuple[float, Floats]:
    """Return a constant, and what each shape adds to it at least, (n, shapes), of a function below the latency."""
    model, options = problem.model, problem.options
    seconds = options.seconds_s[np.arange(len(chosen)), chosen]
    base, slopes, moves, at = alone_below(model.structure, seconds, model.curves.variation)
    finite = np.where(np.isfinite(options.seconds_s), options.seconds_s, UNSTABLE)
    return base, slopes[:, None] * finite - moves[:, None] * np.abs(finite - at[:, None])


def least_sum(problem: Problem, base: float, table: Floats) -> TreeProgram:
    """Return the program of the least `base` and sum of a table: a bound of the latency on every number of cores."""
    program = sum_program(problem.options, table, problem.cores, bound=True)
    return replace(program, latency_s=(base + program.latency_s) * (1 - SLACK))


def fewest_by_sum(problem: Problem) -> float:
    """Return fewest cores below which a function below the latency misses its target; near the best and what comes of it."""
    target = (problem.model.request.target or {}).get("latency_s")
    if target is None or not is_alone(problem) or problem.best is None:
        return -np.inf
    if cells(problem.options, problem.cores) > PROGRAM_CELLS_MAX:
        return -np.inf
    chosen, bound = problem.best, -np.inf
    tame = nests_tamely(problem.model.structure, problem.model.curves.variation)
    below: tuple[float, Floats] = 0.0, np.zeros(problem.options.weight.shape)
    for turn in range(FEWEST_ROUNDS):
        base, table = alone_table(problem, chosen)
        share = 1 if turn == 0 else 1 / (1 + turn / 2)
        below = below[0] + share * (base - below[0]), below[1] + share * (table - below[1])
        program = least_sum(problem, *below)
        fewest = program.fewest(float(target)) or problem.cores
        if tame:
            judged = problem.model.judge(problem.options, chosen[None])
            weights = weights_of(problem.model, judged, np.ones_like(chosen)[None])
            finite = np.where(np.isfinite(problem.options.seconds_s), problem.options.seconds_s, UNSTABLE)
            plain = sum_program(problem.options, weights[:, None] * finite, problem.cores, bound=True)
            fewest = max(fewest, plain.fewest(float(target) / (1 - NOT_CONVEX)) or problem.cores)
        bound = max(bound, float(fewest))
        if bound >= problem.best_key[0]:
            break
        chosen = program.chosen(fewest)
    return bound
