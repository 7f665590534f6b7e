"""Expectations over the load sketch against the mean over the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.engine import Advisor

LOADS = {
    "log-normal, sd 0.5": lambda rng, n: 1000 * np.exp(0.5 * rng.standard_normal(n)),
    "log-normal, sd 1": lambda rng, n: 1000 * np.exp(rng.standard_normal(n)),
    "uniform": lambda rng, n: rng.random(n) * 2500,
    "two sizes": lambda rng, n: rng.choice([10.0, 2000.0], n, p=[0.9, 0.1]),
    "exponential": lambda rng, n: rng.exponential(300.0, n),
    "one value": lambda rng, n: np.full(n, 77.0),
    "far": lambda rng, n: 1e9 + rng.integers(0, 10_000, n),
}


def expected_time(advisor: Advisor, cores: int) -> float:
    """Return E[T] over the observed load on so many cores, up to 16: what plans take."""
    return float(advisor.curve_tables.curves(["c"], cores_max=16).elapsed_s[0, cores - 1])


def learn(x: np.ndarray, t: np.ndarray, p: np.ndarray, **extra: np.ndarray) -> Advisor:
    advisor = Advisor(model_memory_bytes=0)  # the base tier's forms: exact but for the load
    advisor.observe_columns(components=["c"], index=np.zeros(len(x), int), predictor=x, cores=p, elapsed_s=t, **extra)
    return advisor


@pytest.mark.parametrize("load", sorted(LOADS))
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_the_expected_time_is_that_of_the_rows_or_up_to_two_percent_less(load: str, degree: int) -> None:
    rng = np.random.default_rng(3)
    x, p = LOADS[load](rng, 20_000), rng.choice([1.0, 2.0, 8.0], 20_000)
    sequential = 1e-3 + 1e-4 * ((x - x.min()) / 1000.0) ** degree
    advisor = learn(x, sequential * (0.2 + 0.8 / p), p)
    for cores, factor in ((1, 1.0), (8, 0.3)):
        expected = factor * sequential.mean()
        found = expected_time(advisor, cores)
        assert -0.02 <= found / expected - 1 <= 1e-4, f"{found / expected - 1:+.2%}"


def test_the_load_is_that_of_all_rows_and_not_of_the_heavy_weights() -> None:
    """Weighted moments describe the small inputs: 28 s would become 0.002 s."""
    x = np.tile([10.0, 10_000.0], 500)
    p = np.repeat([1.0, 4.0], 500)
    t = 1e-12 * x**3 * (0.5 + 0.5 / p) + 1e-6
    assert expected_time(learn(x, t, p), 1) == pytest.approx(0.5 * (1.0 + 1e-9), rel=1e-3)
