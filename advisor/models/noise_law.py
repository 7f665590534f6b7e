"""The noise of a run: a law s**2 f**2 + tau**2 at a run time f, from the scatter of cells; what intervals add. Kernels."""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import sqrt

from advisor.models.cells import *
from advisor.models.learner_layout import *

LEFT_OUT = AT["left_out"]


def learn_noise(r, n, rows):
    """Choose the noise law s**2 f**2 + tau**2 from the scatter of the cells, by Fisher scoring with Student weights.

    It begins with a tau that explains all scatter, and a cell whose mean is far below tau does not weigh: times are not
    negative, so it scatters less whatever the timer does. Otherwise a clock's ticks would be found as a relative noise.
    s**2, too, falls to `NOISE_STEP` of itself at most in a round: the belief weighs as 1 / s**4, and drowns all cells from
    far below.
    """
    freedoms, seen, squares = rows[0], rows[1], rows[2]
    reported, total, most = 0, 0.0, 0.0
    for cell in range(n[COUNT]):
        freedom = freedom_of(r, n, cell)
        square = r[MEAN + cell] * r[MEAN + cell]
        if freedom > LEFT_OUT_FREEDOM:
            freedoms[reported], seen[reported], squares[reported] = freedom, r[SCATTER + cell] / freedom, square
            reported += 1
            total += r[SCATTER + cell]
            most += freedom
        elif r[LEFT_OUT] >= 0.0:
            freedoms[reported], seen[reported], squares[reported] = (
                LEFT_OUT_FREEDOM,
                min(r[LEFT_OUT], RUN_SD * RUN_SD) * square,
                square,
            )
            reported += 1
    relative, absolute = RUN_SD * RUN_SD, total / max(most, 1.0)
    for _ in range(NOISE_ROUNDS):
        aa = RUN_SD_RUNS / (relative * relative)
        ay = RUN_SD * RUN_SD * aa
        ab, bb, by = 0.0, 0.0, 0.0
        for k in range(reported):
            freedom, square = freedoms[k], squares[k]
            law = relative * square + absolute + 1e-100
            weight = freedom * (FREEDOM + freedom) / ((FREEDOM * law + freedom * seen[k]) * law)
            weight *= square / (square + BELOW_TIMER * absolute + 1e-100)
            aa += weight * square * square
            ab += weight * square
            bb += weight
            ay += weight * square * seen[k]
            by += weight * seen[k]
        determinant = aa * bb - ab * ab
        absolute *= NOISE_STEP
        if bb > 0.0 and determinant > 1e-9 * aa * bb:
            absolute = max((aa * by - ab * ay) / determinant, absolute)
        least = max(relative * NOISE_STEP, RUN_SD_LEAST * RUN_SD_LEAST)
        relative = (ay - ab * absolute) / aa
        if relative < least:
            relative = least
            absolute = max((by - ab * relative) / bb, absolute) if bb > 0.0 else absolute
    r[RELATIVE], r[ABSOLUTE] = relative, absolute


def run_noise(r, n):
    """Return the variance of one run of the cells, over the mean square of their times."""
    runs, squares = 0.0, 0.0
    for cell in range(n[COUNT]):
        runs += r[RUNS + cell]
        squares += r[RUNS + cell] * r[MEAN + cell] * r[MEAN + cell]
    return r[RELATIVE] + r[ABSOLUTE] * runs / squares


def agreed(r, n, cell):
    """Return whether the runs of a cell agree with each other, as far as one run's noise lets them: at least two."""
    freedom = freedom_of(r, n, cell)
    law = r[RELATIVE] * r[MEAN + cell] * r[MEAN + cell] + r[ABSOLUTE]
    return freedom >= OUTLIER_RUNS - 1.0 and r[SCATTER + cell] <= AGREED * freedom * law


def excess_of(r, n, errors):
    """Return the mean of squared leave-one-out errors beyond the model's variance, until as many rows repeat as cells.

    An outlier counts, too, where the variance that the others show makes it none: under 60 % noise one run in five looks as
    one. Where more rows repeat than cells stand alone, repeats tell the noise. Rows of `errors`: squared errors, those in
    variances, the model's variances.
    """
    single, total, repeated = 0.0, 0.0, 0.0
    for cell in range(n[COUNT]):
        repeated += freedom_of(r, n, cell)
        if not agreed(r, n, cell):
            single += 1.0
            total += errors[0, cell] - errors[2, cell]
    counted, found = 0.0, 0.0
    for cell in range(n[COUNT]):
        beyond = errors[0, cell] - errors[2, cell]
        shown = errors[2, cell] + max(total - beyond, 0.0) / max(single - 1.0, 1.0)
        explained = repeated < single and errors[0, cell] <= OUTLIER_BEYOND * shown
        if (r[OUTLIER + cell] == 0.0 or explained) and not agreed(r, n, cell):
            counted += 1.0
            found += beyond
    return max(found, 0.0) / max(counted, 1.0) * sqrt(max(1.0 - repeated / CELLS, 0.0))
