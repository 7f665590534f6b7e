"""The answer that takes turns: its figures and its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from advisor.domain.answers import Allocation, Evidence, Reason
from advisor.planning.closed_forms.reasons import amount, first, plural
from advisor.planning.closed_forms.turns import Grouping
from advisor.planning.in_turns.asking import Asked
from advisor.planning.in_turns.figures import Figures, figures_of
from advisor.planning.in_turns.solving import Solved


@dataclass(frozen=True, slots=True)
class Outcome:
    """A question, its grouping and what that does, as the reasons need it."""

    asked: Asked
    solved: Solved
    figures: Figures

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
    found, figures, keys = solved.found, figures_of(asked, solved.found), asked.network.keys
    outcome = Outcome(asked, solved, figures)
    members: list[list[str]] = [[] for _ in found.sizes]
    for key, number in zip(keys, found.group.tolist(), strict=True):
        members[number].append(key)
    return Allocation(
        cores=dict(zip(keys, found.cores.tolist(), strict=True)),
        instances=dict(zip(keys, found.instances.tolist(), strict=True)),
        spare=outcome.spare,
        throughput_per_s=1 / figures.period_s,
        latency_s=figures.latency_s,
        bottleneck=tuple(keys[row] for row in figures.slowest(found)),
        why=tuple(reason for explain in REASONS for reason in explain(outcome)),
        groups=tuple((size, tuple(some)) for size, some in zip(found.sizes.tolist(), members, strict=True)),
        objective=asked.request.objective,
        utilization=dict(zip(keys, figures.utilization.tolist(), strict=True)),
        active_cores=figures.active,
        gap=solved.gap,
        evidence={key: evidence[key] for key in keys if key in evidence},
    )


def _target(outcome: Outcome) -> Iterator[Reason]:
    for name, value in (outcome.asked.request.target or {}).items():
        by_rate = name == "throughput_per_s"
        reached = 1 / outcome.figures.period_s if by_rate else outcome.figures.latency_s
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
        text = "the grouping was found by balancing: a better one is not excluded"
        yield Reason("gap", None, None, text)
    elif gap > 0:
        text = f"the grouping was found by balancing: it is at most {amount(100 * gap)} % from the best, by a bound"
        yield Reason("gap", None, gap, text)


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


REASONS: tuple[Callable[[Outcome], Iterator[Reason]], ...] = (_target, _sharing, _bottleneck, _gap, _unvisited, _spare)
