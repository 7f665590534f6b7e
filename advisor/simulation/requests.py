"""What an analysis may be asked, as plain values: the same for the wire, the command line and the caller in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import InvalidValue, TooLarge, UnknownKey, not_one_of
from advisor.simulation import metrics as m
from advisor.simulation.advice import advise
from advisor.simulation.analysis import Execution, policy_of, simulate
from advisor.simulation.bounds import Bounds, bounds
from advisor.simulation.policies import Policy, WorkStealing
from advisor.simulation.program import Program
from advisor.simulation.system_words import systems_of
from advisor.simulation.systems import alone
from advisor.simulation.tied import lists_of

DETAILED = ("critical_path", "ready_length", "processes_per_queue", "timeline")  # metrics with an entry a task
PLAIN = ("makespan", "speedup", "efficiency", "bounds")  # metrics that need no timeline


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """An analysis to make."""

    cores: Sequence[int] = (1,)  # processors, one analysis each
    policies: Sequence[Any] = ("fifo",)  # one analysis for each, on each number of cores
    # `{"model": name, …}` with the model's parameters, see `systems_of`; or a list of them, one of which may be a lock
    contention: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    measured_alone: bool = False  # take off what times hold of contention, as `advisor.simulation.systems.alone`
    speeds: Sequence[float] | None = None  # of the processors; `cores` is then their number
    metrics: Sequence[str] = PLAIN  # what to tell of each analysis: keys of `METRICS`
    seed: int = 0  # of `work_stealing`
    burden_ns: float = 0.0  # of `bounds`
    advise: bool = False  # say how many cores are enough, and what holds the program on them


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request made ready: the program with its times, and how to execute it."""

    program: Program
    request: AnalysisRequest
    policies: tuple[Policy, ...]
    options: Mapping[str, Any]
    single: dict[str, float] = field(default_factory=dict[str, float])

    def run(self, cores: int, policy: Policy, *, trace: bool = False) -> Execution:
        """Return one analysis."""
        return simulate(self.program, cores, policy, trace=trace, **self.options)

    def on_one(self, policy: Policy) -> float:
        """Return the makespan on one processor, which speedups are relative to."""
        if policy.name not in self.single:
            alone_options = {key: value for key, value in self.options.items() if key != "speeds"}
            basic = not any(alone_options.values())
            self.single[policy.name] = (
                self.program.work / self.program.graph.ticks_per_unit
                if basic
                else simulate(self.program, 1, policy, **alone_options).makespan
            )
        return self.single[policy.name]


def prepare(graph: TaskGraph, request: AnalysisRequest) -> Prepared:
    """Return a request made ready; raises InvalidValue, UnknownKey for what it cannot be."""
    unknown = sorted(set(request.metrics) - METRICS.keys())
    if unknown:
        raise not_one_of("metrics", unknown[0], METRICS)
    if not request.cores or not request.policies:
        raise InvalidValue("cores" if not request.cores else "policies", "none", "one or more")
    contention, lock = systems_of(request.contention)
    cores = request.cores
    if request.speeds is not None and any(count != len(request.speeds) for count in cores):
        raise InvalidValue("speeds", len(request.speeds), f"one a processor, {max(cores)}")
    found = graph
    if request.measured_alone:
        found = alone(graph, contention, lock)
    policies = tuple(_seeded(policy, request.seed) for policy in request.policies)
    options = {"contention": contention, "lock": lock, "speeds": request.speeds}
    return Prepared(Program(found), request, policies, options)


def _seeded(policy: Any, seed: int) -> Policy:
    """Return a policy; one that draws, and was named only, with the request's seed."""
    found = policy_of(policy)
    return WorkStealing(seed) if isinstance(policy, str) and isinstance(found, WorkStealing) else found


def request_of(given: Mapping[str, Any]) -> AnalysisRequest:
    """Return the request of a map of its fields; raises UnknownKey for others, InvalidValue for values of the wrong kind."""
    unknown = sorted(given.keys() - set(AnalysisRequest.__slots__))
    if unknown:
        raise UnknownKey(
            f"simulate has no {unknown[0]!r}",
            field="request",
            value=unknown[0],
            bound=", ".join(AnalysisRequest.__slots__),
        )
    fields = dict(given)
    for name in ("cores", "policies", "metrics"):
        if isinstance(fields.get(name), (str, int)) or callable(fields.get(name)):
            fields[name] = [fields[name]]
    return AnalysisRequest(**fields)


def checked_size(graph: TaskGraph, request: AnalysisRequest) -> None:
    """Refuse, as TooLarge, what would hold a service up: many analyses of a large graph, or their details."""
    runs = len(request.cores) * len(request.policies)
    checks = (
        ("tasks", len(graph), limits.SIMULATE_TASKS_MAX),
        ("analyses", runs, limits.SIMULATE_RUNS_MAX),
        ("tasks times analyses", len(graph) * runs, limits.SIMULATE_WORK_MAX),
    )
    for what, value, most in checks:
        if value > most:
            raise TooLarge(
                what, value, most, "ask for fewer cores or policies at a time, or analyse the graph in process"
            )
    details = len(graph) * runs
    if not set(request.metrics).isdisjoint(DETAILED) and details > limits.SIMULATE_DETAILS_MAX:
        reported = "ask for details of fewer analyses, or analyse the graph in process"
        raise TooLarge("tasks in detail", details, limits.SIMULATE_DETAILS_MAX, reported)


