"""Rows as columns: what is refused row by row, what refuses a batch, and how each is told."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from advisor.domain import limits
from advisor.domain.names import NAME_BOUND, checked_name, normalised_name
from advisor.domain.observations import ComponentNames, bad_rows, columns_of, refusals_of
from advisor.domain.rows import BOUNDS, bound_text
from advisor.errors import InvalidValue


def columns(**changes: Any) -> Any:
    given = {
        "components": ["a", "b"],
        "index": [0, 1],
        "predictor": [1.0, 2.0],
        "cores": [1, 2],
        "elapsed_s": [1.0, 2.0],
    }
    given |= changes
    return columns_of(ComponentNames(given.pop("components")), **given)


# -- names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "matmul<float, 3>", "x" * 200, "é" * 100, "日本語", "a b", "😀" * 50])
def test_a_name_of_up_to_200_printable_bytes_is_kept(name: str) -> None:
    assert normalised_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 201,
        "é" * 101,
        "😀" * 51,
        "a\nb",
        "\t",
        "a\x00",
        "a\x7f",
        "\x85",
        "\ud800",
        "a\udfff",
        "\u202e",
        "\ue000",
        "\u0378",
    ],
)
def test_what_is_no_name_is_refused_with_field_value_and_bound(name: str) -> None:
    assert normalised_name(name) is None
    with pytest.raises(InvalidValue) as caught:
        checked_name("component", name)
    assert (caught.value.field, caught.value.bound) == ("component", NAME_BOUND)
    assert str(caught.value).isprintable(), "an error is safe in a log"
    json.dumps(caught.value.as_dict()).encode()


# -- rows refused one by one ------------------------------------------------------------------------------------------------

BAD = {
    "predictor": [np.nan, np.inf, -np.inf, -1e-300, -1.0, np.nextafter(2.0**60, np.inf), 1e300],
    "cores": [np.nan, np.inf, 0.0, -1.0, np.nextafter(2.0**-10, 0.0), np.nextafter(2.0**20, np.inf)],
    "elapsed_s": [np.nan, np.inf, 0.0, -1.0, np.nextafter(1e-9, 0.0), np.nextafter(1e9, np.inf)],
    "count": [0, -1, 2**32 + 1, -(2**63), 2**63 - 1],
}
GOOD = {
    "predictor": [0.0, -0.0, 5e-324, 1.0, 2.0**60],
    "cores": [2.0**-10, 0.5, 1.0, 2.0**20],
    "elapsed_s": [1e-9, 1.0, 1e9],
    "count": [1, 2**32],
}


@pytest.mark.parametrize("field", sorted(BAD))
def test_values_outside_their_domain_are_refused_and_those_at_its_ends_are_not(field: str) -> None:
    values = [v for pair in zip(BAD[field], (GOOD[field] * 3)[: len(BAD[field])], strict=True) for v in pair]
    n = len(values)
    batch = columns(
        components=["a"], index=np.zeros(n, int),
        **({"predictor": np.ones(n), "cores": np.ones(n), "elapsed_s": np.ones(n)} | {field: np.array(values)}),
    )  # fmt: skip
    masks = bad_rows(batch)
    assert list(masks) == [f"invalid_{field}"]
    assert masks[f"invalid_{field}"].tolist() == [True, False] * (n // 2)
    refused = refusals_of(masks, batch)
    assert refused.count == n // 2
    for (row, code, value), expected in zip(refused.first, BAD[field], strict=False):
        assert (row % 2, code) == (0, f"invalid_{field}")
        assert value == expected or (value != value and expected != expected)
    low, high = BOUNDS[f"invalid_{field}"][1:]
    assert f"{low:g}" in bound_text(f"invalid_{field}")
    assert f"{high:g}" in bound_text(f"invalid_{field}")


def test_a_row_counts_once_under_the_first_code_it_earns() -> None:
    batch = columns(
        components=["good", "bad\n"], index=[1, 0, 0, 1], predictor=[-1, -1, 1, 1], cores=[0, 0, 0, 1],
        elapsed_s=[0.0, 0.0, 0.0, 1.0], count=[0, 0, 0, 1],
    )  # fmt: skip
    masks = bad_rows(batch)
    assert {code: int(m.sum()) for code, m in masks.items()} == {
        "invalid_name": 2,
        "invalid_predictor": 1,
        "invalid_cores": 1,
    }
    assert (np.sum(list(masks.values()), axis=0) == 1).all()
    assert refusals_of(masks, batch).as_dict() == {
        "count": 4,
        "by_code": {"invalid_name": 2, "invalid_predictor": 1, "invalid_cores": 1},
        "first": [
            [0, "invalid_name", "bad\\u000a"], [1, "invalid_predictor", -1.0], [2, "invalid_cores", 0.0],
            [3, "invalid_name", "bad\\u000a"],
        ],
    }  # fmt: skip


def test_a_hostile_name_is_told_in_bounded_printable_text() -> None:
    names = ["\ud800", "x" * 10**6, b"\x00" * 10**6, ["nested"], "\x1b[2J"]
    batch = columns(
        components=names,
        index=range(len(names)),
        predictor=None,
        cores=np.ones(len(names)),
        elapsed_s=np.ones(len(names)),
    )
    for _, code, value in refusals_of(bad_rows(batch), batch).first:
        assert code == "invalid_name"
        assert value.isprintable()
        assert len(value.encode()) <= 300


# -- batches refused as a whole -----------------------------------------------------------------------------------------------

WRONG_COLUMNS: list[tuple[dict[str, Any], str]] = [
    ({"index": [0, 2]}, "index"),
    ({"index": [0, -1]}, "index"),
    ({"index": [0.0, 1.0]}, "index"),
    ({"index": [True, False]}, "index"),
    ({"index": "ab"}, "index"),
    ({"index": np.array([0, 2**63], np.uint64)}, "index"),
    ({"index": [[0, 1]]}, "index"),
    ({"cores": [1]}, "cores"),
    ({"cores": [1, 2, 3]}, "cores"),
    ({"cores": 1}, "cores"),
    ({"cores": None}, "cores"),
    ({"cores": ["1", "2"]}, "cores"),
    ({"cores": [[1, 2]]}, "cores"),
    ({"cores": [[1], [1, 2]]}, "cores"),
    ({"cores": [True, True]}, "cores"),
    ({"cores": [1, None]}, "cores"),
    ({"cores": [1, 10**400]}, "cores"),
    ({"elapsed_s": [1j, 2.0]}, "elapsed_s"),
    ({"elapsed_s": {1.0, 2.0}}, "elapsed_s"),
    ({"elapsed_s": np.array(["2026-01-01", "2026-01-02"], "M8[D]")}, "elapsed_s"),
    ({"elapsed_s": np.ma.masked_array([1.0, 2.0], [True, False])}, "elapsed_s"),
    ({"predictor": "xy"}, "predictor"),
    ({"count": [1.0, 2.0]}, "count"),
    ({"count": [1]}, "count"),
    ({"ok": [1, 0]}, "ok"),
    ({"running": ["yes", "no"]}, "running"),
    ({"machine_name": [1, 2]}, "machine_name"),
    ({"components": "ab"}, "components"),
    ({"components": None}, "components"),
    ({"components": 5}, "components"),
    ({"predictor": None, "dimensions": 2}, "predictor"),
    ({"predictor": [1, 2], "dimensions": 2}, "predictor"),
    ({"predictor": [1, 2, 3, 4, 5], "dimensions": 2}, "predictor"),
    ({"predictor": [[1, 2], [3, 4]], "dimensions": 1}, "predictor"),
    ({"predictor": [[1, 2], [3, 4]], "dimensions": 3}, "predictor"),
    ({"predictor": [[1, 2]]}, "predictor"),
    ({"predictor": [[1, 2], [3]]}, "predictor"),
    ({"predictor": [[1, 2], 3]}, "predictor"),
    ({"predictor": [["1", "2"], ["3", "4"]]}, "predictor"),
    ({"predictor": [[True, True], [True, True]]}, "predictor"),
    ({"predictor": [[1] * 5] * 2}, "predictor"),
    ({"predictor": [[], []]}, "predictor"),
    ({"predictor": [[[1, 2]], [[3, 4]]]}, "predictor"),
    ({"predictor": [[[1], [2]], [[3], [4]]], "dimensions": 2}, "predictor"),
    ({"predictor": np.ma.masked_array([[1.0, 2.0]] * 2, [[True, False]] * 2)}, "predictor"),
    *(({"dimensions": d}, "dimensions") for d in (0, 5, -1, 1.0, True, "1", [1, 1], np.array([1, 1]), 2**70)),
    ({"machine": "ab"}, "machine"),
    ({"machine": 5}, "machine"),
    ({"machine": ["a"]}, "machine"),
    ({"machine": ["a", 5]}, "machine"),
    ({"machine": [b"a", None]}, "machine"),
    ({"machine": [["a"], None]}, "machine"),
    ({"machine": [0, 0]}, "machine"),
    ({"machine": [0, 1], "labels": ["m"]}, "machine"),
    ({"machine": [0, -2], "labels": ["m"]}, "machine"),
    ({"machine": [0.0, 0.0], "labels": ["m"]}, "machine"),
    ({"machine": np.array(["a", "b", "c"])}, "machine"),
    ({"machine": np.array([["a", "b"]])}, "machine"),
    ({"machine": np.ma.masked_array([0, 0], [True, False]), "labels": ["m"]}, "machine"),
    ({"machine": [0, 0], "labels": "m"}, "labels"),
    ({"machine": [0, 0], "labels": [5]}, "labels"),
    ({"measures": 5}, "measures"),
    ({"measures": [1, 2]}, "measures"),
    ({"measures": {"joules": [1, 2]}}, "measures"),
    ({"measures": {5: [1, 2]}}, "measures"),
    ({"measures": {"energy_j": [1]}}, "measures.energy_j"),
    ({"measures": {"energy_j": 1}}, "measures.energy_j"),
    ({"measures": {"energy_j": ["1", "2"]}}, "measures.energy_j"),
    ({"measures": {"energy_j": np.ma.masked_array([1.0, 2.0], [True, False])}}, "measures.energy_j"),
]


@pytest.mark.parametrize(("change", "field"), WRONG_COLUMNS, ids=[f"{c!r:.60}" for c, _ in WRONG_COLUMNS])
def test_a_column_of_the_wrong_shape_or_type_refuses_the_batch_and_names_itself(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        columns(**change)
    assert caught.value.field == field
    assert caught.value.bound
    assert not caught.value.retry
    json.dumps(caught.value.as_dict(), default=str)


# -- predictors of several values, machines, measures -------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [None, 1, np.int64(1)])
@pytest.mark.parametrize("predictor", [[1.0, 2.0], [[1.0], [2.0]]])
def test_one_value_a_row_needs_no_further_column(dimensions: Any, predictor: Any) -> None:
    batch = columns(predictor=predictor, dimensions=dimensions)
    assert (batch.predictor.tolist(), batch.further) == ([1.0, 2.0], None)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_points_may_be_rows_or_flat(d: int) -> None:
    x = np.arange(2.0 * d).reshape(2, d)
    faces = [columns(predictor=x), columns(predictor=x.tolist(), dimensions=d), columns(predictor=x.ravel(), dimensions=d),
             columns(predictor=np.asfortranarray(x)), columns(predictor=x.astype("i4"))]  # fmt: skip
    for batch in faces:
        assert batch.predictor.tolist() == x[:, 0].tolist()
        assert batch.further.shape == (2, 3)
        assert np.array_equal(batch.further[:, : d - 1], x[:, 1:])
        assert np.isnan(batch.further[:, d - 1 :]).all()


@pytest.mark.parametrize(
    ("point", "reported"),
    [
        ([-1.0, 1.0, 1.0], -1.0),
        ([1.0, -2.0, -3.0], -2.0),
        ([1.0, 1.0, math.inf], math.inf),
        ([1.0, math.nan, -1.0], math.nan),
        ([1.0, 1.0, math.nan], math.nan),
        ([math.nan, 1.0, 1.0], math.nan),
    ],
)
def test_each_value_of_a_point_is_checked_and_the_bad_one_told(point: list[float], reported: float) -> None:
    batch = columns(predictor=[[1.0, 2.0, 2.0**60], point])
    masks = bad_rows(batch)
    assert {code: mask.tolist() for code, mask in masks.items()} == {"invalid_predictor": [False, True]}
    ((row, code, value),) = refusals_of(masks, batch).first
    assert (row, code) == (1, "invalid_predictor")
    assert value == reported or (value != value and reported != reported)


def test_machines_are_numbered_by_their_first_rows_whatever_the_labels_and_forms() -> None:
    names = ["n", None, "caf\u00e9", "m", "cafe\u0301", "n"]
    labels = ["never", "m", "cafe\u0301", "caf\u00e9", "n"]
    rows = {"index": [0] * 6, "predictor": None, "cores": [1] * 6, "elapsed_s": [1.0] * 6}
    faces = [
        columns(machine=names, **rows),
        columns(machine=tuple(names), **rows),
        columns(machine=np.array(names, object), **rows),
        columns(machine=[4, -1, 3, 1, 2, 4], labels=labels, **rows),
        columns(machine=np.array([4, 2**32 - 1, 3, 1, 2, 4], np.uint32), labels=labels, **rows),
    ]
    for batch in faces:
        assert batch.machines == ("n", "caf\u00e9", "m")
        assert batch.machine.tolist() == [0, -1, 1, 2, 1, 0]
        assert bad_rows(batch) == {}


def test_a_machine_that_is_no_name_refuses_its_rows_also_after_a_cut() -> None:
    batch = columns(machine=["good", "bad\n"])
    assert refusals_of(bad_rows(batch), batch).first == ((1, "invalid_machine", "bad\\u000a"),)
    cut = batch.select_rows([1, 0])
    assert refusals_of(bad_rows(cut), cut).first == ((0, "invalid_machine", "bad\\u000a"),)
    assert len(refusals_of(bad_rows(batch.select_rows([0])), batch.select_rows([0])).first) == 0


@pytest.mark.parametrize("name", sorted(limits.MEASURES))
def test_a_measure_outside_its_domain_refuses_its_row_and_nan_is_none(name: str) -> None:
    low, high = limits.MEASURES[name]
    values = [low, high, math.nan, np.nextafter(low, 0), np.nextafter(high, math.inf), -1.0, math.inf, -math.inf]
    n = len(values)
    batch = columns(
        components=["a"], index=[0] * n, predictor=None, cores=[1] * n, elapsed_s=[1.0] * n, measures={name: values}
    )
    masks = bad_rows(batch)
    assert {code: mask.tolist() for code, mask in masks.items()} == {"invalid_measure": [False] * 3 + [True] * 5}
    assert [value for _, _, value in refusals_of(masks, batch).first] == [{name: value} for value in values[3:]]
    assert f"{name} a finite number from {low:g} to {high:g}" in bound_text("invalid_measure")


@pytest.mark.parametrize("kind", ["f2", "<f4", ">f8", "i1", "u8", "longdouble"])
def test_any_real_dtype_and_byte_order_is_read(kind: str) -> None:
    batch = columns(elapsed_s=np.array([1, 2], kind))
    assert batch.elapsed_s.dtype == np.float64
    assert batch.elapsed_s.tolist() == [1.0, 2.0]
