"""What a solution of `process` says of ln t at a point: mean and variance, within and beyond what was seen. Kernels.

Source: Rasmussen and Williams, Gaussian Processes, eq. 2.25 and 2.26.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from advisor.models.cells import *
from advisor.models.covariance import *
from advisor.models.learner_layout import *


def whiten(frame, points, root, rows, out):
    """Fill `out` (cells, LANES) with L'**-1 of the covariances of column CELLS with the cells, machines left aside."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    covary(points, CELLS, 0, count, axes, rows)
    for j in range(count):
        for lane in range(LANES):
            out[j, lane] = in_lane(lane, rows[0, j], rows[1, j], rows[2, j], rows[3, j], rows[4, j])
    whitened(root, count, out)


def mean_at(frame, points, rows, machine):
    """Return the mixture's mean ln t at the point in column CELLS of `points`. `machine`: a place, -1 for any of those seen."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    at = CELLS
    further, first, bent = further_at(axes), features_at(axes), bent_at(axes)
    found = frame[LEVEL] + frame[STRAIGHT]
    for axis in range(axes):
        slope = -SLOPE if axis == axes - 1 else SLOPE
        found += slope * (points[axis, at] - frame[MIDDLES + axis])
        for other in range(axes):
            found += frame[BENT_PAIRS + axis * AXES_MAX + other] * points[bent + axis, at] * points[bent + other, at]
    for feature in range(axes + 2):
        found += frame[STRAIGHT + 1 + feature] * points[first + feature, at]
    near = rows[2]
    distances(points, at, 0, count, axes, near)
    for j in range(count):
        distance = near[j]
        near[j] = (
            points[further + NEAR_PULL, j] * rough(max(1.0 - distance * (1.0 / NEAR_RADIUS), 0.0))
            + points[further + MIDDLE_PULL, j] * rough(max(1.0 - distance * (1.0 / MIDDLE_RADIUS), 0.0))
            + points[further + FAR_PULL, j] * smooth(max(1.0 - distance * (1.0 / FAR_RADIUS), 0.0))
        )
    for j in range(count):
        found += near[j]
    return found + effect_of(frame, machine)


def effect_of(frame, machine):
    """Return a machine's factor in ln t; of any machine seen, their mean by runs."""
    if frame[MACHINES_NAMED] == 0.0 or machine == 0:
        return 0.0
    if machine > 0:
        return frame[EFFECTS + machine]
    found = 0.0
    for place in range(1, MACHINES_MAX):
        found += frame[EFFECTS + MACHINES_MAX + place] * frame[EFFECTS + place]
    return found


