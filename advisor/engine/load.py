"""The observed load of a component: which predictors it meets, and what runs over all of them take."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from advisor.domain.vectors import Floats
from advisor.engine.components import Components
from advisor.engine.learners import Solved
from advisor.models import process
from advisor.models.cells import PITCHES
from advisor.models.learner_layout import CELLS, ZERO
from advisor.models.load_table import points_of

HALVINGS = 40  # of the span in which a quantile lies: to 1e-9 of a factor of a thousand
SPREAD_LEAST = 1e-9  # of log time


@dataclass(frozen=True, slots=True)
class Load:
    """Predictors (n, d), their shares (n,), and the sd (d,) of their logs about each of them, where they stand for cells."""

    predictors: Floats
    share: Floats
    inside: Floats | None = None


def load_of(components: Components, slot: int, found: object) -> Load:
    """Return the observed load: of the sketch, or where predictors have several values, of the cells of `found`."""
    if isinstance(found, Solved) and components.dimensions(slot) > 1:
        frame, points, _, _ = found.solution
        d, count = int(frame[process.AXES]) - 1, int(frame[process.CELLS_USED])
        weights = found.table.floats("runs")[found.place][:count]
        # Cells of x = 0 stand below the least positive one.
        centres = found.table.floats("centre")[found.place].reshape(-1, CELLS)[:d, :count]
        where = np.where(centres <= ZERO, 0.0, np.exp(points[:d, :count]))
        places, inverse = np.unique(where.T, axis=0, return_inverse=True)
        share = np.bincount(inverse.reshape(-1), weights, len(places))
        return Load(places, share / float(share.sum()), _inside(found, d))
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
    interval lies between the quantiles of the mixture. Cost O(n m).
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

    return share @ elapsed, quantile(0.5 - 0.5 * level, low), quantile(0.5 + 0.5 * level, high)


def normal_cdf(z: Floats) -> Floats:
    """Return the standard normal distribution function, elementwise, to 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t: Floats = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    series: Floats = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail: Floats = series * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return np.where(z > 0.0, 1.0 - tail, tail)
