"""Extended Amdahl models: which form answers for a component.

The candidates (see `candidates`) are fitted by exact least squares from the sums; the one with the least criterion answers
among those whose predictions are positive on the seen range.
"""

# An entry is a float or an array, by design: one arithmetic serves one component and many.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.models.candidates import FORMS, Candidate, Sums, best_possible, candidate
from advisor.models.criterion import criterion
from advisor.models.layout import COEFFICIENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]

EQUAL = 1e-6  # of the criterion: forms closer than this are the same curve written twice, and the first one answers


@dataclass(frozen=True, slots=True)
class Solutions:
    """The chosen model of each of n components.

    Attributes
    ----------
    form : int64 array (n,)
        Index into `FORMS`.
    serial, parallel : float64 arrays (4, n)
        A_j and B_j of T = sum_j (A_j + B_j / p) u^j.
    fraction : float64 array (n,)
        Parallel fraction a; NaN for the free form.
    residual : float64 array (n,)
        Weighted residual sum of squares.
    used : float64 array (n,)
        Coefficients that the sums could determine, a included.
    preferred : int64 array (n,)
        The form that the evidence alone would take; another one answers where its predictions were not positive.
    """

    form: NDArray[np.int64]
    serial: Floats
    parallel: Floats
    fraction: Floats
    residual: Floats
    used: Floats
    preferred: NDArray[np.int64]


def solve(part: Table, timer_noise_s: float, form: str | None = None) -> Solutions:
    """Return the best model of each component of `part`; those without rows get zeros. Cost O(n), a few hundred operations.

    Parameters
    ----------
    timer_noise_s : float
        Curves may dip below zero by this much: the timer cannot tell.
    form : str, optional
        The name of one of `FORMS` to force it, without regard to evidence or positivity.
    """
    wanted = [i for i in range(len(FORMS)) if form is None or FORMS[i].name == form]
    if part.size == 1:
        return _solve_one(Sums(part, timer_noise_s, many=False), wanted, form is not None)
    return _solve_many(Sums(part, timer_noise_s, many=True), wanted, form is not None, part.size)


def _solve_many(sums: Sums, wanted: list[int], forced: bool, n: int) -> Solutions:
    found = [candidate(FORMS[i], sums) for i in wanted]
    spread = lambda value: np.broadcast_to(np.asarray(value, np.float64), (n,))  # noqa: E731
    scores = np.stack([criterion(spread(c.residual), sums.square, sums.evidence, spread(c.used)) for c in found])
    # With too few rows for any form, the simplest: the mean.
    scores[0] = np.where(np.isfinite(scores).any(axis=0), scores[0], 0.0)
    preferred = _first_least(scores)
    chosen = preferred
    if not forced:
        allowed = np.where(
            np.stack([np.broadcast_to(np.asarray(c.valid, np.bool_), (n,)) for c in found]), scores, np.inf
        )
        allowed[0] = np.where(np.isfinite(allowed).any(axis=0), allowed[0], 0.0)
        chosen = _first_least(allowed)
    pick = lambda get: np.stack([spread(get(c)) for c in found])[chosen, np.arange(n)]  # noqa: E731
    columns = range(COEFFICIENTS)
    return Solutions(
        np.array(wanted)[chosen],
        np.stack([pick(lambda c, j=j: c.serial[j]) for j in columns]),
        np.stack([pick(lambda c, j=j: c.parallel[j]) for j in columns]),
        pick(lambda c: c.fraction),
        np.maximum(pick(lambda c: c.residual), 0.0),
        pick(lambda c: c.used),
        np.array(wanted)[preferred],
    )


def _solve_one(sums: Sums, wanted: list[int], forced: bool) -> Solutions:
    """Solve one component in floats, forms in the order of the best criterion they can reach; the hopeless are not refined."""
    queue = sorted((best_possible(FORMS[i], sums), i) for i in wanted)
    found: list[tuple[float, int, Candidate]] = []
    for possible, i in queue:
        if any(c.valid and possible > score + EQUAL for score, _, c in found):
            break
        fit = candidate(FORMS[i], sums)
        found.append((criterion(fit.residual, sums.square, sums.evidence, fit.used), i, fit))
    found = [entry for entry in found if entry[0] < np.inf]
    allowed = [entry for entry in found if entry[2].valid or forced]
    # With too few rows for any form, or none positive: the mean.
    best = _simplest(allowed) if allowed else (0.0, wanted[0], candidate(FORMS[wanted[0]], sums))
    preferred = _simplest(found) if found else best
    _, i, c = best
    one = lambda value: np.array([value], np.float64)  # noqa: E731
    return Solutions(
        np.array([i]),
        np.array(c.serial)[:, None],
        np.array(c.parallel)[:, None],
        one(c.fraction),
        one(max(c.residual, 0.0)),
        one(c.used),
        np.array([preferred[1]]),
    )


def _first_least(scores: Floats) -> NDArray[np.int64]:
    """Return, for each column, the first form whose score equals the least."""
    return np.argmax(scores <= scores.min(axis=0) + EQUAL, axis=0)


def _simplest(found: list[tuple[float, int, Candidate]]) -> tuple[float, int, Candidate]:
    least = min(score for score, _, _ in found)
    return min((entry for entry in found if entry[0] <= least + EQUAL), key=lambda entry: entry[1])
