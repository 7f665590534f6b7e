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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.models import shapes
from advisor.models.support import KEY_BITS, POINTS, SupportTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mean = Callable[[Floats], Floats]  # log time at points (n, axes)

LN2 = 0.6931471805599453
ROOT3 = 1.7320508075688772

SLOPE = 0.5  # prior log-slope of time in each predictor, and minus that in cores: between constant and proportional
SLOPE_SD = 0.5
LEVEL_SD = 5.0  # of the level: the mean of the points is a guess that may be wrong by e**5
SERIAL_SHARES = (0.03, 0.3)  # f of Amdahl's saturation: where curves bend, seen from a few and from tens of cores
SERIAL_SD = 0.5
BENDS = (0.0, 0.3)  # sd of the squares of z: none, or a log-slope that changes by 0.3 a factor e
ROUGHNESS = (0.05, 0.2, 0.6)  # sd of what no simple form tells: 5, 20, 60 %
LENGTHS = (0.7, 2.5)  # how far a correction reaches: a factor of 2, a factor of 12
SHAPE_ROUGHNESS, SHAPE_LENGTH, SHAPE_LEVEL_SD = 0.05, 2.5, 0.1  # of a fitted shape's correction
MACHINE_SD = 0.5  # a machine's factor: two thirds lie between 0.6 and 1.65
RUN_SD = 0.1  # of one run, before there are repeats: counts as one repeat
NOISE_FACTORS = (0.1, 0.3, 3.0, 10.0)  # of the noise variance, tried where repeats are fewer than `REPEATS_ENOUGH`
REPEATS_ENOUGH = 20
NOISE_TOP = 3  # best forms on which they are tried
SCATTER_LEAST = 1e-9  # of the sums: less is rounding
REACH = 1.0  # squares go on this many times the seen range beyond it, then stay: they must not explode
WILD = 4.0  # standard deviations of a leave-one-out error
WILD_POINTS = 5  # fewer points cannot tell which of them is wild
TRIM_RUNS = 4.0  # a cell of so many runs can lose its least and its greatest
EXPERTS = 6  # forms a posterior keeps
SHARE_LEAST = 0.01  # of the weight, below which a form is dropped

GRID = [(bend, rough, length) for bend in BENDS for rough in ROUGHNESS for length in range(len(LENGTHS))]
BASIS = 2 + len(LENGTHS)  # constant + linear, squares, one Matern a length
SMOOTH = "smooth"


@dataclass(frozen=True, slots=True)
class Points:
    """Support points in natural logs.

    Attributes
    ----------
    z : float64 array (k, axes)
    y : float64 array (k,)
        Mean log time, extremes left out where they are wild.
    runs : float64 array (k,)
    spread : float64 array (k,)
        Sum of squared deviations from y.
    machine : int64 array (k,)
        Place of the machine, 0 where none was named.
    zero : float
        Where a predictor of 0 stands.
    """

    z: Floats
    y: Floats
    runs: Floats
    spread: Floats
    machine: Ints
    zero: Floats


def points_of(table: SupportTable, slot: int) -> Points:
    """Return the points of a record. Cost O(POINTS)."""
    used = int(table.count("points")[slot])
    record = table.words[slot]
    at = table.at
    runs, y, yy, low, high = (
        record[at[name].start : at[name].start + used] for name in ("runs", "y", "yy", "low", "high")
    )
    z = record[at["z"]].reshape(table.axes, POINTS)[:, :used].T / runs[:, None]
    zero = np.where(z > -61.0, z, np.inf).min(axis=0) - 2.0  # x = 0 stands a factor of 4 below the least positive x
    z = np.maximum(z, np.where(np.isfinite(zero), zero, 0.0))
    mean = y / runs
    spread = np.maximum(yy - y * mean, 0.0)
    spread *= _unexplained(table, slot, used, float(spread.sum()))
    mean, spread = _trimmed(mean, spread, runs, y, yy, low, high)
    keys = table.integers("key")[slot, :used]
    return Points(z * LN2, mean * LN2, runs.copy(), spread * LN2 * LN2, keys >> (KEY_BITS * table.axes), zero * LN2)


