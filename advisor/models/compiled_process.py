"""The arithmetic of `process` and `shapes`, compiled (the extra ``fast``): for answers, never for what is stored.

The matrices are too small for numpy: a solve is hundreds of calls that take a microsecond each. Here are the loops that those
calls stand for; the Cholesky roots stay with LAPACK. Sums are taken in another order, so an answer differs in its last
digits; scores, which are state, are therefore always reckoned by numpy. Figures of belief come as arguments: numba's cache
would not notice that one changed in another file.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false, reportMissingImports=false
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from numba import njit  # type: ignore[import-not-found]

from advisor.models.compiled_points import POINT_KERNELS, curve, least_squares, points

__all__ = ["curve", "points", "recompile"]

compiled = njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract", "reassoc", "nsz", "arcp"})


@compiled
def features(z, centre, low, high, slope_sd, serial_shares, serial_sd, level_sd):
    """Return `Frame.features` and `Frame.bent` of points z (k, axes)."""
    k, axes = z.shape
    serial = len(serial_shares)
    straight, bent = np.empty((k, axes + serial + 1)), np.empty((k, axes))
    for i in range(k):
        for axis in range(axes):
            value = z[i, axis]
            straight[i, axis] = slope_sd * (value - centre[axis])
            bent[i, axis] = min(max(value, low[axis]), high[axis]) - centre[axis]
        p = np.exp(-z[i, axes - 1])
        for s in range(serial):
            straight[i, axes + s] = serial_sd * np.log(serial_shares[s] + (1.0 - serial_shares[s]) * p)
        straight[i, axes + serial] = level_sd
    return straight, bent


@compiled
def basis(z, straight, bent, nearness):
    """Return the lower triangles of `Frame.basis` of points with themselves, (2 + lengths, k, k)."""
    k, axes = z.shape
    width = straight.shape[1]
    out = np.zeros((2 + len(nearness), k, k))
    for i in range(k):
        for j in range(i + 1):
            total = 0.0
            for f in range(width):
                total += straight[i, f] * straight[j, f]
            out[0, i, j] = total
            total, apart = 0.0, 0.0
            for axis in range(axes):
                total += bent[i, axis] * bent[j, axis]
                gap = z[i, axis] - z[j, axis]
                apart += gap * gap
            out[1, i, j] = total * total
            apart = np.sqrt(apart)
            for n in range(len(nearness)):
                near = apart * nearness[n]
                out[2 + n, i, j] = np.exp(-near) * (1.0 + near)
    return out


@compiled
def covariances(parts, scales, variances, machine, factor, residual, corner):
    """Return the lower triangles of covariances (m, k, k), bordered by the residual where there is one (k + 1 then).

    Parameters
    ----------
    machine : int64 array (k,)
    factor : float
        Covariance of a machine's points.
    residual : float64 array (k,) or (0,)
    """
    forms, k = len(scales), parts.shape[1]
    edge = 1 if len(residual) else 0
    out = np.zeros((forms, k + edge, k + edge))
    for m in range(forms):
        for i in range(k):
            row = out[m, i]
            for b in range(len(parts)):
                share = scales[m, b]
                if share != 0.0:
                    for j in range(i + 1):
                        row[j] += share * parts[b, i, j]
            if factor > 0.0 and machine[i] > 0:
                for j in range(i + 1):
                    if machine[j] == machine[i]:
                        row[j] += factor
            row[i] += variances[m, i]
        if edge:
            for j in range(k):
                out[m, k, j] = residual[j]
            out[m, k, k] = corner
    return out


@compiled
def evidence(roots):
    """Return the log marginal likelihoods that bordered roots (m, k + 1, k + 1) hold."""
    forms, k = len(roots), roots.shape[1] - 1
    out = np.empty(forms)
    for m in range(forms):
        total, logs = 0.0, 0.0
        for i in range(k):
            total += roots[m, k, i] * roots[m, k, i]
            logs += np.log(roots[m, i, i])
        out[m] = -0.5 * total - logs
    return out


@compiled
def inverse(root, k):
    """Return the inverse of a lower triangle's first k rows and columns."""
    out = np.zeros((k, k))
    for i in range(k):
        row = out[i]
        for j in range(i):
            share = root[i, j]
            for c in range(j + 1):
                row[c] -= share * out[j, c]
        own = 1.0 / root[i, i]
        for c in range(i):
            row[c] *= own
        row[i] = own
    return out


