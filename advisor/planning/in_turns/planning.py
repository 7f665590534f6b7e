"""Plans in turns, and whether they are better than cores of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from advisor.domain import limits
from advisor.domain.answers import Allocation, Evidence, Reason
from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue, Unsupported
from advisor.planning.asked.demand import TIE
from advisor.planning.asked.requests import Request, demand_of
from advisor.planning.asked.visits import Visits
from advisor.planning.closed_forms.partitions import few_enough
from advisor.planning.closed_forms.reasons import amount, plural
from advisor.planning.closed_forms.turns import period_bound
from advisor.planning.in_turns.answering import answer
from advisor.planning.in_turns.asking import asked_of
from advisor.planning.in_turns.fronts import merged
from advisor.planning.in_turns.solving import solved

NEAR = 1e-3  # of the bound of turns: of many components that are as near with cores of their own none shares

AnyCurves = AmdahlCurves | TabulatedCurves
Apart = Callable[[Network, AnyCurves, Request, Visits, dict[str, Evidence]], Allocation]


def plan_in_turns(
    network: Network, curves: AnyCurves, request: Request, visits: Visits, evidence: dict[str, Evidence]
) -> Allocation:
    """Return the best allocation in which components take turns in groups."""
    cores = request.cores if request.cores is not None else limits.ALLOCATE_CORES_MAX
    asked = asked_of(network, curves, request, visits, cores)
    return answer(asked, solved(asked), evidence)


def plan_either(
    network: Network, curves: AnyCurves, request: Request, visits: Visits, evidence: dict[str, Evidence], apart: Apart
) -> Allocation:
    """Return the better of cores of one's own for each component and of turns; of equals the former.

    Raises
    ------
    ImpossibleTarget
        When neither reaches the target.
    """
    own, error = None, None
    try:
        own = apart(network, curves, request, visits, evidence)
    except (ImpossibleTarget, InvalidValue) as refused:
        error = refused
    if own is not None and (left := _left_to_gain(network, curves, request, visits, own)) <= NEAR:
        return replace(own, gap=max(own.gap or 0.0, left))
    if request.cores is None:
        # Whoever has cores of his own needs more of them than turns do: no grouping needs more.
        if own is None:
            raise error or AssertionError
        request = replace(request, cores=own.used)
    try:
        shared = plan_in_turns(network, curves, request, visits, evidence)
    except (ImpossibleTarget, InvalidValue, Unsupported):
        if own is None:
            raise
        return own
    if own is None:
        return shared
    if request.objective == "pareto":
        front = merged(own.front, shared.front)
        own, shared = replace(own, front=front), replace(shared, front=front)
    mine, theirs = _value(request, own), _value(request, shared)
    if mine <= theirs + TIE * abs(theirs) or len(shared.groups) == len(network.keys):
        return replace(own, gap=_gap_beside(request, own, shared))
    return replace(shared, why=(*shared.why, _than_apart(request, own)))


def _left_to_gain(network: Network, curves: AnyCurves, request: Request, visits: Visits, own: Allocation) -> float:
    """Return the share of the throughput that turns may gain at most, by their bound; 1 where it is better to look.

    Where many components have cores enough that is soon said.
    """
    n, rules = len(network.keys), (request.allowed, request.pinned, request.nodes, request.memory_bytes)
    if request.objective != "throughput" or request.cores is None or few_enough(n, request.cores):
        return 1.0
    if any(rule is not None for rule in rules) or visits.replicas:
        return 1.0
    bound = period_bound(demand_of(network, curves, visits.per_record, request), request.cores)
    return max(1 - own.throughput_per_s * bound, 0.0)


def _gap_beside(request: Request, own: Allocation, shared: Allocation) -> float | None:
    """Return how far from the best cores of one's own can be where turns may be better than those that were found."""
    if own.gap is None or shared.gap is None:
        return None
    mine, theirs = _value(request, own), _value(request, shared)
    if request.objective in ("throughput", "pareto"):
        return max(own.gap, 1 - theirs * (1 - shared.gap) / mine)
    if request.objective == "cost":  # gaps of costs are shares of their bounds, which may be of either sign
        return own.gap if shared.gap == 0.0 else None
    return max(own.gap, mine * (1 + shared.gap) / theirs - 1)


def _value(request: Request, found: Allocation) -> float:
    """Return what the objective minimises."""
    if request.objective == "fewest_cores":
        return float(found.used)
    if request.objective == "cost":
        return found.cost_per_s or 0.0
    if request.objective != "latency":
        return 1 / found.throughput_per_s
    if request.quantile is not None and found.latency_quantile_s is not None:
        return found.latency_quantile_s
    return found.latency_s if found.latency_queued_s is None else found.latency_queued_s


def _than_apart(request: Request, own: Allocation) -> Reason:
    """Say what cores of one's own would do."""
    if request.objective == "fewest_cores":
        value, text = float(own.used), f"it would take {plural(own.used, 'core')}"
    elif request.objective == "cost":
        value, text = own.cost_per_s or 0.0, f"it would cost {amount(own.cost_per_s or 0.0)} per second"
    elif request.objective == "latency":
        value = _value(request, own)
        text = f"a record would take {amount(value)} s"
    else:
        value, text = own.throughput_per_s, f"it would reach {amount(own.throughput_per_s)} records/s"
    return Reason("turns", None, value, f"turns do better: with cores of one's own for each component {text}")
