"""What holds for every profile at every moment."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

APART = "apart"  # name that tests give to regions of `RegionKind.APART`


def path_of(profile: Profile, node: int) -> tuple[str, ...]:
    """Return the call path to a node."""
    found: list[str] = []
    while node >= 0:
        found.append(f"{at.ROLE_NAMES[int(profile.role[node])]} {profile.label(node)}")
        node = int(profile.parent[node])
    return tuple(reversed(found))


def check_laws(profile: Profile, *, ordered: bool = True) -> None:
    """Assert the laws of a profile below its caps; `ordered`: its events came in order of time over all threads."""
    for column in (profile.inclusive_ns, profile.exclusive_ns, profile.count, profile.open, profile.variance_ns2):
        assert (column >= 0).all()
    below = np.zeros(len(profile), np.int64)
    inner = profile.parent >= 0
    np.add.at(below, profile.parent[inner], profile.inclusive_ns[inner])
    np.testing.assert_array_equal(profile.inclusive_ns, profile.exclusive_ns + below)
    done = profile.count > 0
    assert (profile.least_ns[done] <= profile.most_ns[done]).all()
    assert (profile.least_ns[done] <= profile.mean_ns[done] * (1 + 1e-12) + 1e-9).all()
    assert (profile.mean_ns[done] <= profile.most_ns[done] * (1 + 1e-12) + 1e-9).all()
    closed = profile.open == 0
    np.testing.assert_allclose((profile.mean_ns * profile.count)[closed], profile.inclusive_ns[closed], rtol=1e-12)
    # A task's time is in its own tree and, once more, in a stub of the thread that ran it: each thread's time is whole.
    in_tasks = profile.role[profile.root] == at.TASK
    # Those of tasks told apart are but stubs until the sums come.
    apart = np.array([name == APART for name in profile.names], np.bool_)
    stubs = profile.exclusive_ns[(profile.role == at.STUB) & ~apart].sum()
    assert profile.exclusive_ns[in_tasks].sum() == stubs
    measures = profile.measures
    threads = [profile.inclusive_ns[root] for root in profile.roots(at.THREAD)]
    assert measures.workers_s == pytest.approx(sum(threads) * 1e-9, abs=1e-12)
    assert profile.exclusive_ns[(profile.role != at.STUB) | apart].sum() == sum(threads)
    parts = measures.work_s + measures.overhead_s + measures.delay_s + measures.no_work_s + measures.unaccounted_s
    assert parts == pytest.approx(measures.workers_s, rel=1e-12, abs=1e-15)
    assert measures.burdened_span_s >= measures.span_s
    if not ordered:  # integrals over time go without what lies before an event of another thread
        return
    assert measures.delay_s + measures.no_work_s == pytest.approx(measures.waiting_s, rel=1e-12, abs=1e-15)
    outside = profile.exclusive_ns[(profile.role == at.THREAD) | apart].sum() * 1e-9
    assert measures.unaccounted_s == pytest.approx(outside, rel=1e-9, abs=1e-15)
    assert measures.delay_s >= 0.0
    assert measures.no_work_s >= -1e-15
    assert measures.span_s <= min(measures.work_s, measures.elapsed_s) + 1e-15


def state_bytes(profiler: Profiler) -> list[bytes]:
    """Return the tables of a profiler, the counts of refused events and of strings left out."""
    tables = profiler.tables
    g = np.array(tables.g)
    for place in (at.REFUSED, at.ENDED, at.STRINGS, *range(at.COUNTED_REFUSALS, at.NUMBERS)):
        g[place] = 0
    return [g.tobytes(), *(np.asarray(part).tobytes() for part in tables.state[1:])]


def same(one: Profiler, other: Profiler) -> None:
    """Assert that two profilers hold the same numbers, to the last bit."""
    for a, b in zip(one.tables.state, other.tables.state, strict=True):
        left, right = np.asarray(a), np.asarray(b)
        assert left.astype(right.dtype).tobytes() == right.tobytes()
    assert profile_of(one).as_dict() == profile_of(other).as_dict()
