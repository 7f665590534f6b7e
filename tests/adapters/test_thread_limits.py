"""Limits of thread pools: as they were when the last call has ended, and never exceeded by calls that overlap."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_pools import Clock, Found, Pool, elsewhere, rows_of, use

from advisor.adapters.threads import Advised
from advisor.adapters.threads.grants import CoreGrant, Grants
from advisor.adapters.threads.pools import Pools, set_limits


def test_a_block_limits_the_pools_and_leaves_them_as_they_were(advised: Advised, blas: Pool) -> None:
    with advised.cores("fit", predictor=10) as cores:
        assert blas.threads == cores == 1
    assert blas.threads == 7


def test_pools_of_modules_are_set_and_those_that_cannot_be_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("threadpoolctl")
    fakes = {"numexpr": Pool("", 6), "torch": Pool("", 5)}
    for name, module in (*fakes.items(), ("polars", Pool("", 4))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "duckdb", raising=False)
    pools, before = Pools(), dict[str, int]()
    pools.look()
    assert pools.unset == ("polars",)
    for found in (pools.shared, pools.of_threads):
        modules = [pool for pool in found if pool.filepath in fakes]
        assert len(modules) == 1
        assert set_limits(modules, 2, before)
    assert before == {"numexpr": 6, "torch": 5}
    assert [fake.threads for fake in fakes.values()] == [2, 2]


@pytest.mark.parametrize(("busy_s", "learned"), [(1.4, 4), (1.6, 0)])
def test_a_call_that_used_more_than_it_was_given_is_reported_once_and_not_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, busy_s: float, learned: int
) -> None:
    found, clock, busy = Found(), Clock(), Clock()
    found.unset = ("polars",)
    use(monkeypatch, found)
    monkeypatch.setattr(time, "process_time", busy)
    advised = Advised(path=tmp_path / "t.state", clock=clock, cores_max=1, load=lambda: 0.0)
    with caplog.at_level(logging.WARNING, "advisor.threads"):
        for _ in range(4):
            with advised.cores("query"):
                clock.now += 1.0
                busy.now += busy_s
    advised.flush()
    written = tmp_path / "t.state"
    assert (rows_of(written) if written.exists() else {}) == ({"query": learned} if learned else {})
    assert [("polars" in each.getMessage()) for each in caplog.records] == ([] if learned else [True])


def test_an_exception_passes_and_leaves_the_limits(advised: Advised, blas: Pool) -> None:
    with pytest.raises(KeyError), advised.cores("fit"):
        raise KeyError
    assert blas.threads == 7


def test_a_call_within_a_call_has_its_cores_at_most(blas: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    grants = use(monkeypatch, Found(blas))
    outer = grants.enter(4, 8)
    assert grants.available(8) == 4
    inner = grants.enter(8, 8)
    assert inner.cores == blas.threads == 4
    grants.end_call(inner)
    narrow = grants.enter(2, 8)
    assert blas.threads == 2
    grants.end_call(narrow)
    assert blas.threads == 4
    grants.end_call(outer)
    assert blas.threads == 7
    assert outer.changed
    assert not narrow.changed


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20), st.integers(1, 16), st.booleans(), st.integers(0, 30))))
def test_calls_that_overlap_never_exceed_their_cores_together(steps: list[tuple[bool, int, int, bool, int]]) -> None:
    grants, blas = GRANTS, POOL
    assert blas.threads == 7
    running: list[CoreGrant] = []
    for ends, wish, cores_max, workers, which in steps:
        if ends and running:
            grant = running.pop(which % len(running))
            elsewhere(lambda grant=grant: grants.end_call(grant))
        elif not ends:
            running.append(elsewhere(lambda w=wish, c=cores_max, j=workers: grants.enter(min(w, c), c, workers=j)))
        if not running:
            assert blas.threads == 7
            continue
        held = sum(grant.cores for grant in running if grant.workers)
        calls = sum(not grant.workers for grant in running)
        fewest = min(grant.cores_max for grant in running)
        # A call never waits: where there are more of them than cores, each has one; what workers hold is theirs until they end.
        assert calls * blas.threads <= max(calls, fewest - held)
        assert all(1 <= grant.cores <= min(grant.wish, grant.cores_max) for grant in running)
        assert all(grant.changed or grant.workers or grant.cores == blas.threads for grant in running)
    for grant in running:
        elsewhere(lambda grant=grant: grants.end_call(grant))
    assert blas.threads == 7


POOL = Pool("blas", 7)
GRANTS = Grants()
GRANTS.pools = Found(POOL)  # type: ignore[assignment]


def test_calls_of_every_thread_have_their_limits_in_a_real_pool() -> None:
    """Since threadpoolctl 3.8 a thread keeps the pools that it has set: calls of others would run without limits."""
    np.linalg.inv(np.eye(2))
    grants = Grants()
    grants.pools.look()
    pools = grants.pools.shared
    if not pools:
        pytest.skip("numpy's BLAS has no pool for the process")
    before = [pool.get_num_threads() for pool in pools]

    def seen(cores: int) -> list[int]:
        grant = grants.enter(cores, cores)
        try:
            assert not grant.changed
            return [pool.get_num_threads() for pool in pools]
        finally:
            grants.end_call(grant)

    try:
        assert set_limits(pools, 2)
        assert seen(1) == elsewhere(lambda: seen(1)) == [1 for _ in pools]
        assert [pool.get_num_threads() for pool in pools] == [2 for _ in pools]
    finally:
        set_limits(pools, {pool.filepath: threads for pool, threads in zip(pools, before, strict=True)})


class ControlledPool(Pool):
    """A pool that obeys the thread that set it first, until that gives it up."""

    controls: threading.Thread | None = None

    def set_num_threads(self, threads: int) -> None:
        self.controls = self.controls or threading.current_thread()
        if self.controls is threading.current_thread():
            super().set_num_threads(threads)

    def clear_controlling_thread(self) -> None:
        if self.controls is threading.current_thread():
            self.controls = None


def test_a_thread_of_the_program_that_holds_a_pool_keeps_it_and_no_run_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = ControlledPool("blas", 7)
    grants = use(monkeypatch, Found(pool))
    pool.set_num_threads(3)
    grant = elsewhere(lambda: grants.enter(1, 1))
    assert grant.changed
    elsewhere(lambda: grants.end_call(grant))
    assert pool.threads == 3
    pool.clear_controlling_thread()
    grant = elsewhere(lambda: grants.enter(1, 1))
    assert (grant.changed, pool.threads) == (False, 1)
    elsewhere(lambda: grants.end_call(grant))
    assert pool.threads == 3


def test_tasks_of_one_loop_overlap_like_threads(monkeypatch: pytest.MonkeyPatch, blas: Pool, tmp_path: Path) -> None:
    use(monkeypatch, Found(blas))
    advised = Advised(path=tmp_path / "t.state", load=lambda: 0.0)
    seen: list[int] = []

    @advised("task", cores_max=1)
    async def task() -> None:
        seen.append(blas.threads)
        await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(task(), task())

    asyncio.run(both())
    assert seen == [1, 1]
    assert blas.threads == 7
