"""A solved model of one component, and what it predicts: value, interval, distance outside what was seen.

Inside what was seen the curve is T(x, p) = A(u) + B(u) / p. Beyond the seen core counts a curve that rises with p stays flat
below, one that falls faster than 1/p falls as 1/p above. Beyond the seen predictors it continues as a power of x with the
log-slope at the edge, kept within 0 and 3. A prediction is positive by mechanism: never below half the smallest elapsed time
that could have been measured.

One run's time has variance s^2 (T^2 + t0^2) and the curve's own adds s^2 J' M^-1 J, M being the information matrix, read from
the sums, of the parameters and J the gradient. The interval is symmetric in log time, so its lower end is positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import Prediction
from advisor.models import amdahl, counts, two_step_fit
from advisor.models.candidates import FORMS, FRACTION_UNKNOWN, Form
from advisor.models.demand import expected_load
from advisor.models.elimination import TINY, Elimination
from advisor.models.layout import AT, COEFFICIENTS, DEGREE_MAX, MOMENTS
from advisor.models.student import quantile
from advisor.models.table import Table

Floats = NDArray[np.float64]

SLOPE_SD = 0.1  # of the continued log-slope: 10 % a factor e outside, added to the interval
# Relative deviation assumed while the rows leave none to estimate: a factor 2 either way is common. Each further row that
# agrees halves what it may still be, so that two equal runs are no certainty.
FEW_ROWS_SD = 0.5
SD_MAX = 20.0  # of log time: keeps exp() of it finite; at that point the interval says "unknown"
LIFT = 2.0**-20  # of the scale, added to both ends of a ratio of predictors: zero has no logarithm
LN2 = 0.6931471805599453
LEVEL = 0.9  # of an interval, where none is asked for


@dataclass(slots=True)
class Model:
    """One component's solved model; plain numbers, so that a single prediction costs no numpy call.

    Attributes
    ----------
    serial, parallel : tuple of 4 float
        A_j and B_j over u = (x - origin) / scale.
    fraction : float
        Parallel fraction a of the joint form; NaN for the free form.
    deviation : float
        Relative standard deviation s of one run.
    freedom : float
        Degrees of freedom of `deviation`.
    load : (float, float) or None
        E[A] and E[B] under the observed load, seconds: the demand curve of planning, once `add_loads` has filled it.
    information : Elimination or None
        The information matrix of the parameters, factored at the first interval.
    """

    name: str
    notes: tuple[str, ...]
    family: str
    degree: int
    serial: tuple[float, ...]
    parallel: tuple[float, ...]
    fraction: float
    deviation: float
    freedom: float
    rows: int
    runs: int
    origin: float
    scale: float
    x_range: tuple[float, float]
    p_range: tuple[float, float]
    floor: float
    noise_s: float
    bias: float  # sum w (t - f) / sum w f
    gram: tuple[float, ...]  # of weights whose mean is that of 1 / (f^2 + t0^2)
    load: tuple[float, float] | None = None
    information: Elimination | None = None

    def own_variance(self, u: Any, q: Any) -> Any:
        """Return J' M^-1 J at u and q = 1 / p: the curve's own variance in units of s^2."""
        if self.information is None:
            self.information = _information(self)
        return self.information.quadratic(self._gradient(u, q))

    def _gradient(self, u: Any, q: Any) -> list[Any]:
        """Return J of the form's parameters at u and q = 1 / p."""
        powers = [1.0 + 0.0 * u]
        for _ in range(DEGREE_MAX):
            powers.append(powers[-1] * u)
        if self.family == "free":
            return [powers[j] * factor for j in range(self.degree + 1) for factor in (1.0, q)]
        a = self.fraction
        basis = powers[: self.degree + 1]
        if self.family == "proportional":
            basis = [self.origin / self.scale + u]
        joint = [g * (1.0 - a + a * q) for g in basis]
        if self.p_range[0] < self.p_range[1]:
            sequential = sum((s + b) * g for s, b, g in zip(self.serial, self.parallel, powers, strict=True))
            joint.append(sequential * (q - 1.0))
        return joint


def models_of(part: Table, timer_noise_s: float, form: str | None = None) -> list[Model]:
    """Return the solved models of all components of `part`, in order. Cost O(n); batched."""
    solutions = amdahl.solve(part, timer_noise_s, form)
    return _assemble(part, solutions, timer_noise_s)


def two_step_models(part: Table, timer_noise_s: float, degree: int | None) -> list[Model]:
    """Return paper 1's two-step models of all components of `part`."""
    return _assemble(part, two_step_fit.solve(part, degree), timer_noise_s, two_step=True)


