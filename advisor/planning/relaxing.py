"""Solving with the coupling held still, and bounds on what any allocation can reach."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from advisor.planning.demand import TIE, Floats, Ints
from advisor.planning.linear import STEP, weights_of
from advisor.planning.objectives import about_latency, meets
from advisor.planning.options import NOTHING, Options
from advisor.planning.search import (
    ENUMERATED_MAX,
    Problem,
    best_threshold,
    climb,
    combinations,
    search_all,
    within,
)
from advisor.planning.tree_program import TreeProgram, cells, sum_program, tree_program

ROUNDS = 8  # of solving with the coupling of the last solution
PROGRAM_CELLS_MAX = 400_000_000  # of a program over the structure: about a second
MULTIPLIER_STEPS = 60  # of the bisection for the price of a core
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
    if problem.best_key[0] > bound + PROVED * abs(bound) and problem.model.request.objective == "latency":
        bound = max(bound, _linear_rounds(problem))
    if problem.model.request.objective == "fewest_cores" and problem.best_key[0] > bound:
        bound = max(bound, _fewest_by_sum(problem))
    if problem.best_key[0] > bound + PROVED * abs(bound):
        climb(problem)
    value = problem.best_key[0]
    return Found(problem.best, min(bound, value), exact=value <= bound + PROVED * abs(bound))


LINEAR_ROUNDS = 12  # of solving for the latency's weighted sum
CLOSE = 2e-4  # of a bound at which these end
PROVED = 1e-9  # a score this near its bound counts as the best


def _still(problem: Problem) -> tuple[Floats, float]:
    """Return the coupling that flatters every allocation: nobody else busy, streams as calm as they can be."""
    return np.zeros(len(problem.options.number)), problem.model.calmest


def _bound(problem: Problem) -> float:
    """Return a bound of the score."""
    request, model = problem.model.request, problem.model
    periods, stays = model.stays(problem.options, *_still(problem))
    if about_latency(request) or request.objective == "cost":
        lowest = _latencies(problem, stays)
        if request.objective == "cost":
            return _cost_bound(problem, periods, stays)
        if lowest is None:
            return _priced(problem, stays)[0] if request.objective == "latency" else float(problem.options.least.sum())
        if request.objective == "latency":
            # A quantile may lie below the mean: only the least time of all is certain then.
            return lowest.on(problem.cores) if request.quantile is None else 0.0
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

    Weights of all rounds are averaged: that converges to the weights with the highest bound (Frank and Wolfe).
    """
    model, options, bound = problem.model, problem.options, -np.inf
    certain = model.request.arrival_per_s is None and model.request.quantile is None
    if cells(options, problem.cores) > PROGRAM_CELLS_MAX / LINEAR_ROUNDS:
        return bound
    assert problem.best is not None  # the caller found one
    chosen, weights = problem.best, np.zeros(len(options.number))
    for turn in range(LINEAR_ROUNDS):
        judged = model.judge(options, chosen[None])
        if not np.isfinite(judged.latency_s[0]) or problem.out_of_work:
            return bound
        cores, instances, _, _ = options.pick(chosen[None])
        here = weights_of(model, judged, instances)
        weights = here if turn == 0 else weights + (here - weights) / (1 + turn / 2)
        others, streams = model.coupling(judged, cores, instances)
        _, stays = model.stays(options, others[0], streams[0])
        program = sum_program(options, weights[:, None] * np.where(np.isfinite(stays), stays, 1e300), problem.cores)
        if certain:
            bound = max(bound, program.on(problem.cores) * (1 - STEP))
        following = program.chosen(problem.cores)
        problem.offer(following[None])
        if problem.best_key[0] <= bound * (1 + CLOSE) or (turn > 2 and (following == chosen).all()):
            break
        chosen = following
    return bound


def _fewest_by_sum(problem: Problem) -> float:
    """Return fewest cores below which the weighted sum of stays, and so the latency, misses its target."""
    model, options, request = problem.model, problem.options, problem.model.request
    target = (request.target or {}).get("latency_s")
    certain = target is not None and request.arrival_per_s is None and request.quantile is None
    if not certain or problem.best is None or cells(options, problem.cores) > PROGRAM_CELLS_MAX:
        return -np.inf
    judged = model.judge(options, problem.best[None])
    _, instances, _, _ = options.pick(problem.best[None])
    _, stays = model.stays(options, *_still(problem))
    weights = weights_of(model, judged, instances)
    program = sum_program(options, weights[:, None] * np.where(np.isfinite(stays), stays, 1e300), problem.cores)
    fewest = program.fewest(float(target or 0.0) * (1 + STEP))
    return float(problem.cores if fewest is None else fewest)


def _latencies(problem: Problem, stays: Floats) -> TreeProgram | None:
    """Return the program over the structure, or None where it is too large."""
    if cells(problem.options, problem.cores) > PROGRAM_CELLS_MAX:
        return None
    return tree_program(problem.model.structure, problem.options, stays, problem.cores)


