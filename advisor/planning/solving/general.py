"""Plans beyond closed forms: any curves, structures and constraints, own cores for each component."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from advisor.domain import limits
from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget
from advisor.planning.asked.demand import TIE, Ints
from advisor.planning.asked.options import curves_for, options_of
from advisor.planning.asked.requests import Request
from advisor.planning.asked.visits import Visits
from advisor.planning.queues.model import Judged, Model
from advisor.planning.queues.structure import structure_of
from advisor.planning.solving.objectives import latency_of
from advisor.planning.solving.placing import machine_of
from advisor.planning.solving.relaxing import Found, solve
from advisor.planning.solving.search import Problem

GENERAL_CELLS_MAX = 30_000  # components times counts up to which tables are searched with everything that is known
WORK_MAX = 100_000  # steps of a search by default: allocations judged, a few seconds at the most
GROWTH = 2  # of the cores tried where a target is to be reached on as many as it takes


@dataclass(frozen=True, slots=True)
class Solved:
    """A problem with its solution, as the answer and its reasons need it."""

    problem: Problem
    found: Found
    judged: Judged
    visits: Visits
    cores: Ints
    instances: Ints

    @property
    def used(self) -> int:
        """Cores taken."""
        return int((self.cores * self.instances).sum())


def is_plain(network: Network, curves: AmdahlCurves | TabulatedCurves, request: Request, visits: Visits) -> bool:
    """Return whether the closed forms answer: Amdahl curves, sums and maxima of them, and no further constraints."""
    beyond = (request.allowed, request.pinned, request.nodes, request.memory_bytes, request.arrival_per_s,
              request.quantile, request.work_max)  # fmt: skip
    if any(part is not None for part in beyond):
        return False
    if isinstance(curves, TabulatedCurves):
        # Where tables are small the general search is exact and fast; it also knows contention and instances.
        counts = min(request.cores or limits.ALLOCATE_CORES_MAX, int(curves.cores[-1]))
        if curves.contention.any() or request.instances_max != 1 or len(curves) * counts <= GENERAL_CELLS_MAX:
            return False
    if request.objective in ("pareto", "cost"):
        return False
    if visits.replicas and any(request.may_have_instances(network.keys[row]) for row in visits.replicas):
        return False
    return structure_of(network, visits).adds_up


def problem_for(
    network: Network, curves: AmdahlCurves | TabulatedCurves, request: Request, visits: Visits, cores: int
) -> Problem:
    """Return the search for the best allocation on `cores` cores.

    Raises
    ------
    InvalidValue, ImpossibleTarget
        When limits leave a component nothing.
    """
    structure = structure_of(network, visits)
    most = cores
    if isinstance(curves, TabulatedCurves):
        most = min(cores, max(int(curves.cores[-1]), _largest_minimum(request)))
    known = curves_for(network, curves, request, most)
    model = Model(structure, known, request)
    options = options_of(network, request, known, visits, cores, keep_instances=request.arrival_per_s is not None)
    machine = machine_of(cores, request.nodes, request.memory_bytes)
    return Problem(model, options, machine, cores, request.work_max or WORK_MAX)


def _largest_minimum(request: Request) -> int:
    given = list((request.minimum or {}).values())
    return max((int(value) for value in given if isinstance(value, (int, np.integer))), default=1)


def solved(network: Network, curves: AmdahlCurves | TabulatedCurves, request: Request, visits: Visits) -> Solved:
    """Return the best allocation with own cores for each component.

    Raises
    ------
    ImpossibleTarget
        When no allocation reaches the target or sustains the arrivals: the component that forbids it, the best possible.
    """
    cores = request.cores
    if cores is not None:
        problem = problem_for(network, curves, request, visits, cores)
        return solution(problem, solve(problem), visits)
    cores, ceiling = 4 * len(network.keys), limits.ALLOCATE_CORES_MAX
    _check_reachable(problem_for(network, curves, request, visits, ceiling))
    while True:
        problem = problem_for(network, curves, request, visits, min(cores, ceiling))
        found = solve(problem)
        full = cores >= ceiling or _exhausted(problem)
        if found is not None or full:
            return solution(problem, found, visits)
        cores *= GROWTH


def _check_reachable(problem: Problem) -> None:
    """Raise ImpossibleTarget when not even the fastest shape of every component reaches a latency."""
    request, model, options = problem.model.request, problem.model, problem.options
    target = (request.target or {}).get("latency_s")
    if target is None or request.arrival_per_s is not None or request.quantile is not None:
        return
    fastest = options.seconds_s.argmin(axis=1)
    judged = model.judge(options, fastest[None])
    least = float(judged.unloaded_s[0])
    if least > target * (1 + TIE):
        stay = model.visits * judged.alone_s[0]
        row = int(stay.argmax())
        key = model.structure.network.keys[row]
        raise ImpossibleTarget(
            f"target latency_s {target:.6g} is impossible: on the most cores allowed a record still takes {least:.6g} s,"
            f" {stay[row]:.6g} s of it {key}",
            field=key, value=target, bound=least, hint="raise maximum, or ask for less",
        )  # fmt: skip


def _exhausted(problem: Problem) -> bool:
    """Return whether every component could have its widest shape: more cores do not help."""
    options = problem.options
    widest = options.weight[np.arange(len(options.number)), options.number - 1]
    at_end = problem.model.curves.counts[-1] >= problem.model.curves.last.max()
    return int(widest.sum()) < problem.cores and bool(at_end or problem.cores > 2 * int(widest.sum()))


def solution(problem: Problem, found: Found | None, visits: Visits) -> Solved:
    """Return what was found with its figures, or raise ImpossibleTarget with the proof."""
    if found is None:
        raise _impossible(problem)
    judged = problem.model.judge(problem.options, found.chosen[None])
    cores, instances, _, _ = problem.options.pick(found.chosen[None])
    return Solved(problem, found, judged, visits, cores[0], instances[0])


def _impossible(problem: Problem) -> ImpossibleTarget:
    """Return the error of a target that nothing reaches, with what the best for it is and who forbids more."""
    request, model, options = problem.model.request, problem.model, problem.options
    keys = model.structure.network.keys
    name, value = next(iter(request.target.items())) if request.target else ("", 0.0)
    if name != "latency_s":
        best = _best(problem, _bare(problem, "throughput"))
        if best is None:
            return ImpossibleTarget(
                "no allocation can be placed on the machine: the nodes, the memory and the minima exclude each other",
                field=keys[int(options.cores[:, 0].argmax())], value=request.nodes, bound=problem.cores,
                hint="larger nodes, more memory, or smaller minima",
            )  # fmt: skip
        judged, shapes = best
        row, most = _slowest(judged), float(1 / judged.period_s[0])
        asked = value or request.arrival_per_s
        what = f"target {name} {value:.6g} is" if name else f"arrivals of {asked:.6g} records/s are"
        return ImpossibleTarget(
            f"{what} impossible: the best of all allocations reaches {most:.6g} records/s; {keys[row]} on"
            f" {int(options.cores[row, shapes[row]])} x {int(options.instances[row, shapes[row]])} cores forbids more",
            field=keys[row], value=asked, bound=most, hint="raise cores, maximum or instances_max, or ask for less",
        )  # fmt: skip
    best = _best(problem, _bare(problem, "latency"))
    if best is None:
        return _impossible_arrivals(problem)
    judged, shapes = best
    least = float(latency_of(request, judged)[0])
    stay = model.visits * (judged.seconds_s[0] + judged.wait_s[0])
    row = int(stay.argmax())
    return ImpossibleTarget(
        f"target latency_s {value:.6g} is impossible: the best of all allocations takes {least:.6g} s,"
        f" {stay[row]:.6g} s of it {keys[row]}",
        field=keys[row], value=value, bound=least, hint="raise cores or maximum, or ask for less",
    )  # fmt: skip


def _impossible_arrivals(problem: Problem) -> ImpossibleTarget:
    bare = _bare(problem, "latency")
    model = Model(problem.model.structure, problem.model.curves, bare)
    return _impossible(Problem(model, problem.options, problem.machine, problem.cores, problem.work_max))


def _bare(problem: Problem, objective: str) -> Request:
    """Return the request for another objective on the same machine."""
    return replace(problem.model.request, objective=objective, cores=problem.cores, target=None, weights=None)


def _best(problem: Problem, request: Request) -> tuple[Judged, Ints] | None:
    """Return the best allocation for another objective on the same shapes."""
    model = Model(problem.model.structure, problem.model.curves, request)
    other = Problem(model, problem.options, problem.machine, problem.cores, problem.work_max)
    found = solve(other)
    return None if found is None else (model.judge(problem.options, found.chosen[None]), found.chosen)


def _slowest(judged: Judged) -> int:
    """Return the row that bounds the throughput."""
    return int(judged.utilization[0].argmax())
