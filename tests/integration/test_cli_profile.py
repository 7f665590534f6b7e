"""`advisor profile` against a service process: which runs there are, and one of them while it lasts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from task_program import Program, recursive

from advisor.cli import main
from advisor.client import SyncClient
from advisor.demo.service_process import serving


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
        shown = call(*at, "--producer", "mine", "--picture", str(tmp_path / "p.html"))  # with what waits
        assert "solve task (task)" in shown
        assert "14 tasks" in shown
        assert "ask for" in shown
        assert (tmp_path / "p.html").exists()
        (whole,) = json.loads(call(*at, "--producer", "mine", "--json"))["profiles"]
        assert whole["profile"]["measures"]["ends"] == 14
        assert json.loads(call(*at, "--json"))["runs"][0]["notes"] == {"events_waiting": len(events)}
        assert "one that sent task events: mine" in call(*at, "--producer", "nobody", status=2)
        assert "1 to 200 bytes" in call(*at, "--producer", "", status=2)
        assert "no service is asked" in call(*at, str(tmp_path / "p.json"), status=2)
        assert "is a --socket" in call("--tcp", "127.0.0.1:1", "--", "./program", status=2)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nothing"))
        monkeypatch.delenv("ADVISOR_SOCKET", raising=False)
        assert "--socket" in call("--producer", "mine", status=2)
        monkeypatch.setenv("ADVISOR_SOCKET", str(socket))
        assert call() == reported
        assert "14 tasks" in call("--producer", "mine")
        assert "--record" in call(*at, "--producer", "mine", "--trace", str(tmp_path / "t.json"), status=2)
