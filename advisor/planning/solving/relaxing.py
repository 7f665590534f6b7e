"""Solving with the coupling held still, and bounds on what any allocation can reach."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.options import NOTHING
from advisor.planning.queues.convex import nests_tamely
from advisor.planning.queues.streams import Felt
from advisor.planning.solving.alone import NOT_CONVEX, alone_table, fewest_by_sum, is_alone, least_sum
from advisor.planning.solving.costs import CLOSE, cheapest, cost_bound, cost_under_arrivals
from advisor.planning.solving.linear import weights_of
from advisor.planning.solving.loaded import UNSTABLE, is_boundable, near
from advisor.planning.solving.objectives import about_latency, meets
from advisor.planning.solving.option_prices import priced_shapes
from advisor.planning.solving.search import (
    ENUMERATED_MAX,
    Problem,
    best_threshold,
    climb,
    combinations,
    search_all,
    within,
)
from advisor.planning.solving.tree_program import PROGRAM_CELLS_MAX, TreeProgram, cells, sum_program, tree_program

ROUNDS = 8  # of solving with the coupling of the last solution
BOUND_STEPS = 50  # of the bisection for a bound under contention


@dataclass(frozen=True, slots=True)
class Found:
    """What a search ends with.

    Attributes
    ----------
    chosen : int64 array (n,)
        Shapes.
    bound : float
        Of the score: no allocation scores below it; -inf where no bound is known.
    exact : bool
        True when the answer is proved best.
    """

    chosen: Ints
    bound: float
    exact: bool


def solve(problem: Problem) -> Found | None:
    """Return the best allocation found on the problem's cores, with its bound; None where none is feasible.

    Cost: as `search_all` for few allocations, else O(n P^2) for latency, O(n shapes log) for throughput, and the
    exchanges up to ``work_max``.
    """
    if combinations(problem.options, problem.cores) <= min(ENUMERATED_MAX, problem.work_max - problem.steps):
        search_all(problem)
        return None if problem.best is None else Found(problem.best, problem.best_key[0], exact=True)
    bound = _bound(problem)
    if not np.isfinite(bound) and bound > 0:
        return None
    _rounds(problem)
    if problem.best is None:
        _repaired(problem)
    if problem.best is None:
        return None
    loaded, structure = is_boundable(problem), problem.model.structure
    latency = problem.model.request.objective == "latency" and (not loaded or structure.joins or structure.keeps_order)
    if problem.best_key[0] > bound + PROVED * abs(bound) and latency:
        bound = max(bound, _linear_rounds(problem))
    if problem.model.request.objective == "fewest_cores" and problem.best_key[0] > bound:
        bound = max(bound, fewest_by_sum(problem))
    if problem.best_key[0] > bound + PROVED * abs(bound):
        climb(problem)
        if loaded:
            bound = max(bound, _loaded_rounds(problem))
    value = problem.best_key[0]
    return Found(problem.best, min(bound, value), exact=value <= bound + PROVED * abs(bound))


LOADED_ROUNDS = 3  # of a bound under arrivals, each near the best found so far
IDLE_MAX = 2  # rounds in a row that find nothing better, where no bound comes of them
LINEAR_ROUNDS = 12  # of solving for the latency's weighted sum
PROVED = 1e-9  # a score this near its bound counts as the best


def _still(problem: Problem) -> tuple[Floats, None]:
    """Return the coupling that flatters every allocation: nobody else busy, streams as calm as they can be."""
    return np.zeros(len(problem.options.number)), None


def _bound(problem: Problem) -> float:
    """Return a bound of the score."""
    request, model = problem.model.request, problem.model
    periods, stays = model.stays(problem.options, *_still(problem))
    if about_latency(request) or request.objective == "cost":
        lowest = _latencies(problem, stays, bound=True)
        if request.objective == "cost":
            return cost_bound(problem, periods, stays)
        if request.objective == "latency":
            # A quantile may lie below the mean: only the least time of all is certain then.
            if request.quantile is not None:
                return 0.0
            coarse = lowest.unit > 1 and not model.structure.joins
            return max(lowest.on(problem.cores), priced_shapes(problem, stays)[0] if coarse else 0.0)
        fewest = lowest.fewest(request.target["latency_s"]) if request.target and request.quantile is None else None
        if request.quantile is not None:
            return float(problem.options.least.sum())
        return np.inf if fewest is None else float(fewest)
    return _throughput_bound(problem, periods)


def _throughput_bound(problem: Problem, periods: Floats) -> float:
    """Return a period, or fewest cores, that nothing beats; under contention others are busy at least that much."""
    request, options, model = problem.model.request, problem.options, problem.model
    # Work of one record in core-seconds, at least, and what of it is not a component's own.
    valid = options.weight < NOTHING
    with np.errstate(invalid="ignore"):
        work = np.where(valid, options.cores * options.seconds_s, np.inf).min(axis=1) * model.visits
    beside = work.sum() - work

    def least(period_s: float) -> float:
        slowed = periods * (1 + model.curves.contention * beside / period_s)[:, None] if model.contended else periods
        shapes = within(options, np.minimum.accumulate(slowed, axis=1), period_s * (1 + TIE))
        return np.inf if shapes is None else float(options.weight[np.arange(len(shapes)), shapes].sum())

    if request.objective == "fewest_cores":
        return least(1 / (request.target or {})["throughput_per_s"])
    plain = best_threshold(options, periods, problem.cores)
    if plain is None:
        return np.inf
    low, high = plain[0], plain[0]
    if not model.contended:
        return low
    while least(high) > problem.cores:
        low, high = high, 2 * high
    for _ in range(BOUND_STEPS if high > low else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if least(middle) > problem.cores else (low, middle)
    return low


def _linear_rounds(problem: Problem) -> float:
    """Solve for the weighted sum of stays that is the latency near the best, again and again; return the best bound.

    Weights of all rounds are averaged: that converges to the weights with the highest bound (Frank and Wolfe). The bound's
    own are those of a convex function below the latency (`alone_below`).
    """
    model, options, bound = problem.model, problem.options, -np.inf
    certain = is_alone(problem)
    if cells(options, problem.cores) > PROGRAM_CELLS_MAX:
        return bound
    assert problem.best is not None  # the caller found one
    chosen, weights, idle = problem.best, np.zeros(len(options.number)), 0
    tame = certain and nests_tamely(model.structure, model.curves.variation)
    below: tuple[float, Floats] = 0.0, np.zeros(options.weight.shape)
    for turn in range(LINEAR_ROUNDS):
        judged = model.judge(options, chosen[None])
        if not np.isfinite(judged.latency_s[0]) or problem.out_of_work:
            return bound
        cores, instances, _, _ = options.pick(chosen[None])
        here, share = weights_of(model, judged, instances), 1 if turn == 0 else 1 / (1 + turn / 2)
        weights = weights + share * (here - weights)
        others, streams = model.coupling(judged, cores)
        _, stays = model.stays(options, others[0], streams.first())
        program = sum_program(options, weights[:, None] * np.where(np.isfinite(stays), stays, UNSTABLE), problem.cores)
        if certain:
            base, table = alone_table(problem, chosen)
            below = below[0] + share * (base - below[0]), below[1] + share * (table - below[1])
            bound = max(bound, least_sum(problem, *below).on(problem.cores))
            if tame and program.unit == 1:
                bound = max(bound, program.on(problem.cores) * (1 - NOT_CONVEX))
        following = program.chosen(problem.cores)
        idle = 0 if problem.offer(following[None]) else idle + 1
        settled = turn > 2 and (following == chosen).all()
        if problem.best_key[0] <= bound * (1 + CLOSE) or settled or (idle > IDLE_MAX and not certain):
            break
        chosen = following
    return bound


def _loaded_rounds(problem: Problem) -> float:
    """Return a bound under arrivals by what is near the best; what reaches it there is offered, and looked around."""
    request, bound = problem.model.request, -np.inf
    for _ in range(LOADED_ROUNDS):
        if problem.best is None or problem.out_of_work:
            break
        here = near(problem, problem.best)
        program = least_sum(problem, here.base, here.shares())
        if request.objective == "latency":
            found, wanted = program.on(problem.cores), problem.cores
        elif request.objective == "cost":
            found, wanted = cost_under_arrivals(problem, program)
        else:
            wanted = program.fewest((request.target or {})["latency_s"]) or problem.cores
            found = float(wanted)
        bound = max(bound, found)
        if program.unit > 1 or not problem.offer(program.chosen(wanted)[None]):
            break
    return bound


def _latencies(problem: Problem, stays: Floats, *, bound: bool = False) -> TreeProgram:
    """Return the program over the structure; in steps of several cores where it would be too large."""
    return tree_program(problem.model.structure, problem.options, stays, problem.cores, bound=bound)


def _rounds(problem: Problem) -> None:
    """Solve with the coupling held still, take the coupling of the solution, and again; offer each solution."""
    model = problem.model
    others, _ = _still(problem)
    held: Felt | None = None
    for _ in range(ROUNDS if model.contended or model.shaped or model.structure.joins else 1):
        if problem.out_of_work:
            return
        chosen = _solutions(problem, *model.stays(problem.options, others, held))
        if not chosen:
            return
        better = problem.offer(np.stack(chosen))
        judged = model.judge(problem.options, chosen[-1][None])
        cores, _, _, _ = problem.options.pick(chosen[-1][None])
        beside, shaped = model.coupling(judged, cores)
        felt = shaped.first()
        settled = np.allclose(beside[0], others, rtol=1e-6) and held is not None and felt.near(held)
        others, held = beside[0], felt
        if settled and not better:
            return


def _solutions(problem: Problem, periods: Floats, stays: Floats) -> list[Ints]:
    """Return the solutions of the problem with the coupling held still; the last one is the best by its measure."""
    request, options = problem.model.request, problem.options
    if request.objective == "cost":
        return cheapest(problem, periods, stays)
    if about_latency(request):
        return _for_latency(problem, stays)
    falling = np.minimum.accumulate(periods, axis=1)
    if request.objective == "fewest_cores":
        shapes = within(options, falling, 1 / (request.target or {})["throughput_per_s"] * (1 + TIE))
        return [] if shapes is None else [shapes]
    found = best_threshold(options, periods, problem.cores)
    return [] if found is None else [found[1]]


def _for_latency(problem: Problem, stays: Floats) -> list[Ints]:
    request = problem.model.request
    program = _latencies(problem, stays)
    if request.objective == "latency":
        found = [program.chosen(program.fewest(program.on(problem.cores)) or problem.cores)]
        if program.unit > 1 and not problem.model.structure.joins:
            found.append(priced_shapes(problem, stays)[1])
        return found
    return _fewest_for_latency(problem, program, stays)


def _fewest_for_latency(problem: Problem, program: TreeProgram, stays: Floats) -> list[Ints]:
    """Return shapes on the fewest cores found for the target: bisection between the bound and all the cores.

    The program's number is tried first: where nothing couples it is the answer.
    """
    request, options = problem.model.request, problem.options
    target = (request.target or {})["latency_s"]
    low = program.fewest(target)
    if low is None and request.quantile is None:
        return []
    if program.unit > 1 and low is not None:
        low = int(options.least.sum())
    if is_boundable(problem) and cells(options, problem.cores) <= PROGRAM_CELLS_MAX:
        return _fewest_rounds(problem, program.chosen(problem.cores))
    best: Ints | None = None
    low, high, at = low or int(options.least.sum()), problem.cores, low or int(options.least.sum())
    while low <= high:
        shapes = program.chosen(at)
        if program.unit > 1 and not problem.model.structure.joins:
            shapes = priced_shapes(problem, stays, at)[1]
        if not _reaches(problem, shapes) and (problem.model.structure.joins or request.arrival_per_s is not None):
            bare = replace(request, objective="latency", target=None, cores=at)
            model = replace(problem.model, request=bare)
            inner = Problem(model, options, problem.machine, at, INNER_WORK)
            _rounds(inner)
            if inner.best is not None:
                _linear_rounds(inner)
                shapes = inner.best
            problem.steps += inner.steps
        if _reaches(problem, shapes):
            best, high = shapes, at - 1
        else:
            low = at + 1
        at = (low + high) // 2
    return [] if best is None else [best]


def _fewest_rounds(problem: Problem, chosen: Ints) -> list[Ints]:
    """Return shapes on the fewest cores found under arrivals, by weighted sums of stays, as `_linear_rounds`.

    Near an allocation the latency is such a sum and a rest; the fewest cores on which both meet the target come next. A
    number of cores on which MISSES_MAX allocations miss it is given up. Weights are averaged: at joins a sum alone would take
    the cores from one branch, then from the other.
    """
    model, options, best = problem.model, problem.options, list[Ints]()
    target, rows = (model.request.target or {})["latency_s"], np.arange(len(chosen))
    low, high, misses = int(options.least.sum()), problem.cores + 1, 0
    weights, turn = np.zeros(len(chosen)), 0
    while low < high and not problem.out_of_work:
        judged, _, used = problem.judge(chosen[None])
        if not np.isfinite(judged.latency_s[0]):
            break
        if judged.latency_s[0] <= target and used[0] < high:
            best, high, misses = [chosen], int(used[0]), 0
        else:
            misses += 1
            low, misses = (max(low, int(used[0])) + 1, 0) if misses >= MISSES_MAX else (low, misses)
        cores, instances, _, _ = options.pick(chosen[None])
        here = weights_of(model, judged, instances)
        weights, turn = (here if turn == 0 else weights + (here - weights) / min(1 + turn / 2, AVERAGED)), turn + 1
        others, streams = model.coupling(judged, cores)
        _, stays = model.stays(options, others[0], streams.first())
        values = weights[:, None] * np.where(np.isfinite(stays), stays, UNSTABLE)
        program = sum_program(options, values, problem.cores)
        rest = float(judged.latency_s[0] - values[rows, chosen].sum())
        reached = program.latency_s + rest <= target
        wanted = int(program.counts[int(reached.argmax())]) if reached.any() else problem.cores
        chosen = program.chosen(min(max(wanted, low), high - 1))
    return best


def _reaches(problem: Problem, shapes: Ints) -> bool:
    return bool(meets(problem.model.request, problem.model.judge(problem.options, shapes[None]))[0])


MISSES_MAX = 4  # allocations on one number of cores that miss a target before more cores are tried
AVERAGED = 3.0  # rounds over which weights are averaged on the way to the fewest cores
INNER_WORK = 2_000  # steps of each search for a latency on a number of cores


def _repaired(problem: Problem) -> None:
    """Find some allocation that can be placed where the relaxed ones cannot: narrower shapes, a core at a time."""
    options = problem.options
    shapes = np.zeros(len(options.number), np.int64)
    if problem.seen:
        shapes = np.frombuffer(min(problem.seen, key=lambda data: problem.seen[data][0]), np.int64).copy()
    falls = True
    while falls and not problem.out_of_work:
        if problem.offer(shapes[None]):
            return
        falls = bool(shapes.any())
        widest = int(np.where(shapes > 0, options.weight[np.arange(len(shapes)), shapes], 0).argmax())
        shapes = shapes.copy()
        shapes[widest] = max(shapes[widest] - 1, 0)