def answer(graph: TaskGraph, request: AnalysisRequest) -> dict[str, Any]:
    """Return what was asked as plain values, times in the graph's unit.

    Returns
    -------
    dict
        ``unit``, ``tasks``, ``edges``, ``work``, ``span``; ``results``, a list with a map for each analysis, policy by policy:
        ``policy``, ``cores`` and the metrics; and ``advice``, a list of ``{code, text, …}``, where it was asked for.
    """
    ready = prepare(graph, request)
    trace = any(name not in PLAIN for name in request.metrics)
    results: list[dict[str, Any]] = []
    for policy in ready.policies:
        for cores in request.cores:
            execution = ready.run(cores, policy, trace=trace)
            reported: dict[str, Any] = {"policy": execution.policy, "cores": cores, "makespan": execution.makespan}
            for name in request.metrics:
                reported[name] = METRICS[name](execution, ready, policy)
            results.append(reported)
    unit = graph.ticks_per_unit
    found: dict[str, Any] = {
        "unit": graph.unit,
        "tasks": len(graph),
        "edges": graph.edges,
        "work": ready.program.work / unit,
        "span": ready.program.span / unit,
        "results": results,
    }
    if request.advise:
        found["advice"] = advise(ready.program, results)
    return found


# What can be reported of one analysis.


def _idle(execution: Execution, ready: Prepared, policy: Policy) -> dict[str, Any]:
    unit = execution.program.graph.ticks_per_unit
    found = m.idle(execution)
    return {cause: float(ticks.sum()) / unit for cause, ticks in zip(found._fields, found, strict=True)}


def _critical(execution: Execution, ready: Prepared, policy: Policy) -> list[dict[str, Any]]:
    graph = execution.program.graph
    unit = graph.ticks_per_unit
    return [
        {"task": graph.name(step.task), "start": step.start / unit, "finish": step.finish / unit, "why": step.why}
        for step in m.critical_path(execution)
    ]


def _steps(found: m.Steps, unit: int) -> dict[str, Any]:
    return {
        "times": (found.times / unit).tolist(),
        "values": found.values.tolist(),
        "mean": found.mean,
        "most": found.most,
    }


def _timeline(execution: Execution, ready: Prepared, policy: Policy) -> list[dict[str, Any]]:
    graph, trace = execution.program.graph, m.traced(execution)
    unit = graph.ticks_per_unit
    order = np.lexsort((trace.finishes, trace.starts, trace.processors)).tolist()
    columns = [(values / scale).tolist() for values, scale in ((trace.starts, unit), (trace.finishes, unit))]
    who = trace.processors.tolist()
    return [
        {"task": graph.name(task), "processor": who[task], "start": columns[0][task], "finish": columns[1][task]}
        for task in order
    ]


def _bounds(execution: Execution, ready: Prepared, policy: Policy) -> dict[str, float]:
    # Kruskal and Weiss's batches: the whole share of a processor where tasks are divided beforehand, single tasks elsewhere.
    divided = hasattr(policy, "lists")
    found: Bounds = bounds(
        execution.program, execution.cores, burden_ns=ready.request.burden_ns, batch=None if divided else 1,
        speeds=ready.request.speeds,
        owner=lists_of(policy, execution.program, execution.cores)[1] if divided else None,
    )  # fmt: skip
    return {name: getattr(found, name) for name in Bounds.__slots__ if getattr(found, name) is not None}


def _ratio(over: float, under: float) -> float:
    return over / under if under else 1.0


METRICS: Mapping[str, Callable[[Execution, Prepared, Policy], Any]] = {
    "makespan": lambda execution, ready, policy: execution.makespan,
    "speedup": lambda execution, ready, policy: _ratio(ready.on_one(policy), execution.makespan),
    "efficiency": lambda execution, ready, policy: _ratio(ready.on_one(policy), execution.makespan) / execution.cores,
    "bounds": _bounds,
    "utilization": lambda execution, ready, policy: _ratio(
        float(m.busy(execution).sum()), float(execution.ticks * execution.cores)
    ),
    "busy": lambda execution, ready, policy: (m.busy(execution) / execution.program.graph.ticks_per_unit).tolist(),
    "idle": _idle,
    "critical_path": _critical,
    "ready_length": lambda execution, ready, policy: _steps(
        m.ready_length(execution), execution.program.graph.ticks_per_unit
    ),
    "processes_per_queue": lambda execution, ready, policy: _steps(
        m.processes_per_queue(execution, policy), execution.program.graph.ticks_per_unit
    ),
    "timeline": _timeline,
}
