"""Merging the state of two tables, and forgetting.

Merge: counts and ranges exactly; unweighted sums, sketch and two_step to rounding; weighted sums approximately, because their
weights depend on each shard's history (exactly to rounding where the weights agree). The weighting model is solved again.
The test for change restarts where both have rows, since its centre and scale belong to one history; counts of changes and
outliers add up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models import basis, counts, drift, sketch
from advisor.models.fold import solve_weighting
from advisor.models.layout import AT, FIRST_SOLVE, empty_record
from advisor.models.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_COUNTS = ("rows", "extra_runs", "failed", "unfinished", "changes", "outliers")
LAST_CHANGE = ("changed_at", "changed_by")
OFFSETS = ("start", "unscored")
ADDED = ("forgotten", "gram", "right", "square", "error", "cell_runs", "cell_sum", "cell_square")
LEAST = ("least_gram", "least_right", "least_square")
TOP = ("top_runs", "top_sum")
FADED = ("gram", "right", "square", *LEAST, *TOP, "cell_runs", "cell_sum", "cell_square")


def merge(table: Table, slots: Ints, other: Table, timer_noise_s: float) -> None:
    """Merge `other`'s components, in order, into distinct `slots` of `table`. Cost O(n); `other` is not changed."""
    part, other = table.gather(slots), other.gather(np.arange(other.size))
    _share_basis(part, other)
    exponent = np.maximum(part["cell_exponent"], other["cell_exponent"])
    for one in (part, other):
        sketch.coarsen(one, exponent)
    for field in (*EXACT_COUNTS, *OFFSETS):
        part.integers(field)[:] += other.integers(field)
    for field in ADDED:
        part[field][...] += other[field]
    _merge_two_step(part, other)
    both = _merge_drift(part, other)
    for field, keep in (
        ("x_low", np.minimum),
        ("x_high", np.maximum),
        ("p_low", np.minimum),
        ("p_high", np.maximum),
        ("t_low", np.minimum),
        ("running_high", np.maximum),
    ):
        keep(part[field], other[field], out=part[field])
    table.scatter(slots, part)
    solve_weighting(table, slots, timer_noise_s)
    _solve_soon(table, slots[both])


def _merge_drift(part: Table, other: Table) -> NDArray[np.bool_]:
    """Restart the test of components that have rows on both sides, and return which those are; others keep theirs.

    `part` has the counts of both already.
    """
    theirs = other.integers("rows")
    both, only = (theirs > 0) & (part.integers("rows") > theirs), (theirs > 0) & (part.integers("rows") == theirs)
    later = other.integers("changed_at") > part.integers("changed_at")
    for fields, where in (((*drift.FIELDS, "w_cores"), only), (LAST_CHANGE, later)):
        for field in fields:
            part[field][where] = other[field][where]
    drift.restart(part, both)
    return both


def _solve_soon(table: Table, slots: Ints) -> None:
    """Solve the weighting models of grown slots again after `FIRST_SOLVE` rows: their test begins from those."""
    solve_at = table.integers("solve_at")
    grown = slots[counts.age(table, slots) >= FIRST_SOLVE]
    solve_at[grown] = np.minimum(solve_at[grown], table.integers("rows")[grown] + FIRST_SOLVE)


def _share_basis(part: Table, other: Table) -> None:
    # Components that have seen nothing take the other's basis; both empty keep none.
    origin = np.minimum(part["origin"], other["origin"])
    seen = np.isfinite(origin)
    high = np.maximum(part["x_high"], other["x_high"])
    reach = np.where(seen, high - np.where(seen, origin, 0.0), 0.0)
    scale = np.maximum(np.maximum(part["scale"], other["scale"]), np.where(seen, basis.power_above(reach), 0.0))
    for one in (part, other):
        some = np.flatnonzero(seen)
        if len(some):
            piece = one.gather(some)
            basis.relocate(piece, origin[some], scale[some])
            one.scatter(some, piece)


def _merge_two_step(part: Table, other: Table) -> None:
    fewer, more = other["p_low"] < part["p_low"], other["p_low"] > part["p_low"]
    for field in LEAST:
        mine, theirs = part[field], other[field]
        mine[...] = np.where(fewer, theirs, np.where(more, mine, mine + theirs))
    mine, theirs = (part["p_high"], part["top_predictor"]), (other["p_high"], other["top_predictor"])
    higher = (theirs[0] > mine[0]) | ((theirs[0] == mine[0]) & (theirs[1] > mine[1]))
    same = (theirs[0] == mine[0]) & (theirs[1] == mine[1])
    for field in TOP:
        part[field][:] = np.where(higher, other[field], part[field] + np.where(same, other[field], 0.0))
    part["top_predictor"][:] = np.where(higher, theirs[1], mine[1])


def forget(table: Table, slot: int, keep: float) -> None:
    """Multiply what a component has learned by keep, 0 <= keep < 1; at 0 it begins anew. Exact counts stay."""
    rows = int(table.integers("rows")[slot])
    table["forgotten"][slot] = rows - keep * counts.evidence(table, slot)
    if keep > 0:
        for field in FADED:
            table[field][..., slot] *= keep
        drift.restart(table, slot)
        _solve_soon(table, np.array([slot]))
    else:
        record = empty_record()
        for field in (*EXACT_COUNTS, *LAST_CHANGE, "forgotten"):
            record[AT[field]] = table.words[AT[field], slot]
        integers = record.view(np.int64)
        integers[AT["start"]] = integers[AT["unscored"]] = rows
        integers[AT["solve_at"]] = rows + FIRST_SOLVE
        table.words[:, slot] = record
    table.changed[slot] = True
