"""What a record's cells say of ln t anywhere: one Gaussian process, in a few settings side by side. Kernels.

    ln t = level + sum_j SLOPE z_j - SLOPE ln p + correction + machine,   z about the cells' mean

The covariance of corrections is in `covariance`; the settings are weighed by their evidence. Sources: Rasmussen and Williams,
Gaussian Processes, algorithm 2.1, eq. 5.12 (leave one out).
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import floor, sqrt

import numpy as np

from advisor.models.cells import *
from advisor.models.covariance import *
from advisor.models.learner_layout import *
from advisor.models.noise_law import agreed, excess_of, learn_noise, run_noise

SHARE, DOUBT, LEFT_OUT, EXCESS, WIDTH = (AT[name] for name in ("share", "doubt", "left_out", "excess", "width"))


def lay_out(r, n, axes, frame, points):
    """Fill in the frame and the points of a solution from the cells: where they stand, what they say, how noisy they are."""
    frame[AXES], frame[CELLS_USED] = axes, n[COUNT]
    lay_out_axes(r, n, axes, frame, points)
    lay_out_times(r, n, axes, frame, points)


def lay_out_axes(r, n, axes, frame, points):
    """Fill in where the cells stand, and the least, middle and most of each axis."""
    count = n[COUNT]
    for axis in range(axes):
        least = r[least_at(axes) + axis] if axis < axes - 1 else np.inf
        zero = least - ZERO_BELOW if least < np.inf else 0.0
        total, low, high = 0.0, np.inf, -np.inf
        for cell in range(count):
            z = r[CENTRE + axis * CELLS + cell]
            if z <= ZERO:
                z = zero
            points[axis, cell] = z
            total += z
            low, high = min(low, z), max(high, z)
        frame[ZEROS + axis] = zero
        frame[MIDDLES + axis], frame[LOWS + axis], frame[HIGHS + axis] = total / count, low, high
        pitch = PITCHES[n[COARSENESS + axis]]
        frame[ENDS + axis] = (floor(high * pitch + 0.5) + 0.5) / pitch


def lay_out_times(r, n, axes, frame, points):
    """Fill in what the cells say, and how noisy they are."""
    count, further, named, repeated = n[COUNT], further_at(axes), False, 0.0
    for cell in range(count):
        repeated += freedom_of(r, n, cell)
    frame[REPEATED] = min(repeated / max(n[SEEN], 1), 1.0)
    level, low, high = 0.0, np.inf, -np.inf
    for cell in range(count):
        place_point(frame, points, cell, axes, cell)
        mean, runs = r[MEAN + cell], r[RUNS + cell]
        time = max(mean, sqrt(r[ABSOLUTE] / runs))
        y = ln(mean)
        points[further + NOISE, cell] = (
            variance_of_run(r, n, cell, time) / (time * time * runs) + NUGGET + r[OUTLIER + cell]
        )
        # Of a cell of one run, nobody knows how noisy it is before others show it by their repeats.
        alone = max(1.0 - freedom_of(r, n, cell), 0.0) if count >= NOISY_CELLS else 0.0
        points[further + UNREPEATED, cell] = alone * (FREEDOM / (FREEDOM + repeated))
        rest = y
        for axis in range(axes):
            slope = -SLOPE if axis == axes - 1 else SLOPE
            rest -= slope * (points[axis, cell] - frame[MIDDLES + axis])
        points[further + LOG_TIME, cell] = y
        points[further + RESIDUAL, cell] = rest
        machine = n[KEY + cell] >> (key_bits(axes) * axes)
        points[further + OWN_MACHINE, cell] = machine
        named = named or machine > 0
        level += rest / count
        low, high = min(low, y), max(high, y)
    frame[LEVEL], frame[LOWEST], frame[HIGHEST], frame[MACHINES_NAMED] = level, low, high, 1.0 if named else 0.0
    for cell in range(count):
        points[further + RESIDUAL, cell] -= level


def assemble(frame, points, rows, planes):
    """Fill the lower triangles of planes (5, cells, cells) with the cells' unit covariances; `rows` is scratch."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    machine = further_at(axes) + OWN_MACHINE
    for i in range(count):
        covary(points, i, 0, i + 1, axes, rows)
        if frame[MACHINES_NAMED] > 0.0 and points[machine, i] > 0.0:
            for j in range(i + 1):
                if points[machine, j] == points[machine, i]:
                    rows[0, j] += MACHINE_VARIANCE
        for plane in range(SCRATCH_ROWS):
            for j in range(i + 1):
                planes[plane, i, j] = rows[plane, j]


