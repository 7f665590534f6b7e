"""Work-time inflation, learned: the demand of the bandwidth model from run times with the number of active cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain import elementary
from advisor.errors import InvalidValue, NotEnoughData
from advisor.simulation.systems import Bandwidth

Floats = NDArray[np.float64]
ACTIVE_MIN = 2  # different numbers of active cores, without which there is nothing to tell inflation from


@dataclass(frozen=True, slots=True)
class Inflation:
    """A fitted bandwidth model."""

    # share of the machine's bandwidth that one running task uses, 0 to 1: from 1 / demand active cores on they slow
    # each other
    demand: float
    alone: float  # time of a run that nobody slows, in the unit of the observations
    error: float  # root mean square of the relative residuals: what the model misses
    flat_error: float  # the same without any inflation: what the model is worth

    @property
    def system(self) -> Bandwidth:
        """The contention model for an analysis."""
        return Bandwidth(self.demand)

    def slowdown(self, active: ArrayLike) -> Floats:
        """Return T(active) / alone = max(1, active * demand)."""
        return np.maximum(1.0, np.asarray(active, np.float64) * self.demand)


def fit_bandwidth(active: ArrayLike, elapsed: ArrayLike, counts: ArrayLike | None = None) -> Inflation:
    """Return the demand that explains run times best, by least squares of their logarithms.

    Raises InvalidValue for values outside of that; NotEnoughData for fewer than two different numbers of active cores.

    Parameters
    ----------
    active : array (n,)
        Cores active on the machine during each run, the run's own included, at least 1.
    elapsed : array (n,)
        Times of like runs, positive.
    counts : array (n,), optional
        Runs that each stands for.

    Notes
    -----
    log T = log T0 + max(0, log(a d)) has a knee at a = 1/d. For each place of the knee between two of the m different
    numbers the
    best log T0 and log d are means, clipped to where the knee was assumed; the best of these m + 1 is the global minimum,
    since the sum of squares is convex within each. Cost O(n + m^2).
    """
    x, t = np.asarray(active, np.float64), np.asarray(elapsed, np.float64)
    weights = np.ones_like(t) if counts is None else np.asarray(counts, np.float64)
    if x.shape != t.shape or weights.shape != t.shape or x.ndim != 1:
        raise InvalidValue("active", x.shape, f"one number a run, {t.shape}")
    if not (np.isfinite(x) & np.isfinite(t) & np.isfinite(weights) & (x >= 1) & (t > 0) & (weights > 0)).all():
        raise InvalidValue("active, elapsed, counts", "outside", "active from 1, times and counts positive")
    levels = np.unique(x)
    if len(levels) < ACTIVE_MIN:
        raise NotEnoughData(
            f"runs at {len(levels)} number of active cores tell no inflation", field="active", bound=ACTIVE_MIN,
            hint="observe runs with more and with fewer cores active",
        )  # fmt: skip
    log_x, log_t = elementary.log(x), elementary.log(t)
    best: tuple[float, float, float] | None = None
    knees = np.concatenate([levels, [np.inf]])
    for place, knee in enumerate(knees):  # runs with `active` >= knee are slowed
        low = float(levels[place - 1]) if place else 1.0
        for demand, base in _candidates(log_x, log_t, weights, x >= knee, low, float(knee)):
            fitted = base + np.maximum(0.0, log_x + elementary.log(demand))
            loss = float((weights * (log_t - fitted) ** 2).sum())
            if best is None or loss < best[0] * (1 - 1e-12):
                best = (loss, demand, base)
    assert best is not None
    flat = np.average(log_t, weights=weights)
    total = float(weights.sum())
    flat_loss = float((weights * (log_t - flat) ** 2).sum())
    return Inflation(best[1], float(elementary.exp(best[2])), (best[0] / total) ** 0.5, (flat_loss / total) ** 0.5)


def _candidates(
    log_x: Floats, log_t: Floats, weights: Floats, slowed: NDArray[np.bool_], low: float, high: float
) -> list[tuple[float, float]]:
    """Return (demand, log T0) that may be best with the knee 1/d in [low, high]: the free optimum clipped, and the ends."""
    ends = [low] if not np.isfinite(high) else [low, high]
    found: list[tuple[float, float]] = []
    if slowed.any() and not slowed.all():
        base = float(np.average(log_t[~slowed], weights=weights[~slowed]))
        above = float(np.average(log_t[slowed] - log_x[slowed], weights=weights[slowed])) - base
        knee = float(elementary.exp(-above))
        if low <= knee <= high:
            found.append((1.0 / knee, base))
    for knee in ends:
        rise = np.maximum(0.0, log_x - elementary.log(knee))
        found.append((1.0 / knee, float(np.average(log_t - rise, weights=weights))))
    return found