def _assemble(part: Table, solved: amdahl.Solutions, timer_noise_s: float, *, two_step: bool = False) -> list[Model]:
    freedom = counts.evidence(part) - solved.used
    weight = _mean_weight(part, solved, timer_noise_s)
    variance = solved.residual / weight / np.maximum(freedom, 1.0)
    bias = _bias(part, solved)
    found: list[Model] = []
    for i in range(part.size):
        record = part.words[:, i]
        form = FORMS[int(solved.form[i])]
        notes = _notes(part, solved, i, form)
        deviation = sqrt(float(variance[i]))
        if not two_step:
            deviation = max(deviation, FEW_ROWS_SD * 0.5 ** max(float(freedom[i]), 0.0))
        t_low = float(record[AT["t_low"].start])
        found.append(
            Model(
                name=f"two_step degree {form.degree}" if two_step else form.name,
                notes=notes,
                family=form.family,
                degree=form.degree,
                serial=tuple(solved.serial[:, i].tolist()),
                parallel=tuple(solved.parallel[:, i].tolist()),
                fraction=float(solved.fraction[i]),
                deviation=deviation,
                freedom=max(float(freedom[i]), 1.0),
                rows=int(part.integers("rows")[i]),
                runs=int(counts.runs(part, i)),
                origin=float(record[AT["origin"].start]),
                scale=float(record[AT["scale"].start]),
                x_range=(float(record[AT["x_low"].start]), float(record[AT["x_high"].start])),
                p_range=(float(record[AT["p_low"].start]), float(record[AT["p_high"].start])),
                floor=0.5 * min(timer_noise_s, t_low),
                noise_s=timer_noise_s,
                bias=float(bias[i]),
                gram=tuple((record[AT["gram"]] / weight[i]).tolist()),
            )
        )
    return found


def add_loads(part: Table, models: Sequence[Model]) -> None:
    """Fill `load` of the models of `part`'s components, in order. Cost O(n)."""
    coefficients = [np.array([getattr(model, name) for model in models]).T for name in ("serial", "parallel")]
    pairs = zip(*(values.tolist() for values in expected_load(part, *coefficients)), strict=True)
    for model, pair in zip(models, pairs, strict=True):
        model.load = pair


def _mean_weight(part: Table, solved: amdahl.Solutions, timer_noise_s: float) -> Floats:
    """Return the mean of w (f^2 + t0^2) over the runs (n,): 1 where each is weighed by what it is predicted to take.

    The sums carry weights up to a factor (see `weighting`); a relative deviation must not.
    """
    runs = np.maximum(part["cell_runs"].sum(axis=0), TINY)
    explained = np.maximum(part["square"] - solved.residual, 0.0) + timer_noise_s * timer_noise_s * part["gram"][0]
    return np.where(explained > 0, explained / runs, 1.0)


def _bias(part: Table, solved: amdahl.Solutions) -> Floats:
    """Return sum w (t - f) / sum w f (n,), from the sums: what the curve misses on average, in relative terms."""
    gram = part["gram"]
    fitted = (solved.serial * gram[:COEFFICIENTS] + solved.parallel * gram[MOMENTS : MOMENTS + COEFFICIENTS]).sum(
        axis=0
    )
    return np.where(fitted > 0, part["right"][0] / np.where(fitted > 0, fitted, 1.0) - 1.0, 0.0)


def form_names() -> tuple[str, ...]:
    """Return the names of the forms that can be forced."""
    return tuple(form.name for form in FORMS)


def _notes(part: Table, solved: amdahl.Solutions, i: int, form: Form) -> tuple[str, ...]:
    notes: list[str] = []
    if solved.preferred[i] != solved.form[i]:
        wished = FORMS[int(solved.preferred[i])].name
        notes.append(f"{wished} fits better but is not positive on the seen range")
    if part["p_low"][i] >= part["p_high"][i]:
        notes.append(f"one core count seen: parallel fraction {FRACTION_UNKNOWN} assumed")
    if part["x_low"][i] >= part["x_high"][i]:
        notes.append("one predictor value seen: no dependence on it is known")
    elif form.family != "proportional" and solved.used[i] < form.columns + (form.family == "joint") * (
        part["p_low"][i] < part["p_high"][i]
    ):
        notes.append("too narrow a band of predictors for this degree: higher terms left out")
    if counts.evidence(part, i) - solved.used[i] < 1.0:
        notes.append("too few rows to estimate the noise: the interval is a guess")
    return tuple(notes)


