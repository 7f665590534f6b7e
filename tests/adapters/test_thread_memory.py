"""The file in which processes share what they learned: no row is lost or learned twice."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest
from thread_pools import rows_of

from advisor.adapters.threads.memory import SAVE_S, FunctionMemory


def learned(memory: FunctionMemory, runs: int, component: str = "fit") -> None:
    for number in range(runs):
        memory.observe(component, predictor=1.0 + number, cores=1, elapsed_s=1.0)


def test_each_process_saves_its_runs_upon_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    one, other = FunctionMemory(path), FunctionMemory(path)
    learned(one, 3)
    one.flush()
    learned(other, 2, "solve")
    other.flush()
    assert rows_of(path) == {"fit": 3, "solve": 2}
    learned(one, 1)
    one.flush()
    one.flush()  # nothing is new
    assert rows_of(path) == {"fit": 4, "solve": 2}
    assert float(one.predict("solve", predictor=1.0, cores=1).elapsed_s) == pytest.approx(1.0, rel=0.1)


def test_a_run_waits_for_no_other_process_that_saves(tmp_path: Path) -> None:
    path, now = tmp_path / "t.state", [0.0]
    memory = FunctionMemory(path, lambda: now[0])
    with path.with_suffix(".lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        now[0] += SAVE_S + 1.0
        learned(memory, 1)
        assert not path.exists()
    now[0] += SAVE_S + 1.0
    learned(memory, 1)
    assert rows_of(path) == {"fit": 2}


def test_runs_that_cannot_be_saved_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.adapters.threads.memory.ROWS_MAX", 10)
    (tmp_path / "file").write_text("")
    memory = FunctionMemory(tmp_path / "file" / "t.state")
    learned(memory, 14)
    (tmp_path / "file").unlink()
    memory.flush()
    assert rows_of(tmp_path / "file" / "t.state") == {"fit": 9}


@pytest.mark.parametrize("data", [b"", b"no state"])
def test_a_damaged_file_is_put_aside(tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.state"
    path.write_bytes(data)
    memory = FunctionMemory(path)
    learned(memory, 2)
    memory.flush()
    assert rows_of(path) == {"fit": 2}
    assert path.with_suffix(".damaged").read_bytes() == data
    assert "put aside" in caplog.text


def test_a_run_that_is_refused_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = FunctionMemory(tmp_path / "t.state")
    learned(memory, 1)
    memory.observe("fit", predictor=1.0, cores=1, elapsed_s=-1.0)
    memory.flush()
    assert rows_of(tmp_path / "t.state") == {"fit": 1}
    assert "1 of 2 runs are not learned" in caplog.text


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    memory = FunctionMemory(tmp_path / "file" / "t.state")
    learned(memory, 2)
    assert float(memory.predict("fit", predictor=1.0, cores=1).elapsed_s) == pytest.approx(1.0, rel=0.1)
    memory.flush()
    assert caplog.text
    (tmp_path / "file").unlink()
    memory.flush()  # as when the process ends
    assert rows_of(tmp_path / "file" / "t.state") == {"fit": 2}


FORKING = """
import os, sys
from pathlib import Path
from advisor.adapters.threads import Advised
from advisor.adapters.threads.grants import GRANTS

path = Path(sys.argv[1])
now = [0.0]
advised = Advised(path=path, clock=lambda: now[0], load=lambda: 0.0, cores_max=2)

def run(name):
    with advised.cores(name, predictor=5.0):
        now[0] += 1.0

for _ in range(3):
    run("parent")
advised.flush()
limits = [pool.get_num_threads() for pool in GRANTS.pools.shared]
for _ in range(4):
    run("parent")  # learned by the parent, and not written yet
with advised.cores("parent", predictor=5.0):
    if (child := os.fork()) == 0:
        now[0] += 1.0
if not child:
    assert [pool.get_num_threads() for pool in GRANTS.pools.shared] == limits
    for _ in range(2):
        run("child")
    advised.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
now[0] += 1.0
assert [pool.get_num_threads() for pool in GRANTS.pools.shared] == limits
run("parent")
advised.flush()
"""


def test_a_forked_child_saves_its_own_runs_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, str(path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # The fork took no time of its block, on the clock of the parent, which had three, four and one runs beside.
    assert rows_of(path) == {"parent": 8, "child": 2}
