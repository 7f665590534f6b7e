"""A sample of rows is predicted before it is learned: quantiles that a few tiny times do not ruin, at a bounded cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor import Advisor
from advisor.domain.observations import ComponentNames, columns_of
from advisor.service.sampled import ERROR_BOUNDS, EVERY_S, SELDOM_S, Sampled


def taught(times: Any = (1.0,) * 40) -> Advisor:
    advisor = Advisor()
    for t in times:
        advisor.observe("c", predictor=1.0, cores=1, elapsed_s=t)
    return advisor


class Slow:
    """A clock, and an advisor whose answers take a while by it."""

    def __init__(self, advisor: Advisor, takes_s: float = 0.0) -> None:
        self.now, self.takes_s, self._advisor = 0.0, takes_s, advisor

    def clock(self) -> float:
        return self.now

    def predict(self, *args: Any, **given: Any) -> Any:
        self.now += self.takes_s
        return self._advisor.predict(*args, **given)

    def sampled(self) -> Sampled:
        return Sampled(self, clock=self.clock)  # type: ignore[arg-type]


def batch(times: list[float], name: str = "c") -> Any:
    ones = np.ones(len(times))
    return columns_of(ComponentNames([name]), np.zeros(len(times), np.int64), ones, ones, np.array(times))


@pytest.mark.parametrize("plain", [True, False])
def test_the_median_is_that_of_the_errors_and_tiny_times_do_not_ruin_it(plain: bool) -> None:
    slow = Slow(taught())
    sampled = slow.sampled()
    for t in [1.1] * 90 + [1e-6] * 10:  # a tenth of the runs is near the timer's tick: a mean of ratios would be 1e5
        slow.now += EVERY_S
        if plain:
            sampled.rows([["c", 1.0, 1.0, t]])
        else:
            sampled.columns(batch([t]))
    errors = sampled.errors
    assert sum(errors.counts) == 100
    assert errors.total <= 100 * ERROR_BOUNDS[-1]
    median = errors.quantile(0.5)
    assert median is not None
    assert 0.07 < median < 0.1  # 0.0909, between the bounds 0.07 and 0.1
    assert errors.quantile(1.0) == ERROR_BOUNDS[-1]


def test_what_nobody_could_have_been_told_is_not_counted() -> None:
    slow = Slow(taught())
    sampled = slow.sampled()
    sampled.columns(batch([1.0], name="new"))
    slow.now += 2 * SELDOM_S
    sampled.columns(batch([]))
    for row in (
        "no row",
        ["c", 1.0, 1.0],
        ["c", 1.0, 0.0, 1.0],
        ["c", 1.0, 1.0, float("nan")],
        [5, {}, [], 1.0],
        ["c", 1.0, 1.0, "t"],
    ):
        slow.now += 2 * SELDOM_S
        sampled.rows([row])
    assert sum(sampled.errors.counts) == 0