def mix(frame, points, planes, root):
    """Fill the lower triangles of `root` with each lane's covariance, noise on the diagonal."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    noise = further_at(axes) + NOISE
    for i in range(count):
        for j in range(i + 1):
            straight, squares, near = planes[0, i, j], planes[1, i, j], planes[2, i, j]
            middle, far = planes[3, i, j], planes[4, i, j]
            for lane in range(LANES):
                root[i, j, lane] = in_lane(lane, straight, squares, near, middle, far)
        for lane in range(LANES):
            root[i, i, lane] += points[noise, i] + NOISY[lane] * points[noise + UNREPEATED, i]


def fit(frame, points, root, alpha):
    """Factor the covariances and solve for the residuals; alpha then holds L'**-1 of them."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    residual = further_at(axes) + RESIDUAL
    factor(root, count)
    for i in range(count):
        for lane in range(LANES):
            alpha[i, lane] = points[residual, i]
    whitened(root, count, alpha)


def weigh(root, alpha, count, share):
    """Fill in the lanes' weights: their marginal likelihoods exp(-|L'**-1 r|**2 / 2) / |L|, normalised."""
    best = -np.inf
    for lane in range(LANES):
        fits, product, logs = 0.0, 1.0, 0.0
        for i in range(count):
            fits += alpha[i, lane] * alpha[i, lane]
            product *= root[i, i, lane]
            if i % 8 == 7:
                logs += ln(product)
                product = 1.0
        share[lane] = logs + ln(product) - 0.5 * fits
        best = max(best, share[lane])
    total = 0.0
    for lane in range(LANES):
        share[lane] = exp(max(share[lane] - best, -40.0))
        total += share[lane]
    for lane in range(LANES):
        share[lane] /= total


def judge_cells(r, n, frame, points, root, inverse, alpha, lane, errors):
    """Mark cells that the others contradict, the worst first; free those that they no longer do. True where any changed.

    `alpha` holds K**-1 of the residuals; a cell's leave-one-out error is alpha_c / (K**-1)_cc, of variance 1 / (K**-1)_cc.
    """
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    invert(root, inverse, count, lane, errors[2])
    noise = further_at(axes) + NOISE
    worst, total, judged = 0.0, DOUBT_CELLS, DOUBT_CELLS
    single, left_out = 0.0, 0.0
    for cell in range(count):
        precision = errors[2, cell]
        error = alpha[cell, lane] / precision
        errors[0, cell] = error * error
        errors[1, cell] = error * error / max(1.0 / precision - r[OUTLIER + cell], 1e-12)
        if r[OUTLIER + cell] == 0.0:
            alone = not agreed(r, n, cell)
            if alone:
                worst = max(worst, errors[1, cell])
            # Of a leave-one-out variance this share is the model's own, the rest noise: errors beyond the noise judge it.
            share = max(1.0 - (points[noise, cell] + NOISY[lane] * points[noise + UNREPEATED, cell]) * precision, 0.0)
            total += share * (errors[1, cell] - 1.0 + share)
            if alone:
                single += 1.0
                left_out += errors[0, cell]
            judged += share * share
        errors[2, cell] = 1.0 / precision - r[OUTLIER + cell] - NOISY[lane] * points[noise + UNREPEATED, cell]
    r[LEFT_OUT] = left_out / single if single > 0.0 else -1.0
    r[EXCESS] = excess_of(r, n, errors)
    r[DOUBT] = min(max(total / judged, DOUBT_LEAST), 1.0)
    changed = False
    for cell in range(count):
        before = r[OUTLIER + cell]
        beyond = errors[1, cell] > OUTLIER_BEYOND and (before > 0.0 or errors[1, cell] >= 0.5 * worst)
        after = errors[0, cell] if beyond and not agreed(r, n, cell) else 0.0
        changed = changed or (after > 0.0) != (before > 0.0)
        points[noise, cell] += after - before
        r[OUTLIER + cell] = after
    return changed


def off_mean(frame, points, alpha, share, cell):
    """Return by how much ln t of a cell lies above what the model says there: noise * alpha, since K alpha = r."""
    further = further_at(int(frame[AXES]))
    found = 0.0
    for lane in range(LANES):
        noise = points[further + NOISE, cell] + NOISY[lane] * points[further + UNREPEATED, cell]
        found += share[lane] * alpha[cell, lane] * noise
    return found


def raise_level(r, n, frame, points, alpha, share):
    """Raise the level until the cells' runs take as long in total as the model says: a mean of logs is below the log of a mean.

    It counts by the square of the share of the noise that is beyond the belief: else residuals show the model's shape.
    Source: Duan, Smearing estimate (1983), its residuals weighed by the time that they are of.
    """
    taken, said = 0.0, 0.0
    for cell in range(int(frame[CELLS_USED])):
        if r[OUTLIER + cell] == 0.0:
            time = r[RUNS + cell] * r[MEAN + cell]
            off = off_mean(frame, points, alpha, share, cell)
            taken += time
            said += time * exp(min(max(-off, -CARRY_MAX), CARRY_MAX))
    known = max(1.0 - RUN_SD * RUN_SD / max(run_noise(r, n), NUGGET), 0.0)
    frame[RAISED] = known * known * ln(taken / said) if said > 0.0 else 0.0
    frame[LEVEL] += frame[RAISED]