def _unexplained(table: SupportTable, slot: int, used: int, spread: float) -> float:
    """Return the share of the spread inside cells that is no lean on z: 1 where cells are points.

    The sums over all rows less those between cells give z's scatter inside cells, and least squares on it what y owes to z there.
    """
    axes, record, at = table.axes, table.words[slot], table.at
    z = record[at["z"]].reshape(axes, POINTS)[:, :used]
    runs, y = (record[at[name].start : at[name].start + used] for name in ("runs", "y"))
    total = np.zeros((axes, axes))
    upper = np.triu_indices(axes)
    total[upper] = record[at["zz"]]
    total = total + total.T - np.diag(np.diag(total))
    scatter = total - (z / runs) @ z.T
    size = np.diag(total)
    free = np.diag(scatter) > SCATTER_LEAST * (1.0 + size)
    if not free.any() or spread <= 0.0:
        return 1.0
    lean = (record[at["zy"]] - (z / runs) @ y)[free]
    inner = scatter[np.ix_(free, free)] + np.diag(SCATTER_LEAST * (1.0 + size[free]))
    explained = float(lean @ np.linalg.solve(inner, lean))
    free_rows = max(float(runs.sum()) - used, 1.0)
    # Each coefficient takes its share by chance alone.
    share = max(spread - explained, 0.0) / spread * free_rows / max(free_rows - float(free.sum()), 1.0)
    return min(max(share, 0.0), 1.0)


