"""Which count of cores a run should be given for what it teaches, within a budget of lost seconds.

From state alone: a question changes nothing, and the row that reports the run charges what the answer put at risk.
"""

from __future__ import annotations

from dataclasses import replace
from math import erf, exp, log1p, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.answers import CoreChoice, Prediction
from advisor.domain.vectors import Floats
from advisor.engine.learners import Solved

# OPEN_AT_ONCE: answers may be out before the first row comes back: each puts one part in so many of what is left at risk
OPEN_AT_ONCE = 4
WORTH = 0.01  # of the time: less expected gain is not worth a run
PER_DOUBLING = 4  # of the counts that are weighed: 28 up to 128
LOSS_MAX = 50.0  # of ln t: exp of it is beyond every elapsed time


def explored(
    found: Solved, chosen: CoreChoice, counts: NDArray[np.int64], answer: Prediction, x: Any, tolerance: float,
    level: float, left_s: float,
) -> CoreChoice:  # fmt: skip
    """Return the count that promises most of those that are worth a run and may be risked; `chosen` where there is none.

    ln f(c) - ln f(j) of the mean times on c and j cores is normal with the learner's own mean and variance; noise of runs is
    no part of it. A count c promises E[max(ln f(j) - ln f(c) - ln(1 + tolerance), 0)] with j the fastest as predicted: what
    is merely believed to be slower has something to tell only as far as it is uncertain. It puts at risk f(chosen)
    (f(c) / f(chosen) - 1) seconds with that ratio at its upper end at `level`. Cost O(n cells**2 + n**2 cells).
    """
    ladder = np.rint(2.0 ** (np.arange(PER_DOUBLING * int(counts[-1]).bit_length()) / PER_DOUBLING))
    known = (chosen.cores, chosen.fastest_cores, counts[-1])
    tried = np.flatnonzero(np.isin(counts, [*ladder, *known]))
    own, fastest = np.searchsorted(counts[tried], known[:2]).tolist()
    cores, elapsed = counts[tried].astype(np.float64), answer.elapsed_s[tried]
    outside = np.broadcast_to(answer.extrapolates, counts.shape)[tried]
    points = np.broadcast_to(x, (len(tried), found.table.axes - 1)), cores
    covariance = found.covariance(points, points)
    doubt = np.where(outside > 0.0, 1.0, float(found.table.column("doubt")[found.place]))

    def beside(j: int) -> Floats:
        """Return the sd of ln f(c) - ln f(j)."""
        variance = covariance.diagonal() + covariance[j, j] - 2.0 * covariance[j]
        return np.sqrt(np.maximum(variance, 0.0) * np.maximum(doubt, doubt[j]))

    gains = elementary.log(elapsed[fastest] / elapsed) - log1p(tolerance)
    hoped = np.array([_expected_gain(*each) for each in zip(gains.tolist(), beside(fastest).tolist(), strict=True)])
    inside, beyond = found.reach_at(level)
    reach = np.where(outside > 0.0, max(inside, beyond), inside)
    loss = np.clip(elementary.log(elapsed / elapsed[own]) + reach * beside(own), 0.0, LOSS_MAX)
    at_risk = elapsed[own] * elementary.expm1(loss)
    able = (hoped > WORTH) & (at_risk <= left_s / OPEN_AT_ONCE)
    able[own] = False
    if not able.any():
        return chosen
    best = int(np.argmax(np.where(able, hoped, 0.0)))
    at, lost = int(tried[best]), float(at_risk[best])
    why = (
        f"exploring: on {counts[at]} cores the mean gain hoped for is {hoped[best]:.1%}, and {lost:.3g} s are at risk of the "
        f"{left_s:.3g} s left; otherwise {chosen.why}"
    )
    return replace(
        chosen, cores=int(counts[at]), elapsed_s=float(elapsed[best]), low_s=float(answer.low_s[at]),
        high_s=float(answer.high_s[at]), extrapolates=float(outside[best]), why=why, exploring=True, at_risk_s=lost,
    )  # fmt: skip


def _expected_gain(mean: float, sd: float) -> float:
    """Return E[max(d, 0)] of a normal d."""
    if sd <= 0.0:
        return max(mean, 0.0)
    u = mean / sd
    return sd * exp(-0.5 * u * u) / sqrt(2.0 * pi) + mean * 0.5 * (1.0 + erf(u / sqrt(2.0)))
