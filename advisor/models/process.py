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

import numpy as np
from numpy.typing import NDArray

from advisor.models import shapes
from advisor.models.bench import NUGGET, SHAPE_SCALES, SHAPE_SDS, Bench, QuickBench, Stage
from advisor.models.points import RUN_SD, WILD, points_of
from advisor.models.posterior import (
    LENGTHS,
    LEVEL_SD,
    LN2,
    SLOPE,
    SLOPE_SD,
    Frame,
    Mean,
    Points,
    Posterior,
    Prior,
    compiled,
)

__all__ = ["LN2", "NUGGET", "RUN_SD", "SMOOTH", "Mean", "Points", "Posterior", "points_of", "solve"]

Floats = NDArray[np.float64]

BENDS = (0.0, 0.3)  # sd of the squares of z: none, or a log-slope that changes by 0.3 a factor e
ROUGHNESS = (0.05, 0.2, 0.6)  # sd of what no simple form tells: 5, 20, 60 %
SHAPE_ROUGHNESS = SHAPE_SDS[-1][1]
INSIDE_LEAST = 0.02  # sd of z inside cells, below which they are points
NOISE_FACTORS = (0.1, 0.3, 3.0, 10.0)  # of the noise variance, tried where repeats are fewer than `REPEATS_ENOUGH`
REPEATS_ENOUGH = 20
NOISE_TOP = 2  # best forms on which they are tried
WILD_ROUNDS = 4  # of judging them, the worst first
WILD_POINTS = 5  # fewer points cannot tell which of them is wild
EXPERTS = 6  # forms a posterior keeps
SHARE_LEAST = 0.01  # of the weight, below which a form is dropped
NOISE_TRIED = np.tile(NOISE_FACTORS, NOISE_TOP)
SHAPE_POINTS = 3  # two points are a line whatever the shape
POWER_STEP, POWER_MOST = 0.5, 3.0  # powers of predictors are tried in halves

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


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a solve needs of points whatever the forms: kept, it serves until the points change."""

    points: Points
    frame: Frame
    bench: Bench
    prior: Floats  # at the points, up to its level


def grounds_of(points: Points, *, quick: bool = False) -> Grounds:
    """Return the grounds of a component's points. Cost O(k^2).

    Parameters
    ----------
    quick : bool
        Compiled, where `quick.use_compiled` was called: the last digits differ. Not for what is stored.
    """
    z, runs = points.z, points.runs
    frame = Frame.of(z)
    torn = np.zeros(len(z)) if points.torn is None else points.torn
    repeats = float(np.add.reduce(np.where(torn > 0.0, 0.0, np.maximum(runs - 1.0, 0.0))))
    noise = (RUN_SD * RUN_SD + float(np.add.reduce(points.spread))) / (1.0 + repeats)
    timer = 0.0 if points.timer is None else points.timer
    machine = points.machine if np.logical_or.reduce(points.machine) else None
    kind = QuickBench if quick and compiled() is not None else Bench
    return Grounds(points, frame, kind.of(frame, z, machine, runs, noise, repeats, timer, torn), frame.prior(z))


def solve(
    points: Points, known: Sequence[tuple[str, Mean, int]] = (), only: str | None = None, *, quick: bool = False
) -> Posterior:
    """Return the mixture for a component's points: `solve_on` their `grounds_of`. Cost O(forms k^3)."""
    return solve_on(grounds_of(points, quick=quick), known, only)


def solve_on(grounds: Grounds, known: Sequence[tuple[str, Mean, int]] = (), only: str | None = None) -> Posterior:
    """Return the mixture for the points of `grounds`. Cost O(forms k^3).

    Parameters
    ----------
    known : sequence of (name, mean, coefficients)
        Models fitted elsewhere, as log times; they compete as shapes do.
    only : str, optional
        The one form to use, for `pin` and for looking inside.
    """
    points, frame, prior = grounds.points, grounds.frame, grounds.prior
    points, at_points = _centred(points, known)
    residual = points.y - prior
    level = float(np.add.reduce(residual) / len(residual))
    residual = residual - level
    smooth, bench, slopes = _smooth(grounds.bench, points, frame, residual)
    factor = float(smooth.factors[np.argmax(smooth.evidence)])
    fitted = _fitted(points, known, at_points, bench, factor, slopes)
    return _posterior(points, frame, Prior(frame, level), residual, bench, smooth, factor, fitted, only)


