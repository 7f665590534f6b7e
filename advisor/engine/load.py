"""What runs over all of a component's observed load take."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats

HALVINGS = 40  # of the span in which a quantile lies: to 1e-9 of a factor of a thousand
SPREAD_LEAST = 1e-9  # of log time

FAR = 40.0  # standard deviations beyond which a normal tail is below the least double


def over_load(share: Floats, elapsed: Floats, low: Floats, high: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return E[T] (m,) and the interval of one run drawn from a load, of answers (n, m) at its n predictors.

    A run at a predictor is log-normal on either side of its expectation, with the spreads of its own interval; the load's
    interval lies between the quantiles of the mixture, and holds its mean, which few long runs may raise beyond. Cost O(n m).
    """
    reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
    middle: Floats = elementary.log(elapsed)
    down: Floats = np.maximum((middle - elementary.log(low)) / reach, SPREAD_LEAST)
    up: Floats = np.maximum((elementary.log(high) - middle) / reach, SPREAD_LEAST)

    def quantile(wanted: float, bounds: Floats) -> Floats:
        least: Floats = elementary.log(bounds.min(axis=0))  # it lies between those of the parts
        most: Floats = elementary.log(bounds.max(axis=0))
        for _ in range(HALVINGS):
            at: Floats = 0.5 * (least + most)
            z: Floats = (at - middle) / np.where(at < middle, down, up)
            below = elementary.weighted(share, normal_cdf(z)) < wanted
            least, most = np.where(below, at, least), np.where(below, most, at)
        return elementary.exp(0.5 * (least + most))

    mean: Floats = np.clip(
        elementary.weighted(share, elapsed), elapsed.min(axis=0), elapsed.max(axis=0)
    )  # shares are rounded
    return mean, np.minimum(quantile(0.5 - 0.5 * level, low), mean), np.maximum(quantile(0.5 + 0.5 * level, high), mean)


def normal_cdf(z: Floats) -> Floats:
    """Return the standard normal distribution function, elementwise, to 2e-7 (Abramowitz and Stegun 26.2.19)."""
    a: Floats = np.minimum(np.abs(z), FAR)  # the tail there is 0, and no power overflows
    series: Floats = 1.0 + a * (0.049867347 + a * (0.0211410061 + a * (
        0.0032776263 + a * (0.0000380036 + a * (0.0000488906 + a * 0.000005383)))))  # fmt: skip
    square: Floats = series * series
    fourth: Floats = square * square
    eighth: Floats = fourth * fourth
    tail: Floats = 0.5 / (eighth * eighth)
    return np.where(z > 0.0, 1.0 - tail, tail)
