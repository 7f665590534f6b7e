"""Waits, quantiles, joins and order against closed forms and against records simulated one by one."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.planning.queueing import erlang_c, queue_wait
from advisor.planning.structure import latest, quantile_of


def one(value: float) -> np.ndarray:
    return np.array([value])


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.5), (2, 1.2), (5, 4.0), (20, 18.0)])
def test_erlang_c_is_the_sum(servers: int, offered: float) -> None:
    terms = [1.0]
    for k in range(1, servers + 1):
        terms.append(terms[-1] * offered / k)
    last = terms[-1] / (1 - offered / servers)
    expected = last / (sum(terms[:-1]) + last)
    assert erlang_c(servers, offered / servers) == pytest.approx(expected, rel=1e-12)


def test_many_servers_of_exponential_services_are_exact() -> None:
    """One server: `test_allocation_streams.py`."""
    assert np.isinf(queue_wait(1.0, 1.0, 1.0, 1, 1.0)[0])
    assert queue_wait(0.0, 1.0, 1.0, 1, 1.0)[0] == 0.0
    mean, spread = queue_wait(3.2, 1.0, 1.0, 4, 1.0)
    chance = erlang_c(4, 0.8)
    assert mean == pytest.approx(chance / (4 - 3.2), rel=1e-9)
    # The wait is exponential of rate n - a with probability C, else 0.
    assert spread == pytest.approx(2 * chance / 0.8**2 - mean**2, rel=1e-9)


def test_the_latest_of_exponential_times_is_harmonic() -> None:
    mean, variance = latest(np.ones((1, 4)), np.ones((1, 4)))
    assert mean[0] == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4, rel=1e-6)
    assert variance[0] == pytest.approx(1 + 1 / 4 + 1 / 9 + 1 / 16, rel=1e-5)
    certain, none = latest(np.array([[3.0, 2.0]]), np.array([[1e-12, 0.0]]))
    assert certain[0] == pytest.approx(3.0, rel=1e-5)
    assert none[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_quantiles_of_sums_of_log_normal_times(level: float) -> None:
    rng = np.random.default_rng(4)
    for variation, terms in ((0.3, 1), (3.0, 1), (0.3, 3), (1.0, 3), (1.0, 10)):
        log_variance = np.log1p(variation)
        drawn = rng.lognormal(-log_variance / 2, log_variance**0.5, (400_000, terms)).mean(axis=1)
        assert quantile_of(one(1.0), one(variation / terms), level)[0] == pytest.approx(
            np.quantile(drawn, level), rel=0.02
        )
