"""Profiles from files of task events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from advisor.files.events import CutShort, read_events
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
