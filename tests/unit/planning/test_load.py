"""The rate that a network has to keep up with: laws of it, and load that comes and goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.planning.load import ObservedLoad


def steady(rate_per_s: int, until_s: int, change_s: float = 60.0) -> ObservedLoad:
    load = ObservedLoad(change_s)
    for second in range(0, until_s, 15):
        load.report(float(second), 15 * rate_per_s, 4)
    return load


def test_a_steady_load_is_planned_for_as_it_is() -> None:
    load = steady(3, 600)
    assert load.arrivals_per_s(585.0) == pytest.approx(3.0)
    assert load.required_per_s(585.0, 1.0, 120.0) == pytest.approx(3.0)


def test_a_rising_load_is_planned_for_when_the_change_is_done_and_a_falling_one_falls() -> None:
    load = steady(3, 600)
    for second in range(600, 660, 15):
        load.report(float(second), 150, 4)
    assert load.arrivals_per_s(645.0) == pytest.approx(10.0 + 7.0)  # seven more in each minute, a minute ahead
    for second in range(660, 900, 15):
        load.report(float(second), 0, 4)
    assert load.arrivals_per_s(885.0) == 0.0


def test_a_difference_of_chance_is_no_trend() -> None:
    load = ObservedLoad(60.0)
    for second, arrived in ((0.0, 0), (60.0, 10), (120.0, 16)):
        load.report(second, arrived, 0)
    assert load.arrivals_per_s(120.0) == pytest.approx(26 / 120)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.floats(0.01, 1e4), st.floats(0.0, 1e4), st.floats(0.0, 600.0))
def test_more_work_and_less_patience_need_no_fewer(
    arrived: int, unfinished: int, latency_s: float, wait_s: float, change_s: float
) -> None:
    def required(arrived: int, unfinished: int, wait_s: float) -> float:
        load = ObservedLoad(change_s)
        load.report(0.0, arrived, unfinished)
        return load.required_per_s(0.0, latency_s, wait_s)

    rate = required(arrived, unfinished, wait_s)
    assert rate >= required(arrived, unfinished, 2.0 * wait_s)
    assert rate <= required(arrived, unfinished + 1, wait_s) * (1.0 + 1e-12)
    assert rate <= (unfinished + 60.0 * arrived + 1e-9) / latency_s * max(1.0, change_s)  # no more than records can use
    if not arrived:
        assert rate <= unfinished / latency_s
