"""What is wrong with a run of tasks, as structure and sentences (paper 5, sections III and VI)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from advisor.domain.wording import seconds
from advisor.profile import layout as at
from advisor.profile.tree import Profile

TOO_SMALL: Final = 0.1  # creating a task takes more than this share of what the task does itself
# "2000 tasks should be enough to fill and balance up to 8 threads" (paper 5, section VI).
TASKS_A_WORKER: Final = 250
WAITING: Final = 0.2  # of p * time, below which idle workers are not worth a sentence
LOSS: Final = 0.05  # of p * time, below which a loss is not worth one
PLENTY: Final = 2.0  # times the workers: with so much parallelism it is not for want of it that they wait


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs time."""

    code: str  # tasks_too_small or idle_workers
    subject: str  # task type or worker that it is about
    loss_s: float  # worker seconds that it costs
    gain: float  # elapsed time over that after the remedy, at most; 1 where none is worked out
    advice: str
    text: str
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])  # the numbers behind it

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Level:
    """Tasks of one type with one value of their parameter."""

    value: int
    count: int
    mean_s: float  # inclusive time of one


def levels_of(profile: Profile, root: int) -> tuple[str, list[Level]]:
    """Return the parameter that splits most of a construct's tasks, empty without, and its levels by value."""
    split = [node for node in profile.children[root] if profile.role[node] == at.PARAMETER and profile.count[node]]
    counts: dict[str, int] = {}
    for node in split:
        counts[profile.names[node]] = counts.get(profile.names[node], 0) + int(profile.count[node])
    parameter = max(counts, key=counts.__getitem__, default="")
    found = [
        Level(
            int(profile.value[node]), int(profile.count[node]), profile.inclusive_ns[node] / profile.count[node] * 1e-9
        )
        for node in split
        if profile.names[node] == parameter
    ]
    return parameter, sorted(found, key=lambda level: level.value)


def _seconds(profile: Profile, chosen: Any) -> float:
    return int(profile.exclusive_ns[chosen].sum()) * 1e-9


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """Return what costs time in a run, the dearest first. Cost O(nodes · levels)."""
    found = [*(_too_small(profile, root) for root in profile.roots(at.TASK)), _idle_workers(profile)]
    return tuple(sorted((each for each in found if each is not None), key=lambda finding: -finding.loss_s))


def cut_off(levels: Sequence[Level], workers: int) -> int | None:
    """Return the value of the parameter at which to make no more tasks, None where that is of no use.

    Levels are taken from those with the largest tasks on; tasks are made until there are `TASKS_A_WORKER` for each worker
    (paper 5, section VI), and the next level is where it stops.
    """
    ordered = _from_large_to_small(levels)
    made = 0
    for level in ordered:
        if made >= TASKS_A_WORKER * max(workers, 1):
            return level.value
        made += level.count
    return None


def _from_large_to_small(levels: Sequence[Level]) -> list[Level]:
    """Return levels in the order of their parameter in which tasks become smaller."""
    ordered = sorted(levels, key=lambda level: level.value)
    means = np.array([level.mean_s for level in ordered])
    falls = len(ordered) < 2 or means[: len(means) // 2].mean() >= means[(len(means) + 1) // 2 :].mean()
    return ordered if falls else ordered[::-1]


def _too_small(profile: Profile, root: int) -> Finding | None:
    """Creation against what the tasks do themselves."""
    measures, tree = profile.measures, profile.root == root
    name, count = profile.names[root], int(profile.count[root])
    waiting_s = _seconds(profile, tree & (profile.role >= at.TASKWAIT) & (profile.role < at.STUB))
    created = profile.role == at.CREATION
    if profile.count[tree & created].any():  # else the tasks are made in another tree
        created &= tree
    creation_s, made = _seconds(profile, created), int(profile.count[created].sum())
    own_s = _seconds(profile, tree & (profile.role < at.CREATION)) / count if count else 0.0
    if not made or not own_s or creation_s / made < TOO_SMALL * own_s:
        return None
    each_s = creation_s / made
    evidence: dict[str, Any] = {"creation_each_s": each_s, "exclusive_each_s": own_s, "tasks": count}
    parameter, levels = levels_of(profile, root)
    at_value = cut_off(levels, measures.workers_max)
    if at_value is None:
        advice = f"make each at least {TOO_SMALL**-1 * each_s / own_s:.2g} times larger"
        removed = 1.0 - TOO_SMALL * own_s / each_s
    else:
        ordered = _from_large_to_small(levels)
        kept = sum(level.count for level in ordered[: [level.value for level in ordered].index(at_value)])
        removed = 1.0 - kept / sum(level.count for level in ordered)
        advice = f"stop at {parameter} {at_value}"
        evidence |= {
            "parameter": parameter, "cut_off": at_value, "tasks_kept": kept, "levels": [asdict(level) for level in ordered],
        }  # fmt: skip
    # Each creation saved saves its part of the waiting too: who waits, waits for tasks to be made and handed out.
    loss_s = removed * (creation_s + min(measures.waiting_s, measures.delay_s + waiting_s))
    if not LOSS * measures.workers_s <= loss_s < measures.workers_s:
        return None
    gain = measures.workers_s / (measures.workers_s - loss_s)
    text = (
        f"tasks of {name} are too small: each works {seconds(own_s)} itself and takes {seconds(each_s)} to create "
        f"({count:,} tasks); {advice}: that saves up to {seconds(loss_s)} of the workers' {seconds(measures.workers_s)}, "
        f"at most {gain:.2g} times faster"
    )
    return Finding("tasks_too_small", name, loss_s, gain, advice, text, evidence)


def _idle_workers(profile: Profile) -> Finding | None:
    """Workers wait: for tasks that are there, or because there are none."""
    measures = profile.measures
    if measures.workers_max < 2 or measures.waiting_s < WAITING * measures.workers_s:
        return None
    enough = max(measures.parallelism, 1.0)
    ready = measures.delay_s > measures.no_work_s
    why = "though tasks were ready" if ready else "with no task ready"
    if ready:
        advice = "hand tasks out faster: fewer, larger ones"
    elif measures.summed:  # no path through them is known
        advice = "make tasks earlier, and fewer, larger ones"
    elif enough >= PLENTY * measures.workers_max:
        advice = f"there is work for {_cores(enough)}: make tasks earlier, and fewer, larger ones"
    else:
        advice = f"the tasks keep {_cores(enough)} busy at most: give no more, or shorten the longest path"
    text = (
        f"workers wait {measures.waiting_s / measures.workers_s:.0%} of their time, "
        f"{seconds(max(measures.delay_s, measures.no_work_s))} of {seconds(measures.waiting_s)} {why}; {advice}"
    )
    evidence = {"delay_s": measures.delay_s, "no_work_s": measures.no_work_s, "parallelism": enough}
    return Finding("idle_workers", "workers", measures.waiting_s, 1.0, advice, text, evidence)


def _cores(parallelism: float) -> str:
    reported = f"{parallelism:.3g}"
    return f"{reported} core" if reported == "1" else f"{reported} cores"
