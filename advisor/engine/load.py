"""A component's observed load, and what runs over all of it take."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats
from advisor.engine.components import Components
from advisor.engine.learners import Solved
from advisor.models.cells import PITCHES
from advisor.models.load_table import points_of

HALVINGS = 40  # of the span in which a quantile lies: to 1e-9 of a factor of a thousand
SPREAD_LEAST = 1e-9  # of log time

FAR = 40.0  # standard deviations beyond which a normal tail is below the least double


@dataclass(frozen=True, slots=True)
class Load:
    """Predictors (n, d), their shares (n,), and the sd (d,) of their logs about each of them, where they stand for cells."""

    predictors: Floats
    share: Floats
    inside: Floats | None = None


def load_of(components: Components, slot: int, found: object) -> Load:
    """Return the observed load: of the sketch, or where predictors have several values, of the cells of `found`."""
    if isinstance(found, Solved) and components.dimensions(slot) > 1:
        cells = found.table.cells(found.place)
        places, inverse = np.unique(cells.predictors, axis=0, return_inverse=True)
        share = np.bincount(inverse.reshape(-1), cells.runs, len(places))
        return Load(places, share / float(share.sum()), _inside(found, places.shape[1]))
    x, share = points_of(components.table, slot)
    return Load(x[:, None], share)


def _inside(found: Solved, dimensions: int) -> Floats:
    """Return the sd (d,) of the logs of predictors inside cells, spread evenly over their width; 0 where cells are points."""
    coarseness = found.table.integers("coarseness")[found.place][:dimensions]
    begun = found.table.empty_record().view(np.int64)[found.table.at["coarseness"]][:dimensions]
    return np.where(coarseness > begun, 1.0 / PITCHES[coarseness] / 12.0**0.5, 0.0)


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
