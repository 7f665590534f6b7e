"""Extended Amdahl models of one component, fitted by exact least squares from its sums.

    amdahl         T = A(u) + B(u) / p, A and B cubic            answers where a component has no learner
    joint k        T = (1 - a + a/p) S(u), S of degree k         the law of paper 1, by name
    two_step       the same, as the paper fits it                by name

`amdahl` is the best fit in a cone of Bernstein polynomials (`weighting.fit_cone`) over what was seen: positive there, whatever
the rows were, so that nothing has to be chosen by evidence; it may rise with p, as threads cost small inputs. For a given a the
joint form is linear least squares; a minimises its residual R(a) on [0, 1]. In two steps, S(x) is fitted, unweighted, to the
rows at the fewest cores p_min, and a comes from the rows at the highest (cores, then predictor): with r = T / S(x*),
a = (1 - r) / ((1 - 1/p*) - r (1 - 1/p_min)), clamped to 0 for r >= 1 and to 1 for r <= p_min / p* (the formula has a pole
beyond). Where no degree is named the least criterion n ln(RSS / n) + k ln(n) n / (n - k - 1) chooses it: BIC, and the last
factor, as in AICc, keeps nearly as many coefficients as rows from winning by interpolation.

Source: extended Amdahl model, sections 3.1, 3.2 and 3.4 (the paper prints a without the "1 -", a misprint).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nan
from operator import mul, sub

import numpy as np

from advisor.domain import elementary
from advisor.domain.elementary import added, log
from advisor.domain.vectors import Floats
from advisor.models.elimination import TINY, Elimination
from advisor.models.fold import KERNELS
from advisor.models.layout import AT, COEFFICIENTS, MOMENTS
from advisor.models.sums import relocate  # pyright: ignore[reportUnknownVariableType] - a kernel

Numbers = list[float]

# Of the serial fraction 1 - a: at 2**20 cores, the most that are legal, a serial fraction of 2**-20 still doubles the time.
SERIAL_MIN = 2.0**-22
SWEEPS = 400  # of coordinate descent: 20 microseconds; the fit of a law without noise is then right to 1e-4
NEWTON_STEPS = 40  # five suffice where R is smooth; a flat minimum bisects the rest
STEP_ENOUGH = 1e-4  # of the serial fraction: after a Newton step this small the next is its square, about 1e-8 of it
FRACTION_UNKNOWN = 0.5  # assumed while all rows have one core count: says "more cores may help"; noted
BAND_LEAST = 1e-6  # of the scale: a narrower range is one predictor, for powers of it tell nothing apart
ROUNDING = 1e-13  # of the sum of squares: the residual is a difference of sums and means nothing below
AMDAHL, TWO_STEP = "amdahl", "two_step"
JOINTS, TWO_STEPS = (tuple(f"{name} degree {k}" for k in range(COEFFICIENTS)) for name in ("joint", TWO_STEP))
NAMES = (AMDAHL, TWO_STEP, *TWO_STEPS, *JOINTS)


@dataclass(frozen=True, slots=True)
class Fit:
    """A form fitted to a component: T = sum_j (A_j + B_j / p) u^j."""

    name: str
    serial: Numbers  # A_j: four
    parallel: Numbers  # B_j
    fraction: float  # parallel fraction a; of `amdahl` the share of B in the mean time on one core
    used: float  # coefficients that the sums could determine, a included
    residual: float  # weighted sum of squares


class Sums:
    """A component's sums, from its words (WORDS,)."""

    def __init__(self, words: Floats) -> None:
        def block(name: str) -> Numbers:
            return words[AT[name]].tolist()

        def one(name: str) -> float:
            return float(words[AT[name].start])

        gram, right = block("gram"), block("right")
        self.words = words
        self.gram = [gram[MOMENTS * q : MOMENTS * (q + 1)] for q in range(3)]
        self.right = [right[COEFFICIENTS * q : COEFFICIENTS * (q + 1)] for q in range(2)]
        self.square = one("square")
        self.scale = one("scale") or 1.0
        self.origin = one("origin") if isfinite(one("origin")) else 0.0
        self.p_low, self.p_high = one("p_low"), one("p_high")
        self.one_p = self.p_low >= self.p_high
        least = [block(name) for name in ("least_gram", "least_right")]
        self.least = least[0], least[1], one("least_square")
        self.top = one("top_predictor"), one("top_sum") / max(one("top_runs"), TINY)


