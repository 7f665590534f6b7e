"""Rows taken one by one: what they have beyond plain values reaches the columns, and bad ones are refused at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from advisor.domain.observations import Columns, bad_rows
from advisor.engine import batches
from advisor.engine.advisor import Advisor
from advisor.errors import InvalidValue


def taken(monkeypatch: pytest.MonkeyPatch, *rows: dict[str, Any]) -> list[Columns]:
    """Return the columns that rows become, each its own; a plain row of a known component becomes none."""
    found: list[Columns] = []
    advisor = Advisor()
    monkeypatch.setattr(batches, "learn_columns", lambda _, columns: found.append(columns))
    for row in rows:
        advisor.observe("a", **({"elapsed_s": 1.0} | row))
    return found


def test_points_machines_and_measures_reach_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three, four, five = taken(
        monkeypatch,
        {"predictor": [1, 2, 3], "machine": "n", "dimensions": 3},
        {"predictor": (4, 5), "measures": {"energy_j": 2, "peak_bytes": None}},
        {"machine": "caf\u00e9", "measures": {"peak_bytes": 7, "energy_j": math.nan}},
        {"predictor": np.array([6, 7, 8, 9]), "machine": "cafe\u0301", "measures": {}},
        {"machine": "n", "network": "net", "record": 7, "entered": True, "active_cores": 3},
    )
    nan = math.nan
    assert not any(bad_rows(batch) for batch in (one, two, three, four, five))
    assert [batch.predictor.tolist() for batch in (one, two, four)] == [[1], [4], [6]]
    assert np.array_equal(one.further, [[2, 3, nan]], equal_nan=True)
    assert np.array_equal(four.further, [[7, 8, 9]], equal_nan=True)
    assert (one.machines, one.machine.tolist()) == (("n",), [0])
    assert three.machines == four.machines == ("caf\u00e9",)
    assert two.machine is None
    assert {name: values.tolist() for name, values in two.measures.items()} == {"energy_j": [2.0]}
    assert {name: values.tolist() for name, values in three.measures.items()} == {"peak_bytes": [7.0]}
    assert four.measures == {}
    assert (five.networks, five.network.tolist(), five.record.tolist()) == (("net",), [0], [7])
    assert (five.entered.tolist(), five.active_cores.tolist()) == ([True], [3.0])


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
def test_a_row_that_is_no_good_is_refused_and_nothing_is_learned(
    row: dict[str, Any], field: str, value: object
) -> None:
    advisor = Advisor()
    with pytest.raises(InvalidValue) as caught:
        advisor.observe("a", elapsed_s=1.0, **row)
    assert caught.value.field == field
    reported = caught.value.as_dict()["value"]
    assert reported == value or (value is None and reported != reported)
    assert caught.value.bound
    assert advisor.to_bytes() == Advisor().to_bytes()
