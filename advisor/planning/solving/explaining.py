"""Why a general plan is as it is: who binds, what one core more would do, what else came near, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from advisor.domain.answers import Allocation, Evidence, Knee, Marginal, Reason, RunnerUp
from advisor.planning.asked.demand import TIE, Ints
from advisor.planning.asked.options import NOTHING
from advisor.planning.asked.requests import limits_of, pins_of
from advisor.planning.closed_forms.reasons import WORTH_SAYING, amount, first, plural
from advisor.planning.queues.model import Judged, Model
from advisor.planning.solving.alone import is_unproved
from advisor.planning.solving.front import front_of
from advisor.planning.solving.general import Solved
from advisor.planning.solving.linear import weights_of
from advisor.planning.solving.objectives import about_latency, cost_of, latency_of
from advisor.planning.solving.placing import place
from advisor.planning.solving.relaxing import solve
from advisor.planning.solving.search import KEPT, Problem, exchanges
from advisor.planning.solving.tree_program import cells, sum_program
from advisor.planning.solving.uncertain import better_than, target_probability

RUNNERS_UP = 3  # that are told
KNEE_SHARE = 0.99
KNEE_CELLS_MAX = 50_000_000  # of the program that a knee of the latency takes: a tenth of a second
MARGINAL_MAX = 2_000  # components up to which the marginal table is told


def answer(solved: Solved, evidence: dict[str, Evidence], *, brief: bool = False) -> Allocation:
    """Return the allocation with its figures and reasons; when `brief` without tables, knee and runners-up."""
    problem, judged = solved.problem, solved.judged
    model, request = problem.model, problem.model.request
    keys = model.structure.network.keys
    alone = _saturated(solved)
    slowest = np.flatnonzero(alone.utilization[0] >= 1 - 1e-9)
    queued = request.arrival_per_s is not None and bool(np.isfinite(judged.latency_s[0]))
    gap = _gap(solved)
    placed = None
    if request.nodes is not None:
        nodes = place(problem.machine, solved.cores, solved.instances, model.curves.peak_bytes) or []
        placed = {key: tuple(some) for key, some in zip(keys, nodes, strict=True)}
    marginal = _marginals(solved) if len(keys) <= MARGINAL_MAX and not brief else ()
    knee, runners = (None, ()) if brief else (_knee(solved), _runners_up(solved))
    used = np.array([solved.used])
    wants_quantile = request.quantile is not None and bool(np.isfinite(judged.latency_s[0]))
    found = Allocation(
        cores=dict(zip(keys, solved.cores.tolist(), strict=True)),
        instances=dict(zip(keys, solved.instances.tolist(), strict=True)),
        spare=0 if request.cores is None else request.cores - solved.used,
        throughput_per_s=float(1 / judged.period_s[0]),
        latency_s=float(judged.unloaded_s[0]),
        bottleneck=tuple(keys[row] for row in slowest),
        objective=request.objective,
        latency_queued_s=float(judged.latency_s[0]) if queued else None,
        latency_quantile_s=float(latency_of(request, judged)[0]) if wants_quantile else None,
        utilization=dict(zip(keys, judged.utilization[0].tolist(), strict=True)),
        active_cores=float(judged.active[0]),
        gap=gap,
        steps=problem.steps,
        knee=knee,
        marginal=marginal,
        runner_up=runners,
        placement=placed,
        front=front_of(solved) if request.objective == "pareto" else (),
        cost_per_s=float(cost_of(request, judged, used)[0]) if request.objective == "cost" else None,
        evidence={key: evidence[key] for key in keys if key in evidence},
    )
    return replace(found, why=tuple(_reasons(solved, found, slowest)))


def _saturated(solved: Solved) -> Judged:
    """Return the figures at the highest throughput."""
    model = solved.problem.model
    if model.request.arrival_per_s is None:
        return solved.judged
    bare = Model(model.structure, model.curves, replace(model.request, arrival_per_s=None))
    return bare.judge(solved.problem.options, solved.found.chosen[None])


def _gap(solved: Solved) -> float | None:
    bound, value = solved.found.bound, solved.problem.best_key[0]
    if solved.found.exact:
        return 0.0
    if not np.isfinite(bound) or bound == 0:
        return None
    # Of a throughput the gap is its share that is lost; of a latency, cores and costs what is paid too much.
    if solved.problem.model.request.objective in ("throughput", "pareto"):
        return float(1 - bound / value)
    return float((value - bound) / abs(bound))


def _marginals(solved: Solved) -> tuple[Marginal, ...]:
    """Judge the next shape with more cores, and with fewer, of each component."""
    problem, options, chosen = solved.problem, solved.problem.options, solved.found.chosen
    rows: list[tuple[int, int]] = []
    changed: list[Ints] = []
    for row in range(len(chosen)):
        number, weight = int(options.number[row]), options.weight[row]
        here = int(weight[chosen[row]])
        for after, pick in ((1, _first_of(weight[:number], here, wider=True)),
                            (0, _first_of(weight[:number], here, wider=False))):  # fmt: skip
            if pick is not None:
                one = chosen.copy()
                one[row] = pick
                rows.append((row, after))
                changed.append(one)
    effects: dict[tuple[int, int], tuple[float, float]] = {}
    size = max(1, 4_000_000 // max(1, len(chosen)))
    for start in range(0, len(changed), size):
        judged = problem.model.judge(options, np.stack(changed[start : start + size]))
        latency = latency_of(problem.model.request, judged)
        for place_, key in enumerate(rows[start : start + size]):
            effects[key] = float(1 / judged.period_s[place_]), float(latency[place_])
    keys = problem.model.structure.network.keys
    return tuple(
        Marginal(keys[row], int(solved.cores[row] * solved.instances[row]),
                 *_finite(effects.get((row, 1))), *_finite(effects.get((row, 0))))
        for row in range(len(chosen))
    )  # fmt: skip


def _finite(effect: tuple[float, float] | None) -> tuple[float | None, float | None]:
    if effect is None:
        return None, None
    return effect[0], effect[1] if np.isfinite(effect[1]) else None


def _first_of(weight: Ints, here: int, *, wider: bool) -> int | None:
    if wider:
        after = int(np.searchsorted(weight, here, side="right"))
        return after if after < len(weight) else None
    before = int(np.searchsorted(weight, here, side="left"))
    return int(np.searchsorted(weight, int(weight[before - 1]), side="left")) if before > 0 else None


def _knee(solved: Solved) -> Knee | None:
    """Return the fewest cores that reach KNEE_SHARE of the throughput, or 1/KNEE_SHARE of the latency."""
    problem, request = solved.problem, solved.problem.model.request
    if request.objective not in ("throughput", "latency", "pareto") or problem.out_of_work:
        return None
    value = problem.best_key[0]
    if not np.isfinite(value) or value <= 0:
        return None
    if about_latency(request):
        return _latency_knee(solved, value / KNEE_SHARE)
    asked = replace(request, objective="fewest_cores", target={"throughput_per_s": KNEE_SHARE / value}, cores=None)
    model = Model(problem.model.structure, problem.model.curves, asked)
    other = Problem(model, problem.options, problem.machine, solved.used, max(problem.work_max - problem.steps, 1))
    found = solve(other)
    if found is None:
        return None
    return _knee_of(solved, found.chosen)


def _latency_knee(solved: Solved, latency_s: float) -> Knee | None:
    """Return the fewest cores of the weighted sum of stays that reach the latency, judged by the whole model."""
    problem, options = solved.problem, solved.problem.options
    if cells(options, solved.used) > KNEE_CELLS_MAX:
        return None
    chosen = solved.found.chosen[None]
    others, streams = problem.model.coupling(solved.judged, solved.cores[None])
    _, stays = problem.model.stays(options, others[0], streams.first())
    weights = weights_of(problem.model, solved.judged, solved.instances[None])
    program = sum_program(options, weights[:, None] * np.where(np.isfinite(stays), stays, 1e300), solved.used)
    now = float((weights * stays[np.arange(len(weights)), chosen[0]]).sum())
    share = latency_s / float(latency_of(problem.model.request, solved.judged)[0])
    fewest = program.fewest(now * share)
    for cores in range(fewest or solved.used, solved.used):
        shapes = program.chosen(cores)
        judged = problem.model.judge(options, shapes[None])
        if float(latency_of(problem.model.request, judged)[0]) <= latency_s * (1 + TIE) and problem.placeable(shapes):
            return _knee_of(solved, shapes)
    return _knee_of(solved, solved.found.chosen)


def _knee_of(solved: Solved, chosen: Ints) -> Knee:
    problem = solved.problem
    judged = problem.model.judge(problem.options, chosen[None])
    return Knee(int(problem.used(chosen[None])[0]), KNEE_SHARE, float(1 / judged.period_s[0]),
                float(latency_of(problem.model.request, judged)[0]))  # fmt: skip


def _runners_up(solved: Solved) -> tuple[RunnerUp, ...]:
    """Return the next best allocations that were judged, or else neighbours, with how sure the order is."""
    problem = solved.problem
    if len(problem.seen) <= RUNNERS_UP and not problem.out_of_work:
        near = exchanges(problem.options, solved.found.chosen, problem.cores, pairs=len(solved.found.chosen) <= 24)
        judged, values, used = problem.judge(near[:KEPT]) if len(near) else (None, np.zeros(0), np.zeros(0, np.int64))
        for place_, value in enumerate(values.tolist()):
            if judged is not None and np.isfinite(value):
                key = (value, float(used[place_]), float(judged.latency_s[place_]))
                problem.seen.setdefault(near[place_].tobytes(), key)
    own = solved.found.chosen.tobytes()
    others = sorted((key, data) for data, key in problem.seen.items() if data != own)[: 4 * RUNNERS_UP]
    found: list[RunnerUp] = []
    keys = problem.model.structure.network.keys
    for _, data in others:
        chosen = np.frombuffer(data, np.int64)
        if not problem.placeable(chosen):
            continue
        judged = problem.model.judge(problem.options, chosen[None])
        cores, instances, _, _ = problem.options.pick(chosen[None])
        sure = None if problem.model.request.target else better_than(solved, chosen)
        found.append(RunnerUp(
            dict(zip(keys, cores[0].tolist(), strict=True)), dict(zip(keys, instances[0].tolist(), strict=True)),
            int(problem.used(chosen[None])[0]), float(1 / judged.period_s[0]),
            float(latency_of(problem.model.request, judged)[0]), sure,
        ))  # fmt: skip
        if len(found) == RUNNERS_UP:
            break
    return tuple(found)


def _reasons(solved: Solved, found: Allocation, slowest: Ints) -> Iterator[Reason]:
    request = solved.problem.model.request
    yield from _target(solved, found)
    yield from _bottleneck(solved, found, slowest)
    yield from _limits(solved, found, slowest)
    yield from _effects(solved, found)
    if found.knee is not None and found.knee.cores < solved.used:
        text = f"{found.knee.cores} cores reach {100 * found.knee.share:g} % of it"
        yield Reason("knee", None, float(found.knee.cores), text)
    for row, more in first(np.flatnonzero(solved.problem.model.visits == 0)):
        key = solved.problem.model.structure.network.keys[row]
        yield Reason("unvisited", key, 0.0, f"no record visits {key}: it has its minimum{more}")
    if found.spare > 0:
        text = f"{found.spare} of {plural(request.cores or 0, 'core')} stay free: no component gains from them"
        if request.target:
            text = (
                f"{found.spare} of {plural(request.cores or 0, 'core')} stay free: the target is reached without them"
            )
        yield Reason("spare", None, float(found.spare), text)
    for other in found.runner_up[:1]:
        sure = "" if other.probability is None else f"; this one is better with probability {other.probability:.2f}"
        unit = (f"{amount(other.latency_s)} s" if about_latency(request)
                else f"{amount(other.throughput_per_s)} records/s")  # fmt: skip
        yield Reason(
            "runner_up", None, other.probability, f"the next best takes {plural(other.used, 'core')}: {unit}{sure}"
        )
    yield from _turns(solved, found)
    yield from _caveats(solved, found)


def _turns(solved: Solved, found: Allocation) -> Iterator[Reason]:
    """Say what turns on shared cores might reach, where that is much more than cores of one's own."""
    problem, request = solved.problem, solved.problem.model.request
    if request.objective != "throughput" or request.turns != "scarce" or problem.model.contended or request.nodes:
        return
    curves, (_, _, most) = problem.model.curves, limits_of(problem.model.structure.network, request)
    turns = problem.model.visits[:, None] * curves.seconds_s  # of single instances: of several at best a share of it
    work = float((turns * curves.counts).min(axis=1).sum())
    bound = 1 / max(work / problem.cores, float((turns.min(axis=1) / most).max()))
    if bound > WORTH_SAYING * found.throughput_per_s:
        text = (
            "each component has cores of its own; taking turns on the same number of cores could reach at most"
            f' {amount(bound)} records/s: with turns "better" that is planned'
        )
        yield Reason("own_cores", None, bound, text)


