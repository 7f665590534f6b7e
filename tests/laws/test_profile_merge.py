"""Profiles merge: several runs of a program as one are the profile of all their visits."""

from __future__ import annotations

import numpy as np
import pytest
from profile_laws import check_laws
from task_program import Program, recursive

from advisor.domain.task_events import TaskEvents
from advisor.errors import InvalidValue
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile, merged
from advisor.profile.view import profile_of


def run(seed: int, profiler: Profiler, start: int = 0) -> int:
    """Fold one run of a program that begins at a time; return when it ends."""
    events = Program(2, recursive(3, 1 + seed % 3, 400 + 50 * seed), seed=seed).run()
    records = events.records[events.records["time"].argsort(kind="stable")].copy()
    records["time"] += start
    known = {text: number for number, text in enumerate(profiler.strings)}
    new = tuple(text for text in events.strings if text not in known)
    numbers = {text: known.get(text, len(known) + new.index(text) if text in new else 0) for text in events.strings}
    table = np.array([numbers[text] for text in events.strings], np.uint32)
    there = records["type"] < len(table)
    records["type"][there] = table[records["type"][there]]
    folded = profiler.fold_batch(TaskEvents(records, new))
    assert not folded.refused
    return int(records["time"].max()) + 1


def by_path(profile: Profile) -> dict[tuple[str, ...], tuple[float, ...]]:
    columns = (profile.count, profile.inclusive_ns, profile.exclusive_ns, profile.least_ns, profile.most_ns)
    return {profile.path(node): tuple(int(c[node]) for c in columns) for node in range(len(profile))}


def test_merged_runs_are_one_run_of_all() -> None:
    together, start = Profiler(window_ns=0, compiled=False), 0
    parts: list[Profile] = []
    for seed in range(6):
        alone = Profiler(window_ns=0, compiled=False)
        run(seed, alone)
        parts.append(profile_of(alone))
        start = run(seed, together, start)
    whole = profile_of(together)
    for some in (merged(parts), merged([merged(parts[:2]), merged(parts[2:])]), merged(parts[::-1])):
        assert by_path(some) == by_path(whole)
        place = {some.path(node): node for node in range(len(some))}
        order = [place[whole.path(node)] for node in range(len(whole))]
        np.testing.assert_allclose(some.mean_ns[order], whole.mean_ns, rtol=1e-12)
        np.testing.assert_allclose(some.variance_ns2[order], whole.variance_ns2, rtol=1e-9, atol=1e-6)
        assert some.measures.ends == whole.measures.ends
        assert some.measures.work_s == pytest.approx(whole.measures.work_s)
        check_laws(some)
    with pytest.raises(InvalidValue, match="profiles"):
        merged([])
