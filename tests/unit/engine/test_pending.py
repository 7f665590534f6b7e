"""Rows taken one by one: what they have beyond plain values reaches the columns, and bad ones are refused at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from advisor.engine.pending import PENDING_ROWS_MAX, Pending

from advisor.domain.observations import Columns, bad_rows, bound_text
from advisor.engine.advisor import Advisor
from advisor.errors import InvalidValue


def taken(*rows: dict[str, Any]) -> Columns:
    """Return what `observe` leaves waiting."""
    advisor = Advisor()
    for row in rows:
        advisor.observe("a", **({"elapsed_s": 1.0} | row))
    columns = advisor._pending.take()
    assert columns is not None
    return columns


def test_plain_rows_have_no_optional_columns() -> None:
    batch = taken({}, {"predictor": 3}, {"predictor": [4]}, {"predictor": np.array([5.0])})
    assert batch.predictor.tolist() == [1.0, 3.0, 4.0, 5.0]
    assert batch.further is batch.machine is batch.count is batch.ok is batch.running is None
    assert (batch.machines, batch.measures) == ((), {})


def test_points_machines_and_measures_reach_the_columns() -> None:
    batch = taken(
        {"predictor": [1, 2, 3], "machine": "n", "dimensions": 3},
        {"predictor": (4, 5), "measures": {"energy_j": 2, "peak_bytes": None}},
        {"machine": "caf\u00e9", "measures": {"peak_bytes": 7, "energy_j": math.nan}},
        {"predictor": np.array([6, 7, 8, 9]), "machine": "cafe\u0301", "measures": {}},
        {"machine": "n"},
    )
    nan = math.nan
    assert not bad_rows(batch)
    assert batch.predictor.tolist() == [1, 4, 1, 6, 1]
    assert np.array_equal(batch.further, [[2, 3, nan], [5, nan, nan], [nan] * 3, [7, 8, 9], [nan] * 3], equal_nan=True)
    assert (batch.machines, batch.machine.tolist()) == (("n", "caf\u00e9"), [0, -1, 1, 1, 0])
    assert list(batch.measures) == ["peak_bytes", "energy_j"]
    assert np.array_equal(batch.measures["peak_bytes"], [nan, nan, 7, nan, nan], equal_nan=True)
    assert np.array_equal(batch.measures["energy_j"], [nan, 2, nan, nan, nan], equal_nan=True)


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        ({"predictor": [1, -2]}, "predictor", -2),
        ({"predictor": [1, math.nan]}, "predictor", None),
        ({"predictor": [1, 2.0**61]}, "predictor", 2.0**61),
        ({"predictor": []}, "predictor", "[]"),
        ({"predictor": [1] * 5}, "predictor", "[1, 1, 1, 1, 1]"),
        ({"predictor": [[1, 2]]}, "predictor", "[[1, 2]]"),
        ({"predictor": [1, [2]]}, "predictor", "[1, [2]]"),
        ({"predictor": ["1", "2"]}, "predictor", "['1', '2']"),
        ({"predictor": [True, False]}, "predictor", "[True, False]"),
        ({"predictor": "12"}, "predictor", "12"),
        ({"predictor": np.ma.masked_array([1.0, 2.0], [True, False])}, "predictor", "a masked array"),
        ({"predictor": [1, 2], "dimensions": 3}, "dimensions", 3),
        ({"predictor": 1, "dimensions": 2}, "dimensions", 2),
        ({"predictor": [1, 2], "dimensions": 2.0}, "dimensions", 2.0),
        ({"dimensions": 5}, "dimensions", 5),
        ({"machine": ""}, "machine", ""),
        ({"machine": "x" * 201}, "machine", "x" * 201),
        ({"machine": 5}, "machine", 5),
        ({"measures": 5}, "measures", 5),
        ({"measures": {"joules": 5}}, "measures", "joules"),
        ({"measures": {"energy_j": 0}}, "measures.energy_j", 0),
        ({"measures": {"peak_bytes": 0.5}}, "measures.peak_bytes", 0.5),
        ({"measures": {"energy_j": "5"}}, "measures.energy_j", "5"),
        ({"measures": {"energy_j": True}}, "measures.energy_j", True),
        ({"measures": {"energy_j": [1.0]}}, "measures.energy_j", "[1.0]"),
    ],
)
def test_a_row_that_is_no_good_is_refused_and_nothing_waits(row: dict[str, Any], field: str, value: object) -> None:
    advisor = Advisor()
    with pytest.raises(InvalidValue) as caught:
        advisor.observe("a", elapsed_s=1.0, **row)
    assert caught.value.field == field
    told = caught.value.as_dict()["value"]
    assert told == value or (value is None and told != told)
    assert caught.value.bound
    assert advisor._pending.take() is None


def test_a_bad_point_is_told_with_the_bound_of_a_predictor() -> None:
    with pytest.raises(InvalidValue) as caught:
        Advisor().observe("a", elapsed_s=1.0, predictor=[1, -1])
    assert caught.value.bound == bound_text("invalid_predictor")


def test_it_is_time_to_fold_at_the_bound_and_taking_begins_anew() -> None:
    pending = Pending()
    full = [pending.add("a", 1.0, 1.0, 1.0, 1, True, False) for _ in range(PENDING_ROWS_MAX)]
    assert full == [False] * (PENDING_ROWS_MAX - 1) + [True]
    assert len(pending.take() or ()) == PENDING_ROWS_MAX
    assert pending.take() is None
