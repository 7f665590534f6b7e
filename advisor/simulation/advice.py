"""What would help a program, in words: the fewest cores that do, the policy that gains, the tasks whose speed-up would
shorten it.

Every sentence rests on an analysis that was made, not on a rule of thumb: a task's gain is the makespan with it halved,
found by executing the graph again (a shorter task can make a list schedule longer, which is then said).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.domain.task_graphs import TaskGraph
from advisor.simulation.analysis import POLICIES, simulate
from advisor.simulation.metrics import critical_path
from advisor.simulation.policies import Policy
from advisor.simulation.program import Program
from advisor.simulation.words import reported_time

NEAR_BEST = 0.05  # of the best makespan: fewer cores within it are enough
GAIN_MIN = 0.01  # a policy or a task that gains less is not worth a change
CANDIDATES = 5  # kinds of tasks on the critical path that are tried halved, those with most time on it
TRIED = ("fifo", "lpt", "bottom_level")  # policies for any graph, beside those asked for


def advise(
    program: Program, results: Sequence[Mapping[str, Any]], policies: Sequence[Policy], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return sentences as ``{code, text, …}`` on analyses that were made with these policies and `options` of `simulate`."""
    first = policies[0].name
    own = [result for result in results if result["policy"] == first]
    best = min(result["makespan"] for result in own)
    enough = min((result for result in own if result["makespan"] <= best * (1 + NEAR_BEST)), key=lambda r: r["cores"])
    cores = int(enough["cores"])
    advice = [_cores(program.graph, own, enough, best, first)]
    chosen, gain = _policy(program, cores, results, policies, options)
    advice.append(gain)
    advice.append(_limit(program, cores, chosen, options))
    advice += _tasks(program, cores, chosen, options)
    return advice


def _time(graph: TaskGraph, value: float) -> str:
    return reported_time(value, graph.unit)


def _cores(
    graph: TaskGraph, own: Sequence[Mapping[str, Any]], enough: Mapping[str, Any], best: float, policy: str
) -> dict[str, Any]:
    cores, makespan = int(enough["cores"]), float(enough["makespan"])
    at = min(int(result["cores"]) for result in own if result["makespan"] == best)
    most = max(int(result["cores"]) for result in own)
    word = "core is" if cores == 1 else "cores are"
    text = f"{cores} {word} enough: {_time(graph, makespan)} with {policy}"
    if at != cores:
        text += f", within {NEAR_BEST:.0%} of the best, {_time(graph, best)} on {at}."
    elif cores < most:
        text += ", the best of the numbers of cores that were looked at."
    else:
        text = f"Fewer than {cores} cores do not come within {NEAR_BEST:.0%} of what {cores} give, "
        text += f"{_time(graph, makespan)} with {policy}; more were not looked at."
    if len(own) == 1:
        text = f"Only {cores} {'core was' if cores == 1 else 'cores were'} looked at: {_time(graph, makespan)} with {policy}."
    return {"code": "cores", "text": text, "cores": cores, "makespan": makespan, "best": best, "policy": policy}


def _policy(
    program: Program,
    cores: int,
    results: Sequence[Mapping[str, Any]],
    policies: Sequence[Policy],
    options: Mapping[str, Any],
) -> tuple[Policy, dict[str, Any]]:
    known = {result["policy"]: float(result["makespan"]) for result in results if result["cores"] == cores}
    by_name = {policy.name: policy for policy in policies}
    for name in TRIED:
        if name not in known:
            by_name[name] = POLICIES[name]
            known[name] = simulate(program, cores, name, **options).makespan
    first = policies[0].name
    best = min(known, key=lambda name: (known[name], name != first))
    gain = 1.0 - known[best] / known[first] if known[first] else 0.0
    if gain < GAIN_MIN:
        text = (
            f"No policy gains more than {GAIN_MIN:.0%} over {first} on {cores}: {', '.join(sorted(known))} were tried."
        )
        return by_name[first], {"code": "policy", "text": text, "policy": first, "gain": 0.0}
    text = f"{best} gains {gain:.1%} over {first} on {cores}: {_time(program.graph, known[best])} in place of "
    text += f"{_time(program.graph, known[first])}."
    return by_name[best], {"code": "policy", "text": text, "policy": best, "gain": gain, "makespan": known[best]}


def _limit(program: Program, cores: int, policy: Policy, options: Mapping[str, Any]) -> dict[str, Any]:
    """Say what holds the program: its longest path, its work, or how the work is spread."""
    makespan = simulate(program, cores, policy, **options).ticks
    span, per_core = program.span, program.work / cores
    if makespan == 0:
        return {"code": "limit", "text": "The program takes no time.", "limit": "none"}
    if span >= (1 - NEAR_BEST) * makespan:
        text = f"The longest path takes {span / makespan:.0%} of the time: more cores cannot help, shorter tasks on it can."
        return {"code": "limit", "text": text, "limit": "span", "share": span / makespan}
    if per_core >= (1 - NEAR_BEST) * makespan:
        text = f"All {cores} cores work {per_core / makespan:.0%} of the time: more of them, or less work, would help."
        return {"code": "limit", "text": text, "limit": "work", "share": per_core / makespan}
    lost = 1.0 - per_core / makespan
    text = f"The longest path explains {span / makespan:.0%} of the time and the work {per_core / makespan:.0%}: "
    text += f"{lost:.0%} of the cores' time is lost to waiting and to what tasks cost each other."
    return {"code": "limit", "text": text, "limit": "schedule", "share": lost}


def _tasks(program: Program, cores: int, policy: Policy, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Try the kinds of tasks on the critical path halved, those that hold most of it."""
    execution = simulate(program, cores, policy, trace=True, **options)
    graph = program.graph
    kinds = np.arange(len(graph))  # a task of no type is a kind of its own, numbered behind the types
    if graph.types:
        of_type = graph.columns["type"]
        untyped = np.asarray(graph.types)[of_type] == ""
        kinds = np.where(untyped, len(graph.types) + kinds, of_type)
    times: dict[int, int] = {}
    for step in critical_path(execution):
        kind = int(kinds[step.task])
        times[kind] = times.get(kind, 0) + step.finish - step.start
    tried: list[dict[str, Any]] = []
    for kind in sorted(times, key=lambda kind: (-times[kind], kind))[:CANDIDATES]:
        if not times[kind]:
            continue
        halved = np.where(kinds == kind, graph.ticks // 2, graph.ticks)
        faster = simulate(Program(replace(graph, ticks=halved)), cores, policy, **options)
        gain = 1.0 - faster.ticks / execution.ticks
        if gain < GAIN_MIN:
            continue
        mine = np.flatnonzero(kinds == kind)
        typed = kind < len(graph.types)
        name = graph.types[kind] if typed else graph.name(int(mine[0]))
        what = f"the {len(mine)} tasks of type {name!r}" if len(mine) > 1 else f"task {name!r}"
        text = f"Twice as fast, {what} would shorten the program by {gain:.1%}, to {_time(graph, faster.makespan)}."
        tried.append({"code": "tasks", "text": text, "tasks": name, "gain": gain, "makespan": faster.makespan})
    tried.sort(key=lambda entry: -entry["gain"])
    if not tried:
        text = (
            "No kind of task shortens the program by 1 % when it becomes twice as fast: the time is spread over many."
        )
        return [{"code": "tasks", "text": text, "tasks": None, "gain": 0.0}]
    return tried
