"""How much longer a component takes while others are busy: T(p, others) = T(p) (1 + kappa others), in constant space.

`others` = max(active_cores - p, 0) are the cores of the machine that were busy with something else while a run took place.
Learned in epochs, by the rows of a component that tell them: one ends where the weighting model m is solved again. In an epoch

- kappa stands still: each row is corrected, t' = t / (1 + kappa others), kappa being shrunk as in answers, before anything else
  learns from it, so that the curve T(p) is that of an idle machine;
- r = t / (1 + kappa others) / m is gathered into the sums of its least squares on (1, log2 p, log2(p)**2, d),
  d = others / (1 + kappa others). If m is right up to a factor b, r = b (1 + (true kappa - kappa) d) exactly. The logs of p
  take what m itself has learned of contention where busy cores go with cores given.

At its end kappa moves by the slope in d over the level, and is weighed with what was known before, which counts half as much
as it did where the epoch was as long as all before. Where that changes a typical correction by `CARRIED_LEAST`, what was
learned of the curve so far is carried by as much, and counts few rows. Where others are a function of p alone (a machine always
full) nothing tells contention from the curve: the slope has little precision, and the curve keeps it.

The answer is shrunk: kappa (1 - (error / kappa)**2), not below 0: without evidence there is no contention.
Merge: approximate, both sides weighed by their precision; an epoch under way is dropped.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.models.logarithm import log2_of
from advisor.models.records import Field, RecordTable, offsets
from advisor.models.weighting import W_FLOOR, knows, weigh

TERMS = 4  # 1, log2 p, log2(p)**2, d
D, R = TERMS - 1, TERMS  # places of d and r among the terms
PAIRS = TERMS * (TERMS + 1) // 2  # of terms, each once: the upper triangle, line by line
RATIO_MOST = 4.0  # a row that took more of its prediction counts as so much: an outlier does not decide
KAPPA_MAX = 10.0  # one busy core that makes a run take 11 times as long is no contention but an exclusion
OLD_SHARE = 0.5  # of the precision known before that an epoch of as many rows takes: an older model judged those rows
ROWS_LEAST = 3 * TERMS  # rows of an epoch that a slope needs
ALIKE = 1e-6  # share of the variance of d that the other terms leave: below, d tells nothing of its own
CARRIED_LEAST = 0.05  # share of a time by which a curve may be off before it is carried, which costs it its evidence
NOISE_LEAST = 1e-8  # of the variance of t / m: no model is right to more than 1e-4

FIELDS: tuple[Field, ...] = (
    ("component", 1, "i", -1),  # slot in the base table
    ("rows", 1, "i", 0),  # rows that reported active_cores
    ("contended", 1, "i", 0),  # of them, those with others
    ("kappa", 1, "f", 0),  # as far as known: what rows are corrected by, before it is shrunk
    ("precision", 1, "f", 0),  # 1 / variance of it
    ("start", 1, "i", 0),  # rows when the epoch began
    ("sum_rows", 1, "i", 0),  # rows in the sums
    ("gram", PAIRS, "f", 0),
    ("right", TERMS, "f", 0),
    ("square", 1, "f", 0),
)
NAME, LAYOUT = "contention", "contention-2"
AT = offsets(FIELDS)
ROWS, CONTENDED, KAPPA, PRECISION, START, SUM_ROWS, GRAM, RIGHT, SQUARE = (
    at.start for name, at in AT.items() if name != "component"
)


@dataclass(frozen=True, slots=True)
class Contention:
    """The contention factor of a component.

    Attributes
    ----------
    kappa : float
        Share by which each core that is busy with something else makes a run longer, shrunk to 0 where there is little
        evidence.
    error : float
        Standard error of what was measured of it; infinite where nothing was.
    rows : int
        Rows with `active_cores`.
    contended : int
        Of them, those that ran beside others.
    """

    kappa: float = 0.0
    error: float = float("inf")
    rows: int = 0
    contended: int = 0

    def factor(self, others: float) -> float:
        """Return by how much a run is longer beside `others` busy cores."""
        return 1.0 + self.kappa * max(others, 0.0)


def contention_at(table: RecordTable, place: int) -> Contention:
    """Return what is known of the component at a place."""
    words = table.words[place]
    precision = float(words[PRECISION])
    rows, contended = (int(table.int_field(name)[place]) for name in ("rows", "contended"))
    return Contention(float(shrunk(words)), precision**-0.5 if precision > 0 else float("inf"), rows, contended)


def shrunk(c):
    """Return kappa of a record as far as evidence carries it: (1 - (error / kappa)**2) of it, not below 0."""
    square = c[KAPPA] * c[KAPPA] * c[PRECISION]
    return c[KAPPA] * (1.0 - 1.0 / square) if square > 1.0 else 0.0


def correction(c, k, others):
    """Return by how much the others made a row longer, as far as it is known, and count the row."""
    k[ROWS] += 1
    if others > 0.0:
        k[CONTENDED] += 1
    return 1.0 + shrunk(c) * others


def add_to_epoch(c, k, w, n, x, p, t, others, count):
    """Add a row to the sums of its epoch, within what the weighting model of the component's words knows."""
    if not (w[W_FLOOR] > 0.0 and knows(w, n, x, p)):
        return
    within = 1.0 + c[KAPPA] * others
    r = min(t / within / weigh(w, n, x, p), RATIO_MOST)
    ell = log2_of(p)
    terms = (1.0, ell, ell * ell, others / within)
    number = GRAM
    for i in range(TERMS):
        for j in range(i, TERMS):
            c[number] += count * terms[i] * terms[j]
            number += 1
        c[RIGHT + i] += count * terms[i] * r
    c[SQUARE] += count * r * r
    k[SUM_ROWS] += 1


