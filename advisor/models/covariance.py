"""Where a solution's points stand, how they vary together, and triangular factors of that. Kernels.

A solution is made of four arrays: `frame` (scalars), `points` (rows over cells), `root` (each lane's factor L with L'L = K, its
diagonal inverted) and `alpha` (K**-1 of the residuals). The covariance of two points is in one setting, or lane,

    LEVEL + slopes + Amdahl's saturation + BENDS (u u')**2 + NEAR w(d / 1.3) + MIDDLE w(d / 4) + FAR v(d / 10)

u is z kept within the seen range and once its span on either side; d is the distance of two points; w(q) =
(1 - q)**5 (1 + 5 q) and v(q) = (1 - q)**7 (1 + 7 q + 16 q**2) are Wendland's functions, with two and four derivatives,
positive definite up to five axes, of + - * and a root alone. `LANES` settings of (BENDS, NEAR, MIDDLE, FAR) are computed side
by side, which costs what one would. Source: Wendland (1995).
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import sqrt

from advisor.models.cells import *
from advisor.models.learner_layout import *

SERIAL_FEW, SERIAL_MANY = SERIAL_SHARES

# Places in a solution's frame.
AXES, CELLS_USED, LEVEL, LOWEST, HIGHEST, MACHINES_NAMED, ROWS, RAISED = 0, 1, 2, 3, 4, 5, 6, 7
MIDDLES, LOWS, HIGHS, ZEROS = 8, 8 + AXES_MAX, 8 + 2 * AXES_MAX, 8 + 3 * AXES_MAX
STRAIGHT = 8 + 4 * AXES_MAX  # of the mean alone: coefficients of the features, then of the products of bent axes
BENT_PAIRS = STRAIGHT + 1 + AXES_MAX + 2
EFFECTS = BENT_PAIRS + AXES_MAX * AXES_MAX  # of machines: posterior mean factors, then shares of runs
ENDS = EFFECTS + 2 * MACHINES_MAX  # where the outermost cells end: runs of them may have come up to there
REPEATED = ENDS + AXES_MAX  # share of the rows that repeat a cell
FRAME_WORDS = REPEATED + 1
# Rows of a solution's points: centres, features (axes + 2), bent axes, then these.
NOISE, RESIDUAL, LOG_TIME, OWN_MACHINE, UNREPEATED, NEAR_PULL, MIDDLE_PULL, FAR_PULL = 0, 1, 2, 3, 4, 5, 6, 7
FURTHER_ROWS = 8
SCRATCH_ROWS = 5  # covariances of a point with the cells: straight, squares, near, middle, far
INVERSE = 5  # plane of a lane's L**-1, behind those of the covariances


def features_at(axes):
    """Return the first row of features."""
    return axes


def bent_at(axes):
    """Return the first row of bent axes."""
    return 2 * axes + 2


def further_at(axes):
    """Return the first of the further rows."""
    return 3 * axes + 2


def point_rows(axes):
    """Return how many rows a solution's points have."""
    return 3 * axes + 2 + FURTHER_ROWS


def place_point(frame, points, j, axes, alike):
    """Fill in the features and bent axes of column j from its centre; the first `alike` columns have theirs."""
    first, bent = features_at(axes), bent_at(axes)
    for axis in range(axes):
        z = points[axis, j]
        span = frame[HIGHS + axis] - frame[LOWS + axis]
        points[first + axis, j] = SLOPE_SD * (z - frame[MIDDLES + axis])
        points[bent + axis, j] = (
            min(max(z, frame[LOWS + axis] - span), frame[HIGHS + axis] + span) - frame[MIDDLES + axis]
        )
    few, many, cores = first + axes, first + axes + 1, axes - 1
    for before in range(alike):
        if points[cores, before] == points[cores, j]:  # most cells are of few counts: three logarithms less
            points[few, j], points[many, j] = points[few, before], points[many, before]
            return
    share = exp(-points[cores, j])
    points[few, j] = SERIAL_SD * ln(SERIAL_FEW + (1.0 - SERIAL_FEW) * share)
    points[many, j] = SERIAL_SD * ln(SERIAL_MANY + (1.0 - SERIAL_MANY) * share)


def stand_at(frame, points, z, axes, column):
    """Put a point into a column of `points`."""
    for axis in range(axes):
        points[axis, column] = z[axis] if z[axis] > ZERO else frame[ZEROS + axis]
    place_point(frame, points, column, axes, 0)


def rough(q):
    """Return w of 1 - q."""
    square = q * q
    return square * square * q * (6.0 - 5.0 * q)


def smooth(q):
    """Return v of 1 - q."""
    square = q * q
    return square * square * square * q * ((16.0 * q - 39.0) * q + 24.0)


