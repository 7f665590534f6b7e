"""`advisor predict-run`: a table out, errors in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program_runs import runs

from advisor import Advisor
from advisor.cli import main


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path, advisor = tmp_path / "runs.state", Advisor()
    for each in runs():
        advisor.observe_run("law", **each)
    path.write_bytes(advisor.to_bytes())
    return path


def called(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in arguments])
    reported = capsys.readouterr()
    return int(caught.value.code or 0), reported.out, reported.err


def test_a_program_is_asked_at_every_size_and_number_of_workers(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = called(capsys, "predict-run", "law", "--state", state, "--size", "800,6400", "--workers", "8,36")
    assert status == 0
    assert len(out.splitlines()) == 6
    assert "law: extended, 72 runs" in out
    status, out, _ = called(capsys, "predict-run", "law", "--state", state, "--size", 800, "--workers", 4, "--json")
    reported = json.loads(out)
    assert (status, reported["size"], reported["workers"], reported["model"]) == (0, [800.0], [4.0], "extended")
    assert reported["low_s"][0] < reported["elapsed_s"][0] < reported["high_s"][0]


def test_a_program_that_is_not_known_is_refused(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = called(capsys, "predict-run", "lw", "--state", state, "--size", 800, "--workers", 4)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "'lw'" in err
