"""The lower end of intervals, against known noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from advisor import Advisor
from advisor.domain.vectors import Floats

Draw = Callable[[np.random.Generator, int], Floats]
# Times of one task type, and the 5 % quantile of each.
SPREADS: dict[str, tuple[Draw, float]] = {
    "log-normal 1": (lambda rng, n: rng.lognormal(0.0, 1.0, n), math.exp(-1.645)),
    "exponential": (lambda rng, n: np.maximum(rng.exponential(1.0, n), 1e-6), -math.log(0.95)),
    "Weibull 0.7": (lambda rng, n: np.maximum(rng.weibull(0.7, n), 1e-6), (-math.log(0.95)) ** (1.0 / 0.7)),
}


@pytest.mark.parametrize("rows", [100, 300])
@pytest.mark.parametrize("kind", SPREADS)
def test_the_lower_end_of_widely_spread_times_is_at_least_a_third_of_their_5_percent_quantile(
    kind: str, rows: int
) -> None:
    draw, quantile = SPREADS[kind]
    sound, cover = 0, 0.0
    for seed in range(10):
        rng, advisor = np.random.default_rng((seed, rows)), Advisor()
        learn(advisor, np.ones(rows), np.ones(rows), draw(rng, rows))
        found, fresh = advisor.predict("c", predictor=1.0, cores=1), draw(rng, 1000)
        sound += found.low_s >= quantile / 3.0
        inside = (float(found.low_s) <= fresh) & (fresh <= float(found.high_s))
        cover += np.count_nonzero(inside) / len(fresh) / 10.0
    assert sound >= 9
    assert 0.85 <= cover <= 0.95


SHAPES: dict[str, Draw] = {
    "Gauss": lambda rng, n: np.maximum(rng.normal(1.0, 0.05, n), 0.1),
    "Student t(3)": lambda rng, n: np.maximum(1.0 + 0.05 * rng.standard_t(3, n), 0.1),
    "a clock's ticks": lambda rng, n: np.floor(rng.normal(10.0, 1.0, n) + rng.random(n)) * 0.1,
    "two modes": lambda rng, n: rng.lognormal(0.0, 0.05, n) * np.where(rng.random(n) < 0.3, 1.4, 0.83),
} | {name: draw for name, (draw, _) in SPREADS.items()}


@pytest.mark.parametrize("kind", SHAPES)
def test_intervals_of_every_level_hold_their_share_of_runs(kind: str) -> None:
    cover = dict.fromkeys((0.5, 0.9, 0.99), 0.0)
    for seed in range(10):
        rng, advisor = np.random.default_rng((seed, 100)), Advisor()
        learn(advisor, np.ones(100), np.ones(100), SHAPES[kind](rng, 100))
        fresh = SHAPES[kind](rng, 1000)
        for level in cover:
            found = advisor.predict("c", predictor=1.0, cores=1, level=level)
            cover[level] += np.mean((found.low_s <= fresh) & (fresh <= found.high_s)) / 10.0
    assert all(share >= level - 0.02 for level, share in cover.items()), cover


@pytest.mark.parametrize("law", ["a cubic of the size", "a power of the size", "one core"])
@pytest.mark.parametrize("noise", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("rows", [20, 30])
def test_intervals_of_few_noisy_rows_whose_sizes_never_repeat_hold_85_percent_of_runs(
    rows: int, noise: float, law: str
) -> None:
    cover = 0.0
    for seed in range(200):
        rng, advisor = np.random.default_rng((seed, rows, int(100 * noise))), Advisor()

        def draw(n: int, rng: np.random.Generator = rng) -> tuple[Floats, Floats, Floats]:
            x = np.exp(rng.uniform(math.log(50.0), math.log(2500.0), n))
            p = np.ones(n) if law == "one core" else rng.choice([1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0], n)
            work = 2e-3 + 3e-6 * x + 1.2e-8 * x**3 if law == "a cubic of the size" else 5e-5 * x**1.5
            return x, p, work * (0.1 + 0.9 / p) * rng.lognormal(-0.5 * noise * noise, noise, n)

        learn(advisor, *draw(rows))
        x, p, fresh = draw(200)
        found = advisor.predict("c", predictor=x, cores=p)
        cover += np.mean((found.low_s <= fresh) & (fresh <= found.high_s)) / 200.0
    assert cover >= 0.85


def learn(advisor: Advisor, x: Floats, p: Floats, t: Floats) -> None:
    advisor.observe_columns(components=["c"], index=np.zeros(len(t), np.uint32), predictor=x, cores=p, elapsed_s=t)