@compiled
def solved(root, residual):
    """Return C^-1 r and the diagonal of C^-1."""
    k = len(residual)
    whiten = inverse(root, k)
    alpha, precision = np.zeros(k), np.zeros(k)
    for i in range(k):
        value = 0.0
        for j in range(i + 1):
            value += whiten[i, j] * residual[j]
        for j in range(i + 1):
            alpha[j] += value * whiten[i, j]
            precision[j] += whiten[i, j] * whiten[i, j]
    return alpha, precision


@compiled
def shape_evidence(roots, residuals):
    """Return the evidence (s, m) of residuals (m, k) under covariances with roots (s, k, k)."""
    forms, k = residuals.shape
    out = np.empty((len(roots), forms))
    white = np.empty((k, forms))
    for s in range(len(roots)):
        logs = 0.0
        for m in range(forms):
            out[s, m] = 0.0
        for i in range(k):
            for m in range(forms):
                white[i, m] = residuals[m, i]
            for j in range(i):
                share = roots[s, i, j]
                for m in range(forms):
                    white[i, m] -= share * white[j, m]
            own = 1.0 / roots[s, i, i]
            for m in range(forms):
                white[i, m] *= own
                out[s, m] += white[i, m] * white[i, m]
            logs += np.log(roots[s, i, i])
        for m in range(forms):
            out[s, m] = -0.5 * out[s, m] - logs
    return out


@compiled
def equilibrate(gram, right, size, real, width):
    """Give the columns that are not zero, `real`, a unit diagonal."""
    for i in range(width):
        real[i] = size[i] > 0.0
        if not real[i]:
            size[i] = 1.0
    for i in range(width):
        right[i] /= size[i]
        for j in range(width):
            gram[i, j] /= size[i] * size[j]


@compiled
def nonnegative(gram, right, size, width, ridge, slack, swaps, single_after):
    """Return what `shapes.nonnegative` does of one problem, equilibrated here by `size`."""
    found, half, factor = np.zeros(width), np.empty(width), np.empty((width, width))
    real, wrong, place = np.empty(width, np.bool_), np.empty(width, np.bool_), np.empty(width, np.int64)
    equilibrate(gram, right, size, real, width)
    active = real.copy()
    for swap in range(swaps):
        used = 0
        for i in range(width):
            found[i] = 0.0
            if active[i]:
                place[used] = i
                used += 1
        least_squares(gram, right, place, used, ridge, factor, half, found)
        last = -1
        for i in range(width):
            value = found[i]
            if not active[i]:
                value = -right[i]
                for c in range(used):
                    value += gram[i, place[c]] * found[place[c]]
            wrong[i] = real[i] and value < -slack
            if wrong[i]:
                last = i
        if last < 0:
            break
        for i in range(width):
            if wrong[i] and (swap < single_after or i == last):
                active[i] = not active[i]
    return np.where(active, found, 0.0)


