"""Curves of components as records of a bundle: tables of what answers for them, whose error is measured.

A table's knots are chosen for the component: coarse at first, halved along cores or predictor while the model's own answers
half way between the knots are further than `ERROR_GOAL` from the straight line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.domain import elementary
from advisor.domain.allowed_cores import allowed_range
from advisor.domain.bundle import (
    ALLOWED_LEAST,
    ALLOWED_LISTED,
    GRID,
    HEAD_WORDS,
    LAST,
    LOG_P_HIGH,
    LOG_X_LOW,
    NOISE,
    P_KNOTS_MAX,
    PREDICTORS,
    RUNS,
    SEEN,
    VERSION,
    X_LOW,
    X_STEP,
    BundleRecord,
    allowed_words,
)
from advisor.domain.limits import ALLOCATE_CORES_MAX
from advisor.domain.vectors import Floats, Ints
from advisor.engine.asking import Asking
from advisor.engine.components import Components
from advisor.engine.kept import Kept
from advisor.engine.learners import ANY_MACHINE, Solved
from advisor.models import prediction, process
from advisor.models.logarithm import log2_of
from advisor.models.prediction import Model

Evaluate = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]  # predictors, cores -> elapsed, low, high

ERROR_GOAL = 0.0144  # of log2 of a time between knots: 1 %
FINEST = 16  # steps an octave of the predictor where the model is asked; knots are half as many at most
SPAN_STEPS = 512  # of the predictor where the model is asked: a wider range has coarser steps
BEYOND_BELOW, BEYOND_ABOVE = 1, 1  # octaves tabulated outside the seen predictors: there curves bend most
PER_DOUBLING = 16  # of cores where the model is asked, rounded to whole counts
COLUMNS = (2, 4, 8)  # knots a doubling of cores: first, and where that is too coarse
ZERO_OCTAVES = 40  # a predictor of 0 stands so far below the greatest, where none but 0 is smaller
CORES_DEFAULT = 256
EVERY_COUNT = allowed_range(1, ALLOCATE_CORES_MAX)


def core_counts(cores_max: int, per_doubling: int) -> Ints:
    """Return whole core counts 2**(1 / per_doubling) apart, all where that is less than 1, 1 to `cores_max`."""
    top = max(cores_max, 2)
    whole = np.rint(2.0 ** (np.arange(per_doubling * top.bit_length() + 1) / per_doubling)).astype(np.int64)
    return np.unique(np.append(whole[whole <= top], top))


@dataclass(slots=True)
class _Lattice:
    """A model's answers at the finest knots, as far as they were asked for."""

    # x, p: float64 arrays (nx,), (np,)
    x: Floats
    p: Floats
    # float64 array (3, nx, np): log2 of the time, and of how far its interval reaches down and up; NaN where it was not
    # asked
    values: Floats
    evaluate: Evaluate

    def at(self, rows: Ints, columns: Ints) -> Floats:
        """Return the values (3, rows, columns)."""
        part = self.values[:, rows[:, None], columns]
        missing = np.isnan(part[0])
        if missing.any():
            i, j = np.nonzero(missing)
            elapsed, low, high = self.evaluate(self.x[rows[i]], self.p[columns[j]])
            found = np.stack(
                [elementary.log2(elapsed), elementary.log2(elapsed / low), elementary.log2(high / elapsed)]
            )
            self.values[:, rows[i], columns[j]] = found
            part[:, i, j] = found
        return part


def _worst(lattice: _Lattice, rows: Ints, columns: Ints, *, x_axis: bool) -> tuple[float, float]:
    """Return how far the model is at most from the straight line half way between knots along one axis: times, widths."""
    knots = rows if x_axis else columns
    middle = (knots[:-1] + knots[1:]) // 2
    keep = (middle > knots[:-1]) & (middle < knots[1:])
    if not keep.any():
        return 0.0, 0.0
    middle, left, right = middle[keep], knots[:-1][keep], knots[1:][keep]
    at = elementary.log2(lattice.x if x_axis else lattice.p)
    w = (at[middle] - at[left]) / (at[right] - at[left])
    whole = lattice.at(rows, columns)
    places = np.searchsorted(knots, left)
    if x_axis:
        line = whole[:, places] + w[:, None] * (whole[:, places + 1] - whole[:, places])
        truth = lattice.at(middle, columns)
    else:
        line = whole[:, :, places] + w * (whole[:, :, places + 1] - whole[:, :, places])
        truth = lattice.at(rows, middle)
    off = np.abs(truth - line)
    return float(off[0].max()), float(off[1:].max())


