"""The candidate forms and their least squares fits, from the sums alone.

Joint form (paper 1): T(x, p) = S(x) (1 - a + a / p), S a polynomial in u, one parallel fraction a. For a fixed a the model
is linear, N(a) s = r(a) with N(a) = (1-a)^2 G0 + 2a(1-a) G1 + a^2 G2 and r(a) = (1-a) r0 + a r1, so its best coefficients and
its residual R(a) = sum w t^2 - r' N^-1 r follow from the sums; R is minimised over [0, 1] by Newton's method.

Free form: T(x, p) = A(u) + B(u) / p, a parallel fraction that depends on x; it nests the joint form.

Proportional: the joint form with S(x) = b x, the boundary of a + b x with non-negative coefficients.
"""

# An entry is a float or an array, by design: one arithmetic serves one component and many.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from operator import mul, sub
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models.counts import evidence
from advisor.models.criterion import criterion
from advisor.models.elimination import PIVOT_MIN, Elimination
from advisor.models.layout import COEFFICIENTS, MOMENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]
Entry = Any

# Of the serial fraction 1 - a: at 2**20 cores, the most that are legal, a serial fraction of 2**-20 still doubles the time.
SERIAL_MIN = 2.0**-22
NEWTON_STEPS = 12  # from the free form's fraction two or three suffice; a flat minimum bisects the rest
STEP_ENOUGH = 1e-4  # of the serial fraction: after a Newton step this small the next is its square, about 1e-8 of it
START_MARGIN = 1e-4  # the search starts this far inside [0, 1]: at the ends themselves a bracket would be empty
FRACTION_UNKNOWN = (
    0.5  # parallel fraction assumed while all rows have one core count: says "more cores may help"; noted
)
FLOOR_SHARE = 0.5  # of the smallest elapsed time seen: S must stay above it on the seen range


@dataclass(frozen=True, slots=True)
class Form:
    """One candidate: its name, family and degree."""

    name: str
    family: str  # "joint", "proportional" or "free"
    degree: int

    @property
    def columns(self) -> int:
        """Return how many linear coefficients the form has."""
        return {"joint": self.degree + 1, "proportional": 1, "free": 2 * (self.degree + 1)}[self.family]


FORMS: tuple[Form, ...] = (
    *(Form(f"joint degree {k}", "joint", k) for k in range(COEFFICIENTS)),
    Form("proportional", "proportional", 1),
    *(Form(f"free degree {k}", "free", k) for k in range(1, COEFFICIENTS)),
)


@dataclass(slots=True)
class Candidate:
    serial: list[Entry]
    parallel: list[Entry]
    fraction: Entry
    residual: Entry
    used: Entry
    valid: Entry


class Sums:
    """The sums of `part` as entries: floats for one component, arrays for many; one code serves both."""

    def __init__(self, part: Table, timer_noise_s: float, many: bool) -> None:
        entry = (lambda row: row) if many else (lambda row: float(row[0]))
        gram, right = part["gram"], part["right"]
        self.many = many
        self.gram: list[list[Entry]] = [list(g) for g in gram.reshape(3, MOMENTS, -1)] if many else _cut(gram, MOMENTS)
        self.right: list[list[Entry]] = (
            [list(r) for r in right.reshape(2, COEFFICIENTS, -1)] if many else _cut(right, COEFFICIENTS)
        )
        self.square, self.evidence = entry(part["square"]), entry(evidence(part))
        names = ("scale", "origin", "x_low", "x_high", "p_low", "p_high", "t_low")
        scale, origin, x_low, x_high, p_low, p_high, t_low = (entry(part[name]) for name in names)
        where = np.where if many else _one_or_other
        scale = where(scale > 0, scale, 1.0)
        origin = where(np.isfinite(origin) if many else isfinite(origin), origin, 0.0)
        seen = x_high >= x_low
        self.low = where(seen, (x_low - origin) / scale, 0.0)
        self.high = where(seen, (x_high - origin) / scale, 0.0)
        self.offset = origin / scale  # x / scale = offset + u
        # A curve that dips below zero by less than the timer's noise is as good as zero there; prediction has a floor.
        self.floor = where(seen, FLOOR_SHARE * t_low, 0.0) - timer_noise_s
        self.p_high = where(seen, p_high, 1.0)
        self.p_low = where(seen, p_low, 1.0)
        self.one_p = (p_low >= p_high) * 1.0
        self.free = Elimination(*_free_normal(self.gram, self.right))


