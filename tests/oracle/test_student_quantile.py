"""Student's quantile against the incomplete beta function in 30 digits."""

from __future__ import annotations

import mpmath
import pytest

from advisor.models.student import quantile

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