def _information(model: Model) -> Elimination:
    """Return M = sum w J J', factored. Products of J's polynomials in u and 1/p are moments that the Gram matrix holds."""
    g = model.gram
    if model.family == "free":
        size = 2 * (model.degree + 1)
        matrix = [[g[MOMENTS * (i % 2 + j % 2) + i // 2 + j // 2] for j in range(size)] for i in range(size)]
        return Elimination(matrix, [0.0] * size)
    a, b = model.fraction, 1.0 - model.fraction
    g0, g1, g2 = g[:MOMENTS], g[MOMENTS : 2 * MOMENTS], g[2 * MOMENTS :]
    # Moments of the squared factor (1 - a + a/p)^2, of the factor with its derivative 1/p - 1, of that derivative squared.
    plain = [b * b * k0 + 2.0 * a * b * k1 + a * a * k2 for k0, k1, k2 in zip(g0, g1, g2, strict=True)]
    mixed = [-b * k0 + (b - a) * k1 + a * k2 for k0, k1, k2 in zip(g0, g1, g2, strict=True)]
    steep = [k0 - 2.0 * k1 + k2 for k0, k1, k2 in zip(g0, g1, g2, strict=True)]
    if model.family == "proportional":
        bases = [[model.origin / model.scale, 1.0]]
    else:
        bases = [[0.0] * j + [1.0] for j in range(model.degree + 1)]
    sequential = [s + v for s, v in zip(model.serial, model.parallel, strict=True)]
    matrix = [[_moment(plain, one, two) for two in bases] for one in bases]
    if model.p_range[0] < model.p_range[1]:
        edge = [_moment(mixed, one, sequential) for one in bases]
        matrix = [[*row, e] for row, e in zip(matrix, edge, strict=True)]
        matrix.append([*edge, _moment(steep, sequential, sequential)])
    return Elimination(matrix, [0.0] * len(matrix))


def _moment(moments: Sequence[float], one: Sequence[float], two: Sequence[float]) -> float:
    """Return the sum of one * two over the rows, both polynomials in u."""
    return sum(c * d * moments[i + j] for i, c in enumerate(one) if c for j, d in enumerate(two) if d)


def predict_one(model: Model, x: float, p: float, level: float) -> tuple[float, float, float, float]:
    """Return (elapsed_s, low_s, high_s, extrapolates) at one point. Cost: a few dozen float operations."""
    value, u, log_outside = _point(model, x, p)
    spread, leverage = _spread(model, value, u, 1.0 / p, log_outside)
    ratio = exp(min(quantile(level, model.freedom) * spread, SD_MAX))
    low, high = value / ratio, value * ratio
    if model.p_range[0] >= model.p_range[1] and p != model.p_range[0] and model.family != "free":
        # The parallel fraction is unknown: the interval holds every fraction from 0 to 1.
        seen = model.p_range[0]
        at_seen = value * (1.0 - model.fraction + model.fraction / seen) / (1.0 - model.fraction + model.fraction / p)
        low, high = min(low, at_seen * min(1.0, seen / p) / ratio), max(high, at_seen * max(1.0, seen / p) * ratio)
    outside = abs(log_outside) / LN2
    p_low, p_high = model.p_range
    outside += log2(p / p_high) if p > p_high else log2(p_low / p) if p < p_low else 0.0
    if leverage > 1.0:
        outside = max(outside, 0.5 * log2(leverage))
    return value, low, high, outside


def value_of(model: Model, x: float, p: float) -> float:
    """Return the elapsed time at one point, as `predict_one` does."""
    return _point(model, x, p)[0]


def _point(model: Model, x: float, p: float) -> tuple[float, float, float]:
    """Return (value, u at the nearest seen predictor, log of the distance outside)."""
    low, high = model.x_range
    edge = low if x < low else high if x > high else x
    u = (edge - model.origin) / model.scale
    (a0, a1, a2, a3), (b0, b1, b2, b3) = model.serial, model.parallel
    serial = a0 + u * (a1 + u * (a2 + u * a3))
    parallel = b0 + u * (b1 + u * (b2 + u * b3))
    q, scaling = _cores_term(model, serial, parallel, p)
    value = (serial + parallel * q) * scaling
    log_outside = 0.0
    if edge != x:
        # Zero has no logarithm: both ends are lifted by the basis' resolution.
        lift = model.scale * LIFT
        ratio = (x + lift) / (edge + lift)
        log_outside = log2(ratio) * LN2
        rise = a1 + u * (2.0 * a2 + u * 3.0 * a3) + (b1 + u * (2.0 * b2 + u * 3.0 * b3)) * q
        slope = rise * scaling * edge / model.scale / value if value > 0 else 0.0
        value *= ratio ** min(max(slope, 0.0), float(DEGREE_MAX))
    return max(value, model.floor), u, log_outside


def _cores_term(model: Model, serial: float, parallel: float, p: float) -> tuple[float, float]:
    """Return (1 / p, factor) such that the curve stays positive outside the seen core counts.

    A run time that rises with p stays flat below them; one that falls faster than 1/p falls as 1/p beyond them.
    """
    p_low, p_high = model.p_range
    if parallel < 0 and p < p_low:
        return 1.0 / p_low, 1.0
    if serial < 0 and p > p_high:
        return 1.0 / p_high, p_high / p
    return 1.0 / p, 1.0


def _spread(model: Model, value: float, u: float, q: float, log_outside: float) -> tuple[float, float]:
    """Return the standard deviation of log time, and the leverage: the curve's own variance in units of one run's."""
    own = model.own_variance(u, q)
    run = value * value + model.noise_s * model.noise_s
    leverage = own / run
    relative = model.deviation * sqrt(run * (1.0 + leverage)) / value
    return hypot(relative, SLOPE_SD * log_outside), leverage


def values(model: Model, x: Any, p: Any) -> Floats:
    """Return elapsed times elementwise, as `predict_one` gives them. Cost O(points)."""
    x, p = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(p, np.float64))
    return _points(model, x, p)[0]


def _points(model: Model, x: Floats, p: Floats) -> tuple[Floats, Floats, Floats]:
    """Return `_point` elementwise, but the ratio of the distance outside and not its log."""
    edge = np.minimum(np.maximum(x, model.x_range[0]), model.x_range[1])
    u = (edge - model.origin) / model.scale
    (a0, a1, a2, a3), (b0, b1, b2, b3) = model.serial, model.parallel
    serial = a0 + u * (a1 + u * (a2 + u * a3))
    parallel = b0 + u * (b1 + u * (b2 + u * b3))
    p_low, p_high = model.p_range
    q = 1.0 / np.where(parallel < 0, np.maximum(p, p_low), np.where(serial < 0, np.minimum(p, p_high), p))
    scaling = np.where(serial < 0, np.minimum(p_high / p, 1.0), 1.0)
    value = (serial + parallel * q) * scaling
    lift = model.scale * LIFT
    ratio = (x + lift) / (edge + lift)
    positive = np.where(value > 0, value, np.inf)
    rise = a1 + u * (2.0 * a2 + u * 3.0 * a3) + (b1 + u * (2.0 * b2 + u * 3.0 * b3)) * q
    slope = rise * scaling * edge / model.scale / positive
    value = value * ratio ** np.minimum(np.maximum(slope, 0.0), float(DEGREE_MAX))
    return np.maximum(value, model.floor), u, ratio


def _many(model: Model, x: Floats, p: Floats, level: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return `predict_one` elementwise."""
    value, u, beyond = _points(model, x, p)
    log_outside = np.log(beyond)
    own = model.own_variance(u, 1.0 / p)
    run = value * value + model.noise_s * model.noise_s
    leverage = own / run
    spread = np.hypot(model.deviation * np.sqrt(run * (1.0 + leverage)) / value, SLOPE_SD * log_outside)
    ratio = np.exp(np.minimum(quantile(level, model.freedom) * spread, SD_MAX))
    low, high = value / ratio, value * ratio
    if model.p_range[0] >= model.p_range[1] and model.family != "free":
        seen = model.p_range[0]
        at_seen = value * (1.0 - model.fraction + model.fraction / seen) / (1.0 - model.fraction + model.fraction / p)
        low = np.minimum(low, at_seen * np.minimum(1.0, seen / p) / ratio)
        high = np.maximum(high, at_seen * np.maximum(1.0, seen / p) * ratio)
    p_low, p_high = model.p_range
    outside = np.abs(log_outside) / LN2 + np.maximum(np.log2(p / p_high), 0.0) + np.maximum(np.log2(p_low / p), 0.0)
    return (
        value,
        low,
        high,
        np.maximum(outside, np.where(leverage > 1.0, 0.5 * np.log2(np.maximum(leverage, 1.0)), 0.0)),
    )


def predict(model: Model, predictor: Any, cores: Any, level: float) -> Prediction:
    """Return the prediction for floats, or elementwise for arrays that broadcast together."""
    if isinstance(predictor, float) and isinstance(cores, float):
        value, low, high, outside = predict_one(model, predictor, cores, level)
    else:
        x, p = np.broadcast_arrays(np.asarray(predictor, np.float64), np.asarray(cores, np.float64))
        value, low, high, outside = _many(model, x, p, level)
    return Prediction(value, low, high, model.name, model.notes, model.runs, outside)