def summarise(frame, points, alpha, share):
    """Fill in what the mean alone needs: one coefficient a feature, a pair of bent axes, a cell and a machine."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    first, bent, further = features_at(axes), bent_at(axes), further_at(axes)
    for word in range(STRAIGHT, ENDS):
        frame[word] = 0.0
    for cell in range(count):
        straight, squares, near, middle, far = 0.0, 0.0, 0.0, 0.0, 0.0
        for lane in range(LANES):
            weight = share[lane] * alpha[cell, lane]
            straight += weight
            squares += weight * BENDS[lane]
            near += weight * NEAR[lane]
            middle += weight * MIDDLE[lane]
            far += weight * FAR[lane]
        points[further + NEAR_PULL, cell] = near
        points[further + MIDDLE_PULL, cell] = middle
        points[further + FAR_PULL, cell] = far
        frame[STRAIGHT] += LEVEL_VARIANCE * straight
        for feature in range(axes + 2):
            frame[STRAIGHT + 1 + feature] += straight * points[first + feature, cell]
        for one in range(axes):
            for two in range(axes):
                frame[BENT_PAIRS + one * AXES_MAX + two] += (
                    squares * points[bent + one, cell] * points[bent + two, cell]
                )
        machine = int(points[further + OWN_MACHINE, cell])
        if machine > 0:
            frame[EFFECTS + machine] += MACHINE_VARIANCE * straight


def count_machines(r, n, frame):
    """Fill in the shares of runs that each machine has; those of none named stand at 0."""
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    total = 0.0
    for cell in range(count):
        total += r[RUNS + cell]
    for cell in range(count):
        frame[EFFECTS + MACHINES_MAX + (n[KEY + cell] >> (key_bits(axes) * axes))] += r[RUNS + cell] / total


def refresh(r, n, axes, solution, scratch):
    """Solve a record with the settings it has: what a question needs after new rows. Cost O(cells**3)."""
    frame, points, _, _ = solution
    lay_out(r, n, axes, frame, points)
    solve_laid_out(r, n, solution, scratch)


def solve_laid_out(r, n, solution, scratch):
    """Solve what `lay_out` has filled in, with the settings that a record has."""
    frame, points, root, alpha = solution
    rows, planes = scratch[0], scratch[1]
    assemble(frame, points, rows, planes)
    mix(frame, points, planes, root)
    fit(frame, points, root, alpha)
    solved(root, n[COUNT], alpha)
    raise_level(r, n, frame, points, alpha, r[SHARE : SHARE + LANES])
    summarise(frame, points, alpha, r[SHARE : SHARE + LANES])
    if frame[MACHINES_NAMED] > 0.0:
        count_machines(r, n, frame)
    frame[ROWS] = n[SEEN]


def settle(r, n, axes, solution, scratch):
    """Choose noise, outliers among cells and the settings' weights anew, and tell the cells what the model says there."""
    frame, points, root, alpha = solution
    rows, planes, _, errors = scratch
    count = n[COUNT]
    before = run_noise(r, n) + r[EXCESS]
    learn_noise(r, n, rows)
    r[DOUBT], r[EXCESS] = 1.0, 0.0
    for cell in range(count):
        r[OUTLIER + cell] = 0.0
    lay_out(r, n, axes, frame, points)
    assemble(frame, points, rows, planes)
    share = r[SHARE : SHARE + LANES]
    for round_ in range(OUTLIER_ROUNDS + 1):
        mix(frame, points, planes, root)
        fit(frame, points, root, alpha)
        weigh(root, alpha, count, share)
        solved(root, count, alpha)
        if count < OUTLIER_CELLS or round_ == OUTLIER_ROUNDS:
            break
        best = 0
        for lane in range(1, LANES):
            if share[lane] > share[best]:
                best = lane
        if not judge_cells(r, n, frame, points, root, planes[INVERSE], alpha, best, errors):
            break
    rebase_widths(r, n, before)
    raise_level(r, n, frame, points, alpha, share)
    summarise(frame, points, alpha, share)
    tell_cells(r, n, frame, points, alpha, share, rows, planes[0], planes[1])


def rebase_widths(r, n, before):
    """Take out of the widths of intervals half of what is in a run's noise from now on: they grew while it was `before`."""
    now = run_noise(r, n) + r[EXCESS]
    if 0.0 < before < now:
        for level in range(len(LEVELS)):
            width = r[WIDTH + level]
            r[WIDTH + level] = max(min(width, WIDTHS[level]), width * sqrt(sqrt(before / now)))


