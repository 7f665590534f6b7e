"""Records that nobody would send: whatever they say, the fold stays inside its tables, keeps its laws, and both folds agree.

Compiled code checks no index. Here the plain fold runs on views that know no negative index and no slice, on the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profile_laws import APART, check_laws, same

from advisor.domain.task_events import ABSENT_TYPE, RECORD, SUM, Kind, RegionKind, TaskEvents
from advisor.kernels import can_compile, views
from advisor.profile import layout as at
from advisor.profile.checkpoint import from_bytes, to_bytes
from advisor.profile.profiler import Profiler
from advisor.profile.state import Caps
from advisor.profile.view import profile_of

STRINGS = ("A", "B", "foo", APART)


class Strict:
    """An array as compiled code sees it, but one that refuses what that would not notice."""

    def __init__(self, array: np.ndarray) -> None:
        self._view = memoryview(array)

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, index: Any) -> Any:
        assert 0 <= index < len(self)
        return self._view[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        assert 0 <= index < len(self)
        self._view[index] = value


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "memoryview", Strict, raising=False)


def hostile(seed: int, n: int) -> np.ndarray:
    """Return records of a few instances, threads and regions, most nearly legal, some absurd."""
    rng = np.random.default_rng(seed)
    records = np.zeros(n, RECORD)
    records["time"] = np.sort(rng.integers(0, 5 * n, n))
    records["kind"] = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], n, p=[
        0.12, 0.12, 0.1, 0.12, 0.03, 0.1, 0.1, 0.05, 0.06, 0.06, 0.02, 0.02, 0.01, 0.02, 0.05, 0.02,
    ])  # fmt: skip
    records["instance"] = rng.integers(0, 8, n)
    records["other"] = rng.integers(0, 4, n)
    records["type"] = rng.integers(0, 3, n)
    records["thread"] = rng.integers(0, 3, n)
    apart = ((records["kind"] == Kind.ENTER) | (records["kind"] == Kind.EXIT)) & (rng.random(n) < 0.2)
    records["other"][apart], records["type"][apart] = RegionKind.APART, len(STRINGS) - 1
    records["flags"] = rng.integers(0, 2, n)
    absurd = rng.random(n) < 0.03
    for name in records.dtype.names or ():
        width = records.dtype[name].itemsize
        chosen = absurd & (rng.random(n) < 0.4)
        records[name][chosen] = (
            rng.integers(0, 256, (int(chosen.sum()), width), np.uint8).view(records.dtype[name]).reshape(-1)
        )
    records["type"][rng.random(n) < 0.02] = ABSENT_TYPE
    return records


def hostile_sums(seed: int, n: int) -> np.ndarray:
    """Return sums of a few types, most nearly true, some absurd, or so large that few of them may be added."""
    rng = np.random.default_rng(seed)
    sums = np.zeros(n, SUM)
    scale = 2 ** rng.integers(1, 61, n).astype(np.uint64)
    sums["type"], sums["parameter"] = rng.integers(0, 4, n), ABSENT_TYPE
    sums["parameter"][::2] = 2
    sums["value"], sums["count"] = rng.integers(-2, 2, n), np.where(rng.random(n) < 0.5, 1, scale)
    for name in ("work", "creation", "waiting"):
        sums[name] = scale // 4
    sums["creates"], sums["waits"], sums["most"] = rng.integers(0, 3, n), rng.integers(0, 3, n) * scale, scale
    sums["squares"] = scale.astype(float) ** 2
    absurd = rng.random(n) < 0.2
    for name in sums.dtype.names or ():
        chosen = absurd & (rng.random(n) < 0.3)
        width = sums.dtype[name].itemsize
        sums[name][chosen] = (
            rng.integers(0, 256, (int(chosen.sum()), width), np.uint8).view(sums.dtype[name]).reshape(-1)
        )
    return sums


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.usefixtures("strict")
def test_any_sums_leave_both_profiles_whole_and_alike(seed: int) -> None:
    profilers = [Profiler(window_ns=0, compiled=False)]
    if can_compile():
        profilers.append(Profiler(window_ns=0, compiled=True))
    events = TaskEvents(hostile(seed, 50), STRINGS, sums=hostile_sums(seed, 100))
    folded = [profiler.fold_batch(events) for profiler in profilers]
    assert all(each.accepted + sum(each.refused.values()) == 150 for each in folded)
    for other in profilers[1:]:
        same(profilers[0], other)
    profile = profile_of(profilers[0])
    assert (profile.inclusive_ns >= 0).all()
    assert (profile.count >= 0).all()
    assert np.isfinite(profile.variance_ns2).all()
    total = sum(profile.exclusive_ns[profile.role != at.STUB].tolist())
    summed = int(profilers[0].tables.g[at.SUMMED_TIME])
    assert total == pytest.approx(profile.measures.workers_s * 1e9 + summed, rel=1e-12)
    assert profile.measures.ends >= profile.notes.get("instances_summed", 0)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(seed=st.integers(0, 2**32), small=st.booleans(), lossy=st.booleans())
@pytest.mark.usefixtures("strict")
def test_any_records_leave_both_folds_whole_and_alike(seed: int, small: bool, lossy: bool) -> None:
    caps = Caps(nodes=40, instances=12, frames=24, threads=2, edges=3) if small else Caps()
    profilers = [Profiler(window_ns=0, caps=caps, compiled=False)]
    if can_compile():
        profilers.append(Profiler(window_ns=0, caps=caps, compiled=True))
    records = hostile(seed, 400)
    for k, part in enumerate(np.array_split(records, 4)):
        reported = [
            each.fold_batch(TaskEvents(part, STRINGS if k == 0 else (), dropped=int(lossy))) for each in profilers
        ]
        assert reported[0].accepted + sum(reported[0].refused.values()) == len(part)
        for other in reported[1:]:
            assert (other.accepted, other.refused, other.first) == (
                reported[0].accepted,
                reported[0].refused,
                reported[0].first,
            )
            assert other.ended.tobytes() == reported[0].ended.tobytes()
    for other in profilers[1:]:
        same(profilers[0], other)
    profile = profile_of(profilers[0])
    if "nodes_beyond_cap" not in profile.notes:
        check_laws(profile, ordered=False)
    restarted = from_bytes(to_bytes(profilers[0]), Profiler(window_ns=0, caps=caps))
    closed = profile_of(restarted)
    assert closed.notes.get("instances_lost", 0) == profile.notes.get("instances_lost", 0) + profile.measures.active
    assert closed.measures.active == 0
    assert not closed.open.any()
    assert closed.measures.workers_s == pytest.approx(profile.measures.workers_s)
    assert closed.exclusive_ns.sum() == profile.exclusive_ns.sum()
    assert closed.inclusive_ns.sum() == profile.inclusive_ns.sum()