def _centred(points: Points, known: Sequence[tuple[str, Mean, int]]) -> tuple[Points, list[Floats]]:
    """Return the points with y carried from the mean over each cell to its centre, by the bend of the model known elsewhere.

    E[f(z)] = f(mean z) + 1/2 sum f_ii sd_i^2, the second differences taken at mean z -+ sd. Behind them, what each known
    model says at the points.
    """
    inside, z = points.inside, points.z
    if not known or inside is None or float(inside.max()) < INSIDE_LEAST:
        return points, [mean(z) for _, mean, _ in known]
    steps = [sign * inside * (np.arange(len(inside)) == axis) for axis in range(len(inside)) for sign in (1.0, -1.0)]
    around = known[0][1](np.concatenate([z, *(z + step for step in steps)])).reshape(1 + len(steps), -1)
    bend = 0.5 * (around[1:].sum(axis=0) - len(steps) * around[0])
    several = points.runs > 1.0
    points = replace(points, y=points.y - np.where(several & np.isfinite(bend), bend, 0.0))
    return points, [around[0], *(mean(z) for _, mean, _ in known[1:])]


def _smooth(bench: Bench, points: Points, frame: Frame, residual: Floats) -> tuple[Stage, Bench, Floats]:
    """Return the smooth family's forms, the bench without wild points, and the best form's log-slopes in predictors."""
    ones = np.ones(len(SMOOTH_SCALES))
    torn = bench.wild
    flagged = np.zeros(len(residual), np.bool_)
    for _ in range(WILD_ROUNDS if len(residual) >= WILD_POINTS else 0):
        stage = bench.smooth(SMOOTH_SCALES, ones, residual)
        alpha, precision = bench.solved(stage.roots[int(np.argmax(stage.evidence))], residual)
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
        alpha, _ = bench.solved(stage.roots[int(np.argmax(stage.evidence))], residual)
    if bench.repeats < REPEATS_ENOUGH:
        best = np.argsort(-stage.evidence, kind="stable")[:NOISE_TOP]
        more = bench.smooth(stage.scales[best.repeat(len(NOISE_FACTORS))], NOISE_TRIED, residual)
        stage = Stage(
            np.concatenate([stage.scales, more.scales]), np.concatenate([stage.factors, more.factors]),
            [*stage.roots, *more.roots], np.concatenate([stage.evidence, more.evidence]),
        )  # fmt: skip
    linear = (points.z[:, :-1] - frame.centre[:-1]) * (SLOPE_SD * SLOPE_SD)
    return stage, bench, SLOPE + alpha @ linear


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A fitted mean: its log times at the points, and the price of its coefficients."""

    name: str
    mean: Mean
    at_points: Floats
    price: float


def _fitted(
    points: Points, known: Sequence[tuple[str, Mean, int]], at_known: Sequence[Floats], bench: Bench, factor: float,
    slopes: Floats,
) -> list[_Fitted]:  # fmt: skip
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
            for name, shape, at_points in shapes.fitted_shapes(
                scale, *bench.fitted(scale, z, np.exp(y - scale.top), weight)
            )
        ]
    for (name, mean, coefficients), at_points in zip(known, at_known, strict=True):
        if np.isfinite(at_points).all():
            found.append(_Fitted(name, mean, at_points, coefficients * price - least))
    return found


def _posterior(
    points: Points, frame: Frame, prior: Prior, residual: Floats, bench: Bench, smooth: Stage,
    factor: float, fitted: list[_Fitted], only: str | None,
) -> Posterior:  # fmt: skip
    """Return the forms that the evidence keeps; fitted means have one covariance between them."""
    count, residuals, evidence, whiten = (
        len(smooth.evidence),
        np.empty((0, len(residual))),
        smooth.evidence,
        np.empty(0),
    )
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
    inverse = dict(zip(own, bench.inverses([smooth.roots[place] for place in own]), strict=True))
    whitens = [inverse[place] if place < count else bench.inverse_of_shapes(whiten[place - count]) for place in places]
    scales = [smooth.scales[place] if place < count else SHAPE_SCALES[place - count] for place in places]
    factors = [float(smooth.factors[place]) if place < count else factor for place in places]
    rest = [residual if i < count else residuals[(i - count) % len(fitted)] for i in kept]
    return Posterior(
        points, frame, tuple(names[i] for i in kept), share / share.sum(),
        np.array([bench.noise * factors[h] for h in homes]), 1.0 + bench.repeats, bench.machine is not None,
        [prior if i < count else fitted[(i - count) % len(fitted)].mean for i in kept], homes,
        np.array(scales), np.array(whitens),
        np.array([(whitens[h] @ r) @ whitens[h] for h, r in zip(homes, rest, strict=True)]),
    )  # fmt: skip
