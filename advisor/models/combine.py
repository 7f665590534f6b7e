"""Merging what two components have learned, and forgetting. Kernels, one component at a time.

Merge: counts and ranges exactly; unweighted sums, sketch and two_step to rounding; weighted sums approximately, because their
weights depend on each shard's history (exactly to rounding where the weights agree). The weighting model is solved again.
The test for change restarts where both have rows, since its centre and scale belong to one history; counts of changes and
outliers add up. Cells are added at the coarser lattice, each carried to its place along its own model; noise, settings and
widths are then chosen anew.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

import numpy as np

from advisor.models.base_words import *
from advisor.models.cells import *
from advisor.models.cores_seen import merge_seen
from advisor.models.drift import DRIFTED, DRIFTED_AT, forget_slow, restart
from advisor.models.layout import AT as BASE
from advisor.models.layout import FIRST_SOLVE, WORDS, empty_record
from advisor.models.learner import BIAS, COVERED, ERROR, SCORES, SKEW, WIDTH
from advisor.models.learner_layout import *
from advisor.models.sums import SMALLEST, relocate
from advisor.models.sums import coarsen as coarsen_sketch
from advisor.models.weighting import solve_weighting

EMPTY = empty_record()


def _words(*names: str):
    return np.array([word for name in names for word in range(BASE[name].start, BASE[name].stop)], np.int64)


COUNTED = _words("rows", "extra_runs", "failed", "unfinished", "changes", "outliers", "start", "unscored")
ADDED = _words("forgotten", "gram", "right", "square", "error", "cell_runs", "cell_sum", "cell_square")
LEAST_SUMS = _words("least_gram", "least_right", "least_square")
TOP_SUMS = _words("top_runs", "top_sum")
LOWEST = _words("x_low", "t_low")
HIGHEST = _words("x_high", "t_high", "running_high")
TESTED = _words(
    "drift_centre", "drift_rate", "drift_levels", "drift_rise", "drift_fall", "drift_sum", "drift_square", "w_cores"
)
# What is forgotten of a component: all but counts.
COUNTS = "rows", "extra_runs", "failed", "unfinished", "changes", "outliers", "changed_at", "changed_by", "dimensions"
DROPPED = np.setdiff1d(np.arange(WORDS), _words(*COUNTS, "forgotten"))


def merge_sums(base, slot, other, there):
    """Merge a component's words of another table, which are spoilt, into those of `slot`."""
    w, v = base[slot], other[there]
    n, m = w.view(np.int64), v.view(np.int64)
    mine, theirs = n[ROWS], m[ROWS]
    share_basis(w, v)
    exponent = max(w[CELL_EXPONENT], v[CELL_EXPONENT])
    if np.isfinite(exponent):
        coarsen_sketch(w, exponent)
        coarsen_sketch(v, exponent)
    for word in COUNTED:
        n[word] += m[word]
    for word in ADDED:
        w[word] += v[word]
    merge_seen(w, n, v, m, theirs - mine)
    merge_two_step(w, v)
    if theirs > 0 and mine == 0:
        for word in TESTED:
            w[word] = v[word]
    if m[CHANGED_AT] > n[CHANGED_AT]:
        n[CHANGED_AT] = m[CHANGED_AT]
        w[CHANGED_BY] = v[CHANGED_BY]
    if theirs > 0 and mine > 0:
        restart(w, n)
    for word in LOWEST:
        w[word] = min(w[word], v[word])
    for word in HIGHEST:
        w[word] = max(w[word], v[word])
    w[P_LOW] = min(w[P_LOW], v[P_LOW])
    w[P_HIGH] = max(w[P_HIGH], v[P_HIGH])
    if n[DIMENSIONS] == 0:
        n[DIMENSIONS] = m[DIMENSIONS]
    solve_weighting(w, n, 1.0)
    if theirs > 0 and mine > 0:
        solve_soon(n)


def share_basis(w, v):
    """Move two components' sums to one basis; one that has seen nothing takes the other's."""
    origin = min(w[ORIGIN], v[ORIGIN])
    if not np.isfinite(origin):
        return
    reach = max(w[X_HIGH], v[X_HIGH]) - origin
    power = 2.0**SMALLEST
    scale = max(w[SCALE], v[SCALE], power)
    while scale < reach:
        scale *= 2.0
    relocate(w, origin, scale)
    relocate(v, origin, scale)