def tabulated(
    evaluate: Evaluate, log_low: float, log_high: float, cores_max: int, edges: Sequence[float] = ()
) -> tuple[float, float, Floats, Floats, float, float]:
    """Return (first knot, step, core knots, tables (3, nx, np), error of times, of widths), all in log2.

    Parameters
    ----------
    log_low, log_high : float
        Seen range of log2 of the predictor.
    cores_max : int
        The last core knot.
    edges : sequence of float
        Counts of cores at which a curve may bend, the ends of what was seen: they are knots.
    """
    low, high = np.floor(log_low) - BEYOND_BELOW, np.ceil(log_high) + BEYOND_ABOVE
    per = FINEST
    while (high - low) * per > SPAN_STEPS and per > 1:
        per //= 2
    x_at = low + np.arange(int((high - low) * per) + 1) / per
    ends = [round(edge) for edge in edges if 1 <= round(edge) <= cores_max]
    cores = np.union1d(core_counts(cores_max, PER_DOUBLING), ends).astype(np.int64)
    counts = (np.union1d(core_counts(cores_max, per_doubling), ends) for per_doubling in COLUMNS)
    levels = [np.searchsorted(cores, each) for each in counts if len(each) <= P_KNOTS_MAX]
    lattice = _Lattice(2.0**x_at, cores.astype(np.float64), np.full((3, len(x_at), len(cores)), np.nan), evaluate)
    x_step = per
    rows = np.arange(0, len(x_at), x_step)
    columns = levels.pop(0)
    while True:
        off_x = _worst(lattice, rows, columns, x_axis=True)
        off_p = _worst(lattice, rows, columns, x_axis=False)
        finer_x = off_x[0] > ERROR_GOAL and x_step > 2
        finer_p = off_p[0] > ERROR_GOAL and bool(levels)
        if not (finer_x or finer_p):
            break
        if finer_x:
            x_step //= 2
            rows = np.arange(0, len(x_at), x_step)
        if finer_p:
            columns = levels.pop(0)
    tables = lattice.at(rows, columns)
    return (
        float(low), x_step / per, lattice.p[columns], tables, off_x[0] + off_p[0], off_x[1] + off_p[1]
    )  # fmt: skip


def _noted(asking: Asking, slot: int, found: Solved | Model, head: Floats) -> Floats:
    """Note in a head the last count, and of a learner the noise; return the counts that were seen and the runs on each."""
    seen = asking.seen(slot)
    head[LAST] = seen.last
    if not isinstance(found, Solved):
        return np.empty(0)
    head[NOISE] = found.noise
    head[SEEN] = len(seen.counts)
    return np.array(seen.counts, np.float64).T.reshape(-1)


def record_of(
    asking: Asking, slot: int, name: str, rows: int, dimensions: int, level: float, cores_max: int
) -> BundleRecord:
    """Return the record of a component from what answers for it."""
    found = asking.answering(slot, None)
    head = np.zeros(HEAD_WORDS)
    head[VERSION], head[PREDICTORS] = rows, dimensions
    own, listed = allowed_words(asking.allowed_of(name) or EVERY_COUNT)
    head[ALLOWED_LEAST : ALLOWED_LISTED + 1] = own
    if found is None or dimensions > 1:
        head[ALLOWED_LISTED] = 0.0
        return BundleRecord(name, head)
    seen = _noted(asking, slot, found, head)
    head[RUNS] = asking.runs(slot)
    if isinstance(found, Solved):
        lows, highs, zeros = (
            found.solution[0][at : at + 2] / prediction.LN2 for at in (process.LOWS, process.HIGHS, process.ZEROS)
        )
        logs, zero = [float(lows[0]), float(highs[0])], float(zeros[0])
        p_range = [float(2.0 ** lows[1]), float(2.0 ** highs[1])]
        x_range = [float(2.0**value) for value in logs]

        def evaluate(x: Floats, p: Floats) -> tuple[Floats, Floats, Floats]:
            return found.answers(x[:, None], p, level, ANY_MACHINE)[:3]

    else:
        x_range, p_range = list(found.x_range), list(found.p_range)
        top = float(elementary.log2(x_range[1])) if x_range[1] > 0 else -ZERO_OCTAVES
        zero = top - ZERO_OCTAVES
        logs = [max(float(elementary.log2(x_range[0])), zero) if x_range[0] > 0 else zero, top]

        def evaluate(x: Floats, p: Floats) -> tuple[Floats, Floats, Floats]:
            answer = prediction.predict(found, x, p, level)
            return answer.elapsed_s, answer.low_s, answer.high_s

    logs = [max(value, zero) for value in logs]
    first, step, knots, tables, *errors = tabulated(evaluate, logs[0], logs[1], cores_max, p_range)
    _, nx, count = tables.shape
    head[:3] = GRID, nx, count
    head[X_LOW : X_STEP + 1] = *x_range, *p_range, *errors, zero, first, step
    head[LOG_X_LOW : LOG_P_HIGH + 1] = *logs, *elementary.log2(p_range)
    logs = [log2_of(p) for p in knots.tolist()]
    return BundleRecord(
        name, np.concatenate([head, knots, logs, np.ascontiguousarray(tables).reshape(-1), listed, seen])
    )


