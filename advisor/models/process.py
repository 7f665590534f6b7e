"""What a component's support points say of its run times: a mixture of forms, each weighed by its evidence.

In log time, with z the logs of predictors and cores, a form is a Gaussian process: a mean, and a covariance that says how
far and how smoothly the truth may leave it. Two families stand side by side.

- *Smooth*: the mean is the prior of somebody who knows nothing but that work grows with its input and shrinks with cores:
  log-slopes of 1/2 in each predictor and -1/2 in cores, each give or take 1/2, so between constant and proportional. On
  top: Amdahl's saturation log(f + (1-f)/p), the squares of a log-log quadratic, and a Matern 3/2 covariance that corrects
  near support points.
- *Shapes*: the mean is one of `advisor.models.shapes` or the base tier's own model, fitted; the covariance corrects it by a
  few percent near the points.

The noise of one run comes from repeats in the points, from the fit where there are none. Weights are the marginal
likelihoods, for a fitted mean with the usual price of its coefficients. Points whose leave-one-out error is beyond `WILD`
standard deviations are believed no more than that error allows. The posterior is a sum of Gaussians in log time. It keeps
at most `EXPERTS` of them.

All figures below are beliefs about run times in general, in natural log units; none is fitted to a data set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.models import shapes
from advisor.models.posterior import (
    LENGTHS,
    LEVEL_SD,
    LN2,
    MACHINE_SD,
    SLOPE,
    SLOPE_SD,
    Frame,
    Mean,
    Points,
    Posterior,
    Prior,
)
from advisor.models.support import AXES_MAX, KEY_BITS, LOWEST, POINTS, SupportTable

__all__ = ["LN2", "SMOOTH", "Mean", "Points", "Posterior", "points_of", "solve"]

Floats = NDArray[np.float64]

BENDS = (0.0, 0.3)  # sd of the squares of z: none, or a log-slope that changes by 0.3 a factor e
ROUGHNESS = (0.05, 0.2, 0.6)  # sd of what no simple form tells: 5, 20, 60 %
# Of a fitted shape's correction: sd of its level and of what it leaves out, which reaches far. The first shape is as good as
# exact, the second a good guess.
SHAPE_SDS, SHAPE_LENGTH = ((0.02, 0.01), (0.1, 0.05)), 2.5
SHAPE_ROUGHNESS = SHAPE_SDS[-1][1]
INSIDE_LEAST = 0.02  # sd of z inside cells, below which they are points
RUN_SD = 0.1  # of one run, before there are repeats: counts as one repeat
NUGGET = 1e-8  # variance of any point's mean at least: a clock is not trusted to a hundredth of a percent
NOISE_FACTORS = (0.1, 0.3, 3.0, 10.0)  # of the noise variance, tried where repeats are fewer than `REPEATS_ENOUGH`
REPEATS_ENOUGH = 20
NOISE_TOP = 2  # best forms on which they are tried
SCATTER_LEAST = 1e-9  # of the sums: less is rounding
WILD = 4.0  # standard deviations of a leave-one-out error
WILD_ROUNDS = 4  # of judging them, the worst first
WILD_POINTS = 5  # fewer points cannot tell which of them is wild
TRIM_RUNS = 3.0  # a cell of so many runs can lose its least and its greatest
EXPERTS = 6  # forms a posterior keeps
SHARE_LEAST = 0.01  # of the weight, below which a form is dropped
NOISE_TRIED = np.tile(NOISE_FACTORS, NOISE_TOP)
SHAPE_POINTS = 3  # two points are a line whatever the shape
POWER_STEP, POWER_MOST = 0.5, 3.0  # powers of predictors are tried in halves
CORNER = 1e100  # of the bordered matrix below: beyond every r' C^-1 r

SMOOTH = "smooth"
# (bend, roughness, length) of the smooth family, as scales of `Frame.basis`.
SMOOTH_SCALES = np.array(
    [
        (1.0, bend * bend, *(rough * rough if length == reach else 0.0 for length in LENGTHS))
        for bend in BENDS
        for rough in ROUGHNESS
        for reach in LENGTHS
    ]
)
# A shape's level is a small part of the constant in the first matrix; its slopes go with it, a hundredth as free.
SHAPE_SCALES = np.array(
    [
        ((level / LEVEL_SD) ** 2, 0.0, *(rough**2 if length == SHAPE_LENGTH else 0.0 for length in LENGTHS))
        for level, rough in SHAPE_SDS
    ]
)


def points_of(table: SupportTable, slot: int, timer_noise_s: float = 0.0) -> Points:
    """Return the points of a record; runs near `timer_noise_s` are as noisy as the timer. Cost O(POINTS)."""
    used = int(table.count("points")[slot])
    record = table.words[slot]
    at = table.at
    runs, y, yy, low, high = (
        record[at[name].start : at[name].start + used] for name in ("runs", "y", "yy", "low", "high")
    )
    sums = record[at["z"]].reshape(table.axes, POINTS)[:, :used]
    means = sums / runs
    z = means.T
    zero = np.minimum.reduce(np.where(z > LOWEST + 3.0, z, np.inf), axis=0) - 2.0
    zero[~np.isfinite(zero)] = 0.0  # x = 0: a factor of 4 below the least positive x
    z = np.maximum(z, zero)
    mean = y / runs
    spread = np.maximum(yy - y * mean, 0.0)
    share, inside = _inside(table, record, sums, means, runs, y, float(np.add.reduce(spread)))
    spread *= share
    torn = np.zeros(used)
    if float(np.maximum.reduce(runs, initial=0.0)) >= 2.0:
        mean, spread, torn = _trimmed(mean, spread, runs, y, yy, low, high)
    keys = record.view(np.int64)[at["key"]][:used]
    square = LN2 * LN2
    timer = np.square(timer_noise_s * np.exp2(-mean))
    return Points(
        z * LN2, mean * LN2, runs.copy(), spread * square, keys >> (KEY_BITS * table.axes), zero * LN2, torn * square,
        inside * LN2, timer,
    )  # fmt: skip


@lru_cache(maxsize=AXES_MAX)
def _triangle(axes: int) -> NDArray[np.int64]:
    """Return the place (axes, axes) of each pair of axes among the sums of their products."""
    places = np.zeros((axes, axes), np.int64)
    places[np.triu_indices(axes)] = np.arange(axes * (axes + 1) // 2)
    return np.maximum(places, places.T)


def _inside(
    table: SupportTable, record: Floats, z: Floats, means: Floats, runs: Floats, y: Floats, spread: float
) -> tuple[float, Floats]:
    """Return the share of the spread inside cells that is no lean on z, and the sd (axes,) of z inside cells, in log2.

    The sums over all rows less those between cells give z's scatter inside cells, and least squares on it what y owes to
    z there.

    Parameters
    ----------
    z, means : float64 arrays (axes, k)
        The cells' sums of z, and their means.
    """
    axes, at = table.axes, table.at
    if spread <= 0.0:
        return 1.0, np.zeros(axes)
    total = record[at["zz"]][_triangle(axes)]
    scatter = total - means @ z.T
    own, size = scatter.diagonal(), total.diagonal()
    free: NDArray[np.bool_] = own > SCATTER_LEAST * (1.0 + size)
    count = int(np.count_nonzero(free))
    if not count:
        return 1.0, np.zeros(axes)
    lean: Floats = record[at["zy"]] - means @ y
    inner, ridge = scatter, SCATTER_LEAST * (1.0 + size)
    if count < axes:
        lean, inner, ridge = lean[free], scatter[free][:, free], ridge[free]
    coefficients: Floats = np.asarray(np.linalg.solve(inner + np.diag(ridge), lean), np.float64)
    explained = float(lean @ coefficients)
    free_rows = max(float(np.add.reduce(runs)) - len(runs), 1.0)
    # Each coefficient takes its share by chance alone.
    share = max(spread - explained, 0.0) / spread * free_rows / max(free_rows - count, 1.0)
    return min(max(share, 0.0), 1.0), np.sqrt(np.where(free, own, 0.0) / free_rows)


def _trimmed(
    mean: Floats, spread: Floats, runs: Floats, y: Floats, yy: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return mean, spread and further variance of cells where runs that are wild beside the others move nothing.

    Of three and more runs the least and the greatest are left out; of two that contradict each other neither is believed.
    """
    many = runs >= TRIM_RUNS
    two = (runs >= 2.0) & ~many
    rest = np.where(many, runs - 2.0, 1.0)
    inner = np.where(many, (y - low - high) / rest, mean)
    inner_spread = np.where(many, np.maximum(yy - low * low - high * high - rest * inner * inner, 0.0), 0.0)
    # The greatest pair is left out of the noise that it is measured by; the belief before any repeat counts as one.
    total = (RUN_SD / LN2) ** 2 + np.add.reduce(inner_spread)
    pairs = int(np.count_nonzero(two))
    if pairs:
        spreads = np.where(two, spread, 0.0)
        total = total + np.add.reduce(spreads) - np.maximum.reduce(spreads)
    pooled = total / (1.0 + np.add.reduce(rest - 1.0) + max(pairs - 1, 0))
    reach = 2.0 * WILD * np.sqrt(np.maximum(inner_spread / rest, pooled))
    wild = many & ((high - inner > reach) | (inner - low > reach))
    torn = two & (high - low > reach)
    return (
        np.where(wild, inner, mean),
        np.where(wild, inner_spread, np.where(torn, 0.0, spread)),
        np.where(torn, spread, 0.0),
    )


