"""`advisor predict-run` and `observe-run`: tables in, tables out, errors in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from program_runs import runs

from advisor.cli import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["program", "note", *runs()[0]])
        writer.writeheader()
        for each in runs():
            writer.writerow({"program": "law", "note": "ignored", **each})
    return path


def called(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in arguments])
    reported = capsys.readouterr()
    return int(caught.value.code or 0), reported.out, reported.err


def test_a_table_is_learned_and_asked(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "predict-run", "law", "--runs", table, "--size", "800,6400", "--workers", "8,36")
    assert status == 0
    assert len(out.splitlines()) == 6
    assert "law: extended, 72 runs" in out
    status, out, _ = called(capsys, "predict-run", "law", "--runs", table, "--size", 800, "--workers", 4, "--json")
    reported = json.loads(out)
    assert (status, reported["size"], reported["workers"], reported["model"]) == (0, [800.0], [4.0], "extended")
    assert reported["low_s"][0] < reported["elapsed_s"][0] < reported["high_s"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("workers", "wrkers"), "one column workers"), (("100.0", "many"), "line 2"), (("100.0", "-1"), "size is -1"),
        (("law", "other"), "no runs of the program 'law'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_said(
    table: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], said: str
) -> None:
    table.write_text(table.read_text().replace(*change))
    status, out, err = called(capsys, "predict-run", "law", "--runs", table, "--size", 800, "--workers", 4)
    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
