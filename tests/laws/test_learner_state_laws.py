"""The laws of a learner's state: its size, its way through bytes and snapshots, what is left of it when it forgets."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learner_rows import (
    BUDGETS,
    FACES,
    NAMES,
    RECORD_BYTES,
    ROOMS,
    batches,
    fresh,
    learned_names,
    mixed_batches,
    points_for,
    record_words,
    rich_batches,
)
from stored import Stored

from advisor.domain import limits
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Advisor, Engine
from advisor.models.layout import WORDS
from advisor.models.learner_layout import LearnerTable


@pytest.fixture(params=sorted(FACES))
def face(request: pytest.FixtureRequest) -> Callable[[Advisor, Columns], None]:
    return FACES[request.param]


# -- round trips ----------------------------------------------------------------------------------------------------------


def through_bytes(advisor: Advisor) -> Advisor:
    return Advisor.from_bytes(advisor.to_bytes())


def through_an_image(advisor: Advisor) -> Advisor:
    engine, stored = Engine(), Stored()
    engine.advisor = advisor
    stored.commit(engine.take_image())
    memory = advisor.components.learners.memory_bytes
    return Engine.restore(stored.stored(), model_memory_bytes=memory).advisor


ROUND_TRIPS = (through_bytes, through_an_image)


# -- laws: size -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", BUDGETS)
def test_state_is_of_one_size_after_n_and_10_n_rows(face: Callable[[Advisor, Columns], None], memory: int) -> None:
    rng = np.random.default_rng(1)
    advisor = Advisor(model_memory_bytes=memory)

    def feed(n: int) -> None:
        # A few settings, so that cells are all there from the start and their solution has its final size.
        index, x, t = rng.integers(0, 3, n), rng.choice([1.0, 30.0, 1e3, 1e6], n), rng.random(n) + 0.1
        face(advisor, columns_of(ComponentNames(NAMES), index, x, rng.choice([1.0, 4.0], n), t))
        for name in NAMES:
            advisor.predict(name, predictor=5.0)

    feed(500)
    tables, state = (
        advisor.components.bytes,
        advisor.extract(parts=()),
    )  # without totals, whose bytes grow with their digits
    tracemalloc.start()
    try:
        sizes: list[int] = []
        for _ in range(5):
            feed(4500)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert advisor.components.bytes == tables
    assert len(advisor.extract(parts=())) == len(state)
    # numpy's and Python's own stores of small blocks fill now and then; what is kept of rows is kept of all rows.
    assert np.diff(sizes).min() < 4500, "a byte a row is kept somewhere"


@pytest.mark.parametrize(("memory", "each_max"), [(0, 1408), (2**30, 4900)])
def test_bytes_a_component_are_bounded(memory: int, each_max: int) -> None:
    """The base tier alone at 100,000 components; with learners, of one predictor, at 10,000.

    Rows of tables are counted as they are filled: Python's tracer does not see the pages that large tables grow in.
    """

    def filled(n: int) -> Advisor:
        # Names are made for each batch, as a service decodes them: what stays of them is the advisor's.
        advisor = Advisor(model_memory_bytes=memory)
        for start in range(0, n, 10_000):
            names = [f"stage/component-{i:06d}" for i in range(start, start + min(n, 10_000))]
            index = np.arange(len(names))
            advisor.learn_batch(
                columns_of(ComponentNames(names), index, None, np.ones(len(names)), np.ones(len(names)))
            )
        return advisor

    n = 10_000 if memory else limits.COMPONENTS_MAX
    filled(1000)  # what is loaded at first use is no component's
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        advisor = filled(n)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(advisor.components) == n
    rows = 8 * WORDS + (RECORD_BYTES if memory else 0)
    each = rows + (after - before) / n
    assert after - before < n * rows / 4, "the tables were traced, and counted twice"
    assert each <= each_max, f"{each:.0f} bytes a component"
    records = advisor.components.learners.used_bytes
    assert records <= memory
    assert records == (n * RECORD_BYTES if memory else 0)


def test_a_component_with_one_predictor_keeps_at_most_four_and_a_half_kilobytes() -> None:
    assert (WORDS + LearnerTable(2).words_a_record) * 8 <= 4.5 * 1024


def test_the_default_budget_holds_whatever_comes() -> None:
    advisor = Advisor(model_memory_bytes=20 * RECORD_BYTES)
    for axes in (3, 2, 5):
        names = [f"{axes} {i}" for i in range(15)]
        ones = np.ones(15)
        point = np.ones((15, axes - 1))
        advisor.observe_columns(components=names, index=np.arange(15), predictor=point, cores=ones, elapsed_s=ones)
        assert advisor.components.learners.used_bytes <= 20 * RECORD_BYTES
    totals = advisor.components.totals
    assert totals["promotions"] + totals["promotions_refused"] == 45
    assert totals["promotions"] >= 10
    for name in advisor.components.slots.components:
        point = [1.0] * (int(name[0]) - 1)
        assert advisor.predict(name, predictor=point if len(point) > 1 else 1.0).elapsed_s == pytest.approx(
            1.0, rel=0.02
        )


# -- laws: round trips --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trip", ROUND_TRIPS)
@given(before=mixed_batches(), after=mixed_batches(), memory=ROOMS)
@settings(max_examples=40, deadline=None)
def test_a_round_trip_gives_the_same_state_answers_and_future(
    trip: Any, before: Columns, after: Columns, memory: int
) -> None:
    original = Advisor(model_memory_bytes=memory)
    original.learn_batch(fresh(before))
    copied = trip(original)
    assert copied.components.slots.names == original.components.slots.names
    assert copied.components.totals == original.components.totals
    assert copied.to_bytes() == original.to_bytes()
    for advisor in (original, copied):
        advisor.learn_batch(fresh(after))
    assert copied.to_bytes() == original.to_bytes()
    for name in learned_names(original):
        at = points_for(original, name, 5.0)
        for question in ({}, {"machine": "m1"}):
            assert copied.predict(name, predictor=at, cores=3, **question) == (
                original.predict(name, predictor=at, cores=3, **question)
            )


# -- laws: forgetting ---------------------------------------------------------------------------------------------------------


@given(rich_batches(), ROOMS)
@settings(max_examples=40, deadline=None)
def test_forgetting_keeps_exact_counts(columns: Columns, memory: int) -> None:
    advisor = Advisor(model_memory_bytes=memory)
    advisor.learn_batch(fresh(columns))
    table = advisor.components.table
    exact = ("rows", "extra_runs", "failed", "unfinished")
    before = {field: table.int_field(field)[: len(advisor.components)].copy() for field in exact}
    totals = dict(advisor.components.totals)
    for name in list(advisor.components.slots.components):
        assert advisor.forget(name)["rows"] == before["rows"][advisor.components.slots.slot_of(name)]
    for field in exact:
        np.testing.assert_array_equal(table.int_field(field)[: len(advisor.components)], before[field])
    assert {k: v for k, v in advisor.components.totals.items() if k != "forgets"} == totals
    assert (table.evidence()[: len(advisor.components)] == 0).all()
    for table in advisor.components.learners.tables.values():
        assert not table.int_field("cells").any()


@given(batches(rows_max=100), st.sampled_from(BUDGETS))
@settings(max_examples=40, deadline=None)
def test_a_component_that_forgot_all_learns_as_a_new_one(columns: Columns, memory: int) -> None:
    new, renewed = (Advisor(model_memory_bytes=memory) for _ in range(2))
    renewed.learn_batch(fresh(columns))
    for name in list(renewed.components.slots.names):
        renewed.forget(name)
    for advisor in (new, renewed):
        advisor.learn_batch(fresh(columns))
    for name in learned_names(new):
        here = new.predict(name, predictor=np.array([1.0, 300.0]), cores=3)
        there = renewed.predict(name, predictor=np.array([1.0, 300.0]), cores=3)
        for field in ("elapsed_s", "low_s", "high_s"):
            np.testing.assert_array_equal(getattr(here, field), getattr(there, field))
        np.testing.assert_array_equal(record_words(new, name), record_words(renewed, name))