@dataclass(slots=True)
class _Stage:
    """Forms of the smooth family under test on the same points.

    Attributes
    ----------
    scales : float64 array (m, BASIS)
    factors : float64 array (m,)
        Of the noise.
    roots : list of m float64 arrays (k, k)
        Cholesky roots of the covariances.
    evidence : float64 array (m,)
        Log marginal likelihoods.
    """

    scales: Floats
    factors: Floats
    roots: list[Floats]
    evidence: Floats


@dataclass(frozen=True, slots=True)
class _Bench:
    """What all forms on the same points share."""

    basis: Floats  # (BASIS, k, k)
    same: Floats | None  # covariance of a machine's points
    runs: Floats
    noise: float
    repeats: float
    timer: Floats | float
    wild: Floats  # further variance of points that others contradict

    def variances(self, factors: Floats) -> Floats:
        """Return the variances (m, k) of the points' means under factors (m,) of the noise."""
        return (factors[:, None] * self.noise + self.timer) / self.runs + (NUGGET + self.wild)

    def smooth(self, scales: Floats, factors: Floats, residual: Floats) -> _Stage:
        """Return the evidence of many covariances for one residual, in one stack.

        The root of [[C, r], [r', corner]] holds that of C and, in its last row, L^-1 r: no second solve.
        """
        k = len(residual)
        bordered = np.empty((len(scales), k + 1, k + 1))
        inner = bordered[:, :k, :k]
        np.copyto(inner, (scales @ self.basis.reshape(len(self.basis), -1)).reshape(-1, k, k))
        if self.same is not None:
            inner += self.same
        diagonal = bordered.reshape(len(scales), -1)[:, :: k + 2][:, :k]
        diagonal += self.variances(factors)
        bordered[:, :k, k] = residual
        bordered[:, k, :k] = residual
        bordered[:, k, k] = CORNER
        roots = np.asarray(np.linalg.cholesky(bordered), np.float64)
        logs = np.add.reduce(np.log(roots.reshape(len(scales), -1)[:, :: k + 2][:, :k]), axis=1)
        evidence = -0.5 * np.add.reduce(np.square(roots[:, k, :k]), axis=1) - logs
        return _Stage(scales, factors, list(roots[:, :k, :k]), evidence + self.of_repeats(factors))

    def shapes(self, factor: float, residuals: Floats) -> tuple[Floats, Floats]:
        """Return L^-1 of the covariances that fitted means share (s, k, k), and the evidence (s, m) for residuals (m, k)."""
        k = residuals.shape[1]
        flat = self.basis.reshape(len(self.basis), -1)
        covariances = np.empty((len(SHAPE_SCALES), k, k))
        for scale, covariance in zip(SHAPE_SCALES, covariances, strict=True):
            covariance[...] = np.dot(scale[None, :], flat).reshape(k, k)
        if self.same is not None:
            covariances += self.same
        factors = np.array([factor])
        diagonal = covariances.reshape(len(covariances), -1)[:, :: k + 1]
        diagonal += self.variances(factors)
        roots = np.linalg.cholesky(covariances)
        whiten = np.asarray(np.linalg.inv(roots), np.float64)
        logs = np.log(roots.reshape(len(roots), -1)[:, :: k + 1])
        evidence = np.empty((len(roots), len(residuals)))
        for i, each in enumerate(whiten):
            evidence[i] = -0.5 * np.add.reduce(np.square(residuals @ each.T), axis=1) - float(np.add.reduce(logs[i]))
        return whiten, evidence + self.of_repeats(factors)

    def of_repeats(self, factors: Floats) -> Floats:
        """Return what the repeats say of the noise; the belief before them counts as one."""
        return -0.5 * (self.repeats + 1.0) * (np.log(factors) + 1.0 / factors)


