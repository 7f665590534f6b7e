"""What a bundle's record answers: time, interval and choice of cores, in plain arithmetic that two languages share.

A record is a row of float64 words (see `advisor.domain.bundle`). The functions here take all words of a bundle and the place
`at` where the record begins; `adapters/c/advisor.c` has them line by line. They use + - * / and comparisons, `log2_of`
and `exp2_of` only: IEEE 754 rounds each in one way, so the two agree to the bit.

Logs are to base 2. Between knots tables are bilinear in (log2 x, log2 p); beyond them they go on with the slope at the edge,
that of the time in x within 0 and 3, in p within -1 and 1, while widths of intervals never shrink outwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.bundle import (
    HEAD_WORDS,
    LAST,
    LOG_P_HIGH,
    LOG_P_LOW,
    LOG_X_HIGH,
    LOG_X_LOW,
    NOISE,
    P_HIGH,
    P_KNOTS,
    P_LOW,
    SEEN,
    X_FIRST,
    X_KNOTS,
    X_STEP,
    X_ZERO,
    seen_at,
)
from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S, PREDICTOR_RESOLUTION
from advisor.models.logarithm import LN2, exp2_of, log2_of

SLOPE_MOST = 3.0  # of log time in log x, beyond the seen predictors: cubic work
STEEPEST = 1.0  # of log time in log p, either way: work shared without loss, or a queue for one lock
WIDER_MOST = 2.0  # octaves of an interval's half width in an octave of x or p
LOG_MOST = 1000.0  # of log2 of a time: keeps `exp2_of` finite
BEYOND = 2.0  # as in `advisor.engine.choice`
EQUAL, STAYS, SURE, RARE, NOISIEST, FURTHEST = 1e-12, 1.5, 2.0, 1.0, 0.25, 40.0  # as in `advisor.models.core_rule`
HELD, LEFT = 1.35, 0.9


def clamped(value: float, low: float, high: float) -> float:
    """Return value within low and high."""
    return low if value < low else high if value > high else value


def legal(elapsed_s: float) -> float:
    """Return a time within those that a run may have."""
    return clamped(elapsed_s, ELAPSED_MIN_S, ELAPSED_MAX_S)


def log_x(words: Sequence[float], at: int, x: float) -> float:
    """Return log2 x, at least where the record has its zero."""
    zero = words[at + X_ZERO]
    if x < PREDICTOR_RESOLUTION:
        return zero
    value = log2_of(x)
    return zero if value < zero else value


def p_segment(words: Sequence[float], at: int, count: int, p: float) -> int:
    """Return the last knot but one that is not above p, 0 where all are."""
    knots = at + HEAD_WORDS
    low, high = 0, count - 1
    while high - low > 1:
        middle = (low + high) // 2
        if words[knots + middle] <= p:
            low = middle
        else:
            high = middle
    return low


def along(a: float, b: float, w: float, below: float, above: float, least: float, most: float) -> float:
    """Return a + w (b - a) for w in 0 .. 1; outside, the slope b - a is kept within [below, most] or [least, above].

    Below (w < 0) the slope lies within `below` and `most`, above (w > 1) within `least` and `above`.
    """
    slope = b - a
    if w < 0.0:
        return a + w * clamped(slope, below, most)
    if w > 1.0:
        return b + (w - 1.0) * clamped(slope, least, above)
    return a + w * slope


def time_at_knot(words: Sequence[float], table: int, width: int, j: int, w: float, step: float) -> float:
    """Return log2 time in column j, w rows of `step` octaves from the row that `table` begins."""
    most = SLOPE_MOST * step
    return along(words[table + j], words[table + width + j], w, 0.0, most, 0.0, most)


def width_at_knot(words: Sequence[float], table: int, width: int, j: int, w: float, step: float) -> float:
    """Return a half width of the interval in column j, as `time_at_knot`."""
    most = WIDER_MOST * step
    return along(words[table + j], words[table + width + j], w, -most, most, 0.0, 0.0)


def x_row(words: Sequence[float], at: int, lx: float) -> tuple[int, float]:
    """Return the last knot but one that is not above log2 x (0 where all are), and the distance from it in knots."""
    position = (lx - words[at + X_FIRST]) / words[at + X_STEP]
    last = int(words[at + X_KNOTS]) - 2
    row = last if position >= last else 0 if position < 0.0 else int(position)
    return row, position - row


def half_widths(words: Sequence[float], at: int, lx: float, p: float, lp: float) -> tuple[float, float]:
    """Return how far log2 of the interval reaches down and up."""
    nx, count = int(words[at + X_KNOTS]), int(words[at + P_KNOTS])
    j = p_segment(words, at, count, p)
    logs = at + HEAD_WORDS + count + j
    between = words[logs + 1] - words[logs]
    v = (lp - words[logs]) / between
    row, w = x_row(words, at, lx)
    step = words[at + X_STEP]
    tables = at + HEAD_WORDS + 2 * count + nx * count
    most = WIDER_MOST * between
    table = tables + row * count
    a, b = width_at_knot(words, table, count, j, w, step), width_at_knot(words, table, count, j + 1, w, step)
    down = along(a, b, v, -most, most, 0.0, 0.0)
    table += nx * count
    a, b = width_at_knot(words, table, count, j, w, step), width_at_knot(words, table, count, j + 1, w, step)
    up = along(a, b, v, -most, most, 0.0, 0.0)
    return clamped(down, 0.0, LOG_MOST), clamped(up, 0.0, LOG_MOST)


def grid_log(words: Sequence[float], at: int, lx: float, p: float, lp: float) -> float:
    """Return log2 of the time."""
    count = int(words[at + P_KNOTS])
    j = p_segment(words, at, count, p)
    logs = at + HEAD_WORDS + count + j
    between = words[logs + 1] - words[logs]
    row, w = x_row(words, at, lx)
    step = words[at + X_STEP]
    table = at + HEAD_WORDS + 2 * count + row * count
    a, b = time_at_knot(words, table, count, j, w, step), time_at_knot(words, table, count, j + 1, w, step)
    most = STEEPEST * between
    return clamped(along(a, b, (lp - words[logs]) / between, -most, most, -most, most), -LOG_MOST, LOG_MOST)


def predict(words: Sequence[float], at: int, x: float, p: float) -> tuple[float, float, float, float]:
    """Return (elapsed_s, low_s, high_s, octaves outside what was seen) of a record that is no question to the service."""
    lx, lp = log_x(words, at, x), log2_of(p)
    value = legal(exp2_of(grid_log(words, at, lx, p, lp)))
    down, up = half_widths(words, at, lx, p, lp)
    outside = 0.0
    if lx < words[at + LOG_X_LOW]:
        outside += words[at + LOG_X_LOW] - lx
    if lx > words[at + LOG_X_HIGH]:
        outside += lx - words[at + LOG_X_HIGH]
    if lp < words[at + LOG_P_LOW]:
        outside += words[at + LOG_P_LOW] - lp
    if lp > words[at + LOG_P_HIGH]:
        outside += lp - words[at + LOG_P_HIGH]
    return value, legal(value * exp2_of(-down)), legal(value * exp2_of(up)), outside


def root(value: float) -> float:
    """Return the square root of a positive number, as C has it without its library of mathematics."""
    return exp2_of(0.5 * log2_of(value))


def place_near(counts: Sequence[float], count: float) -> int:
    """Return the place of the seen count that is nearest by ratio, of two equally near the smaller; 0 where none was seen."""
    at = 0
    while at + 1 < len(counts) and count * count > counts[at] * counts[at + 1]:
        at += 1
    return at


def _errors(runs: Sequence[float], noise: float, best: int) -> list[float]:
    """Return the standard error of log2 of each seen count's time over the best's; 0 where predictions alone decide."""
    if noise <= 0.0:
        return [0.0] * len(runs)
    return [0.0 if at == best else root(noise * (1.0 / n + 1.0 / runs[best])) / LN2 for at, n in enumerate(runs)]


def _by_chance(runs: Sequence[float], errors: Sequence[float], here: int) -> list[float]:
    """Return by how much log2 of the time on each seen count may be above that of the best by chance."""
    all_runs, found = 0.0, list[float]()
    for n in runs:
        all_runs += n
    for at, (n, error) in enumerate(zip(runs, errors, strict=True)):
        sure = root(2.0 * log2_of(1.0 + all_runs / n) * LN2)
        sure = (SURE if sure < SURE else sure) * (HELD if at == here else LEFT)
        found.append(clamped(sure * error, 0.0, FURTHEST / LN2) if error > 0.0 else 0.0)
    return found


def choose_cores(words: Sequence[float], at: int, x: float, allowed: AllowedCores, tolerance: float) -> int:
    """Return the count that the rule gives: the fewest near those seen that are good enough, or the last one.

    Cost O(counts compared).
    """
    last, p_low, p_high = words[at + LAST], words[at + P_LOW], words[at + P_HIGH]
    near = allowed.between(p_low / BEYOND, p_high * BEYOND)
    if near is None:
        return allowed.nearest(last if last > 0.0 else p_high)
    counts = sorted({*near.compared, int(last)}) if last in allowed else [*near.compared]
    lx = log_x(words, at, x)
    row = [grid_log(words, at, lx, float(count), log2_of(float(count))) for count in counts]
    best, longest = row.index(min(row)), log2_of(ELAPSED_MAX_S)
    least = clamped(row[best], log2_of(ELAPSED_MIN_S), longest)
    begin, n = at + seen_at(words[at : at + HEAD_WORDS]), int(words[at + SEEN])
    seen, runs = words[begin : begin + n], words[begin + n : begin + 2 * n]
    places = [place_near(seen, float(count)) for count in counts]
    errors = _errors(runs, min(words[at + NOISE], NOISIEST), places[best])
    by_chance = _by_chance(runs, errors, place_near(seen, last)) or [0.0]
    tolerance = EQUAL if tolerance < EQUAL else tolerance
    slack, k, bound = log2_of(1.0 + tolerance), 0, longest
    for k, place in enumerate(places):
        bound = least + (slack if by_chance[place] < slack else by_chance[place])
        if row[k] <= bound or bound >= longest:
            break
    above, place = row[k] - least, places[k]
    # Where few runs on the best leave it open, it runs next.
    rare = bound > least + slack and above > slack and above > errors[place]
    if rare and log2_of(runs[place]) > RARE * runs[places[best]]:
        k = best
    held = counts.index(int(last)) if last in counts else k
    if 3.0 * last <= 4.0 * counts[k] and row[held] <= least + log2_of(1.0 + STAYS * tolerance):
        k = held
    return counts[k]
