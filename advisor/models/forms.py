"""Extended Amdahl models of one component: the forms, fitted by exact least squares from its sums, and which one answers.

    joint k        T = (1 - a + a/p) S(u), S of degree k        the law of paper 1; k + 2 coefficients
    proportional   T = (1 - a + a/p) b x                        what a size-proportional component is; 2 coefficients
    free k         T = A(u) + B(u)/p, A and B of degree k       time that is partly independent of the size; 2 (k + 1)

For a given a the joint forms are linear least squares; a minimises their residual R(a) on [0, 1]. `two_step` is paper 1's model
as the paper has it: S(x) is fitted, unweighted, to the rows at the fewest cores p_min, and a comes from the rows at the highest
(cores, then predictor): with r = T / S(x*), a = (1 - r) / ((1 - 1/p*) - r (1 - 1/p_min)), clamped to 0 for r >= 1 and to 1 for
r <= p_min / p* (the formula has a pole beyond). By name it has any degree up to 3.

Among forms that are positive on the seen range the least criterion answers: BIC with a small-sample penalty,
n ln(RSS / n) + k ln(n) n / (n - k - 1); the last factor is that of AICc, which keeps a form with nearly as many coefficients as
rows from winning by interpolation.

Source: extended Amdahl model, sections 3.1, 3.2 and 3.4 (the paper prints a without the "1 -", a misprint).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import copysign, inf, isfinite, nan, sqrt
from operator import mul, sub

import numpy as np

from advisor.domain.elementary import added, log
from advisor.domain.vectors import Floats
from advisor.models.elimination import PIVOT_MIN, TINY, Elimination
from advisor.models.layout import AT, COEFFICIENTS, MOMENTS, NOISE_S

Numbers = list[float]

# Of the serial fraction 1 - a: at 2**20 cores, the most that are legal, a serial fraction of 2**-20 still doubles the time.
SERIAL_MIN = 2.0**-22
NEWTON_STEPS = 12  # from the free form's fraction two or three suffice; a flat minimum bisects the rest
STEP_ENOUGH = 1e-4  # of the serial fraction: after a Newton step this small the next is its square, about 1e-8 of it
START_MARGIN = 1e-4  # the search starts this far inside [0, 1]: at the ends themselves a bracket would be empty
FRACTION_UNKNOWN = 0.5  # assumed while all rows have one core count: says "more cores may help"; noted
FLOOR_SHARE = 0.5  # of the smallest elapsed time seen: S must stay above it on the seen range
ROUNDING = 1e-13  # of the sum of squares: the residual is a difference of sums and means nothing below
EQUAL = 1e-6  # of the criterion: forms closer than this are the same curve written twice, and the first one answers
TWO_STEP = "two_step"


@dataclass(frozen=True, slots=True)
class Form:
    """One candidate: its name, family and degree."""

    name: str
    family: str  # "joint", "proportional" or "free"
    degree: int

    @property
    def columns(self) -> int:
        """Return how many linear coefficients the form has."""
        return {"proportional": 1, "free": 2 * (self.degree + 1)}.get(self.family, self.degree + 1)


FORMS: tuple[Form, ...] = (
    *(Form(f"joint degree {k}", "joint", k) for k in range(COEFFICIENTS)),
    Form("proportional", "proportional", 1),
    *(Form(f"free degree {k}", "free", k) for k in range(1, COEFFICIENTS)),
)
FORM_OF = {form.name: form for form in FORMS}
# Names that `solve` takes: paper 1's model with a degree of its choice, or with the one that the paper assumes known.
TWO_STEPS = tuple(f"{TWO_STEP} degree {k}" for k in range(COEFFICIENTS))
NAMES = (TWO_STEP, *TWO_STEPS, *FORM_OF)


@dataclass(frozen=True, slots=True)
class Fit:
    """A form fitted to a component: T = sum_j (A_j + B_j / p) u^j."""

    form: Form
    serial: Numbers  # A_j: four
    parallel: Numbers  # B_j
    fraction: float  # parallel fraction a; NaN for the free form
    residual: float  # weighted sum of squares
    used: float  # coefficients that the sums could determine, a included
    valid: bool  # the curve is positive on what was seen
    preferred: Form | None = None  # what the evidence alone would take, where its curve is not positive


class Sums:
    """A component's sums, from its words (WORDS,)."""

    def __init__(self, words: Floats) -> None:
        def block(name: str) -> Numbers:
            return words[AT[name]].tolist()

        def one(name: str) -> float:
            return float(words[AT[name].start])

        gram, right = block("gram"), block("right")
        self.gram = [gram[MOMENTS * q : MOMENTS * (q + 1)] for q in range(3)]
        self.right = [right[COEFFICIENTS * q : COEFFICIENTS * (q + 1)] for q in range(2)]
        self.square = one("square")
        self.evidence = float(words.view(np.int64)[AT["rows"].start]) - one("forgotten")
        self.scale = one("scale") or 1.0
        self.origin = one("origin") if isfinite(one("origin")) else 0.0
        x_low, x_high, p_low, p_high = (one(name) for name in ("x_low", "x_high", "p_low", "p_high"))
        seen = x_high >= x_low
        self.low = (x_low - self.origin) / self.scale if seen else 0.0
        self.high = (x_high - self.origin) / self.scale if seen else 0.0
        self.offset = self.origin / self.scale  # x / scale = offset + u
        # A curve that dips below zero by less than the timer's noise is as good as zero there; prediction has a floor.
        self.floor = (FLOOR_SHARE * one("t_low") if seen else 0.0) - NOISE_S
        self.p_low, self.p_high = (p_low, p_high) if seen else (1.0, 1.0)
        self.one_p = p_low >= p_high
        least = [block(name) for name in ("least_gram", "least_right")]
        self.least = least[0], least[1], one("least_square")
        self.top = one("top_predictor"), one("top_sum") / max(one("top_runs"), TINY)
        columns = [(j, q) for j in range(COEFFICIENTS) for q in range(2)]  # of the free form: 1, 1/p, u, u/p, u^2, ...
        self.free = Elimination(
            [[self.gram[q + r][i + j] for j, r in columns] for i, q in columns], [self.right[q][j] for j, q in columns]
        )


