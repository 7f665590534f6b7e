"""A batch in slices: the same bytes and the same answer, and no commit before its last."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Advisor, Engine
from advisor.engine.slices import KNOWN_FOR_YOUNG, Batch
from advisor.errors import SequenceGap

KEY = ("producer", bytes(16))
SLICE_ROWS = 7


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.engine.slices.SLICE_ROWS", SLICE_ROWS)


def columns(seed: int, rows: int, components: int, **more: Any) -> Columns:
    """Return rows of which some are bad, some failed, and some stand for several runs."""
    rng = np.random.default_rng(seed)
    x, p = np.exp(rng.uniform(0, 7, rows)), rng.choice([0.5, 1.0, 2.0, 8.0], rows)
    t = 1e-4 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.2, rows)
    x[rng.random(rows) < 0.03] = -1.0
    t[rng.random(rows) < 0.03] = np.nan
    return columns_of(
        ComponentNames([f"c{i}" for i in range(components)]), rng.integers(0, components, rows), x, p, t,
        count=rng.integers(1, 4, rows), ok=rng.random(rows) > 0.05, **more,
    )  # fmt: skip


def begun(engine: Engine, key: tuple[str, bytes] | None, sequence: int | None, batch: Columns) -> Batch:
    return cast("Batch", engine.begin(key, sequence, batch))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(0, 150),
    components=st.integers(1, 20),
    before=st.integers(0, 100),
)
def test_pieces_leave_the_state_and_the_answer_of_the_whole(seed: int, rows: int, components: int, before: int) -> None:
    first, batch = columns(seed + 1, before, components), columns(seed, rows, components)
    batch = replace(batch, carried={"later": rows})  # counted with the batch, not with its rows
    whole, cut = Engine(), Engine()
    for engine in (whole, cut):
        engine.apply(None, None, first)
    answer = whole.apply(KEY, 1, batch)
    underway = begun(cut, KEY, 1, batch)
    more = True
    while more:
        left, more = underway.left, underway.fold_next()
        assert left - underway.left <= SLICE_ROWS * KNOWN_FOR_YOUNG
        assert left - underway.left >= SLICE_ROWS or not more
    told = [json.dumps(each, sort_keys=True) for each in (underway.answer(), answer)]  # a NaN equals itself
    assert told[0] == told[1]
    assert cut.advisor.to_bytes() == whole.advisor.to_bytes()
    assert dict(cut.totals) == dict(whole.totals)


def test_a_slice_has_more_rows_the_better_their_components_are_known() -> None:
    engine, most = Engine(), SLICE_ROWS * KNOWN_FOR_YOUNG
    engine.apply(None, None, columns(1, 300, 2))  # c0 and c1 are known well then, the others not at all
    well, young = columns(2, 300, 2), columns(3, 300, 40)
    for batch, rows in ((well, most), (young, SLICE_ROWS)):
        underway = begun(engine, None, None, batch)
        underway.fold_next()
        first = 300 - underway.left
        assert rows <= first < rows + (KNOWN_FOR_YOUNG if batch is young else 1)
        while underway.fold_next():
            pass


def test_a_number_is_applied_with_the_last_piece_and_there_is_no_snapshot_before() -> None:
    engine, batch = Engine(), columns(1, 300, 10)
    underway = begun(engine, KEY, 1, batch)
    underway.fold_next()
    assert engine.applied(*KEY) == 0
    with pytest.raises(AssertionError):
        engine.commits.snapshot()
    while underway.fold_next():
        pass
    assert engine.commits.snapshot().producers == {KEY: 1}
    assert cast("dict[str, Any]", engine.begin(KEY, 1, batch))["replayed"]
    with pytest.raises(SequenceGap):
        engine.begin(KEY, 3, batch)
    assert engine.underway is None


def test_what_comes_between_two_pieces_is_learned_between_them() -> None:
    batch, other = columns(1, 300, 10), columns(2, 50, 3)
    engine, plain = Engine(), Advisor()
    underway = begun(engine, None, None, batch)
    for _ in range(3):
        underway.fold_next()
    engine.apply(None, None, other)
    while underway.fold_next():
        pass
    plain.fold(batch.take(slice(0, 3 * SLICE_ROWS)))
    plain.fold(other)
    plain.fold(batch.take(slice(3 * SLICE_ROWS, None)))
    assert engine.advisor.to_bytes() == plain.to_bytes()
