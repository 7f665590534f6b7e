"""The forms for joblib and `concurrent.futures`: so many workers as advised, and no more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from advisor.adapters.threads import Advised


def test_an_executor_runs_what_it_is_given(advised: Advised) -> None:
    with advised.executor("task", predictor=lambda n, _two: n) as executor:
        futures = [executor.submit(pow, n, 2) for n in range(100)]
        failed = executor.submit(pow, 1, "two")
        assert [future.result() for future in futures] == [n * n for n in range(100)]
        with pytest.raises(TypeError):
            failed.result()
    with pytest.raises(RuntimeError):
        executor.submit(pow, 1, 2)


def test_tasks_that_wait_hold_no_core(tmp_path: Path) -> None:
    """As many wait for one another as would never meet on the cores alone."""
    meeting = threading.Barrier(200)
    with Advised(path=tmp_path / "t.state", load=lambda: 0.0).executor("meet") as executor:
        found = [executor.submit(meeting.wait, 60.0) for _ in range(200)]
        assert sorted(each.result() for each in found) == list(range(200))


def test_tasks_that_are_cancelled_do_not_run(advised: Advised) -> None:
    gate = threading.Event()
    executor = advised.executor("task", cores_max=1)
    first = executor.submit(gate.wait)
    others = [executor.submit(pow, n, 2) for n in range(5)]
    assert others[0].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert first.result()
    assert all(other.cancelled() for other in others)