def variance_at(frame, points, root, alpha, share, rows, lanes, machine):
    """Return the variance of ln t's mean at the point in column CELLS: the lanes' own and what lies between them."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    at = CELLS
    bent, machines = bent_at(axes), further_at(axes) + OWN_MACHINE
    covary(points, at, 0, count, axes, rows)
    added = 0.0
    if frame[MACHINES_NAMED] > 0.0:
        added = MACHINE_VARIANCE
        if machine > 0:
            for j in range(count):
                if points[machines, j] == machine:
                    rows[0, j] += MACHINE_VARIANCE
        elif machine < 0:
            added = spread_of_machines(frame)
            for j in range(count):
                if points[machines, j] > 0.0:
                    rows[0, j] += MACHINE_VARIANCE * frame[EFFECTS + MACHINES_MAX + int(points[machines, j])]
    squares, straight = 0.0, LEVEL_VARIANCE
    for axis in range(axes):
        squares += points[bent + axis, at] * points[bent + axis, at]
    for feature in range(features_at(axes), bent):
        straight += points[feature, at] * points[feature, at]
    middle, spread, mean = 0.0, 0.0, 0.0
    for lane in range(LANES):
        pulled = 0.0
        for j in range(count):
            c = in_lane(lane, rows[0, j], rows[1, j], rows[2, j], rows[3, j], rows[4, j])
            lanes[j, lane] = c
            pulled += c * alpha[j, lane]
        mean += share[lane] * pulled
        middle += share[lane] * pulled * pulled
    whitened(root, count, lanes)
    for lane in range(LANES):
        own = in_lane(lane, straight + added, squares * squares, 1.0, 1.0, 1.0)
        for j in range(count):
            own -= lanes[j, lane] * lanes[j, lane]
        spread += share[lane] * max(own, 0.0)
    return spread + max(middle - mean * mean, 0.0)


def spread_of_machines(frame):
    """Return the prior variance of the mean factor of the machines seen, and what their factors lie apart."""
    shares, mean, square = 0.0, 0.0, 0.0
    for place in range(1, MACHINES_MAX):
        share, effect = frame[EFFECTS + MACHINES_MAX + place], frame[EFFECTS + place]
        shares += share * share
        mean += share * effect
        square += share * effect * effect
    return MACHINE_VARIANCE * shares + max(square - mean * mean, 0.0)


def grown(frame, points, rows, machine, z):
    """Return the mean ln t at z, beyond where the cells end: what it is there, growing as it did over what was seen below.

    A curve that bends upwards where it was seen is not taken to bend on. The point in column CELLS stands at the cores.
    """
    axes = int(frame[AXES])
    for axis in range(axes - 1):
        points[axis, CELLS] = min(max(z[axis], frame[LOWS + axis]), frame[ENDS + axis])
    place_point(frame, points, CELLS, axes, 0)
    edge = mean_at(frame, points, rows, machine)
    found = edge
    for axis in range(axes - 1):
        above = z[axis] - frame[ENDS + axis]
        if above > 0.0:
            back = min(frame[ENDS + axis] - frame[LOWS + axis], RISE_SEEN)  # half a cell at least
            points[axis, CELLS] -= back
            place_point(frame, points, CELLS, axes, 0)
            slope = (edge - mean_at(frame, points, rows, machine)) / back
            points[axis, CELLS] += back
            found += min(max(slope, RISE_LEAST), RISE_IN_PREDICTOR) * above
    return found


def predict(frame, points, root, alpha, share, scratch, z, machine, want_variance, out):
    """Fill `out` with the mean of ln t at z and its variance (0 where it is not wanted).

    Inside what was seen the mean is at most `BEYOND` above the longest cell's; outside at most that at the nearest point seen,
    changed by `RISE_IN_PREDICTOR` and `RISE_IN_CORES`, and what has `grown` from there. It is never raised: so it has no step
    where the seen ends.
    """
    axes = int(frame[AXES])
    rows, lanes = scratch[0], scratch[2]
    stand_at(frame, points, z, axes, CELLS)
    mean = mean_at(frame, points, rows, machine)
    out[1] = variance_at(frame, points, root, alpha, share, rows, lanes, machine) if want_variance else 0.0
    high = frame[HIGHEST] + BEYOND
    bound = mean
    last = axes - 1
    more = points[last, CELLS] - min(max(points[last, CELLS], frame[LOWS + last]), frame[HIGHS + last])
    if more != 0.0:  # first at the nearest cores seen
        points[last, CELLS] -= more
        place_point(frame, points, CELLS, axes, 0)
        bound = mean_at(frame, points, rows, machine)
    allowed, outside, beyond = 0.0, False, False
    for axis in range(last):
        step = points[axis, CELLS] - min(max(points[axis, CELLS], frame[LOWS + axis]), frame[HIGHS + axis])
        points[axis, CELLS] -= step
        outside = outside or step != 0.0
        beyond = beyond or z[axis] > frame[ENDS + axis]
        allowed += max(RISE_IN_PREDICTOR * step, 0.0)
    if outside:  # then at the nearest predictors
        place_point(frame, points, CELLS, axes, 0)
        edge = mean_at(frame, points, rows, machine)
        bound = min(bound, min(edge, high) + allowed)
        if beyond:
            bound = min(bound, grown(frame, points, rows, machine, z))
    else:
        bound = min(bound, high)
    out[0] = bound if more == 0.0 else min(mean, bound + max(RISE_IN_CORES * more, -more))