# ----------------------------------------------------------------------------------------------------------------------------
# Curves of components: records of bundles kept until their component changes, and what changed since a version.


RECORDS_KEPT = 4_096  # records kept for reuse, about 8 KB each
ORIGIN_BITS = 32  # of a version that is reported: where its count began; below them the count


class Bundles:
    """The records of one engine's components."""

    def __init__(self, components: Components, asking: Asking) -> None:
        # below 2**31; tells versions of one run of a service from those of another, whose state may have been older
        self.origin = 0
        self._components = components
        self._asking = asking
        self._records = Kept[tuple[int, BundleRecord]](RECORDS_KEPT)  # with their rows
        self._now = 0  # the version of the curves when they were last looked at
        self._changed_at: Ints = np.zeros(0, np.int64)  # of each slot, the version that it changed in last
        self._rows: Ints = np.zeros(0, np.int64)  # of each slot, when last looked at

    def touch(self, slot: int | None) -> None:
        """A component, or None for all, changed otherwise than by new rows."""
        self._grow()
        self._rows[slice(None) if slot is None else slot] = -1
        self._records.discard_where(None if slot is None else lambda key: key[0] == slot)

    @property
    def version(self) -> int:
        """The version of all curves as they are now. Cost O(components)."""
        self._sweep()
        return self.origin << ORIGIN_BITS | self._now

    def _sweep(self) -> None:
        self._grow()
        rows = self._components.table.int_field("rows")[: len(self._rows)]
        changed = rows != self._rows
        self._rows[:] = rows
        if changed.any():
            self._now += 1
            self._changed_at[changed] = self._now

    def _grow(self) -> None:
        more = len(self._components) - len(self._rows)
        if more > 0:
            self._rows = np.concatenate([self._rows, np.full(more, -1, np.int64)])
            self._changed_at = np.concatenate([self._changed_at, np.zeros(more, np.int64)])

    def changed(self, since: int | None) -> list[int]:
        """Return the slots of components that changed after a version, all where it is none of ours. Cost O(components)."""
        now, slots = self.version, self.slots(None)
        ours = since is not None and since >> ORIGIN_BITS == self.origin and since <= now
        after = since - (self.origin << ORIGIN_BITS) if since is not None and ours else -1
        return slots[self._changed_at[slots] > after].tolist()

    def record(self, slot: int, level: float, cores_max: int) -> BundleRecord:
        """Return the record of a component; made again only when rows came since. Cost: milliseconds, then O(1)."""
        rows = int(self._components.table.int_field("rows")[slot])
        key = (slot, level, cores_max)
        kept = self._records.get(key)
        if kept is not None and kept[0] == rows:
            return kept[1]
        name, dimensions = self._components.slots.owner(slot), self._components.dimensions(slot)
        record = record_of(self._asking, slot, name, rows, dimensions, level, cores_max)
        return self._records.store_value(key, (rows, record))[1]

    def slots(self, names: Sequence[str] | None) -> Ints:
        """Return the slots of the known ones of some names, or of all components."""
        known = self._components.slots.components
        return np.array([known[name] for name in (known if names is None else names) if name in known], np.int64)