def solve(words: Floats, name: str | None = None) -> Fit:
    """Return the fit that answers for a component's words (WORDS,): the best, or one of `NAMES`. Cost: some 100 microseconds.

    Forms are refined in the order of the best criterion that they can reach; the hopeless are not.
    """
    sums = Sums(words)
    if name is not None:
        return two_step(sums, name) if name.startswith(TWO_STEP) else fitted(FORM_OF[name], sums)
    found: list[tuple[float, int, Fit]] = []
    for possible, i in sorted((best_possible(form, sums), i) for i, form in enumerate(FORMS)):
        if any(fit.valid and possible > score + EQUAL for score, _, fit in found):
            break
        fit = fitted(FORMS[i], sums)
        score = criterion(fit.residual, sums.square, sums.evidence, fit.used)
        if score < inf:
            found.append((score, i, fit))
    allowed = [entry for entry in found if entry[2].valid]
    # With too few rows for any form, or none positive: the mean.
    best = _simplest(allowed) if allowed else fitted(FORMS[0], sums)
    preferred = _simplest(found).form if found else best.form
    return replace(best, preferred=None if preferred is best.form else preferred)


def _simplest(found: list[tuple[float, int, Fit]]) -> Fit:
    least = min(score for score, _, _ in found)
    return min((entry for entry in found if entry[0] <= least + EQUAL), key=lambda entry: entry[1])[2]


