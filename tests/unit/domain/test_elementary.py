"""exp, log and sums: near the C library's, and a number has the bits that it has in an array of any size."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from advisor.domain import elementary
from advisor.domain.vectors import Floats

RNG = np.random.default_rng(26)
RANGES = {
    "exp": RNG.uniform(-700, 709, 4000),
    "exp2": RNG.uniform(-1000, 1000, 4000),
    "log": np.ldexp(1.0, RNG.integers(-900, 900, 4000)) * 1.3,
    "log2": RNG.uniform(0.5, 3.0, 4000), "log1p": RNG.uniform(-0.9, 5.0, 4000), "expm1": RNG.uniform(-2.0, 2.0, 4000),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_a_function_is_the_library_s_to_its_error_and_equal_alone_and_in_an_array(name: str) -> None:
    x, function = RANGES[name], getattr(elementary, name)
    found = function(x)
    exact = np.array([getattr(math, name)(v) for v in x.tolist()])
    assert np.abs(found - exact).max(initial=0.0, where=exact == 0.0) == 0.0
    assert (
        np.abs(found - exact) <= 1e-15 * np.maximum(np.abs(exact), 0.0 if name in ("exp", "exp2") else 1e-300) * 2
    ).all()
    assert found.tolist() == [function(v) for v in x.tolist()]
    assert found[::7].tolist() == function(x[::7]).tolist()


def test_ends_of_the_ranges_are_those_of_the_numbers() -> None:
    x = np.array([-np.inf, -800.0, 0.0, 709.7, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for function, most in ((elementary.exp, math.exp(709.7)), (elementary.exp2, 2.0**709.7)):
            found = function(x)
            assert found.tolist() == [function(v) for v in x.tolist()]
            assert (found[[0, 2, 4]] == [0.0, 1.0, np.inf]).all()
            assert found[3] == pytest.approx(most, rel=1e-12)
            assert math.isnan(function(math.nan))
            assert np.isnan(function(np.array([np.nan]))).all()
        assert elementary.log(np.array([0.0, 1.0, np.inf])).tolist() == [-np.inf, 0.0, np.inf]
        assert elementary.log(0.0) == -math.inf
        assert math.isnan(elementary.log(-1.0))
        assert elementary.log1p(np.array([-1.0, 0.0, 1e-300])).tolist() == [-np.inf, 0.0, 1e-300]


def test_a_column_s_sum_is_the_same_alone_and_beside_others() -> None:
    weights, values = RNG.random(37), RNG.random((37, 100))
    together: Floats = elementary.weighted(weights, values)
    assert [elementary.weighted(weights, values[:, k]) for k in range(100)] == together.tolist()


def test_a_system_is_solved_and_a_singular_one_refused() -> None:
    matrix, right = RNG.normal(size=(9, 9)), RNG.normal(size=9)
    assert elementary.solved(matrix, right) == pytest.approx(np.linalg.solve(matrix, right), rel=1e-9)
    with pytest.raises(ZeroDivisionError, match="singular"):
        elementary.solved(np.zeros((2, 2)), np.ones(2))