def merge_two_step(w, v):
    """Merge the sums at the fewest cores, and the mean at the most (cores, predictor)."""
    for word in LEAST_SUMS:
        w[word] = (w[word] if w[P_LOW] <= v[P_LOW] else 0.0) + (v[word] if v[P_LOW] <= w[P_LOW] else 0.0)
    mine, theirs = (w[P_HIGH], w[TOP_PREDICTOR]), (v[P_HIGH], v[TOP_PREDICTOR])
    for word in TOP_SUMS:
        w[word] = (w[word] if mine >= theirs else 0.0) + (v[word] if theirs >= mine else 0.0)
    w[TOP_PREDICTOR] = w[TOP_PREDICTOR] if mine >= theirs else v[TOP_PREDICTOR]


def solve_soon(n):
    """Solve the weighting model of a grown component again after `FIRST_SOLVE` rows: its test begins from those."""
    if n[ROWS] - n[START] >= FIRST_SOLVE:
        n[SOLVE_AT] = min(n[SOLVE_AT], n[ROWS] + FIRST_SOLVE)


def forget_sums(base, slot):
    """Let a component's sums begin anew. Exact counts stay."""
    w = base[slot]
    n = w.view(np.int64)
    w[FORGOTTEN] = n[ROWS]
    for word in DROPPED:
        w[word] = EMPTY[word]
    n[START] = n[UNSCORED] = n[ROWS]
    n[SOLVE_AT] = n[ROWS] + FIRST_SOLVE


def adopt_cell(r, n, axes, v, m, cell, z, machine):
    """Put a cell of another record, with words v and m, behind those in use: it merges where its place at z is taken."""
    while n[COUNT] == CELLS:
        coarsen(r, n, axes)
    own, slopes = n[COUNT], CENTRE + axes * CELLS
    n[KEY + own] = key_of(n, axes, z, machine)
    for field in (RUNS, MEAN, SCATTER, OUTLIER, MODEL):
        r[field + own] = v[field + cell]
    for axis in range(axes):
        r[CENTRE + axis * CELLS + own] = z[axis]
        n[slopes + axis * CELLS + own] = m[slopes + axis * CELLS + cell]
    n[COUNT] = own + 1
    rebuild_cells(r, n, axes)


def merge_cells_of(learners, place, other, there, axes):
    """Add the cells of another table's record. Counts of rows and of scores add up, widths stay those of more scores."""
    r, v = learners[place], other[there]
    n, m = r.view(np.int64), v.view(np.int64)
    for axis in range(axes):
        n[COARSENESS + axis] = max(n[COARSENESS + axis], m[COARSENESS + axis])
    rebuild_cells(r, n, axes)
    for axis in range(axes - 1):
        word = least_at(axes) + axis
        r[word] = min(r[word], v[word])
    shift = key_bits(axes) * axes
    z = np.empty(axes)
    for cell in range(m[COUNT]):
        machine = m[KEY + cell] >> shift
        if machine > 0:
            machine = place_of_machine(n, m[MACHINE + machine]) if m[MACHINE + machine] >= 0 else MACHINES_MAX - 1
        for axis in range(axes):
            z[axis] = v[CENTRE + axis * CELLS + cell]
        adopt_cell(r, n, axes, v, m, cell, z, machine)
    forget_slow(r, n)
    if m[SEEN] > n[SEEN]:
        r[DRIFTED], n[DRIFTED_AT] = v[DRIFTED], m[DRIFTED_AT]
    n[SEEN] += m[SEEN]
    r[SEEN_RUNS] += v[SEEN_RUNS]
    if m[SCORES] > n[SCORES]:
        for level in range(LANES):
            r[WIDTH + level] = v[WIDTH + level]
        r[SKEW] = v[SKEW]
    n[SCORES] += m[SCORES]
    n[COVERED] += m[COVERED]
    r[ERROR] += v[ERROR]
    r[BIAS] += v[BIAS]
