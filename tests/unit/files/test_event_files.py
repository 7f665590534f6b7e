"""Events to a file and back, the picture of their profile, and the command over all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from task_program import Program, recursive

from advisor.cli import main
from advisor.domain.task_events import RECORD, Clock, EventWriter, Kind, TaskEvents
from advisor.errors import InvalidValue
from advisor.files.events import read_events, write_events
from advisor.files.profiles import read_profile
from advisor.profile.profiler import Profiler
from advisor.profile.view import profile_of


@pytest.fixture
def run() -> TaskEvents:
    return Program(2, recursive(3, 2, 1000)).run()


def test_what_is_written_is_read(tmp_path: Path, run: TaskEvents) -> None:
    path = tmp_path / "run.events"
    later = np.array([(5, 2**63, 0, 0, 0, Kind.CREATE, 0), (6, 1, 2**64 - 3, 0, 0, Kind.PARAMETER, 0)], RECORD)
    clock = Clock(2e9, ((0, 7), (2000, 1007)))
    batches = [run, TaskEvents(later, ("ä b",), clock, 12)]
    assert write_events(path, batches) == len(run) + 2
    for before, after in zip(batches, read_events(path), strict=True):
        assert before.records.tobytes() == after.records.tobytes()
        assert (before.strings, before.clock, before.dropped) == (after.strings, after.clock, after.dropped)


def test_the_processor_time_of_a_run_is_part_of_its_file(tmp_path: Path, run: TaskEvents) -> None:
    path = tmp_path / "run.events"
    write_events(path, [run, replace(run, strings=(), records=run.records[:0], ended=True, cpu_s=0.25)])
    assert read_profile(path).measures.cpu_s == 0.25
    for strange in (-1.0, np.inf, np.nan):
        write_events(path, [replace(run, cpu_s=strange)])
        with pytest.raises(InvalidValue, match="cpu_s"):
            read_profile(path)


def test_damage_is_told(tmp_path: Path, run: TaskEvents) -> None:
    path = tmp_path / "run.events"
    write_events(path, [run, run])
    whole = path.read_bytes()
    for size in (9, 30, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidValue, match="cut short"):
            list(read_events(path))
    for place in (8, 14, 40, len(whole) - 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(InvalidValue):
            list(read_events(path))
    path.write_text("component,x\n")
    with pytest.raises(InvalidValue, match="task events"):
        list(read_events(path))
    with pytest.raises(InvalidValue, match="task events"):
        read_profile(path)
    with pytest.raises(InvalidValue, match="can be read"):
        read_profile(tmp_path / "nothing")


def test_ticks_become_nanoseconds() -> None:
    clock = Clock(3e9, ((10**15, 500), (10**15 + 3 * 10**9, 10**9 + 500)))
    ticks = np.array([10**15 - 3000, 10**15, 10**15 + 3, 10**15 + 3 * 10**9], np.uint64)
    assert clock.nanoseconds(ticks).tolist() == [-500, 500, 501, 10**9 + 500]
    assert clock.drift_ns([(10**15 + 6 * 10**9, 2 * 10**9 + 530)]) == pytest.approx(30.0)
    for bad in (
        {"ticks_per_s": 0.0},
        {"ticks_per_s": float("nan")},
        {"anchors": ((-1, 0),)},
        {"anchors": ((0, 0),) * 17},
    ):
        with pytest.raises(Exception, match="clock"):
            Clock(**bad)  # type: ignore[arg-type]


def test_sizes_and_parameters_reach_instances_and_nodes() -> None:
    out = EventWriter()
    out.add_event(0, Kind.CREATE, instance=1, type="A")
    out.add_event(0, Kind.SIZE, instance=1, other=int(np.float64(64.0).view(np.uint64)))
    out.add_event(1, Kind.BEGIN, instance=1)
    out.add_event(1, Kind.PARAMETER, type="depth", other=3)
    out.add_event(1, Kind.SIZE, other=int(np.float64(np.nan).view(np.uint64)))
    out.add_event(9, Kind.END, instance=1)
    profiler = Profiler(window_ns=0, compiled=False)
    folded = profiler.fold_batch(out.batch())
    assert folded.accepted == 6
    assert folded.sizes.tolist() == [64.0]
    assert folded.ended.tolist() == [[0, 8, 1, 1]]
    profile = profile_of(profiler)
    labels = {profile.label(node): node for node in range(len(profile))}
    assert profile.inclusive_ns[labels["depth=3"]] == 8
    again = type(profile).from_dict(json.loads(json.dumps(profile.as_dict())))
    assert again.as_dict() == profile.as_dict()


def test_the_command_shows_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "run.events")
    write_events(Path(path), [Program(4, recursive(6, 3, 300), contention=2.0).run()])

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["profile", *arguments])
        said = capsys.readouterr()
        assert ended.value.code == 0, said.err
        return said.out

    shown = call(path, "--stacks", str(tmp_path / "stacks.txt"))
    stacks = dict(line.rsplit(" ", 1) for line in (tmp_path / "stacks.txt").read_text().splitlines())
    assert sum(map(int, stacks.values())) == read_profile(Path(path)).exclusive_ns.sum()
    assert max(stacks, key=lambda each: each.count(";")).startswith("tasks;solve task;depth=")
    assert "solve task (task)" in shown
    assert "depth=6" in shown
    assert "1,092 tasks" in shown
    assert "tasks of solve task are too small" in shown
    reported = json.loads(call(path, "--json"))
    assert reported["profile"]["measures"]["ends"] == 1092


def test_the_command_shows_what_comes_before_a_cut_and_says_what_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.events"
    run = Program(2, recursive(3, 2, 1000)).run()
    records = run.records[run.records["time"].argsort(kind="stable")]
    write_events(path, [TaskEvents(records[:200], run.strings), TaskEvents(records[200:])])
    whole = path.read_bytes()

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["profile", str(path), *arguments])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    path.write_bytes(whole[:-1])
    status, shown, reported = call()
    assert status == 0
    assert "solve task (task)" in shown
    assert "what comes before is shown" in reported
    path.write_bytes(whole[:100])
    status, shown, reported = call()
    assert (status, shown) == (2, "")
    assert "cut short" in reported
    path.write_bytes(whole)
    for arguments, word in (
        (("--least", "2"), "range"),
        (("--depth", "-1"), "range"), (("--stacks", "/no/such/p"), "can be written"),
    ):  # fmt: skip
        status, _, reported = call(*arguments)
        assert status == 2
        assert word in reported
        assert "Traceback" not in reported
