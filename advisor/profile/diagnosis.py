"""What is wrong with a run of tasks, as structure and sentences (paper 5, sections III and VI)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from advisor.domain.wording import seconds
from advisor.profile import layout as at
from advisor.profile.measures import Measures
from advisor.profile.tree import Profile

TOO_SMALL: Final = 0.1  # creating a task takes more than this share of what the task does itself
# "2000 tasks should be enough to fill and balance up to 8 threads" (paper 5, section VI).
TASKS_A_WORKER: Final = 250
WAITING: Final = 0.2  # of p * time, below which idle workers are not worth a sentence
LOSS: Final = 0.05  # of p * time, below which a loss is not worth one
TOO_LARGE: Final = 0.25  # one instance against the work that each worker has
PLENTY: Final = 2.0  # times the workers: with so much parallelism it is not for want of it that they wait
ONE_CREATOR: Final = 0.9  # of all creation in the implicit task of one thread
BUSY: Final = 0.9  # processor time over what workers seemed to run, below which others had the processors in between
TRUSTED: Final = 3.0  # a gain that so much depends on whether creations are slow, or were at times, promises nothing


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs time."""

    code: str  # tasks_too_small, tasks_too_large, creation_bottleneck or idle_workers
    subject: str  # task type or worker that it is about
    loss_s: float  # worker seconds that it costs
    # gain, gain_least: elapsed time over that after the remedy, at most and at least; 1 where none is worked out, or it
    # is not known
    gain: float
    advice: str
    text: str
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])  # the numbers behind it
    gain_least: float = 1.0

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
    found: list[Finding | None] = []
    for root in profile.roots(at.TASK):
        found += [_too_small(profile, root), _too_large(profile, root)]
    found += [_creation_bottleneck(profile), _idle_workers(profile)]
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
    least, most, promised = _gain(measures, removed * _least_creation_s(profile, created), removed * creation_s, loss_s)
    text = (
        f"tasks of {name} are too small: each works {seconds(own_s)} itself and takes {seconds(each_s)} to create "
        f"({count:,} tasks); {advice}: that saves up to {seconds(loss_s)} of the workers' {seconds(measures.workers_s)}; "
        f"{promised}"
    )
    return Finding("tasks_too_small", name, loss_s, most, advice, text, evidence, least)


def _gain(measures: Measures, surely_s: float, creation_s: float, loss_s: float) -> tuple[float, float, str]:
    """Return by how much a run is faster without these worker seconds, at least and at most, and in words.

    At least, it saves what creations take at their fastest, at most what they took and the waiting for them. Times of a machine
    that runs others meanwhile hold their turns, too: nothing is promised of it then.
    """
    ran_s = measures.work_s + measures.overhead_s
    least, created, most = (
        measures.workers_s / (measures.workers_s - saved) for saved in (surely_s, creation_s, loss_s)
    )
    if 0.0 < measures.cpu_s < BUSY * ran_s:
        had = f"of {seconds(ran_s)} that workers seemed to run, the processors ran others for {seconds(ran_s - measures.cpu_s)}"
        return 1.0, 1.0, f"by how much that is faster is not said: {had}"
    if created > TRUSTED * least:
        return 1.0, 1.0, "by how much that is faster is not said: creations took unlike times, as on a busy machine"
    reported = f"{least:.2g} to {most:.2g}" if f"{least:.2g}" != f"{most:.2g}" else f"{most:.2g}"
    return least, most, f"{reported} times faster"


def _least_creation_s(profile: Profile, created: Any) -> float:
    """Return what creations take if each is as fast as the fastest of its node; profiles of others may tell no least."""
    least_ns, own_ns = profile.least_ns[created], profile.exclusive_ns[created]
    surely_ns = np.where(least_ns > 0, np.minimum(profile.count[created] * least_ns, own_ns), own_ns)
    return float(surely_ns.sum()) * 1e-9


def _too_large(profile: Profile, root: int) -> Finding | None:
    """One instance holds up the others: by its own work, for it may wait for others' as long as it likes."""
    name, count = profile.names[root], int(profile.count[root])
    measures = profile.measures
    workers = measures.workers_max
    largest_s = int(profile.worked_most_ns[root]) * 1e-9
    if workers < 2 or not count or measures.no_work_s < LOSS * measures.workers_s:
        return None
    if largest_s < TOO_LARGE * measures.work_s / workers:
        return None
    advice = "make smaller tasks of it, or begin the largest first"
    text = (
        f"tasks of {name} are too large to balance: the longest of {count:,} works "
        f"{seconds(largest_s)}, where each of {workers} workers has {seconds(measures.work_s / workers)} to do; {advice}"
    )
    even_s = measures.workers_s - measures.no_work_s
    return Finding(
        "tasks_too_large", name, measures.no_work_s, measures.workers_s / even_s if even_s > 0 else 1.0, advice, text,
        {"longest_s": largest_s, "work_a_worker_s": measures.work_s / workers, "tasks": count},
    )  # fmt: skip


def _creation_bottleneck(profile: Profile) -> Finding | None:
    """One thread makes the tasks, and the others wait for them."""
    measures = profile.measures
    created = profile.role == at.CREATION
    total = _seconds(profile, created)
    if measures.workers_max < 2 or total <= 0.0 or measures.no_work_s < LOSS * measures.workers_s:
        return None
    by_root = {root: _seconds(profile, created & (profile.root == root)) for root in profile.roots(at.THREAD)}
    root, most = max(by_root.items(), key=lambda item: item[1], default=(0, 0.0))
    if most < ONE_CREATOR * total or most < TOO_LARGE * measures.elapsed_s:
        return None
    advice = "let several threads create, or tasks create tasks"
    text = (
        f"thread {profile.names[root]} creates {most / total:.0%} of the tasks and spends {most / measures.elapsed_s:.0%} of "
        f"the run at it, while the others wait {seconds(measures.no_work_s)} for tasks; {advice}"
    )
    evidence = {"creation_s": most, "share": most / total, "no_work_s": measures.no_work_s}
    return Finding("creation_bottleneck", profile.names[root], measures.no_work_s, 1.0, advice, text, evidence)


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
