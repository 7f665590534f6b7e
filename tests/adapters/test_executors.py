"""The forms for joblib and `concurrent.futures`: so many workers as advised, and no more."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from thread_pools import rows_of

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


def test_a_program_ends_when_its_tasks_have_ended_and_their_runs_are_learned(tmp_path: Path) -> None:
    program = f"""
import threading
from advisor.adapters.threads import Advised
executor = Advised(path={str(tmp_path / "t.state")!r}).executor("meet")
meeting = threading.Barrier(80)
found = [executor.submit(meeting.wait) for _ in range(80)]
found.append(executor.submit(print, "last"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("last\n", "")
    assert rows_of(tmp_path / "t.state") == {"meet": 81}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_of_multiprocessing_ends_when_its_tasks_have_ended(tmp_path: Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import multiprocessing, os, threading
from advisor.adapters.threads import Advised
advised = Advised(path={str(tmp_path / "t.state")!r})

def end(meeting, n):
    meeting.wait()
    os.write(1, b"%d " % n)

def begin():
    global executor
    executor = advised.executor("end")
    meeting = threading.Barrier(70)
    for n in range(70):
        executor.submit(end, meeting, n)

if __name__ == "__main__":
    parents = advised.executor("end")
    parents.submit(end, threading.Barrier(1), 70)
    child = multiprocessing.get_context({method!r}).Process(target=begin)
    child.start()
    child.join()
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert (sorted(map(int, done.stdout.split())), done.stderr) == ([*range(71)], "")
    assert rows_of(tmp_path / "t.state") == {"end": 71}


@pytest.mark.parametrize("where", ["main", "child"])
def test_a_program_ends_when_the_jobs_of_its_pool_have_ended(tmp_path: Path, where: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import multiprocessing, os
from advisor.adapters.threads import Advised
advised = Advised(path={str(tmp_path / "t.state")!r})

def end(n):
    os.write(1, b"%d " % n)

def begin():
    global pool
    pool = advised.pool(2)
    for n in range(20):
        pool.submit(end, n)

if __name__ == "__main__":
    if {where == "main"}:
        begin()
    else:
        child = multiprocessing.get_context("fork").Process(target=begin)
        child.start()
        child.join()
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert (sorted(map(int, done.stdout.split())), done.stderr) == ([*range(20)], "")
    assert sum(rows_of(tmp_path / "t.state").values()) == 20


def test_runs_of_an_executor_that_has_ended_are_written_at_the_end_of_the_program(tmp_path: Path) -> None:
    program = f"""
from advisor.adapters.threads import Advised
with Advised(path={str(tmp_path / "t.state")!r}).executor("power") as executor:
    executor.submit(pow, 2, 3)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert rows_of(tmp_path / "t.state") == {"power": 1}


def test_an_executor_that_nobody_holds_ends_its_threads(advised: Advised) -> None:
    executor = advised.executor("task")
    assert executor.submit(threading.current_thread).result().is_alive()
    thread = executor.submit(threading.current_thread).result()
    del executor
    gc.collect()
    thread.join(60.0)
    assert not thread.is_alive()
