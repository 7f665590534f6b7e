"""The answer that takes turns: its figures and its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from advisor.domain.answers import Allocation, Evidence, Reason
from advisor.planning.closed_forms.reasons import REASONS_MAX, amount, first, plural
from advisor.planning.closed_forms.turns import Grouping
from advisor.planning.in_turns.asking import Asked
from advisor.planning.in_turns.figures import Figures, figures_of
from advisor.planning.in_turns.fronts import front_of
from advisor.planning.in_turns.rooms import nodes_of
from advisor.planning.in_turns.solving import Solved, cost_of, latency_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """A question, its grouping and what that does, as the reasons need it."""

    asked: Asked
    solved: Solved
    figures: Figures
    evidence: Mapping[str, Evidence]

    @property
    def found(self) -> Grouping:
        """The grouping."""
        return self.solved.found

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the network."""
        return self.asked.network.keys

    @property
    def used(self) -> int:
        """Cores taken."""
        return int(self.found.sizes.sum())

    @property
    def spare(self) -> int:
        """Cores left free; 0 where no number was given."""
        given = self.asked.request.cores
        return 0 if given is None else given - self.used


def answer(asked: Asked, solved: Solved, evidence: Mapping[str, Evidence]) -> Allocation:
    """Return the allocation of a grouping. Cost O(nodes)."""
    found, figures, keys, request = solved.found, figures_of(asked, solved.found), asked.network.keys, asked.request
    queued = request.arrival_per_s is not None and np.isfinite(figures.latency_s)
    wants_quantile = request.quantile is not None and np.isfinite(figures.latency_s)
    told = {key: evidence[key] for key in keys if key in evidence}
    outcome = Outcome(asked, solved, figures, told)
    slowest: list[int] = figures.slowest(found).tolist()
    members: list[list[str]] = [[] for _ in found.sizes]
    for key, number in zip(keys, found.group.tolist(), strict=True):
        members[number].append(key)
    return Allocation(
        cores=dict(zip(keys, found.cores.tolist(), strict=True)),
        instances=dict(zip(keys, found.instances.tolist(), strict=True)),
        spare=outcome.spare,
        throughput_per_s=1 / figures.period_s,
        latency_s=figures.unloaded_s,
        bottleneck=tuple(keys[row] for row in slowest),
        why=tuple(reason for explain in REASONS for reason in explain(outcome)),
        groups=tuple((size, tuple(some)) for size, some in zip(found.sizes.tolist(), members, strict=True)),
        objective=request.objective,
        latency_queued_s=figures.latency_s if queued else None,
        latency_quantile_s=latency_of(asked, figures) if wants_quantile else None,
        utilization=dict(zip(keys, figures.utilization.tolist(), strict=True)),
        active_cores=figures.active,
        gap=solved.gap,
        steps=solved.steps,
        placement=_placement(outcome),
        front=front_of(asked, solved) if request.objective == "pareto" else (),
        cost_per_s=cost_of(asked, figures, outcome.used) if request.objective == "cost" else None,
        evidence=told,
    )


def _placement(outcome: Outcome) -> dict[str, tuple[int, ...]] | None:
    """Return the nodes of each component's instances: all on that of its group."""
    if outcome.asked.request.nodes is None:
        return None
    nodes = nodes_of(outcome.asked, outcome.found) or []
    return {
        key: (nodes[number],) * many
        for key, number, many in zip(
            outcome.keys, outcome.found.group.tolist(), outcome.found.instances.tolist(), strict=True
        )
    }


def _target(outcome: Outcome) -> Iterator[Reason]:
    for name, value in (outcome.asked.request.target or {}).items():
        by_rate = name == "throughput_per_s"
        reached = 1 / outcome.figures.period_s if by_rate else latency_of(outcome.asked, outcome.figures)
        unit = "records/s" if by_rate else "s"
        text = f"{outcome.used} cores reach {amount(reached)} {unit}; the target is {amount(value)} {unit}"
        yield Reason("target", None, reached, text)


