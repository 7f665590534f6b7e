"""What runs over all of a component's observed load take."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from advisor.domain.vectors import Floats

HALVINGS = 40  # of the span in which a quantile lies: to 1e-9 of a factor of a thousand
SPREAD_LEAST = 1e-9  # of log time


def over_load(share: Floats, elapsed: Floats, low: Floats, high: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return E[T] (m,) and the interval of one run drawn from a load, of answers (n, m) at its n predictors.

    A run at a predictor is log-normal on either side of its expectation, with the spreads of its own interval; the load's
    interval lies between the quantiles of the mixture, and holds its mean, which few long runs may raise beyond. Cost O(n m).
    """
    reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
    middle: Floats = np.log(elapsed)
    down: Floats = np.maximum((middle - np.log(low)) / reach, SPREAD_LEAST)
    up: Floats = np.maximum((np.log(high) - middle) / reach, SPREAD_LEAST)

    def quantile(wanted: float, bounds: Floats) -> Floats:
        least: Floats = np.log(bounds.min(axis=0))  # it lies between those of the parts
        most: Floats = np.log(bounds.max(axis=0))
        for _ in range(HALVINGS):
            at: Floats = 0.5 * (least + most)
            z: Floats = (at - middle) / np.where(at < middle, down, up)
            below = share @ normal_cdf(z) < wanted
            least, most = np.where(below, at, least), np.where(below, most, at)
        return np.exp(0.5 * (least + most))

    mean: Floats = np.clip(share @ elapsed, elapsed.min(axis=0), elapsed.max(axis=0))  # shares are rounded
    return mean, np.minimum(quantile(0.5 - 0.5 * level, low), mean), np.maximum(quantile(0.5 + 0.5 * level, high), mean)


def normal_cdf(z: Floats) -> Floats:
    """Return the standard normal distribution function, elementwise, to 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t: Floats = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    series: Floats = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail: Floats = series * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return np.where(z > 0.0, 1.0 - tail, tail)