def _target(solved: Solved, found: Allocation) -> Iterator[Reason]:
    request = solved.problem.model.request
    for name, value in (request.target or {}).items():
        by_rate = name == "throughput_per_s"
        reached = found.throughput_per_s if by_rate else float(latency_of(request, solved.judged)[0])
        unit = "records/s" if by_rate else "s"
        sure = target_probability(solved)
        how = "" if sure is None else f", reached with probability {sure:.2f}"
        text = f"{solved.used} cores reach {amount(reached)} {unit}; the target is {amount(value)} {unit}{how}"
        yield Reason("target", None, reached, text)


def _bottleneck(solved: Solved, found: Allocation, slowest: Ints) -> Iterator[Reason]:
    keys = solved.problem.model.structure.network.keys
    for row, more in first(slowest):
        n, cores = int(solved.instances[row]), int(solved.cores[row])
        where = plural(cores, "core") if n == 1 else f"{n} instances of {plural(cores, 'core')}"
        text = f"{keys[row]} bounds the throughput at {amount(found.throughput_per_s)} records/s on {where}{more}"
        yield Reason("bottleneck", keys[row], found.throughput_per_s, text)


def _limits(solved: Solved, found: Allocation, slowest: Ints) -> Iterator[Reason]:
    """Say which limit a component is at, where it bounds the objective."""
    model, problem = solved.problem.model, solved.problem
    request, network = model.request, model.structure.network
    _, high, most = limits_of(network, request)
    pins = pins_of(network, request)
    rows = slowest if not about_latency(request) else np.arange(len(network.keys))
    for row, more in first(np.array([row for row in rows.tolist() if row in pins], np.int64)):
        yield Reason("pinned", network.keys[row], float(solved.cores[row]), f"{network.keys[row]} is pinned{more}")
    at_end = [row for row in rows.tolist() if row not in pins and solved.found.chosen[row] == problem.options.number[row] - 1
              and solved.cores[row] == high[row] and solved.instances[row] == most[row]]  # fmt: skip
    for row, more in first(np.array(at_end, np.int64)):
        yield Reason("maximum", network.keys[row], float(high[row]),
                     f"{network.keys[row]} is at its maximum of {plural(int(high[row]), 'core')}{more}")  # fmt: skip
    last = model.curves.last
    unknown = [
        row for row in rows.tolist() if solved.cores[row] == last[row] and last[row] < min(high[row], problem.cores)
    ]
    for row, more in first(np.array(unknown, np.int64)):
        text = f"{network.keys[row]} is on the most cores its curve knows, {plural(int(last[row]), 'core')}{more}"
        yield Reason("curve_end", network.keys[row], float(last[row]), text)
    replicas = model.structure.visits.replicas
    split = [row for row in map(int, slowest) if row in replicas and int(solved.instances[row]) > 1]
    for row in split[:1]:
        share = float(problem.options.heaviest[row, int(solved.found.chosen[row])])
        text = (
            f"the busiest instance of {network.keys[row]} serves {amount(100 * share)} % of its records:"
            " a replica is not divided"
        )
        yield Reason("skew", network.keys[row], share, text)
    if found.placement is not None:
        yield Reason("nodes", None, float(len(problem.machine.sizes)),
                     f"instances are placed on {plural(len(problem.machine.sizes), 'node')} of"
                     f" {plural(int(problem.machine.sizes[0]), 'core')}; none straddles")  # fmt: skip