def _sharing(outcome: Outcome) -> Iterator[Reason]:
    groups = len(outcome.found.sizes)
    text = (
        f"{len(outcome.keys)} components share {plural(outcome.used, 'core')} in {plural(groups, 'group')}:"
        " those of a group take turns on all of its cores"
    )
    yield Reason("sharing", None, float(groups), text)


def _bottleneck(outcome: Outcome) -> Iterator[Reason]:
    found, figures = outcome.found, outcome.figures
    row, rate = int(figures.slowest(found)[0]), 1 / figures.period_s
    number = int(found.group[row])
    members = int((found.group == number).sum())
    size = plural(int(found.sizes[number]), "core")
    text = (
        f"the group of {outcome.keys[row]} ({plural(members, 'component')}) bounds the throughput at"
        f" {amount(rate)} records/s: its turns take {amount(figures.period_s)} s a record on {size}"
    )
    yield Reason("bottleneck", outcome.keys[row], rate, text)


def _gap(outcome: Outcome) -> Iterator[Reason]:
    gap = outcome.solved.gap
    if gap is None:
        yield Reason("gap", None, None, "the best grouping that was found: a better one is not excluded")
    elif gap > 0:
        text = f"the best grouping that was found: it is at most {amount(100 * gap)} % from the best, by a bound"
        yield Reason("gap", None, gap, text)


def _caveats(outcome: Outcome) -> Iterator[Reason]:
    asked, figures, request = outcome.asked, outcome.figures, outcome.asked.request
    if asked.capped:
        yield Reason("memory", None, request.memory_bytes,
                     "fewer instances than allowed were considered: all of a group stay in memory")  # fmt: skip
    if asked.curves is not None and asked.curves.contention.any():
        text = (f"times are those with {amount(figures.active)} cores busy at a time: groups slow each other down,"
                " those of a group do not")  # fmt: skip
        yield Reason("contention", None, figures.active, text)
    if request.arrival_per_s is not None and not np.isfinite(figures.latency_s):
        text = f"{amount(request.arrival_per_s)} records/s are more than it sustains: queues would grow without end"
        yield Reason("overload", None, 1 / figures.period_s, text)
    elif request.arrival_per_s is not None:
        waited = float((asked.visits.per_record * figures.waits_s).sum())
        text = f"a record waits {amount(waited)} s for its turns in all, first come first served in each group"
        yield Reason("queueing", None, waited, text)
    if request.level is not None:
        yield Reason(
            "level", None, request.level, f"planned for the upper bound of each curve at level {request.level:g}"
        )
    if request.nodes is not None:
        text = (
            f"each group lies on one of {plural(len(asked.machine.sizes), 'node')} of {plural(request.nodes, 'core')}"
        )
        yield Reason("nodes", None, float(len(asked.machine.sizes)), text)
    for row, (key, known) in enumerate(outcome.evidence.items()):
        if known.extrapolates > 0 and row < REASONS_MAX:
            text = f"{key} is extrapolated by {known.extrapolates:.2g} in log2, from {known.observations} observations"
            yield Reason("extrapolates", key, known.extrapolates, text)


def _unvisited(outcome: Outcome) -> Iterator[Reason]:
    for row, more in first(np.flatnonzero(outcome.asked.visits.per_record == 0)):
        key = outcome.keys[row]
        yield Reason("unvisited", key, 0.0, f"no record visits {key}: it has its minimum{more}")


def _spare(outcome: Outcome) -> Iterator[Reason]:
    if outcome.spare <= 0:
        return
    if outcome.asked.request.target:
        because = "the target is reached without them"
    elif outcome.asked.by_stay:
        because = "no component can use them"
    else:
        because = "no grouping that was found gains from them"
    text = f"{outcome.spare} of {plural(outcome.asked.request.cores or 0, 'core')} stay free: {because}"
    yield Reason("spare", None, float(outcome.spare), text)


REASONS: tuple[Callable[[Outcome], Iterator[Reason]], ...] = (
    _target, _sharing, _bottleneck, _gap, _unvisited, _spare, _caveats,
)  # fmt: skip