def criterion(residual: float, square: float, evidence: float, used: float) -> float:
    """Return the criterion of a residual, part of a sum of squares, at so many rows and coefficients; infinite: few rows."""
    rows = max(evidence, 1.0)
    spare = rows - used - 1.0
    if spare <= 0:
        return inf
    return rows * log(max(residual, ROUNDING * square + TINY) / rows) + used * log(rows) * rows / spare


def best_possible(form: Form, sums: Sums) -> float:
    """Return a lower bound of the form's criterion: the free form of the same degree nests it."""
    if form.family == "proportional":
        return criterion(sums.square - added(sums.free.gains[:4]), sums.square, sums.evidence, 2.0 - sums.one_p)
    columns = 2 * (form.degree + 1)
    used = added(sums.free.used[:columns])
    if form.family == "joint":
        # Where the free form could determine all its columns, so can the joint one; else no fewer than half of what it could.
        used = form.degree + 2.0 - sums.one_p if used == columns else max(0.5 * used, 1.0)
    return criterion(sums.square - added(sums.free.gains[:columns]), sums.square, sums.evidence, used)


def fitted(form: Form, sums: Sums) -> Fit:
    """Return a form fitted to the sums."""
    if form.family == "free":
        return _free(form, sums)
    return _proportional(form, sums) if form.family == "proportional" else _joint(form, sums)


def _split(form: Form, s: Numbers, a: float, residual: float, used: float, valid: bool) -> Fit:
    """Return the fit T = (1 - a + a / p) S."""
    s = s + [0.0] * (COEFFICIENTS - len(s))
    return Fit(form, [(1.0 - a) * v for v in s], [a * v for v in s], a, max(residual, 0.0), used, valid)


def _joint(form: Form, sums: Sums) -> Fit:
    a = _newton(form.degree + 1, sums)
    system = _joint_at(form.degree + 1, a, sums)
    s = system.solution(form.degree + 1)
    # On the fewest cores seen, where runs are longest: on less than one core they are longer than S.
    least = _least_on_range(s + [0.0] * (COEFFICIENTS - len(s)), sums.low, sums.high) * (1.0 - a + a / sums.p_low)
    return _split(
        form, s, a, sums.square - added(system.gains), added(system.used) + (1.0 - sums.one_p), least >= sums.floor
    )


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
    a, low, high = _start(k, sums), 0.0, 1.0
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


def _start(k: int, sums: Sums) -> float:
    """Return the share of the parallel part in the free form's mean: close to the joint form's a wherever that form is apt."""
    found, moments = sums.free.solution(2 * k), sums.gram[0]
    serial = added(found[2 * j] * moments[j] for j in range(k))
    parallel = added(found[2 * j + 1] * moments[j] for j in range(k))
    share = parallel / (serial + parallel) if serial + parallel > 0 else 0.5
    return min(max(share, START_MARGIN), 1.0 - START_MARGIN)


def _proportional(form: Form, sums: Sums) -> Fit:
    """S = b x / scale: moments of x^2 / scale^2 from those of u by the binomial rule; R(a) is a quotient of quadratics in a."""
    o = sums.offset
    g = [moments[2] + 2.0 * o * moments[1] + o * o * moments[0] for moments in sums.gram]
    r = [moments[1] + o * moments[0] for moments in sums.right]
    # Maximise (b r0 + a r1)^2 / (b^2 g0 + 2 a b g1 + a^2 g2), b = 1 - a: the direction G^-1 r, clipped to the quadrant.
    toward_0, toward_1 = max(r[0] * g[2] - r[1] * g[1], 0.0), max(r[1] * g[0] - r[0] * g[1], 0.0)
    total = toward_0 + toward_1
    a = toward_1 / total if total > 0 and not sums.one_p else FRACTION_UNKNOWN
    weight = (1.0 - a) ** 2 * g[0] + 2.0 * a * (1.0 - a) * g[1] + a * a * g[2]
    b = ((1.0 - a) * r[0] + a * r[1]) / weight if weight > PIVOT_MIN * PIVOT_MIN else 0.0
    residual = sums.square - b * ((1.0 - a) * r[0] + a * r[1])
    # With one predictor value it is degree 0 written twice: one more column lets degree 0, which says so, answer.
    used = 2.0 - sums.one_p + (sums.low >= sums.high)
    return _split(form, [b * o, b], a, residual, used, b * (o + sums.low) * (1.0 - a + a / sums.p_low) >= sums.floor)


