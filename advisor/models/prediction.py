"""A solved model of one component, and what it predicts: value, interval, distance outside what was seen.

Inside what was seen the curve is T(x, p) = A(u) + B(u) / p. Beyond the seen core counts a curve that rises with p stays flat
below, one that falls faster than 1/p falls as 1/p above. Beyond the seen predictors it continues as a power of x with the
log-slope at the edge, kept within 0 and 3. A prediction is positive by mechanism: never below half the smallest elapsed time
that could have been measured.

One run's time has variance s^2 (T^2 + t0^2) and the curve's own adds s^2 J' M^-1 J, M being the information matrix, read from
the sums, of A and B and J the gradient. The interval is symmetric in log time, so its lower end is positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from operator import mul
from typing import Any

import numpy as np

from advisor.domain import elementary
from advisor.domain.answers import Prediction
from advisor.domain.elementary import added
from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S
from advisor.domain.vectors import Floats
from advisor.models.elimination import TINY, Elimination
from advisor.models.forms import AMDAHL, FRACTION_UNKNOWN, Numbers, over_range, solve
from advisor.models.layout import AT, COEFFICIENTS, DEGREE_MAX, MOMENTS, NOISE, NOISE_S
from advisor.models.student import quantile

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
    """One component's solved model: `serial` and `parallel` are A_j and B_j (four each) over u = (x - origin) / scale."""

    name: str
    notes: tuple[str, ...]
    serial: Numbers
    parallel: Numbers
    fraction: float  # parallel fraction a
    deviation: float  # relative standard deviation s of one run
    freedom: float  # degrees of freedom of `deviation`
    runs: int
    origin: float
    scale: float
    x_range: tuple[float, float]
    p_range: tuple[float, float]
    floor: float
    bias: float  # sum w (t - f) / sum w f
    gram: Floats  # of weights whose mean is that of 1 / (f^2 + t0^2)
    information: Elimination | None = None  # the information matrix of A and B, factored at the first interval

    def own_variance(self, u: Any, q: Any) -> Any:
        """Return J' M^-1 J at u and q = 1 / p, of one shape: the curve's own variance in units of s^2."""
        if self.information is None:
            columns = [(j, k) for j in range(COEFFICIENTS) for k in range(2)]  # 1, 1/p, u, u/p, u^2, ...
            moments = self.gram.reshape(3, MOMENTS).tolist()
            matrix = [[moments[k + other][j + power] for power, other in columns] for j, k in columns]
            self.information = Elimination(matrix, [0.0] * len(columns))
        powers = [1.0, u, u * u, u * u * u]  # an array's ** rounds otherwise on other processors
        return self.information.quadratic([power * factor for power in powers for factor in (1.0, q)])


def model_of(words: Floats, form: str | None = None) -> Model:
    """Return the solved model of a component's words (WORDS,): `forms.AMDAHL`, or another of `forms.NAMES`."""
    form = form or AMDAHL
    words = over_range(words) if form == AMDAHL else words
    fit = solve(words, form)
    whole = words.view(np.int64)
    one = {name: float(words[at.start]) for name, at in AT.items() if at.stop - at.start == 1}
    rows = int(whole[AT["rows"].start])
    freedom = rows - one["forgotten"] - fit.used
    # The mean of w (f^2 + t0^2) over the runs: 1 where each is weighed by what it is predicted to take. The sums carry weights
    # up to a factor (see `weighting`); a relative deviation must not.
    runs = max(float(words[AT["cell_runs"]].sum()), TINY)
    gram = words[AT["gram"]]
    weight = (max(one["square"] - fit.residual, 0.0) + NOISE * float(gram[0])) / runs
    weight = weight if weight > 0.0 else 1.0
    deviation = sqrt(fit.residual / weight / max(freedom, 1.0))
    fitted = added(
        map(mul, [*fit.serial, *fit.parallel], [*gram[:COEFFICIENTS], *gram[MOMENTS : MOMENTS + COEFFICIENTS]])
    )
    notes = {
        f"one core count seen: parallel fraction {FRACTION_UNKNOWN} assumed": one["p_low"] >= one["p_high"],
        "one predictor value seen: no dependence on it is known": one["x_low"] >= one["x_high"],
        "too few rows to estimate the noise: the interval is a guess": freedom < 1.0,
    }
    return Model(
        name=fit.name,
        notes=tuple(note for note, holds in notes.items() if holds),
        serial=fit.serial,
        parallel=fit.parallel,
        fraction=fit.fraction,
        deviation=max(deviation, FEW_ROWS_SD * 0.5 ** max(freedom, 0.0)),
        freedom=max(freedom, 1.0),
        runs=rows + int(whole[AT["extra_runs"].start]),
        origin=one["origin"],
        scale=one["scale"],
        x_range=(one["x_low"], one["x_high"]),
        p_range=(one["p_low"], one["p_high"]),
        floor=0.5 * min(NOISE_S, one["t_low"]),
        bias=float(words[AT["right"].start]) / fitted - 1.0 if fitted > 0.0 else 0.0,
        gram=gram / weight,
    )


