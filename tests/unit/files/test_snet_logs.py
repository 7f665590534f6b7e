"""Logs of S-Net's stream runtime: exact times, shares and depths however they are cut, each run once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snet_runs import HEADER, TEXT, Written, write_run

from advisor import Advisor
from advisor.errors import InvalidValue, TooLarge
from advisor.files import snet_logs
from advisor.files.snet_logs import Entries
from advisor.files.snet_runs import Row, SnetFiles, SnetRun
from advisor.protocol.rows import columns_of_rows

SMALL = write_run(40, seed=3)


def fed(written: Written, *, cut: float = 1.0, final: bool = True) -> list[Row]:
    run = SnetRun("film")
    for name, text in sorted(written.files.items(), reverse=True):
        run.feed(name, text.encode()[: int(cut * len(text))])
    return list(run.rows(final=final))


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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 400))
def test_however_the_files_are_cut_and_mixed_the_rows_are_the_same(seed: int, pieces: int) -> None:
    rng = random.Random(seed)
    run, rows = SnetRun("film"), list[Row]()
    left = {name: text.encode() for name, text in SMALL.files.items()}
    for name in left:  # a program makes its files when it starts
        run.feed(name, b"")
    while left:
        name = rng.choice(sorted(left))
        cut = rng.randrange(1, 2 + len(left[name]) * 2 // pieces)
        data, left[name] = left[name][:cut], left[name][cut:]
        run.feed(name, data)
        if not left[name]:
            del left[name]
        if rng.random() < 0.5:
            rows += run.rows(final=False)
    rows += run.rows(final=True)
    whole = fed(SMALL)
    assert Counter(map(repr, rows)) == Counter(map(repr, whole))
    for producer in {row.producer for row in rows}:
        assert [row for row in rows if row.producer == producer] == [row for row in whole if row.producer == producer]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=len(SMALL.files), max_size=len(SMALL.files)))
def test_what_is_told_of_a_run_that_grows_is_told_the_same_of_all_of_it(cuts: list[float]) -> None:
    """Stopped anywhere and begun anew, what was told before is a beginning of what is told then, by producer and number."""
    run = SnetRun("film")
    for cut, (name, text) in zip(cuts, sorted(SMALL.files.items(), reverse=True), strict=True):
        run.feed(name, text.encode()[: int(cut * len(text))])
    before = list(run.rows(final=False))
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
    files = SnetFiles(tmp_path, "film")
    rows = list(files.rows())
    assert files.run.grows
    for name, text in SMALL.files.items():
        (tmp_path / name).write_text(text)
    rows += files.rows()
    assert not files.run.grows
    assert files.bytes_read == files.bytes_total
    rows += files.rows(final=True)
    assert runs_of(rows) == Counter(SMALL.runs)


@pytest.mark.parametrize("how", ["cut off", "replaced"])
def test_another_run_that_begins_in_the_same_place_is_told(tmp_path: Path, how: str) -> None:
    for name, text in SMALL.files.items():
        (tmp_path / name).write_text(text)
    files = SnetFiles(tmp_path, "film")
    assert list(files.rows(final=True))
    log = tmp_path / "mon_n00_worker00.log"
    if how == "cut off":
        log.write_text(HEADER)
    else:
        (tmp_path / "new").write_text(SMALL.files[log.name] + "7S#")
        (tmp_path / "new").rename(log)
    with pytest.raises(InvalidValue, match="another run began here"):
        list(files.rows())


def test_a_run_lasts_from_its_record_to_the_next_or_to_the_stop() -> None:
    run = SnetRun("net")
    run.feed("n00_tasks.map", b"7:S1 box 0#")
    log = b"5S#1000I7 500 600I0.1S8;700I0.2S16;#2000O7 100 1950I0.3S1;#2300R7 200 2150O0.4S1;#2500I7 100 #2600E#WC3WT5"
    run.feed("mon_n00_worker00.log", log)
    assert not run.grows
    assert [(row.predictor, round(row.elapsed_s * 1e9)) for row in run.rows(final=True)] == [
        (8, 100),
        (16, 300),
        (1, 350),
    ]


def test_a_record_that_would_come_of_itself_comes_of_nobody() -> None:
    run = SnetRun("net")
    run.feed("n00_tasks.map", b"7:S1 box 0#8:S2 other 0#")
    run.feed("mon_n00_worker00.log", b"1000I7 500 600I0.1S8;700O0.1S8;#2000I7 500 1600I0.2S8;#")
    run.feed("mon_n00_worker00.log", b"2100I8 500 1700I0.3S8;1800O0.2S8;#2200I7 50 2150I0.4S8;2160O0.3S8;#")
    assert len(list(run.rows(final=True))) == 4


def test_a_run_that_never_ended_is_no_time_and_holds_back_until_the_end() -> None:
    run = SnetRun("net")
    run.feed("n00_tasks.map", b"7 one 0#8:S2 two 0#")
    run.feed("mon_n00_worker00.log", b"5S#1000O7 500 600I0.1S8;#1500I8 100 1400I0.1S4;#")
    assert list(run.rows(final=False)) == []
    first, second = run.rows(final=True)
    assert (first.component, first.more["running"], first.elapsed_s) == ("one", True, 4e-7)
    assert (second.component, second.elapsed_s) == ("two", 1e-7)
    assert "running" not in second.more


def test_splits_filters_cells_and_wrappers_are_followed() -> None:
    run = SnetRun("net")
    tasks = b"1glob_input -1#2:S1 <filter> 0#3:S2:I4 inner 0#4:S2:I9 inner 0#5:S3 <sync> 0#6:S4 last 0#"
    run.feed("n00_tasks.map", tasks)
    run.feed("mon_n00_glob_input.log", b"10I1 5 8I0.1S5;#20I1 5 18I0.2S5;#")
    run.feed("mon_n00_worker00.log", (
        b"30I2 5 26I0.1S5;28O0.3S5;#40I2 5 36I0.2S5;38O0.4S5;#"
        b"50I3 5 46I0.3S5;48O0.5S5;#60I4 5 56I0.4S5;58O0.6S5;#"
        b"70I5 5 66I0.5S5;67I0.6S5;68O0.7S5;#80I6 5 76I0.7S5;#"
    ))  # fmt: skip
    rows = list(run.rows(final=True))
    assert [(row.component, row.more.get("replica")) for row in rows] == [("inner", 4), ("inner", 9), ("last", None)]
    assert not any("entered" in row.more for row in rows)


def test_a_file_that_is_no_log_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snet_logs, "ENTRY_BYTES_MAX", 100)
    with pytest.raises(TooLarge, match="no monitor log"):
        Entries("log").feed(b"x" * 101)
    with pytest.raises(InvalidValue, match=r"mon_n00_worker00\.log and the like"):
        SnetFiles(tmp_path, "net")
    with pytest.raises(InvalidValue, match="can be read"):
        SnetFiles(tmp_path / "none", "net")


@pytest.mark.parametrize("workers", [True, False])
def test_a_task_with_a_log_of_its_own_ends_it(workers: bool) -> None:
    """A central scheduler writes no end entry of them; without entries of workers nothing else says that the run is over."""
    run = SnetRun("net")
    begins, ends = (b"1S#", b"900E#") if workers else (b"", b"")
    outside = ("mon_n00_glob_input.log", "mon_n00_glob_output.log")
    for name in outside:
        run.feed(name, begins + b"300I1 5 8I0.1S5;#")
    run.feed("mon_n00_worker00.log", begins + b"200I7 50 160I0.1S8;#" + ends)
    for name in outside:
        assert run.grows is workers
        run.feed(name, b"400Z1 5 9#")
    assert not run.grows
