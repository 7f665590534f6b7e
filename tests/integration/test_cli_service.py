"""The command line against a real service process on a Unix socket: serve, ask, forget, stop, start again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from service_process import served, serving
from snet_runs import write_run
from task_program import Program, recursive
from terminal import in_terminal

from advisor import Advisor
from advisor.cli import advisor, main
from advisor.client import SyncClient
from advisor.errors import ConnectionFailed


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisor.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def answer(*arguments: str | Path) -> Any:
    """Run a command in this process: a service's answer is the same, and to start a process takes longer than all else."""
    done = CliRunner().invoke(advisor, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def teach(socket: Path) -> None:
    with SyncClient(str(socket), producer="test") as client:
        for size in (100.0, 200.0, 400.0):
            for cores in (1, 2, 4):
                client.observe("work", predictor=size, cores=cores, elapsed_s=1e-3 * size * (0.2 + 0.8 / cores))
        client.flush()


def rounded(found: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction without its last digits: a service answers with compiled kernels once it has them."""
    return {
        key: [float(f"{one:.9g}") for one in value] if key in ("elapsed_s", "low_s", "high_s") else value
        for key, value in found.items()
    }


def test_a_service_is_asked_stopped_and_started_again(tmp_path: Path) -> None:
    state, network = tmp_path / "state", tmp_path / "one.snet"
    network.write_text("box work ((a) -> (a)); net one connect work;")
    with serving(tmp_path, "--state", state, "--model-memory", str(2**26)) as (socket, process):
        teach(socket)
        found = answer("predict", "work", "--predictor", "300", "--cores", "2", "--socket", socket)
        assert found["elapsed_s"] == [pytest.approx(0.18, rel=2e-2)]
        assert (
            answer("choose-cores", "work", "--predictor", "300", "--cores-max", "4", "--socket", socket)["cores"] == 4
        )
        plan = answer("allocate", network, "--cores", "3", "--load", "work=300", "--socket", socket)
        assert plan["cores"] == {"work": 3}
        networks = tmp_path / "networks.json"
        networks.write_text('[{"network": "work", "weight": 2}, {"network": "work .. work"}]')
        both = answer("allocate-together", networks, "--cores", "8", "--socket", socket)
        rates = [part["guaranteed_per_s"] for part in both["networks"]]
        assert rates[0] == pytest.approx(2 * rates[1])
        status = answer("status", "--socket", socket)
        assert [entry["component"] for entry in status["components"]] == ["work"]
        exported = tmp_path / "while-running"
        assert answer("export", exported, "--state", state)["components"] == 1
        assert answer("export", tmp_path / "of-service", "--socket", socket)["components"] == 1
        reported = [Advisor.from_bytes(file.read_bytes()) for file in (tmp_path / "of-service", exported)]
        assert reported[0].extract() == reported[1].extract()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    before = answer("predict", "work", "--predictor", "300", "--cores", "2", "--state", state)
    assert rounded(before) == rounded(found)
    with serving(tmp_path, "--state", state) as (socket, _):
        assert rounded(answer("predict", "work", "--predictor", "300", "--cores", "2", "--socket", socket)) == rounded(
            found
        )
        assert answer("pin", "work", "two_step", "--socket", socket)["model"] == "two_step"
        pinned = answer("predict", "work", "--predictor", "300", "--cores", "2", "--socket", socket)
        assert pinned["model"].startswith("two_step")
        assert "two_step (pinned)" in run("status", "--socket", socket).stdout
        assert "evidence" in run("pin", "work", "--clear", "--socket", socket).stdout
        assert rounded(answer("predict", "work", "--predictor", "300", "--cores", "2", "--socket", socket)) == rounded(
            found
        )
        crystal = run("pin", "work", "crystal", "--socket", socket)
        assert (crystal.returncode, "crystal" in crystal.stderr) == (2, True)
        suggested = answer("suggest", "work", "--cores-max", "8", "--limit", "1", "--socket", socket)["suggestions"]
        at_rest = answer("suggest", "work", "--cores-max", "8", "--limit", "1", "--state", state)["suggestions"]
        assert [(one["predictor"], one["cores"]) for one in suggested] == [
            (one["predictor"], one["cores"]) for one in at_rest
        ]
        unasked = run("forget", "work", "--socket", socket)
        assert (unasked.returncode, "--yes is needed" in unasked.stderr) == (2, True)
        no, yes = (
            in_terminal([["forget", "work", "--socket", socket]], 80, f"{word}\n", errors=True)[0] for word in "ny"
        )
        assert "forget work?" in no
        assert "forgot what" not in no
        assert "forgot what was learned of work" in yes
        gone = answer("predict", "work", "--socket", socket)
        assert (gone["model"], gone["observations"], gone["extrapolates"]) == ("prior", 0, [None])
        numbers = {"workers": 1, "elapsed-s": 1, "work-s": 1, "delay-s": 0, "no-work-s": 0, "creates": 1, "waits": 1}
        reported = [text for name, value in numbers.items() for text in (f"--{name}", str(value))]
        assert run("observe-run", "sort", "--size", "5", *reported, "--socket", socket).returncode == 0
        assert (
            run("forget", "--program", "sort", "--yes", "--socket", socket).stdout == "forgot the program sort: 1 run\n"
        )
        for wrong in (["--program", "sort"], [], ["work", "--program", "sort"]):
            assert run("forget", *wrong, "--yes", "--socket", socket).returncode == 2
        watched = run("watch", network, "--cores", "2", "--count", "1", "--within", "0.01", "--socket", socket)
        assert f"watching {network}: a better allocation" in watched.stderr


def test_an_exported_state_is_imported_and_served(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(
        "component,x,p,t\n" + "".join(f"c,{x},{p},{x * (0.5 + 0.5 / p)}\n" for x in (1, 2, 3) for p in (1, 2, 4))
    )
    assert run("export", tmp_path / "out", "--table", table).returncode == 0
    assert run("import", tmp_path / "out", "--state", tmp_path / "state").returncode == 0
    question = ("predict", "c", "--predictor", "2.5", "--cores", "3")
    with serving(tmp_path, "--state", tmp_path / "state") as (socket, _):
        assert rounded(answer(*question, "--socket", socket)) == rounded(answer(*question, "--table", table))


def test_a_service_that_dies_at_once_is_told_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match="--connections-max is -1"), serving(tmp_path, "--connections-max", "-1"):
        pass


def test_a_service_of_a_demo_lives_as_long_as_its_block() -> None:
    with served("test") as client:
        client.observe("work", predictor=1.0, cores=1, elapsed_s=0.5)
        client.flush()
        assert client.status(True)["totals"]["rows_accepted"] == 1
    with pytest.raises(ConnectionFailed):
        client.hello(timeout_s=1.0)


def test_a_service_learns_logs_once_through_a_kill(tmp_path: Path) -> None:
    written = write_run(40, seed=21)
    logs, state = tmp_path / "film", tmp_path / "state"
    logs.mkdir()
    for share in (0.5, 1.0):
        for name, text in written.files.items():
            (logs / name).write_text(text[: int(share * len(text))])
        with serving(tmp_path, "--state", state) as (socket, process):
            reported = answer("learn", "--from", "snet", logs, "--socket", socket)
            assert reported["ended"] is (share == 1.0)
            process.kill()
    with serving(tmp_path, "--state", state) as (socket, _):
        again = answer("learn", "--from", "snet", logs, "--socket", socket)
        assert (again["rows"], again["learned_before"]) == (0, len(written.runs))
        rows = {each["component"]: each["rows"] for each in answer("status", "--socket", socket)["components"]}
    assert rows == Counter(box for box, _, _ in written.runs)


# -- profiles ---------------------------------------------------------------------------------------------------------------


def test_a_service_is_asked_for_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*arguments: str, status: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["profile", *arguments])
        said = capsys.readouterr()
        assert ended.value.code == status, said.err
        return said.err if status else said.out

    events = Program(2, recursive(3, 2, 1000)).run()
    with serving(tmp_path) as (socket, _):
        at = ("--socket", str(socket))
        assert call(*at) == "no run of tasks was sent yet\n"
        assert json.loads(call(*at, "--json")) == {"runs": []}
        with SyncClient(str(socket), producer="mine") as client:
            client.task_events(events.records, strings=list(events.strings))
        reported = call(*at)
        assert "mine" in reported
        assert f"events waiting {len(events)}" in reported
        shown = call(*at, "--producer", "mine", "--stacks", str(tmp_path / "p.txt"))  # with what waits
        assert "solve task (task)" in shown
        assert "14 tasks" in shown
        assert (tmp_path / "p.txt").read_text().startswith("tasks;solve task")
        whole = json.loads(call(*at, "--producer", "mine", "--json"))
        assert whole["profile"]["measures"]["ends"] == 14
        assert json.loads(call(*at, "--json"))["runs"][0]["notes"] == {"events_waiting": len(events)}
        assert "one that sent task events: mine" in call(*at, "--producer", "nobody", status=2)
        assert "1 to 200 bytes" in call(*at, "--producer", "", status=2)
        assert "no service is asked" in call(*at, str(tmp_path / "p.json"), status=2)
        assert "no service is asked" in call(*at, "--", "./program", status=2)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nothing"))
        monkeypatch.delenv("ADVISOR_SOCKET", raising=False)
        assert "--socket" in call("--producer", "mine", status=2)
        monkeypatch.setenv("ADVISOR_SOCKET", str(socket))
        assert call() == reported
        assert "14 tasks" in call("--producer", "mine")
