"""Support points and the base tier's curve, compiled: see `compiled_process`."""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false, reportMissingImports=false
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from numba import njit  # type: ignore[import-not-found]

compiled = njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract", "reassoc", "nsz", "arcp"})


@compiled
def least_squares(gram, right, place, used, ridge, factor, half, found):
    """Solve for the columns in the first `used` of `place`, into `found`; by L D L', `factor` and `half` being room for it."""
    for i in range(used):
        for j in range(i + 1):
            total = gram[place[i], place[j]]
            for c in range(j):
                total -= factor[i, c] * factor[j, c] * factor[c, c]
            factor[i, j] = total + ridge if i == j else total / factor[j, j]
    for i in range(used):
        total = right[place[i]]
        for c in range(i):
            total -= factor[i, c] * half[c]
        half[i] = total
    for i in range(used - 1, -1, -1):
        total = half[i] / factor[i, i]
        for c in range(i + 1, used):
            total -= factor[c, i] * found[place[c]]
        found[place[i]] = total


@compiled
def scatter_inside(z, means, runs, y, zz, zy, spread, least):
    """Return `points._inside`: the share of the spread that is no lean on z, and the sd (axes,) of z inside cells."""
    axes, used = z.shape
    inside, inner, lean = np.zeros(axes), np.empty((axes, axes)), np.empty(axes)
    size, place = np.empty(axes), np.empty(axes, np.int64)
    all_runs = 0.0
    for i in range(used):
        all_runs += runs[i]
    if spread <= 0.0:
        return 1.0, inside
    pair, count = 0, 0
    for one in range(axes):
        for other in range(one, axes):
            total = 0.0
            for i in range(used):
                total += means[one, i] * z[other, i]
            inner[one, other] = inner[other, one] = zz[pair] - total
            if one == other:
                size[one] = zz[pair]
            pair += 1
        total = 0.0
        for i in range(used):
            total += means[one, i] * y[i]
        lean[one] = zy[one] - total
    free_rows = max(all_runs - used, 1.0)
    for axis in range(axes):
        if inner[axis, axis] > least * (1.0 + size[axis]):
            inside[axis] = np.sqrt(inner[axis, axis] / free_rows)
            place[count] = axis
            count += 1
    if not count:
        return 1.0, inside
    for i in range(count):
        inner[place[i], place[i]] += least * (1.0 + size[place[i]])
    found, factor, half = np.zeros(axes), np.empty((axes, axes)), np.empty(axes)
    least_squares(inner, lean, place, count, 0.0, factor, half, found)
    explained = 0.0
    for i in range(count):
        explained += lean[place[i]] * found[place[i]]
    share = max(spread - explained, 0.0) / spread * free_rows / max(free_rows - count, 1.0)
    return min(max(share, 0.0), 1.0), inside


@compiled
def trim(mean, spread, torn, runs, y, yy, low, high, run_variance, wild, trim_runs):
    """Do what `points._trimmed` does, in place."""
    used = len(runs)
    inner, inner_spread = np.empty(used), np.zeros(used)
    total, rows, pairs, greatest = run_variance, 0.0, 0, 0.0
    for i in range(used):
        inner[i] = mean[i]
        if runs[i] >= trim_runs:
            rest = runs[i] - 2.0
            inner[i] = (y[i] - low[i] - high[i]) / rest
            inner_spread[i] = max(yy[i] - low[i] * low[i] - high[i] * high[i] - rest * inner[i] * inner[i], 0.0)
            total += inner_spread[i]
            rows += rest - 1.0
        elif runs[i] >= 2.0:
            total += spread[i]
            greatest = max(greatest, spread[i])
            pairs += 1
    pooled = (total - greatest) / (1.0 + rows + max(pairs - 1, 0))
    for i in range(used):
        if runs[i] >= trim_runs:
            reach = 2.0 * wild * np.sqrt(max(inner_spread[i] / (runs[i] - 2.0), pooled))
            if high[i] - inner[i] > reach or inner[i] - low[i] > reach:
                mean[i], spread[i] = inner[i], inner_spread[i]
        elif runs[i] >= 2.0 and high[i] - low[i] > 2.0 * wild * np.sqrt(pooled):
            torn[i], spread[i] = spread[i], 0.0


