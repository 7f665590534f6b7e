"""The fold into support points: the same bytes however rows are cut, bounded points, sums that are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.models import support_fold
from advisor.models.support import POINTS, SCORES, SupportTable
from advisor.models.support_fold import SAMPLED, ZERO_Z, Credit

SEEDS = st.integers(0, 2**32 - 1)


def predict(table, slot, z, machine):
    """A prediction that depends on all that a real one may see."""
    record = table.words[slot]
    used = int(table.count("points")[slot])
    runs, y = (record[table.at[field]][:used] for field in ("runs", "y"))
    return float(y.sum() / runs.sum() + 0.25 * (z[0] - z[-1]) + machine), 1.0 + 0.01 * used


def rows(rng, n, axes, components, kind):
    """Rows of a kind: few settings, many of them, or the ends of the domain."""
    slots = rng.integers(0, components, n)
    if kind == "few":
        z = rng.integers(0, 4, (n, axes)).astype(np.float64)
    elif kind == "many":
        z = rng.uniform(0.0, 10.0, (n, axes))
    else:
        z = rng.uniform(-60.0, 60.0, (n, axes))
        z[rng.random((n, axes)) < 0.2] = ZERO_Z
        z[:, -1] = rng.uniform(0.0, 20.0, n)
    y = rng.normal(0.0, 3.0, n) if kind != "extreme" else rng.uniform(-60.0, 60.0, n)
    return slots, z, y, rng.integers(1, 5, n).astype(np.float64), rng.integers(-1, 9, n)


def lazy(z, y):
    return lambda rows: (z[rows], y[rows])


def folded(axes, components, cuts, slots, z, y, count, machine, credit=None):
    table = SupportTable(axes, components)
    credit = credit or Credit()
    for start, stop in zip([0, *cuts], [*cuts, len(slots)], strict=True):
        part = slice(start, stop)
        support_fold.fold(
            table, slots[part], lazy(z[part], y[part]), None if count is None else count[part],
            None if machine is None else machine[part], credit, predict,
        )  # fmt: skip
    return table, credit


@given(
    seed=SEEDS,
    n=st.integers(1, 400),
    axes=st.integers(2, 5),
    components=st.sampled_from([1, 2, 7]),
    kind=st.sampled_from(["few", "many", "extreme"]),
    named=st.booleans(),
    late=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_same_bytes_however_rows_are_cut(seed, n, axes, components, kind, named, late):
    rng = np.random.default_rng(seed)
    slots, z, y, count, machine = rows(rng, n, axes, components, kind)
    count, machine = (count, machine) if named else (None, None)

    def credit():
        return Credit(rows=5, spent=support_fold.SCORES_EARLY - 3) if late else Credit()

    whole, spent = folded(axes, components, [], slots, z, y, count, machine, credit())
    cuts = sorted(rng.integers(0, n + 1, rng.integers(1, 6)).tolist())
    for cut in (cuts, list(range(1, n))):
        parts, also = folded(axes, components, cut, slots, z, y, count, machine, credit())
        assert parts.words.tobytes() == whole.words.tobytes()
        assert also == spent
        np.testing.assert_array_equal(parts.changed, whole.changed)


@given(seed=SEEDS, n=st.integers(1, 3000), axes=st.integers(2, 5), kind=st.sampled_from(["few", "many", "extreme"]))
@settings(max_examples=40, deadline=None)
def test_cells_hold_the_sums_of_the_sampled_rows(seed, n, axes, kind):
    rng = np.random.default_rng(seed)
    slots, z, y, count, machine = rows(rng, n, axes, 1, kind)
    table, _ = folded(axes, 1, [], slots, z, y, count, machine)
    taken = [i for i in range(n) if (i + 1) % 2 ** min(max(int(np.log2((i + 1) / SAMPLED)), 0), 6) == 0]
    used = int(table.count("points")[0])
    assert 1 <= used <= POINTS
    assert int(table.count("seen")[0]) == n
    keys = table.integers("key")[0]
    assert len(set(keys[:used].tolist())) == used
    assert (keys[:used] >= 0).all()
    assert (keys[used:] == -1).all()
    w = count[taken]
    size = np.abs(w).sum() * 64.0**2
    for field, values in (("runs", w), ("y", w * y[taken]), ("yy", w * y[taken] ** 2)):
        np.testing.assert_allclose(table.floats(field)[0].sum(), values.sum(), rtol=0, atol=1e-13 * size)
        assert not table.floats(field)[0, used:].any()
    sums = table.floats("z")[0].reshape(axes, POINTS)
    np.testing.assert_allclose(sums.sum(axis=1), (w[:, None] * z[taken]).sum(axis=0), rtol=0, atol=1e-13 * size)
    assert table.floats("low")[0, :used].min() == y[taken].min()
    assert table.floats("high")[0, :used].max() == y[taken].max()


def test_space_is_constant_after_ten_times_the_rows():
    rng = np.random.default_rng(0)
    slots, z, y, count, machine = rows(rng, 40_000, 3, 2, "many")
    table, credit = folded(3, 2, [], slots[:4000], z[:4000], y[:4000], count[:4000], machine[:4000])
    small = table.words.nbytes, table.bytes
    support_fold.fold(table, slots[4000:], lazy(z[4000:], y[4000:]), count[4000:], machine[4000:], credit, predict)
    assert (table.words.nbytes, table.bytes) == small
    assert table.count("points").max() <= POINTS
    assert table.count("scores")[:2].min() > SCORES


def test_a_score_is_made_before_its_row_is_learned():
    told = []

    def watch(table, slot, z, machine):
        told.append(float(table.floats("runs")[slot].sum()))
        return 0.0, 1.0

    table = SupportTable(2, 1)
    n = 40
    support_fold.fold(table, np.zeros(n, np.int64), lazy(np.zeros((n, 2)), np.zeros(n)), None, None, Credit(), watch)
    assert told[0] == 5.0  # the sixth row, after five
    assert told == sorted(told)
    assert len(told) == int(table.count("scores")[0])


def test_scores_keep_the_latest_and_count_what_they_cover():
    table = SupportTable(2, 1)
    y = np.zeros(4000)
    y[::3] = 10.0
    support_fold.fold(
        table, np.zeros(4000, np.int64), lazy(np.zeros((4000, 2)), y), None, None, Credit(), lambda *_: (0.0, 1.0)
    )
    made = int(table.count("scores")[0])
    assert made > SCORES
    assert set(table.floats("score")[0].tolist()) == {0.0, 10.0}
    assert 0 < int(table.count("covered")[0]) < made


@pytest.mark.parametrize("spent", [0, support_fold.SCORES_EARLY - 2, support_fold.SCORES_EARLY])
def test_credit_is_counted_in_rows(spent):
    """Rows are earned one by one; a candidate is granted whenever the price is there."""
    rng = np.random.default_rng(spent)
    for _ in range(50):
        n = int(rng.integers(1, 30_000))
        candidates = np.flatnonzero(rng.random(n) < rng.choice([0.001, 0.1, 1.0]))
        fast, slow = (Credit(rows=int(x), spent=spent) for x in [rng.integers(-50, 300)] * 2)
        granted, wanted, at = fast.spend(candidates, n), [], 0
        for row in range(n):
            slow.rows = min(slow.rows + 1, support_fold.CREDIT_MAX * slow.price)
            if at < len(candidates) and candidates[at] == row:
                at += 1
                if slow.rows >= slow.price:
                    slow.rows -= slow.price
                    slow.spent += 1
                    wanted.append(row)
        assert granted.tolist() == wanted
        assert fast == slow
