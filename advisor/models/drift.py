"""Changes of speed and wild measurements, found in each row's ratio to what the weighting model expected.

e = log2(t / m) of a row within the predictors and cores that the model m was solved on; z = (e - centre) / scale, in whole
256ths. Two sums, each the CUSUM of Page (1954), restart at 0:

    rise = max(0, rise + min(z, CLIP) - SLACK)        fall = max(0, fall + min(-z, CLIP) - SLACK)

One that reaches `ALARM` is a change, at that very row. All of it is integers, so sums over rows sorted by component give the
recursion exactly (S_i = C_i - min(0, C_1 .. C_i), C the sums without restarts), however a batch is cut.

Centre and scale stand still between the solves of the weighting model and are estimated at each from the rows since the last,
so a component is tested from its 32nd row on. At a change the old sums are carried to the new level and count as few rows.
A row beyond `REACH` scales is learned at that bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.models import counts
from advisor.models.counts import ALL
from advisor.models.layout import FIRST_SOLVE
from advisor.models.logarithm import exp2, rough_log2
from advisor.models.table import Table, by_slot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNIT = 256  # of z: an error of 1/512 scale a row is far below the error of the scale
# Chosen by simulation of log-normal and Student noise, see docs/decisions/0011-drift.md.
SLACK = UNIT  # 1 scale: a model that is wrong by less than its residuals, for however long, raises no alarm
CLIP = 9 * UNIT // 4  # no single row brings a change nearer by more than 1.25 of the 6 scales: it takes 5 at least
ALARM = 6 * UNIT
REACH_SCALES = 6.0
REACH = (
    6 * UNIT
)  # a residual beyond is learned at it. More than one in 36 widen the scale instead: such rows are no exception

ROWS_MIN = 8  # scored rows that an estimate of centre and scale needs
SCALE_MIN = (
    0.25  # log2: where rows repeat to the digit, a model is still some 20 % off at one size or another, for long
)
INFLATION = 1.0  # of the scale, by 1 / sqrt(rows): about twice its standard error
# A young model's own level is worth this many rows: E[t / m] = 1 at each solve, so that E[e] is about -(ln 2 / 2) scale**2.
PRIOR_ROWS = 64.0
HALF_LN2 = 0.34657359027997264
SPREAD_MAX = 1.0  # the scale up to which that expansion is used

# Changes that follow each other are residuals that persist: a sweep over sizes that the model fits badly, say. Each widens the
# scale by half; the next solve takes one back when half of the component's life has passed without a change.
CAUTION_MAX = 6
CAUTION_STEP = 0.5
QUICK_ROWS = 256

KEPT_ROWS = 8.0  # what the sums of before a change count as: the shape stays until 8 new rows outweigh it
RATIO_MAX = 8.0  # log2 of one change; larger ones are several

E_UNIT = 1024.0  # of the sums of e since a level left 0
ROWS_BITS = 20  # of such a word: the rows; above them the sum
ROWS_MASK = (1 << ROWS_BITS) - 1
RISE_BITS, FALL_BITS, CAUTION_BITS = 48, 32, 28  # of the levels' word; below them the rows scored since the last solve
LEVEL_MASK, REST_MASK, CAUTION_MASK, SCORED_MASK = (1 << 16) - 1, (1 << 32) - 1, (1 << 4) - 1, (1 << 28) - 1
FEW = 4  # rows a component from which nearly all components move: picking them out would cost more than it saves
APART = 1 << 32  # between the sums of one component and the next: above what CHUNK_ROWS rows can add


class Scores(NamedTuple):
    """Scores of rows (n,): slots, z (0 of unknown rows), e, their slots' levels, which rows are known, which of these are
    tested, and which of these move the levels.
    """

    slots: Ints
    z: Ints
    e: Floats
    levels: Ints
    known: Bools
    tested: Bools
    moves: Bools
    wild: Ints  # the places of those beyond `REACH`

    def where(self, keep: Bools) -> Scores:
        """Return the scores of some of the rows."""
        wild = np.zeros(len(keep), np.bool_)
        wild[self.wild] = True
        return Scores._make((*(column[keep] for column in self[:-1]), np.flatnonzero(wild[keep])))


class Walk(NamedTuple):
    """Where the levels of the components that moved stand after the rows, or after their first row that found a change;
    and the places of these.
    """

    slots: Ints
    rise: Ints
    fall: Ints
    rise_word: Ints
    fall_word: Ints
    alarms: Ints


FIELDS = ("drift_centre", "drift_rate", "drift_levels", "drift_rise", "drift_fall", "drift_sum", "drift_square")
NOWHERE = np.zeros(0, np.int64)
STILL = Walk(NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE)


def score(table: Table, slots: Ints, m: Floats, q: Floats, t: Floats, known: Bools) -> tuple[Scores, Floats]:
    """Return the scores of rows (n,), and the times (n,) to learn. Cost O(n).

    Parameters
    ----------
    m, q, t : float64 arrays (n,)
        What the weighting model expects, m / t, and the elapsed times.
    known : bool array (n,)
        Whether the row lies within what the model was solved on.
    """
    rate = table["drift_rate"][slots]
    levels = table.integers("drift_levels")[slots]
    tested = (rate > 0) & known
    e = rough_log2(q)
    np.negative(e, out=e)
    scaled = e - table["drift_centre"][slots]
    scaled *= np.where(rate > 0, rate, float(UNIT))
    scaled *= known
    z = np.rint(scaled, out=scaled).astype(np.int64)
    size = np.abs(z)
    if int(size.max()) > REACH:
        wild = np.flatnonzero((size > REACH) & tested)
        bound = np.where(z[wild] > 0, REACH_SCALES, -REACH_SCALES)
        t = t.copy()
        t[wild] = m[wild] * exp2(table["drift_centre"][slots[wild]] + bound * (UNIT / rate[wild]))
        z = np.minimum(np.maximum(z, -REACH), REACH)
    else:
        wild = NOWHERE
    moves = (levels > REST_MASK) | (size > SLACK)
    moves &= tested
    return Scores(slots, z, e, levels, known, tested, moves, wild), t


def walk(table: Table, scores: Scores) -> Walk:
    """Return how far the levels rise and fall. Cost O(n); components at rest, with small residuals, cost nothing more."""
    if not scores.moves.any():
        return STILL
    if table.size * FEW < len(scores.slots):
        rows = np.flatnonzero(scores.tested)
    else:
        np.add.at(table.tally, scores.slots, scores.moves.astype(np.int32))
        rows = np.flatnonzero((table.tally[scores.slots] != 0) & scores.tested)
        table.tally[scores.slots] = 0
    rows = rows[by_slot(scores.slots[rows])]
    slots = scores.slots[rows]
    new = np.empty(len(rows), np.bool_)
    new[0] = True
    np.not_equal(slots[1:], slots[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(rows)) - 1
    owners = slots[starts]
    levels = scores.levels[rows[starts]]
    z = np.minimum(np.maximum(scores.z[rows], -CLIP), CLIP)
    rise = _levels(z - SLACK, levels >> RISE_BITS, starts)
    fall = _levels(-SLACK - z, levels >> FALL_BITS & LEVEL_MASK, starts)
    found = NOWHERE
    if max(int(rise.max()), int(fall.max())) >= ALARM:
        found = np.flatnonzero((rise >= ALARM) | (fall >= ALARM))
        component = np.searchsorted(starts, found, side="right") - 1
        earliest = np.diff(component, prepend=-1) > 0
        found = found[earliest]
        ends[component[earliest]] = found
    added = (np.rint(scores.e[rows] * E_UNIT).astype(np.int64) << ROWS_BITS) + 1
    np.cumsum(added, out=added)
    rise_word = _since(rise, added, table.integers("drift_rise"), owners, starts, ends)
    fall_word = _since(fall, added, table.integers("drift_fall"), owners, starts, ends)
    return Walk(owners, rise[ends], fall[ends], rise_word, fall_word, rows[found])


def _levels(steps: Ints, level: Ints, starts: Ints) -> Ints:
    """Return S_i = max(0, S_(i-1) + step_i) of each component's rows, from its level on."""
    steps[starts] -= (
        APART  # so each component's running sums lie below all before it, and one running minimum serves all
    )
    total = np.cumsum(steps)
    least = total.copy()
    least[starts] = np.minimum(total[starts], total[starts] - steps[starts] - APART - level)
    np.minimum.accumulate(least, out=least)
    return np.subtract(total, least, out=total)