def end_epoch(c, k):
    """Add what the epoch of a component has shown, and begin the next.

    Return the factor by which rows of this epoch should have been shorter than they were learned; 1 where that is little.
    """
    (step, certainty, mean_d), new = slope_in(c, k), k[ROWS] - k[START]
    k[START] = k[ROWS]
    for word in range(SUM_ROWS, SQUARE + 1):
        c[word] = 0.0
    if certainty == 0.0:
        return 1.0
    corrected_by = shrunk(c)
    aged = OLD_SHARE * min(1.0, new / max(k[ROWS] - new, 1))
    before = (1.0 - aged) * c[PRECISION]
    both = before + certainty
    moved = (before * c[KAPPA] + certainty * (c[KAPPA] + step)) / both
    c[KAPPA], c[PRECISION] = min(max(moved, 0.0), KAPPA_MAX), both
    factor = 1.0 / (1.0 + (shrunk(c) - corrected_by) * mean_d)
    return factor if abs(factor - 1.0) >= CARRIED_LEAST else 1.0


def slope_in(c, k):
    """Return the slope in d over the level, its precision, and the mean of d, of an epoch; 0s: d tells nothing of its own."""
    nothing = (0.0, 0.0, 0.0)
    rows = k[SUM_ROWS]
    if rows < ROWS_LEAST:
        return nothing
    sums, raw = np.empty((TERMS + 1, TERMS + 1)), np.empty(TERMS)  # the last line and column are r
    number = GRAM
    for i in range(TERMS):
        for j in range(i, TERMS):
            sums[i, j] = sums[j, i] = c[number]
            number += 1
        sums[i, R] = sums[R, i] = c[RIGHT + i]
        raw[i] = sums[i, i]
    sums[R, R] = c[SQUARE]
    weight, mean_d, mean_r = sums[0, 0], sums[0, D] / sums[0, 0], sums[0, R] / sums[0, 0]
    used = 1
    for pivot in range(D):  # taken out of all later ones; a term that is no other than those before it is left out
        if sums[pivot, pivot] <= ALIKE * raw[pivot]:
            continue
        used += 1
        for i in range(pivot + 1, TERMS + 1):
            share = sums[pivot, i] / sums[pivot, pivot]
            for j in range(pivot + 1, TERMS + 1):
                sums[i, j] -= share * sums[pivot, j]
    own = sums[D, D]
    if own <= ALIKE * raw[D] or rows <= used:
        return nothing
    slope = sums[D, R] / own
    level = mean_r - slope * mean_d
    if level <= 0.0:
        return nothing
    unexplained = max(sums[R, R] - slope * slope * own, 0.0) / (rows - used)
    noise = max(unexplained, NOISE_LEAST * weight / rows)
    return slope / level, own * level * level / noise, mean_d


def _restart(table: RecordTable, place: int) -> None:
    """Begin an epoch."""
    table.words[place, SUM_ROWS:] = 0.0
    table.int_field("start")[place] = table.int_field("rows")[place]


def forget(table: RecordTable, place: int) -> None:
    """Let the evidence on a component begin anew, but for its counts of rows."""
    table.words[place, [PRECISION, KAPPA]] = 0.0
    _restart(table, place)


def merge(table: RecordTable, place: int, other: RecordTable, there: int) -> None:
    """Add the evidence of another record of the same component."""
    mine, theirs = table.words[place], other.words[there]
    if theirs[PRECISION] > 0.0:
        both = mine[PRECISION] + theirs[PRECISION]
        mine[KAPPA] = (mine[PRECISION] * mine[KAPPA] + theirs[PRECISION] * theirs[KAPPA]) / both
        mine[PRECISION] = both
    for name in ("rows", "contended"):
        table.int_field(name)[place] += other.int_field(name)[there]
    _restart(table, place)
