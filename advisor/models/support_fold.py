"""The fold of rows into support points: a counter-chosen sample, in row order, the same bytes however a batch is cut.

Of a component's rows the first 2 * `SAMPLED` are taken, then every 2nd, 4th, .. up to every `THINNEST`-th as their number
doubles: about `SAMPLED` rows a doubling, so that a fold costs O(log rows) points at first and a fixed share of the rows for
ever. Every second sampled row is predicted before it is learned, when the table's credit allows: see `Credit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.models.support import (
    LOWEST,
    POINTS,
    SCORES,
    SupportTable,
    coarsen,
    keys_of,
    machine_index,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SAMPLED = 32  # rows learned a doubling of a component's rows
THINNEST = 64  # one row in 64 at least, or what changed slowly would never be seen
ZERO_Z = LOWEST + 2.0  # where x = 0 stands: below the least positive predictor, 2**-60
FIRST_SCORED = 5  # rows before it are too few to predict from
LEVEL_SCORED = 0.9  # of the interval whose coverage is counted
SCORE_MAX = 100.0  # a score beyond is as good as infinite

# A score needs the component's forms solved, about half a millisecond; a row of columns folds in less than a microsecond.
SCORES_EARLY = (
    8_192  # scores of a table that are cheap, so that a young state learns quickly what its intervals are worth
)
ROWS_EARLY = 4  # rows that earn an early score
ROWS_LATE = 8_192  # rows that earn a later one: below a tenth of the time of a fold
CREDIT_MAX = 64  # scores that may be saved up

Predict = Callable[[SupportTable, int, Floats, int], tuple[float, float]]


@dataclass(slots=True)
class Credit:
    """What may be spent on scoring, counted in rows, never in time.

    Attributes
    ----------
    rows : int
        Rows saved up, each row folded earning one.
    spent : int
        Scores ever made.
    """

    rows: int = CREDIT_MAX * ROWS_EARLY
    spent: int = 0

    def spend(self, candidates: Ints, rows: int) -> Bools:
        """Return which candidates (ascending row numbers of a batch of `rows`) are scored, and account for the batch."""
        granted = np.zeros(len(candidates), np.bool_)
        earned = 0
        for i, row in enumerate(candidates.tolist()):
            self._earn(row + 1 - earned)
            earned = row + 1
            price = self.price
            if self.rows >= price:
                self.rows -= price
                self.spent += 1
                granted[i] = True
        self._earn(rows - earned)
        return granted

    @property
    def price(self) -> int:
        """Rows that the next score costs."""
        return ROWS_EARLY if self.spent < SCORES_EARLY else ROWS_LATE

    def _earn(self, rows: int) -> None:
        self.rows = min(self.rows + rows, CREDIT_MAX * self.price)


def fold(
    table: SupportTable,
    slots: Ints,
    z: Floats,
    y: Floats,
    count: Floats | None,
    machine: Ints | None,
    credit: Credit,
    predict: Predict,
) -> None:
    """Fold n rows into their records. Cost O(n) and O(POINTS) a sampled row.

    Parameters
    ----------
    slots : int64 array (n,)
    z : float64 array (n, axes)
        log2 of predictors and cores; `ZERO_Z` for a predictor of 0.
    y : float64 array (n,)
        log2 of the elapsed times.
    count : float64 array (n,) or None
        Runs each row stands for.
    machine : int64 array (n,) or None
        Numbers of the machines, -1 where none is named.
    predict : callable
        (table, slot, z, machine place) -> (mean of y, sd of one run's y), for the rows that are scored.
    """
    if not len(slots):
        return
    distinct, at = np.unique(slots, return_inverse=True)
    ordinal = table.count("seen")[slots] + _rank(at) + 1
    np.add.at(table.count("seen"), slots, np.ones(len(slots), np.int64))
    table.changed[distinct] = True
    period, number = _sampling(ordinal)
    sampled = ordinal % period == 0
    candidates = np.flatnonzero(sampled & (ordinal > FIRST_SCORED) & (number % 2 == 0))
    to_score = np.zeros(len(slots), np.bool_)
    to_score[candidates[credit.spend(candidates, len(slots))]] = True
    rows = np.flatnonzero(sampled)
    one = np.ones(len(rows)) if count is None else count[rows]
    place = np.zeros(len(rows), np.int64)
    if machine is not None:
        named = np.flatnonzero(machine[rows] >= 0)
        for i in named.tolist():  # machines are few and mostly known: the search is seven comparisons
            place[i] = machine_index(table, int(slots[rows[i]]), int(machine[rows[i]]))
    _fold_sampled(table, slots[rows], at[rows], z[rows], y[rows], one, place, to_score[rows], len(distinct), predict)


def _rank(at: Ints) -> Ints:
    """Return how many rows of the same component come before each row."""
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.empty(len(at), np.int64)
    rank[order] = np.arange(len(at)) - np.repeat(starts, np.diff(starts, append=len(at)))
    return rank


def _sampling(ordinal: Ints) -> tuple[Ints, Ints]:
    """Return the period of sampling at rows 1, 2, .. of a component, and the number of the sample there."""
    exponent = np.maximum(np.frexp(ordinal / SAMPLED)[1] - 1, 0)
    period = np.minimum(np.left_shift(np.int64(1), exponent.astype(np.int64)), THINNEST)
    return period, ordinal // period


def _fold_sampled(
    table: SupportTable, slots: Ints, at: Ints, z: Floats, y: Floats, count: Floats, machine: Ints,
    to_score: Bools, distinct: int, predict: Predict,
) -> None:  # fmt: skip
    """Fold in rounds: each folds, for every component, the rows before its next score, new cell or coarser lattice."""
    while len(slots):
        keys = keys_of(z, table.integers("coarseness")[slots], machine)
        equal = table.integers("key")[slots] == keys[:, None]
        cell = equal.argmax(axis=1)
        missing = ~equal[np.arange(len(slots)), cell]
        stop = np.flatnonzero(missing | to_score)
        first = np.full(distinct, len(slots), np.int64)
        np.minimum.at(first, at[stop], stop)
        now = np.arange(len(slots)) < first[at]
        ready = np.flatnonzero(now)
        _add(table, slots[ready], cell[ready], z[ready], y[ready], count[ready])
        for row in stop[first[at[stop]] == stop].tolist():
            slot = int(slots[row])
            if to_score[row]:
                _score(table, slot, float(y[row]), *predict(table, slot, z[row], int(machine[row])))
                to_score[row] = False
            elif int(table.count("points")[slot]) < POINTS:
                table.integers("key")[slot, table.count("points")[slot]] = keys[row]
                table.count("points")[slot] += 1
            else:
                coarsen(table, slot)
        rest = np.flatnonzero(~now)
        slots, at, z, y, count = slots[rest], at[rest], z[rest], y[rest], count[rest]
        machine, to_score = machine[rest], to_score[rest]


def _add(table: SupportTable, slots: Ints, cell: Ints, z: Floats, y: Floats, count: Floats) -> None:
    flat = table.words.reshape(-1)
    row = slots * table.words_a_record + cell
    start = {field: table.at[field].start for field in ("runs", "y", "yy", "z", "low", "high")}
    np.add.at(flat, row + start["runs"], count)
    np.add.at(flat, row + start["y"], count * y)
    np.add.at(flat, row + start["yy"], count * y * y)
    for axis in range(table.axes):
        np.add.at(flat, row + (start["z"] + POINTS * axis), count * z[:, axis])
    np.minimum.at(flat, row + start["low"], y)
    np.maximum.at(flat, row + start["high"], y)


def _score(table: SupportTable, slot: int, y: float, mean: float, sd: float, reach: float = 1.6448536269514722) -> None:
    score = min(max((y - mean) / sd, -SCORE_MAX), SCORE_MAX)
    made = int(table.count("scores")[slot])
    table.floats("score")[slot, made % SCORES] = score
    table.count("scores")[slot] = made + 1
    table.count("covered")[slot] += abs(score) <= reach
    ratio = 2.0 ** min(mean - y, 60.0)
    table.floats("error")[slot] += abs(1.0 - ratio)
    table.floats("bias")[slot] += ratio - 1.0