def over_range(words: Floats) -> Floats:
    """Return a copy of a component's words with the predictors seen as the unit interval, where they are a range."""
    words = words.copy()
    low, high, scale = (float(words[AT[name].start]) for name in ("x_low", "x_high", "scale"))
    if high - low > BAND_LEAST * scale:
        relocate(words, low, high - low)
    return words


def solve(words: Floats, name: str) -> Fit:
    """Return the fit of one of `NAMES` to a component's words (WORDS,) that stand for some rows; `amdahl`: `over_range`."""
    sums = Sums(words)
    if name == AMDAHL:
        return _amdahl(sums)
    return _joint(name, sums) if name in JOINTS else two_step(sums, name)


def _amdahl(sums: Sums) -> Fit:
    few, many, model = 1.0 / sums.p_low, 1.0 / sums.p_high, np.empty(2 * COEFFICIENTS)
    basis = 1.0, 0.0, 0.0, 1.0
    if not sums.one_p:  # 1 on the fewest cores and 0 on the most, and the other way round
        step = 1.0 / (few - many)
        basis = -many * step, step, few * step, -step
    used = KERNELS.fit_cone(sums.words, model, *basis, SWEEPS)
    serial, parallel = model[:COEFFICIENTS], model[COEFFICIENTS:]
    if sums.one_p:
        a = FRACTION_UNKNOWN
        return _split(AMDAHL, ((serial + parallel * few) / (1.0 - a + a * few)).tolist(), a, used, sums)
    alone, shared = (elementary.weighted(curve, sums.gram[0][:COEFFICIENTS]) for curve in (serial, parallel))
    fraction = min(max(shared / max(alone + shared, TINY), 0.0), 1.0)
    parts = serial.tolist(), parallel.tolist()
    return Fit(AMDAHL, *parts, fraction, used, _residual(sums, parts))


def _split(name: str, s: Numbers, a: float, used: float, sums: Sums) -> Fit:
    """Return the fit T = (1 - a + a / p) S of S's coefficients `s`."""
    s = s + [0.0] * (COEFFICIENTS - len(s))
    parts = [(1.0 - a) * v for v in s], [a * v for v in s]
    return Fit(name, *parts, a, used, _residual(sums, parts))


def _residual(sums: Sums, parts: tuple[Numbers, Numbers]) -> float:
    """Return the weighted residual of a curve over all rows, from the joint sums: sum w t^2 - 2 c'r + c'G c."""
    total = sums.square
    for q, first in enumerate(parts):
        total -= 2.0 * added(map(mul, first, sums.right[q]))
        for r, second in enumerate(parts):
            total += added(c * d * sums.gram[q + r][i + j] for i, c in enumerate(first) for j, d in enumerate(second))
    return max(total, 0.0)


def _joint(name: str, sums: Sums) -> Fit:
    k = JOINTS.index(name) + 1
    a = _newton(k, sums)
    system = _joint_at(k, a, sums)
    return _split(name, system.solution(k), a, added(system.used) + (1.0 - sums.one_p), sums)


def _joint_at(k: int, a: float, sums: Sums) -> Elimination:
    """Return the normal equations N(a) s = r(a) of the joint form with k coefficients, factored."""
    b = 1.0 - a
    c0, c1, c2 = b * b, 2.0 * a * b, a * a
    moments = [c0 * g0 + c1 * g1 + c2 * g2 for g0, g1, g2 in zip(*(g[: 2 * k - 1] for g in sums.gram), strict=True)]
    right = [b * r0 + a * r1 for r0, r1 in zip(sums.right[0][:k], sums.right[1][:k], strict=True)]
    return Elimination([moments[i : i + k] for i in range(k)], right)


