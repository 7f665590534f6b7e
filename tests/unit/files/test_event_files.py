"""Events to a file and back, the picture of their profile, and the command over all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from task_program import Program, recursive

from advisor.cli import main
from advisor.domain.task_events import RECORD, Clock, EventWriter, Kind, TaskEvents, decode
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
    with pytest.raises(InvalidValue, match="JSON"):
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


def test_sizes_and_parameters_reach_instances_and_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    (tmp_path / "p.json").write_text(json.dumps(profile.as_dict()))
    with pytest.raises(SystemExit):
        main(["profile", str(tmp_path / "p.json")])
    assert "depth=3" in capsys.readouterr().out


def test_further_fields_of_records_are_passed_over(run: TaskEvents) -> None:
    wide = np.zeros((len(run), 40), np.uint8)
    wide[:, :32] = run.records.view(np.uint8).reshape(len(run), 32)
    assert (decode(wide.tobytes(), run.strings, further=["misses"]).records == run.records).all()
    with pytest.raises(InvalidValue, match="multiple of 40"):
        decode(wide.tobytes()[:-8], further=["misses"])


def test_the_command_shows_one_run_and_compares_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for threads in (1, 4):
        path = tmp_path / f"run{threads}.events"
        write_events(path, [Program(threads, recursive(6, 3, 300), contention=2.0).run()])
        files.append(str(path))

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["profile", *arguments])
        said = capsys.readouterr()
        assert ended.value.code == 0, said.err
        return said.out

    shown = call(files[1], "--picture", str(tmp_path / "p.html"))
    assert "solve task (task)" in shown
    assert "depth=6" in shown
    assert "1,092 tasks" in shown
    assert "tasks of solve task are too small" in shown
    assert (tmp_path / "p.html").exists()
    beside = call(*files)
    assert (
        "creation grows with threads, from 1 to 4" in beside
        or "creation and synchronisation grow with threads" in beside
    )
    reported = json.loads(call(files[0], "--json"))
    assert reported["profiles"][0]["profile"]["measures"]["ends"] == 1092
    stored = tmp_path / "profile.json"
    stored.write_text(json.dumps(read_profile(Path(files[0])).as_dict()))
    assert call(str(stored)).splitlines()[1:] == call(files[0]).splitlines()[1:]


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
        (("--depth", "-1"), "range"), (("--window", "61"), "seconds"), (("--picture", "p.gif"), "html"),
    ):  # fmt: skip
        status, _, reported = call(*arguments)
        assert status == 2
        assert word in reported
        assert "Traceback" not in reported


@pytest.mark.parametrize(
    "strange",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"root":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"profiles": 7}',
        b'{"profiles": [1]}',
    ],
    ids=["lists", "maps", "number", "entry"],
)
def test_json_that_is_no_profile_is_refused_with_words(tmp_path: Path, strange: bytes) -> None:
    file = tmp_path / "strange.json"
    file.write_bytes(strange)
    with pytest.raises(InvalidValue, match="profile"):
        read_profile(file)