def solve(points: Points, known: Sequence[tuple[str, Mean, int]] = (), only: str | None = None) -> Posterior:
    """Return the mixture for a component's points. Cost O(forms k^3).

    Parameters
    ----------
    known : sequence of (name, mean, coefficients)
        Models fitted elsewhere, as log times; they compete as shapes do.
    only : str, optional
        The one form to use, for `pin` and for looking inside.
    """
    points = _centred(points, known)
    z, y, runs = points.z, points.y, points.runs
    frame = Frame.of(z)
    same = None
    if np.logical_or.reduce(points.machine):
        same = MACHINE_SD**2 * (points.machine[:, None] == points.machine) * (points.machine > 0)
    torn = np.zeros(len(y)) if points.torn is None else points.torn
    repeats = float(np.add.reduce(np.where(torn > 0.0, 0.0, np.maximum(runs - 1.0, 0.0))))
    noise = (RUN_SD * RUN_SD + float(np.add.reduce(points.spread))) / (1.0 + repeats)
    prior = frame.prior(z)
    residual = y - prior
    level = float(np.add.reduce(residual) / len(residual))
    residual = residual - level
    timer = 0.0 if points.timer is None else points.timer
    bench = _Bench(frame.basis(z, z)[0], same, runs, noise, repeats, timer, torn)
    smooth, bench, slopes = _smooth(bench, points, frame, residual)
    factor = float(smooth.factors[np.argmax(smooth.evidence)])
    fitted = _fitted(points, known, bench, factor, slopes)
    return _posterior(points, frame, Prior(frame, level), residual, bench, smooth, factor, fitted, only)