def _newton(k: int, sums: Sums) -> float:
    """Return the parallel fraction that minimises R(a) on [0, 1], where there are two core counts or more.

    R' = -2 r'.s + s'N's and R'' = s'N''s - 2 d'N^-1 d, d = r' - N's, with N s = r (envelope theorem). The sign of R' keeps
    a bracket about the minimum (one, but for noise of more than a factor 2; tests compare with a fine grid); a step that
    leaves it becomes a bisection of the serial fraction, geometric, since at many cores its ratio matters and not its
    difference.
    """
    if sums.one_p:
        return FRACTION_UNKNOWN
    a, low, high = FRACTION_UNKNOWN, 0.0, 1.0
    grams = [row[: 2 * k - 1] for row in sums.gram]
    second = [2.0 * (g0 - 2.0 * g1 + g2) for g0, g1, g2 in zip(*grams, strict=True)]
    slope = [sums.right[1][i] - sums.right[0][i] for i in range(k)]
    for _ in range(NEWTON_STEPS):
        system = _joint_at(k, a, sums)
        s = system.solution(k)
        c0, c1, c2 = 2.0 * (a - 1.0), 2.0 - 4.0 * a, 2.0 * a
        first = [c0 * g0 + c1 * g1 + c2 * g2 for g0, g1, g2 in zip(*grams, strict=True)]
        moved = [added(map(mul, first[i:], s)) for i in range(k)]
        gradient = added(map(mul, s, moved)) - 2.0 * added(map(mul, s, slope))
        bend = added(s[i] * added(map(mul, second[i:], s)) for i in range(k))
        curvature = bend - 2.0 * system.quadratic(list(map(sub, slope, moved)))
        # The root lies where the gradient points: the bracket shrinks from that side, so a step never leaves it.
        low, high = (a, high) if gradient < 0 else (low, a) if gradient > 0 else (low, high)
        step = a - gradient / curvature if curvature > 0 else nan
        direct = (step <= low == 0.0) or (step >= high == 1.0) or low < step < high
        middle = 1.0 - ((1.0 - low) * max(1.0 - high, SERIAL_MIN)) ** 0.5
        new = a if gradient == 0 and not direct else min(max(step if direct else middle, low), high)
        if (direct or gradient == 0) and abs(new - a) <= STEP_ENOUGH * (1.0 - a):
            return new
        a = new
    return a


def two_step(sums: Sums, name: str) -> Fit:
    """Return paper 1's two-step model: of the degree that its name ends with, or of the one with the least criterion."""
    gram, right, square = sums.least
    system = Elimination([gram[i : i + COEFFICIENTS] for i in range(COEFFICIENTS)], right)
    rows = max(gram[0], 1.0)

    def criterion(k: int) -> float:
        used = added(system.used[: k + 1])
        if rows <= used + 1.0:
            return inf
        residual = max(square - added(system.gains[: k + 1]), ROUNDING * square + TINY)
        return rows * log(residual / rows) + used * log(rows) * rows / (rows - used - 1.0)

    degree = min(range(COEFFICIENTS), key=criterion) if name == TWO_STEP else TWO_STEPS.index(name)
    s = system.solution(degree + 1)
    x, mean = sums.top
    u = (x - sums.origin) / sums.scale
    top = added(v * u**j for j, v in enumerate(s)) if isfinite(u) else 0.0
    a = parallel_fraction(mean / top if top > 0.0 else inf, sums.p_high, sums.p_low)
    # S is fitted at p_min: T_pmin = (1 - a + a / p_min) S_1.
    single = 1.0 / (1.0 - a + a / sums.p_low)
    return _split(TWO_STEPS[degree], [single * v for v in s], a, added(system.used[: degree + 1]) + 1.0, sums)


def parallel_fraction(ratio: float, p_top: float, p_least: float) -> float:
    """Return a in [0, 1] from r = T_p* / S_min(x*), `FRACTION_UNKNOWN` where p* = p_min tells nothing.

    Solves T_p*(x*) / T_pmin(x*) = r for a, T_p = a S / p + (1 - a) S.
    """
    if not p_top > p_least:
        return FRACTION_UNKNOWN
    if ratio >= 1.0:
        return 0.0
    if ratio <= p_least / p_top:
        return 1.0
    return min(max((1.0 - ratio) / ((1.0 - 1.0 / p_top) - ratio * (1.0 - 1.0 / p_least)), 0.0), 1.0)