def _rounds(problem: Problem) -> None:
    """Solve with the coupling held still, take the coupling of the solution, and again; offer each solution."""
    model = problem.model
    others, streams = _still(problem)
    held: Floats | float = streams
    for _ in range(ROUNDS if model.contended or model.shaped or model.structure.joins else 1):
        if problem.out_of_work:
            return
        chosen = _solutions(problem, *model.stays(problem.options, others, held))
        if not chosen:
            return
        better = problem.offer(np.stack(chosen))
        judged = model.judge(problem.options, chosen[-1][None])
        cores, instances, _, _ = problem.options.pick(chosen[-1][None])
        beside, shaped = model.coupling(judged, cores, instances)
        settled = np.allclose(beside[0], others, rtol=1e-6) and np.allclose(shaped[0], held, rtol=1e-6)
        others, held = beside[0], shaped[0]
        if settled and not better:
            return


def _solutions(problem: Problem, periods: Floats, stays: Floats) -> list[Ints]:
    """Return the solutions of the problem with the coupling held still; the last one is the best by its measure."""
    request, options = problem.model.request, problem.options
    if request.objective == "cost":
        return _cheapest(problem, periods, stays)
    if about_latency(request):
        return _for_latency(problem, stays)
    falling = np.minimum.accumulate(periods, axis=1)
    if request.objective == "fewest_cores":
        shapes = within(options, falling, 1 / (request.target or {})["throughput_per_s"] * (1 + TIE))
        return [] if shapes is None else [shapes]
    found = best_threshold(options, periods, problem.cores)
    return [] if found is None else [found[1]]


def _for_latency(problem: Problem, stays: Floats) -> list[Ints]:
    request, options = problem.model.request, problem.options
    program = _latencies(problem, stays)
    if request.objective == "latency":
        if program is None:
            return [_priced(problem, stays)[1]]
        fewest = program.fewest(program.on(problem.cores))
        return [program.chosen(fewest or problem.cores)]
    return _fewest_for_latency(problem, program, stays)


def _fewest_for_latency(problem: Problem, program: TreeProgram | None, stays: Floats) -> list[Ints]:
    """Return shapes on the fewest cores found for the target: bisection between the bound and all the cores.

    The program's number is tried first: where nothing couples it is the answer.
    """
    request, options = problem.model.request, problem.options
    target = (request.target or {})["latency_s"]
    low = int(options.least.sum()) if program is None else program.fewest(target)
    if low is None and request.quantile is None:
        return []
    best: Ints | None = None
    low, high, at = low or int(options.least.sum()), problem.cores, low or int(options.least.sum())
    while low <= high:
        shapes = program.chosen(at) if program is not None else _priced(problem, stays, at)[1]
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


def _reaches(problem: Problem, shapes: Ints) -> bool:
    return bool(meets(problem.model.request, problem.model.judge(problem.options, shapes[None]))[0])


INNER_WORK = 2_000  # steps of each search for a latency on a number of cores


def _priced(problem: Problem, stays: Floats, cores: int | None = None) -> tuple[float, Ints]:
    """Return a bound of the latency and shapes near it, by a price on cores (Lagrange), for structures of any size.

    sum_c v_c stay_c is at most the latency's value where nothing is joined; at joins the branch that is slowest for the
    solution counts, which bounds the maximum from below for that branch. Cost O(n shapes MULTIPLIER_STEPS).
    """
    options, n = problem.options, len(problem.options.number)
    limit = cores or problem.cores
    weights = _critical(problem, stays)
    finite = np.where(np.isfinite(stays), stays, 1e300)
    values = np.where(options.weight < NOTHING, weights[:, None] * finite, np.inf)
    rows, low, high = np.arange(n), 0.0, float(np.where(options.weight < NOTHING, values, 0.0).max()) + 1.0
    wide, bound = np.where(options.weight < NOTHING, options.weight, 0), -np.inf
    shapes = options.weight.argmin(axis=1)
    for _ in range(MULTIPLIER_STEPS):
        price = (low * high) ** 0.5 if low > 0 else high * 1e-6 if high > 1e-300 else 0.0
        priced = values + price * wide
        some = priced.argmin(axis=1)
        bound = max(bound, float(priced[rows, some].sum()) - price * limit)
        if options.weight[rows, some].sum() <= limit:
            shapes, high = some, price
        else:
            low = price
        if high <= low * (1 + 1e-9):
            break
    return bound, _filled(options, values, shapes, limit)


def _critical(problem: Problem, stays: Floats) -> Floats:
    """Return each component's weight in the latency, (n,): its visits, but 0 off the slowest branch of a join."""
    structure, n = problem.model.structure, len(problem.options.number)
    weights = problem.model.visits.copy()
    if not structure.joins:
        return weights
    least = np.where(np.isfinite(stays), stays, np.inf).min(axis=1)
    nodes = structure.network.nodes
    time = np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        if index in structure.rows:
            time[index] = structure.ratios[structure.rows[index]] * least[structure.rows[index]]
        else:
            time[index] = sum(time[child] for child in node.children)
    silent = np.zeros(len(nodes), np.bool_)
    for index in range(len(nodes) - 1, -1, -1):
        children = nodes[index].children
        slowest = max(children, key=lambda child: time[child]) if children else -1
        for child in children:
            silent[child] = silent[index] or (index in structure.joins and child != slowest)
    for index, row in structure.rows.items():
        if silent[index]:
            weights[row] = 0.0
    return weights if n else weights


