"""The file in which processes share what they learned: one writes it, and no row is lost or learned twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from thread_pools import rows_of

from advisor.adapters.threads.memory import FunctionMemory


def learned(memory: FunctionMemory, runs: int, component: str = "fit") -> None:
    for number in range(runs):
        memory.observe(component, predictor=1.0 + number, cores=1, elapsed_s=1.0)


def test_one_process_writes_and_the_others_leave_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    one, other = FunctionMemory(path), FunctionMemory(path)
    learned(one, 3)
    one.flush()
    learned(other, 2, "solve")
    other.close()
    assert rows_of(path) == {"fit": 3}
    assert len(list(tmp_path.glob("*.rows"))) == 1
    learned(one, 1)
    one.close()
    assert rows_of(path) == {"fit": 4, "solve": 2}
    assert not list(tmp_path.glob("*.rows"))


def test_who_waits_writes_when_the_writer_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    one, other = FunctionMemory(path), FunctionMemory(path)
    learned(one, 3)
    one.flush()
    learned(other, 2, "solve")
    other.flush()
    one.close()
    learned(other, 5, "solve")
    other.close()
    assert rows_of(path) == {"fit": 3, "solve": 7}


def test_rows_that_a_state_holds_are_not_learned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.state"
    one, other = FunctionMemory(path), FunctionMemory(path)
    learned(one, 1)
    one.flush()
    learned(other, 2)
    other.close()
    with monkeypatch.context() as killed:  # between the state's file and the rows'
        killed.setattr(Path, "unlink", lambda *_args, **_more: None)
        learned(one, 1)
        one.close()
    assert rows_of(path) == {"fit": 4}
    assert list(tmp_path.glob("*.rows"))
    last = FunctionMemory(path)
    learned(last, 1)
    last.close()
    assert rows_of(path) == {"fit": 5}
    assert not list(tmp_path.glob("*.rows"))


@pytest.mark.parametrize("data", [b"", b"no header\n", b'{"taken": []}\nno state', b'["taken"]\n'])
def test_a_damaged_file_is_put_aside(tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.state"
    path.write_bytes(data)
    memory = FunctionMemory(path)
    learned(memory, 2)
    memory.close()
    assert rows_of(path) == {"fit": 2}
    assert path.with_suffix(".damaged").read_bytes() == data
    assert "put aside" in caplog.text


def test_rows_that_cannot_be_read_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.state"
    (tmp_path / "t.1-1-1.rows").write_text('[["fit"')
    (tmp_path / "t.1-1-2.rows").write_text('[["fit", 1.0, 1, 1.0, NaN, true], ["fit", 1.0, 1, -1.0, NaN, true]]')
    memory = FunctionMemory(path)
    learned(memory, 1)
    memory.close()
    assert rows_of(path) == {"fit": 2}
    assert "are lost" in caplog.text
    assert "1 of 2 runs are not learned" in caplog.text


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    memory = FunctionMemory(tmp_path / "file" / "t.state")
    learned(memory, 2)
    assert float(memory.predict("fit", predictor=1.0, cores=1).elapsed_s) == pytest.approx(1.0, rel=0.1)
    memory.close()
    assert caplog.text
    (tmp_path / "file").unlink()
    memory.close()  # as when the process ends
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
before = path.read_bytes()
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
    advised.close()
    assert path.read_bytes() == before
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
now[0] += 1.0
assert [pool.get_num_threads() for pool in GRANTS.pools.shared] == limits
assert len(list(path.parent.glob(f"*.{child}-*.rows"))) == 1
run("parent")
advised.close()
"""


def test_a_forked_child_never_writes_its_parents_state(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, str(path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # The fork took no time of its block, on the clock of the parent, which had three, four and one runs beside.
    assert rows_of(path) == {"parent": 8, "child": 2}
