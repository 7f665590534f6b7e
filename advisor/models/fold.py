"""The strict left fold of observations into the base table.

Rows of a component are folded in their order; cut a batch anywhere and the bytes are the same. Rows go through numpy in
rounds: a round folds, for every component, the rows up to its next event. Events are a predictor outside the present basis
or sketch (they are moved at the very row that asks for it), an age at which the weighting model is solved and a change of
speed (after the very row that reaches or reveals it). Steady batches are one round.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.limits import PREDICTOR_RESOLUTION
from advisor.models import basis, counts, drift, sketch, two_step, weighting
from advisor.models.layout import AT, CELLS, COEFFICIENTS, FIRST_SOLVE, MOMENTS
from advisor.models.table import Table, by_slot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

COMPILED: list[Any] = []  # the compiled fold, once `use_compiled` has been called

CHUNK_ROWS = 16_384  # the temporaries of a round, about 20 vectors, stay within 3 MB; longer chunks gain nothing

# Compiled, a row touches about 75 cache lines of its component, each of which it shares with seven neighbours: in the order of
# slots they are still in the cache. Components keep the order of their rows, so the bytes are the same. Measured: 200 instead
# of 346 ns a row for 10,000 rows on 10,000 components; nothing is gained where the table fits the cache or rows are few.
SORTED_ROWS, SORTED_SLOTS = 2_048, 2_048
NO_CELLS = -1000.0  # exponent of an empty sketch, for reckoning: it reaches nowhere

# Ranges: field, ufunc that keeps it, which value. Those of the cores are kept by two_step, whose sums restart with them.
RANGES = (("x_low", np.minimum, "x"), ("x_high", np.maximum, "x"), ("t_low", np.minimum, "t"))


def use_compiled() -> bool:
    """Fold with compiled rows from now on, in the whole process; False where the extra ``fast`` is not installed.

    The states are the same to the byte. The first fold of a machine compiles for some seconds, later processes load a cache.
    A fold of one row takes 6 microseconds instead of 140, a row of a large batch 0.4 to 0.7 times as long.
    """
    try:
        compiled = import_module("advisor.models.compiled")
    except ImportError:
        return False
    for _ in range(2):
        if agrees(compiled.fold_rows):
            COMPILED[:] = [compiled.fold_rows]
            return True
        # numba's cache on disk knows when a kernel's own file changes, not when a constant does that it takes from another.
        compiled.recompile()
    return False


def agrees(fold_rows: Any) -> bool:
    """Return True when compiled rows give the bytes of numpy on a stream that has every kind of event. On tables of its own."""
    n = 8 * FIRST_SOLVE + 1
    step = np.arange(n, dtype=np.float64)
    x, p = (step * 37.0) % 101.0 * (1.0 + step), 1.0 + step % 5.0
    x[2 * FIRST_SOLVE :] = x[: n - 2 * FIRST_SOLVE]  # known sizes, for the test of change
    p[6 * FIRST_SOLVE - 4] = 9.0  # cores that came late
    t = (1e-3 + 1e-6 * x) * (0.1 + 0.9 / p) * (1.0 + (step * 7.0) % 11.0 / 20.0)
    t[5 * FIRST_SOLVE :] *= 8.0
    t[4 * FIRST_SOLVE + 3] *= 1e6
    slots, count = np.zeros(n, np.int64), 1.0 + step % 3.0
    plain, other = Table(1), Table(1)
    _fold_chunk(plain, Rows(slots, x, p, t, count, np.arange(n)), 1e-6)
    fold_rows(other.words, other.words.view(np.int64), slots, x, p, t, count, 1e-6 * 1e-6)
    return plain.words.tobytes() == other.words.tobytes()


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of speed that a fold found, in the order of their rows.

    Attributes
    ----------
    slots, rows : int64 arrays (k,)
        The components, and the index of the row, among those folded, that revealed the change: the last one folded before
        the old sums were carried to the new level.
    log2_ratio : float64 array (k,)
        log2 of the new elapsed times over the old.
    """

    slots: Ints
    rows: Ints
    log2_ratio: Floats

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.slots)

    @classmethod
    def of(cls, found: list[tuple[Ints, Ints, Floats]]) -> Changes:
        """Return several parts as one, ordered by row."""
        if not found:
            return NO_CHANGES
        slots, rows, ratios = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(rows, kind="stable")
        return cls(slots[order], rows[order], ratios[order])


