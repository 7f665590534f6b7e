"""The lowest cost: best first over intervals of the period, with a program over the structure for each."""

from __future__ import annotations

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.solving.option_prices import priced_shapes
from advisor.planning.solving.search import Problem, best_threshold
from advisor.planning.solving.tree_program import PROGRAM_CELLS_MAX, TreeProgram, cells, tree_program

PROGRAMS_MAX = 80  # programs over the structure in a search for the lowest cost
CLOSE = 2e-4  # of a bound at which the search ends


def thresholds(problem: Problem, periods: Floats) -> Floats:
    """Return the periods that allocations may have, the shortest first."""
    best = best_threshold(problem.options, periods, problem.cores)
    if best is None:
        return np.zeros(0)
    falling = np.minimum.accumulate(periods, axis=1)
    values = np.unique(falling[np.isfinite(falling)])
    longest = float(periods[np.arange(len(periods)), 0].max())
    kept: Floats = values[(values >= best[0]) & (values <= max(longest, best[0]))]
    return kept


def cheapest(problem: Problem, periods: Floats, stays: Floats) -> list[Ints]:
    """Return allocations of low cost, the lowest last."""
    return [shapes for _, shapes in sorted(_cost_search(problem, periods, stays)[1], key=lambda pair: -pair[0])]


def _cost_search(problem: Problem, periods: Floats, stays: Floats) -> tuple[float, list[tuple[float, Ints]]]:
    """Return a bound of the cost and the allocations found, best first over intervals of the period.

    In an interval [s, l] of periods records are paid at 1/s at most and wait at 1/l at least, with the latencies of
    shapes within l: its bound. The interval of the lowest bound is halved until that is reached, or PROGRAMS_MAX.
    """
    request = problem.model.request
    if cells(problem.options, problem.cores) > PROGRAM_CELLS_MAX:
        return -np.inf, [(0.0, priced_shapes(problem, stays)[1])]
    rate, found = request.arrival_per_s, list[tuple[float, Ints]]()
    values = np.array([np.inf]) if rate is not None else thresholds(problem, periods)
    if not len(values):
        return np.inf, []

    def judged(first: int, last: int, program: TreeProgram) -> tuple[float, int, int, TreeProgram]:
        paid, waited = (rate, rate) if rate is not None else (1 / values[first], 1 / values[last])
        return float(_costs(problem, program, paid, waited).min()), first, last, program

    def solved(last: int) -> TreeProgram:
        program = tree_program(
            problem.model.structure, problem.options, np.where(periods <= values[last] * (1 + TIE), stays, np.inf),
            problem.cores,
        )  # fmt: skip
        paid = rate if rate is not None else 1 / values[last]
        costs = _costs(problem, program, paid, paid)
        shapes = program.chosen(int(program.counts[int(costs.argmin())]))
        _, score_, _ = problem.judge(shapes[None])
        found.append((float(score_[0]), shapes))
        return program

    opened, programs = [judged(0, len(values) - 1, solved(len(values) - 1))], 1
    while True:
        at = min(range(len(opened)), key=lambda place: opened[place][0])
        bound, first, last, program = opened[at]
        if first == last or programs >= PROGRAMS_MAX or bound >= min(cost for cost, _ in found) * (1 - CLOSE):
            return bound, found
        middle = (first + last) // 2
        opened[at] = judged(middle + 1, last, program)
        opened.append(judged(first, middle, solved(middle)))
        programs += 1


def _costs(problem: Problem, program: TreeProgram, paid: float, waited: float) -> Floats:
    """Return the cost on least, least + 1, … cores: `paid` records a second earn, `waited` of them wait."""
    weights = problem.model.request.weights or {}
    core, late, worth = (float(weights.get(name, 0.0)) for name in ("core_s", "latency_s", "record"))
    latency = program.latency_s
    costs: Floats = core * program.counts.astype(np.float64) - worth * paid
    return costs + (late * waited * latency if late > 0 else np.where(np.isfinite(latency), 0.0, np.inf))


def cost_bound(problem: Problem, periods: Floats, stays: Floats) -> float:
    """Return a cost that nothing undercuts: between two periods tried, records are paid by the shorter one."""
    request = problem.model.request
    if cells(problem.options, problem.cores) > PROGRAM_CELLS_MAX or problem.model.contended:
        return -np.inf
    if request.arrival_per_s is not None:
        program = tree_program(problem.model.structure, problem.options, stays, problem.cores)
        return cost_under_arrivals(problem, program)[0]
    return _cost_search(problem, periods, stays)[0]


def cost_under_arrivals(problem: Problem, program: TreeProgram) -> tuple[float, int]:
    """Return the lowest cost where records arrive at a rate, and the cores that it takes."""
    rate = float(problem.model.request.arrival_per_s or 0.0)
    costs = _costs(problem, program, rate, rate)
    least = int(costs.argmin())
    return float(costs[least]), int(program.counts[least])
