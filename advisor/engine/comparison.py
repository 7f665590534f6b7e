"""Two states side by side: which components take longer, or less, than they did, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from advisor.engine.advisor import Advisor
from advisor.engine.checks import checked_level
from advisor.engine.mixtures import Mixture
from advisor.models import counts
from advisor.models.posterior import Posterior
from advisor.models.student import quantile

Floats = NDArray[np.float64]

FREEDOM_MOST = 1_000.0  # of a t quantile: beyond it is the normal one
NOT_BOTH = "learned in one of the two states only"
NO_POINTS = "no support points in one of the two states"
FAR_APART = "no setting was seen in both: the difference rests on extrapolation"


@dataclass(frozen=True, slots=True)
class Difference:
    """How a component's times changed from one state to another.

    Attributes
    ----------
    component : str
    ratio : float or None
        Times in the second state over those in the first, the geometric mean over what either has seen; None where it
        cannot be told.
    low, high : float or None
        Interval of the ratio.
    significant : bool
        Whether the interval leaves out 1.
    points : int
        Settings compared.
    note : str
    """

    component: str
    ratio: float | None
    low: float | None
    high: float | None
    significant: bool
    points: int
    note: str = ""


def compare(first: Advisor, second: Advisor, level: float = 0.99) -> list[Difference]:
    """Return the differences of all components of either state: the significant ones first, the greatest first.

    The log ratio of both mixtures is averaged over the settings in either's support points that lie within the seen range of
    the other, weighted by runs. Its variance is that of both curves' averages: with covariances, for a curve's errors at
    neighbouring settings are one error. At the level 0.99 one of a hundred components that did not change is called changed;
    cost O(components).

    Raises
    ------
    InvalidValue
    """
    level = checked_level(level)
    first.flush()
    second.flush()
    names = [
        *first.components.components,
        *(n for n in second.components.components if n not in first.components.slot_of),
    ]
    found = [_difference(first, second, name, level) for name in names]
    return sorted(found, key=lambda d: (not d.significant, d.ratio is None, -abs(np.log(d.ratio)) if d.ratio else 0.0))


def _difference(first: Advisor, second: Advisor, name: str, level: float) -> Difference:
    sides: list[Mixture] = []
    for advisor in (first, second):
        slot = advisor.components.slot_of.get(name)
        if slot is None or not counts.evidence(advisor.components.table, slot) > 0:
            return Difference(name, None, None, None, False, 0, NOT_BOTH)
        mixture = advisor.mixture(name)
        if mixture is None:
            return Difference(name, None, None, None, False, 0, NO_POINTS)
        sides.append(mixture)
    one, two = sides
    if one.posterior.points.z.shape[1] != two.posterior.points.z.shape[1]:
        return Difference(name, None, None, None, False, 0, "another number of predictors")
    low, high = (
        np.maximum(one.posterior.points.z.min(0), two.posterior.points.z.min(0)),
        np.minimum(one.posterior.points.z.max(0), two.posterior.points.z.max(0)),
    )
    z = np.concatenate([one.posterior.points.z, two.posterior.points.z])
    weight = np.concatenate([one.posterior.points.runs, two.posterior.points.runs])
    shared = ((z >= low - 1e-9) & (z <= high + 1e-9)).all(axis=1)
    note = "" if shared.any() else FAR_APART
    if shared.any():
        z, weight = z[shared], weight[shared]
    weight = weight / weight.sum()
    means = [_average(side.posterior, z, weight) for side in sides]
    change = means[1][0] - means[0][0]
    spread = sqrt(means[0][1] + means[1][1])
    freedom = min(FREEDOM_MOST, *(side.posterior.freedom + len(side.posterior.points.y) for side in sides))
    reach = quantile(level, max(freedom, 1.0)) * spread
    return Difference(
        name, exp(change), exp(change - reach), exp(change + reach), abs(change) > reach and not note, len(z), note
    )


def _average(posterior: Posterior, z: Floats, weight: Floats) -> tuple[float, float]:
    """Return mean and variance of the curve's weighted average over points."""
    mean, _, _ = posterior.at(z)
    return float(weight @ mean), float(weight @ posterior.covariance(z, z) @ weight)