NO_CHANGES = Changes(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Rows(NamedTuple):
    """Rows to fold, and their numbers among those that `fold` was given."""

    slots: Ints
    x: Floats
    p: Floats
    t: Floats
    runs: Floats | None  # that each row stands for; None: one
    number: Ints

    def take(self, at: Any) -> Rows:
        """Return some of the rows, by index, mask or slice."""
        slots, x, p, t, runs, number = self
        return Rows(slots[at], x[at], p[at], t[at], None if runs is None else runs[at], number[at])


def fold(
    table: Table, slots: Ints, x: Floats, p: Floats, t: Floats, count: Ints | None, timer_noise_s: float
) -> Changes:
    """Fold n rows of valid values into their slots; return the changes of speed found on the way.

    Cost O(n) and O(1) a solve; state stays of constant size.

    Parameters
    ----------
    table : Table
    slots : int64 array (n,)
    x, p, t : float64 arrays (n,)
        Predictor, cores, elapsed time in seconds.
    count : int64 array (n,) or None
        Runs each row stands for.
    timer_noise_s : float
        t0 of the weights.
    """
    x = np.where(x < PREDICTOR_RESOLUTION, 0.0, x)
    rows = Rows(slots, x, p, t, None if count is None else count.astype(np.float64), np.arange(len(slots)))
    if COMPILED:
        changes = _fold_compiled(table, rows, timer_noise_s)
    else:
        found: list[tuple[Ints, Ints, Floats]] = []
        for start in range(0, len(slots), CHUNK_ROWS):
            found += _fold_chunk(table, rows.take(slice(start, start + CHUNK_ROWS)), timer_noise_s)
        changes = Changes.of(found)
    table.changed[slots] = True
    return changes


def _fold_compiled(table: Table, rows: Rows, timer_noise_s: float) -> Changes:
    if len(rows.slots) >= SORTED_ROWS and table.size >= SORTED_SLOTS:
        rows = rows.take(by_slot(rows.slots))
    slots, x, p, t, count, number = rows
    one = np.ones(len(slots)) if count is None else count
    words = table.words
    found, ratios = COMPILED[0](words, words.view(np.int64), slots, x, p, t, one, timer_noise_s * timer_noise_s)
    return Changes.of([(slots[found], number[found], ratios)]) if len(found) else NO_CHANGES


def _fold_chunk(table: Table, rows: Rows, timer_noise_s: float) -> list[tuple[Ints, Ints, Floats]]:
    found: list[tuple[Ints, Ints, Floats]] = []
    while n := len(rows.slots):
        slots = rows.slots
        misfit = _misfits(table, slots, rows.x)
        stop = np.flatnonzero(misfit | _after_solve(table, slots))
        if not len(stop):
            alarms = _fold_round(table, rows, timer_noise_s, found)
            if not len(alarms):
                return found
            first = _first_of(table, slots, alarms) + 1
        else:
            # Per component: its rows before its first stop fold now; the others wait for the next round.
            first = _first_of(table, slots, stop)
            ready = np.flatnonzero(np.arange(n) < first[slots])
            if len(ready):
                alarms = ready[_fold_round(table, rows.take(ready), timer_noise_s, found)]
                first[slots[alarms]] = alarms + 1
        rest = np.flatnonzero(np.arange(n) >= first[slots])
        movers = rest[misfit[rest] & (first[slots[rest]] == rest)]
        if len(movers):
            _accommodate(table, slots[movers], rows.x[movers])
        rows = rows.take(rest)
    return found


def _first_of(table: Table, slots: Ints, stop: Ints) -> NDArray[np.int32]:
    """Return the first of the given rows of each slot of the table, the number of rows where it has none."""
    first = np.full(table.words.shape[1], len(slots), np.int32)
    np.minimum.at(first, slots[stop], stop.astype(np.int32))
    return first


def _misfits(table: Table, slots: Ints, x: Floats) -> Bools:
    """Return the rows whose predictor lies outside the basis or the sketch of their component."""
    origin = table["origin"][slots]
    reach = np.ldexp(float(CELLS), np.maximum(table["cell_exponent"][slots], NO_CELLS).astype(np.int32))
    return (x < origin) | (x - origin > table["scale"][slots]) | (x >= reach)


def _accommodate(table: Table, slots: Ints, x: Floats) -> None:
    part = table.gather(slots)
    basis.accommodate(part, x)
    exponent = sketch.exponent_for(x)
    sketch.coarsen(part, np.maximum(exponent, part["cell_exponent"]))
    table.scatter(slots, part)


def _after_solve(table: Table, slots: Ints) -> Bools:
    """Return the rows that come after an age at which their component's weighting model is solved first."""
    np.add.at(table.tally, slots, np.ones(len(slots), np.int32))
    room = table.integers("solve_at")[slots] - table.integers("rows")[slots]
    crossing = table.tally[slots] > room
    table.tally[slots] = 0
    if not crossing.any():
        return crossing
    rows = np.flatnonzero(crossing)
    order = rows[np.argsort(slots[rows], kind="stable")]
    ordered = slots[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    crossing[order] = rank >= room[order]
    return crossing


def _solve_due(table: Table, slots: Ints, timer_noise_s: float) -> None:
    due = slots[table.integers("rows")[slots] == table.integers("solve_at")[slots]]
    if len(due):
        solve_weighting(table, np.unique(due), timer_noise_s)


def solve_weighting(table: Table, slots: Ints, timer_noise_s: float) -> None:
    """Solve the weighting models of distinct slots that are old enough, and set when they are solved next: at the next
    power of two of their age.
    """
    part = table.gather(slots)
    age = counts.age(part)
    old = np.flatnonzero(age >= FIRST_SOLVE)
    if len(old):
        piece = part.gather(old)
        cores = piece.integers("w_cores").copy()
        weighting.solve(piece, timer_noise_s)
        drift.settle(piece, piece.integers("w_cores") != cores)
        part.scatter(old, piece)
    next_age = np.maximum(FIRST_SOLVE, np.ldexp(1.0, np.frexp(age.astype(np.float64))[1]).astype(np.int64))
    part.integers("solve_at")[:] = part.integers("start") + next_age
    table.scatter(slots, part)


def _fold_round(table: Table, rows: Rows, timer_noise_s: float, found: list[tuple[Ints, Ints, Floats]]) -> Ints:
    """Fold rows without events of their own, up to a change of speed of their component, and what they make due.

    Return the rows that found a change, at most one a component; the later rows of theirs were not folded. The changes are
    added to `found`.
    """
    noise = timer_noise_s * timer_noise_s
    young = counts.age(table, rows.slots) < FIRST_SOLVE
    old = np.flatnonzero(~young)
    if len(old) < len(young):
        np.add.at(table.integers("unscored"), rows.slots, young.astype(np.int64))
    if not len(old):
        _learn(table, rows, 1.0 / (rows.t * rows.t + noise))
        _solve_due(table, rows.slots, timer_noise_s)
        return old
    part = rows if len(old) == len(young) else rows.take(old)
    m, known = weighting.judged(table, part.slots, part.x, part.p)
    ratio = m / part.t
    scores, bounded = drift.score(table, part.slots, m, ratio, part.t, known)
    moved = drift.walk(table, scores)
    error, reference = np.abs(1.0 - ratio), weighting.trusted(m, bounded)
    if part is not rows:
        bounded, reference = _with(rows.t, old, bounded), _with(rows.t, old, reference)
    alarms = old[moved.alarms]
    revealing = rows.take(alarms)
    if len(alarms):
        kept = np.arange(len(young)) <= _first_of(table, rows.slots, alarms)[rows.slots]
        mine = kept[old]
        scores, part, error = scores.where(mine), part.take(mine), error[mine]
        rows, bounded, reference = rows.take(kept), bounded[kept], reference[kept]
    np.add.at(table["error"], part.slots, error)
    drift.commit(table, scores, moved)
    _learn(table, rows._replace(t=bounded), 1.0 / (reference * reference + noise))
    if len(alarms):
        changed = table.gather(revealing.slots)
        ratios = drift.change(changed)
        table.scatter(revealing.slots, changed)
        found.append((revealing.slots, revealing.number, ratios))
    _solve_due(table, rows.slots, timer_noise_s)
    return alarms


def _with(values: Floats, at: Ints, new: Floats) -> Floats:
    values = values.copy()
    values[at] = new
    return values


def _learn(table: Table, rows: Rows, w: Floats) -> None:
    """Add rows of weights w (n,) of one run to everything that is learned."""
    slots, x, p, t, count, _ = rows
    u = (x - table["origin"][slots]) / table["scale"][slots]
    _add_sums(table, slots, u, p, t, w if count is None else w * count)
    sketch.add(table, slots, x, count)
    two_step.fold(table, slots, x, p, t, u, count)
    values = {"x": x, "p": p, "t": t}
    for field, keep, name in RANGES:
        seen, value = table[field], values[name]
        beyond = np.flatnonzero(value < seen[slots] if keep is np.minimum else value > seen[slots])
        if len(beyond):
            keep.at(seen, slots[beyond], value[beyond])
    np.add.at(table.integers("rows"), slots, np.ones(len(slots), np.int64))  # add.at is five times slower with a scalar
    if count is not None:
        np.add.at(table.integers("extra_runs"), slots, count.astype(np.int64) - 1)


def _add_sums(table: Table, slots: Ints, u: Floats, p: Floats, t: Floats, w: Floats) -> None:
    if len(slots) == 1:
        _add_sums_of_one(table, int(slots[0]), float(u[0]), float(p[0]), float(t[0]), float(w[0]))
        return
    gram, right = table.words[AT["gram"]], table.words[AT["right"]]
    q = 1.0 / p
    np.add.at(table["square"], slots, w * t * t)
    for m in range(MOMENTS):
        term = w
        for power in range(3):
            np.add.at(gram[MOMENTS * power + m], slots, term)
            if m < COEFFICIENTS and power < 2:
                np.add.at(right[COEFFICIENTS * power + m], slots, term * t)
            term = term * q
        w = w * u


def _add_sums_of_one(table: Table, slot: int, u: float, p: float, t: float, w: float) -> None:
    """Add what `_add_sums` adds for one row, to the bit: a third of the calls' time, which is that of numpy's."""
    q = 1.0 / p
    gram, right = [0.0] * (3 * MOMENTS), [0.0] * (2 * COEFFICIENTS)
    square = w * t * t
    for m in range(MOMENTS):
        term = w
        for power in range(3):
            gram[MOMENTS * power + m] = term
            if m < COEFFICIENTS and power < 2:
                right[COEFFICIENTS * power + m] = term * t
            term = term * q
        w = w * u
    table.words[AT["gram"], slot] += gram
    table.words[AT["right"], slot] += right
    table.words[AT["square"].start, slot] += square
