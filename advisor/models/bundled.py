"""What a bundle's record answers: time, interval and choice of cores, in plain arithmetic that two languages share.

A record is a row of float64 words (see `advisor.domain.bundle`). The functions here take all words of a bundle and the place
`at` where the record begins; `adapters/c/advisor.c` has them line by line. They use + - * / and comparisons, `log2_of`
and `exp2_of` only: IEEE 754 rounds each in one way, so the two agree to the bit.

Logs are to base 2. Between knots tables are bilinear in (log2 x, log2 p); beyond them they go on with the slope at the edge,
that of the time in x within 0 and 3, in p within -1 and 1, while widths of intervals never shrink outwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

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


class Doubts(NamedTuple):
    """What noise leaves open, as `advisor.models.core_rule` has it: counts that were seen, runs on each, variance of ln t."""

    counts: Sequence[float]
    runs: Sequence[float]
    noise: float
    best: int  # place of the seen count that is nearest to the best
    here: int  # and to the last one

    def edges(self) -> list[int]:
        """Return whole counts about those at which another seen count is the nearest."""
        found: list[int] = []
        for one, two in pairwise(self.counts):
            edge = int(root(one * two))
            while (edge + 1.0) * (edge + 1.0) <= one * two:
                edge += 1
            found += [edge, edge + 1]
        return found

    def error(self, place: int) -> float:
        """Return the standard error of log2 of a seen count's time over the best's; 0 where predictions alone decide."""
        if self.noise <= 0.0 or place == self.best:
            return 0.0
        return root(self.noise * (1.0 / self.runs[place] + 1.0 / self.runs[self.best])) / LN2

    def by_chance(self, count: float) -> float:
        """Return by how much log2 of a count's time may be above that of the best by chance."""
        place, all_runs = place_near(self.counts, count), 0.0
        error = self.error(place)
        if error <= 0.0:
            return 0.0
        for each in self.runs:
            all_runs += each
        sure = root(2.0 * log2_of(1.0 + all_runs / self.runs[place]) * LN2)
        sure = (SURE if sure < SURE else sure) * (HELD if place == self.here else LEFT)
        return clamped(sure * error, 0.0, FURTHEST / LN2)

    def too_rare(self, count: float, above: float) -> bool:
        """Return True where a count, so far above the best in log2 of its time, is excused by the few runs on the best."""
        place = place_near(self.counts, count)
        return log2_of(self.runs[place]) > RARE * self.runs[self.best] and above > self.error(place)


def root(value: float) -> float:
    """Return the square root of a positive number, as C has it without its library of mathematics."""
    return exp2_of(0.5 * log2_of(value))


def place_near(counts: Sequence[float], count: float) -> int:
    """Return the place of the seen count that is nearest by ratio, of two equally near the smaller; 0 where none was seen."""
    at = 0
    while at + 1 < len(counts) and count * count > counts[at] * counts[at + 1]:
        at += 1
    return at


def _doubts(words: Sequence[float], at: int) -> Doubts:
    """Return the doubts of a record; noise and place come once the best is known."""
    begin, count = at + seen_at(words[at : at + HEAD_WORDS]), int(words[at + SEEN])
    return Doubts(words[begin : begin + count], words[begin + count : begin + 2 * count], 0.0, 0, 0)


def choose_cores(words: Sequence[float], at: int, x: float, allowed: AllowedCores, tolerance: float) -> int:
    """Return the count that the rule gives: the fewest near those seen that are good enough, or the last one.

    Of all whole counts: exact of what `predict` says, up to rounding. A table is straight between knots: the fastest is a
    knot or an end; where the bound is crossed follows from the line; the bound is one number where one seen count is the
    nearest. Of other sets each count is compared. Cost O(knots), or O(counts).
    """
    last, p_low, p_high = words[at + LAST], words[at + P_LOW], words[at + P_HIGH]
    near = allowed.between(p_low / BEYOND, p_high * BEYOND)
    if near is None:
        return allowed.nearest(last if last > 0.0 else p_high)
    doubts, tolerance = _doubts(words, at), EQUAL if tolerance < EQUAL else tolerance
    every = near.multiple_of == 1 and not near.few_members
    counts = _knots_within(words, at, near, doubts.edges()) if every else _with(near.compared, last, allowed)
    logs = [log2_of(float(count)) for count in counts]
    row = _row(words, at, x, counts, logs)
    shortest, longest = log2_of(ELAPSED_MIN_S), log2_of(ELAPSED_MAX_S)
    least = clamped(min(row), shortest, longest)
    if doubts.counts:
        best = place_near(doubts.counts, float(counts[row.index(min(row))]))
        here = place_near(doubts.counts, last)
        doubts = doubts._replace(noise=min(words[at + NOISE], NOISIEST), best=best, here=here)
    slack, k, bound = log2_of(1.0 + tolerance), 0, longest
    for k, count in enumerate(counts):
        by_chance = doubts.by_chance(float(count))
        bound = least + (slack if by_chance < slack else by_chance)
        if row[k] <= bound or bound >= longest:
            break
    chosen = counts[k]
    if k and every:
        chosen = _crossing(counts[k - 1], counts[k], logs[k - 1], logs[k], row[k - 1], row[k], bound)
    if bound > least + slack:
        above = _row(words, at, x, [chosen], [log2_of(float(chosen))])[0] - least
        if above > slack and doubts.too_rare(float(chosen), above):
            chosen = counts[row.index(min(row))]
    kept = near.least <= last <= near.most if every else last in counts
    if kept and last % 1.0 == 0.0 and last != chosen and 3.0 * last <= 4.0 * chosen:
        held = _row(words, at, x, [int(last)], [log2_of(last)])[0]
        if held <= least + log2_of(1.0 + STAYS * tolerance):
            return int(last)
    return chosen


def _with(counts: tuple[int, ...], last: float, allowed: AllowedCores) -> list[int]:
    """Return counts with the last one, where it is allowed and was thinned out."""
    return sorted({*counts, int(last)}) if last in allowed else list(counts)


def _knots_within(words: Sequence[float], at: int, near: AllowedCores, edges: Sequence[int]) -> list[int]:
    """Return the ends of a range, and the whole knots and edges between them."""
    first, count = at + HEAD_WORDS, int(words[at + P_KNOTS])
    knots = (int(knot) for knot in words[first : first + count] if knot % 1.0 == 0.0)
    return sorted({near.least, near.most, *(each for each in (*knots, *edges) if near.least < each < near.most)})


def _row(words: Sequence[float], at: int, x: float, counts: Sequence[int], logs: Sequence[float]) -> list[float]:
    """Return log2 of the time on each count."""
    lx = log_x(words, at, x)
    return [grid_log(words, at, lx, float(count), log) for count, log in zip(counts, logs, strict=True)]


def _crossing(
    below: int, above: int, log_below: float, log_above: float, value_below: float, value_above: float, bound: float
) -> int:
    """Return the first whole count after `below`, at most `above`, whose time is within the bound; `above`'s is."""
    if above - below == 1:
        return above
    slope = (value_above - value_below) / (log_above - log_below)
    root = exp2_of(clamped(log_below + (bound - value_below) / slope, log_below, log_above))
    found = below + 1 if root <= below else above if root >= above else ceil(root)
    # The root is rounded: its neighbours decide.
    while found < above and value_below + (log2_of(float(found)) - log_below) * slope > bound:
        found += 1
    while found > below + 1 and value_below + (log2_of(float(found - 1)) - log_below) * slope <= bound:
        found -= 1
    return found