def _centred(points: Points, known: Sequence[tuple[str, Mean, int]]) -> Points:
    """Return the points with y carried from the mean over each cell to its centre, by the bend of the model known elsewhere.

    E[f(z)] = f(mean z) + 1/2 sum f_ii sd_i^2, the second differences taken at mean z -+ sd.
    """
    inside = points.inside
    if not known or inside is None or float(inside.max()) < INSIDE_LEAST:
        return points
    z = points.z
    steps = [sign * inside * (np.arange(len(inside)) == axis) for axis in range(len(inside)) for sign in (1.0, -1.0)]
    around = known[0][1](np.concatenate([z, *(z + step for step in steps)])).reshape(1 + len(steps), -1)
    bend = 0.5 * (around[1:].sum(axis=0) - len(steps) * around[0])
    several = points.runs > 1.0
    return replace(points, y=points.y - np.where(several & np.isfinite(bend), bend, 0.0))


def _smooth(bench: _Bench, points: Points, frame: Frame, residual: Floats) -> tuple[_Stage, _Bench, Floats]:
    """Return the smooth family's forms, the bench without wild points, and the best form's log-slopes in predictors."""
    ones = np.ones(len(SMOOTH_SCALES))
    torn = bench.wild
    flagged = np.zeros(len(residual), np.bool_)
    for _ in range(WILD_ROUNDS if len(residual) >= WILD_POINTS else 0):
        stage = bench.smooth(SMOOTH_SCALES, ones, residual)
        alpha, precision = _solved(stage.roots[int(np.argmax(stage.evidence))], residual)
        # What the others say of a point: beside the worst of them its neighbours look wild, so they are judged after it.
        error = alpha / precision
        beyond = np.square(error) / (1.0 / precision - (bench.wild - torn))
        now = (beyond > WILD * WILD) & (flagged | (beyond >= 0.5 * beyond.max(where=~flagged, initial=0.0)))
        if (now == flagged).all():
            break
        flagged = now
        bench = replace(bench, wild=torn + np.where(flagged, np.square(error), 0.0))
    else:
        stage = bench.smooth(SMOOTH_SCALES, ones, residual)
        alpha, _ = _solved(stage.roots[int(np.argmax(stage.evidence))], residual)
    if bench.repeats < REPEATS_ENOUGH:
        best = np.argsort(-stage.evidence, kind="stable")[:NOISE_TOP]
        more = bench.smooth(stage.scales[best.repeat(len(NOISE_FACTORS))], NOISE_TRIED, residual)
        stage = _Stage(
            np.concatenate([stage.scales, more.scales]), np.concatenate([stage.factors, more.factors]),
            [*stage.roots, *more.roots], np.concatenate([stage.evidence, more.evidence]),
        )  # fmt: skip
    linear = (points.z[:, :-1] - frame.centre[:-1]) * (SLOPE_SD * SLOPE_SD)
    return stage, bench, SLOPE + alpha @ linear


