"""The fold of rows into support points: a counter-chosen sample, in row order, the same bytes however a batch is cut.

Of a component's rows the first 2 * `SAMPLED` are taken, then every 2nd, 4th, .. up to every 64th as their number
doubles: about `SAMPLED` rows a doubling, so that a fold costs O(log rows) points at first and a fixed share of the rows for
ever. Some of them are predicted before they are learned, when the table's credit allows: see `Credit`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.models.support import (
    LOWEST,
    POINTS,
    SCORES,
    SupportTable,
    add_row,
    keys_of,
    machine_index,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SAMPLED = 32  # rows learned a doubling of a component's rows
THINNEST_EXPONENT = 6  # one row in 64 at least, or what changed slowly would never be seen
ZERO_Z = LOWEST + 2.0  # where x = 0 stands: below the least positive predictor, 2**-60
# Rows up to which a sample may be scored, and the mask of sample numbers between scores: every second one until the ring of
# scores is full, then twice a doubling of rows, at last one row in 8192.
OFTEN_SCORED, OFTEN = 256, 1
SELDOM_SCORED, SELDOM, SELDOMEST = 4096, 15, 127
FIRST_SCORED = 5  # rows before it are too few to predict from
LEVEL_SCORED = 0.9  # of the interval whose coverage is counted
SCORE_MAX = 100.0  # a score beyond is as good as infinite

# A score needs the component's forms solved, about half a millisecond; a row of columns folds in less than a microsecond.
SCORES_EARLY = (
    8_192  # scores of a table that are cheap, so that a young state learns quickly what its intervals are worth
)
ROWS_EARLY = 4  # rows that earn an early score
ROWS_LATE = 65_536  # rows that earn a later one: 15 ns a row
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

    def spend(self, candidates: Ints, rows: int) -> Ints:
        """Return which candidates (ascending row numbers of a batch of `rows`) are scored, and account for the batch.

        Cost O(log n) a score: candidates that come before the next one is earned are passed over together.
        """
        granted: list[int] = []
        earned = at = 0
        numbers: list[int] = candidates.tolist()
        while at < len(numbers):
            wanted = earned + max(self.price - self.rows, 1) - 1
            at = bisect_left(numbers, wanted, at)
            if at == len(numbers):
                break
            row = numbers[at]
            self._earn(row + 1 - earned)
            earned = row + 1
            self.rows -= self.price
            self.spent += 1
            granted.append(row)
            at += 1
        self._earn(rows - earned)
        return np.array(granted, np.int64)

    @property
    def price(self) -> int:
        """Rows that the next score costs."""
        return ROWS_EARLY if self.spent < SCORES_EARLY else ROWS_LATE

    def _earn(self, rows: int) -> None:
        self.rows = min(self.rows + rows, CREDIT_MAX * self.price)


def fold(
    table: SupportTable,
    slots: Ints,
    coordinates: Callable[[Ints], tuple[Floats, Floats]],
    count: Floats | None,
    machine: Ints | None,
    credit: Credit,
    predict: Predict,
) -> None:
    """Fold n rows into their records. Cost O(n) and O(POINTS) a sampled row.

    Parameters
    ----------
    slots : int64 array (n,)
    coordinates : callable
        Rows (m,) to z (m, axes), log2 of their predictors and cores with `ZERO_Z` for a predictor of 0, and y (m,), log2 of
        their elapsed times; asked only for the rows that are sampled.
    count : float64 array (n,) or None
        Runs each row stands for.
    machine : int64 array (n,) or None
        Numbers of the machines, -1 where none is named.
    predict : callable
        (table, slot, z, machine place) -> (mean of y, sd of one run's y), for the rows that are scored.
    """
    n = len(slots)
    if n == 1:
        _fold_one(table, slots, coordinates, count, machine, credit, predict)
        return
    seen = table.words.view(np.int64).reshape(-1)
    home = slots * table.words_a_record + table.at["seen"].start
    before = seen[home]
    np.add.at(seen, home, 1)
    table.changed[slots] = True
    # A component has a sample among its rows only if a multiple of the period of its first one lies there.
    exponent = _exponent(before + 1)
    hot = np.flatnonzero((before >> exponent) != (seen[home] >> exponent))
    at, rank = _ranked(slots[hot], len(table.words))
    ordinal = before[hot] + rank + 1
    exponent = _exponent(ordinal)
    number = ordinal >> exponent
    sampled = np.flatnonzero((number << exponent) == ordinal)
    rows, ordinal = hot[sampled], ordinal[sampled]
    eligible = rows[_may_be_scored(ordinal, number[sampled])]
    to_score = np.zeros(len(rows), np.bool_)
    to_score[rows.searchsorted(credit.spend(eligible, n))] = True
    if len(rows):
        one = np.ones(len(rows)) if count is None else count[rows]
        place = np.zeros(len(rows), np.int64) if machine is None else _places(table, slots[rows], machine[rows])
        _fold_sampled(table, slots[rows], at[sampled], *coordinates(rows), one, place, to_score, predict)


def candidates(slots: Ints, seen: Ints) -> Ints:
    """Return the rows (ascending) that may be scored, of rows whose components, `slots` (n,), have seen so many (n,) before."""
    _, rank = _ranked(slots, 1 + int(slots.max()))
    ordinal = seen + rank + 1
    exponent = _exponent(ordinal)
    number = ordinal >> exponent
    sampled = (number << exponent) == ordinal
    return np.flatnonzero(sampled & _may_be_scored(ordinal, number))


def _may_be_scored(ordinal: Ints, number: Ints) -> Bools:
    """Return which samples, of the given ordinals and numbers, may be scored."""
    return (ordinal > FIRST_SCORED) & (number & _pause(ordinal) == 0)


def _fold_one(
    table: SupportTable, slots: Ints, coordinates: Callable[[Ints], tuple[Floats, Floats]], count: Floats | None,
    machine: Ints | None, credit: Credit, predict: Predict,
) -> None:  # fmt: skip
    """Fold one row: what `fold` does, in plain numbers."""
    slot = int(slots[0])
    seen = table.count("seen")
    ordinal = int(seen[slot]) + 1
    seen[slot] = ordinal
    table.changed[slot] = True
    exponent = min(max(ordinal.bit_length() - SAMPLED.bit_length(), 0), THINNEST_EXPONENT)
    number = ordinal >> exponent
    sampled = number << exponent == ordinal
    rest = OFTEN if ordinal <= OFTEN_SCORED else SELDOM if ordinal <= SELDOM_SCORED else SELDOMEST
    candidate = sampled and ordinal > FIRST_SCORED and number & rest == 0
    granted = credit.spend(np.zeros(int(candidate), np.int64), 1)
    if not sampled:
        return
    numbered = -1 if machine is None else int(machine[0])
    place = 0 if numbered < 0 else machine_index(table, slot, numbered)
    z, y = coordinates(np.zeros(1, np.int64))
    if len(granted):
        _score(table, slot, float(y[0]), *predict(table, slot, z[0], place))
    add_row(table, slot, z[0].tolist(), float(y[0]), 1.0 if count is None else float(count[0]), place)


def _ranked(slots: Ints, capacity: int) -> tuple[Ints, Ints]:
    """Return a number for each row's component, below the number of rows, and how many of its rows come before."""
    short = slots.astype(np.uint16) if capacity <= 1 << 16 else slots  # numpy sorts 16 bits by digits
    order = np.argsort(short, kind="stable")
    ordered = slots[order]
    first = np.empty(len(slots), np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    at, rank = np.empty((2, len(slots)), np.int64)
    at[order] = group
    rank[order] = np.arange(len(slots)) - starts[group]
    return at, rank


def _exponent(ordinal: Ints) -> Ints:
    """Return log2 of the period of sampling at rows 1, 2, .. of a component: of a double, the exponent's bits."""
    bits = ordinal.astype(np.float64).view(np.int64)
    bits >>= 52
    bits -= 1023 + SAMPLED.bit_length() - 1
    return np.clip(bits, 0, THINNEST_EXPONENT, out=bits)


def _pause(ordinal: Ints) -> Ints:
    """Return the mask of sample numbers between scores."""
    return np.where(ordinal <= OFTEN_SCORED, OFTEN, np.where(ordinal <= SELDOM_SCORED, SELDOM, SELDOMEST))


def _places(table: SupportTable, slots: Ints, machine: Ints) -> Ints:
    """Return the places of the rows' machines in their records, 0 where none is named, giving new ones theirs."""
    known = table.integers("machine")[slots] == machine[:, None]
    known[:, 0] = machine < 0
    place = known.argmax(axis=1)
    place[machine < 0] = 0
    for i in np.flatnonzero(~known.any(axis=1)).tolist():  # a component meets few machines in its life
        place[i] = machine_index(table, int(slots[i]), int(machine[i]))
    return place


def _fold_sampled(
    table: SupportTable, slots: Ints, at: Ints, z: Floats, y: Floats, count: Floats, machine: Ints,
    to_score: Bools, predict: Predict,
) -> None:  # fmt: skip
    """Fold in rounds: each folds, for every component, the rows before its next score, new cell or coarser lattice."""
    groups = int(at.max()) + 1
    every = np.arange(len(slots))
    while len(slots):
        keys = keys_of(z, table.integers("coarseness")[slots], machine)
        equal = table.integers("key")[slots] == keys[:, None]
        cell = equal.argmax(axis=1)
        n = len(slots)
        missing = ~equal[every[:n], cell]
        stop = np.flatnonzero(missing | to_score)
        if not len(stop):
            _add(table, slots, cell, z, y, count)
            return
        first = np.full(groups, n, np.int64)
        np.minimum.at(first, at[stop], stop)
        now = every[:n] < first[at]
        heads = stop[first[at[stop]] == stop]  # one a component
        used = table.count("points")[slots[heads]]
        simple = missing[heads] & ~to_score[heads] & (used < POINTS)
        fresh, used = heads[simple], used[simple]
        table.integers("key")[slots[fresh], used] = keys[fresh]
        table.count("points")[slots[fresh]] = used + 1
        cell[fresh] = used
        now[fresh] = True
        ready = np.flatnonzero(now)
        _add(table, slots[ready], cell[ready], z[ready], y[ready], count[ready])
        for row in heads[~simple].tolist():
            slot, place = int(slots[row]), int(machine[row])
            if to_score[row]:
                _score(table, slot, float(y[row]), *predict(table, slot, z[row], place))
            add_row(table, slot, z[row].tolist(), float(y[row]), float(count[row]), place)
            now[row] = True
        rest = np.flatnonzero(~now)
        slots, at, z, y, count = slots[rest], at[rest], z[rest], y[rest], count[rest]
        machine, to_score = machine[rest], to_score[rest]


def _add(table: SupportTable, slots: Ints, cell: Ints, z: Floats, y: Floats, count: Floats) -> None:
    flat = table.words.reshape(-1)
    row = slots * table.words_a_record + cell
    start = {field: table.at[field].start for field in ("runs", "y", "yy", "z", "low", "high")}
    weighted = count * y
    np.add.at(flat, row + start["runs"], count)
    np.add.at(flat, row + start["y"], weighted)
    np.add.at(flat, row + start["yy"], weighted * y)
    for axis in range(table.axes):
        np.add.at(flat, row + (start["z"] + POINTS * axis), count * z[:, axis])
    whole = slots * table.words_a_record
    pair = table.at["zz"].start
    for axis in range(table.axes):
        weighted = count * z[:, axis]
        np.add.at(flat, whole + (table.at["zy"].start + axis), weighted * y)
        for other in range(axis, table.axes):
            np.add.at(flat, whole + pair, weighted * z[:, other])
            pair += 1
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
