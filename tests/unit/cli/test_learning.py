"""`advisor learn --from snet`: the same run teaches once, to a state or a service, however often and in however many pieces."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from snet_runs import TEXT, Written, write_run

from advisor import Advisor
from advisor.cli import learning, main
from advisor.cli.source import stored

RUN = write_run(30, seed=11)


def write(directory: Path, written: Written, share: float = 1.0) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in written.files.items():
        (directory / name).write_text(text[: int(share * len(text))])
    return directory


def learn(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    with pytest.raises(SystemExit) as caught:
        main(["learn", "--from", "snet", "--json", *map(str, arguments)])
    reported = capsys.readouterr()
    assert not caught.value.code, reported.err
    return json.loads(reported.out)


def rows_of(state: Path) -> Counter[str]:
    advisor = stored(state)
    return Counter({each["component"]: each["rows"] for each in advisor.status()["components"]})


BOXES = Counter(box for box, _, _ in RUN.runs)


def test_a_state_learns_a_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, state = write(tmp_path / "film", RUN), tmp_path / "state"
    (tmp_path / "film.snet").write_text(TEXT)
    reported = learn(capsys, logs, "--state", state, "--definition", tmp_path / "film.snet")
    assert reported == {
        "network": "film", "rows": len(RUN.runs), "refused": {}, "learned_before": 0, "unmapped": 0, "ended": True
    }  # fmt: skip
    for directory in (logs, write(tmp_path / "copied", RUN)):
        reported = learn(capsys, directory, "--state", state, "--network", "film")
        assert (reported["rows"], reported["learned_before"]) == (0, len(RUN.runs))
    assert rows_of(state) == BOXES
    assert stored(state).flow("film").visits["large"] == RUN.branches["large"] / 30
    learn(capsys, write(tmp_path / "film", write_run(30, seed=12)), "--state", state)  # another run in the same place
    assert stored(state).flow("film").records == 60


class Taught:
    """A sink that holds what was allowed."""

    def __init__(self) -> None:
        self.advisor = Advisor()

    def ask(self, questions: list[Any]) -> None:
        for each in questions:
            self.advisor.set_allowed(each.component, each.allowed)


def test_boxes_that_ran_on_one_core_and_have_no_counts_are_held_to_it() -> None:
    sink: Any = Taught()
    for name, cores in (("known", 1), ("wide", 2), ("own", 1)):
        sink.advisor.observe(name, predictor=1.0, cores=cores, elapsed_s=1.0)
    sink.advisor.set_allowed("own", [1, 2])
    sink.advisor.observe("new", predictor=1.0, cores=1, elapsed_s=1.0)
    assert not [*learning._allow_one_core({"known", "wide", "own", "new"}, sink)]
    (refused,) = learning._allow_one_core({"nobody"}, sink)
    assert refused.startswith("nobody: not held to one core")
    entries = sink.advisor.status()["components"]
    assert {each["component"]: each.get("allowed") for each in entries} == {
        "known": [1], "wide": None, "own": [1, 2], "new": [1]
    }  # fmt: skip


def test_a_run_cut_short_waits_unless_it_is_said_to_be_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, state = write(tmp_path / "film", RUN, 0.5), tmp_path / "state"
    first = learn(capsys, logs, "--state", state)
    assert not first["ended"]
    second = learn(capsys, logs, "--state", state, "--ended")
    assert second["learned_before"] == first["rows"]
    assert second["rows"] > 0


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*arguments: object) -> str:
        with pytest.raises(SystemExit) as caught:
            main(["learn", "--from", "snet", *map(str, arguments)])
        assert caught.value.code == 2
        return capsys.readouterr().err

    assert "mon_n00_worker00.log" in fails(tmp_path, "--state", tmp_path / "state")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "mon_n00_worker00.log").write_text("5S#10I7 5 #20E#")
    assert "-m A" in fails(logs, "--state", tmp_path / "state")
    assert "and --state FILE" in fails(logs)
    (logs / "mon_n00_worker00.log").write_text("what is this#")
    assert "format 2.2" in fails(logs, "--state", tmp_path / "state")