@compiled
def points(
    flat,
    runs,
    y,
    yy,
    low,
    high,
    zz,
    zy,
    timer_noise_s,
    lowest,
    zero_below,
    scatter_least,
    run_variance,
    wild,
    trim_runs,
    ln2,
):
    """Return z, y, runs, spread, zero, torn, inside and timer of `points.points_of`.

    Parameters
    ----------
    flat : float64 array (axes * cells,)
        The cells' sums of z, axis by axis, of which each axis' first are used; the other columns are those of a record.
    """
    used, cells = len(runs), len(flat) // len(zy)
    axes = len(zy)
    sums = np.empty((axes, used))
    for axis in range(axes):
        for i in range(used):
            sums[axis, i] = flat[axis * cells + i]
    means, z, zero = np.empty((axes, used)), np.empty((used, axes)), np.empty(axes)
    mean, spread, torn, timer = np.empty(used), np.empty(used), np.zeros(used), np.empty(used)
    most, total = 0.0, 0.0
    for axis in range(axes):
        least = np.inf
        for i in range(used):
            means[axis, i] = sums[axis, i] / runs[i]
            if means[axis, i] > lowest:
                least = min(least, means[axis, i])
        zero[axis] = least - zero_below if least < np.inf else 0.0
        for i in range(used):
            z[i, axis] = max(means[axis, i], zero[axis]) * ln2
    for i in range(used):
        mean[i] = y[i] / runs[i]
        spread[i] = max(yy[i] - y[i] * mean[i], 0.0)
        total += spread[i]
        most = max(most, runs[i])
    share, inside = scatter_inside(sums, means, runs, y, zz, zy, total, scatter_least)
    for i in range(used):
        spread[i] *= share
    if most >= 2.0:
        trim(mean, spread, torn, runs, y, yy, low, high, run_variance, wild, trim_runs)
    for i in range(used):
        timer[i] = (timer_noise_s * np.exp2(-mean[i])) ** 2
        mean[i] *= ln2
        spread[i] *= ln2 * ln2
        torn[i] *= ln2 * ln2
    for axis in range(axes):
        zero[axis] *= ln2
        inside[axis] *= ln2
    return z, mean, runs.copy(), spread, zero, torn, inside, timer


@compiled
def curve(z, serial, parallel, origin, scale, x_low, x_high, p_low, p_high, floor, lift, slope_most):
    """Return the log of `prediction.values` at points z (n, 2)."""
    out = np.empty(len(z))
    for i in range(len(z)):
        x, p = np.exp(z[i, 0]), np.exp(z[i, 1])
        edge = min(max(x, x_low), x_high)
        u = (edge - origin) / scale
        one = serial[0] + u * (serial[1] + u * (serial[2] + u * serial[3]))
        two = parallel[0] + u * (parallel[1] + u * (parallel[2] + u * parallel[3]))
        q, scaling = 1.0 / p, 1.0
        if two < 0.0:
            q = 1.0 / max(p, p_low)
        elif one < 0.0:
            q = 1.0 / min(p, p_high)
        if one < 0.0:
            scaling = min(p_high / p, 1.0)
        value = (one + two * q) * scaling
        if edge != x:
            rise = serial[1] + u * (2.0 * serial[2] + u * 3.0 * serial[3])
            rise += (parallel[1] + u * (2.0 * parallel[2] + u * 3.0 * parallel[3])) * q
            slope = rise * scaling * edge / scale / value if value > 0.0 else 0.0
            value *= ((x + lift) / (edge + lift)) ** min(max(slope, 0.0), slope_most)
        out[i] = np.log(max(value, floor))
    return out


POINT_KERNELS = (least_squares, scatter_inside, trim, points, curve)
