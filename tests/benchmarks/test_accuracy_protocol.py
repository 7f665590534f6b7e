"""The rules of the benchmark of accuracy, on tables whose figures are known."""

from __future__ import annotations

import math
from pathlib import Path

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


class Reported:
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
    reported = Reported((3.0, None, None))
    scores = protocol.judge(reported, table, "prequential", 0)
    assert [call[0] for call in reported.calls] == ["predict", "learn"] * 12
    assert reported.calls[0::2] == [("predict", *call[1:]) for call in reported.calls[1::2]]
    assert scores.rows == [7]
    assert scores.error == scores.bias == [0.5]


def test_errors_by_rows_seen_before_are_of_the_median_component(tmp_path: Path) -> None:
    lines = [f"{name},{k},1,{t}" for name, t in (("a", 2), ("b", 4), ("c", 1)) for k in range(14)]
    scores = protocol.judge(
        Reported((3.0, None, None)), table_of(tmp_path, "component,x,p,t\n" + "\n".join(lines)), "prequential", 0
    )
    assert scores.by_seen[:2] == [0.5, 0.5]  # 0.5, 0.25 and 2
    assert all(math.isnan(value) for value in scores.by_seen[2:])


def test_held_out_rows_are_never_learned(tmp_path: Path) -> None:
    table = grid(tmp_path, [1, 2, 4, 8], [1, 2, 3])
    reported = Reported((1.0, None, None))
    protocol.judge(reported, table, "cores", 0)
    assert {p for verb, _, p in reported.calls if verb == "learn"} == {1, 2}
    assert {p for verb, _, p in reported.calls if verb == "predict"} == {8}


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
    scores = protocol.judge(Reported((answer, None, None)), table, "prequential", 0)
    assert scores.error == [error]
    assert scores.bias == pytest.approx([bias], nan_ok=True)
    assert scores.unanswered == (7 if math.isnan(bias) else 0)
    assert math.isnan(scores.coverage[0])


# -- peers ----------------------------------------------------------------------------------------------------------------


def test_a_full_gaussian_process_chooses_lengths_and_noise_by_the_evidence() -> None:
    pytest.importorskip("scipy")
    learner = peers.LEARNERS["gaussian_process"]()
    for k in range(60):
        x, p = 10.0 * 1.1 ** (k % 20), float(1 << k % 5)
        learner.learn("a", x, p, x**0.7 * (0.1 + 0.9 / p) * (1.0 + 0.3 * math.sin(4.0 * math.log(p))))
    known = 25.0**0.7 * (0.1 + 0.9 / 4.0) * (1.0 + 0.3 * math.sin(4.0 * math.log(4.0)))
    assert learner.predict("a", 25.0, 4.0)[0] == pytest.approx(known, rel=0.01)