def _effects(solved: Solved, found: Allocation) -> Iterator[Reason]:
    """Say whose next core gains most."""
    request = solved.problem.model.request
    if not found.marginal:
        return
    if about_latency(request):
        now = float(latency_of(request, solved.judged)[0])
        gains = [(now - row.next_latency_s) if row.next_latency_s is not None else 0.0 for row in found.marginal]
        best = int(np.argmax(gains))
        if gains[best] > TIE * now:
            text = (f"one more core, for {found.marginal[best].key}, would lower the latency by {amount(gains[best])} s"
                    f" ({amount(100 * gains[best] / now)} %)")  # fmt: skip
            yield Reason("next_core", found.marginal[best].key, gains[best], text)
        return
    rates = [row.next_throughput_per_s or 0.0 for row in found.marginal]
    best, now = int(np.argmax(rates)), found.throughput_per_s
    if rates[best] > now * (1 + TIE):
        text = (f"one more core, for {found.marginal[best].key}, would raise the throughput to {amount(rates[best])}"
                f" records/s (+{amount(100 * (rates[best] / now - 1))} %)")  # fmt: skip
        yield Reason("next_core", found.marginal[best].key, rates[best], text)


def _caveats(solved: Solved, found: Allocation) -> Iterator[Reason]:
    model, request = solved.problem.model, solved.problem.model.request
    if found.gap is None:
        yield Reason("gap", None, None, "the best that was found; no bound is known for this question")
    elif found.gap > 0:
        tried = about_latency(request) and is_unproved(solved.problem)
        by = "a bound that is not proved where joins stand in joins" if tried else "a bound"
        yield Reason("gap", None, found.gap, f"at most {amount(100 * found.gap)} % from the best, by {by}")
    if solved.problem.out_of_work:
        yield Reason(
            "work", None, float(found.steps), f"the search stopped after the {found.steps:,} steps it was allowed"
        )
    if model.contended:
        text = f"times are those with {amount(found.active_cores or 0.0)} cores busy at a time: components slow each other down"
        yield Reason("contention", None, found.active_cores, text)
    if request.arrival_per_s is not None and found.latency_queued_s is None:
        text = f"{amount(request.arrival_per_s)} records/s are more than it sustains: queues would grow without end"
        yield Reason("overload", None, found.throughput_per_s, text)
    elif request.arrival_per_s is not None:
        waits = float((model.visits * solved.judged.wait_s[0]).sum())
        yield Reason("queueing", None, waits, f"a record waits {amount(waits)} s for free instances in all")
    if request.level is not None:
        text = f"planned for the upper bound of each curve at level {request.level:g}"
        if not model.curves.spread.any():
            text = f"level {request.level:g} changes nothing: the curves have no upper bounds"
        yield Reason("level", None, request.level, text)
    if model.curves.thinned or (solved.problem.options.weight == NOTHING).all():
        yield Reason(
            "thinned",
            None,
            float(len(model.curves.counts)),
            "not every count of cores was considered: there are too many",
        )
    for key, known in found.evidence.items():
        if known.extrapolates > 0:
            text = f"{key} is extrapolated by {known.extrapolates:.2g} in log2, from {known.observations} observations"
            yield Reason("extrapolates", key, known.extrapolates, text)
