"""log2 and exp2 of the fold: as exact as stated, and the same bits interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.models import logarithm

POSITIVE = st.floats(2.0**-1000, 2.0**1000) | st.floats(0.5, 2.0) | st.integers(-900, 900).map(lambda e: 2.0**e)
POWERS = st.floats(-1000.0, 1000.0) | st.floats(-1.0, 1.0) | st.integers(-2000, 2000).map(lambda n: n / 2)


def compiled(function: Callable[[float], float]) -> Callable[[float], float]:
    numba = pytest.importorskip("numba", reason="the extra `fast` is not installed")
    return numba.njit(error_model="numpy")(function)


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


@pytest.mark.parametrize("of", ["log2", "exp2"])
def test_compiled_code_gives_the_same_bits(of: str) -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.uniform(-900, 900, 20_000), rng.uniform(-1, 1, 20_000)])
    if of == "log2":
        values = np.exp2(values)
    plain = getattr(logarithm, f"{of}_of")
    kernel = compiled(plain)
    assert [kernel(v) for v in values.tolist()] == [plain(v) for v in values.tolist()]
