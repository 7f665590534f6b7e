"""Support points: cells of a lattice, coarser where they are many; levels, forgetting and merging."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.models import support, support_fold
from advisor.models.support import MACHINES_MAX, POINTS, SupportTable, key_of, keys_of
from advisor.models.support_fold import Credit


def table_of(z, y, machine=None, size=1):
    table = SupportTable(z.shape[1], size)
    slots = np.zeros(len(z), np.int64)
    support_fold.fold(
        table, slots, lambda rows: (z[rows], y[rows]), None, machine, Credit(rows=-(10**9)), lambda *_: (0.0, 1.0)
    )
    return table


def sums(table, slot=0):
    fields = [table.floats(field)[slot].sum() for field in ("runs", "y", "yy")]
    return np.array([*fields, *table.floats("z")[slot].reshape(table.axes, POINTS).sum(axis=1)])


def spread(table, slot=0):
    used = int(table.count("points")[slot])
    runs, y, yy = (table.floats(field)[slot, :used] for field in ("runs", "y", "yy"))
    return yy / runs - (y / runs) ** 2


def test_one_key_is_the_array_of_keys():
    rng = np.random.default_rng(0)
    z, coarse = rng.uniform(-62, 63, (200, 3)), rng.integers(0, 8, (200, 3))
    machine = rng.integers(0, MACHINES_MAX, 200)
    wanted = keys_of(z, coarse, machine).tolist()
    got = [key_of(*row) for row in zip(z.tolist(), coarse.tolist(), machine.tolist(), strict=True)]
    assert got == wanted


def test_fifteen_and_sixteen_cores_are_two_cells():
    table = table_of(np.log2([[100.0, 15.0], [100.0, 16.0], [100.0, 15.0]]), np.zeros(3))
    assert int(table.count("points")[0]) == 2


def test_the_axis_in_most_pieces_is_coarsened():
    z = np.column_stack([np.linspace(0.0, 10.0, 60), np.repeat([0.0, 1.0], 30)])
    table = table_of(z, np.zeros(60))
    coarseness = table.integers("coarseness")[0]
    assert coarseness[0] > 0
    assert coarseness[1] == 0


def test_machines_are_told_apart_up_to_a_limit():
    n = 2 * MACHINES_MAX
    table = table_of(np.zeros((n, 2)), np.arange(n, dtype=float), np.arange(100, 100 + n))
    assert int(table.count("points")[0]) == MACHINES_MAX - 1
    assert table.integers("machine")[0, 1:].tolist() == list(range(100, 100 + MACHINES_MAX - 1))


@pytest.mark.parametrize("ratio", [-3.0, 1.0, 0.0])
def test_a_level_carries_the_points_and_weighs_them_lightly(ratio):
    rng = np.random.default_rng(1)
    table = table_of(rng.integers(0, 3, (60, 2)).astype(float), rng.normal(0, 1, 60))
    used = int(table.count("points")[0])
    mean = table.floats("y")[0, :used] / table.floats("runs")[0, :used]
    before, low = spread(table), table.floats("low")[0, :used].copy()
    support.shift_level(table, 0, ratio)
    runs = table.floats("runs")[0, :used]
    np.testing.assert_allclose(table.floats("y")[0, :used] / runs, mean + ratio, atol=1e-12)
    np.testing.assert_allclose(spread(table), before, atol=1e-12)
    np.testing.assert_allclose(table.floats("low")[0, :used], low + ratio)
    assert runs.sum() == pytest.approx(support.KEPT_RUNS)
    assert int(table.count("seen")[0]) == 0  # the next rows are all sampled
    assert table.changed[0]


def test_forgetting_a_share_keeps_the_shape_and_all_of_it_begins_anew():
    rng = np.random.default_rng(2)
    table = table_of(rng.integers(0, 3, (50, 2)).astype(float), rng.normal(0, 1, 50))
    table.count("pin")[0], table.count("component")[0] = 3, 7
    before, variance = sums(table), spread(table)
    support.forget(table, 0, 0.25)
    np.testing.assert_allclose(sums(table), 0.25 * before)
    np.testing.assert_allclose(spread(table), variance, atol=1e-12)
    support.forget(table, 0, 0.0)
    empty = table.empty_record()
    empty.view(np.int64)[[table.at["pin"].start, table.at["component"].start]] = 3, 7
    assert table.words[0].tobytes() == empty.tobytes()


def test_merging_where_cells_are_shared_is_exact():
    rng = np.random.default_rng(3)
    z, y = rng.integers(0, 4, (60, 2)).astype(float), rng.normal(0, 1, 60)
    one, two = table_of(z[:30], y[:30]), table_of(z[30:], y[30:])
    both = table_of(z, y)
    support.merge(one, 0, two, 0)
    assert int(one.count("seen")[0]) == 60
    for field in ("runs", "y", "yy", "low", "high"):
        got, wanted = (dict(zip(t.integers("key")[0], t.floats(field)[0], strict=True)) for t in (one, both))
        assert got.keys() == wanted.keys()
        assert [got[k] for k in got] == pytest.approx([wanted[k] for k in got])


def test_merging_lattices_of_different_fineness_keeps_the_sums():
    rng = np.random.default_rng(4)
    for fine, coarse in ((20, 62), (62, 20), (62, 62)):
        one, two = (table_of(rng.uniform(0, 9, (n, 3)), rng.normal(0, 1, n)) for n in (fine, coarse))
        wanted = sums(one) + sums(two)
        target = np.maximum(one.integers("coarseness")[0], two.integers("coarseness")[0])
        support.merge(one, 0, two, 0)
        np.testing.assert_allclose(sums(one), wanted, rtol=1e-12)
        assert int(one.count("points")[0]) <= POINTS
        assert (one.integers("coarseness")[0] >= target).all()


def test_merging_into_an_empty_record_is_a_copy_and_its_pin_stays():
    other = table_of(np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([1.0, 2.0]))
    table = SupportTable(2, 2)
    table.count("pin")[1], table.count("component")[1] = 2, 9
    support.merge(table, 1, other, 0)
    wanted = other.words[0].copy()
    wanted.view(np.int64)[[table.at["pin"].start, table.at["component"].start]] = 2, 9
    assert table.words[1].tobytes() == wanted.tobytes()


def test_merging_after_a_change_of_level_loses_no_points():
    one, two = (table_of(np.array([[a, 0.0]]), np.array([0.0])) for a in (0.0, 5.0))
    support.shift_level(one, 0, 1.0)
    support.merge(one, 0, two, 0)
    assert int(one.count("points")[0]) == 2


def test_merged_machines_get_this_record_s_numbers():
    z, y = np.zeros((2, 2)), np.zeros(2)
    one, two = table_of(z, y, np.array([5, 6])), table_of(z, y, np.array([6, 8]))
    support.merge(one, 0, two, 0)
    assert one.integers("machine")[0, 1:4].tolist() == [5, 6, 8]
    assert sorted(one.floats("runs")[0, :3].tolist()) == [1.0, 1.0, 2.0]


def test_growing_keeps_the_records():
    table = table_of(np.array([[1.0, 2.0]]), np.array([3.0]))
    before = table.words[0].tobytes()
    table.grow(1000)
    assert table.words[0].tobytes() == before
    assert table.words[999].tobytes() == table.empty_record().tobytes()