@compiled
def fitted(work, cores, work_of, cores_of, there, t, weight, ridge, slack, swaps, single_after):
    """Return `shapes.fitted` of the columns that a family makes of entries, and the fitted sums (shapes, n) themselves."""
    stack, widest, n = work_of.shape[0], work_of.shape[1], len(t)
    coefficients, sums = np.zeros((stack, widest)), np.zeros((stack, n))
    columns, scaled = np.empty((widest, n)), np.empty((widest, n))
    gram, right, size = np.empty((widest, widest)), np.empty(widest), np.empty(widest)
    for s in range(stack):
        width = 0  # of a shape's terms the first exist
        for term in range(widest):
            width += there[s, term]
        for term in range(width):
            one, two = work[work_of[s, term]], cores[cores_of[s, term]]
            for i in range(n):
                columns[term, i] = one[i] * two[i]
        for term in range(width):
            total = 0.0
            for i in range(n):
                root = np.sqrt(weight[i])
                scaled[term, i] = columns[term, i] * (root / t[i])
                total += scaled[term, i] * root
            right[term] = total
            for other in range(term + 1):
                total = 0.0
                for i in range(n):
                    total += scaled[term, i] * scaled[other, i]
                gram[term, other] = total
                gram[other, term] = total
        for term in range(width):
            size[term] = np.sqrt(gram[term, term])
        found = nonnegative(gram, right, size, width, ridge, slack, swaps, single_after)
        for term in range(width):
            if found[term] > 0.0:
                coefficients[s, term] = found[term] / size[term]
                for i in range(n):
                    sums[s, i] += coefficients[s, term] * columns[term, i]
    return coefficients, sums


@compiled
def basis_at(at, own, own_bent, z, straight, bent, nearness):
    """Return `Frame.basis` of one point with the points z (2 + lengths, k), and with itself (2 + lengths,)."""
    k, axes = z.shape
    width = straight.shape[1]
    parts, total = np.empty((2 + len(nearness), k)), np.ones(2 + len(nearness))
    total[0], total[1] = 0.0, 0.0
    for f in range(width):
        total[0] += own[f] * own[f]
    for axis in range(axes):
        total[1] += own_bent[axis] * own_bent[axis]
    total[1] *= total[1]
    for i in range(k):
        value = 0.0
        for f in range(width):
            value += own[f] * straight[i, f]
        parts[0, i] = value
        value, apart = 0.0, 0.0
        for axis in range(axes):
            value += own_bent[axis] * bent[i, axis]
            gap = at[axis] - z[i, axis]
            apart += gap * gap
        parts[1, i] = value * value
        apart = np.sqrt(apart)
        for n in range(len(nearness)):
            near = apart * nearness[n]
            parts[2 + n, i] = np.exp(-near) * (1.0 + near)
    return parts, total


@compiled
def one_point(
    at, z, straight, bent, centre, low, high, slope_sd, serial_shares, serial_sd, level_sd, nearness, scales, whitens, alphas,
    homes, machine, place, factor,
):  # fmt: skip
    """Return the variances left (c,) at one point and, behind them, what the points pull each expert's mean by (e,).

    Parameters
    ----------
    at : float64 array (1, axes)
    straight, bent : float64 arrays (k, ..)
        `features` of the points z.
    place, factor : int, float
        Machine, and the covariance of its points; 0.0 where none is told apart.
    """
    k = len(z)
    own, own_bent = features(at, centre, low, high, slope_sd, serial_shares, serial_sd, level_sd)
    parts, total = basis_at(at[0], own[0], own_bent[0], z, straight, bent, nearness)
    out, cross = np.zeros(len(scales) + len(homes)), np.empty((len(scales), k))
    for c in range(len(scales)):
        left = factor
        for b in range(len(total)):
            left += scales[c, b] * total[b]
        for i in range(k):
            value = 0.0
            for b in range(len(total)):
                value += scales[c, b] * parts[b, i]
            cross[c, i] = value + factor if factor > 0.0 and machine[i] == place else value
        for i in range(k):
            value = 0.0
            for j in range(i + 1):
                value += whitens[c, i, j] * cross[c, j]
            left -= value * value
        out[c] = max(left, 0.0)
    for e in range(len(homes)):
        value = 0.0
        for i in range(k):
            value += alphas[e, i] * cross[homes[e], i]
        out[len(scales) + e] = value
    return out


KERNELS = (
    features, basis, covariances, evidence, inverse, solved, shape_evidence, equilibrate, nonnegative, fitted, basis_at,
    one_point,
)  # fmt: skip


def recompile() -> None:
    """Compile every kernel afresh and replace what is cached of it; callers last, since they hold what they call."""
    for kernel in (*POINT_KERNELS, *KERNELS):
        kernel.recompile()
