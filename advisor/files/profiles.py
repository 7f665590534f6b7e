"""Profiles from files: made of an event file, or read back as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.errors import InvalidValue
from advisor.files.events import CutShort, is_event_file, read_events
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

PROFILE_BYTES_MAX = 2**28  # a profile of a million nodes, which no cap allows


def read_profile(
    path: Path,
    make: Callable[[], Profiler] = Profiler,
    cut: Callable[[CutShort], None] | None = None,
) -> Profile:
    """Return the profile of a file: of task events, through a fresh profiler, or of a profile in JSON.

    Raises InvalidValue when it is neither, or damaged.

    Parameters
    ----------
    make : callable
        Makes the profiler.
    cut : callable, optional
        Called if the end of the file is missing; the profile is then of what comes before. Otherwise it is an
        error.
    """
    if not is_event_file(path):
        return _from_json(path)
    profiler = make()
    try:
        for events in read_events(path):
            profiler.fold_batch(events)
    except CutShort as error:
        if cut is None or profiler.clock is None:  # without the first block, nothing comes before
            raise
        cut(error)
    profiler.flush()
    return profile_of(profiler)


def _from_json(path: Path) -> Profile:
    if path.stat().st_size > PROFILE_BYTES_MAX:
        raise InvalidValue("file", str(path), f"a profile of at most {PROFILE_BYTES_MAX} bytes")
    try:
        given: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidValue("file", str(path), "a file of task events, or a profile in JSON", str(error)) from error
    if not isinstance(given, dict):
        raise InvalidValue("file", str(path), "a file of task events, or a profile in JSON")
    found: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType] - checked by from_dict
    # `advisor profile --json` wraps each profile with its file's name.
    match found:
        case {"profiles": [{"profile": dict()}]}:
            return Profile.from_dict(found["profiles"][0]["profile"])
        case _:
            return Profile.from_dict(found)