def _free(form: Form, sums: Sums) -> Fit:
    columns = 2 * (form.degree + 1)
    found = sums.free.solution(columns)
    zeros = [0.0] * (COEFFICIENTS - form.degree - 1)
    serial, parallel = found[0::2] + zeros, found[1::2] + zeros
    # T is linear in 1/p: positive at both ends of the seen core counts, it is positive between them. A negative B is a
    # run time that rises with p (threads cost small inputs more than they bring); prediction bounds it outside.
    ends = ([a + b / p for a, b in zip(serial, parallel, strict=True)] for p in (sums.p_low, sums.p_high))
    positive = all(_least_on_range(curve, sums.low, sums.high) >= sums.floor for curve in ends)
    residual = max(sums.square - added(sums.free.gains[:columns]), 0.0)
    # With one core count 1/p tells nothing apart from 1: the joint forms, which say so, answer.
    return Fit(form, serial, parallel, nan, residual, added(sums.free.used[:columns]), positive and not sums.one_p)


def _least_on_range(c: Numbers, low: float, high: float) -> float:
    """Return the least value of the cubic c on [low, high]: at the ends or where its derivative vanishes."""
    root = sqrt(max(c[2] * c[2] - 3.0 * c[3] * c[1], 0.0))
    # The two roots by the form that does not cancel: q / (3 c3) and c1 / q.
    q = -(c[2] + copysign(root, c[2]))
    places = [low, high]
    for numerator, denominator in ((q, 3.0 * c[3]), (c[1], q)):
        if denominator != 0.0:
            places.append(min(max(numerator / denominator, low), high))
    return min(c[0] + u * (c[1] + u * (c[2] + u * c[3])) for u in places)


def two_step(sums: Sums, name: str) -> Fit:
    """Return paper 1's two-step model: of the degree that its name ends with, or of the one with the least criterion."""
    gram, right, square = sums.least
    system = Elimination([gram[i : i + COEFFICIENTS] for i in range(COEFFICIENTS)], right)

    def score(k: int) -> float:
        return criterion(square - added(system.gains[: k + 1]), square, gram[0], added(system.used[: k + 1]))

    degree = min(range(COEFFICIENTS), key=score) if name == TWO_STEP else TWO_STEPS.index(name)
    s = system.solution(degree + 1)
    x, mean = sums.top
    u = (x - sums.origin) / sums.scale
    top = added(v * u**j for j, v in enumerate(s)) if isfinite(u) else 0.0
    a = parallel_fraction(mean / top if top > 0.0 else inf, sums.p_high, sums.p_low)
    # S is fitted at p_min: T_pmin = (1 - a + a / p_min) S_1.
    single = 1.0 / (1.0 - a + a / sums.p_low)
    used = added(system.used[: degree + 1]) + 1.0
    found = _split(FORMS[degree], [single * v for v in s], a, 0.0, used, True)
    return replace(found, residual=_residual(sums, (found.serial, found.parallel)))


def _residual(sums: Sums, parts: tuple[Numbers, Numbers]) -> float:
    """Return the weighted residual of a curve over all rows, from the joint sums: sum w t^2 - 2 c'r + c'G c."""
    total = sums.square
    for q, first in enumerate(parts):
        total -= 2.0 * added(map(mul, first, sums.right[q]))
        for r, second in enumerate(parts):
            total += added(c * d * sums.gram[q + r][i + j] for i, c in enumerate(first) for j, d in enumerate(second))
    return max(total, 0.0)


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
