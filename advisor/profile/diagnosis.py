"""What is wrong with a run of tasks, as structure and sentences (paper 5, sections III and VI)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    # inclusive_s, exclusive_s: of all of them; exclusive: work without creation, waiting and management
    inclusive_s: float
    exclusive_s: float
    # creation_s, waiting_s: inside them
    creation_s: float
    waiting_s: float

    @property
    def mean_s(self) -> float:
        """Inclusive time of one."""
        return self.inclusive_s / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Construct:
    """What a task construct's tree says."""

    root: int  # its node
    name: str
    count: int
    # work_s, creation_s, waiting_s: of its tree
    work_s: float
    creation_s: float
    waiting_s: float
    made: int  # tasks that it made: visits of creation regions
    parameter: str  # name of the parameter that splits it most; empty without
    levels: tuple[Level, ...]  # in order of the parameter's value


def construct_of(profile: Profile, root: int) -> Construct:
    """Return what the tree of a task construct says."""
    tree = profile.root == root
    work = tree & (profile.role < at.CREATION)
    waiting = tree & (profile.role >= at.TASKWAIT) & (profile.role < at.STUB)
    created = tree & (profile.role == at.CREATION)
    split = [node for node in profile.children[root] if profile.role[node] == at.PARAMETER]
    names = {profile.names[node] for node in split}
    parameter = max(
        names, key=lambda name: sum(int(profile.count[n]) for n in split if profile.names[n] == name), default=""
    )
    levels = [_level(profile, node) for node in split if profile.names[node] == parameter]
    return Construct(
        root=root,
        name=profile.names[root],
        count=int(profile.count[root]),
        work_s=_seconds(profile, work),
        creation_s=_seconds(profile, created),
        waiting_s=_seconds(profile, waiting),
        made=int(profile.count[created].sum()),
        parameter=parameter,
        levels=tuple(sorted(levels, key=lambda level: level.value)),
    )


def _level(profile: Profile, node: int) -> Level:
    inside = np.zeros(len(profile), np.bool_)
    inside[[below for below, _ in profile.walk(node)]] = True
    waiting = inside & (profile.role >= at.TASKWAIT) & (profile.role < at.STUB)
    return Level(
        value=int(profile.value[node]),
        count=int(profile.count[node]),
        inclusive_s=int(profile.inclusive_ns[node]) * 1e-9,
        exclusive_s=_seconds(profile, inside & (profile.role < at.CREATION)),
        creation_s=_seconds(profile, inside & (profile.role == at.CREATION)),
        waiting_s=_seconds(profile, waiting),
    )


def _seconds(profile: Profile, chosen: Any) -> float:
    return int(profile.exclusive_ns[chosen].sum()) * 1e-9


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """Return what costs time in a run, the dearest first. Cost O(nodes · levels)."""
    found: list[Finding] = []
    for root in profile.roots(at.TASK):
        construct = construct_of(profile, root)
        for look in (_too_small, _too_large):
            finding = look(profile, root, construct)
            if finding is not None:
                found.append(finding)
    for look_at_all in _OF_THE_WHOLE:
        finding = look_at_all(profile)
        if finding is not None:
            found.append(finding)
    return tuple(sorted(found, key=lambda finding: -finding.loss_s))


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
    ordered = sorted((level for level in levels if level.count), key=lambda level: level.value)
    means = np.array([level.mean_s for level in ordered])
    falls = len(ordered) < 2 or means[: len(means) // 2].mean() >= means[(len(means) + 1) // 2 :].mean()
    return ordered if falls else ordered[::-1]


def _too_small(profile: Profile, root: int, construct: Construct) -> Finding | None:
    """Creation against what the tasks do themselves."""
    creation_s, made, surely_s = _creation_of(profile, construct)
    own_s = construct.work_s / construct.count if construct.count else 0.0
    measures = profile.measures
    if not made or not own_s or creation_s / made < TOO_SMALL * own_s:
        return None
    each_s = creation_s / made
    evidence: dict[str, Any] = {"creation_each_s": each_s, "exclusive_each_s": own_s, "tasks": construct.count}
    reported = (
        f"tasks of {construct.name} are too small: each works {seconds(own_s)} itself and takes {seconds(each_s)} to create "
        f"({construct.count:,} tasks)"
    )
    at_value = cut_off(construct.levels, measures.workers_max)
    if at_value is None:
        advice = f"make each at least {TOO_SMALL**-1 * each_s / own_s:.2g} times larger"
        removed = 1.0 - TOO_SMALL * own_s / each_s
    else:
        ordered = _from_large_to_small(construct.levels)
        values = [level.value for level in ordered]
        kept = sum(level.count for level in ordered[: values.index(at_value)])
        total = sum(level.count for level in ordered)
        removed = 1.0 - kept / total
        advice = f"stop at {construct.parameter} {at_value}"
        evidence |= {
            "parameter": construct.parameter, "cut_off": at_value, "tasks_kept": kept,
            "levels": [asdict(level) for level in ordered],
        }  # fmt: skip
    # Each creation saved saves its part of the waiting too: who waits, waits for tasks to be made and handed out.
    loss_s = removed * (creation_s + min(measures.waiting_s, measures.delay_s + construct.waiting_s))
    if not LOSS * measures.workers_s <= loss_s < measures.workers_s:
        return None
    least, most, promised = _gain(measures, removed * surely_s, removed * creation_s, loss_s)
    saves = f"that saves up to {seconds(loss_s)} of the workers' {seconds(measures.workers_s)}"
    text = f"{reported}; {advice}: {saves}; {promised}"
    return Finding("tasks_too_small", construct.name, loss_s, most, advice, text, evidence, least)


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


def _creation_of(profile: Profile, construct: Construct) -> tuple[float, int, float]:
    """Return creation time, tasks made and the time at the least that one took: in the construct's own tree, else in all."""
    created = profile.role == at.CREATION
    if construct.made:
        created &= profile.root == construct.root
    made, least_ns, own_ns = profile.count[created], profile.least_ns[created], profile.exclusive_ns[created]
    surely_ns = np.where(
        least_ns > 0, np.minimum(made * least_ns, own_ns), own_ns
    )  # profiles of others may tell no least
    return _seconds(profile, created), int(made.sum()), float(surely_ns.sum()) * 1e-9


def _too_large(profile: Profile, root: int, construct: Construct) -> Finding | None:
    """One instance holds up the others: by its own work, for it may wait for others' as long as it likes."""
    measures = profile.measures
    workers = measures.workers_max
    largest_s = int(profile.worked_most_ns[root]) * 1e-9
    if workers < 2 or not construct.count or measures.no_work_s < LOSS * measures.workers_s:
        return None
    if largest_s < TOO_LARGE * measures.work_s / workers:
        return None
    advice = "make smaller tasks of it, or begin the largest first"
    text = (
        f"tasks of {construct.name} are too large to balance: the longest of {construct.count:,} works "
        f"{seconds(largest_s)}, where each of {workers} workers has {seconds(measures.work_s / workers)} to do; {advice}"
    )
    even_s = measures.workers_s - measures.no_work_s
    return Finding(
        "tasks_too_large", construct.name, measures.no_work_s, measures.workers_s / even_s if even_s > 0 else 1.0, advice, text,
        {"longest_s": largest_s, "work_a_worker_s": measures.work_s / workers, "tasks": construct.count},
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


_OF_THE_WHOLE: tuple[Callable[[Profile], Finding | None], ...] = (_creation_bottleneck, _idle_workers)
