"""How much longer a component takes while others are busy: T(p, others) = T(p) (1 + kappa others), in constant space.

`others` = max(active_cores - p, 0) are the cores of the machine that were busy with something else while a run took place.
Learned in epochs, by the rows of a component that tell them: epoch k ends at row 16 * 2**k since they began. In an epoch

- a copy m of the weighting model, and kappa, stand still: each row is corrected, t' = t / (1 + kappa others), kappa being
  shrunk as it is told, before anything else learns from it, so that the curve T(p) is that of an idle machine;
- r = t / (1 + kappa others) / m is gathered into the sums of its least squares on (1, log2 p, log2(p)**2, d),
  d = others / (1 + kappa others). If m is right up to a factor b, r = b (1 + (true kappa - kappa) d) exactly. The logs of p
  take what m itself has learned of contention where busy cores go with cores given.

At its end kappa moves by the slope in d over the level, and is weighed with what was known before, which counts half as much
as it did where the epoch was as long as all before. Where that changes a typical correction by `CARRIED_LEAST`, what was
learned of the curve so far is carried by as much, and counts few rows. Where others are a function of p alone (a machine always
full) nothing tells contention from the curve: the slope has little precision, and the curve keeps it.

What is told is shrunk: kappa (1 - (error / kappa)**2), not below 0: without evidence there is no contention.
Merge: approximate, both sides weighed by their precision; an epoch under way is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.models import weighting
from advisor.models.fold import KERNELS
from advisor.models.layout import FIRST_SOLVE
from advisor.models.logarithm import log2
from advisor.models.records import Field, RecordTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TERMS = 4  # 1, log2 p, log2(p)**2, d
D = TERMS - 1
PAIRS = [(i, j) for i in range(TERMS) for j in range(i, TERMS)]
FIRST_ROWS = FIRST_SOLVE  # rows of the first epoch: the weighting model needs as many
RATIO_MOST = 4.0  # a row that took more of its prediction counts as so much: an outlier does not decide
KAPPA_MAX = 10.0  # one busy core that makes a run take 11 times as long is no contention but an exclusion
OLD_SHARE = 0.5  # of the precision known before that an epoch of as many rows takes: an older model judged those rows
EVERY_ROW = 2_048  # rows of a component that are all gathered, kappa being known to a few percent; then every 16th
THINNED = 15
ROWS_LEAST = 3 * TERMS  # rows of an epoch that a slope needs
ALIKE = 1e-6  # share of the variance of d that the other terms leave: below, d tells nothing of its own
FEATURES_WORDS: int = weighting.FEATURES.stop - weighting.FEATURES.start

FIELDS: tuple[Field, ...] = (
    ("component", 1, "i", -1),  # slot in the base table
    ("rows", 1, "i", 0),  # rows that told active_cores
    ("contended", 1, "i", 0),  # of them, those with others
    ("kappa", 1, "f", 0),  # as far as known: what rows are corrected by, before it is shrunk
    ("precision", 1, "f", 0),  # 1 / variance of it
    ("start", 1, "i", 0),  # rows when epochs began, or began anew
    ("solve_at", 1, "i", FIRST_ROWS),  # rows at which the epoch ends
    ("sum_rows", 1, "i", 0),  # rows in the sums
    ("gram", len(PAIRS), "f", 0),
    ("right", TERMS, "f", 0),
    ("square", 1, "f", 0),
    ("model", FEATURES_WORDS, "f", 0),  # the copy of the weighting model; its floor is 0 where there is none
)
SUMS = ("gram", "right", "square")


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
        Rows that told `active_cores`.
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


def new_table() -> RecordTable:
    """Return a table without records."""
    return RecordTable(FIELDS, "contention-1")


def _f(table: RecordTable, field: str) -> Floats:
    """Return the view (capacity,) of a field of one float64."""
    return table.words[:, table.at[field].start]


def shrunk(kappa: Floats, precision: Floats) -> Floats:
    """Return kappa (n,) as far as evidence carries it: (1 - (error / kappa)**2) of it, not below 0. Elementwise."""
    square = kappa * kappa * precision
    return np.where(square > 1.0, kappa * (1.0 - 1.0 / np.maximum(square, 1.0)), 0.0)


def told(table: RecordTable, place: int) -> Contention:
    """Return what is known of the component at a place."""
    kappa, precision = _f(table, "kappa")[place : place + 1], _f(table, "precision")[place : place + 1]
    error = float(precision[0]) ** -0.5 if precision[0] > 0 else float("inf")
    rows, contended = int(table.count("rows")[place]), int(table.count("contended")[place])
    return Contention(float(shrunk(kappa, precision)[0]), error, rows, contended)


def epoch_ends(table: RecordTable, places: Ints) -> Ints:
    """Return for each row (n,) the row of its component with which its epoch ends."""
    return table.count("solve_at")[places]


def correction(table: RecordTable, places: Ints, others: Floats) -> Floats:
    """Return by how much the others made rows (n,) longer, as far as it is known, and count the rows. Cost O(n)."""
    flat, home = table.words.view(np.int64).reshape(-1), places * table.words_a_record
    np.add.at(flat, home + table.at["rows"].start, np.ones(len(places), np.int64))
    np.add.at(flat, home + table.at["contended"].start, (others > 0).astype(np.int64))
    table.changed[places] = True
    return 1.0 + shrunk(_f(table, "kappa")[places], _f(table, "precision")[places]) * others


def gathered(ordinal: Ints) -> NDArray[np.bool_]:
    """Return which rows (n,) are gathered, by their number among those of their component."""
    return (ordinal <= EVERY_ROW) | (ordinal & THINNED == 0)


def gather(
    table: RecordTable, places: Ints, x: Floats, p: Floats, t: Floats, others: Floats, count: Ints | None
) -> None:
    """Add rows (n,) to the sums of their epoch. Cost O(n)."""
    solved = np.flatnonzero(table.words[places, table.at["model"].start + FLOOR] > 0.0)
    if not len(solved):
        return
    places, x, p, others, t = places[solved], x[solved], p[solved], others[solved], t[solved]
    flat, home = table.words.reshape(-1), places * table.words_a_record
    m, known = np.empty(len(x)), np.empty(len(x), np.bool_)
    KERNELS.judge_rows(table.floats("model")[places], x, p, m, known)
    within = 1.0 + _f(table, "kappa")[places] * others
    r = np.minimum(t / within / m, RATIO_MOST)
    w = known.astype(np.float64) if count is None else known * count[solved].astype(np.float64)
    ell = log2(p)
    terms = (np.ones(len(r)), ell, ell * ell, others / within)
    start = {name: home + table.at[name].start for name in (*SUMS, "sum_rows")}
    for number, (i, j) in enumerate(PAIRS):
        np.add.at(flat, start["gram"] + number, w * terms[i] * terms[j])
    for i in range(TERMS):
        np.add.at(flat, start["right"] + i, w * terms[i] * r)
    np.add.at(flat, start["square"], w * r * r)
    np.add.at(flat.view(np.int64), start["sum_rows"], known.astype(np.int64))


FLOOR = FEATURES_WORDS - 2  # where the model's floor stands among its words


def end_epoch(table: RecordTable, place: int) -> float:
    """Take what the epoch of a component has told: `begin_epoch` follows.

    Return the factor by which rows of this epoch should have been shorter than they were learned; 1 where that is little.
    """
    factor = 1.0
    found = _slope(table, place)
    kappa, precision = _f(table, "kappa"), _f(table, "precision")
    if found is not None:
        step, certainty, mean_d = found
        corrected_by = told(table, place).kappa
        new, rows = _epoch_rows(table, place), int(table.count("rows")[place])
        aged = OLD_SHARE * min(1.0, new / max(rows - new, 1))
        before = (1.0 - aged) * float(precision[place])
        both = before + certainty
        moved = (before * float(kappa[place]) + certainty * (float(kappa[place]) + step)) / both
        kappa[place], precision[place] = min(max(moved, 0.0), KAPPA_MAX), both
        factor = 1.0 / (1.0 + (told(table, place).kappa - corrected_by) * mean_d)
        if abs(factor - 1.0) < CARRIED_LEAST:
            factor = 1.0
    return factor


def _epoch_rows(table: RecordTable, place: int) -> int:
    """Return how many rows the epoch of a component has: half of those since they began."""
    return (int(table.count("rows")[place]) - int(table.count("start")[place])) // 2


def begin_epoch(table: RecordTable, place: int, model: Floats) -> None:
    """Begin an epoch of as many rows as there were, with the weighting model (14,) of now."""
    _begin(table, place, model)
    table.count("solve_at")[place] = 2 * table.count("rows")[place] - table.count("start")[place]


def _begin(table: RecordTable, place: int, model: Floats) -> None:
    for name in SUMS:
        table.floats(name)[place] = 0.0
    table.count("sum_rows")[place] = 0
    table.floats("model")[place] = model
    table.changed[place] = True


def _slope(table: RecordTable, place: int) -> tuple[float, float, float] | None:
    """Return (slope in d over the level, its precision, mean of d) of an epoch; None where d tells nothing of its own."""
    rows = int(table.count("sum_rows")[place])
    if rows < ROWS_LEAST:
        return None
    sums = [[0.0] * (TERMS + 1) for _ in range(TERMS + 1)]  # the last line and column are r
    for (i, j), value in zip(PAIRS, table.floats("gram")[place].tolist(), strict=True):
        sums[i][j] = sums[j][i] = value
    for i, value in enumerate(table.floats("right")[place].tolist()):
        sums[i][TERMS] = sums[TERMS][i] = value
    sums[TERMS][TERMS] = float(table.floats("square")[place, 0])
    raw = [sums[i][i] for i in range(TERMS)]
    weight, mean_d, mean_r = sums[0][0], sums[0][D] / sums[0][0], sums[0][TERMS] / sums[0][0]
    used = 1
    for pivot in range(D):  # taken out of all later ones; a term that is no other than those before it is left out
        if sums[pivot][pivot] <= ALIKE * raw[pivot]:
            continue
        used += 1
        for i in range(pivot + 1, TERMS + 1):
            share = sums[pivot][i] / sums[pivot][pivot]
            for j in range(pivot + 1, TERMS + 1):
                sums[i][j] -= share * sums[pivot][j]
    own = sums[D][D]
    if own <= ALIKE * raw[D] or rows <= used:
        return None
    slope = sums[D][TERMS] / own
    level = mean_r - slope * mean_d
    if level <= 0.0:
        return None
    unexplained = max(sums[TERMS][TERMS] - slope * slope * own, 0.0) / (rows - used)
    noise = max(unexplained, NOISE_LEAST * weight / rows)
    return slope / level, own * level * level / noise, mean_d


CARRIED_LEAST = 0.05  # share of a time by which a curve may be off before it is carried, which costs it its evidence
NOISE_LEAST = 1e-8  # of the variance of t / m: no model is right to more than 1e-4


def _restart(table: RecordTable, place: int) -> None:
    """Begin with epochs anew."""
    _begin(table, place, np.zeros(FEATURES_WORDS))
    table.count("start")[place] = table.count("rows")[place]
    table.count("solve_at")[place] = table.count("rows")[place] + FIRST_ROWS


def forget(table: RecordTable, place: int, keep: float) -> None:
    """Keep the share `keep` of the evidence; an epoch under way is dropped."""
    precision = _f(table, "precision")
    precision[place] = precision[place] * keep
    if keep <= 0.0:
        _f(table, "kappa")[place] = 0.0
    _restart(table, place)


def merge(table: RecordTable, place: int, other: RecordTable, there: int) -> None:
    """Add the evidence of another record of the same component."""
    mine, theirs = float(_f(table, "precision")[place]), float(_f(other, "precision")[there])
    if theirs > 0.0:
        kappas = float(_f(table, "kappa")[place]), float(_f(other, "kappa")[there])
        _f(table, "kappa")[place] = (mine * kappas[0] + theirs * kappas[1]) / (mine + theirs)
        _f(table, "precision")[place] = mine + theirs
    for name in ("rows", "contended"):
        table.count(name)[place] += other.count(name)[there]
    _restart(table, place)
