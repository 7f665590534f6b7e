"""Paper 1's model as the paper has it, by the name `two_step`, solved from its sums.

The sequential time S(x) is fitted, unweighted, to the rows at the fewest cores p_min. The parallel fraction comes from the
rows at the highest (cores, then predictor): with r = T / S(x*), a = (1 - r) / ((1 - 1/p*) - r (1 - 1/p_min)), clamped to 0
for r >= 1 and to 1 for r <= p_min / p* (the formula has a pole beyond). All those rows share (p*, x*), so their running mean
is kept as (p*, x*, n, sum t) and a is evaluated with the S of the moment.

Source: extended Amdahl model, sections 3.1, 3.2 and 3.4 (the paper prints a without the "1 -", a misprint).
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models.amdahl import Solutions
from advisor.models.candidates import FORMS, FRACTION_UNKNOWN
from advisor.models.criterion import criterion
from advisor.models.elimination import Elimination
from advisor.models.layout import COEFFICIENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]


def solve(part: Table, degree: int | None = None) -> Solutions:
    """Return the two-step model of each component. Cost O(n).

    Parameters
    ----------
    degree : int, optional
        Of S, 0 to 3, as the paper assumes it known; None lets the criterion choose.
    """
    gram, right, n = part["least_gram"], part["least_right"], part.size
    system = Elimination(
        [[gram[i + j] for j in range(COEFFICIENTS)] for i in range(COEFFICIENTS)],
        [right[j] for j in range(COEFFICIENTS)],
    )
    degrees = range(COEFFICIENTS) if degree is None else (degree,)
    scores, solutions, used = [], [], []
    for k in degrees:
        used.append(sum(system.used[: k + 1]))
        scores.append(
            criterion(part["least_square"] - sum(system.gains[: k + 1]), part["least_square"], gram[0], used[-1])
        )
        solutions.append(system.solution(k + 1) + [np.zeros(n)] * (COEFFICIENTS - 1 - k))
    scores[0] = np.where(np.isfinite(scores[0]), scores[0], 1e300)
    choice = np.argmin(np.stack(scores), axis=0)
    s = np.array(solutions)[choice, :, np.arange(n)].T
    scale = np.where(part["scale"] > 0, part["scale"], 1.0)
    u = (part["top_predictor"] - part["origin"]) / scale
    top = s[0] + u * (s[1] + u * (s[2] + u * s[3]))
    mean = part["top_sum"] / np.maximum(part["top_runs"], 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(top > 0, mean / top, np.inf)
        a = parallel_fraction(ratio, part["p_high"], part["p_low"])
        a = np.where(np.isnan(a), FRACTION_UNKNOWN, a)
        # S is fitted at p_min: T_pmin = (1 - a + a / p_min) S_1.
        single = 1.0 / (1.0 - a + a / np.maximum(part["p_low"], 1e-300))
    serial, parallel = (1.0 - a) * single * s, a * single * s
    residual = _residual(part, serial, parallel)
    form = np.array([next(i for i, f in enumerate(FORMS) if f.family == "joint" and f.degree == k) for k in degrees])[
        choice
    ]
    return Solutions(form, serial, parallel, a, residual, np.array(used)[choice, np.arange(n)] + 1.0, form)


def _residual(part: Table, serial: Floats, parallel: Floats) -> Floats:
    """Return the weighted residual of the curve over all rows, from the joint sums: sum w t^2 - 2 c'r + c'G c."""
    gram, right = part["gram"].reshape(3, 2 * COEFFICIENTS - 1, -1), part["right"].reshape(2, COEFFICIENTS, -1)
    total = part["square"].copy()
    families = (serial, parallel)
    for q1, first in enumerate(families):
        total -= 2.0 * (first * right[q1]).sum(axis=0)
        for q2, second in enumerate(families):
            for i in range(COEFFICIENTS):
                for j in range(COEFFICIENTS):
                    total += first[i] * second[j] * gram[q1 + q2, i + j]
    return np.maximum(total, 0.0)


def parallel_fraction(ratio: Floats, p_top: Floats, p_least: Floats) -> Floats:
    """Return a (n,) in [0, 1] from r = T_p* / S_min(x*); NaN where p* = p_min tells nothing.

    Solves T_p*(x*) / T_pmin(x*) = r for a, T_p = a S / p + (1 - a) S.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (1.0 - ratio) / ((1.0 - 1.0 / p_top) - ratio * (1.0 - 1.0 / p_least))
        a = np.where(ratio >= 1.0, 0.0, np.where(ratio <= p_least / p_top, 1.0, a))
    return np.where(p_top > p_least, np.clip(a, 0.0, 1.0), np.nan)