def _solved(root: Floats, residual: Floats) -> tuple[Floats, Floats]:
    """Return C^-1 r and the diagonal of C^-1."""
    whiten = np.linalg.inv(root)
    return (whiten @ residual) @ whiten, np.add.reduce(np.square(whiten), axis=0)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A fitted mean: its log times at the points, and the price of its coefficients."""

    name: str
    mean: Mean
    at_points: Floats
    price: float


def _fitted(
    points: Points, known: Sequence[tuple[str, Mean, int]], bench: _Bench, factor: float, slopes: Floats
) -> list[_Fitted]:
    z, y = points.z, points.y
    variance = bench.noise * factor + SHAPE_ROUGHNESS**2
    price = 0.5 * float(np.log1p(len(y) / variance))  # of one coefficient
    least = math.log(LEVEL_SD)  # the smooth family pays for its level in the evidence
    found: list[_Fitted] = []
    if len(z) >= SHAPE_POINTS:
        powers = np.clip(np.rint(slopes / POWER_STEP) * POWER_STEP, 0.0, POWER_MOST)
        scale = shapes.Scale(tuple(z[:, :-1].max(axis=0).tolist()), tuple(powers.tolist()), float(y.max()))
        weight = 1.0 / bench.variances(np.array([factor]))[0]
        weight = 1.0 / (1.0 / weight + SHAPE_ROUGHNESS**2)
        found += [
            _Fitted(name, shape, at_points, len(shape.terms) * price - least)
            for name, shape, at_points in shapes.fit(scale, z, y, weight)
        ]
    for name, mean, coefficients in known:
        at_points = mean(z)
        if np.isfinite(at_points).all():
            found.append(_Fitted(name, mean, at_points, coefficients * price - least))
    return found


def _posterior(
    points: Points, frame: Frame, prior: Prior, residual: Floats, bench: _Bench, smooth: _Stage,
    factor: float, fitted: list[_Fitted], only: str | None,
) -> Posterior:  # fmt: skip
    """Return the forms that the evidence keeps; fitted means have one covariance between them."""
    count, residuals, evidence, whiten = len(smooth.evidence), np.empty((0, len(residual))), smooth.evidence, []
    if fitted:
        residuals = points.y - np.array([form.at_points for form in fitted])
        whiten, judged = bench.shapes(factor, residuals)
        prices = np.array([form.price for form in fitted])
        evidence = np.concatenate([evidence, (judged - prices).reshape(-1)])
    names = [SMOOTH] * count + [form.name for form in fitted] * len(SHAPE_SCALES)
    if only in names:
        evidence = np.where([name == only for name in names], evidence, -np.inf)
    share = np.exp(evidence - evidence.max())
    share /= share.sum()
    order: list[int] = np.argsort(-share, kind="stable").tolist()
    kept = [i for i in order[:EXPERTS] if share[i] >= SHARE_LEAST]
    share = share[kept]
    # Each smooth form has its own covariance; fitted means share theirs.
    places: list[int] = []
    homes: list[int] = []
    for i in kept:
        place = i if i < count else count + (i - count) // len(fitted)
        if place not in places:
            places.append(place)
        homes.append(places.index(place))
    own = [place for place in places if place < count]
    inverses: list[Floats] = list(np.linalg.inv(np.array([smooth.roots[place] for place in own]))) if own else []
    inverse = dict(zip(own, inverses, strict=True))
    whitens: list[Floats] = [inverse[place] if place < count else whiten[place - count] for place in places]
    scales = [smooth.scales[place] if place < count else SHAPE_SCALES[place - count] for place in places]
    factors = [float(smooth.factors[place]) if place < count else factor for place in places]
    rest = [residual if i < count else residuals[(i - count) % len(fitted)] for i in kept]
    return Posterior(
        points, frame, tuple(names[i] for i in kept), share / share.sum(),
        np.array([bench.noise * factors[h] for h in homes]), 1.0 + bench.repeats, bench.same is not None,
        [prior if i < count else fitted[(i - count) % len(fitted)].mean for i in kept], homes,
        np.array(scales), np.array(whitens),
        np.array([(whitens[h] @ r) @ whitens[h] for h, r in zip(homes, rest, strict=True)]),
    )  # fmt: skip
