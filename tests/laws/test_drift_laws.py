"""Changes and outliers in the fold: the same bytes and the same changes however a batch is cut, with a learner and without."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from folds import Changes, fold, fold_singly
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.models import drift
from advisor.models.fold import KERNELS
from advisor.models.layout import FIRST_SOLVE
from advisor.models.learner_layout import KEPT_RUNS, LearnerTable
from advisor.models.table import Table

TEST_FIELDS = (
    "drift_centre", "drift_rate", "drift_levels", "drift_rise", "drift_fall", "drift_sum", "drift_square",
)  # fmt: skip
Columns = tuple[np.ndarray, ...]


def stream(seed: int, rows: int, components: int, step: float, outlier: float) -> Columns:
    """Return columns in which each component becomes slower and faster every 150 of its rows, and some rows are wild."""
    rng = np.random.default_rng(seed)
    slots = rng.integers(0, components, rows)
    x, p = rng.uniform(1.0, 100.0, rows), rng.choice([0.5, 1.0, 3.7, 8.0], rows)
    level = np.where(np.arange(rows) // components % 300 < 150, 1.0, step)
    t = (1e-3 + 1e-4 * x) * (0.2 + 0.8 / p) * level * rng.lognormal(0.0, rng.choice([0.01, 0.3]), rows)
    t = np.where(rng.random(rows) < outlier, t * rng.choice([1e-3, 1e3], rows), t)
    return slots, x, p, t, rng.integers(1, 4, rows)


def records(components: int, learner: bool) -> LearnerTable | None:
    return LearnerTable(2, components) if learner else None


def learn(
    table: Table, learners: LearnerTable | None, columns: Columns, cuts: list[int],
    by: Callable[..., Changes] = fold,
) -> list[tuple[int, int, float]]:  # fmt: skip
    """Fold the columns in parts; return the changes, their rows numbered in the whole."""
    found: list[tuple[int, int, float]] = []
    n = len(columns[0])
    edges = [0, *sorted({cut % (n + 1) for cut in cuts}), n]
    for start, stop in itertools.pairwise(edges):
        changes = by(table, learners, *(column[start:stop] for column in columns))
        found += [
            (int(slot), int(row) + start, float(ratio))
            for slot, row, ratio in zip(changes.slots, changes.rows, changes.log2_ratio, strict=True)
        ]
    return found


def state_of(table: Table, learners: LearnerTable | None) -> tuple[bytes, bytes]:
    return table.records.tobytes(), b"" if learners is None else learners.words.tobytes()


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 4000),
    components=st.sampled_from([1, 2, 7, 60]),
    step=st.sampled_from([0.25, 1.0, 2.0, 50.0]),
    outlier=st.sampled_from([0.0, 0.01, 0.2]),
    cuts=st.lists(st.integers(0, 4000), max_size=5),
    learner=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_cut_gives_the_same_bytes_and_changes(
    seed: int, rows: int, components: int, step: float, outlier: float, cuts: list[int], learner: bool
) -> None:
    columns = stream(seed, rows, components, step, outlier)
    whole, parts = ((Table(components), records(components, learner)) for _ in range(2))
    assert learn(*whole, columns, []) == learn(*parts, columns, cuts)
    assert state_of(*whole) == state_of(*parts)


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 1500),
    components=st.sampled_from([1, 7]),
    step=st.sampled_from([0.25, 50.0]),
    learner=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_single_rows_give_the_same_bytes_and_changes(
    seed: int, rows: int, components: int, step: float, learner: bool
) -> None:
    columns = stream(seed, rows, components, step, 0.01)
    whole, single = ((Table(components), records(components, learner)) for _ in range(2))
    assert learn(*whole, columns, []) == learn(*single, columns, [], by=fold_singly)
    assert state_of(*whole) == state_of(*single)


@pytest.mark.parametrize("learner", [False, True])
def test_the_streams_of_these_laws_have_changes_and_outliers(learner: bool) -> None:
    table = Table(7)
    changes = learn(table, records(7, learner), stream(1, 4000, 7, 4.0, 0.01), [])
    assert len(changes) >= 7
    assert table["outliers"].sum() >= 7
    assert [table["changes"][slot] for slot in range(7)] == [sum(c[0] == slot for c in changes) for slot in range(7)]
    assert [c[1] for c in changes] == sorted(c[1] for c in changes)
    last = {slot: (row, ratio) for slot, row, ratio in changes}
    slots = stream(1, 4000, 7, 4.0, 0.01)[0]
    for slot, (row, ratio) in last.items():
        assert table["changed_by"][slot] == ratio
        assert table["changed_at"][slot] == np.count_nonzero(slots[: row + 1] == slot)


def test_a_change_keeps_exact_counts_and_discounts_the_sums() -> None:
    table, learners = Table(1), LearnerTable(2, 1)
    changes = learn(table, learners, stream(2, 400, 1, 4.0, 0.0), [])
    assert table["rows"][0] == 400
    first = changes[0][1] + 1
    short, its = Table(1), LearnerTable(2, 1)
    columns = tuple(column[:first] for column in stream(2, 400, 1, 4.0, 0.0))
    learn(short, its, columns, [])
    assert short["rows"][0] == first
    assert short["rows"][0] - short["forgotten"][0] == pytest.approx(drift.KEPT_ROWS)
    assert short["solve_at"][0] == first + FIRST_SOLVE
    runs = columns[4].sum()
    assert short["cell_runs"][:, 0].sum() == pytest.approx(runs * drift.KEPT_ROWS / first)
    assert its.floats("runs")[0].sum() == pytest.approx(KEPT_RUNS)
    assert its.int_field("seen")[0] == 0
    assert its.int_field("cells")[0] > 0


def merge(into: Table, other: Table) -> None:
    KERNELS.merge_sums(into.records, 0, other.records[:1].copy(), 0)


def test_merge_restarts_the_test_and_adds_the_counts() -> None:
    one, other = Table(1), Table(1)
    for table, seed in ((one, 3), (other, 4)):
        learn(table, None, stream(seed, 400, 1, 8.0, 0.01), [])
        assert table["changes"][0] > 0
    changes, outliers = (one[field][0] + other[field][0] for field in ("changes", "outliers"))
    last = max((one["changed_at"][0], one["changed_by"][0]), (other["changed_at"][0], other["changed_by"][0]))
    merge(one, other)
    assert (one["changes"][0], one["outliers"][0]) == (changes, outliers)
    assert (one["changed_at"][0], one["changed_by"][0]) == last
    assert all(one[field][0] == 0 for field in TEST_FIELDS)
    assert one["solve_at"][0] <= one["rows"][0] + FIRST_SOLVE


@pytest.mark.parametrize("keep", [0.0, 0.5])
def test_forgetting_restarts_the_test_and_keeps_the_counts(keep: float) -> None:
    table = Table(1)
    learn(table, None, stream(6, 500, 1, 8.0, 0.01), [])
    counts = [table[field][0] for field in ("rows", "changes", "outliers", "changed_at", "changed_by")]
    assert counts[1] > 0
    KERNELS.forget_sums(table.records, 0, keep)
    assert [table[field][0] for field in ("rows", "changes", "outliers", "changed_at", "changed_by")] == counts
    assert all(table[field][0] == 0 for field in TEST_FIELDS)
