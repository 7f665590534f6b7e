"""Merging the state of two tables, and forgetting.

Merge: counts and ranges exactly; unweighted sums, sketch and two_step to rounding; weighted sums approximately, because their
weights depend on each shard's history (exactly to rounding where the weights agree). The weighting model is solved again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models import basis, sketch
from advisor.models.fold import solve_weighting
from advisor.models.layout import AT, FIRST_SOLVE, empty_record
from advisor.models.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_COUNTS = ("rows", "runs", "failed", "unfinished")
ADDED = ("evidence", "gram", "right", "square", "scored", "error", "cell_runs", "cell_sum", "cell_square")
LEAST = ("least_gram", "least_right", "least_square")
TOP = ("top_runs", "top_sum")
FADED = ("evidence", "gram", "right", "square", *LEAST, *TOP, "cell_runs", "cell_sum", "cell_square", "scored", "error")


def merge(table: Table, slots: Ints, other: Table) -> None:
    """Merge `other`'s components, in order, into distinct `slots` of `table`. Cost O(n); `other` is not changed."""
    part, other = table.gather(slots), other.gather(np.arange(other.size))
    _share_basis(part, other)
    exponent = np.maximum(part["cell_exponent"], other["cell_exponent"])
    for one in (part, other):
        sketch.coarsen(one, exponent)
    for field in (*EXACT_COUNTS, "age"):
        part.integers(field)[:] += other.integers(field)
    for field in ADDED:
        part[field][...] += other[field]
    _merge_two_step(part, other)
    for field, keep in (("x", np.minimum), ("p", np.minimum), ("t", np.minimum)):
        low, high = part[f"{field}_low"], part[f"{field}_high"]
        keep(low, other[f"{field}_low"], out=low)
        np.maximum(high, other[f"{field}_high"], out=high)
    table.scatter(slots, part)
    old = slots[part.integers("age") >= FIRST_SOLVE]
    if len(old):
        solve_weighting(table, old)


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
    fewer, more = other["least_cores"] < part["least_cores"], other["least_cores"] > part["least_cores"]
    for field in LEAST:
        mine, theirs = part[field], other[field]
        mine[...] = np.where(fewer, theirs, np.where(more, mine, mine + theirs))
    np.minimum(part["least_cores"], other["least_cores"], out=part["least_cores"])
    mine, theirs = (part["top_cores"], part["top_predictor"]), (other["top_cores"], other["top_predictor"])
    higher = (theirs[0] > mine[0]) | ((theirs[0] == mine[0]) & (theirs[1] > mine[1]))
    same = (theirs[0] == mine[0]) & (theirs[1] == mine[1])
    for field in TOP:
        part[field][:] = np.where(higher, other[field], part[field] + np.where(same, other[field], 0.0))
    for kept, offered in zip(mine, theirs, strict=True):
        kept[:] = np.where(higher, offered, kept)


def forget(table: Table, slot: int, keep: float) -> None:
    """Multiply what a component has learned by keep, 0 <= keep < 1; at 0 it begins anew. Exact counts stay."""
    if keep > 0:
        for field in FADED:
            table[field][..., slot] *= keep
    else:
        record = empty_record()
        for field in EXACT_COUNTS:
            record[AT[field]] = table.words[AT[field], slot]
        table.words[:, slot] = record
    table.changed[slot] = True
