"""The rules of the benchmark of accuracy, on tables whose figures are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import accuracy_decisions as decisions
import accuracy_peers as peers
import accuracy_protocol as protocol
import accuracy_report as report
import numpy as np
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


def test_a_file_that_is_no_table_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("component,x,t\na,1,1\n")
    assert protocol.read_table(path) == "other.csv: no column p"
    path.write_text("component,x,p,t\na,1,1,1\n")
    assert "10 rows" in str(protocol.read_table(path))
    path.write_text("")
    assert "no column" in str(protocol.read_table(path))


@pytest.mark.parametrize("stamps", [["9", "10", "8"], ["2024-01-02", "2024-02-01", "2023-12-31"]])
def test_true_order_is_that_of_the_stamps_and_ties_keep_the_file(tmp_path: Path, stamps: list[str]) -> None:
    lines = [f"a,{k},1,1,{stamps[k % 3]}" for k in range(12)]
    table = table_of(tmp_path, "component,x,p,t,submit\n" + "\n".join(lines) + "\n")
    expected = [k for which in (2, 0, 1) for k in range(12) if k % 3 == which]
    assert protocol.stream(table, "ordered", 0).tolist() == expected
    assert "ordered" in protocol.splits_of(table, protocol.SPLITS)


def test_a_table_without_stamps_has_no_true_order(tmp_path: Path) -> None:
    table = grid(tmp_path, [1, 2], [1, 2, 3, 4, 5])
    assert "ordered" not in protocol.splits_of(table, protocol.SPLITS)
    with pytest.raises(ValueError, match="submit"):
        protocol.stream(table, "ordered", 0)


# -- splits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "deciles", "learned_to", "judged_from"),
    [
        (1, False, 1, 1),
        (2, False, 1, 2),
        (3, False, 2, 3),
        (6, False, 3, 6),
        (16, False, 8, 16),
        (8, True, 4, 8),
        (9, True, 5, 9),
        (20, True, 10, 19),
        (21, True, 11, 19),
        (100, True, 50, 91),
    ],
)
def test_outer_bounds(count: int, deciles: bool, learned_to: float, judged_from: float) -> None:
    values = np.repeat(np.arange(1.0, count + 1), 3)
    assert protocol.outer_bounds(values, deciles=deciles) == (learned_to, judged_from)


def test_extrapolation_never_learns_what_it_judges(tmp_path: Path) -> None:
    table = grid(tmp_path, [1, 2, 4, 8], [float(k) for k in range(1, 31)])
    for split, values in (("cores", table.p), ("predictor", table.x)):
        ((learned, judged),) = protocol.parts(table, split, 3)
        assert values[learned].max() < values[judged].min()
        assert values[judged].max() == values.max()
    ((learned, judged),) = protocol.parts(table, "cores", 0)
    assert set(table.p[learned]) == {1, 2}
    assert set(table.p[judged]) == {8}


def test_a_component_of_one_core_count_is_left_out_of_cores_only(tmp_path: Path) -> None:
    other = "".join(f"one,{k},4,{k + 1}\n" for k in range(12))
    table = grid(tmp_path, [1, 2], [1, 2, 3, 4, 5], other)
    assert [table.names[table.component[judged[0]]] for _, judged in protocol.parts(table, "cores", 0)] == ["a"]
    assert len(list(protocol.parts(table, "predictor", 0))) == 2
    alone = table_of(tmp_path, "component,x,p,t\n" + other, "alone")
    assert protocol.splits_of(alone, protocol.SPLITS) == ["prequential", "interpolation", "predictor"]


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


def test_rows_far_off_are_counted_and_told_of_all_rows_and_the_mean_beside_the_median(tmp_path: Path) -> None:
    text = "".join(f"{name},{k},1,{t}\n" for name, t in (("a", 1), ("b", 10), ("c", 10)) for k in range(12))
    table = table_of(tmp_path, "component,x,p,t\n" + text)
    scores = protocol.judge(Told((3.5, None, None)), table, "prequential", 0)
    assert scores.far == [7, 0, 0]
    figures = report.figures([scores])
    assert figures.far == pytest.approx(100 / 3)
    assert (figures.error, figures.error_mean) == (pytest.approx(65.0), pytest.approx((250 + 65 + 65) / 3))
    assert protocol.judge(Told((3.0, None, None)), table, "prequential", 0).far == [0, 0, 0]
    assert protocol.judge(Told((None, None, None)), table, "prequential", 0).far == [7, 7, 7]


def test_exact_answers_have_no_relative_width(tmp_path: Path) -> None:
    table = grid(tmp_path, [1, 2], [1, 2, 3, 4, 5])
    scores = protocol.scored(table, [(row, (t, t, t)) for row, t in enumerate(table.t.tolist())])
    assert scores.error == [0.0]
    assert scores.coverage == [1.0]
    assert math.isnan(scores.width[0])


def test_geometric_mean() -> None:
    assert protocol.geometric_mean([1.0, 4.0, 16.0]) == pytest.approx(4.0)
    assert math.isnan(protocol.geometric_mean([]))


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


class Line:
    """Predicts t(p), and has no choice of its own."""

    def __init__(self, time: Callable[[float], float | None]) -> None:
        self.time = time

    def predict(self, component: str, x: float, p: float) -> protocol.Answer:
        return self.time(p), None, None

    def learn(self, component: str, x: float, p: float, t: float) -> None: ...


@pytest.mark.parametrize(
    ("time", "regret"),
    [
        (lambda p: 2.0 + 0.09 * (p < 3), 1.0),  # 1 core takes less than 5 % longer
        (lambda p: 2.0 + 0.2 * (p < 3), 0.0),  # 3 of 8 cores are nearest to 4
        (lambda p: 2.0 + 0.2 * (p < 7), 1 / 3),
        (lambda p: None, 1.0),
    ],
)
def test_a_learner_without_a_choice_takes_the_fewest_cores_within_five_percent(
    tmp_path: Path, time: Callable[[float], float | None], regret: float
) -> None:
    found = decisions.judge_decisions(Line(time), measured(tmp_path), 0)
    assert found.regret[decisions.CHOOSE][0] == [pytest.approx(regret)]


def test_counts_that_are_tried_are_all_of_the_first_and_two_percent_apart_beyond() -> None:
    assert decisions.counts_to(8).tolist() == list(range(1, 9))
    many = decisions.counts_to(1024)
    assert many[:256].tolist() == list(range(1, 257))
    assert many[-1] == 1024
    assert (np.diff(many) <= np.maximum(0.03 * many[:-1], 1.0)).all()


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


def test_each_stage_learns_only_its_rows_and_only_components_that_have_them(tmp_path: Path) -> None:
    long = "".join(f"long,1,{1 + k % 2},{1 + k % 2}\n" for k in range(31))
    short = "".join(f"short,1,{1 + k % 2},{1 + k % 2}\n" for k in range(29))
    single = "".join(f"single,{k},2,1\n" for k in range(40))
    table = table_of(tmp_path, "component,x,p,t\n" + long + short + single)
    curve = Curve({1.0: 1.0, 2.0: 2.0}, 1)
    found = decisions.judge_decisions(curve, table, 0)
    assert [len(stage) for stage in found.regret[decisions.BEST]] == [2, 1, 0]
    assert [learned for _, _, learned in curve.choices] == [10, 30, 40]
    alone = table_of(tmp_path, "component,x,p,t\n" + single, "alone")
    assert decisions.decidable(table)
    assert not decisions.decidable(alone)


def test_points_above_the_better_simple_learner(capsys: pytest.CaptureFixture[str]) -> None:
    def row(median: float, mean: float) -> dict[str, list[decisions.Regret]]:
        return {decisions.BEST: [decisions.Regret(median, mean, 1.0, 3)]}

    decisions.print_decisions(
        ["made"],
        {("advisor", "made"): row(5, 6), ("log_quadratic", "made"): row(4, 9), ("nearest_cell", "made"): row(7, 8)},
    )
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last == ["advisor", "+1.00", "-2.00"]


def test_a_choice_is_compared_with_the_simple_learners_by_its_own_rule(capsys: pytest.CaptureFixture[str]) -> None:
    def row(median: float) -> list[decisions.Regret]:
        return [decisions.Regret(median, median, 1.0, 3)]

    peer = {decisions.BEST: row(1), decisions.CHOOSE: row(4)}
    decisions.print_decisions(
        ["made"], {("advisor", "made"): {decisions.CHOOSE: row(6)}, ("nearest_cell", "made"): peer}
    )
    assert capsys.readouterr().out.splitlines()[-1].split() == ["advisor", "choose", "+2.00", "+2.00"]


# -- peers ----------------------------------------------------------------------------------------------------------------


def test_the_triangle_solves_as_if_all_rows_were_kept() -> None:
    rng = np.random.default_rng(5)
    matrix = np.column_stack((np.ones(60), rng.uniform(0, 1e3, (60, 3))))
    y = matrix @ (3.0, -2.0, 0.5, 1.0) + rng.normal(0, 1, 60)
    triangle = peers.Triangle(4)
    for row, value in zip(matrix, y, strict=True):
        triangle.add(np.array((*row, value)))
    assert triangle.with_intercept(0.0) == pytest.approx(np.linalg.lstsq(matrix, y)[0], rel=1e-9)
    optimize = pytest.importorskip("scipy.optimize")
    found = triangle.nonnegative()
    assert found == pytest.approx(optimize.nnls(matrix, y)[0], rel=1e-6, abs=1e-9)
    assert found.min() == 0.0


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


def test_the_nearest_cell_answers_its_mean() -> None:
    learner = peers.LEARNERS["nearest_cell"]()
    assert learner.predict("a", 1, 1) == (None, None, None)
    for k in range(40):
        learner.learn("a", 2.0**k, 1.0, 2.0**k)
    learner.learn("a", 8.0, 1.0, 10.0)
    assert learner.predict("a", 8.0, 1.0)[0] == pytest.approx(9.0)
    assert learner.predict("a", 9.0, 1.1)[0] == pytest.approx(9.0)
    assert learner.predict("a", 2.0**50, 64.0)[0] == pytest.approx(2.0**39)


def test_an_offline_peer_is_fitted_when_its_rows_have_grown() -> None:
    fits: list[int] = []

    def fit(x: protocol.Array, p: protocol.Array, t: protocol.Array) -> None:
        fits.append(len(t))

    learner = peers.PerComponent(lambda: peers.Refitted(fit))
    for _ in range(100):
        learner.learn("a", 1.0, 1.0, 4.0)
        assert learner.predict("a", 1.0, 1.0)[0] == pytest.approx(4.0)
    assert fits[:3] == [3, 4, 5]
    assert len(fits) < 30
    assert all(later >= 1.15 * former for former, later in itertools.pairwise(fits))


def test_ours_learns_and_answers_with_an_interval() -> None:
    learner = peers.LEARNERS["advisor"]()
    assert learner.predict("a", 1.0, 1.0) == (None, None, None)
    for x in (10.0, 20.0, 40.0, 80.0):
        for p in (1.0, 2.0, 4.0):
            learner.learn("a", x, p, x * (0.1 + 0.9 / p))
    assert peers.Ours().choose("a", 30.0, 4) == 3  # an unknown component gets a middle count
    assert isinstance(learner, peers.Ours)
    assert learner.choose("a", 30.0, 4) in (3, 4)
    t, low, high = learner.predict("a", 30.0, 2.0)
    assert t is not None
    assert low is not None
    assert high is not None
    assert low <= t <= high
    assert t == pytest.approx(30 * 0.55, rel=0.2)
