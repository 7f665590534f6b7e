"""A network, its curves and a request -> an allocation of cores, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.answers import Allocation, Evidence
from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.flows import Flow
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue
from advisor.planning.asked.demand import TIE, Ints
from advisor.planning.asked.requests import Request, demand_of
from advisor.planning.asked.table_demand import AnyDemand, TableDemand
from advisor.planning.asked.visits import Visits, visits_of
from advisor.planning.closed_forms.latency import least_cores_for_latency, lowest_latency
from advisor.planning.closed_forms.priced import least_cores_priced, lowest_latency_priced
from advisor.planning.closed_forms.reasons import Outcome, reasons
from advisor.planning.closed_forms.tables import MARGINAL_MAX, gap_of, knee, marginals, runners_up, utilizations
from advisor.planning.closed_forms.throughput import best_period, least_cores, total_cores
from advisor.planning.in_turns.asking import BETTER, is_scarce
from advisor.planning.in_turns.planning import plan_either, plan_in_turns
from advisor.planning.solving.explaining import answer
from advisor.planning.solving.general import is_plain, solved


@dataclass(frozen=True, slots=True)
class _Problem:
    keys: tuple[str, ...]
    demand: AnyDemand
    cores: int
    target: float  # seconds: the period or the latency to reach; 0 where none is given
    bounds: dict[str, float] = field(default_factory=dict[str, float])  # what the planner proved on its way

    def impossible(self, row: int, target: str, best: float, because: str) -> ImpossibleTarget:
        """Return the error: the component that forbids the target, and the best that can be reached."""
        value = 1 / self.target if target == "throughput_per_s" else self.target
        return ImpossibleTarget(
            f"target {target} {value:.6g} is impossible: {because}",
            field=self.keys[row], value=value, bound=best, hint="raise cores or maximum, or ask for less",
        )  # fmt: skip


Solution = tuple[Ints, Ints]


def plan(
    network: Network,
    curves: AmdahlCurves | TabulatedCurves,
    request: Request,
    flow: Flow | None = None,
    evidence: Mapping[str, Evidence] | None = None,
) -> Allocation:
    """Return the best allocation of cores to the components of a network.

    Parameters
    ----------
    network : Network
    curves : AmdahlCurves or TabulatedCurves
        T_c(p), one a key, in the order of ``network.keys``.
    request : Request
    flow : Flow, optional
        The way of records as it was learned; the request's own numbers go first.
    evidence : mapping, optional
        Key to what its curve rests on: told in the answer.

    Returns
    -------
    Allocation
        ``throughput``: maximises min_c instances_c / (v_c T_c(cores_c)), v_c being the visits per record. ``latency``:
        minimises sum_c v_c T_c(cores_c). ``fewest_cores``: minimises the cores that reach the target. Ties: fewest
        cores, then lower latency, then text order. Optimal wherever each component has cores of its own; where there
        are fewer cores than components they take turns in groups, optimal up to 10 components, else with the gap to
        the bound in ``why``. A component without visits gets its minimum.

    Raises
    ------
    MissingShares
        When visits below a choice are needed and neither shares nor visits give them.
    ImpossibleTarget
        When no allocation reaches the target: proved, the component in ``field`` and the best reachable in ``bound``.
    Unsupported
        When a target for more than 10 components on fewer cores was neither reached nor proved impossible.
    InvalidValue, TooLarge
        When the request does not fit the network.

    Notes
    -----
    Cost O(n log(P) + n log(n)) for n components on P cores; with sharing see `best_grouping`. Source: design 4.6.
    """
    visits = visits_of(network, request, flow)
    known = dict(evidence or {})
    if is_scarce(network, request):
        return plan_in_turns(network, curves, request, visits, known)
    if request.turns == BETTER:
        return plan_either(network, curves, request, visits, known, _plan_apart)
    return _plan_apart(network, curves, request, visits, known)


def _plan_apart(
    network: Network,
    curves: AmdahlCurves | TabulatedCurves,
    request: Request,
    visits: Visits,
    evidence: dict[str, Evidence],
) -> Allocation:
    """Return the best allocation with cores of one's own for each component."""
    if not is_plain(network, curves, request, visits):
        return answer(solved(network, curves, request, visits), evidence)
    demand = demand_of(network, curves, visits.per_record, request)
    cores = request.cores if request.cores is not None else limits.ALLOCATE_CORES_MAX * max(1, len(demand))
    name, value = next(iter(request.target.items())) if request.target else ("", 0.0)
    target = 1 / value if name == "throughput_per_s" else value
    problem = _Problem(network.keys, demand, cores, target)
    if (needed := int(demand.low.sum())) > cores:
        raise InvalidValue("minimum", needed, f"at most the {cores} cores given in sum")
    return _answer(problem, request, PLANNERS[request.objective, name](problem), evidence)


def _throughput(problem: _Problem) -> Solution:
    period = best_period(problem.demand, problem.cores)
    return least_cores(problem.demand, period * (1 + TIE), ties=True)


def _latency(problem: _Problem) -> Solution:
    demand = problem.demand
    if isinstance(demand, TableDemand):
        found, problem.bounds["latency_s"] = lowest_latency_priced(demand, problem.cores)
        return _ones(found)
    return _ones(lowest_latency(demand, problem.cores))


