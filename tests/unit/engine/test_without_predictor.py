"""Rows without predictor beside rows with one: each kind is answered as if the other had never been."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor import Advisor
from advisor.errors import AdvisorError
from advisor.protocol.rows import columns_of_rows

LEAST = 6  # rows without predictor that answer for such runs

Row = list[Any]


def mixed(rng: np.random.Generator, n: int, share: float, first: int = 0) -> list[Row]:
    """Return n rows: with a predictor they take microseconds to minutes by size, without one a minute; the first have none."""
    rows: list[Row] = []
    for i in range(n):
        x = None if i < first or rng.random() < share else float(np.exp(rng.uniform(4.0, 18.0)))
        p = float(rng.choice([1, 2, 4, 8]))
        t = (60.0 if x is None else 1e-6 * x) * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1)
        rows.append(["c", x, p, float(t)])
    return rows


def learned(rows: list[Row]) -> Advisor:
    advisor = Advisor()
    advisor.learn_batch(columns_of_rows(rows))
    return advisor


def only(rows: list[Row], *, without: bool) -> list[Row]:
    return [row for row in rows if (row[1] is None) == without]


@pytest.mark.parametrize(("share", "first"), [(0.0, 1), (0.1, 0), (0.1, 9), (0.5, 0)])
def test_each_kind_of_rows_is_answered_as_if_the_other_had_not_been(share: float, first: int) -> None:
    rows = mixed(np.random.default_rng(1), 120, share, first)
    both, sizes, none = learned(rows), learned(only(rows, without=False)), learned(only(rows, without=True))
    at: dict[str, Any] = {"predictor": np.geomspace(60.0, 6e7, 9), "cores": np.full(9, 2.0)}
    reported, wanted = both.predict("c", **at), sizes.predict("c", **at)
    assert [reported.elapsed_s.tolist(), reported.low_s.tolist()] == [wanted.elapsed_s.tolist(), wanted.low_s.tolist()]
    assert reported.observations == len(only(rows, without=False))
    enough = len(only(rows, without=True)) >= LEAST
    reported, wanted = both.predict("c", cores=4), (none if enough else sizes).predict("c", cores=4)
    assert (reported.elapsed_s, reported.low_s, reported.high_s) == (wanted.elapsed_s, wanted.low_s, wanted.high_s)
    assert ("runs without one" in reported.notes[-1]) == enough
    assert both.choose_cores("c", cores_max=8).cores == (none if enough else sizes).choose_cores("c", cores_max=8).cores
    assert both.status()["components"][0]["rows"] == 120


@pytest.mark.parametrize("turned", [False, True])
def test_merged_advisors_that_saw_one_kind_each_answer_for_both(turned: bool) -> None:
    rows = mixed(np.random.default_rng(3), 100, 0.4)
    parts = [learned(only(rows, without=without)) for without in (turned, not turned)]
    before = parts[1].to_bytes()
    parts[0].merge(parts[1])
    assert parts[1].to_bytes() == before
    alone = learned(only(rows, without=False)).predict("c", predictor=1e3, cores=2)
    assert parts[0].predict("c", predictor=1e3, cores=2).elapsed_s == pytest.approx(alone.elapsed_s, rel=0.05)
    assert parts[0].predict("c", cores=1).elapsed_s == pytest.approx(60.0, rel=0.1)
    assert parts[0].status()["components"][0]["rows"] == 100


def test_a_plan_is_made_for_the_load_of_both_kinds() -> None:
    rows = mixed(np.random.default_rng(4), 400, 0.5)
    both, sizes, none = learned(rows), learned(only(rows, without=False)), learned(only(rows, without=True))
    share = len(only(rows, without=True)) / 400
    tables = [each.curve_tables.curves(["c"], cores_max=4) for each in (both, sizes, none)]
    expected = (1.0 - share) * tables[1].elapsed_s + share * tables[2].elapsed_s
    assert tables[0].elapsed_s == pytest.approx(expected, rel=1e-12)
    squares = [float(table.elapsed_s[0, 0] ** 2 * (1.0 + table.variation[0])) for table in tables]
    assert squares[0] == pytest.approx((1.0 - share) * squares[1] + share * squares[2], rel=1e-12)


def test_a_part_of_the_state_has_both_kinds_and_a_dropped_component_none() -> None:
    rows = mixed(np.random.default_rng(5), 60, 0.5)
    both = learned(rows)
    part = Advisor.from_bytes(both.extract(["c"]))
    for cores in (1, 4):
        assert part.predict("c", cores=cores) == both.predict("c", cores=cores)
        assert part.predict("c", predictor=1e4, cores=cores) == both.predict("c", predictor=1e4, cores=cores)
    both.remove_components(["c"])
    both.observe("c", predictor=2.0, elapsed_s=1.0)
    assert "runs without one" not in str(both.predict("c").notes)


def test_rows_without_room_for_them_are_refused() -> None:
    advisor = Advisor(components_max=1)
    advisor.observe("c", predictor=5.0, elapsed_s=1.0)
    receipt = advisor.learn_batch(columns_of_rows([["c", None, 1.0, 9.0], ["c", 5.0, 1.0, 1.0]]))
    assert (receipt.accepted, dict(receipt.refused.by_code)) == (1, {"too_many_components": 1})
    assert advisor.predict("c", predictor=5.0).elapsed_s == pytest.approx(1.0, rel=0.05)


def test_what_runs_without_a_predictor_measure_is_learned_apart_too() -> None:
    advisor = Advisor()
    for i in range(20):
        advisor.observe("c", predictor=(10.0 + i, 2.0), elapsed_s=1.0, measures={"peak_bytes": 1e6})
        advisor.observe("c", elapsed_s=9.0, measures={"peak_bytes": 1e9})
    answer = advisor.predict("c", predictor=(15.0, 2.0), measure="peak_bytes")
    assert answer.elapsed_s == pytest.approx(1e6, rel=0.05)
    assert advisor.predict("c", measure="peak_bytes").elapsed_s == pytest.approx(1e9, rel=0.05)
    with pytest.raises(AdvisorError):
        advisor.predict("c", predictor=15.0)


def test_the_first_row_fixes_the_number_of_predictors_and_others_are_counted() -> None:
    advisor = Advisor()
    advisor.observe("c", elapsed_s=1.0)
    rows = columns_of_rows([["c", [3.0, 2.0], 1.0, 1.0], ["c", 3.0, 1.0, 1.0], ["c", None, 1.0, 1.0]])
    receipt = advisor.learn_batch(rows)
    assert (receipt.accepted, dict(receipt.refused.by_code)) == (2, {"invalid_dimensions": 1})
    advisor.forget("c")
    assert advisor.learn_batch(rows).refused.by_code == {"invalid_dimensions": 1}
    assert advisor.status()["totals"]["refused.invalid_dimensions"] == 2
