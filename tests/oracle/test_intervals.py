"""Intervals from scores: coverage in simulation, order, caution and change."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.models import intervals
from advisor.models.student import quantile
from advisor.models.support import SCORES

LEVELS = (0.5, 0.8, 0.9, 0.99)


def simulated(draw, seed, level, rounds=4000, freedom=30.0):
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(rounds):
        scores = draw(rng, SCORES + 1)
        low, high = intervals.reach(scores[:-1], level, freedom)
        inside += low <= scores[-1] <= high
    return inside / rounds


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_coverage_of_exchangeable_scores_whatever_their_size(level, scale):
    assert simulated(lambda rng, n: rng.normal(0.0, scale, n), 0, level) == pytest.approx(level, abs=0.015)


@pytest.mark.parametrize("level", LEVELS)
def test_heavy_tails_are_covered_nearly_and_modest_models_are_not_undone(level):
    """Sixty-four scores do not tell where a tail of 0.5 % begins: 2 % less are inside. Smaller errors: never fewer."""
    assert simulated(lambda rng, n: 2.0 * rng.standard_t(3, n), 1, level) >= level - 0.025
    assert simulated(lambda rng, n: rng.normal(0.0, 0.3, n), 2, level) >= level - 0.015


@pytest.mark.parametrize("seed", range(5))
def test_a_higher_level_is_a_wider_interval(seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_t(3, int(rng.integers(0, SCORES + 1))) + rng.normal()
    low, high = np.array([intervals.reach(scores, level, 8.0) for level in np.linspace(0.05, 0.995, 60)]).T
    assert (np.diff(low) <= 1e-12).all()
    assert (np.diff(high) >= -1e-12).all()
    assert (low <= 0).all()
    assert (high >= 0).all()


@pytest.mark.parametrize("level", LEVELS)
def test_without_scores_the_claim_stands_in_and_few_degrees_of_freedom_are_wide(level):
    low, high = intervals.reach(np.empty(0), level, 60.0)
    assert low == pytest.approx(-high)
    assert 0.88 <= high / quantile(level, 60.0) <= (1.12 if level <= 0.9 else 1.25)  # a tail beyond 5 % is stretched
    if level > 0.9:
        assert intervals.reach(np.empty(0), level, 4.0)[1] > 1.1 * high


def test_scores_of_another_scale_are_followed_within_a_ring():
    rng = np.random.default_rng(1)
    for scale in (0.2, 5.0):
        before, after = rng.normal(0.0, 1.0, SCORES), scale * rng.normal(0.0, 1.0, SCORES)
        width = [
            np.subtract(*intervals.reach(scores, 0.9, 30.0)[::-1])
            for scores in (before, np.r_[before[32:], after[:32]], after)
        ]
        assert width[0] < width[1] < width[2] if scale > 1 else width[0] > width[1] > width[2]
        assert 0.5 < width[2] / (2 * 1.645 * scale) < 2.5
