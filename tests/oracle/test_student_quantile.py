"""Student's quantile against printed tables and the incomplete beta function in 30 digits."""

from __future__ import annotations

import itertools

import mpmath
import pytest

from advisor.models.student import quantile

# Two-sided levels 0.9, 0.95, 0.99, 0.999: any table of Student's t.
TABLE = {
    1: (6.3138, 12.7062, 63.6567, 636.6192),
    2: (2.9200, 4.3027, 9.9248, 31.5991),
    3: (2.3534, 3.1824, 5.8409, 12.9240),
    4: (2.1318, 2.7764, 4.6041, 8.6103),
    5: (2.0150, 2.5706, 4.0321, 6.8688),
    10: (1.8125, 2.2281, 3.1693, 4.5869),
    30: (1.6973, 2.0423, 2.7500, 3.6460),
    120: (1.6577, 1.9799, 2.6174, 3.3735),
    10**7: (1.6449, 1.9600, 2.5758, 3.2905),
}


@pytest.mark.parametrize("freedom", TABLE)
def test_the_quantile_is_the_printed_one(freedom: int) -> None:
    for level, printed in zip((0.9, 0.95, 0.99, 0.999), TABLE[freedom], strict=True):
        assert quantile(level, freedom) == pytest.approx(printed, rel=3e-5), level


# What the docstring states: freedom and relative error.
STATED = {
    1.0: 1e-9,
    1.3: 0.05,
    1.7: 0.05,
    2.0: 1e-9,
    2.2: 1e-3,
    2.7: 1e-3,
    3.5: 1e-5,
    7.3: 1e-5,
    55.5: 1e-5,
    9e5: 1e-5,
}


@pytest.mark.parametrize(("freedom", "tolerance"), STATED.items())
@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.99, 0.9999])
def test_the_quantile_is_within_the_error_that_its_docstring_states(
    freedom: float, tolerance: float, level: float
) -> None:
    with mpmath.workdps(30):
        tail = lambda z: mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + z * z), regularized=True)  # noqa: E731
        exact = float(
            mpmath.findroot(
                lambda z: tail(z) - (1 - mpmath.mpf(level)), (quantile(level, freedom), 1.01 * quantile(level, freedom))
            )
        )
    assert quantile(level, freedom) == pytest.approx(exact, rel=tolerance)


def test_it_grows_with_the_level_and_falls_with_the_freedom() -> None:
    levels = [0.01, 0.2, 0.5, 0.9, 0.99, 0.9999]
    freedoms = [1.0, 1.5, 2.0, 2.01, 2.5, 3.0, 4.9, 5.0, 5.1, 30.0, 1e3, 1e6, 1.1e6, 1e9]
    for freedom in freedoms:
        values = [quantile(level, freedom) for level in levels]
        assert values == sorted(values)
    for level in levels:
        values = [quantile(level, freedom) for freedom in freedoms]
        for a, b in itertools.pairwise(values):
            assert b <= a * (1 + 1e-3), (level, values)
