"""Profiles from files of task events, and as collapsed stacks, which other viewers draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from advisor.files.events import CutShort, read_events
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of


def read_profile(path: Path, cut: Callable[[CutShort], None] | None = None) -> Profile:
    """Return the profile of a file of task events; raises InvalidValue when it is none, or damaged.

    `cut` is called if the end of the file is missing; the profile is then of what comes before. Otherwise it is an error.
    """
    profiler = Profiler()
    try:
        for events in read_events(path):
            profiler.fold_batch(events)
    except CutShort as error:
        if cut is None or profiler.clock is None:  # without the first block, nothing comes before
            raise
        cut(error)
    profiler.flush()
    return profile_of(profiler)


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