def _one_or_other(condition: Any, one: Any, other: Any) -> Any:
    return one if condition else other


def _cut(block: Floats, length: int) -> list[list[float]]:
    """Return one component's block as lists of `length` floats."""
    values = block[:, 0].tolist()
    return [values[start : start + length] for start in range(0, len(values), length)]


def _free_normal(gram: list[list[Entry]], right: list[list[Entry]]) -> tuple[list[list[Entry]], list[Entry]]:
    """Return the normal equations (8, 8) and (8,) of the free form in the order 1, 1/p, u, u/p, u^2, ..."""
    columns = [(j, q) for j in range(COEFFICIENTS) for q in range(2)]
    return [[gram[q + r][i + j] for j, r in columns] for i, q in columns], [right[q][j] for j, q in columns]


def _joint_normal(
    k: int, a: Entry, gram: list[list[Entry]], right: list[list[Entry]]
) -> tuple[list[list[Entry]], list[Entry]]:
    """Return N(a) (k, k) and r(a) (k,) of the joint form with k coefficients."""
    b = 1.0 - a
    c0, c1, c2 = b * b, 2.0 * a * b, a * a
    moments = [c0 * g0 + c1 * g1 + c2 * g2 for g0, g1, g2 in zip(*(g[: 2 * k - 1] for g in gram), strict=True)]
    return [moments[i : i + k] for i in range(k)], [
        b * r0 + a * r1 for r0, r1 in zip(right[0][:k], right[1][:k], strict=True)
    ]


def candidate(form: Form, sums: Sums) -> Candidate:
    if form.family == "free":
        return _free(form.degree, sums)
    if form.family == "proportional":
        return _proportional(sums)
    return _joint(form.degree, sums)


def _joint(degree: int, sums: Sums) -> Candidate:
    a = _newton(degree, sums)
    solution, system, residual = _joint_at(degree, a, sums)
    solution += [0.0 * a] * (COEFFICIENTS - degree - 1)
    return Candidate(
        [(1.0 - a) * s for s in solution],
        [a * s for s in solution],
        a,
        residual,
        sum(system.used) + (1.0 - sums.one_p),
        # On the fewest cores seen, where runs are longest: on less than one core they are longer than S.
        _least_on_range(solution, sums.low, sums.high) * (1.0 - a + a / sums.p_low) >= sums.floor,
    )


def _joint_at(degree: int, a: Entry, sums: Sums) -> tuple[list[Entry], Elimination, Entry]:
    system = Elimination(*_joint_normal(degree + 1, a, sums.gram, sums.right))
    return system.solution(degree + 1), system, sums.square - sum(system.gains)


