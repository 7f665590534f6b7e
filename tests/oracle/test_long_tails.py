"""Means of noise with long tails, against the means that it was drawn with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from advisor import Advisor
from advisor.domain.vectors import Floats

Points = Callable[[np.random.Generator, int], tuple[Floats, Floats]]
SEEDS = 24
PLACES: dict[str, Points] = {
    "one size and count": lambda rng, n: (np.full(n, 100.0), np.ones(n)),
    "sizes and counts that repeat": lambda rng, n: (
        rng.choice([100.0, 200.0, 400.0, 800.0], n),
        rng.choice([1.0, 2.0, 4.0, 8.0], n),
    ),
    "sizes that do not repeat": lambda rng, n: (
        np.exp(rng.uniform(np.log(50.0), np.log(2500.0), n)),
        rng.choice([1.0, 2.0, 4.0, 8.0, 16.0], n),
    ),
}


def bias(points: Points, noise: Callable[[np.random.Generator, int], Floats], rows: int) -> float:
    """Return the mean of prediction / mean - 1 over streams; `noise` has mean 1."""
    found = []
    for seed in range(SEEDS):
        rng, advisor = np.random.default_rng((seed, rows)), Advisor()
        x, p = points(rng, rows)
        advisor.observe_columns(
            components=["c"],
            index=np.zeros(rows, np.uint32),
            predictor=x,
            cores=p,
            elapsed_s=law(x, p) * noise(rng, rows),
        )
        x, p = points(rng, 200)
        found.append(np.mean(advisor.predict("c", predictor=x, cores=p).elapsed_s / law(x, p)) - 1.0)
    return float(np.mean(found))


def law(x: Floats, p: Floats) -> Floats:
    return 1e-3 * x**1.2 * (0.1 + 0.9 / p)


def cache_misses(rng: np.random.Generator, n: int) -> Floats:
    return rng.lognormal(-0.00125, 0.05, n) * np.where(rng.random(n) < 0.2, 4.0, 1.0) / 1.6


@pytest.mark.parametrize("places", PLACES)
def test_cache_misses_of_one_run_in_five_do_not_bias_the_mean_after_100_rows(places: str) -> None:
    assert abs(bias(PLACES[places], cache_misses, 100)) <= 0.1


@pytest.mark.parametrize("places", PLACES)
def test_a_pareto_tail_of_1_5_biases_the_mean_by_12_percent_at_most_after_300_rows(places: str) -> None:
    assert abs(bias(PLACES[places], lambda rng, n: (1.0 + rng.pareto(1.5, n)) / 3.0, 300)) <= 0.12


@pytest.mark.parametrize("places", PLACES)
def test_a_single_wrong_measurement_of_ten_times_moves_the_mean_by_2_percent_at_most(places: str) -> None:
    def with_one(rng: np.random.Generator, n: int) -> Floats:
        found = rng.lognormal(-0.00125, 0.05, n)
        found[n // 2] *= 10.0
        return found

    assert abs(bias(PLACES[places], with_one, 200)) <= 0.02
