"""Profiles from files of task events, and as collapsed stacks, which other viewers draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from advisor.domain.task_events import TaskEvents
from advisor.engine import Engine
from advisor.engine.profiles import ANONYMOUS
from advisor.files.events import CutShort, read_events
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of


def read_profile(path: Path, cut: Callable[[CutShort], None] | None = None) -> Profile:
    """Return the profile of a file of task events; raises InvalidValue when it is none, or damaged.

    `cut` is called if the end of the file is missing; the profile is then of what comes before. Otherwise it is an error.
    """
    return profile_of_events(read_events(path), cut)


def profile_of_events(batches: Iterable[TaskEvents], cut: Callable[[CutShort], None] | None = None) -> Profile:
    """Return the profile of the events of one run, see `read_profile`."""
    engine, last = Engine(), None
    try:
        for last in batches:
            engine.apply_event(None, None, last)
    except CutShort as error:
        if cut is None or last is None:  # without the first block, nothing comes before
            raise
        cut(error)
    if last is None:
        return profile_of(Profiler())
    engine.apply_event(None, None, replace(last, records=last.records[:0], strings=(), sums=last.sums[:0], ended=True))
    return engine.profiles.profile(ANONYMOUS)


def collapsed_stacks(profile: Profile) -> str:
    """Return a line for each call path with time of its own: ``solve;depth=1;taskwait 1234``, nanoseconds.

    Trees of tasks stand below ``tasks``, those of threads below ``threads``: each of the two has the whole time.
    """
    lines: list[str] = []
    for heading, role in (("tasks", at.TASK), ("threads", at.THREAD), ("beyond the cap", at.OVERFLOW)):
        for root in profile.roots(role):
            path: list[str] = []
            for node, depth in profile.walk(root):
                path[depth:] = [profile.label(node).replace(";", ",")]
                if profile.exclusive_ns[node] > 0:
                    lines.append(";".join([heading, *path]) + f" {profile.exclusive_ns[node]}\n")
    return "".join(lines)
