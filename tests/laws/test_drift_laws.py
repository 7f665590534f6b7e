"""Changes of speed and outliers: the same bytes however a stream is cut and by whichever face, with a learner and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learner_rows import BUDGETS, by_columns, by_observe, parts

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Advisor


def stream(seed: int, rows: int, components: int, step: float, outlier: float) -> Columns:
    """Return columns in which each component becomes slower and faster every 150 of its rows, and some rows are outliers."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, components, rows)
    x, p = rng.uniform(1.0, 100.0, rows), rng.choice([0.5, 1.0, 3.7, 8.0], rows)
    level = np.where(np.arange(rows) // components % 300 < 150, 1.0, step)
    t = (1e-3 + 1e-4 * x) * (0.2 + 0.8 / p) * level * rng.lognormal(0.0, rng.choice([0.01, 0.3]), rows)
    t = np.where(rng.random(rows) < outlier, t * rng.choice([1e-3, 1e3], rows), t)
    names = ComponentNames([f"c{n}" for n in range(components)])
    return columns_of(names, index, x, p, t, count=rng.integers(1, 4, rows))


def learned(columns: Columns, memory: int, cuts: Any = (), give: Any = by_columns) -> Advisor:
    advisor = Advisor(model_memory_bytes=memory)
    for part in parts(columns, list(cuts)):
        give(advisor, part)
    return advisor


def counts(advisor: Advisor, *fields: str) -> dict[str, int]:
    return {field: sum(each[field] for each in advisor.status()["components"]) for field in fields}


SEEDS, STEPS = st.integers(0, 2**32), st.sampled_from([0.25, 1.0, 2.0, 50.0])


@given(
    SEEDS, st.integers(1, 4000), st.sampled_from([1, 2, 7, 60]), STEPS, st.sampled_from([0.0, 0.01, 0.2]),
    st.lists(st.integers(0, 4000), max_size=5), st.sampled_from(BUDGETS),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_cut_gives_the_same_bytes(
    seed: int, rows: int, components: int, step: float, outlier: float, cuts: list[int], memory: int
) -> None:
    columns = stream(seed, rows, components, step, outlier)
    assert learned(columns, memory, cuts).to_bytes() == learned(columns, memory).to_bytes()


@given(SEEDS, st.integers(1, 1500), st.sampled_from([1, 7]), STEPS, st.sampled_from(BUDGETS))
@settings(max_examples=25, deadline=None)
def test_single_rows_give_the_same_bytes(seed: int, rows: int, components: int, step: float, memory: int) -> None:
    columns = stream(seed, rows, components, step, 0.01)
    assert learned(columns, memory, give=by_observe).to_bytes() == learned(columns, memory).to_bytes()


@pytest.mark.parametrize("memory", BUDGETS)
def test_changes_and_outliers_are_counted_and_neither_a_merge_nor_forgetting_changes_the_counts(memory: int) -> None:
    one, other = (learned(stream(seed, 4000, 7, 4.0, 0.01), memory) for seed in (1, 2))
    fields = ("rows", "changes", "outliers")
    first, second = counts(one, *fields), counts(other, *fields)
    assert first["rows"] == 4000
    assert min(first["changes"], first["outliers"]) >= 7
    one.merge(other)
    together = {field: first[field] + second[field] for field in fields}
    assert counts(one, *fields) == together
    for name in list(one.components.slots.components):
        one.forget(name)
    assert counts(one, *fields) == together
    one.learn_batch(stream(3, 1400, 7, 4.0, 0.0))  # and changes are found again
    assert counts(one, "changes")["changes"] > together["changes"]
