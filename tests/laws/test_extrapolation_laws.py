"""Beyond the predictors seen, the learner grows as time did at the edge: what bends upwards there is not taken to bend on."""

from __future__ import annotations

import numpy as np
import pytest

from advisor import Advisor

SEEN = 1e4


def beyond(exponent: float, noise: float, seed: int, factor: float) -> float:
    """Return what is predicted `factor` times beyond 120 runs of ``fixed + x**exponent``, over its law."""
    rng, advisor = np.random.default_rng(seed), Advisor()
    fixed = 10.0 ** rng.uniform(2.0, 4.0)
    for x in SEEN ** rng.uniform(0.0, 1.0, 120):
        elapsed_s = 1e-7 * (fixed + x**exponent) * rng.lognormal(0.0, noise)
        advisor.observe("c", predictor=x, cores=1, elapsed_s=elapsed_s)
    far = advisor.predict("c", predictor=factor * SEEN, cores=1).elapsed_s
    return far / (1e-7 * (fixed + (factor * SEEN) ** exponent))


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_a_fixed_cost_and_work_in_proportion_are_not_taken_for_more(noise: float) -> None:
    found = np.array([beyond(1.0, noise, seed, 100.0) for seed in range(20)])
    # Noise of the slope over one unit is carried over 4.6; a curve that bends on was up to 7 times too long.
    assert found.max() < 5.0
    assert np.median(found) < 1.25


def test_steeper_work_is_followed_as_steeply_as_it_was_seen() -> None:
    for exponent in (1.5, 2.0, 3.0):
        found = np.array([beyond(exponent, 0.05, seed, 10.0) for seed in range(20)])
        assert 0.5 < np.median(found) < 2.0, exponent
