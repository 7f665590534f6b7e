"""Batches: what a client encodes is what the service reads, in rows and in columns; bad rows are refused alone."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_batches import over_the_wire

from advisor.domain import limits
from advisor.domain.names import normalised_name
from advisor.domain.observations import (
    Columns,
    ComponentNames,
    bad_rows,
    columns_of,
    refusals_of,
)
from advisor.domain.rows import ABSENT_U64, FIELDS
from advisor.errors import InvalidValue, TooLarge
from advisor.protocol import encoding
from advisor.protocol.columns import ConnectionNames, columns_of_bins
from advisor.protocol.rows import columns_of_rows
from advisor.protocol.verbs import METHODS, Names

FULL = {
    "count": 3, "ok": True, "running": False, "dimensions": 1, "network": "n", "entered": True,
    "replica": 2**63, "machine": "m", "active_cores": 4.0, "killed": "time",
    "measures": {"peak_bytes": 1, "energy_j": 2.0},
}  # fmt: skip


def refused(rows: list) -> dict:
    columns = columns_of_rows(rows)
    assert len(columns) == len(rows)
    return refusals_of(bad_rows(columns), columns).as_dict()


def test_the_optional_fields_are_the_domains() -> None:
    assert set(FULL) == set(FIELDS)
    assert set(FIELDS) <= set(METHODS["observe_columns"].keys)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "é", "with space"]),
        st.none() | st.floats(0, 2**60) | st.integers(0, 2**60),
        st.floats(2**-10, 2**20) | st.integers(1, 2**20),
        st.floats(1e-9, 1e9),
    ).map(list),
    min_size=1,
    max_size=30,
)


VALUES = st.floats(0, 2**60, width=64)
OTHERS_ABSENT: dict[str, Any] = {
    "count": 1, "ok": True, "running": False, "network": -1, "entered": False, "replica": ABSENT_U64,
    "active_cores": math.nan, "killed": 0,
}  # fmt: skip
MACHINES = st.none() | st.sampled_from(["m", "n", "caf\u00e9", "cafe\u0301", "", "bad\n"])
MEASURED = st.fixed_dictionaries(
    {},
    optional={
        "peak_bytes": st.just(math.nan) | st.floats(1, 2**60) | st.just(0.5),
        "energy_j": st.just(math.nan) | st.floats(1e-9, 1e15) | st.just(-1.0),
    },
)


OTHERS = st.fixed_dictionaries({
    "count": st.integers(0, 2**32 - 1), "ok": st.booleans(), "running": st.booleans(), "entered": st.booleans(),
    "network": st.sampled_from([None, "n", "o"]), "replica": st.integers(0, 2**64 - 2),
    "active_cores": st.just(math.nan) | st.floats(1, 64), "killed": st.sampled_from([None, "time", "memory"]),
})  # fmt: skip


def as_seen(columns: Columns) -> dict[str, Any]:
    """Return all that a batch says, in plain values that can be compared; NaN as None."""
    masks = bad_rows(columns)
    reported = refusals_of(masks, columns).as_dict()

    bad = np.any([*masks.values(), np.zeros(len(columns), np.bool_)], axis=0)  # their other values are not looked at

    def plain(values: Any) -> Any:
        return None if values is None else np.where((np.isnan(values).T | bad).T, None, values).tolist()

    return (
        {
            "names": [columns.components.names[place] for place in columns.index],
            "refused": json.dumps(reported),
            "machines": columns.machines,
            "machine": plain(columns.machine),
            "measures": {
                name: plain(values) for name, values in columns.measures.items() if (values[~bad] == values[~bad]).any()
            },
            "networks": columns.networks,
        }
        | {
            name: plain(np.full(len(columns), absent) if (values := getattr(columns, name)) is None else values)
            for name, absent in OTHERS_ABSENT.items()
        }
        | {name: plain(getattr(columns, name)) for name in ("predictor", "cores", "elapsed_s", "further")}
    )


@given(st.data(), st.integers(1, 4), st.integers(1, 12), st.booleans())
def test_rows_columns_and_wire_give_equal_columns_with_what_is_optional(
    data: st.DataObject, d: int, n: int, flat: bool
) -> None:
    """Rows, columns in process, and both over the wire: the same values, machines, measures and refusals."""
    draw = data.draw
    x = draw(
        st.lists(st.lists(VALUES | st.sampled_from([-1.0, math.nan]), min_size=d, max_size=d), min_size=n, max_size=n)
    )
    machine = draw(st.lists(MACHINES, min_size=n, max_size=n))
    measured = draw(st.lists(MEASURED, min_size=n, max_size=n))
    others = draw(st.lists(OTHERS, min_size=n, max_size=n))
    rows = [
        ["a", point, 2.0, 1.0, {"machine": name, "measures": measures, **more}]
        for point, name, measures, more in zip(x, machine, measured, others, strict=True)
    ]
    given = {
        "index": [0] * n, "cores": [2.0] * n, "elapsed_s": [1.0] * n, "machine": machine,
        "measures": {name: [row.get(name, math.nan) for row in measured] for name in limits.MEASURES},
    } | {name: [row[name] for row in others] for name in OTHERS_ABSENT}  # fmt: skip
    points = {"predictor": [v for point in x for v in point], "dimensions": d} if flat else {"predictor": x}
    (by_rows,) = encoding.bodies_of_rows(rows, 100)
    (by_columns,) = encoding.bodies_of_columns({"components": ["a"]} | given | points, 100)
    batches = [
        columns_of_rows(rows),
        columns_of_rows(over_the_wire(by_rows)),
        columns_of_bins(over_the_wire(by_columns), ConnectionNames()),
        columns_of(ComponentNames(["a"]), **given | points),
    ]
    first, *rest = [as_seen(batch) for batch in batches]
    assert rest == [first] * 3
    accepted = [value is not None for value in first["cores"]]
    assert first["predictor"] == [point[0] if good else None for point, good in zip(x, accepted, strict=True)]
    normal = [normalised_name(name) for name in machine]
    assert first["machines"] == tuple(dict.fromkeys(name for name in normal if name is not None))


@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=10), st.data())
def test_rows_of_several_dimensions_share_a_batch_and_are_taken_apart(x: list, data: st.DataObject) -> None:
    columns = columns_of_rows([["a", point, 1, 1, {"dimensions": len(point)}] for point in x])
    assert not bad_rows(columns)
    nan = [math.nan] * 3
    full = [[*point, *nan][:4] for point in x]
    further = np.full((len(x), 3), math.nan) if columns.further is None else columns.further
    assert (columns.further is None) == all(len(point) == 1 for point in x)
    assert np.array_equal(np.column_stack([columns.predictor, further]), full, equal_nan=True)
    chosen = data.draw(st.lists(st.integers(0, len(x) - 1)))
    part = columns.select_rows(np.array(chosen, int))
    if part.further is not None:
        assert np.array_equal(part.further, further[chosen], equal_nan=True)


@pytest.mark.parametrize("rows_max", [1, 2, 3, 7])
def test_a_batch_of_points_is_cut_between_rows(rows_max: int) -> None:
    x = np.arange(21.0).reshape(7, 3)
    machine = ["m", "n", None, "m", "o", "n", "m"]
    bodies = encoding.bodies_of_columns(
        {"components": ["a"], "index": [0] * 7, "cores": [1] * 7, "elapsed_s": [1] * 7, "predictor": x,
         "machine": machine, "measures": {"energy_j": np.arange(1.0, 8.0)}}, rows_max,
    )  # fmt: skip
    batches = [columns_of_bins(over_the_wire(body), ConnectionNames()) for body in bodies]
    assert [len(batch) for batch in batches][:-1] == [rows_max] * (len(batches) - 1)
    whole = [np.column_stack([b.predictor, b.further[:, :2]]) for b in batches]
    assert np.array_equal(np.concatenate(whole), x)
    named = [
        None if batch.machine is None or number < 0 else batch.machines[number]
        for batch in batches
        for number in ([-1] * len(batch) if batch.machine is None else batch.machine)
    ]
    assert named == machine
    assert np.concatenate([b.measures["energy_j"] for b in batches]).tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_every_optional_field_is_read_in_rows() -> None:
    batch = columns_of_rows([["a", 1, 1, 1, FULL], ["a", 1, 1, 1], ["a", 1, 1, 1, dict.fromkeys(FULL)]])
    assert batch.misread is None
    assert batch.count.tolist() == [3, 1, 1]
    assert batch.ok is None and batch.running is None  # what they are anyway  # noqa: PT018
    assert (batch.network.tolist(), batch.networks) == ([0, -1, -1], ("n",))
    assert batch.entered.tolist() == [True, False, False]
    assert batch.replica.tolist() == [2**63, ABSENT_U64, ABSENT_U64]
    assert np.array_equal(batch.active_cores, [4.0, np.nan, np.nan], equal_nan=True)
    assert (batch.machine.tolist(), batch.machines) == ([0, -1, -1], ("m",))
    assert list(batch.measures) == ["peak_bytes", "energy_j"]
    assert np.array_equal(batch.measures["energy_j"], [2.0, np.nan, np.nan], equal_nan=True)
    assert batch.killed.tolist() == [2, 0, 0]
    assert batch.further is None


BAD = [
    (5, "invalid_row", 5),
    ("abcd", "invalid_row", "abcd"),
    ({"a": 1, "b": 2, "c": 3, "d": 4}, "invalid_row", "{'a': 1, 'b': 2, 'c': 3, 'd': 4}"),
    ([], "invalid_row", "[]"),
    (["a", 1, 1], "invalid_row", "['a', 1, 1]"),
    (["a", 1, 1, 1, {}, {}], "invalid_row", "['a', 1, 1, 1, {}, {}]"),
    ([None, 1, 1, 1], "invalid_name", None),
    (["a", True, 1, 1], "invalid_predictor", True),
    (["a", 1, None, 1], "invalid_cores", None),
    (["a", 1, 1, "1"], "invalid_elapsed_s", "1"),
    (["a", [], 1, 1], "invalid_predictor", 0),
    (["a", [1, [2]], 1, 1], "invalid_predictor", "[2]"),
    (["a", [1, "2"], 1, 1], "invalid_predictor", "2"),
    (["a", [1, None], 1, 1], "invalid_predictor", None),
    (["a", [1, True], 1, 1], "invalid_predictor", True),
    (["a", [1, 2, -3.5], 1, 1], "invalid_predictor", -3.5),
    (["a", [1, 2, 3, float("inf")], 1, 1], "invalid_predictor", float("inf")),
    (["a", [1] * 5, 1, 1], "invalid_predictor", 5),
    (["x" * 201, 1, 1, 1], "invalid_name", "x" * 201),
    (["", 1, 1, 1], "invalid_name", ""),
    (["a", 1, 1, 1, 5], "invalid_row", 5),
    (["a", 1, 1, 1, {"cuont": 1}], "unknown_key", "cuont"),
    (["a", 1, 1, 1, {"count": 1.0}], "invalid_count", 1.0),
    (["a", 1, 1, 1, {"count": 0}], "invalid_count", 0),
    (["a", 1, 1, 1, {"count": 2**40}], "invalid_count", 2**40),
    (["a", 1, 1, 1, {"count": 2**63}], "invalid_count", 2**63),
    (["a", 1, 1, 1, {"ok": 1}], "invalid_ok", 1),
    (["a", 1, 1, 1, {"dimensions": 2}], "invalid_dimensions", 2),
    (["a", [1, 2], 1, 1, {"dimensions": 1}], "invalid_dimensions", 1),
    (["a", 1, 1, 1, {"dimensions": 5}], "invalid_dimensions", 5),
    (["a", 1, 1, 1, {"dimensions": True}], "invalid_dimensions", True),
    (["a", 1, 1, 1, {"machine": ""}], "invalid_machine", ""),
    (["a", 1, 1, 1, {"machine": "x" * 201}], "invalid_machine", "x" * 201),
    (["a", 1, 1, 1, {"machine": b"m"}], "invalid_machine", "b'm'"),
    (["a", 1, 1, 1, {"measures": 5}], "invalid_measure", 5),
    (["a", 1, 1, 1, {"measures": {"energy_j": "5"}}], "invalid_measure", {"energy_j": "5"}),
    (["a", 1, 1, 1, {"measures": {"energy_j": 0}}], "invalid_measure", {"energy_j": 0}),
    (["a", 1, 1, 1, {"measures": {"energy_j": 1, "peak_bytes": 2**61}}], "invalid_measure", {"peak_bytes": 2**61}),
    (["a", 1, 1, 1, {"network": ""}], "invalid_network", ""),
    (["a", 1, 1, 1, {"replica": -1}], "invalid_replica", -1),
    (["a", 1, 1, 1, {"record": 1}], "unknown_key", "record"),
    (["a", 1, 1, 1, {"active_cores": "2"}], "invalid_active_cores", "2"),
    (["a", 1, 1, 1, {"measures": {"joules": 1}}], "invalid_measure", "joules"),
    (["a", -1, 1, 1], "invalid_predictor", -1.0),
]


@pytest.mark.parametrize(("row", "code", "value"), BAD)
def test_a_bad_row_is_refused_alone(row: object, code: str, value: object) -> None:
    good = ["a", 1.0, 1, 1]
    answer = refused([good, row, good])
    assert answer == {"count": 1, "by_code": {code: 1}, "first": [[1, code, value]]}
    columns = columns_of_rows([good, row, good])
    assert columns.components.names[columns.index[0]] == columns.components.names[columns.index[2]] == "a"


@given(st.lists(st.one_of(ROWS.map(lambda rows: rows[0]), st.sampled_from([row for row, _, _ in BAD])), max_size=12))
def test_all_at_once_and_one_by_one_agree(rows: list) -> None:
    together = columns_of_rows(rows)
    for i, row in enumerate(rows):
        alone = columns_of_rows([row])
        for field in ("predictor", "cores", "elapsed_s"):
            assert getattr(alone, field).tolist() == getattr(together, field)[i : i + 1].tolist() or alone.misread
        codes = {code for code, mask in bad_rows(together).items() if mask[i]}
        assert codes == set(bad_rows(alone))


def test_names_are_numbered_per_connection() -> None:
    names = ConnectionNames()
    assert names.number_names(Names(0, ["a", "b"])) == 2
    assert names.number_names(Names(1, ["b", "c"])) == 3
    assert names.numbered.names == ["a", "b", "c"]
    with pytest.raises(InvalidValue, match="first_id is 4, must be at most 3"):
        names.number_names(Names(4, ["x"]))
    with pytest.raises(InvalidValue, match="'b', which has number 1"):
        names.number_names(Names(1, ["x"]))
    with pytest.raises(TooLarge):
        names.number_names(Names(3, ["x"] * limits.NAME_IDS_MAX))
    assert names.names_of(None) is names.numbered
    assert names.names_of(["x"]) is names.names_of(["x"])
    assert names.names_of(["y"]) is not names.names_of(["x"])
