"""Why an allocation is as it is: one table of codes for programs, each with its sentence for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from advisor.domain.allocations import Evidence, Reason
from advisor.planning.requests import Ints

REASONS_MAX = 3  # of one code: the rest are counted in the last one's words

# Code -> its sentence, without the full stop.
TEXTS: Mapping[str, str] = {
    "target": "{cores} reach {reached}; the target is {target}{sure}",
    "sharing": "{components} components share {cores} in {groups}: those of a group take turns on all of its cores",
    "bottleneck": "{key} bounds the throughput at {rate} records/s{where}{more}",
    "slowest_group": "the group of {key} ({members}) bounds the throughput at {rate} records/s: its turns take {seconds} s a"
                     " record on {cores}",
    "remaining": "{rate} records/s is all that gets through: the latency is that of a lone record{how}",
    "next_core": "{cores}, for {whom}, would {what} (+{gain} %)",
    "next_core_latency": "one more core, for {key}, would lower the latency by {seconds} s ({gain} %)",
    "maximum": "{key} is at its maximum of {cores}; more would help it{more}",
    "minimum": "{key} holds its minimum of {cores}; fewer would do{more}",
    "pinned": "{key} is pinned{more}",
    "curve_end": "{key} is on the most cores its curve knows, {cores}{more}",
    "skew": "the busiest instance of {key} serves {share} % of its records: a replica is not divided",
    "nodes": "instances are placed on {nodes} of {cores}; none straddles, and a group lies on one",
    "unvisited": "no record visits {key}: it has its minimum{more}",
    "spare": "{spare} of {cores} stay free: {because}",
    "knee": "{cores} cores reach {share} % of it",
    "runner_up": "of allocations with cores of one's own the next best that was looked at takes {cores}: {figure}{sure}",
    "turns": "turns do better: with cores of one's own for each component {what}",
    "own_cores": "each component has cores of its own; taking turns on the same number of cores could reach at most {rate}"
                 ' records/s: with turns "better" that is planned',
    "gap": "{text}",
    "work": "the search stopped after the {steps} steps it was allowed",
    "memory": "fewer instances than allowed were considered: all of a group stay in memory",
    "contention": "times are those with {active} cores busy at a time: components slow each other down, but for those that take"
                  " turns with each other",
    "overload": "{rate} records/s are more than it sustains: queues would grow without end",
    "queueing": "a record waits {seconds} s in all, for free instances or for its turns",
    "level": "{text}",
    "network_takes": "{key} takes {cores}",
    "network_alone": "each network is planned as if it were alone: that they slow each other down is not in these figures",
    "networks_cost": "together they {what} {figure} per second, by the weights given",
    "networks_bound": "{key} bounds what the networks{of_all} reach together, in records/s: {rates}",
    "extrapolates": "{key} is asked beyond what was seen by a factor of {far}, learned from {runs} observations",
}  # fmt: skip
# Sentences that share a code with another.
CODES = {
    "slowest_group": "bottleneck", "next_core_latency": "next_core", "network_takes": "target",
    "network_alone": "contention", "networks_bound": "bottleneck",
    "networks_cost": "cost",
}  # fmt: skip


def reason(name: str, component: str | None = None, value: float | None = None, **words: Any) -> Reason:
    """Return a reason of the table: `name` is its code, or that of a sentence of its own; `words` fill the sentence."""
    return Reason(CODES.get(name, name), component, value, TEXTS[name].format(key=component, **words))


def beyond(evidence: Mapping[str, Evidence]) -> Iterator[Reason]:
    """Give the components whose curves lie beyond what was seen."""
    for key, known in evidence.items():
        if known.extrapolates > 0:
            yield reason("extrapolates", key, known.extrapolates, far=f"{2.0**known.extrapolates:.2g}",
                         runs=known.observations)  # fmt: skip


def first(rows: Ints) -> Iterator[tuple[int, str]]:
    """Give the first rows, the last of them with how many follow, in words."""
    shown = rows[:REASONS_MAX].tolist()
    for order, row in enumerate(shown):
        left = len(rows) - REASONS_MAX
        yield row, f" (and {left} more alike)" if left > 0 and order == REASONS_MAX - 1 else ""


def amount(value: float) -> str:
    """Return a figure as people read it: four digits, and no exponent where it can be helped."""
    return f"{value:,.0f}" if 1e4 <= value < 1e15 else f"{value:.4g}"


def plural(n: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
