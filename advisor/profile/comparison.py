"""Runs with different numbers of threads side by side, and what grows with them (paper 5, Table III)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from advisor.domain import wording
from advisor.errors import InvalidValue
from advisor.profile import layout as at
from advisor.profile.tree import Profile

GROWS: Final = 1.5  # times as much time in the run with the most threads as in that with the fewest
STEADY: Final = 0.02  # of the time, by which it may differ and be reported as the same
SHARE_OF_GROWTH: Final = 0.01  # of all time added that a line must have to be named
# What the thread sums of exclusive times are of: a line of Table III each.
SUBJECTS: Final = (
    ("creation", (at.CREATION,)), ("synchronisation", (at.TASKWAIT, at.BARRIER, at.TASKGROUP, at.WAIT)),
    ("management", (at.MANAGEMENT,)), ("idleness", (at.IDLE,)), ("work", (at.TASK, at.REGION, at.PARALLEL, at.PARAMETER)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """Exclusive time of one kind of node in each run."""

    subject: str  # creation, synchronisation, management, idleness or work
    # role, name, inside: the node; the task construct whose tree it is in, empty for the threads' own trees
    role: str
    name: str
    inside: str
    seconds: tuple[float, ...]  # of each run, over all threads
    grows: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side."""

    names: tuple[str, ...]
    threads: tuple[int, ...]
    lines: tuple[Line, ...]  # most time first
    growing: tuple[str, ...]  # subjects that grow with the threads, in the order above
    text: str  # what grows, in words

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def compare(runs: Sequence[tuple[str, Profile]]) -> Comparison:
    """Return runs side by side, ordered by their threads.

    Raises InvalidValue for less than two runs.

    `runs`: sequence of (name, profile), at least two; a run's threads are the most workers that it had.
    """
    if len(runs) < 2:
        raise InvalidValue("runs", len(runs), "at least 2")
    ordered = sorted(runs, key=lambda run: run[1].measures.workers_max)
    sums: dict[tuple[str, str, str, str], list[float]] = {}
    for place, (_, profile) in enumerate(ordered):
        for key, ns in _sums(profile).items():
            sums.setdefault(key, [0.0] * len(ordered))[place] += ns * 1e-9
    threads = tuple(profile.measures.workers_max for _, profile in ordered)
    added = sum(max(seconds[-1] - seconds[0], 0.0) for seconds in sums.values())
    lines = tuple(
        Line(*key, tuple(seconds), threads[-1] > threads[0] and _grows(seconds, added))
        for key, seconds in sorted(sums.items(), key=lambda item: -max(item[1]))
    )
    by_subject = {subject: _total(lines, subject) for subject, _ in SUBJECTS}
    growing = [
        subject for subject, seconds in by_subject.items() if threads[-1] > threads[0] and _grows(seconds, added)
    ]
    return Comparison(
        tuple(name for name, _ in ordered), threads, lines, tuple(growing), _worded(growing, by_subject, threads)
    )


def _sums(profile: Profile) -> dict[tuple[str, str, str, str], int]:
    """Return exclusive ns by (subject, role, name, construct)."""
    subject_of = {role: subject for subject, roles in SUBJECTS for role in roles}
    found: dict[tuple[str, str, str, str], int] = {}
    for node in np.flatnonzero(profile.exclusive_ns > 0).tolist():
        role = int(profile.role[node])
        if role not in subject_of:
            continue
        root = int(profile.root[node])
        inside = profile.names[root] if profile.role[root] == at.TASK else ""
        # Parameters are parts of their task: all depths are one line.
        reported, name = (at.TASK, inside) if role == at.PARAMETER and inside else (role, profile.names[node])
        key = (subject_of[role], at.ROLE_NAMES[reported], name, inside)
        found[key] = found.get(key, 0) + int(profile.exclusive_ns[node])
    return found


def _total(lines: Sequence[Line], subject: str) -> list[float]:
    chosen = [line.seconds for line in lines if line.subject == subject]
    return [sum(column) for column in zip(*chosen, strict=True)] if chosen else [0.0, 0.0]


def _grows(seconds: Sequence[float], added: float) -> bool:
    more = seconds[-1] - seconds[0]
    return added > 0.0 and more > SHARE_OF_GROWTH * added and seconds[-1] >= GROWS * seconds[0]


def _worded(growing: Sequence[str], by_subject: dict[str, list[float]], threads: Sequence[int]) -> str:
    if threads[-1] == threads[0]:
        many = "1 thread" if threads[0] == 1 else f"{threads[0]} threads"
        return f"all runs have {many}: nothing tells what grows with them"
    if not growing:
        return f"nothing grows with threads, from {threads[0]} to {threads[-1]}"
    subjects = growing[0] if len(growing) == 1 else f"{', '.join(growing[:-1])} and {growing[-1]}"
    reported = [f"{name} {_change(by_subject[name])}" for name in growing]
    steady = [name for name, seconds in by_subject.items() if name not in growing and max(seconds) > 0.0]
    if "work" in steady:
        reported.append(f"work {_change(by_subject['work'])}")
    verb = "grows" if len(growing) == 1 else "grow"
    return f"{subjects} {verb} with threads, from {threads[0]} to {threads[-1]}: {', '.join(reported)}"


def _change(spent: Sequence[float]) -> str:
    if abs(spent[-1] - spent[0]) <= STEADY * spent[0]:
        return f"stays at {wording.seconds(spent[-1])}"
    times = f" ({spent[-1] / spent[0]:.3g} times)" if spent[0] > 0.0 else ""
    return f"{wording.seconds(spent[0])} to {wording.seconds(spent[-1])}{times}"