def _newton(degree: int, sums: Sums) -> Any:
    """Return the parallel fraction that minimises R(a) on [0, 1], where there are two core counts or more.

    R' = -2 r'.s + s'N's and R'' = s'N''s - 2 d'N^-1 d, d = r' - N's, with N s = r (envelope theorem). The sign of R' keeps
    a bracket about the minimum (one, but for noise of more than a factor 2; tests compare with a fine grid); a step that
    leaves it becomes a bisection of the serial fraction, geometric, since at many cores its ratio matters and not its
    difference.
    """
    if not sums.many and sums.one_p:
        return FRACTION_UNKNOWN
    a: Any = _start(degree, sums)
    low: Any = 0.0 * a
    high: Any = 0.0 * a + 1.0
    done: Any = False
    g, r = sums.gram, sums.right
    k = degree + 1
    grams = [row[: 2 * k - 1] for row in g]
    second = [2.0 * (g0 - 2.0 * g1 + g2) for g0, g1, g2 in zip(*grams, strict=True)]
    slope = [r[1][i] - r[0][i] for i in range(k)]
    for _ in range(NEWTON_STEPS):
        s, system, _ = _joint_at(degree, a, sums)
        c0, c1, c2 = 2.0 * (a - 1.0), 2.0 - 4.0 * a, 2.0 * a
        first = [c0 * g0 + c1 * g1 + c2 * g2 for g0, g1, g2 in zip(*grams, strict=True)]
        moved = [sum(map(mul, first[i:], s)) for i in range(k)]
        gap = list(map(sub, slope, moved))
        gradient = sum(map(mul, s, moved)) - 2.0 * sum(map(mul, s, slope))
        bend = sum(s[i] * sum(map(mul, second[i:], s)) for i in range(k))
        curvature = bend - 2.0 * system.quadratic(gap)
        if sums.many:
            # The root lies where the gradient points: the cell shrinks from that side, so a step never leaves it.
            low, high = np.where(gradient < 0, a, low), np.where(gradient > 0, a, high)
            step = a - gradient / np.where(curvature > 0, curvature, np.inf)
            ends = ((step <= low) & (low == 0.0)) | ((step >= high) & (high == 1.0))
            direct = (curvature > 0) & (ends | ((step > low) & (step < high)))
            middle = 1.0 - np.sqrt((1.0 - low) * np.maximum(1.0 - high, SERIAL_MIN))
            new = np.where(direct, np.clip(step, low, high), np.where(gradient == 0, a, np.clip(middle, low, high)))
            new = np.where(done, a, new)  # one that has arrived rests: rounding would send it bisecting
            done = done | ((direct | (gradient == 0)) & (np.abs(new - a) <= STEP_ENOUGH * (1.0 - a)))
            if done.all():
                return np.where(sums.one_p > 0, FRACTION_UNKNOWN, new)
        else:
            low, high = (a, high) if gradient < 0 else (low, a) if gradient > 0 else (low, high)
            step = a - gradient / curvature if curvature > 0 else np.nan
            ends = (step <= low == 0.0) or (step >= high == 1.0)
            direct = ends or low < step < high
            middle = 1.0 - ((1.0 - low) * max(1.0 - high, SERIAL_MIN)) ** 0.5
            new = a if gradient == 0 and not direct else _clip(step if direct else middle, low, high)
            if (direct or gradient == 0) and abs(new - a) <= STEP_ENOUGH * (1.0 - a):
                return new
        a = new
    return np.where(sums.one_p > 0, FRACTION_UNKNOWN, a) if sums.many else a


def _start(degree: int, sums: Sums) -> Entry:
    """Return the share of the parallel part in the free form's mean: close to the joint form's a wherever that form is apt."""
    found = sums.free.solution(2 * (degree + 1))
    moments = sums.gram[0]
    serial = sum(found[2 * j] * moments[j] for j in range(degree + 1))
    parallel = sum(found[2 * j + 1] * moments[j] for j in range(degree + 1))
    if sums.many:
        total = serial + parallel
        share = np.where(total > 0, parallel / np.where(total > 0, total, 1.0), 0.5)
        return np.clip(share, START_MARGIN, 1.0 - START_MARGIN)
    share = parallel / (serial + parallel) if serial + parallel > 0 else 0.5
    return _clip(share, START_MARGIN, 1.0 - START_MARGIN)


def _proportional(sums: Sums) -> Candidate:
    """S = b x / scale: moments of x^2 / scale^2 from those of u by the binomial rule; R(a) is a quotient of quadratics in a."""
    o = sums.offset
    g = [sums.gram[q][2] + 2.0 * o * sums.gram[q][1] + o * o * sums.gram[q][0] for q in range(3)]
    r = [sums.right[q][1] + o * sums.right[q][0] for q in range(2)]
    # Maximise (b r0 + a r1)^2 / (b^2 g0 + 2 a b g1 + a^2 g2), b = 1 - a: the direction G^-1 r, clipped to the quadrant.
    toward_0 = r[0] * g[2] - r[1] * g[1]
    toward_1 = r[1] * g[0] - r[0] * g[1]
    if sums.many:
        toward_0, toward_1 = np.maximum(toward_0, 0.0), np.maximum(toward_1, 0.0)
        total = toward_0 + toward_1
        a = np.where(total > 0, toward_1 / np.where(total > 0, total, 1.0), FRACTION_UNKNOWN)
        a = np.where(sums.one_p > 0, FRACTION_UNKNOWN, a)
        weight = (1.0 - a) ** 2 * g[0] + 2.0 * a * (1.0 - a) * g[1] + a * a * g[2]
        some = weight > PIVOT_MIN * PIVOT_MIN
        b = np.where(some, ((1.0 - a) * r[0] + a * r[1]) / np.where(some, weight, 1.0), 0.0)
    else:
        toward_0, toward_1 = max(toward_0, 0.0), max(toward_1, 0.0)
        total = toward_0 + toward_1
        a = toward_1 / total if total > 0 and not sums.one_p else FRACTION_UNKNOWN
        weight = (1.0 - a) ** 2 * g[0] + 2.0 * a * (1.0 - a) * g[1] + a * a * g[2]
        b = ((1.0 - a) * r[0] + a * r[1]) / weight if weight > PIVOT_MIN * PIVOT_MIN else 0.0
    zero = 0.0 * a
    solution = [b * o, b + zero, zero, zero]
    return Candidate(
        [(1.0 - a) * s for s in solution],
        [a * s for s in solution],
        a,
        sums.square - b * ((1.0 - a) * r[0] + a * r[1]),
        # With one predictor value it is degree 0 written twice: one more column lets degree 0, which says so, answer.
        2.0 - sums.one_p + (sums.low >= sums.high),
        b * (o + sums.low) * (1.0 - a + a / sums.p_low) >= sums.floor,
    )


