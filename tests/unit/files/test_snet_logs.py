"""Logs of S-Net's stream runtime: exact times, shares and depths however they are cut, each run once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snet_runs import TEXT, Written, write_run

from advisor import Advisor
from advisor.errors import InvalidValue, TooLarge
from advisor.files import snet_logs
from advisor.files.snet_logs import Entries
from advisor.files.snet_runs import Row, SnetRun, run_in
from advisor.protocol.rows import columns_of_rows

SMALL = write_run(40, seed=3)


def run_of(files: dict[str, bytes]) -> SnetRun:
    return SnetRun({name: [data] for name, data in files.items()}, "film")


def fed(written: Written) -> list[Row]:
    return list(run_of({name: text.encode() for name, text in written.files.items()}).rows(ended=True))


def runs_of(rows: list[Row]) -> Counter[tuple[str, int, int]]:
    return Counter((row.component, int(row.predictor), round(row.elapsed_s * 1e9)) for row in rows)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("blocked", [0.0, 0.5])
def test_a_run_gives_its_times_shares_and_depths_exactly(mapped: bool, blocked: float) -> None:
    written = write_run(300, seed=5, mapped=mapped, blocked=blocked)
    rows = fed(written)
    assert runs_of(rows) == Counter(written.runs)
    assert Counter(row.component for row in rows if row.component in written.branches) == written.branches
    assert sum(row.component == "step" for row in rows) == sum(depth * n for depth, n in written.depths.items())
    assert sum("entered" in row.more for row in rows) == written.records
    assert {row.more["network"] for row in rows} == {"film"}


def test_the_flow_of_a_network_is_learned_without_any_annotation() -> None:
    written = write_run(300, seed=6)
    advisor = Advisor()
    advisor.define_network(TEXT, id="film")
    for row in fed(written):
        advisor.learn_batch(columns_of_rows([row.plain()]))
    flow = advisor.flow("film")
    assert flow.shares == ([written.branches["small"] / 300, written.branches["large"] / 300],)
    assert flow.visits["step"] == pytest.approx(sum(depth * n for depth, n in written.depths.items()) / 300)
    assert flow.depths == (pytest.approx(flow.visits["step"]),)
    assert advisor.predict("large", predictor=20).elapsed_s == pytest.approx(9e-6 * 20, rel=0.02)


def cut(data: bytes, rng: random.Random, pieces: int) -> Iterator[bytes]:
    while data:
        at = rng.randrange(1, 2 + len(data) * 2 // pieces)
        yield data[:at]
        data = data[at:]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 400))
def test_however_the_files_are_cut_and_mixed_the_rows_are_the_same(seed: int, pieces: int) -> None:
    rng = random.Random(seed)
    files = list(SMALL.files.items())
    rng.shuffle(files)
    rows = list(SnetRun({name: cut(text.encode(), rng, pieces) for name, text in files}, "film").rows(ended=True))
    whole = fed(SMALL)
    assert Counter(map(repr, rows)) == Counter(map(repr, whole))
    for producer in {row.producer for row in rows}:
        assert [row for row in rows if row.producer == producer] == [row for row in whole if row.producer == producer]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=len(SMALL.files), max_size=len(SMALL.files)))
def test_what_is_told_of_a_run_that_grows_is_told_the_same_of_all_of_it(cuts: list[float]) -> None:
    """Stopped anywhere and begun anew, what was told before is a beginning of what is told then, by producer and number."""
    files = {
        name: text.encode()[: int(share * len(text))]
        for share, (name, text) in zip(cuts, sorted(SMALL.files.items()), strict=True)
    }
    before = list(run_of(files).rows())
    whole = {(row.producer, row.sequence): row for row in fed(SMALL)}
    assert all(whole[row.producer, row.sequence] == row for row in before)
    for producer in {row.producer for row in before}:
        numbers = [row.sequence for row in before if row.producer == producer]
        assert numbers == list(range(1, len(numbers) + 1))


def test_files_are_read_a_chunk_at_a_time_and_as_they_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.files.snet_runs.CHUNK_BYTES", 500)
    for name, text in SMALL.files.items():
        (tmp_path / name).write_text(text[: len(text) // 3])
    (tmp_path / "notes.txt").write_text("nothing of ours")
    run, _ = run_in(tmp_path, "film")
    first = list(run.rows())
    assert run.grows
    for name, text in SMALL.files.items():
        (tmp_path / name).write_text(text)
    run, total = run_in(tmp_path, "film")
    rows = list(run.rows())
    assert not run.grows
    assert run.bytes_read == total
    assert runs_of(rows) == Counter(SMALL.runs)
    assert {(row.producer, row.sequence) for row in first} <= {(row.producer, row.sequence) for row in rows}


def test_what_is_written_after_the_files_were_listed_waits(tmp_path: Path) -> None:
    """Else a map that was read before its run had ended would leave out tasks for good."""
    for name, text in SMALL.files.items():
        (tmp_path / name).write_text(text if name.endswith(".map") else text[:-20])
    run, _ = run_in(tmp_path, "film")
    for name, text in SMALL.files.items():
        (tmp_path / name).write_text(text)
    assert len(list(run.rows())) < len(SMALL.runs)
    assert run.grows


def test_a_run_lasts_from_its_record_to_the_next_or_to_the_stop() -> None:
    log = b"5S#1000I7 500 600I0.1S8;700I0.2S16;#2000O7 100 1950I0.3S1;#2300R7 200 2150O0.4S1;#2500I7 100 #2600E#WC3WT5"
    run = run_of({"n00_tasks.map": b"7:S1 box 0#", "mon_n00_worker00.log": log})
    assert [(row.predictor, round(row.elapsed_s * 1e9)) for row in run.rows()] == [
        (8, 100),
        (16, 300),
        (1, 350),
    ]
    assert not run.grows


def test_a_record_that_would_come_of_itself_comes_of_nobody() -> None:
    log = b"1000I7 500 600I0.1S8;700O0.1S8;#2000I7 500 1600I0.2S8;#"
    log += b"2100I8 500 1700I0.3S8;1800O0.2S8;#2200I7 50 2150I0.4S8;2160O0.3S8;#"
    run = run_of({"n00_tasks.map": b"7:S1 box 0#8:S2 other 0#", "mon_n00_worker00.log": log})
    assert len(list(run.rows(ended=True))) == 4


def test_a_run_that_never_ended_is_no_time_and_holds_back_until_the_end() -> None:
    log = b"5S#1000O7 500 600I0.1S8;#1500I8 100 1400I0.1S4;#"
    files = {"n00_tasks.map": b"7 one 0#8:S2 two 0#", "mon_n00_worker00.log": log}
    assert list(run_of(files).rows()) == []
    first, second = run_of(files).rows(ended=True)
    assert (first.component, first.more["running"], first.elapsed_s) == ("one", True, 4e-7)
    assert (second.component, second.elapsed_s) == ("two", 1e-7)
    assert "running" not in second.more


def test_splits_filters_cells_and_wrappers_are_followed() -> None:
    tasks = b"1glob_input -1#2:S1 <filter> 0#3:S2:I4 inner 0#4:S2:I9 inner 0#5:S3 <sync> 0#6:S4 last 0#"
    worker = (
        b"30I2 5 26I0.1S5;28O0.3S5;#40I2 5 36I0.2S5;38O0.4S5;#"
        b"50I3 5 46I0.3S5;48O0.5S5;#60I4 5 56I0.4S5;58O0.6S5;#"
        b"70I5 5 66I0.5S5;67I0.6S5;68O0.7S5;#80I6 5 76I0.7S5;#"
    )
    files = {"mon_n00_glob_input.log": b"10I1 5 8I0.1S5;#20I1 5 18I0.2S5;#", "mon_n00_worker00.log": worker}
    rows = list(run_of({"n00_tasks.map": tasks} | files).rows(ended=True))
    assert [(row.component, row.more.get("replica")) for row in rows] == [("inner", 4), ("inner", 9), ("last", None)]
    assert not any("entered" in row.more for row in rows)


def test_a_file_that_is_no_log_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snet_logs, "ENTRY_BYTES_MAX", 100)
    with pytest.raises(TooLarge, match="no monitor log"):
        Entries("log").feed(b"x" * 101)
    with pytest.raises(InvalidValue, match=r"mon_n00_worker00\.log and the like"):
        run_in(tmp_path, "net")
    with pytest.raises(InvalidValue, match="can be read"):
        run_in(tmp_path / "none", "net")


@pytest.mark.parametrize("workers", [True, False])
def test_a_task_with_a_log_of_its_own_ends_it(workers: bool) -> None:
    """A central scheduler writes no end entry of them; without entries of workers nothing else says that the run is over."""
    begins, ends = (b"1S#", b"900E#") if workers else (b"", b"")
    files = {"mon_n00_worker00.log": begins + b"200I7 50 160I0.1S8;#" + ends}
    outside = ("mon_n00_glob_input.log", "mon_n00_glob_output.log")
    files |= dict.fromkeys(outside, begins + b"300I1 5 8I0.1S5;#")
    for name in (*outside, ""):
        run = run_of(files)
        list(run.rows())
        assert run.grows is (workers and name != "")
        if name:
            files[name] += b"400Z1 5 9#"
