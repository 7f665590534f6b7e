"""The strict left fold of observations into the base table.

Rows of a component are folded in their order; cut a batch anywhere and the bytes are the same. Rows go through numpy in
rounds: a round folds, for every component, the rows up to its next event. Events are a predictor outside the present basis
or sketch (they are moved at the very row that asks for it) and an age at which the weighting model is solved (after the very
row that reaches it). Steady batches are one round.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.limits import PREDICTOR_RESOLUTION
from advisor.models import basis, counts, sketch, two_step, weighting
from advisor.models.counts import ALL
from advisor.models.layout import AT, CELLS, COEFFICIENTS, FIRST_SOLVE, MOMENTS
from advisor.models.table import Table

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
    n = 4 * FIRST_SOLVE + 1
    step = np.arange(n, dtype=np.float64)
    x, p = (step * 37.0) % 101.0 * (1.0 + step), 1.0 + step % 5.0
    t = (1e-3 + 1e-6 * x) * (0.1 + 0.9 / p) * (1.0 + (step * 7.0) % 11.0 / 20.0)
    slots, count = np.zeros(n, np.int64), 1.0 + step % 3.0
    plain, other = Table(1), Table(1)
    _fold_chunk(plain, slots, x, p, t, count, 1e-6)
    fold_rows(other.words, other.words.view(np.int64), slots, x, p, t, count, 1e-6 * 1e-6)
    return plain.words.tobytes() == other.words.tobytes()


def fold(table: Table, slots: Ints, x: Floats, p: Floats, t: Floats, count: Ints | None, timer_noise_s: float) -> None:
    """Fold n rows of valid values into their slots. Cost O(n) and O(1) a solve; state stays of constant size.

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
    weight = None if count is None else count.astype(np.float64)
    if COMPILED:
        one = np.ones(len(slots)) if weight is None else weight
        columns = (slots, x, p, t, one)
        if len(slots) >= SORTED_ROWS and table.size >= SORTED_SLOTS:
            order = _by_slot(slots)
            columns = tuple(column[order] for column in columns)
        COMPILED[0](table.words, table.words.view(np.int64), *columns, timer_noise_s * timer_noise_s)
        table.changed[slots] = True
        return
    for start in range(0, len(slots), CHUNK_ROWS):
        cut = slice(start, start + CHUNK_ROWS)
        _fold_chunk(table, slots[cut], x[cut], p[cut], t[cut], None if weight is None else weight[cut], timer_noise_s)
    table.changed[slots] = True


def _fold_chunk(
    table: Table, slots: Ints, x: Floats, p: Floats, t: Floats, count: Floats | None, timer_noise_s: float
) -> None:
    while len(slots):
        misfit = _misfits(table, slots, x)
        waiting = _after_solve(table, slots)
        stop = np.flatnonzero(misfit | waiting)
        if not len(stop):
            _fold_round(table, slots, x, p, t, count, timer_noise_s)
            _solve_due(table, slots, timer_noise_s)
            return
        # Per component: its rows before its first stop fold now; the others wait for the next round.
        first = np.full(table.words.shape[1], len(slots), np.int32)
        np.minimum.at(first, slots[stop], stop.astype(np.int32))
        now = np.arange(len(slots)) < first[slots]
        ready = np.flatnonzero(now)
        if len(ready):
            part = slots[ready]
            _fold_round(
                table, part, x[ready], p[ready], t[ready], None if count is None else count[ready], timer_noise_s
            )
            _solve_due(table, part, timer_noise_s)
        rest = np.flatnonzero(~now)
        movers = rest[misfit[rest] & (first[slots[rest]] == rest)]
        if len(movers):
            _accommodate(table, slots[movers], x[movers])
        slots, x, p, t = slots[rest], x[rest], p[rest], t[rest]
        count = None if count is None else count[rest]


def _by_slot(slots: Ints) -> Ints:
    """Return the stable order of rows by slot: 16 bits at a time, which numpy sorts in linear time."""
    order = np.argsort(slots.astype(np.uint16), kind="stable")
    for shift in range(16, int(slots.max()).bit_length(), 16):
        order = order[np.argsort((slots[order] >> shift).astype(np.uint16), kind="stable")]
    return order


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
        weighting.solve(piece, timer_noise_s)
        part.scatter(old, piece)
    next_age = np.maximum(FIRST_SOLVE, np.ldexp(1.0, np.frexp(age.astype(np.float64))[1]).astype(np.int64))
    part.integers("solve_at")[:] = part.integers("start") + next_age
    table.scatter(slots, part)


def _fold_round(
    table: Table, slots: Ints, x: Floats, p: Floats, t: Floats, count: Floats | None, timer_noise_s: float
) -> None:
    u = (x - table["origin"][slots]) / table["scale"][slots]
    w = _weights(table, slots, x, p, t, timer_noise_s)
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


def _weights(table: Table, slots: Ints, x: Floats, p: Floats, t: Floats, timer_noise_s: float) -> Floats:
    """Return the weights (n,) of one run, and score the weighting model on the rows it weighs."""
    noise = timer_noise_s * timer_noise_s
    young = counts.age(table, slots) < FIRST_SOLVE
    old: Any = ALL
    if young.any():
        np.add.at(table.integers("unscored"), slots, young.astype(np.int64))
        old = np.flatnonzero(~young)
        if not len(old):
            return 1.0 / (t * t + noise)
    m = weighting.evaluate(table, slots[old], x[old], p[old])
    np.add.at(table["error"], slots[old], np.abs(t[old] - m) / t[old])
    reference = t.copy()
    reference[old] = weighting.trusted(m, t[old])
    return 1.0 / (reference * reference + noise)


def _add_sums(table: Table, slots: Ints, u: Floats, p: Floats, t: Floats, w: Floats) -> None:
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
