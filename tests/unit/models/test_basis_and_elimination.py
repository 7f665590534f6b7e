"""The parts under the fits: moving a basis, factoring, the criterion, growth of tables."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.models import sums
from advisor.models.elimination import Elimination
from advisor.models.forms import criterion
from advisor.models.layout import AT, FIELDS, INTEGERS, WORDS, empty_record
from advisor.models.table import Table

# -- layout and table -----------------------------------------------------------------------------------------------------


def test_fields_fill_the_record_without_gap_or_overlap() -> None:
    at = [i for name, *_ in FIELDS for i in range(AT[name].start, AT[name].stop)]
    assert at == list(range(WORDS))


def test_an_empty_record_is_the_declared_one() -> None:
    record = empty_record()
    for name, words, kind, value, _ in FIELDS:
        source = record.view(np.int64) if kind == "i" else record
        assert source[AT[name]].tolist() == [value] * words, name
        assert (name in INTEGERS) == (kind == "i")


def test_a_table_grows_by_pages_and_keeps_what_it_held() -> None:
    table = Table()
    table.grow(1)
    table.words[0] = np.arange(WORDS)
    kept = table.words[0].copy()
    waste = []
    for size in (2, 64, 65, 1000, 1001, 20_000, 20_001):
        table.grow(size)
        assert table.size == size
        assert len(table.records) % Table.STEP == 0, "whole pages fit"
        assert table.records.flags.c_contiguous, "a component's words lie side by side"
        np.testing.assert_array_equal(table.words[0], kept)
        np.testing.assert_array_equal(table.words[size - 1].view(np.uint64), empty_record().view(np.uint64))
        waste.append(len(table.words) / size)
    assert waste[-1] < 1.07
    table.grow(20_050, capacity_max=20_050)
    assert len(table.words) <= 20_050 + Table.STEP


# -- basis ----------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0.0, 2.0**60), min_size=1, max_size=12),
    st.floats(0.0, 1.0),
    st.integers(0, 20),
)
@settings(max_examples=80, deadline=None)
def test_moved_sums_are_those_of_the_moved_basis(x: list[float], share: float, doublings: int) -> None:
    """Sums of u^m, moved down and scaled up, against exact rational sums in the new basis."""
    table = Table(1)
    w = table.records[0]
    for value in x:
        see(w, value)
    origin, scale = Fraction(float(w[sums.ORIGIN])), Fraction(float(w[sums.SCALE]))
    assert all(0 <= (Fraction(v) - origin) / scale <= 1 for v in x)
    assert float(scale).hex().startswith("0x1.0000000000000p"), "a power of two"
    moments = [sum(((Fraction(v) - origin) / scale) ** m for v in x) for m in range(7)]
    w[sums.GRAM : sums.GRAM + 7] = [float(s) for s in moments]
    new_origin, new_scale = float(origin) * share, float(scale) * 2.0**doublings
    while new_scale < max(x) - new_origin:
        new_scale *= 2.0
    sums.relocate(w, new_origin, new_scale)
    moved = [sum(((Fraction(v) - Fraction(new_origin)) / Fraction(new_scale)) ** m for v in x) for m in range(7)]
    for m in range(7):
        # The subtraction x - origin rounds once before; every term after it is positive.
        assert w[sums.GRAM + m] == pytest.approx(float(moved[m]), rel=1e-13, abs=1e-300)


def see(w: np.ndarray, value: float) -> None:
    """Make room for a predictor as the fold does."""
    sums.hold(w, value)
    w[sums.X_LOW] = min(w[sums.X_LOW], value)
    w[sums.X_HIGH] = max(w[sums.X_HIGH], value)


def test_a_falling_stream_moves_the_basis_a_handful_of_times() -> None:
    w = Table(1).records[0]
    moves = 0
    for value in np.linspace(1e6, 0.0, 5000):
        before = w[[sums.ORIGIN, sums.SCALE]].tolist()
        see(w, float(value))
        moves += before != w[[sums.ORIGIN, sums.SCALE]].tolist()
    assert moves < 200


@pytest.mark.parametrize("value", [2.0**-60, 1e-9, 0.75, 1.0, 1.0000000001, 3.0, 2.0**60])
def test_the_scale_is_the_smallest_power_that_reaches(value: float) -> None:
    w = Table(1).records[0]
    sums.relocate(w, 0.0, 2.0**-60)
    see(w, 0.0)
    see(w, value)
    assert w[sums.ORIGIN] == 0.0
    found = float(w[sums.SCALE])
    assert value <= found
    assert found / 2 < value or found == 2.0**-60


# -- elimination ----------------------------------------------------------------------------------------------------------


def systems(seed: int, k: int, many: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.random((many, 40, k)) * 10.0 ** rng.uniform(-6, 6, (many, 1, k))
    y = rng.random((many, 40))
    return np.einsum("nri,nrj->nij", rows, rows), np.einsum("nri,nr->ni", rows, y)


@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_solutions_gains_and_quadratics_equal_numpys(k: int) -> None:
    matrix, right = systems(k, k, 20)
    for n in range(20):
        single = Elimination(matrix[n].tolist(), right[n].tolist())
        d = 1 / np.sqrt(np.diag(matrix[n]))
        for columns in range(1, k + 1):
            part, r = (
                matrix[n, :columns, :columns] * np.outer(d[:columns], d[:columns]),
                right[n, :columns] * d[:columns],
            )
            expected = np.linalg.solve(part, r) * d[:columns]
            np.testing.assert_allclose(single.solution(columns), expected, rtol=1e-8)
            assert sum(single.gains[:columns]) == pytest.approx(float(r @ np.linalg.solve(part, r)), rel=1e-9)
        vector = (right[n] * 0.7 + 1.0).tolist()
        scaled = np.array(vector) * d
        whole = matrix[n] * np.outer(d, d)
        assert single.quadratic(vector) == pytest.approx(float(scaled @ np.linalg.solve(whole, scaled)), rel=1e-8)
        assert single.used == [1.0] * k


def test_a_dependent_or_empty_column_is_left_out() -> None:
    x = np.array([1.0, 2.0, 3.0])
    columns = np.stack([x, 2 * x, np.zeros(3), x**2], axis=1)
    y = 5.0 * x + x**2
    system = Elimination((columns.T @ columns).tolist(), (columns.T @ y).tolist())
    assert system.used == [1.0, 0.0, 0.0, 1.0]
    np.testing.assert_allclose(system.solution(4), [5.0, 0.0, 0.0, 1.0], rtol=1e-9)
    assert np.isfinite(system.quadratic([1.0, 1.0, 1e5, 1.0]))


# -- criterion ------------------------------------------------------------------------------------------------------------


def test_a_form_with_too_few_rows_never_wins() -> None:
    assert np.isfinite(criterion(0.0, 10.0, 20.0, 4.0))
    assert criterion(1e-30, 10.0, 20.0, 19.0) == criterion(2.0, 10.0, 20.0, 20.0) == np.inf


def test_it_takes_a_column_that_explains_and_none_that_does_not() -> None:
    bare, better, no_better = (criterion(r, 10.0, 50.0, k) for r, k in ((1.0, 2.0), (0.5, 3.0), (0.99, 3.0)))
    assert better < bare < no_better


def test_a_perfect_fit_is_not_believed_below_the_rounding_of_the_sums() -> None:
    assert criterion(0.0, 10.0, 50.0, 2.0) < criterion(0.0, 10.0, 50.0, 3.0) < np.inf
