"""Changes and outliers in the fold: the same bytes and the same changes however a batch is cut, in numpy and compiled."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.models import combine, drift, fold, logarithm
from advisor.models.drift import ALARM, CLIP, SLACK, Scores
from advisor.models.layout import FIRST_SOLVE
from advisor.models.table import Table

NOISE_S = 1e-6


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    before = list(fold.COMPILED)
    fold.COMPILED.clear()
    yield
    fold.COMPILED[:] = before


def stream(seed: int, rows: int, components: int, step: float, wild: float) -> tuple[np.ndarray, ...]:
    """Return columns in which each component becomes slower and faster every 150 of its rows, and some rows are wild."""
    rng = np.random.default_rng(seed)
    slots = rng.integers(0, components, rows)
    x, p = rng.uniform(1.0, 100.0, rows), rng.choice([0.5, 1.0, 3.7, 8.0], rows)
    level = np.where(np.arange(rows) // components % 300 < 150, 1.0, step)
    t = (1e-3 + 1e-4 * x) * (0.2 + 0.8 / p) * level * rng.lognormal(0.0, rng.choice([0.01, 0.3]), rows)
    t = np.where(rng.random(rows) < wild, t * rng.choice([1e-3, 1e3], rows), t)
    return slots, x, p, t, rng.integers(1, 4, rows)


def learn(table: Table, columns: tuple[np.ndarray, ...], cuts: list[int]) -> list[tuple[int, int, float]]:
    """Fold the columns in parts; return the changes, their rows numbered in the whole."""
    found: list[tuple[int, int, float]] = []
    n = len(columns[0])
    edges = [0, *sorted({cut % (n + 1) for cut in cuts}), n]
    for start, stop in itertools.pairwise(edges):
        changes = fold.fold(table, *(column[start:stop] for column in columns), NOISE_S)
        found += [
            (int(slot), int(row) + start, float(ratio))
            for slot, row, ratio in zip(changes.slots, changes.rows, changes.log2_ratio, strict=True)
        ]
    return found


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 4000),
    components=st.sampled_from([1, 2, 7, 60]),
    step=st.sampled_from([0.25, 1.0, 2.0, 50.0]),
    wild=st.sampled_from([0.0, 0.01, 0.2]),
    cuts=st.lists(st.integers(0, 4000), max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_any_cut_gives_the_same_bytes_and_changes(
    seed: int, rows: int, components: int, step: float, wild: float, cuts: list[int]
) -> None:
    columns = stream(seed, rows, components, step, wild)
    whole, parts = Table(components), Table(components)
    assert learn(whole, columns, []) == learn(parts, columns, cuts)
    assert whole.words.tobytes() == parts.words.tobytes()
    assert not whole.tally.any()


@given(
    seed=st.integers(0, 2**32),
    components=st.sampled_from([1, 7, 3000]),
    cuts=st.lists(st.integers(0, 5000), max_size=3),
)
@settings(max_examples=25, deadline=None)
def test_compiled_rows_give_the_same_bytes_and_changes(seed: int, components: int, cuts: list[int]) -> None:
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    columns = stream(seed, 5000, min(components, 9), 4.0, 0.01)
    columns = (columns[0] * (components // min(components, 9)), *columns[1:])
    whole, compiled = Table(components), Table(components)
    expected = learn(whole, columns, [])
    assert fold.use_compiled()
    assert learn(compiled, columns, cuts) == expected
    assert whole.words.tobytes() == compiled.words.tobytes()
    assert expected


def test_the_streams_of_these_laws_have_changes_and_outliers() -> None:
    table = Table(7)
    changes = learn(table, stream(1, 4000, 7, 4.0, 0.01), [])
    assert len(changes) >= 7
    assert table["outliers"].sum() >= 7
    assert [table["changes"][slot] for slot in range(7)] == [sum(c[0] == slot for c in changes) for slot in range(7)]
    assert [c[1] for c in changes] == sorted(c[1] for c in changes)
    last = {slot: (row, ratio) for slot, row, ratio in changes}
    slots = stream(1, 4000, 7, 4.0, 0.01)[0]
    for slot, (row, ratio) in last.items():
        assert table["changed_by"][slot] == ratio
        assert table["changed_at"][slot] == np.count_nonzero(slots[: row + 1] == slot)


@given(
    z=st.lists(st.lists(st.integers(-1600, 1600), min_size=1, max_size=40), min_size=1, max_size=6),
    start=st.integers(0, ALARM - 1),
)
def test_the_walk_over_all_components_is_the_recursion_of_each(z: list[list[int]], start: int) -> None:
    """Oracle: Page's recursion, a row at a time, in Python's integers."""
    table = Table(len(z))
    table.integers("drift_levels")[0] = start << drift.RISE_BITS
    table.integers("drift_rise")[0] = (7 << drift.ROWS_BITS) + 2
    table["drift_rate"][:] = 1.0
    slots = np.concatenate([np.full(len(rows), slot) for slot, rows in enumerate(z)])
    order = np.argsort(np.concatenate([np.arange(len(rows)) for rows in z]), kind="stable")
    slots, values = slots[order], np.concatenate([np.array(rows) for rows in z])[order]
    every = np.ones(len(slots), np.bool_)
    scores = Scores(
        slots, values, values / 1024.0, table.integers("drift_levels")[slots], every, every, every, slots[:0]
    )
    walk = drift.walk(table, scores)
    alarms = dict(zip(slots[walk.alarms].tolist(), walk.alarms.tolist(), strict=True))
    for slot, rise, word in zip(walk.slots.tolist(), walk.rise.tolist(), walk.rise_word.tolist(), strict=True):
        level, total, n, fall, alarm = (start, 7, 2, 0, None) if slot == 0 else (0, 0, 0, 0, None)
        for row in np.flatnonzero(slots == slot).tolist():
            step = min(max(int(values[row]), -CLIP), CLIP)
            level, fall = max(0, level + step - SLACK), max(0, fall - step - SLACK)
            total, n = (total + int(values[row]), n + 1) if level > 0 else (0, 0)
            if level >= ALARM or fall >= ALARM:
                alarm = row
                break
        assert (rise, word >> drift.ROWS_BITS, word & drift.ROWS_MASK) == (level, total, n)
        assert alarms.get(slot) == alarm


def test_a_change_keeps_exact_counts_and_discounts_the_sums() -> None:
    table = Table(1)
    changes = learn(table, stream(2, 400, 1, 4.0, 0.0), [])
    assert table["rows"][0] == 400
    first = changes[0][1] + 1
    short = Table(1)
    columns = tuple(column[:first] for column in stream(2, 400, 1, 4.0, 0.0))
    learn(short, columns, [])
    assert short["rows"][0] == first
    assert short["rows"][0] - short["forgotten"][0] == pytest.approx(drift.KEPT_ROWS)
    assert short["solve_at"][0] == first + FIRST_SOLVE
    runs = columns[4].sum()
    assert short["cell_runs"][:, 0].sum() == pytest.approx(runs * drift.KEPT_ROWS / first)


def test_merge_restarts_the_test_and_adds_the_counts() -> None:
    one, other = Table(1), Table(1)
    for table, seed in ((one, 3), (other, 4)):
        learn(table, stream(seed, 400, 1, 8.0, 0.01), [])
        assert table["changes"][0] > 0
    changes, outliers = (one[field][0] + other[field][0] for field in ("changes", "outliers"))
    last = max((one["changed_at"][0], one["changed_by"][0]), (other["changed_at"][0], other["changed_by"][0]))
    combine.merge(one, np.array([0]), other, NOISE_S)
    assert (one["changes"][0], one["outliers"][0]) == (changes, outliers)
    assert (one["changed_at"][0], one["changed_by"][0]) == last
    assert all(one[field][0] == 0 for field in drift.FIELDS)
    assert one["solve_at"][0] <= one["rows"][0] + FIRST_SOLVE


def test_merge_with_an_empty_component_keeps_the_test() -> None:
    one, other = Table(1), Table(1)
    learn(other, stream(5, 140, 1, 1.0, 0.0), [])
    rate = other["drift_rate"][0]
    assert rate > 0
    combine.merge(one, np.array([0]), other, NOISE_S)
    assert one["drift_rate"][0] > 0
    combine.merge(other, np.array([0]), Table(1), NOISE_S)
    assert other["drift_rate"][0] > 0


@pytest.mark.parametrize("keep", [0.0, 0.5])
def test_forgetting_restarts_the_test_and_keeps_the_counts(keep: float) -> None:
    table = Table(1)
    learn(table, stream(6, 500, 1, 8.0, 0.01), [])
    counts = [table[field][0] for field in ("rows", "changes", "outliers", "changed_at", "changed_by")]
    assert counts[1] > 0
    combine.forget(table, 0, keep)
    assert [table[field][0] for field in ("rows", "changes", "outliers", "changed_at", "changed_by")] == counts
    assert all(table[field][0] == 0 for field in drift.FIELDS)


def test_no_numpy_logarithm_of_its_own_stands_in_the_walk() -> None:
    """numpy's log2 differs by processor and length; the fold's own must be what scores rows."""
    q = np.random.default_rng(1).lognormal(0.0, 1.0, 1000)
    table = Table(1)
    zeros = np.zeros(1000, np.int64)
    scores, _ = drift.score(table, zeros, q, q, np.ones(1000), np.ones(1000, np.bool_))
    alone = np.array([-logarithm.rough_log2_of(float(v)) for v in q])
    assert scores.e.tobytes() == alone.tobytes()
