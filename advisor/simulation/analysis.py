"""Deterministic task graph analysis: what executing a graph would take, computed and not run (Adve and Vernon, Fig. 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from advisor.domain import limits
from advisor.domain.rows import whole
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import not_one_of
from advisor.simulation import divisions
from advisor.simulation.executing import executed
from advisor.simulation.fixed import Heft
from advisor.simulation.loops import Trace, fixed, shared
from advisor.simulation.policies import (
    LINE,
    RANKS,
    STACK,
    CallerPolicy,
    Ordered,
    Policy,
    Ranked,
    Static,
    WorkStealing,
    bottom_level,
    largest,
    latest,
    task_time,
)
from advisor.simulation.program import Program
from advisor.simulation.systems import Lock, System
from advisor.simulation.tied import groups_of, lists_of, queue_of

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            Ordered("fifo", loop=LINE),
            Ordered("lifo", latest, loop=STACK),
            Ranked("lpt", task_time),
            Ordered("largest_first", largest),
            Ranked("bottom_level", bottom_level),
            Static("static_blocked", divisions.blocked),
            Static("static_cyclic", divisions.cyclic),
            Static("enumerated", divisions.enumerated),
            Ordered("own_queue", divide=divisions.queues),
            Ordered("semi_static", divide=divisions.queues, move=True),
            WorkStealing(),
            Heft(),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Execution:
    """What one analysis found.

    Attributes
    ----------
    program : Program
        The graph as it was executed.
    policy : str
        Name of the policy.
    cores : int
        Processors.
    ticks : int
        The makespan in the graph's ticks.
    trace : Trace, optional
        Who ran what and when, where it was asked for.
    """

    program: Program
    policy: str
    cores: int
    ticks: int
    trace: Trace | None = None

    @property
    def makespan(self) -> float:
        """The makespan in the graph's unit of time."""
        return self.ticks / self.program.graph.ticks_per_unit


def policy_of(policy: str | Policy | Callable[[Sequence[int], int], int | None]) -> Policy:
    """Return a policy by its name (in capitals or not, with - or _), as it is, or of a function ``choose(ready, processor)``.

    Raises
    ------
    InvalidValue
        For a name that no policy has.
    """
    if isinstance(policy, str):
        name = policy.strip().lower().replace("-", "_").replace(" ", "_")
        if name not in POLICIES:
            raise not_one_of("policy", policy, POLICIES)
        return POLICIES[name]
    return cast("Policy", policy) if hasattr(policy, "name") else CallerPolicy(cast("Any", policy))


def simulate(
    graph: TaskGraph | Program,
    cores: int = 1,
    policy: str | Policy | Callable[[Sequence[int], int], int | None] = "fifo",
    *,
    contention: System | None = None,
    lock: Lock | None = None,
    trace: bool = False,
) -> Execution:
    """Return what executing a task graph would take.

    Parameters
    ----------
    graph : TaskGraph or Program
        A `Program` keeps what several analyses of a graph have in common.
    cores : int
        Processors, one process on each.
    policy : str, Policy or function
        A name of `POLICIES`, a policy, or ``choose(ready, processor)`` that returns a ready task or None.
    contention : System, optional
        What tasks that run together cost each other (`advisor.simulation.systems`); None: nothing.
    lock : Lock, optional
        A lock that each task takes once, when it is dispatched.
    trace : bool
        Keep who ran what and when; the plain makespan needs no memory for it.

    Raises
    ------
    InvalidValue
        For a value outside its domain, a policy that leaves tasks undone, or a graph without the columns that a policy or a
        contention model needs.

    Notes
    -----
    Cost O(n log P + m) for shared first-in first-out lists, O(n + m) for static ones, O(n log n + m) for rankings; the general
    loop asks each idle processor at each event, O(n P + m), and with contention each running task's overhead as well.
    """
    cores = whole("cores", cores, 1, limits.SIMULATE_CORES_MAX)
    program = graph if isinstance(graph, Program) else Program(graph)
    chosen = policy_of(policy)
    if not (trace or contention or lock) and groups_of(program) is None:
        ticks = _makespan(program, cores, chosen)
        if ticks is not None:
            return Execution(program, chosen.name, cores, ticks)
    found = executed(program, cores, queue_of(chosen, program, cores), contention, lock)
    return Execution(program, chosen.name, cores, found.makespan, found if trace else None)


def _makespan(program: Program, cores: int, policy: Policy) -> int | None:
    """Return the makespan by a loop that keeps no timeline, or None where there is none for the policy."""
    match policy:
        case Ordered():
            return None if policy.loop is None else shared(program, cores, policy.loop)
        case Ranked():
            return shared(program, cores, RANKS, policy.order(program))
        case Static() | Heft():
            return fixed(program, cores, *lists_of(policy, program, cores))
        case _:
            return None
