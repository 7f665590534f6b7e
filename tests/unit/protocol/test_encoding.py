"""What a client encodes: columns in any form, batches cut to fit a message; what is no batch is refused before it is sent."""

from __future__ import annotations

from array import array

import msgpack
import numpy as np
import pytest
from wire_batches import over_the_wire

from advisor.domain import limits
from advisor.errors import InvalidValue, TooLarge
from advisor.protocol import encoding
from advisor.protocol.columns import ConnectionNames, columns_of_bins
from advisor.protocol.rows import columns_of_rows


@pytest.mark.parametrize(
    "values",
    [[0, 1, 2], (0, 1, 2), array("I", [0, 1, 2]), array("q", [0, 1, 2]), np.array([0, 1, 2]), np.arange(3, dtype=np.uint8),
     np.arange(0, 6, 2) // 2, b"\0\0\0\0\1\0\0\0\2\0\0\0"],
)  # fmt: skip
def test_a_column_may_be_given_in_any_form(values: object) -> None:
    assert encoding.column_bytes("index", values, "<u4") == b"\0\0\0\0\1\0\0\0\2\0\0\0"


@pytest.mark.parametrize(
    "values",
    [
        [-1],
        [2**32],
        [1.5],
        ["1"],
        5,
        np.array([-1]),
        np.array([2**32]),
        np.array([1.5]),
        np.array([[1]]),
        np.array(["1"]),
    ],
)
def test_a_column_that_does_not_fit_is_refused_at_the_client(values: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        encoding.column_bytes("index", values, "<u4")
    assert caught.value.field == "index"


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"index": [0], "cores": [1]}, "elapsed_s"),
        ({"index": [0], "cores": [1], "elapsed_s": [1, 2]}, "elapsed_s"),
        ({"index": [1], "cores": [1], "elapsed_s": [1], "components": ["a"]}, "index"),
        ({"index": np.array([1]), "cores": [1], "elapsed_s": [1], "components": ["a"]}, "index"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "components": "a"}, "components"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "components": [1]}, "components"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "killed": [3]}, "killed"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "ok": [2]}, "ok"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "core": [1]}, "columns"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "measures": {"joules": [1]}}, "measures"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "measures": {"energy_j": []}}, "energy_j"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "measures": 5}, "measures"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "machine": ["a", "b"]}, "machine"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "machine": [-1]}, "machine"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": [[1] * 5]}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": [[]]}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": [["a", "b"]]}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": [[[1]]]}, "predictor"),
        ({"index": [0, 0], "cores": [1, 1], "elapsed_s": [1, 1], "predictor": [[1, 2], [3]]}, "predictor"),
        ({"index": [0, 0], "cores": [1, 1], "elapsed_s": [1, 1], "predictor": [[1, 2], 3]}, "predictor"),
        ({"index": [0, 0], "cores": [1, 1], "elapsed_s": [1, 1], "predictor": [1, [2, 3]]}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": [[1, 2]], "dimensions": 3}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": [1, 2, 3], "dimensions": 2}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": np.ones((1, 2, 1))}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "predictor": np.ma.masked_array([1.0], [True])}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "dimensions": 2}, "predictor"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "dimensions": 5}, "dimensions"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "dimensions": 1.0}, "dimensions"),
        ({"index": [0], "cores": [1], "elapsed_s": [1], "dimensions": [1]}, "dimensions"),
    ],
)
def test_what_is_no_batch_is_refused_at_the_client(columns: dict, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        encoding.bodies_of_columns(columns, 10)
    assert caught.value.field == field


def test_rows_are_cut_to_fit_a_message() -> None:
    rows = [["x" * 200, 1.0, 1.0, 1.0, {"network": "y" * 200, "machine": "z" * 200}] for _ in range(3000)]
    bodies = encoding.bodies_of_rows(rows, 5000)
    assert len(bodies) > 1
    assert sum(body.rows for body in bodies) == 3000
    for body in bodies:
        assert len(over_the_wire(body).rows) == body.rows
    with pytest.raises(TooLarge, match="bytes of a row"):
        encoding.bodies_of_rows([["x" * 2**20, 1, 1, 1]], 10)
    with pytest.raises(InvalidValue):
        encoding.bodies_of_rows([[object(), 1, 1, 1]], 10)


def test_a_batch_with_many_names_is_cut_and_each_part_has_its_own() -> None:
    names = [f"n{i}" for i in range(1300)]
    index = [(7 * i) % 1300 for i in range(5000)]
    seconds = [1.0 + i for i in range(5000)]
    bodies = encoding.bodies_of_columns(
        {"components": names, "index": index, "cores": [1.0] * 5000, "elapsed_s": seconds}
    )
    found: list[tuple[str, float]] = []
    for body in bodies:
        params = over_the_wire(body)
        assert len(params.components) <= limits.NAMES_BATCH_MAX
        assert body.rows <= limits.ROWS_BATCH_MAX
        columns = columns_of_bins(params, ConnectionNames())
        found += [(columns.components.names[i], t) for i, t in zip(columns.index, columns.elapsed_s, strict=True)]
    assert found == [(names[i], t) for i, t in zip(index, seconds, strict=True)]
    with pytest.raises(InvalidValue, match="from 0 to 1299"):
        encoding.bodies_of_columns({"components": names, "index": [1300], "cores": [1.0], "elapsed_s": [1.0]})


def test_labels_too_long_for_a_message_are_refused_at_the_client() -> None:
    with pytest.raises(TooLarge, match="fewer or shorter labels"):
        encoding.bodies_of_columns({"labels": ["x" * 200] * 6000, "index": [], "cores": [], "elapsed_s": []}, 10)


def test_the_empty_batch_is_one() -> None:
    params = over_the_wire(encoding.EMPTY)
    assert params.rows == []
    assert msgpack.unpackb(b"\x81" + encoding.EMPTY.data) == {"rows": []}
    assert len(columns_of_rows(params)) == 0
