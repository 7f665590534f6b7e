"""What analyses may be asked, as plain values: the same for the wire, the command line and the caller in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.domain import limits
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import InvalidValue, TooLarge, not_one_of
from advisor.simulation import metrics as m
from advisor.simulation.advice import advised
from advisor.simulation.analysis import Execution, policy_of, simulate
from advisor.simulation.bounds import bounds
from advisor.simulation.policies import Policy, WorkStealing
from advisor.simulation.program import Program
from advisor.simulation.system_words import systems_of
from advisor.simulation.systems import alone

PLAIN = ("makespan", "speedup", "efficiency", "bounds")  # metrics that need no timeline


class Analyses:
    """Analyses of a task graph: each policy on each number of cores.

    Parameters
    ----------
    cores, policies
        One, or several.
    contention : mapping, or sequence of mappings
        ``{"model": name, …}`` with the model's parameters, see `systems_of`; or a list of them, one of which may be a lock.
    measured_alone : bool
        Take off what times hold of contention, as `advisor.simulation.systems.alone`.
    metrics
        What to tell of each analysis: keys of `METRICS`.
    seed : int
        Of `work_stealing`.
    advise : bool
        Say how many cores are enough, and what holds the program on them.

    Raises
    ------
    InvalidValue, UnknownKey
        For what cannot be.
    """

    def __init__(
        self,
        graph: TaskGraph,
        *,
        cores: int | Sequence[int] = 1,
        policies: Any = "fifo",
        contention: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        measured_alone: bool = False,
        metrics: str | Sequence[str] = PLAIN,
        seed: int = 0,
        advise: bool = False,
    ) -> None:
        self.cores, self.metrics, self.advise = _listed(cores), _listed(metrics), advise
        unknown = sorted(set(self.metrics) - METRICS.keys())
        if unknown:
            raise not_one_of("metrics", unknown[0], METRICS)
        self.policies = [_seeded(policy, seed) for policy in _listed(policies)]
        if not self.cores or not self.policies:
            raise InvalidValue("cores" if not self.cores else "policies", "none", "one or more")
        self.contention, self.lock = systems_of(contention)
        self.program = Program(alone(graph, self.contention, self.lock) if measured_alone else graph)
        self._on_one: dict[str, float] = {}

    def run(self, cores: int, policy: Policy, *, trace: bool = False) -> Execution:
        """Return one analysis."""
        return simulate(self.program, cores, policy, contention=self.contention, lock=self.lock, trace=trace)

    def speedup(self, execution: Execution, policy: Policy) -> float:
        """Return the makespan on one processor over that of an execution."""
        if policy.name not in self._on_one:
            slowed = self.contention is not None or self.lock is not None
            single = simulate(self.program, 1, policy, contention=self.contention, lock=self.lock) if slowed else None
            ticks = self.program.work if single is None else single.ticks
            self._on_one[policy.name] = ticks / self.program.graph.ticks_per_unit
        return _ratio(self._on_one[policy.name], execution.makespan)

    def check_size(self) -> None:
        """Refuse, as TooLarge, what would hold a service up: many analyses of a large graph, or their details."""
        tasks, runs = self.program.count, len(self.cores) * len(self.policies)
        fewer, inside = "ask for fewer cores or policies at a time", ", or analyse the graph in process"
        for what, value, most, hint in (
            ("tasks", tasks, limits.SIMULATE_TASKS_MAX, fewer),
            ("analyses", runs, limits.SIMULATE_RUNS_MAX, fewer),
            ("tasks times analyses", tasks * runs, limits.SIMULATE_WORK_MAX, fewer),
            ("tasks in detail", tasks * runs * ("critical_path" in self.metrics), limits.SIMULATE_DETAILS_MAX,
             "ask for details of fewer analyses"),
        ):  # fmt: skip
            if value > most:
                raise TooLarge(what, value, most, hint + inside)

    def answer(self) -> dict[str, Any]:
        """Return what was asked as plain values, times in the graph's unit.

        Returns
        -------
        dict
            ``unit``, ``tasks``, ``edges``, ``work``, ``span``; ``results``, a list with a map for each analysis, policy by
            policy: ``policy``, ``cores`` and the metrics; and ``advice``, a list of ``{code, text, …}``, where it was
            asked for.
        """
        trace = any(name not in PLAIN for name in self.metrics)
        results: list[dict[str, Any]] = []
        for policy in self.policies:
            for cores in self.cores:
                execution = self.run(cores, policy, trace=trace)
                reported = {"policy": execution.policy, "cores": cores, "makespan": execution.makespan}
                results.append(reported | {name: METRICS[name](execution, self, policy) for name in self.metrics})
        graph = self.program.graph
        found: dict[str, Any] = {
            "unit": graph.unit, "tasks": len(graph), "edges": graph.edges, "work": self.program.work / graph.ticks_per_unit,
            "span": self.program.span / graph.ticks_per_unit, "results": results,
        }  # fmt: skip
        return found | {"advice": advised(self.program, results)} if self.advise else found


def answer(graph: TaskGraph, **request: Any) -> dict[str, Any]:
    """Return what was asked of a task graph as plain values; see `Analyses` for the request, and its `answer`."""
    return Analyses(graph, **request).answer()


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, (str, int)) or callable(given) else list(given)


def _seeded(policy: Any, seed: int) -> Policy:
    """Return a policy; one that draws, and was named only, with the request's seed."""
    found = policy_of(policy)
    return WorkStealing(seed) if isinstance(policy, str) and isinstance(found, WorkStealing) else found


# What can be reported of one analysis.


def _idle(execution: Execution, asked: Analyses, policy: Policy) -> dict[str, Any]:
    unit = execution.program.graph.ticks_per_unit
    found = m.idle(execution)
    return {cause: float(ticks.sum()) / unit for cause, ticks in zip(found._fields, found, strict=True)}


def _critical(execution: Execution, asked: Analyses, policy: Policy) -> list[dict[str, Any]]:
    graph = execution.program.graph
    unit = graph.ticks_per_unit
    return [
        {"task": graph.name(step.task), "start": step.start / unit, "finish": step.finish / unit, "why": step.why}
        for step in m.critical_path(execution)
    ]


def _bounds(execution: Execution, asked: Analyses, policy: Policy) -> dict[str, float]:
    # Kruskal and Weiss's batches: the whole share of a processor where tasks are divided beforehand, single tasks elsewhere.
    batch = None if hasattr(policy, "lists") else 1
    return bounds(execution.program, execution.cores, batch=batch)


def _ratio(over: float, under: float) -> float:
    return over / under if under else 1.0


METRICS: Mapping[str, Callable[[Execution, Analyses, Policy], Any]] = {
    "makespan": lambda execution, asked, policy: execution.makespan,
    "speedup": lambda execution, asked, policy: asked.speedup(execution, policy),
    "efficiency": lambda execution, asked, policy: asked.speedup(execution, policy) / execution.cores,
    "bounds": _bounds,
    "utilization": lambda execution, asked, policy: _ratio(
        float(m.busy(execution).sum()), float(execution.ticks * execution.cores)
    ),
    "idle": _idle,
    "critical_path": _critical,
}