def _free(degree: int, sums: Sums) -> Candidate:
    columns = 2 * (degree + 1)
    found = sums.free.solution(columns)
    zeros = [0.0 * found[0]] * (COEFFICIENTS - degree - 1)
    serial, parallel = found[0::2] + zeros, found[1::2] + zeros
    # T is linear in 1/p: positive at both ends of the seen core counts, it is positive between them. A negative B is a
    # run time that rises with p (threads cost small inputs more than they bring); prediction bounds it outside.
    valid = sums.one_p == 0  # with one core count 1/p tells nothing apart from 1: the joint forms, which say so, answer
    for p in (sums.p_low, sums.p_high):
        curve = [a + b / p for a, b in zip(serial, parallel, strict=True)]
        valid = valid & (_least_on_range(curve, sums.low, sums.high) >= sums.floor)
    return Candidate(
        serial,
        parallel,
        float("nan") + 0.0 * found[0],
        sums.square - sum(sums.free.gains[:columns]),
        sum(sums.free.used[:columns]),
        valid,
    )


def _least_on_range(c: list[Entry], low: Entry, high: Entry) -> Entry:
    """Return the least value of the cubic c on [low, high]: at the ends or where its derivative vanishes."""
    value = lambda u: c[0] + u * (c[1] + u * (c[2] + u * c[3]))  # noqa: E731
    lowest, clip = (np.minimum, np.clip) if not isinstance(c[0], float) else (min, _clip)
    least = lowest(value(low), value(high))
    discriminant = c[2] * c[2] - 3.0 * c[3] * c[1]
    root = np.sqrt(np.maximum(discriminant, 0.0)) if clip is np.clip else max(discriminant, 0.0) ** 0.5
    # The two roots by the form that does not cancel: q / (3 c3) and c1 / q.
    q = -(c[2] + np.copysign(root, c[2]))
    for numerator, denominator in ((q, 3.0 * c[3]), (c[1], q)):
        if clip is np.clip:
            u = np.where(denominator != 0, numerator / np.where(denominator != 0, denominator, 1.0), low)
        else:
            u = numerator / denominator if denominator != 0 else low
        least = lowest(least, value(clip(u, low, high)))
    return least


def _clip(value: Any, low: Any, high: Any) -> Any:
    return min(max(value, low), high)


def best_possible(form: Form, sums: Sums) -> float:
    """Return a lower bound of the form's criterion: the free form of the same degree nests it."""
    if form.family == "proportional":
        return criterion(sums.square - sum(sums.free.gains[:4]), sums.square, sums.evidence, 2.0 - sums.one_p)
    residual = sums.square - sum(sums.free.gains[: 2 * (form.degree + 1)])
    used = sum(sums.free.used[: 2 * (form.degree + 1)])
    if form.family == "joint":
        # Where the free form could determine all its columns, so can the joint one; else no fewer than half of what it could.
        full = used == 2 * (form.degree + 1)
        used = form.degree + 2.0 - sums.one_p if full else max(0.5 * used, 1.0)
    return criterion(residual, sums.square, sums.evidence, used)