def _cores_for_throughput(problem: _Problem) -> Solution:
    demand = problem.demand
    fastest = demand.seconds(demand.fastest(demand.high)) / demand.instances_max
    worst = int(fastest.argmax())
    if fastest[worst] > problem.target * (1 + TIE):
        cores, instances = int(demand.high[worst]), int(demand.instances_max[worst])
        raise problem.impossible(
            worst, "throughput_per_s", float(1 / fastest[worst]),
            f"{problem.keys[worst]} on {_most(cores)} takes {(fastest * demand.instances_max)[worst]:.6g} s a record"
            f" and may have {_counted(instances, 'instance')}, so at most {1 / fastest[worst]:.6g} records/s",
        )  # fmt: skip
    found = least_cores(demand, problem.target * (1 + TIE), ties=True)
    needed = total_cores(*found)
    if needed > problem.cores:
        period = best_period(demand, problem.cores)
        row = int((demand.period_s(*least_cores(demand, period * (1 + TIE)))).argmax())
        raise problem.impossible(
            row, "throughput_per_s", 1 / period,
            f"it takes {needed} cores, {int((found[0] * found[1])[row])} of them for {problem.keys[row]};"
            f" {problem.cores} cores reach {1 / period:.6g} records/s",
        )  # fmt: skip
    return found


def _lowest(demand: AnyDemand, cores: int) -> Ints:
    if isinstance(demand, TableDemand):
        return lowest_latency_priced(demand, cores)[0]
    return lowest_latency(demand, cores)


def _cores_for_latency(problem: _Problem) -> Solution:
    demand = problem.demand
    if isinstance(demand, TableDemand):
        found = least_cores_priced(demand, problem.target)
    else:
        found = least_cores_for_latency(demand, problem.target)
    if found is None:
        floor = demand.seconds(demand.fastest(demand.high))
        row = int(floor.argmax())
        raise problem.impossible(
            row, "latency_s", float(floor.sum()),
            f"on the most cores allowed the components still take {floor.sum():.6g} s in sum,"
            f" {floor[row]:.6g} s of it {problem.keys[row]}",
        )  # fmt: skip
    if found.sum() > problem.cores:
        best = demand.seconds(_lowest(demand, problem.cores))
        row = int(best.argmax())
        raise problem.impossible(
            row, "latency_s", float(best.sum()),
            f"it takes {int(found.sum())} cores; {problem.cores} cores reach {best.sum():.6g} s,"
            f" {best[row]:.6g} s of it {problem.keys[row]}",
        )  # fmt: skip
    return _ones(found)


# (objective, target) -> how it is planned.
PLANNERS: Mapping[tuple[str, str], Callable[[_Problem], Solution]] = {
    ("throughput", ""): _throughput,
    ("latency", ""): _latency,
    ("fewest_cores", "throughput_per_s"): _cores_for_throughput,
    ("fewest_cores", "latency_s"): _cores_for_latency,
}


def _ones(cores: Ints) -> tuple[Ints, Ints]:
    return cores, np.ones_like(cores)


def _most(cores: int) -> str:
    """Return how many cores one instance was given at most: the largest legal number is nobody's limit."""
    return f"{cores} cores" if cores < limits.ALLOCATE_CORES_MAX else "as many cores as there may be"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _answer(problem: _Problem, request: Request, solution: Solution, evidence: Mapping[str, Evidence]) -> Allocation:
    keys, demand = problem.keys, problem.demand
    cores, instances = solution
    used = total_cores(cores, instances)
    periods = demand.period_s(cores, instances)
    period = float(periods.max())
    slowest = np.flatnonzero(periods >= period * (1 - TIE))
    outcome = Outcome(keys, demand, request, solution, used, period, slowest)
    return Allocation(
        cores=dict(zip(keys, cores.tolist(), strict=True)),
        instances=dict(zip(keys, instances.tolist(), strict=True)),
        spare=0 if request.cores is None else request.cores - used,
        throughput_per_s=1 / period,
        latency_s=demand.latency_s(cores),
        bottleneck=tuple(keys[row] for row in slowest),
        why=reasons(outcome),
        objective=request.objective,
        utilization=utilizations(outcome),
        active_cores=_active(outcome),
        gap=_gap(outcome, problem),
        knee=knee(outcome, _fewest_for_latency(demand)) if len(demand) <= MARGINAL_MAX else None,
        marginal=marginals(outcome),
        runner_up=runners_up(outcome),
        evidence={key: evidence[key] for key in keys if key in evidence} if evidence else {},
    )


def _active(outcome: Outcome) -> float:
    """Return the cores busy at a time, on average, at the highest throughput."""
    return float((outcome.demand.seconds(outcome.cores) * outcome.cores).sum() / outcome.period_s)


def _fewest_for_latency(demand: AnyDemand) -> Callable[[Any, float], Ints | None]:
    return least_cores_priced if isinstance(demand, TableDemand) else least_cores_for_latency


def _gap(outcome: Outcome, problem: _Problem) -> float | None:
    """Return how far from the best the answer may be: 0 where closed forms are exact."""
    demand = outcome.demand
    if isinstance(demand, TableDemand) and outcome.for_latency:
        if outcome.request.target:
            return None
        return gap_of(demand.latency_s(outcome.cores), problem.bounds["latency_s"], of_throughput=False)
    return 0.0
