"""The rules of the benchmark of accuracy, on tables whose figures are known."""

from __future__ import annotations

import math
from pathlib import Path

import accuracy_decisions as decisions
import accuracy_peers as peers
import accuracy_protocol as protocol
import pytest


def table_of(folder: Path, text: str, name: str = "made") -> protocol.Table:
    path = folder / f"{name}.csv"
    path.write_text(text)
    table = protocol.read_table(path)
    assert isinstance(table, protocol.Table), table
    return table


def grid(folder: Path, cores: list[float], predictors: list[float], extra: str = "") -> protocol.Table:
    lines = [f"a,{x},{p},{1 + x / p}" for x in predictors for p in cores]
    return table_of(folder, "component,x,p,t\n" + "\n".join(lines) + "\n" + extra)


class Told:
    """Answers what it is told to, and keeps the order of what it is asked and taught."""

    def __init__(self, answer: protocol.Answer) -> None:
        self.answer = answer
        self.calls: list[tuple[str, float, float]] = []

    def predict(self, component: str, x: float, p: float) -> protocol.Answer:
        self.calls.append(("predict", x, p))
        return self.answer

    def learn(self, component: str, x: float, p: float, t: float) -> None:
        self.calls.append(("learn", x, p))


# -- tables ---------------------------------------------------------------------------------------------------------------


def test_components_of_fewer_than_ten_rows_and_impossible_rows_are_left_out(tmp_path: Path) -> None:
    ten = "".join(f"b,{k},1,2.5\n" for k in range(10))
    nine = "".join(f"c,{k},1,2.5\n" for k in range(9))
    bad = "b,1,0,1\nb,-1,1,1\nb,1,1,0\nb,nan,1,1\nb,1,inf,1\nb,x,1,1\n,1,1,1\nb,1,1\n"
    table = table_of(tmp_path, "component,x,p,t\n" + ten + nine + bad)
    assert table.names == ("b",)
    assert len(table) == 10
    assert table.dropped == 8


@pytest.mark.parametrize("stamps", [["9", "10", "8"], ["2024-01-02", "2024-02-01", "2023-12-31"]])
def test_true_order_is_that_of_the_stamps_and_ties_keep_the_file(tmp_path: Path, stamps: list[str]) -> None:
    lines = [f"a,{k},1,1,{stamps[k % 3]}" for k in range(12)]
    table = table_of(tmp_path, "component,x,p,t,submit\n" + "\n".join(lines) + "\n")
    expected = [k for which in (2, 0, 1) for k in range(12) if k % 3 == which]
    assert protocol.stream(table, "ordered", 0).tolist() == expected
    assert "ordered" in protocol.splits_of(table, protocol.SPLITS)


# -- splits ---------------------------------------------------------------------------------------------------------------


def test_extrapolation_never_learns_what_it_judges(tmp_path: Path) -> None:
    table = grid(tmp_path, [1, 2, 4, 8], [float(k) for k in range(1, 31)])
    for split, values in (("cores", table.p), ("predictor", table.x)):
        ((learned, judged),) = protocol.parts(table, split, 3)
        assert values[learned].max() < values[judged].min()
        assert values[judged].max() == values.max()
    ((learned, judged),) = protocol.parts(table, "cores", 0)
    assert set(table.p[learned]) == {1, 2}
    assert set(table.p[judged]) == {8}


def test_interpolation_divides_each_component_in_four_to_one_and_by_seed(tmp_path: Path) -> None:
    table = grid(tmp_path, [1, 2, 4], [float(k) for k in range(1, 11)])
    ((learned, judged),) = protocol.parts(table, "interpolation", 0)
    assert (len(learned), len(judged)) == (24, 6)
    assert sorted([*learned, *judged]) == list(range(30))
    ((again, _),) = protocol.parts(table, "interpolation", 0)
    ((other, _),) = protocol.parts(table, "interpolation", 1)
    assert again.tolist() == learned.tolist() != other.tolist()


# -- scores ---------------------------------------------------------------------------------------------------------------


def test_a_stream_predicts_each_row_then_learns_it_and_the_first_five_do_not_count(tmp_path: Path) -> None:
    table = table_of(tmp_path, "component,x,p,t\n" + "".join(f"a,{k},1,2\n" for k in range(12)))
    told = Told((3.0, None, None))
    scores = protocol.judge(told, table, "prequential", 0)
    assert [call[0] for call in told.calls] == ["predict", "learn"] * 12
    assert told.calls[0::2] == [("predict", *call[1:]) for call in told.calls[1::2]]
    assert scores.rows == [7]
    assert scores.error == scores.bias == [0.5]


def test_held_out_rows_are_never_learned(tmp_path: Path) -> None:
    table = grid(tmp_path, [1, 2, 4, 8], [1, 2, 3])
    told = Told((1.0, None, None))
    protocol.judge(told, table, "cores", 0)
    assert {p for verb, _, p in told.calls if verb == "learn"} == {1, 2}
    assert {p for verb, _, p in told.calls if verb == "predict"} == {8}


@pytest.mark.parametrize(
    ("answer", "error", "bias"),
    [
        (1.0, 0.5, -0.5),
        (0.0, 1.0, -1.0),
        (-2.0, 2.0, -2.0),
        (1000000000.0, 1000.0, 1000.0),
        (None, 1000.0, math.nan),
        (math.nan, 1000.0, math.nan),
        (math.inf, 1000.0, math.nan),
    ],
)
def test_one_error_is_relative_and_bounded_and_silence_counts_most(
    tmp_path: Path, answer: float | None, error: float, bias: float
) -> None:
    table = table_of(tmp_path, "component,x,p,t\n" + "".join(f"a,{k},1,2\n" for k in range(12)))
    scores = protocol.judge(Told((answer, None, None)), table, "prequential", 0)
    assert scores.error == [error]
    assert scores.bias == pytest.approx([bias], nan_ok=True)
    assert scores.unanswered == (7 if math.isnan(bias) else 0)
    assert math.isnan(scores.coverage[0])


