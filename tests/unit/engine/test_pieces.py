"""A batch in pieces: the same bytes, the same receipt, and no piece that predicts more rows than it may."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Advisor, Engine
from advisor.engine.pieces import PIECE_ROWS, PIECE_SCORES
from advisor.errors import SequenceGap
from advisor.models.support_fold import SCORES_EARLY

KEY = ("producer", bytes(16))


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


def spent(engine: Engine) -> int:
    return sum(n for name, n in engine.totals.items() if name.startswith("scores.spent"))


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(0, 150),
    components=st.integers(1, 20),
    before=st.integers(0, 100),
)
def test_pieces_leave_the_state_and_the_receipt_of_the_whole(
    seed: int, rows: int, components: int, before: int
) -> None:
    first, batch = columns(seed + 1, before, components), columns(seed, rows, components)
    batch = replace(batch, carried={"later": rows})  # counted with the batch, not with its rows
    whole, cut = Engine(), Engine()
    for engine in (whole, cut):
        engine.observe(first)
    receipt = whole.observe_batch(*KEY, 1, batch)
    stops = cut.cuts(batch)
    assert stops[-1] == rows
    assert stops == sorted(set(stops))
    underway = cut.begin(batch, stops, KEY, 1)
    assert underway is not None
    more, made = True, spent(cut)
    while more:
        more = underway.fold_next()
        assert spent(cut) - made <= PIECE_SCORES or cut.totals["changes"]
        made = spent(cut)
    told = [
        json.dumps(each.as_dict(), sort_keys=True) for each in (underway.receipt(1), receipt)
    ]  # a NaN equals itself
    assert told[0] == told[1]
    assert cut.advisor.to_bytes() == whole.advisor.to_bytes()
    assert dict(cut.totals) == dict(whole.totals)


def test_what_vectors_machines_and_measures_cost_is_reckoned_roughly() -> None:
    rng, rows = np.random.default_rng(3), 200
    batch = columns_of(
        ComponentNames([f"c{i}" for i in range(20)]), rng.integers(0, 20, rows), rng.uniform(1, 9, (rows, 2)),
        rng.choice([1.0, 2.0], rows), rng.uniform(1, 2, rows), machine=rng.integers(-1, 2, rows), labels=["a", "b"],
        measures={"peak_bytes": rng.uniform(1e6, 1e9, rows)},
    )  # fmt: skip
    engine, whole = Engine(), Engine()
    whole.observe(batch)
    underway, made, most = engine.begin(batch, engine.cuts(batch)), 0, 0
    assert underway is not None
    more = True
    while more:
        more = underway.fold_next()
        made, most = spent(engine), max(most, spent(engine) - made)
    assert made > 40
    assert most <= 2 * PIECE_SCORES
    assert engine.advisor.to_bytes() == whole.advisor.to_bytes()


def test_rows_that_are_not_predicted_are_cut_by_their_number_alone() -> None:
    rows = 2 * PIECE_ROWS + 5
    engine = Engine()
    engine.totals_add("scores.spent.2", SCORES_EARLY)
    engine.totals_add("scores.saved.2", 0)
    batch = columns(1, rows, 100)
    assert engine.cuts(batch) == [PIECE_ROWS, 2 * PIECE_ROWS, rows]
    assert engine.cuts(batch.take(slice(0, 1000))) == [1000]


def test_predictors_are_reckoned_by_the_table_of_their_number() -> None:
    engine, rows = Engine(), 1000
    rng = np.random.default_rng(3)
    batch = columns_of(
        ComponentNames([f"c{i}" for i in range(20)]), rng.integers(0, 20, rows), rng.uniform(1, 9, (rows, 2)),
        np.ones(rows), rng.uniform(1, 2, rows),
    )  # fmt: skip
    engine.totals_add("scores.spent.2", SCORES_EARLY)
    engine.totals_add("scores.saved.2", 0)
    assert len(engine.cuts(batch)) > 10
    engine.totals_add("scores.spent.3", SCORES_EARLY)
    engine.totals_add("scores.saved.3", 0)
    assert engine.cuts(batch) == [rows]


def test_components_without_room_for_points_are_predicted_nothing() -> None:
    engine = Engine(model_memory_bytes=0)
    batch = columns(1, 3000, 100)
    assert engine.cuts(batch) == [3000]


def test_to_cut_changes_nothing() -> None:
    engine, batch = Engine(), columns(4, 300, 10)
    engine.observe(batch)
    before, totals = engine.advisor.to_bytes(), dict(engine.totals)
    engine.cuts(columns(5, 300, 12))
    assert engine.advisor.to_bytes() == before
    assert dict(engine.totals) == totals


def test_a_number_is_applied_with_the_last_piece_and_there_is_no_snapshot_before() -> None:
    engine, batch = Engine(), columns(1, 300, 10)
    stops = engine.cuts(batch)
    assert len(stops) > 3
    underway = engine.begin(batch, stops, KEY, 1)
    assert underway is not None
    underway.fold_next()
    assert engine.applied(*KEY) == 0
    with pytest.raises(AssertionError):
        engine.snapshot()
    while underway.fold_next():
        pass
    assert engine.snapshot().producers == {KEY: 1}
    assert engine.begin(batch, stops, KEY, 1) is None
    with pytest.raises(SequenceGap):
        engine.begin(batch, stops, KEY, 3)
    assert engine.underway is None


def test_what_comes_between_two_pieces_is_learned_between_them() -> None:
    batch, other = columns(1, 300, 10), columns(2, 50, 3)
    engine, plain = Engine(), Advisor()
    stops = engine.cuts(batch)
    underway = engine.begin(batch, stops)
    assert underway is not None
    for _ in range(3):
        underway.fold_next()
    engine.observe(other)
    while underway.fold_next():
        pass
    plain.fold(batch.take(slice(0, stops[2])))
    plain.fold(other)
    plain.fold(batch.take(slice(stops[2], None)))
    assert engine.advisor.to_bytes() == plain.to_bytes()