def _filled(options: Options, values: Floats, shapes: Ints, cores: int) -> Ints:
    """Return the shapes with what is left of the cores given to the largest gains per core."""
    shapes = shapes.copy()
    rows = np.arange(len(shapes))
    left = cores - int(options.weight[rows, shapes].sum())
    blocked = np.zeros(len(shapes), np.bool_)
    while left > 0 and not blocked.all():
        best, best_row, best_shape = 0.0, -1, -1
        for row in np.flatnonzero(~blocked).tolist():
            extra = options.weight[row] - options.weight[row, shapes[row]]
            gain = np.where(
                (extra > 0) & (extra <= left), (values[row, shapes[row]] - values[row]) / np.maximum(extra, 1), 0
            )
            place = int(gain.argmax())
            if gain[place] <= 0:
                blocked[row] = True
            elif gain[place] > best:
                best, best_row, best_shape = float(gain[place]), row, place
        if best_row < 0:
            break
        left -= int(options.weight[best_row, best_shape] - options.weight[best_row, shapes[best_row]])
        shapes[best_row] = best_shape
    return shapes


def thresholds(problem: Problem, periods: Floats) -> Floats:
    """Return the periods that allocations may have, the shortest first."""
    best = best_threshold(problem.options, periods, problem.cores)
    if best is None:
        return np.zeros(0)
    falling = np.minimum.accumulate(periods, axis=1)
    values = np.unique(falling[np.isfinite(falling)])
    longest = float(periods[np.arange(len(periods)), 0].max())
    return values[(values >= best[0]) & (values <= max(longest, best[0]))]


def _cheapest(problem: Problem, periods: Floats, stays: Floats) -> list[Ints]:
    """Return allocations of low cost, the lowest last."""
    return [shapes for _, shapes in sorted(_cost_search(problem, periods, stays)[1], key=lambda pair: -pair[0])]


def _cost_search(problem: Problem, periods: Floats, stays: Floats) -> tuple[float, list[tuple[float, Ints]]]:
    """Return a bound of the cost and the allocations found, best first over intervals of the period.

    In an interval [s, l] of periods records are paid at 1/s at most and wait at 1/l at least, with the latencies of
    shapes within l: its bound. The interval of the lowest bound is halved until that is reached, or PROGRAMS_MAX.
    """
    request = problem.model.request
    if cells(problem.options, problem.cores) > PROGRAM_CELLS_MAX / PROGRAMS_MAX:
        return -np.inf, [(0.0, _priced(problem, stays)[1])]
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
        shapes = program.chosen(program.least + int(costs.argmin()))
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


PROGRAMS_MAX = 80  # programs over the structure in a search for the lowest cost


def _costs(problem: Problem, program: TreeProgram, paid: float, waited: float) -> Floats:
    """Return the cost on least, least + 1, … cores: `paid` records a second earn, `waited` of them wait."""
    weights = problem.model.request.weights or {}
    core, late, worth = (float(weights.get(name, 0.0)) for name in ("core_s", "latency_s", "record"))
    finite = np.where(np.isfinite(program.latency_s), program.latency_s, np.inf)
    cores = program.least + np.arange(len(finite))
    waits = late * waited * finite if late > 0 else np.where(np.isfinite(finite), 0.0, np.inf)
    return core * cores + waits - worth * paid


def _cost_bound(problem: Problem, periods: Floats, stays: Floats) -> float:
    """Return a cost that nothing undercuts: between two periods tried, records are paid by the shorter one."""
    request = problem.model.request
    if cells(problem.options, problem.cores) > PROGRAM_CELLS_MAX or problem.model.contended:
        return -np.inf
    if request.arrival_per_s is not None:
        program = _latencies(problem, stays)
        assert program is not None  # its size was looked at
        return float(_costs(problem, program, request.arrival_per_s, request.arrival_per_s).min())
    return _cost_search(problem, periods, stays)[0]


def _repaired(problem: Problem) -> None:
    """Find some allocation that can be placed where the relaxed ones cannot: narrower shapes, a core at a time."""
    options = problem.options
    shapes = np.zeros(len(options.number), np.int64)
    start = problem.seen and max(problem.seen, key=lambda data: -problem.seen[data][0])
    if start:
        shapes = np.frombuffer(start, np.int64).copy()
    falls = True
    while falls and not problem.out_of_work:
        if problem.offer(shapes[None]):
            return
        falls = bool(shapes.any())
        widest = int(np.where(shapes > 0, options.weight[np.arange(len(shapes)), shapes], 0).argmax())
        shapes = shapes.copy()
        shapes[widest] = max(shapes[widest] - 1, 0)