def test_coverage_and_width_in_hindsight(tmp_path: Path) -> None:
    table = table_of(tmp_path, "component,x,p,t\n" + "".join(f"a,{k},1,{k + 1}\n" for k in range(101)))
    answers: list[tuple[int, protocol.Answer]] = [(row, (2.0, 11.0, 61.0)) for row in range(101)]
    scores = protocol.scored(table, answers)
    assert scores.coverage == [pytest.approx(51 / 101)]
    # t/f runs evenly from 1/2 to 101/2: its 5 % and 95 % quantiles are 6/2 and 96/2, and the width told is 50/2
    assert scores.width == [pytest.approx(25 / 45)]


# -- decisions ------------------------------------------------------------------------------------------------------------


class Curve:
    """Predicts a time for each core count, whatever the predictor, and chooses what it is told to."""

    def __init__(self, times: dict[float, float | None], chosen: int | None = None) -> None:
        self.times = times
        self.chosen = chosen
        self.learned = 0
        self.choices: list[tuple[float, int, int]] = []

    def predict(self, component: str, x: float, p: float) -> protocol.Answer:
        return self.times[p], None, None

    def learn(self, component: str, x: float, p: float, t: float) -> None:
        self.learned += 1

    def choose(self, component: str, x: float, cores_max: int) -> int | None:
        self.choices.append((x, cores_max, self.learned))
        return self.chosen


def measured(folder: Path) -> protocol.Table:
    """Return twelve rows: x = 1 at 1, 4 and 8 cores with mean times 6, 3 and 4, and x = 2 at a single count."""
    times = {1: (5, 7, 6), 4: (2, 4, 3), 8: (4, 4, 4)}
    lines = [f"a,1,{p},{t}" for p, values in times.items() for t in values] + ["a,2,4,9"] * 3
    return table_of(folder, "component,x,p,t\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("times", "regret"),
    [
        ({1: 3.0, 4: 2.0, 8: 2.5}, 0.0),
        ({1: 3.0, 4: 2.0, 8: 1.9}, 1 / 3),
        ({1: 1.0, 4: 1.0, 8: 1.0}, 1.0),  # the fewest cores of equals
        ({1: None, 4: math.nan, 8: 9.0}, 1 / 3),
        ({1: None, 4: None, 8: math.inf}, 1.0),  # no answer at all: the slowest
    ],
)
def test_regret_of_the_best_predicted_count(tmp_path: Path, times: dict[float, float | None], regret: float) -> None:
    found = decisions.judge_decisions(Curve(times), measured(tmp_path), 0)
    assert found.regret[decisions.BEST] == [[pytest.approx(regret)], [], []]


@pytest.mark.parametrize(
    ("chosen", "regret", "cores"),
    [(1, 1.0, 1 / 4), (4, 0.0, 1), (5, 0.0, 1), (6, 1 / 3, 2), (2, 1.0, 1 / 4), (99, 1 / 3, 2), (None, 1.0, 1 / 4)],
)
def test_a_choice_is_judged_at_the_measured_count_nearest_by_ratio(
    tmp_path: Path, chosen: int | None, regret: float, cores: float
) -> None:
    curve = Curve({1: 1.0, 4: 1.0, 8: 1.0}, chosen)
    found = decisions.judge_decisions(curve, measured(tmp_path), 0)
    assert curve.choices == [(1.0, 8, 10)]
    assert found.regret[decisions.CHOOSE][0] == [pytest.approx(regret)]
    (row,) = decisions.summed([found])[decisions.CHOOSE]
    assert (row.median, row.mean) == (pytest.approx(100 * regret), pytest.approx(100 * regret))
    assert (row.cores, row.components) == (pytest.approx(cores), 1)


# -- peers ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log_linear", "log_quadratic"])
def test_log_forms_find_a_power_law_and_have_no_slope_where_nothing_varies(name: str) -> None:
    learner = peers.LEARNERS[name]()
    for _ in range(400):
        for x, p in ((10, 1), (100, 1), (1000, 1), (10, 4), (100, 16), (1000, 2)):
            learner.learn("a", x, p, 3.0 * x**0.7 / p**0.9)
            learner.learn("flat", 8, p, 2.0)
    t = learner.predict("a", 100, 4)[0]
    assert t == pytest.approx(3.0 * 100**0.7 / 4**0.9, rel=0.01)
    assert learner.predict("flat", 4096, 4)[0] == pytest.approx(2.0)


@pytest.mark.parametrize("name", ["ernest", "ernest_relative"])
def test_ernest_finds_its_own_terms(name: str) -> None:
    pytest.importorskip("scipy")
    learner = peers.LEARNERS[name]()
    for x in (10.0, 50.0, 200.0):
        for p in (1.0, 2.0, 4.0, 8.0):
            learner.learn("a", x, p, 1 + 0.3 * x / p + 0.2 * math.log(p) + 0.1 * p)
    expected = 1 + 0.3 * 400 / 16 + 0.2 * math.log(16) + 1.6
    assert learner.predict("a", 400, 16)[0] == pytest.approx(expected, rel=1e-6)
