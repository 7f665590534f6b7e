"""What a task type's instances take, by their size (paper 2): support points, clusters, rates; a record of constant size.

Support points as printed: an instance whose size is below 0.9 of the least or above 1.1 of the largest becomes one; others are
predicted by linear interpolation, constant beyond the ends. Refined: means of cells of size stand as knots, where interpolating
between the others errs. Each instance is predicted by either before it is learned; the error of the total is Eq. 1,

    |1 - sum(predicted) / sum(measured)|.

Clusters, and answers about a type, are made of the cells at the question: see `type_verdict`. A fold is a strict left fold:
cut the instances anywhere, the words are the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats, Ints
from advisor.models.log_cells import (
    LEVEL,
    RANGE_WORDS,
    absolute,
    halved,
    joining,
    keys_of,
    places_in,
    places_of,
    widening,
)

POINTS: Final = 128  # support points as printed: ranges up to 1.1^128, 200,000 to 1, before neighbours merge
KNOTS: Final = 32
CELLS: Final = 128
RESOLUTION: Final = 16  # cells of size an octave, at first: 4 % wide
RATE_CELLS: Final = 96
RATE_RESOLUTION: Final = 16
BUCKETS: Final = 10  # of running workers: 1, 2-3, 4-7, …, 512 and more
BELOW, ABOVE = 0.9, 1.1  # of the range, from where on a size becomes a support point (the paper's)
REFROZEN: Final = 1.25  # knots are made anew when there are so many times as many instances as before
SIGNIFICANT: Final = 2.0  # standard errors by which a cell's mean must miss the interpolation to become a knot
TOLERATED: Final = 0.02  # and share of it

_HEAD = (
    "count", "total", "logs", "log_squares", "first", "second", "sized", "sized_total", "size_low", "size_high",
    "points", "predicted_printed", "knots", "predicted_refined", "refreeze_at",
)  # fmt: skip
_PARTS: Final = {
    "point_sizes": POINTS, "point_times": POINTS, "knot_sizes": KNOTS, "knot_times": KNOTS,
    "range": RANGE_WORDS, "cells": 7 * CELLS, "rate_range": RANGE_WORDS, "rates": BUCKETS * RATE_CELLS,
}  # fmt: skip
_STARTS: Final = dict(zip(_PARTS, np.cumsum([len(_HEAD), *_PARTS.values()])[:-1].tolist(), strict=True))
_WHOLE: Final = len(_HEAD) + sum(_PARTS.values())
# Instances looked at, and those with a size: fewer than count and sized where they are a sample. Last, for they came later.
_LATER: Final = ("rows", "sized_rows")
_AT: Final = {name: place for place, name in enumerate(_HEAD)} | {name: _WHOLE + k for k, name in enumerate(_LATER)}
_PARTS["workers"] = BUCKETS  # sums of running workers, by bucket: later still
_STARTS["workers"] = _WHOLE + len(_LATER)
WORDS: Final = _STARTS["workers"] + BUCKETS
_SUMS: Final = (
    "count", "total", "logs", "log_squares", "sized", "sized_total", "predicted_printed", "predicted_refined",
)  # fmt: skip
# Of a cell: count, sums of size, time, log time and its square, and the instance nearest to its centre.
N, SIZE, TIME, LOG, LOG2, NEAR_SIZE, NEAR_TIME = range(7)


class SizeTime:
    """A view of a type's record, words (WORDS,), changed by `fold`; zeros have learned nothing."""

    def __init__(self, words: Floats) -> None:
        self.words = words

    @property
    def share(self) -> float:
        """Instances looked at over those that they stand for."""
        count = self.number("count")
        return self.number("rows") / count if count else 1.0

    @property
    def sized_share(self) -> float:
        """The same of those with a size."""
        sized = self.number("sized")
        return self.number("sized_rows") / sized if sized else 1.0

    def number(self, name: str) -> float:
        """Return a field of the head."""
        return float(self.words[_AT[name]])

    def part(self, name: str) -> Floats:
        """Return an array of the record, a view."""
        return self.words[_STARTS[name] : _STARTS[name] + _PARTS[name]]

    @property
    def cells(self) -> Floats:
        """The cells in use with something in them (7, c), by size."""
        found = self.part("cells").reshape(7, CELLS)[:, absolute(self.part("range"), CELLS) % CELLS]
        return found[:, found[N] > 0.0]

    @property
    def rates(self) -> tuple[Floats, Floats]:
        """Rates size / time of the cells in use (c,), and how many instances had them by running workers (BUCKETS, c)."""
        numbers = absolute(self.part("rate_range"), RATE_CELLS)
        values: Floats = elementary.exp2((numbers + 0.5) * self.rate_width)
        return values, self.part("rates").reshape(BUCKETS, RATE_CELLS)[:, numbers % RATE_CELLS]

    @property
    def rate_width(self) -> float:
        """Width of a cell of rates, in log2."""
        return 2.0 ** float(self.part("rate_range")[LEVEL]) / RATE_RESOLUTION

    @property
    def workers(self) -> Floats:
        """Mean number of running workers (BUCKETS,) in each bucket; 0 where no instance ended."""
        counts = self.part("rates").reshape(BUCKETS, RATE_CELLS).sum(axis=1)
        return self.part("workers") / np.where(counts > 0.0, counts, 1.0)

    @property
    def points(self) -> tuple[Floats, Floats]:
        """The support points as printed: sizes ascending, times."""
        n = int(self.number("points"))
        return self.part("point_sizes")[:n], self.part("point_times")[:n]

    @property
    def knots(self) -> tuple[Floats, Floats]:
        """The refined ones."""
        n = int(self.number("knots"))
        return self.part("knot_sizes")[:n], self.part("knot_times")[:n]

    # -- learning ---------------------------------------------------------------------------------------------------------

    def fold(self, sizes: Floats, times: Floats, running: Ints, stands: Floats | None = None) -> None:
        """Learn n instances in order: sizes, 0 where none was given, times, and the workers that ran a task when each ended.

        `stands`, whole: for so many instances each stands, 1 over the chance that it had to be looked at (Horvitz and Thompson
        1952). Sums over what is looked at are then, in the mean, those over all instances. Cost O(n), some hundred ns each.
        """
        weights = np.ones(len(times)) if stands is None else stands
        guesses = [name for name in ("first", "second") if not self.number(name)]
        for name, time in zip(guesses, times, strict=False):
            self.words[_AT[name]] = time
        self.words[_AT["rows"]] += len(times)
        self.words[_AT["count"]] += weights.sum()
        logs = elementary.log(times)
        for name, values in (("total", times), ("logs", logs), ("log_squares", logs * logs)):
            self.words[_AT[name]] = _left_sum(self.number(name), values * weights)
        self._fold_rates(np.where(sizes > 0.0, sizes, 1.0) / times, running, weights)
        sized = np.flatnonzero(sizes > 0.0)
        if len(sized):
            self._fold_points(sizes[sized], times[sized], weights[sized])
            self._fold_refined(sizes[sized], times[sized], weights[sized])

    def _fold_rates(self, rates: Floats, running: Ints, weights: Floats) -> None:
        words = self.part("rate_range")
        counts = self.part("rates").reshape(BUCKETS, RATE_CELLS)
        keys = keys_of(rates, RATE_RESOLUTION)
        workers = np.maximum(running, 1)
        buckets = np.minimum(elementary.log2(workers).astype(np.int64), BUCKETS - 1)
        np.add.at(self.part("workers"), buckets, workers * weights)
        for part, wider in widening(words, keys, RATE_CELLS):
            if wider:
                self._halve_rates()
            else:
                np.add.at(counts, (buckets[part], places_of(words, keys[part], RATE_CELLS)), weights[part])

    def _halve_rates(self) -> None:
        counts = self.part("rates").reshape(BUCKETS, RATE_CELLS)
        old, places = halved(self.part("rate_range"), RATE_CELLS)
        before = counts[:, old]
        counts[:] = 0.0
        np.add.at(counts.T, places, before.T)

    def _fold_points(self, sizes: Floats, times: Floats, weights: Floats) -> None:
        """Predict each instance by the points as printed, or make it one."""
        start = 0
        while start < len(sizes):
            known, at = self.points
            outside = np.zeros(1, np.bool_)
            if len(known):
                rest = sizes[start:]
                outside = (rest < BELOW * known[0]) | (rest > ABOVE * known[-1])
                stop = start + (int(outside.argmax()) if outside.any() else len(rest))
                self._predicted("printed", np.interp(sizes[start:stop], known, at) * weights[start:stop])
                start = stop
            if start < len(sizes) and (not len(known) or outside.any()):
                self._add_point(float(sizes[start]), float(times[start]))
                self._predicted("printed", times[start : start + 1] * weights[start])
                start += 1

    def _add_point(self, size: float, time: float) -> None:
        known, at = (each.copy() for each in self.points)
        place = int(np.searchsorted(known, size))
        known, at = np.insert(known, place, size), np.insert(at, place, time)
        if len(known) > POINTS:  # the two nearest by ratio become one
            near = int(np.argmin(known[1:] / known[:-1]))
            known[near], at[near] = (known[near] + known[near + 1]) / 2.0, (at[near] + at[near + 1]) / 2.0
            known, at = np.delete(known, near + 1), np.delete(at, near + 1)
        self.words[_AT["points"]] = len(known)
        self.part("point_sizes")[: len(known)], self.part("point_times")[: len(known)] = known, at

    def _fold_refined(self, sizes: Floats, times: Floats, weights: Floats) -> None:
        """Predict each instance by the knots of those before, then learn it; knots are made anew at counts that grow."""
        start = 0
        while start < len(sizes):
            if not self.number("sized_rows"):
                self.words[[_AT["size_low"], _AT["size_high"]]] = sizes[start]
                stop, new = start + 1, True
            else:
                stop = min(len(sizes), start + int(self.number("refreeze_at") - self.number("sized_rows")))
                # The range as it stood before each: one a little outside moves it without being new.
                low = np.minimum.accumulate(np.append(self.number("size_low"), sizes[start:stop]))[:-1]
                high = np.maximum.accumulate(np.append(self.number("size_high"), sizes[start:stop]))[:-1]
                outside = (sizes[start:stop] < BELOW * low) | (sizes[start:stop] > ABOVE * high)
                new = bool(outside.any())
                stop = start + int(outside.argmax()) + 1 if new else stop
            told = stop - 1 if new else stop  # one that nobody could have known is not predicted
            expected = np.interp(sizes[start:told], *self.knots) if told > start else times[:0]
            self._predicted("refined", expected * weights[start:told])
            self._predicted("refined", times[told:stop] * weights[told:stop])
            self._learn_cells(sizes[start:stop], times[start:stop], weights[start:stop])
            if new or self.number("sized_rows") >= self.number("refreeze_at"):
                self._freeze()
            start = stop

    def _predicted(self, how: str, times: Floats) -> None:
        at = _AT[f"predicted_{how}"]
        self.words[at] = _left_sum(float(self.words[at]), times)

    def _learn_cells(self, sizes: Floats, times: Floats, weights: Floats) -> None:
        self.words[_AT["sized_rows"]] += len(times)
        self.words[_AT["sized"]] += weights.sum()
        self.words[_AT["sized_total"]] = _left_sum(self.number("sized_total"), times * weights)
        logs = elementary.log(times)
        self.words[_AT["size_low"]] = min(self.number("size_low"), float(sizes.min()))
        self.words[_AT["size_high"]] = max(self.number("size_high"), float(sizes.max()))
        words, cells = self.part("range"), self.part("cells").reshape(7, CELLS)
        keys = keys_of(sizes, RESOLUTION)
        for part, wider in widening(words, keys, CELLS):
            if wider:
                self._halve_cells()
                continue
            places = places_of(words, keys[part], CELLS)
            for row, values in ((SIZE, sizes), (TIME, times), (LOG, logs), (LOG2, logs * logs)):
                np.add.at(cells[row], places, values[part] * weights[part])
            np.add.at(cells[N], places, weights[part])
            self._keep_nearest(cells, int(words[0]), places, sizes[part], times[part])

    def _halve_cells(self) -> None:
        words, cells = self.part("range"), self.part("cells").reshape(7, CELLS)
        old, places = halved(words, CELLS)
        before = cells[:, old]
        cells[:] = 0.0
        self._add_cells(before, places, int(words[LEVEL]) + 1)

    def _add_cells(self, added: Floats, places: Ints, level: int) -> None:
        """Add cells (7, c) to those at `places`, whose width is that of a level."""
        cells = self.part("cells").reshape(7, CELLS)
        for row in (N, SIZE, TIME, LOG, LOG2):
            np.add.at(cells[row], places, added[row])
        there = added[N] > 0.0
        self._keep_nearest(cells, level, places[there], added[NEAR_SIZE][there], added[NEAR_TIME][there])

    def _keep_nearest(self, cells: Floats, level: int, places: Ints, sizes: Floats, times: Floats) -> None:
        """Keep of each cell the instance nearest to its centre, the first of those equally near."""
        gaps = _off_centre(sizes, level)
        least = np.full(CELLS, np.inf)
        np.minimum.at(least, places, gaps)
        nearest = np.flatnonzero(gaps == least[places])[::-1]
        chosen = np.full(CELLS, -1)
        # Of rows with one place the last assigned stays: the first of them, for they come backwards.
        chosen[places[nearest]] = nearest
        used = np.flatnonzero(chosen >= 0)
        held = cells[NEAR_SIZE, used]
        nearer = (held == 0.0) | (least[used] < _off_centre(np.where(held > 0.0, held, 1.0), level))
        used = used[nearer]
        cells[NEAR_SIZE, used], cells[NEAR_TIME, used] = sizes[chosen[used]], times[chosen[used]]

    def solved(self) -> SizeTime:
        """Return a copy whose knots are made of all that was learned; the state's own are made at counts that grow."""
        made = SizeTime(self.words.copy())
        if made.number("sized_rows"):
            made._freeze()
        return made

    def _freeze(self) -> None:
        """Make the knots anew: the ends, then, one by one, the cell whose mean interpolation misses most."""
        cells = self.cells
        n: Floats = cells[N]
        x: Floats = cells[SIZE] / n
        y: Floats = cells[TIME] / n
        spread = within_cells(cells)
        tolerated = np.maximum(SIGNIFICANT * spread * y / np.sqrt(n * self.sized_share), TOLERATED * y)
        chosen = np.zeros(len(x), np.bool_)
        chosen[[0, -1]] = True
        while chosen.sum() < min(KNOTS, len(x)):
            missed = np.abs(np.interp(x, x[chosen], y[chosen]) - y)
            missed[chosen | (missed <= tolerated)] = 0.0
            worst = int((missed * n).argmax())
            if missed[worst] <= 0.0:
                break
            chosen[worst] = True
        knots = int(chosen.sum())
        self.words[_AT["knots"]] = knots
        self.part("knot_sizes")[:knots], self.part("knot_times")[:knots] = x[chosen], y[chosen]
        self.words[_AT["refreeze_at"]] = np.floor(self.number("sized_rows") * REFROZEN) + 1.0

    # -- several records --------------------------------------------------------------------------------------------------

    def merge(self, other: SizeTime) -> None:
        """Add what another record has learned. Cost O(WORDS).

        Counts are exact, sums exact to rounding; cells add up at the coarser of the two widths, each with the nearer of the
        two instances nearest to its centre; knots are made anew. Support points as printed depend on the order in which sizes
        came, which is lost: those of both stand, one time for equal sizes, and neighbours merge where there are too many.
        """
        if not other.number("rows"):
            return
        if not self.number("rows"):
            self.words[:] = other.words
            return
        for name in (*_SUMS, *_LATER):
            self.words[_AT[name]] += other.number(name)
        if not self.number("second"):
            self.words[_AT["second"]] = other.number("first")
        self.part("workers")[:] += other.part("workers")
        ranges = self.part("rate_range"), other.part("rate_range")
        for _ in joining(*ranges, RATE_CELLS):
            self._halve_rates()
        old, places = places_in(*ranges, RATE_CELLS)
        counts, theirs = (each.part("rates").reshape(BUCKETS, RATE_CELLS) for each in (self, other))
        np.add.at(counts.T, places, theirs[:, old].T)
        if other.number("sized_rows"):
            self._merge_sized(other)

    def _merge_sized(self, other: SizeTime) -> None:
        low, high = _AT["size_low"], _AT["size_high"]
        known = self.words[low] > 0.0
        self.words[low] = min(self.words[low], other.words[low]) if known else other.words[low]
        self.words[high] = max(self.words[high], other.words[high])
        for size, time in zip(*other.points, strict=True):
            mine, at = self.points
            same = np.flatnonzero(mine == size)
            if len(same):
                at[same] = (at[same] + time) / 2.0
            else:
                self._add_point(float(size), float(time))
        ranges = self.part("range"), other.part("range")
        for _ in joining(*ranges, CELLS):
            self._halve_cells()
        old, places = places_in(*ranges, CELLS)
        self._add_cells(other.part("cells").reshape(7, CELLS)[:, old], places, int(ranges[0][LEVEL]))
        self._freeze()

    def forget(self, keep: float) -> None:
        """Keep the share `keep`, above 0, of the weight of what was learned: sums shrink, means and points stay."""
        for name in _SUMS:
            self.words[_AT[name]] *= keep
        for name in _LATER:  # counts that decide when knots are made anew: whole
            self.words[_AT[name]] = np.ceil(self.number(name) * keep)
        self.part("cells").reshape(7, CELLS)[[N, SIZE, TIME, LOG, LOG2]] *= keep
        self.part("rates")[:] *= keep
        self.part("workers")[:] *= keep
        self.words[_AT["refreeze_at"]] = np.floor(self.number("sized_rows") * REFROZEN) + 1.0


def within_cells(cells: Floats) -> float:
    """Return the standard deviation of log time within cells; 0 where no cell has two instances.

    Of the logarithm, so that the few instances which a machine interrupts do not hide how the others depend on size.
    """
    n = cells[N]
    several = n > 1.0
    squares = np.maximum(cells[LOG2] - cells[LOG] ** 2 / n, 0.0)[several]
    return float(np.sqrt(squares.sum() / (n[several] - 1.0).sum())) if several.any() else 0.0


def _off_centre(sizes: Floats, level: int) -> Floats:
    """Return how far sizes lie from the centre of their cell, in widths of a cell."""
    at = elementary.log2(sizes) * RESOLUTION / 2.0**level
    return np.abs(at - np.floor(at) - 0.5)


def _left_sum(start: float, values: Floats) -> float:
    """Return start + values[0] + values[1] + …, in that order."""
    return float(np.add.accumulate(np.append(start, values))[-1])
