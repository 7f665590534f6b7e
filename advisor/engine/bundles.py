"""Curves of components as records of a bundle: tables of what answers for them, whose error is measured.

A table's knots are spaced evenly, the more densely the more the curve bends. Its error is measured half way between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    PREDICTORS,
    RUNS,
    SEEN,
    VERSION,
    X_LOW,
    X_STEP,
    BundleRecord,
    allowed_words,
)
from advisor.domain.limits import ALLOCATE_CORES_MAX, PREDICTOR_MAX
from advisor.domain.vectors import Floats, Ints
from advisor.engine.asking import Asking
from advisor.engine.cache import Cache
from advisor.engine.components import Components
from advisor.engine.learners import Solved
from advisor.engine.siblings import Borrowed
from advisor.engine.slots import TIME
from advisor.models import prediction, process
from advisor.models.layout import AT
from advisor.models.logarithm import log2_of
from advisor.models.prediction import Model
from advisor.models.siblings import YIELDED

Evaluate = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]  # predictors, cores -> elapsed, low, high

ERROR_GOAL = 0.0144  # of log2 of a time between knots: 1 %
# Knots an octave of the predictor, and a doubling of cores; the first that meet the goal, or the last.
GRIDS = ((1, 2), (2, 2), (4, 2), (8, 3))
STEPS_MAX = 128  # between the ends of the seen predictors: a wide range has wider ones
BEYOND = 1.0  # octaves tabulated outside the seen predictors
ZERO_OCTAVES = 40  # a predictor of 0 stands so far below the greatest, where none but 0 is smaller
CORES_DEFAULT = 256
ROWS, UNFINISHED = AT["rows"].start, AT["unfinished"].start
EVERY_COUNT = allowed_range(1, ALLOCATE_CORES_MAX)


def core_counts(cores_max: int, per_doubling: int) -> Ints:
    """Return whole core counts 2**(1 / per_doubling) apart, all where that is less than 1, 1 to `cores_max`."""
    top = max(cores_max, 2)
    whole = np.rint(2.0 ** (np.arange(per_doubling * top.bit_length() + 1) / per_doubling)).astype(np.int64)
    return np.unique(np.append(whole[whole <= top], top))


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
    found = _on_grid(evaluate, log_low, log_high, cores_max, edges, *GRIDS[0])
    for grid in GRIDS[1:]:
        if found[-2] > ERROR_GOAL:
            found = _on_grid(evaluate, log_low, log_high, cores_max, edges, *grid)
    return found


def _on_grid(
    evaluate: Evaluate, log_low: float, log_high: float, cores_max: int, edges: Sequence[float], per_octave: int,
    per_doubling: int,
) -> tuple[float, float, Floats, Floats, float, float]:  # fmt: skip
    """Return what `tabulated` does, on one grid."""
    # The ends of what was seen are knots: there curves bend most.
    steps = min(max(int(np.ceil((log_high - log_low) * per_octave)), 1), STEPS_MAX)
    step = (log_high - log_low) / steps or 1.0 / per_octave
    outside = int(np.ceil(BEYOND / step))
    low = log_low - outside * step
    # Knots, and points half way between: how far these are from the straight line is the error.
    x = low + np.arange(2 * (steps + 2 * outside) + 1) * (0.5 * step)
    ends = [round(edge) for edge in edges if 1 <= round(edge) <= cores_max]
    knots = elementary.log2(np.union1d(core_counts(cores_max, per_doubling), ends).astype(np.float64))
    p = np.insert(knots, np.arange(1, len(knots)), 0.5 * (knots[:-1] + knots[1:]))
    columns = np.rint(elementary.exp2(p))
    answers = evaluate(elementary.exp2(np.repeat(x, len(p))), np.tile(columns, len(x)))
    elapsed, low_s, high_s = (each.reshape(len(x), len(p)) for each in answers)
    logs = elementary.log2(np.stack([elapsed, elapsed / low_s, high_s / elapsed]))
    tables = logs[:, ::2, ::2]
    share = (elementary.log2(columns)[1::2] - knots[:-1]) / np.diff(knots)
    off_x = np.abs(logs[:, 1::2, ::2] - 0.5 * (tables[:, :-1] + tables[:, 1:])).max(axis=(1, 2))
    off_p = np.abs(logs[:, ::2, 1::2] - tables[:, :, :-1] - share * np.diff(tables, axis=2)).max(axis=(1, 2))
    off = off_x + off_p
    return float(low), step, columns[::2], tables, float(off[0]), float(off[1:].max())


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

    else:
        x_range, p_range = list(found.x_range), list(found.p_range)
        top = float(elementary.log2(x_range[1])) if x_range[1] > 0 else -ZERO_OCTAVES
        zero = top - ZERO_OCTAVES
        logs = [max(float(elementary.log2(x_range[0])), zero) if x_range[0] > 0 else zero, top]

    def evaluate(x: Floats, p: Floats) -> tuple[Floats, Floats, Floats]:
        answer = asking.predict(name, np.minimum(x, PREDICTOR_MAX), p, level, None, None, TIME)
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


RECORDS_CACHED = 4_096  # records kept for reuse, about 8 KB each
ORIGIN_BITS = 32  # of a version that is reported: where its count began; below them the count


class Bundles:
    """The records of one engine's components."""

    def __init__(self, components: Components, asking: Asking) -> None:
        # below 2**31; tells versions of one run of a service from those of another, whose state may have been older
        self.origin = 0
        self._components = components
        self._asking = asking
        self._records = Cache[tuple[tuple[int, Borrowed], BundleRecord]](RECORDS_CACHED)  # with what each stands for
        self._now = 0  # the version of the curves when they were last looked at
        self._changed_at: Ints = np.zeros(0, np.int64)  # of each slot, the version that it changed in last
        self._rows: Ints = np.zeros(0, np.int64)  # of each slot, unfinished ones with them, when last looked at

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
        rows = self._components.table.records_whole[: len(self._rows), [ROWS, UNFINISHED]].sum(axis=1)
        changed = rows != self._rows
        self._rows[:] = rows
        if changed.any():
            changed |= rows < YIELDED  # they take from siblings
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
        """Return the record of a component; made again only when it changed since. Cost: milliseconds, then O(1)."""
        words = self._components.table.records_whole[slot]
        rows, key = int(words[ROWS]), (slot, level, cores_max)
        of = rows + int(words[UNFINISHED]), self._components.siblings.borrowed(slot, 0.0)
        kept = self._records.get(key)
        if kept is not None and kept[0] == of:
            return kept[1]
        name, dimensions = self._components.slots.owner(slot), self._components.dimensions(slot)
        record = record_of(self._asking, slot, name, rows, dimensions, level, cores_max)
        return self._records.store_value(key, (of, record))[1]

    def slots(self, names: Sequence[str] | None) -> Ints:
        """Return the slots of the known ones of some names, or of all components."""
        known = self._components.slots.components
        return np.array([known[name] for name in (known if names is None else names) if name in known], np.int64)