def values(model: Model, x: Any, p: Any) -> Floats:
    """Return elapsed times elementwise, as `predict` gives them. Cost O(points)."""
    x, p = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(p, np.float64))
    return _points(model, x, p)[0]


def _points(model: Model, x: Floats, p: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the values, u at the nearest seen predictors, and the ratios of predictors to these.

    A run time that rises with p stays flat below the seen core counts; one that falls faster than 1/p falls as 1/p beyond them.
    """
    edge = np.minimum(np.maximum(x, model.x_range[0]), model.x_range[1])
    u = (edge - model.origin) / model.scale
    (serial, serial_rise), (parallel, parallel_rise) = (_polynomial(c, u) for c in (model.serial, model.parallel))
    p_low, p_high = model.p_range
    q = 1.0 / np.where(parallel < 0, np.maximum(p, p_low), np.where(serial < 0, np.minimum(p, p_high), p))
    scaling = np.where(serial < 0, np.minimum(p_high / p, 1.0), 1.0)
    value = (serial + parallel * q) * scaling
    lift = model.scale * LIFT  # zero has no logarithm
    ratio = (x + lift) / (edge + lift)
    slope = (serial_rise + parallel_rise * q) * scaling * edge / model.scale / np.where(value > 0, value, np.inf)
    value = value * elementary.power(ratio, np.minimum(np.maximum(slope, 0.0), float(DEGREE_MAX)))
    return np.maximum(value, model.floor), u, ratio


def _polynomial(c: Numbers, u: Floats) -> tuple[Floats, Floats]:
    """Return a polynomial of coefficients c, lowest power first, and its derivative."""
    value, rise = 0.0 * u, 0.0 * u
    for each in reversed(c):
        value, rise = each + u * value, value + u * rise
    return value, rise


def _many(model: Model, x: Floats, p: Floats, level: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return (elapsed_s, low_s, high_s, extrapolates) elementwise."""
    value, u, beyond = _points(model, x, p)
    log_outside = elementary.log(beyond)
    own = model.own_variance(u, 1.0 / p)
    run = value * value + NOISE
    leverage = own / run
    spread = np.sqrt(model.deviation**2 * (run * (1.0 + leverage)) / value**2 + (SLOPE_SD * log_outside) ** 2)
    ratio = elementary.exp(np.minimum(quantile(level, model.freedom) * spread, SD_MAX))
    low, high = value / ratio, value * ratio
    p_low, p_high = model.p_range
    if p_low >= p_high:  # the parallel fraction is unknown: the interval holds every fraction from 0 to 1
        at_seen = _points(model, x, np.full_like(p, p_low))[0]
        low = np.minimum(low, at_seen * np.minimum(1.0, p_low / p) / ratio)
        high = np.maximum(high, at_seen * np.maximum(1.0, p_low / p) * ratio)
    outside = (
        np.abs(log_outside) / LN2
        + np.maximum(elementary.log2(p / p_high), 0.0)
        + np.maximum(elementary.log2(p_low / p), 0.0)
    )
    value, low, high = np.clip((value, low, high), ELAPSED_MIN_S, ELAPSED_MAX_S)
    return value, low, high, np.maximum(outside, 0.5 * elementary.log2(np.maximum(leverage, 1.0)))


def predict(model: Model, predictor: Any, cores: Any, level: float) -> Prediction:
    """Return the prediction for floats, or elementwise for arrays that broadcast together."""
    x, p = np.broadcast_arrays(np.asarray(predictor, np.float64), np.asarray(cores, np.float64))
    found = _many(model, x, p, level)
    value, low, high, outside = found if x.ndim else map(float, found)
    return Prediction(value, low, high, model.name, model.notes, model.runs, outside)