def distances(points, at, first, stop, axes, out):
    """Fill out[j - first], first <= j < stop, with the distances of column `at` from columns j."""
    for j in range(stop - first):
        out[j] = 0.0
    for axis in range(axes):
        z = points[axis, at]
        for j in range(stop - first):
            step = z - points[axis, first + j]
            out[j] += step * step
    for j in range(stop - first):
        out[j] = sqrt(out[j])


def covary(points, at, first, stop, axes, rows):
    """Fill rows[0..4, j - first], first <= j < stop, with the covariances of columns `at` and j, of unit variances."""
    features, bent, count = features_at(axes), bent_at(axes), stop - first
    straight, squares, near, middle, far = rows[0], rows[1], rows[2], rows[3], rows[4]
    distances(points, at, first, stop, axes, near)
    for j in range(count):
        straight[j] = LEVEL_VARIANCE
        squares[j] = 0.0
    for feature in range(features, bent):
        own = points[feature, at]
        for j in range(count):
            straight[j] += own * points[feature, first + j]
    for axis in range(axes):
        own = points[bent + axis, at]
        for j in range(count):
            squares[j] += own * points[bent + axis, first + j]
    for j in range(count):
        squares[j] *= squares[j]
        distance = near[j]
        near[j] = rough(max(1.0 - distance * (1.0 / NEAR_RADIUS), 0.0))
        middle[j] = rough(max(1.0 - distance * (1.0 / MIDDLE_RADIUS), 0.0))
        far[j] = smooth(max(1.0 - distance * (1.0 / FAR_RADIUS), 0.0))


def in_lane(lane, straight, squares, near, middle, far):
    """Return a covariance in one setting, of its unit parts."""
    return straight + BENDS[lane] * squares + NEAR[lane] * near + MIDDLE[lane] * middle + FAR[lane] * far


def factor(root, count):
    """Replace the lower triangles of `root` (cells, cells, LANES), K, by factors L with L'L = K, 1 / l on the diagonal.

    From the last row up, what a row explains is taken from all before it: no sum waits for the term before, and four lanes
    written out side by side become one vector of the processor.
    """
    for back in range(count):
        k = count - 1 - back
        for lane in range(LANES):
            root[k, k, lane] = 1.0 / sqrt(max(root[k, k, lane], NUGGET))
        for j in range(k):
            for lane in range(LANES):
                root[k, j, lane] *= root[k, k, lane]
        for i in range(k):
            a, b, c, d = root[k, i, 0], root[k, i, 1], root[k, i, 2], root[k, i, 3]
            for j in range(i + 1):
                e = root[i, j, 0] - a * root[k, j, 0]
                f = root[i, j, 1] - b * root[k, j, 1]
                g = root[i, j, 2] - c * root[k, j, 2]
                h = root[i, j, 3] - d * root[k, j, 3]
                root[i, j, 0], root[i, j, 1], root[i, j, 2], root[i, j, 3] = e, f, g, h


def whitened(root, count, values):
    """Replace values (cells, LANES) by L'**-1 of them, for all lanes."""
    for back in range(count):
        k = count - 1 - back
        for lane in range(LANES):
            values[k, lane] *= root[k, k, lane]
        a, b, c, d = values[k, 0], values[k, 1], values[k, 2], values[k, 3]
        for j in range(k):
            e = values[j, 0] - a * root[k, j, 0]
            f = values[j, 1] - b * root[k, j, 1]
            g = values[j, 2] - c * root[k, j, 2]
            h = values[j, 3] - d * root[k, j, 3]
            values[j, 0], values[j, 1], values[j, 2], values[j, 3] = e, f, g, h


def solved(root, count, values):
    """Replace values (cells, LANES) by L**-1 of them, for all lanes: after `whitened` K**-1 of what they were."""
    for i in range(count):
        a, b, c, d = values[i, 0], values[i, 1], values[i, 2], values[i, 3]
        for j in range(i):
            a -= root[i, j, 0] * values[j, 0]
            b -= root[i, j, 1] * values[j, 1]
            c -= root[i, j, 2] * values[j, 2]
            d -= root[i, j, 3] * values[j, 3]
        values[i, 0], values[i, 1], values[i, 2], values[i, 3] = a, b, c, d
        for lane in range(LANES):
            values[i, lane] *= root[i, i, lane]


def invert(root, inverse, count, lane, precisions):
    """Fill `precisions` (cells,) with the diagonal of a lane's K**-1, and `inverse` (cells, cells) with its L**-1."""
    for i in range(count):
        for j in range(i):
            inverse[i, j] = 0.0
        for k in range(i):
            by = root[i, k, lane]
            for j in range(k + 1):
                inverse[i, j] -= by * inverse[k, j]
        inverse[i, i] = 1.0
        precision = 0.0
        for j in range(i + 1):
            inverse[i, j] *= root[i, i, lane]
            precision += inverse[i, j] * inverse[i, j]
        precisions[i] = precision
