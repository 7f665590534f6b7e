"""An allocation in sentences that a person reads."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.domain.allocations import Allocation, Marginal
from advisor.planning.reasons import amount, far_words, plural
from advisor.planning.requests import OBJECTIVES

SHOWN = 8  # components, rows and points that are reported one by one


def sentences(allocation: Allocation) -> list[str]:
    """Return what an allocation says and why, one sentence a line: the answer, its figures, its reasons. Cost O(n)."""
    found = [_headline(allocation), _figures(allocation)]
    if allocation.groups:
        groups = [f"{plural(cores, 'core')} for {', '.join(keys[:SHOWN])}{_more(len(keys))}"
                  for cores, keys in allocation.groups[:SHOWN]]  # fmt: skip
        found.insert(0, f"Components take turns: {'; '.join(groups)}{_more(len(allocation.groups))}.")
    found += [reason.text + "." for reason in allocation.why]  # as they are: many begin with a name
    rows = [row for row in allocation.marginal if _matters(allocation, row)]
    found += [_marginal(allocation, row) for row in rows[:SHOWN]]
    for other in allocation.runner_up:
        sure = "" if other.probability is None else f", better with probability {1 - other.probability:.2f}"
        found.append(
            f"Instead, on {plural(other.used, 'core')}: {_shapes(other.cores, other.instances)} would reach"
            f" {amount(other.throughput_per_s)} records/s and take {amount(other.latency_s)} s{sure}."
        )
    for point in allocation.front[:SHOWN]:
        turns = " in turns" if point.groups else ""
        found.append(
            f"{plural(point.used, 'core')}{turns}: {amount(point.throughput_per_s)} records/s, {amount(point.latency_s)} s."
        )
    for key, known in list(allocation.evidence.items())[:SHOWN]:
        far = f", {far_words(known)}" if known.extrapolates > 0 else ""
        found.append(f"{key} rests on {plural(known.observations, 'observation')}, model {known.model}{far}.")
    return found


def _headline(allocation: Allocation) -> str:
    known = OBJECTIVES.get(allocation.objective)
    goal = allocation.objective if known is None else known.goal
    own = {key: cores for key, cores in allocation.cores.items() if key not in allocation.in_turn}
    return f"For {goal}, {plural(allocation.cores_used, 'core')}{_given(own, allocation.instances)}."


def _given(cores: Mapping[str, int], many: Mapping[str, int]) -> str:
    return f": {_shapes(cores, many)}" if cores else ""


def _shapes(cores: Mapping[str, int], many: Mapping[str, int]) -> str:
    reported = [
        f"{key} {p}" if many[key] == 1 else f"{key} {many[key]} x {p}" for key, p in list(cores.items())[:SHOWN]
    ]
    return ", ".join(reported) + _more(len(cores))


def _more(count: int) -> str:
    return f" and {count - SHOWN} more" if count > SHOWN else ""


def _figures(allocation: Allocation) -> str:
    text = f"It reaches {amount(allocation.throughput_per_s)} records/s; a record alone takes {amount(allocation.latency_s)} s"
    if allocation.latency_queued_s is not None:
        text += f", with queueing {amount(allocation.latency_queued_s)} s on average"
    if allocation.latency_quantile_s is not None:
        text += f", {amount(allocation.latency_quantile_s)} s at the quantile asked for"
    if allocation.cost_per_s is not None:
        text += f", at a cost of {amount(allocation.cost_per_s)} per second"
    return text + "."


def _matters(allocation: Allocation, row: Marginal) -> bool:
    """Return whether a core more or less would change a figure by a thousandth."""
    rates = [rate for rate in (row.next_throughput_per_s, row.last_throughput_per_s) if rate is not None]
    return any(abs(rate - allocation.throughput_per_s) > 1e-3 * allocation.throughput_per_s for rate in rates)


def _marginal(allocation: Allocation, row: Marginal) -> str:
    parts: list[str] = []
    for words, rate, seconds in (
        ("one core more would give", row.next_throughput_per_s, row.next_latency_s),
        ("without its last one it is", row.last_throughput_per_s, row.last_latency_s),
    ):
        if rate is not None:
            late = "" if seconds is None else f" and {amount(seconds)} s"
            parts.append(f"{words} {amount(rate)} records/s{late}")
    return f"{row.key} has {plural(row.cores, 'core')}: {'; '.join(parts)}."
