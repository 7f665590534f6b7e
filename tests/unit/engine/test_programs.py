"""Whole programs: learned, kept, merged; what is wrong is named."""

from __future__ import annotations

import pytest
from program_runs import run, runs

from advisor import Advisor
from advisor.domain import limits
from advisor.engine import Engine
from advisor.engine.events import RunObserved
from advisor.errors import (
    InvalidValue,
    Mismatch,
    NotEnoughData,
    TooLarge,
    UnknownProgram,
)


@pytest.fixture(scope="module")
def taught() -> Advisor:
    made = Advisor()
    for each in runs():
        made.observe_run("law", **each)
    return made


def test_the_equations_come_back_and_carry_beyond(taught: Advisor) -> None:
    for size, workers in ((800.0, 4), (6400.0, 36), (3200.0, 64)):
        actual = run(size, workers)
        found = taught.predict_run("law", size=size, workers=workers)
        assert found.elapsed_s == pytest.approx(actual["elapsed_s"], rel=0.05)
        assert found.low_s < actual["elapsed_s"] < found.high_s
        parts = found.parts
        assert (parts["work_s"] + parts["delay_s"] + parts["no_work_s"]) / workers == pytest.approx(found.elapsed_s)
        for name in ("serial_work_s", "work_s", "no_work_s", "creates", "waits", "span_s"):
            assert parts[name] == pytest.approx(actual[name], rel=0.05)
    assert taught.predict_run("law", size=800.0, workers=4).extrapolates == 0.0
    assert taught.predict_run("law", size=3200.0, workers=32).extrapolates == pytest.approx(3.0)
    near, far = (taught.predict_run("law", size=n, workers=8) for n in (1600.0, 12800.0))
    assert far.high_s / far.low_s > near.high_s / near.low_s


def test_lists_go_together(taught: Advisor) -> None:
    curve = taught.predict_run("law", size=800.0, workers=[1, 2, 4])
    assert len(curve.elapsed_s) == len(curve.parts["work_s"]) == 3
    assert curve.elapsed_s[2] == taught.predict_run("law", size=800.0, workers=4).elapsed_s
    with pytest.raises(InvalidValue, match="list"):
        taught.predict_run("law", size=[1.0, 2.0], workers=[1, 2, 3])
    with pytest.raises(TooLarge):
        taught.predict_run("law", size=[1.0] * (limits.STATUS_PAGE_MAX + 1), workers=1)


def test_no_run_is_shorter_than_its_span() -> None:
    made = Advisor()
    for n in (10.0, 20.0, 40.0):
        for p in (1.0, 2.0):
            # Serial but for nothing: the span is all the work.
            made.observe_run(
                "chain", size=n, workers=p, elapsed_s=n, work_s=n, delay_s=0.0, no_work_s=(p - 1.0) * n, creates=n, waits=n,
                serial_work_s=n, span_s=n,
            )  # fmt: skip
    found = made.predict_run("chain", size=40.0, workers=64)
    assert found.elapsed_s >= 40.0 * 0.95
    assert found.low_s <= found.elapsed_s


def test_a_program_is_forgotten_as_if_it_had_never_been(taught: Advisor) -> None:
    made = Advisor.from_bytes(taught.to_bytes())
    made.observe_run("other", **run(5.0, 1))
    assert made.forget_program("law") == {"program": "law", "runs": 72}
    fresh = Advisor()
    fresh.observe_run("other", **run(5.0, 1))
    assert made.status()["programs"] == fresh.status()["programs"]
    assert list(made.programs.records()) == list(fresh.programs.records())
    with pytest.raises(UnknownProgram, match="law"):
        made.forget_program("law")
    made.observe_run("law", transform="2^n", **run(5.0, 1))  # even its transformation is forgotten


def test_a_refused_first_run_leaves_nothing_to_store() -> None:
    engine = Engine()
    with pytest.raises(InvalidValue):
        engine.apply_event(None, None, RunObserved({"program": "law", **run(100.0, 4), "size": 1e4, "transform": "n!"}))
    engine.apply_event(None, None, RunObserved({"program": "law", **run(100.0, 4)}))
    assert list(engine.advisor.programs.known) == ["law"]


def test_merging_is_learning_both() -> None:
    whole, parts = Advisor(), [Advisor(), Advisor()]
    for number, each in enumerate(runs()):
        whole.observe_run("law", **each)
        parts[number % 2].observe_run("law", **each)
    parts[1].observe_run("only there", **run(5.0, 1))
    parts[0].merge(parts[1])
    assert parts[0].status()["programs"][0]["runs"] == 72
    assert [each["program"] for each in parts[0].status()["programs"]] == ["law", "only there"]
    a, b = (each.predict_run("law", size=3e3, workers=16) for each in (whole, parts[0]))
    assert a.elapsed_s == pytest.approx(b.elapsed_s, rel=0.02)
    stranger = Advisor()
    stranger.observe_run("law", transform="2^n", **run(5.0, 1))
    before = stranger.to_bytes()
    with pytest.raises(Mismatch):
        stranger.merge(whole)
    assert stranger.to_bytes() == before


def test_without_serial_work_that_of_one_worker_stands_for_it() -> None:
    made = Advisor()
    for each in runs():
        made.observe_run("law", **{**each, "serial_work_s": None, "span_s": None})
    found = made.predict_run("law", size=1600.0, workers=8)
    assert found.elapsed_s == pytest.approx(run(1600.0, 8)["elapsed_s"], rel=0.15)
    assert any("span" in note for note in found.notes)


def test_what_nobody_can_know_is_said() -> None:
    made = Advisor()
    with pytest.raises(UnknownProgram):
        made.predict_run("law", size=1.0, workers=1)
    made.observe_run("law", **run(100.0, 4))
    with pytest.raises(NotEnoughData):
        made.predict_run("law", size=1.0, workers=1)
    with pytest.raises(InvalidValue, match="first run"):
        made.observe_run("law", transform="2^n", **run(9.0, 4))
    for _ in range(4):
        made.observe_run("law", **run(100.0, 4))
    found = made.predict_run("law", size=100.0, workers=8)
    assert any("4 workers" in note for note in found.notes)
    assert any("5 runs" in note for note in found.notes)
    for values, field in (({"size": -1.0}, "size"), ({"workers": 0}, "workers"), ({"level": 2.0}, "level")):
        with pytest.raises(InvalidValue) as caught:
            made.predict_run("law", **({"size": 1.0, "workers": 1} | values))
        assert caught.value.field == field


def test_programs_are_bounded() -> None:
    programs = Advisor()
    programs.programs.records_max = 2
    for name in ("a", "b"):
        programs.observe_run(name, **run(100.0, 4))
    with pytest.raises(TooLarge):
        programs.observe_run("c", **run(100.0, 4))
    programs.observe_run("a", **run(100.0, 4))


def test_runs_whose_parts_do_not_add_up_are_told() -> None:
    made = Advisor()
    for each in runs()[:30]:
        made.observe_run("law", **{**each, "elapsed_s": each["elapsed_s"] * 1.5})
    assert any("make up 67%" in note for note in made.predict_run("law", size=400.0, workers=4).notes)
