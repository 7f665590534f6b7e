"""The same question for many machines, and what a given allocation would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from advisor.domain import limits
from advisor.domain.answers import Allocation
from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.flows import Flow
from advisor.domain.networks import Network
from advisor.errors import InvalidValue, TooLarge
from advisor.planning.asked.requests import Request, by_key, whole
from advisor.planning.asked.visits import visits_of
from advisor.planning.in_turns.asking import BETTER
from advisor.planning.plans import plan
from advisor.planning.solving.explaining import answer
from advisor.planning.solving.general import is_plain, problem_for, solution
from advisor.planning.solving.placing import machine_of
from advisor.planning.solving.relaxing import solve
from advisor.planning.solving.search import Problem

SWEEP_MAX = 4096  # numbers of cores of one sweep
EVALUATED = "throughput"  # the objective of an allocation that is only judged: nothing is left to choose


def sweep(
    network: Network,
    curves: AmdahlCurves | TabulatedCurves,
    request: Request,
    cores: Sequence[int],
    flow: Flow | None = None,
) -> list[Allocation]:
    """Return the allocation for each number of cores, as `plan` gives it but without tables of reasons.

    Visits, curves and shapes are worked out once, for the largest number; with closed forms each costs as `plan`.

    Raises
    ------
    InvalidValue, TooLarge, MissingShares, ImpossibleTarget
        As `plan`, for the first number that it holds for.
    """
    counts = [whole(f"cores[{order}]", count, limits.ALLOCATE_CORES_MAX) for order, count in enumerate(cores)]
    if len(counts) > SWEEP_MAX:
        raise TooLarge("cores", len(counts), SWEEP_MAX)
    if request.turns == BETTER:
        return _rising([plan(network, curves, replace(request, cores=count), flow) for count in counts], counts)
    visits = visits_of(network, request, flow)
    most = max(counts, default=0)
    own = [count for count in counts if count >= len(network.keys)]
    if not own or is_plain(network, curves, replace(request, cores=most), visits):
        return [plan(network, curves, replace(request, cores=count), flow) for count in counts]
    widest = problem_for(network, curves, replace(request, cores=most), visits, most)
    found: list[Allocation] = []
    for count in counts:
        asked = replace(request, cores=count)
        if count < len(network.keys):
            found.append(plan(network, curves, asked, flow))
            continue
        if int(widest.options.least.sum()) > count:
            raise InvalidValue("minimum", int(widest.options.least.sum()), f"at most the {count} cores given in sum")
        machine = machine_of(count, request.nodes, request.memory_bytes)
        problem = Problem(replace(widest.model, request=asked), widest.options, machine, count, widest.work_max)
        found.append(answer(solution(problem, solve(problem), visits), {}, brief=True))
    return found


def _rising(found: list[Allocation], counts: Sequence[int]) -> list[Allocation]:
    """Return allocations of which none on more cores is worse: where groupings were only searched, that of fewer cores stays.

    Such an answer leaves the further cores free.
    """
    if not found or found[0].objective != "throughput":
        return found
    kept = list(found)
    order = sorted(range(len(counts)), key=lambda place: counts[place])
    for before, place in pairwise(order):
        best = kept[before]
        if best.throughput_per_s > kept[place].throughput_per_s:
            kept[place] = replace(best, spare=best.spare + counts[place] - counts[before])
    return kept


def evaluate(
    network: Network,
    curves: AmdahlCurves | TabulatedCurves,
    request: Request,
    cores: Mapping[str, int],
    instances: Mapping[str, int] | None = None,
    flow: Flow | None = None,
) -> Allocation:
    """Return what a given allocation does: figures and reasons as `plan` gives them, with nothing left to choose.

    Parameters
    ----------
    cores, instances : mapping
        Key to cores per instance, every key of the network, and to instances, 1 where absent.

    Raises
    ------
    InvalidValue
        When a key is missing or unknown, or the allocation does not fit the request's machine.
    """
    many = by_key("instances", instances or {}, network)
    pinned: dict[str, Any] = {}
    given = {network.keys[row]: value for row, (_, value) in by_key("cores", cores, network).items()}
    for row, key in enumerate(network.keys):
        if key not in given:
            raise InvalidValue("cores", None, f"given for {key}, too: every key of the network")
        pinned[key] = {"cores": given[key], "instances": many[row][1] if row in many else 1}
    used = sum(whole(f"cores.{key}", pin["cores"], limits.ALLOCATE_CORES_MAX)
               * whole(f"instances.{key}", pin["instances"], limits.INSTANCES_MAX) for key, pin in pinned.items())  # fmt: skip
    asked = replace(
        request, cores=request.cores or used, objective=EVALUATED, target=None, weights=None, pinned=pinned,
        instances_max={key: pin["instances"] for key, pin in pinned.items()}, minimum=None, maximum=None, allowed=None,
    )  # fmt: skip
    visits = visits_of(network, asked, flow)
    problem = problem_for(network, curves, asked, visits, int(asked.cores or used))
    return answer(solution(problem, solve(problem), visits), {}, brief=True)