def _since(level: Ints, added: Ints, words: Ints, owners: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the sums of `added`, of which the running total is given, since the level was last 0, at each end."""
    sums = np.zeros(len(ends), np.int64)
    live = np.flatnonzero(level[ends] != 0)
    if len(live):
        starts, ends = starts[live], ends[live]
        zeros = np.flatnonzero(level == 0)
        last = np.append(zeros, -1)[np.searchsorted(zeros, ends) - 1]
        before = np.where(starts > 0, added[starts - 1], 0) - words[owners[live]]
        sums[live] = added[ends] - np.where(last >= starts, added[last], before)
    return sums


def commit(table: Table, scores: Scores, moved: Walk) -> None:
    """Write what the rows did to their components' record. Cost O(n)."""
    slots = scores.slots
    levels = table.integers("drift_levels")
    np.add.at(levels, slots, scores.known.astype(np.int64))
    np.add.at(table.integers("drift_sum"), slots, scores.z)
    np.add.at(table.integers("drift_square"), slots, scores.z * scores.z)
    wild = slots[scores.wild]
    if len(wild):
        np.add.at(table.integers("outliers"), wild, np.ones(len(wild), np.int64))
    if len(moved.slots):
        slots = moved.slots
        levels[slots] = moved.rise << RISE_BITS | moved.fall << FALL_BITS | levels[slots] & REST_MASK
        table.integers("drift_rise")[slots] = moved.rise_word
        table.integers("drift_fall")[slots] = moved.fall_word


def settle(part: Table, grown: Bools) -> None:
    """Estimate centre and scale of all slots of `part`, whose weighting models were solved, and begin to count again.

    Where the range of cores has grown (n,) since the last solve, the model knows the new ones from few rows: nothing is tested
    until the next.
    """
    scored = part.integers("drift_levels") & SCORED_MASK
    enough = scored >= ROWS_MIN
    n = np.maximum(scored, ROWS_MIN).astype(np.float64)
    centre, rate = part["drift_centre"], part["drift_rate"]
    mean = part.integers("drift_sum").astype(np.float64) / UNIT / n
    square = part.integers("drift_square").astype(np.float64) / (UNIT * UNIT) / n
    unit = UNIT / np.where(rate > 0, rate, float(UNIT))
    caution = np.maximum(_caution(part) - (enough & ~quick(part)), 0)
    spread = unit * np.sqrt(np.maximum(square - mean * mean, 0.0) * (n / (n - 1.0)))
    spread = np.maximum(spread, SCALE_MIN) * (1.0 + INFLATION / np.sqrt(n)) * (1.0 + CAUTION_STEP * caution)
    share = n / (n + PRIOR_ROWS)
    bounded = np.minimum(spread, SPREAD_MAX)
    level = share * (centre + mean * unit) - (1.0 - share) * (HALF_LN2 * bounded * bounded)
    centre[:] = np.where(enough, level, centre)
    rate[:] = np.where(grown, 0.0, np.where(enough, UNIT / spread, rate))
    anew = enough | grown
    part.integers("drift_levels")[:] = caution << CAUTION_BITS | np.where(anew, 0, scored)
    for field in ("drift_sum", "drift_square"):
        part.integers(field)[anew] = 0
    for field in ("drift_rise", "drift_fall"):
        part.integers(field)[:] = 0


def _caution(part: Table) -> Ints:
    return part.integers("drift_levels") >> CAUTION_BITS & CAUTION_MASK


def quick(part: Table) -> Bools:
    """Return the slots (n,) whose last change lies back less than half of their life, or `QUICK_ROWS`."""
    rows, at = part.integers("rows"), part.integers("changed_at")
    return (part.integers("changes") > 0) & (rows - at < np.maximum(rows >> 1, QUICK_ROWS))


def restart(part: Table, at: Any = ALL) -> None:
    """Forget centre, scale and levels; the next solve but one brings a test again."""
    for field in FIELDS:
        part[field][at] = 0


def change(part: Table) -> Floats:
    """Carry all components of `part`, each just found to have changed, to their new level; return the log2 ratios (n,).

    With r the geometric mean of t / m since the level left 0, against the centre, the weighting model is multiplied by r. The
    sums hold those rows already, at their new level: a share of n of N rows, so they are carried by f = r / (1 + n/N (r - 1)),
    w = 1 / m**2 and all, and discounted to `KEPT_ROWS` rows. The component is then of age 32: the model is solved
    again after 16 more rows, and then at 64, 128, ...
    """
    risen = part.integers("drift_levels") >> RISE_BITS >= ALARM
    word = np.where(risen, part.integers("drift_rise"), part.integers("drift_fall"))
    n = np.maximum(word & ROWS_MASK, 1).astype(np.float64)
    reach = REACH_SCALES * (UNIT / part["drift_rate"])
    ratio = (word >> ROWS_BITS).astype(np.float64) / (n * E_UNIT) - part["drift_centre"]
    ratio = np.minimum(np.maximum(ratio, -RATIO_MAX), RATIO_MAX)
    learned = exp2(np.minimum(np.maximum(ratio, -reach), reach))
    rows = part.integers("rows").copy()
    evidence = np.maximum(counts.evidence(part), 1.0)
    r = exp2(ratio)
    f = r / (1.0 + np.minimum(n / evidence, 1.0) * (learned - 1.0))
    carry(part, r, f)
    caution = np.minimum(_caution(part) + quick(part), CAUTION_MAX)
    part.integers("changes")[:] += 1
    part.integers("changed_at")[:] = rows
    part["changed_by"][:] = ratio
    restart(part)
    part.integers("drift_levels")[:] = caution << CAUTION_BITS
    return ratio


def carry(part: Table, r: Floats, f: Floats) -> None:
    """Carry the models of all components of `part` by r (n,) and their sums by f (n,), which then count `KEPT_ROWS` rows."""
    rows = part.integers("rows").copy()
    evidence = np.maximum(counts.evidence(part), 1.0)
    keep = np.minimum(KEPT_ROWS / evidence, 1.0)
    for fields, factor in (
        (("gram",), keep / (f * f)),
        (("right",), keep / f),
        (("square", "least_gram", "top_runs", "cell_runs", "cell_sum", "cell_square"), keep),
        (("least_right", "top_sum"), keep * f),
        (("least_square",), keep * (f * f)),
        (("w_coefficients", "w_floor", "t_low"), r),
    ):
        for field in fields:
            part[field][...] *= factor
    part["forgotten"][:] = rows - keep * evidence
    part.integers("start")[:] = rows - FIRST_SOLVE
    part.integers("solve_at")[:] = rows + FIRST_SOLVE
