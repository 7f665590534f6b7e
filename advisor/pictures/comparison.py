"""Two states side by side: which components take longer, or less, than they did, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats
from advisor.engine.advisor import Advisor
from advisor.engine.guards import checked_level
from advisor.engine.learners import Solved
from advisor.models.learner_layout import ZERO
from advisor.models.student import quantile

FREEDOM_MOST = 1_000.0  # of a t quantile: beyond it is the normal one
NOT_BOTH = "learned in one of the two states only"
NO_CELLS = "no learner in one of the two states"
FAR_APART = "no setting was seen in both: the difference rests on extrapolation"


@dataclass(frozen=True, slots=True)
class Difference:
    """How a component's times changed from one state to another."""

    component: str
    # times in the second state over those in the first, the geometric mean over what either has seen; None where it
    # cannot be computed
    ratio: float | None
    # low, high: interval of the ratio
    low: float | None
    high: float | None
    significant: bool  # whether the interval leaves out 1
    points: int  # settings compared
    note: str = ""


def compare(first: Advisor, second: Advisor, level: float = 0.99) -> list[Difference]:
    """Return the differences of all components of either state: the significant ones first, the greatest first.

    The log ratio of both curves is averaged over the settings in either's cells that lie within the seen range of the other,
    weighted by runs. Its variance is that of both curves' averages: with covariances, for a curve's errors at neighbouring
    settings are one error. At the level 0.99 one of a hundred components that did not change is called changed; cost
    O(components). Raises InvalidValue.
    """
    level = checked_level(level)
    names = [
        *first.components.slots.components,
        *(n for n in second.components.slots.components if n not in first.components.slots.components),
    ]
    found = [_difference(first, second, name, level) for name in names]
    return sorted(
        found, key=lambda d: (not d.significant, d.ratio is None, -abs(elementary.log(d.ratio)) if d.ratio else 0.0)
    )


def _difference(first: Advisor, second: Advisor, name: str, level: float) -> Difference:
    sides: list[Solved] = []
    for advisor in (first, second):
        slot = advisor.components.slots.components.get(name)
        if slot is None or not advisor.components.table.evidence(slot) > 0:
            return Difference(name, None, None, None, False, 0, NOT_BOTH)
        solved = advisor.learner(name)
        if solved is None:
            return Difference(name, None, None, None, False, 0, NO_CELLS)
        sides.append(solved)
    one, two = (solved.table.cells(solved.place) for solved in sides)
    if one.z.shape[1] != two.z.shape[1]:
        return Difference(name, None, None, None, False, 0, "another number of predictors")
    low, high = np.maximum(one.z.min(0), two.z.min(0)), np.minimum(one.z.max(0), two.z.max(0))
    z, weight = np.concatenate([one.z, two.z]), np.concatenate([one.runs, two.runs])
    shared = ((z >= low - 1e-9) & (z <= high + 1e-9)).all(axis=1)
    note = "" if shared.any() else FAR_APART
    if shared.any():
        z, weight = z[shared], weight[shared]
    weight = weight / weight.sum()
    means = [_average(solved, z, weight) for solved in sides]
    change = means[1][0] - means[0][0]
    spread = sqrt(means[0][1] + means[1][1])
    freedom = min(FREEDOM_MOST, float(min(one.runs.sum(), two.runs.sum())))
    reach = quantile(level, max(freedom, 1.0)) * spread
    ratio, low, high = (elementary.exp(each) for each in (change, change - reach, change + reach))
    return Difference(name, ratio, low, high, abs(change) > reach and not note, len(z), note)


def _average(solved: Solved, z: Floats, weight: Floats) -> tuple[float, float]:
    """Return mean and variance of the curve's weighted average over points (n, axes)."""
    points = np.where(z[:, :-1] <= ZERO, 0.0, elementary.exp(z[:, :-1])), elementary.exp(z[:, -1])
    return elementary.weighted(weight, solved.curve(*points)[:, 0]), elementary.weighted(
        weight, elementary.weighted(weight, solved.covariance(points, points))
    )