def tell_cells(r, n, frame, points, alpha, share, rows, slopes, bends):
    """Write the model's ln t and its slopes at each cell's centre into the record; the last three are scratch.

    Slopes are the derivative of the mean.
    """
    axes, count = int(frame[AXES]), int(frame[CELLS_USED])
    further, bent = further_at(axes), bent_at(axes)
    sum_pulls(points, count, axes, rows, slopes, bends)
    for cell in range(count):
        # At a cell left out as an outlier, far from all others, it may be any number.
        model = points[further + LOG_TIME, cell] - off_mean(frame, points, alpha, share, cell) + frame[RAISED]
        r[MODEL + cell] = min(max(model, LN_ELAPSED_MIN), LN_ELAPSED_MAX)
        for axis in range(axes):
            slope = (SLOPE if axis < axes - 1 else -SLOPE) + SLOPE_SD * frame[STRAIGHT + 1 + axis]
            for other in range(axes):
                slope += 2.0 * frame[BENT_PAIRS + axis * AXES_MAX + other] * points[bent + other, cell]
            curvature = 2.0 * frame[BENT_PAIRS + axis * AXES_MAX + axis]
            if axis == axes - 1:
                inverse = exp(-points[axis, cell])
                few = (1.0 - SERIAL_FEW) * inverse / (SERIAL_FEW + (1.0 - SERIAL_FEW) * inverse)
                many = (1.0 - SERIAL_MANY) * inverse / (SERIAL_MANY + (1.0 - SERIAL_MANY) * inverse)
                one, two = SERIAL_SD * frame[STRAIGHT + 1 + axes], SERIAL_SD * frame[STRAIGHT + 2 + axes]
                slope -= one * few + two * many
                curvature += one * few * (1.0 - few) + two * many * (1.0 - many)
            slope, curvature = slope + slopes[axis, cell], curvature + bends[axis, cell]
            n[CENTRE + (axes + axis) * CELLS + cell] = packed(slope, curvature)
    for cell in range(count, CELLS):
        r[MODEL + cell] = UNKNOWN


def sum_pulls(points, count, axes, rows, slopes, bends):
    """Fill slopes (axes, cells) with those of the near, middle and far parts at each cell, bends with those of middle and far.

    `rows` is scratch. The near part bends about a cell by what that cell itself says, and runs carried along its own bump
    would raise it further: at 30 % noise by 24 %.

    A cell pulls at another by a = w' / d and b: its slope along an axis is a step, its curvature a - b step**2. Here w' / d =
    -30 / R**2 (1 - q)**4, and along an axis w'' = -30 / R**2 (1 - q)**3 (1 - q - 4 step**2 / (R d)); v' / d = -24 / R**2
    (1 - q)**6 (1 + 6 q), and along an axis v'' = -24 / R**2 (1 - q)**5 ((1 - q) (1 + 6 q) - 42 step**2 / R**2). Sums run over
    the cells one beside the other, as the processor's vectors want it.
    """
    further = further_at(axes)
    first, second, apart, smoother = rows[0], rows[1], rows[2], rows[3]
    for axis in range(axes):
        for cell in range(count):
            slopes[axis, cell], bends[axis, cell] = 0.0, 0.0
    for other in range(count):
        distances(points, other, 0, count, axes, apart)
        near = points[further + NEAR_PULL, other] * (-30.0 / NEAR_RADIUS / NEAR_RADIUS)
        middle = points[further + MIDDLE_PULL, other] * (-30.0 / MIDDLE_RADIUS / MIDDLE_RADIUS)
        far = points[further + FAR_PULL, other] * (-24.0 / FAR_RADIUS / FAR_RADIUS)
        for j in range(count):
            distance = apart[j]
            p = max(1.0 - distance * (1.0 / NEAR_RADIUS), 0.0)
            q = max(1.0 - distance * (1.0 / MIDDLE_RADIUS), 0.0)
            u = max(1.0 - distance * (1.0 / FAR_RADIUS), 0.0)
            one, two, three = near * (p * p * p), middle * (q * q * q), far * (u * u * u * u * u)
            smoother[j] = two * q + three * (u * (7.0 - 6.0 * u))
            first[j] = one * p + smoother[j]
            # Where two points are one their step is 0, and the distance may be anything.
            bent = 4.0 * two * (1.0 / MIDDLE_RADIUS) / max(distance, 1e-150)
            second[j] = bent + three * (42.0 / FAR_RADIUS / FAR_RADIUS)
        for axis in range(axes):
            z = points[axis, other]
            for j in range(count):
                step = points[axis, j] - z
                slopes[axis, j] += first[j] * step
                bends[axis, j] += smoother[j] - second[j] * (step * step)
