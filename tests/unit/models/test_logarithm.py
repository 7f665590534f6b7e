"""log2 and exp2 of the fold: as exact as stated, and the same bits interpreted and compiled."""

from __future__ import annotations

from decimal import Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from advisor.models import logarithm

POSITIVE = st.floats(2.0**-1000, 2.0**1000) | st.floats(0.5, 2.0) | st.integers(-900, 900).map(lambda e: 2.0**e)
POWERS = st.floats(-1000.0, 1000.0) | st.floats(-1.0, 1.0) | st.integers(-2000, 2000).map(lambda n: n / 2)


def exact_log2(value: float) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return Decimal(value).ln() / Decimal(2).ln()


def exact_exp2(value: float) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return (Decimal(value) * Decimal(2).ln()).exp()


@given(POSITIVE)
def test_log2_is_within_its_stated_error(value: float) -> None:
    exact = exact_log2(value)
    assert abs(Decimal(logarithm.log2_of(value)) - exact) <= Decimal("2e-15") * max(1, abs(exact))


@given(POWERS)
def test_exp2_is_within_its_stated_error(value: float) -> None:
    exact = exact_exp2(value)
    assert abs(Decimal(logarithm.exp2_of(value)) - exact) <= Decimal("1e-15") * exact


@given(st.integers(-1000, 1000))
def test_whole_powers_of_two_are_exact(exponent: int) -> None:
    assert logarithm.log2_of(2.0**exponent) == exponent
    assert logarithm.exp2_of(float(exponent)) == 2.0**exponent