def _trimmed(
    mean: Floats, spread: Floats, runs: Floats, y: Floats, yy: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Leave the least and the greatest out where they are wild beside the others. One poisoned run moves nothing."""
    many = runs >= TRIM_RUNS
    if not many.any():
        return mean, spread
    rest = np.where(many, runs - 2.0, 1.0)
    inner = np.where(many, (y - low - high) / rest, mean)
    inner_spread = np.where(many, np.maximum(yy - low * low - high * high - rest * inner * inner, 0.0), 0.0)
    pooled = inner_spread.sum() / max(float(np.where(many, rest - 1.0, 0.0).sum()), 1.0)
    reach = WILD * np.sqrt(np.maximum(inner_spread / rest, pooled) + 1e-4)
    wild = many & ((high - inner > 2.0 * reach) | (inner - low > 2.0 * reach))
    return np.where(wild, inner, mean), np.where(wild, inner_spread, spread)


@dataclass(slots=True)
class Posterior:
    """What the points say of log time anywhere: a mixture of Gaussians.

    Attributes
    ----------
    names : tuple of str
        Form of each expert, heaviest first.
    share : float64 array (e,)
        Weights, summing to 1.
    noise : float64 array (e,)
        Variance of one run.
    freedom : float
        Degrees of freedom of the noise.
    """

    points: Points
    frame: _Frame
    names: tuple[str, ...]
    share: Floats
    noise: Floats
    freedom: float
    machines: bool
    _scale: Floats  # (e, BASIS) of each expert's covariance
    _alpha: Floats  # (e, k)
    _inverse: Floats  # (e, k, k)
    _means: list[Mean]

    def at(self, z: Floats, machine: int = 0) -> tuple[Floats, Floats, Floats]:
        """Return mean and variance of log time at points (n, axes), and the variance of one run (n,) there.

        Cost O(n k^2) an expert; the covariances of all experts are combinations of the same few matrices.
        """
        z = np.maximum(z, self.points.zero)
        basis, own = self.frame.basis(z, self.points.z)
        cross = np.tensordot(self._scale, basis, 1)  # (e, n, k)
        total = self._scale @ own
        if self.machines:
            factor = MACHINE_SD * MACHINE_SD
            if machine:
                cross = cross + factor * (self.points.machine == machine)
            total = total + factor
        middle = (cross @ self._alpha[:, :, None])[:, :, 0]
        for i, mean in enumerate(self._means):
            middle[i] += mean(z)
        variance = np.maximum(total - ((cross @ self._inverse) * cross).sum(axis=2), 0.0)
        share = self.share[:, None]
        mean = (share * middle).sum(axis=0)
        return (
            mean,
            (share * (variance + np.square(middle - mean))).sum(axis=0),
            np.full(len(z), float(self.share @ self.noise)),
        )

    def covariance(self, z: Floats, others: Floats) -> Floats:
        """Return the covariances (n, m) of log time at points (n, axes) with those (m, axes), the mixture's mean ones."""
        left, right = (self.frame.basis(at, self.points.z)[0] for at in (z, others))
        between, _ = self.frame.basis(z, others)
        found = np.zeros((len(z), len(others)))
        for share, scale, inverse in zip(self.share, self._scale, self._inverse, strict=True):
            one, two = np.tensordot(scale, left, 1), np.tensordot(scale, right, 1)
            found += share * (np.tensordot(scale, between, 1) - one @ inverse @ two.T)
        return found

    def one(self, z: tuple[float, ...], machine: int = 0) -> tuple[float, float, float]:
        """Return `at` of one point, in plain numbers."""
        mean, variance, noise = self.at(np.array([z]), machine)
        return float(mean[0]), float(variance[0]), float(noise[0])


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the smooth family stands: centre, seen range, and the matrices that all covariances are made of."""

    centre: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, z: Floats) -> _Frame:
        low, high = z.min(axis=0), z.max(axis=0)
        span = REACH * (high - low)
        return cls(z.mean(axis=0), low - span, high + span)

    def basis(self, z: Floats, others: Floats) -> tuple[Floats, Floats]:
        """Return (BASIS, n, k): constant + linear, squares, Matern; and (BASIS, n): each at a point with itself."""
        a, b = self._features(z), self._features(others)
        c, d = self._bent(z), self._bent(others)
        out = np.empty((BASIS, len(z), len(others)))
        out[0] = a @ b.T
        out[0] += LEVEL_SD * LEVEL_SD
        np.square(c @ d.T, out=out[1])
        # |z - z'|^2 with the differences taken first: no cancellation, and k is small.
        distance = np.sqrt(np.square(z[:, None, :] - others[None, :, :]).sum(axis=2))
        for i, length in enumerate(LENGTHS):
            near = distance * (ROOT3 / length)
            out[2 + i] = (1.0 + near) * np.exp(-near)
        own = np.ones((BASIS, len(z)))
        own[0] = np.square(a).sum(axis=1) + LEVEL_SD * LEVEL_SD
        own[1] = np.square(np.square(c).sum(axis=1))
        return out, own

    def _features(self, z: Floats) -> Floats:
        p = np.exp(-z[:, -1:])
        saturation = [np.log(f + (1.0 - f) * p) * SERIAL_SD for f in SERIAL_SHARES]
        return np.concatenate([(z - self.centre) * SLOPE_SD, *saturation], axis=1)

    def _bent(self, z: Floats) -> Floats:
        return np.minimum(np.maximum(z, self.low), self.high) - self.centre

    def prior(self, z: Floats) -> Floats:
        """Return the smooth family's prior log time, up to its level."""
        offset = (z - self.centre) * SLOPE
        return offset[:, :-1].sum(axis=1) - offset[:, -1]


@dataclass(frozen=True, slots=True)
class _Trial:
    """One form under test: its covariance's scale, the level of noise, its mean and the price of it."""

    name: str
    scale: tuple[float, ...]
    factor: float
    family: int  # index into the residuals
    price: float = 0.0


def solve(points: Points, known: Sequence[tuple[str, Mean, int]] = (), only: str | None = None) -> Posterior:
    """Return the mixture for a component's points. Cost O(forms k^3).

    Parameters
    ----------
    known : sequence of (name, mean, coefficients)
        Models fitted elsewhere, as log times; they compete as shapes do.
    only : str, optional
        The one form to use, for `pin` and for looking inside.
    """
    z, y, runs = points.z, points.y, points.runs
    frame = _Frame.of(z)
    basis, _ = frame.basis(z, z)
    machines = bool(points.machine.any())
    same = MACHINE_SD**2 * (points.machine[:, None] == points.machine) * (points.machine > 0) if machines else None
    repeats = float(np.maximum(runs - 1.0, 0.0).sum())
    noise = (RUN_SD * RUN_SD + float(points.spread.sum())) / (1.0 + repeats)
    prior = frame.prior(z)
    level = float(np.mean(y - prior))
    means: list[tuple[Mean, Floats]] = [(lambda at: frame.prior(at) + level, y - prior - level)]
    smooth = [_Trial(SMOOTH, _smooth_scale(*grid), 1.0, 0) for grid in GRID]
    bench = _Bench(basis, same, runs, noise, repeats)
    tried = bench.run(smooth, means)
    wild = _wild(tried, points)
    if wild is not None:
        bench = _Bench(basis, same, runs, noise, repeats, wild)
        tried = bench.run(smooth, means)
    if repeats < REPEATS_ENOUGH:
        best = sorted(tried, key=lambda r: -r.evidence)[:NOISE_TOP]
        more = [_Trial(r.trial.name, r.trial.scale, f, 0) for r in best for f in NOISE_FACTORS]
        tried += bench.run(more, means)
    factor = max(tried, key=lambda r: r.evidence).trial.factor
    weight = runs / (noise * factor + SHAPE_ROUGHNESS**2 * runs + (0.0 if wild is None else wild * runs))
    trials: list[_Trial] = []
    for name, mean, coefficients in [*_shape_means(points, weight), *known]:
        at_points = mean(z)
        if np.isfinite(at_points).all():
            price = 0.5 * coefficients * np.log1p(len(y) / (noise * factor + SHAPE_ROUGHNESS**2)) - np.log(LEVEL_SD)
            trials.append(_Trial(name, _shape_scale(), factor, len(means), float(price)))
            means.append((mean, y - at_points))
    if trials:
        tried += bench.run(trials, means)
    if only is not None:
        tried = [r for r in tried if r.trial.name == only] or tried
    return _posterior(tried, points, frame, means, noise, 1.0 + repeats, machines)


def _smooth_scale(bend: float, rough: float, length: int) -> tuple[float, ...]:
    return (1.0, bend * bend, *(rough * rough if i == length else 0.0 for i in range(len(LENGTHS))))


def _shape_scale() -> tuple[float, ...]:
    # A shape's level is a small part of the constant in the first matrix; its slopes go with it, a hundredth as free.
    share = (SHAPE_LEVEL_SD / LEVEL_SD) ** 2
    return (share, 0.0, *(SHAPE_ROUGHNESS**2 if length == SHAPE_LENGTH else 0.0 for length in LENGTHS))


def _shape_means(points: Points, weight: Floats) -> list[tuple[str, Mean, int]]:
    z = points.z
    if len(z) < 3:  # two points are a line whatever the shape
        return []
    highest = z[:, :-1].max(axis=0).sum()

    def columns(at: Floats) -> Floats:
        return shapes.columns_of(np.exp(at[:, :-1].sum(axis=1) - highest), np.exp(at[:, -1]))

    coefficients = shapes.fitted(columns(z), np.exp(points.y - points.y.max()), weight)
    top = float(points.y.max())
    found: list[tuple[str, Mean, int]] = []
    for i, (name, terms) in enumerate(shapes.SHAPES.items()):
        kept = coefficients[i]
        used = int(np.count_nonzero(kept))
        if not used:
            continue

        def mean(at: Floats, terms: shapes.Terms = terms, kept: Floats = kept) -> Floats:
            v, p = np.exp(at[:, :-1].sum(axis=1) - highest), np.exp(at[:, -1])
            with np.errstate(divide="ignore"):
                return np.log(sum(c * term for c, term in zip(kept, terms(v, p), strict=False))) + top  # type: ignore[arg-type]

        found.append((name, mean, used))
    return found


@dataclass(slots=True)
class _Result:
    trial: _Trial
    evidence: float
    alpha: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class _Bench:
    """What all trials on the same points share."""

    basis: Floats
    same: Floats | None
    runs: Floats
    noise: float
    repeats: float
    wild: Floats | None = None

    def run(self, trials: list[_Trial], means: list[tuple[Mean, Floats]]) -> list[_Result]:
        """Return log evidence and solution of each trial, in one stack."""
        scale = np.array([trial.scale for trial in trials])
        covariance = np.tensordot(scale, self.basis, 1)
        if self.same is not None:
            covariance += self.same
        factor = np.array([trial.factor for trial in trials])
        diagonal = np.einsum("eii->ei", covariance)
        diagonal += (self.noise / self.runs) * factor[:, None]
        if self.wild is not None:
            diagonal += self.wild
        residual = np.array([means[trial.family][1] for trial in trials])
        root = np.linalg.cholesky(covariance)
        alpha = np.linalg.solve(covariance, residual[:, :, None])[:, :, 0]
        fit = -0.5 * (residual * alpha).sum(axis=1) - np.log(np.einsum("eii->ei", root)).sum(axis=1)
        # The repeats speak of the noise too, and so does the belief before them, which counts as one.
        fit -= 0.5 * (self.repeats + 1.0) * (np.log(factor) + 1.0 / factor)
        return [_Result(trial, float(fit[i]) - trial.price, alpha[i], covariance[i]) for i, trial in enumerate(trials)]


def _wild(tried: list[_Result], points: Points) -> Floats | None:
    """Return extra variance for points that the others contradict, or None: their squared leave-one-out errors."""
    if len(points.y) < WILD_POINTS:
        return None
    best = max(tried, key=lambda r: r.evidence)
    precision = np.diagonal(np.linalg.inv(best.covariance))
    error = best.alpha / precision
    wild = np.square(error) * precision > WILD * WILD
    return np.where(wild, np.square(error), 0.0) if wild.any() else None


def _posterior(
    tried: list[_Result], points: Points, frame: _Frame, means: list[tuple[Mean, Floats]],
    noise: float, freedom: float, machines: bool,
) -> Posterior:  # fmt: skip
    evidence = np.array([r.evidence for r in tried])
    share = np.exp(evidence - evidence.max())
    share /= share.sum()
    order = [i for i in np.argsort(-share, kind="stable").tolist()[:EXPERTS] if share[i] >= SHARE_LEAST]
    kept = [tried[i] for i in order]
    share = share[order]
    return Posterior(
        points, frame, tuple(r.trial.name for r in kept), share / share.sum(),
        np.array([noise * r.trial.factor for r in kept]), freedom, machines,
        np.array([r.trial.scale for r in kept]), np.array([r.alpha for r in kept]),
        np.linalg.inv(np.array([r.covariance for r in kept])), [means[r.trial.family][0] for r in kept],
    )  # fmt: skip
