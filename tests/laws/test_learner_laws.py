"""The laws that every learner and every face of it obeys: one suite, whatever rows come.

A face is a way to hand rows to a state: columns in batches, one by one, numbered batches of an engine. Whatever the face and
however the rows are cut, the state is the same to the last bit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from learner_rows import (
    BASE_MODELS,
    BUDGETS,
    FACES,
    MODELS,
    ROOMS,
    assert_possible,
    assert_prior,
    batches,
    fresh,
    learned_names,
    mixed_batches,
    parts,
    points_for,
    record_words,
    rich_batches,
)

from advisor.domain.observations import Columns, ComponentNames
from advisor.engine import Advisor
from advisor.engine.rows import SEPARATOR
from advisor.engine.slots import MEASURE_SCALES
from advisor.errors import NotEnoughData, UnknownComponent
from advisor.models.layout import FIELDS

# -- laws: questions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_a_question_before_any_row_names_the_unknown_component(model: str | None) -> None:
    with pytest.raises(UnknownComponent) as caught:
        Advisor().predict("never", predictor=1.0, cores=2, model=model)
    assert (caught.value.field, caught.value.value, caught.value.retry) == ("component", "never", False)


@pytest.mark.parametrize("memory", BUDGETS)
def test_a_component_of_failed_and_unfinished_rows_only_is_answered_by_a_prior(memory: int) -> None:
    advisor = Advisor(model_memory_bytes=memory)
    advisor.observe("c", cores=2, elapsed_s=1.0, ok=False)
    advisor.observe("c", cores=2, elapsed_s=1e-6, running=True)
    assert_prior(advisor)
    for ask in (*(_asks(advisor, model) for model in BASE_MODELS), lambda: advisor.model("c")):
        with pytest.raises(NotEnoughData, match="no learned run"):
            ask()
    advisor.observe("c", cores=2, elapsed_s=1.0)
    for model in (None, *BASE_MODELS):
        answer = advisor.predict("c", model=model)
        assert 0 < answer.elapsed_s < 10
        assert answer.observations == 1


def _asks(advisor: Advisor, model: str | None) -> Callable[[], Any]:
    return lambda: advisor.predict("c", model=model)


@pytest.mark.parametrize("memory", BUDGETS)
def test_after_forgetting_all_there_is_a_prior_and_then_again_an_answer(memory: int) -> None:
    advisor = Advisor(model_memory_bytes=memory)
    advisor.observe("c", predictor=3.0, cores=2, elapsed_s=8.0)
    advisor.forget("c")
    assert_prior(advisor)
    alone = advisor.predict("c")
    advisor.observe("other", predictor=5.0, cores=2, elapsed_s=1e-3)
    assert_prior(advisor)
    assert advisor.predict("c").elapsed_s == pytest.approx(
        1e-3
    )  # the typical run of the others, no longer a guess of 1 s
    assert alone.elapsed_s == pytest.approx(1.0)
    advisor.observe("c", predictor=3.0, cores=2, elapsed_s=1.0)
    assert advisor.predict("c", predictor=3.0, cores=2).elapsed_s == pytest.approx(1.0, rel=0.01)


@given(rich_batches(), st.sampled_from(MODELS), st.sampled_from(BUDGETS))
@settings(max_examples=40, deadline=None)
def test_a_question_changes_no_state(columns: Columns, model: str | None, memory: int) -> None:
    advisor = Advisor(model_memory_bytes=memory)
    advisor.learn_batch(fresh(columns))
    before = advisor.to_bytes()
    if memory or model in (None, *BASE_MODELS):
        for name in learned_names(advisor):
            at = points_for(advisor, name, [0.0, 5.0])
            advisor.predict(name, predictor=at, cores=3, model=model)
            advisor.predict(name, predictor=at, cores=3, model=model, machine="m1")
            advisor.choose_cores(name, predictor=at[1], cores_max=300)
            advisor.suggest(name, limit=1)
    advisor.status()
    assert advisor.to_bytes() == before


EXTREMES = st.tuples(
    st.sampled_from([0.0, 2.0**-1074, 2.0**-61, 2.0**-60, 1e-9, 1.0, 1e6, 2.0**53 + 2, 2.0**60])
    | st.floats(0.0, 2.0**60),
    st.sampled_from([2.0**-10, 0.5, 1.0, 2.0, 47.0, 2.0**20]) | st.floats(2.0**-10, 2.0**20),
    st.sampled_from([1e-9, 1e-6, 1.0, 1e9]) | st.floats(1e-9, 1e9),
    st.sampled_from([1, 2, 2**32]),
)


@given(st.lists(EXTREMES, min_size=1, max_size=80), st.booleans(), st.sampled_from(BUDGETS))
@example([(2.0**60, 2.0**20, 1e-9, 2**32), (0.0, 2.0**-10, 1e9, 1)] * 20, 0.0, 2**24)
@example([(2.0**60, 2.0**20, 1e-9, 2**32), (0.0, 2.0**-10, 1e9, 1)] * 20, 0.0, 0)
@example([(1.0, 0.25, 1e9, 1), (1.0, 0.25, 1e-9, 1)] * 10, 1e-300, 2**24)
@example([(1.0, 0.25, 1e9, 1), (1.0, 0.25, 1e-9, 1)] * 10, 1e-300, 0)
@example([(5.0, 1.0, 1e-3, 3 * 10**9), (6.0, 2.0, 2e-3, 1)], 0.5, 2**24)
@settings(max_examples=100, deadline=None)
def test_any_legal_rows_give_finite_positive_predictions(
    rows: list[tuple[float, float, float, int]], forgets: bool, memory: int
) -> None:
    x, p, t, count = (np.array(column) for column in zip(*rows, strict=True))
    advisor = Advisor(model_memory_bytes=memory)
    half = len(rows) // 2
    for rows_now in (slice(0, half), slice(half, None)):
        advisor.observe_columns(
            components=["c"], index=np.zeros(len(x), int)[rows_now], predictor=x[rows_now], cores=p[rows_now],
            elapsed_s=t[rows_now], count=count[rows_now],
        )  # fmt: skip
        if rows_now.start == 0 and half and forgets:
            advisor.forget("c")
    words = advisor.components.table.words[0]
    finite = {"x_low", "x_high", "p_low", "p_high", "t_low", "origin", "cell_exponent", "least_cores"}
    start = 0
    for name, size, kind, *_ in FIELDS:
        if kind == "f" and name not in finite:
            assert name.startswith("top_") or np.isfinite(words[start : start + size]).all(), name
        start += size
    assert (advisor.components.table["gram"][:, 0] >= 0).all()
    for model in MODELS if memory else (None, *BASE_MODELS):
        for level in (0.01, 0.9, 0.9999):
            answer = advisor.predict(
                "c", predictor=np.array([0.0, 1e-30, 1.0, 2.0**60])[:, None], cores=np.array([2.0**-10, 1.0, 2.0**20]),
                level=level, model=model,
            )  # fmt: skip
            assert_possible(answer, model)
    choice = advisor.choose_cores("c", predictor=float(x[0]), cores_max=2**20)
    assert 1 <= choice.cores <= 2**20


@given(rich_batches(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_legal_points_machines_and_measures_give_finite_positive_predictions(
    columns: Columns, forgets: bool
) -> None:
    advisor = Advisor()
    half = len(columns) // 2
    for part in (columns.select_rows(slice(0, half)), columns.select_rows(slice(half, None))):
        advisor.learn_batch(fresh(part))
        for name in advisor.components.slots.components if forgets and len(part) == half else []:
            advisor.forget(name)
    for name in learned_names(advisor):
        at = points_for(advisor, name, [0.0, 1e-30, 1.0, 2.0**60])
        for measure in ("elapsed_s", *columns.measures):
            for machine in (None, "m1", "never seen"):
                try:
                    answer = advisor.predict(
                        name, predictor=at, cores=[2.0**-10, 1.0, 47.0, 2.0**20], machine=machine, measure=measure
                    )
                except NotEnoughData as missing:
                    assert measure in str(missing)  # noqa: PT017 - a measure may not have come
                    continue
                if answer.observations:
                    assert_possible(answer, (name, measure, machine), 1.0 / MEASURE_SCALES.get(measure, 1.0))


@given(rich_batches(), st.sampled_from(MODELS), st.sampled_from(BUDGETS), st.sampled_from([None, "m1"]))
@settings(max_examples=60, deadline=None)
def test_one_point_many_points_and_a_batch_of_components_give_one_answer(
    columns: Columns, model: str | None, memory: int, machine: str | None
) -> None:
    advisor = Advisor(model_memory_bytes=memory)
    advisor.learn_batch(fresh(columns))
    learned = learned_names(advisor)
    if not learned or (not memory and model not in (None, *BASE_MODELS)):
        return
    x, p = np.array([0.0, 1.0, 290.0, 1e9 + 5000, 2e12]), np.array([1.0, 4.0, 3.0, 0.5, 100.0])
    at = points_for(advisor, learned[0], x)
    many = advisor.predict(learned[0], predictor=at, cores=p, model=model, machine=machine)
    for i in range(len(x)):
        one = advisor.predict(
            learned[0],
            predictor=float(x[i]) if at.ndim == 1 else at[i],
            cores=float(p[i]),
            model=model,
            machine=machine,
        )
        assert (one.model, one.observations) == (many.model, many.observations)
        # Two orders of summation, through covariances of points up to 2**120 apart and of means of 10**9 runs.
        tolerance = 1e-6  # 2.2e-7 was seen
        for field in ("elapsed_s", "low_s", "high_s", "extrapolates"):
            assert getattr(one, field) == pytest.approx(getattr(many, field)[i], rel=tolerance, abs=1e-12), field


# -- laws: folding ----------------------------------------------------------------------------------------------------------


@given(
    mixed_batches(150), st.lists(st.integers(0, 10_000), max_size=12), st.integers(0, 10_000),
    st.booleans(), ROOMS, st.sampled_from([2, 4, 100]),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_cut_anywhere_same_bytes(
    columns: Columns, cuts: list[int], at: int, forgets: bool, memory: int, most: int
) -> None:
    at %= len(columns) + 1
    whole, cut = (Advisor(most, memory) for _ in range(2))
    halves = [part for part in (columns.select_rows(slice(0, at)), columns.select_rows(slice(at, None))) if len(part)]
    for number, half in enumerate(halves):
        receipt = whole.learn_batch(fresh(half))
        receipts = [cut.learn_batch(fresh(part)) for part in parts(half, cuts)]
        assert receipt.accepted == sum(r.accepted for r in receipts)
        if forgets and number == 0 and whole.components.slots.names:
            for advisor in (whole, cut):
                advisor.forget(advisor.components.slots.names[0])
    assert cut.to_bytes() == whole.to_bytes()


@given(mixed_batches(rows_max=80))
@settings(max_examples=40, deadline=None)
def test_every_face_gives_the_same_bytes(columns: Columns) -> None:
    states = {}
    for name, give in FACES.items():
        advisor = Advisor()
        give(advisor, columns)
        states[name] = advisor.to_bytes()
    assert len(set(states.values())) == 1, [len(s) for s in states.values()]


@given(batches(rows_max=60), batches(rows_max=60))
@settings(max_examples=30, deadline=None)
def test_components_do_not_touch_each_other(columns: Columns, others: Columns) -> None:
    alone, mixed = Advisor(), Advisor()
    mine = replace(columns, components=ComponentNames(["mine"]), index=np.zeros(len(columns), np.int64))
    alone.learn_batch(fresh(mine))
    for part, other in zip(parts(mine, [7, 20]), parts(others, [3, 30]), strict=False):
        mixed.learn_batch(fresh(other))
        mixed.learn_batch(fresh(part))
    done = sum(len(part) for part, _ in zip(parts(mine, [7, 20]), parts(others, [3, 30]), strict=False))
    if done < len(mine):
        mixed.learn_batch(fresh(mine.select_rows(slice(done, None))))
    np.testing.assert_array_equal(
        mixed.components.table.words[mixed.components.slots.slot_of("mine")].view(np.uint64),
        alone.components.table.words[0].view(np.uint64),
    )
    np.testing.assert_array_equal(record_words(mixed, "mine"), record_words(alone, "mine"))


@given(rich_batches())
@settings(max_examples=40, deadline=None)
def test_inputs_are_not_changed(columns: Columns) -> None:
    arrays = ("index", "predictor", "cores", "elapsed_s", "count", "ok", "running", "further", "machine")
    measures = {name: values.copy() for name, values in columns.measures.items()}
    for values in columns.measures.values():
        values.flags.writeable = False
    before = {name: copy.deepcopy(getattr(columns, name)) for name in arrays}
    for name in arrays:
        if before[name] is not None:
            getattr(columns, name).flags.writeable = False
    Advisor().learn_batch(fresh(columns))
    for name in arrays:
        np.testing.assert_array_equal(getattr(columns, name), before[name])
    for name, values in measures.items():
        np.testing.assert_array_equal(columns.measures[name], values)


def of_other_widths(columns: Columns, good: np.ndarray) -> np.ndarray:
    """Return the good rows that have another number of predictors than the first good row of their component."""
    width = np.ones(len(columns), int) if columns.further is None else 1 + (~np.isnan(columns.further)).sum(axis=1)
    refused, known = np.zeros(len(columns), bool), dict[int, int]()
    for row in np.flatnonzero(good).tolist():
        refused[row] = known.setdefault(int(columns.index[row]), int(width[row])) != width[row]
    return refused


@given(rich_batches(), ROOMS)
@settings(max_examples=40, deadline=None)
def test_what_was_sent_was_accepted_or_refused_and_counts_are_exact(columns: Columns, memory: int) -> None:
    rng = np.random.default_rng(len(columns))
    spoiled = rng.random(len(columns)) < 0.3
    columns.elapsed_s[spoiled] = rng.choice([np.nan, -1.0, np.inf, 0.0], int(spoiled.sum()))
    advisor = Advisor(model_memory_bytes=memory)
    receipt = advisor.learn_batch(fresh(columns))
    other = of_other_widths(columns, ~spoiled)
    assert receipt.accepted + receipt.refused.count == len(columns)
    assert receipt.refused.count == spoiled.sum() + other.sum() == sum(receipt.refused.by_code.values())
    assert receipt.refused.by_code.get("invalid_dimensions", 0) == other.sum()
    spoiled |= other
    totals = advisor.components.totals
    assert (totals["rows_accepted"], totals["rows_refused"]) == (receipt.accepted, receipt.refused.count)
    # What never happened has no count; rows are always counted.
    assert {k for k, n in totals.items() if not n} <= {"rows_accepted"}
    table = advisor.components.table
    failed = np.zeros(len(columns), bool) if columns.ok is None else ~columns.ok
    running = np.zeros(len(columns), bool) if columns.running is None else columns.running
    cut = np.zeros(len(columns), bool) if columns.killed is None else columns.killed > 0
    failed, running = failed & ~cut, running & ~cut
    each = np.ones(len(columns), np.int64) if columns.count is None else columns.count
    for slot, key in enumerate(advisor.components.slots.names):
        name, _, measure = key.partition(SEPARATOR)
        mine = ~spoiled & (np.array(columns.components.names)[columns.index] == name)
        learned = mine & ~failed & ~running
        if measure:
            learned &= ~np.isnan(columns.measures[measure])
        rows, unfinished = (int(table.int_field(field)[slot]) for field in ("rows", "unfinished"))
        ended = 0 if measure else int((mine & running & ~failed).sum())
        assert rows + unfinished == learned.sum() + ended  # a killed run is learned, or counted: by what it took
        assert (learned & ~cut).sum() <= rows <= learned.sum()
        if not cut.any():
            assert table.runs(slot) == each[learned].sum()
        assert table.int_field("failed")[slot] == (0 if measure else (mine & failed).sum())
