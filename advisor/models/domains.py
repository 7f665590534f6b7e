"""What the words of a state may be: each field's domain. A checksum tells that words are those that were written, not by whom.

A word outside its domain would end in an overflow, a NaN or a place that is none, some rows or questions later and inside a
kernel. The domains are wide: what a legal stream of rows can lead to passes, whatever its order, merges and forgetting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.domain.limits import CORES_MAX, CORES_MIN, COUNT_MAX, DIMENSIONS_MAX, ELAPSED_MAX_S, PREDICTOR_MAX
from advisor.models.cells import COARSEST, CURVATURE_BITS, SLOPE_UNIT
from advisor.models.learner_layout import CELLS, MACHINES_MAX, STEEPEST, LearnerTable, key_bits
from advisor.models.table import Table

INF = float("inf")
ROWS = 2.0**53  # schedules double them
RUNS_MOST = ROWS * COUNT_MAX
SUM = 1e70  # of terms: products of four still are numbers, and no stream comes near
LEAST = 1e-40  # of what is divided by
LOG = 100.0  # of what is a logarithm of a legal value, or a sum of some of them
PINS = 64  # more than there are models to pin, which a test holds
SLOPES = (STEEPEST / SLOPE_UNIT + 1.0) * 2.0**CURVATURE_BITS

# Field: (least, largest, further legal values; NaN is told as such).
Domain = tuple[float, float, tuple[float, ...]]
ANY: Domain = (-(2.0**63), 2.0**63, ())  # of packed words
PACKED: Domain = (0.0, 2.0**63, ())
COUNT: Domain = (0.0, ROWS, ())
POSITIVE: Domain = (0.0, SUM, ())
SIGNED: Domain = (-SUM, SUM, ())
RUNS: Domain = (LEAST, RUNS_MOST, (0.0,))
TIME: Domain = (1e-20, 1e20, (0.0,))  # seconds, carried from a cell's runs to its centre
RATE: Domain = (LEAST, SUM, (0.0,))
PREDICTOR: Domain = (0.0, PREDICTOR_MAX, ())
LOW_PREDICTOR: Domain = (0.0, PREDICTOR_MAX, (INF,))
HIGH_PREDICTOR: Domain = (0.0, PREDICTOR_MAX, (-INF,))
SECONDS: Domain = (0.0, ELAPSED_MAX_S, ())
SCALE: Domain = (2.0**-70, 2.0 * PREDICTOR_MAX, (0.0,))

BASE: Mapping[str, Domain] = {
    **dict.fromkeys(("rows", "failed", "unfinished", "start", "solve_at", "unscored"), COUNT),
    "extra_runs": (0.0, 2.0**63, ()),
    **dict.fromkeys(("changes", "outliers", "changed_at", "forgotten"), COUNT),
    **dict.fromkeys(("cell_runs", "top_runs"), RUNS),
    **dict.fromkeys(("gram", "right", "square", "error", "cell_sum", "cell_square", "top_sum"), POSITIVE),
    "explored_s": POSITIVE,
    **dict.fromkeys(("least_gram", "least_right", "least_square"), (0.0, 1e150, ())),
    **dict.fromkeys(("least_gram_more", "least_right_more"), (0.0, 1e150, (float("nan"),))),
    "w_coefficients": PACKED,
    **dict.fromkeys(("drift_levels", "drift_rise", "drift_fall", "drift_sum", "drift_square", "w_cores"), ANY),
    **dict.fromkeys(("w_low", "w_high"), PREDICTOR),
    **dict.fromkeys(("running_high", "w_floor"), SECONDS),
    "scale": SCALE,
    **dict.fromkeys(("x_low", "origin"), LOW_PREDICTOR),
    **dict.fromkeys(("x_high", "top_predictor"), HIGH_PREDICTOR),
    "dimensions": (0.0, 2.0**63, ()),  # and what `widths_outside` says
    "p_low": (CORES_MIN, CORES_MAX, (INF,)),
    "p_high": (CORES_MIN, CORES_MAX, (-INF,)),
    "t_low": (1e-20, ELAPSED_MAX_S, (INF,)),
    "drift_centre": (-LOG, LOG, ()),
    "drift_rate": RATE,
    "changed_by": (-LOG, LOG, ()),
    "cell_exponent": (-1100.0, 61.0, (-INF,)),
}
LEARNER: Mapping[str, Domain] = {
    **dict.fromkeys(("seen", "scores", "covered"), COUNT),
    "seen_runs": RUNS,
    **dict.fromkeys(("error", "absolute", "wild"), POSITIVE),
    "scatter": SIGNED,
    "key": (-1.0, 2.0**63, ()),
    "machine": ANY,
    "cells": (0.0, CELLS, ()),
    "pin": (0.0, PINS, ()),
    "machines": (0.0, MACHINES_MAX, ()),
    "coarseness": (0.0, COARSEST, ()),
    "bias": SIGNED,
    "relative": (LEAST, SUM, (0.0,)),
    "left_out": (-1.0, SUM, ()),
    "doubt": (LEAST, 1.0, ()),
    "share": (0.0, 1.0 + 1e-9, ()),
    "width": (0.0, SUM, ()),
    "least": (-LOG, LOG, (INF,)),
    "runs": RUNS,
    "mean": TIME,
    "model": (-LOG, LOG, (float("nan"),)),
    "centre": (-LOG, LOG, ()),
    "slope": (-SLOPES, SLOPES, ()),
}
CONTENTION: Mapping[str, Domain] = {
    **dict.fromkeys(("rows", "contended", "start", "solve_at", "sum_rows"), COUNT),
    **dict.fromkeys(("kappa", "gram", "right", "square"), SIGNED),
    "precision": POSITIVE,
    "model": PACKED,
    "range": SIGNED,
    "cores": ANY,
}


def outside(
    fields: Sequence[tuple[str, int, str, float]], words: NDArray[np.float64], domains: Mapping[str, Domain]
) -> tuple[int, str, float] | None:
    """Return (record, field, value) of the first word that is outside its domain; None where all are in. Cost O(words).

    Parameters
    ----------
    fields
        (name, words, kind "f" or "i", empty value) of each field, in their order.
    words : float64 array (n, w)
        One record a row.
    """
    start = 0
    for name, width, kind, _ in fields:
        if name in domains:
            low, high, further = domains[name]
            values = words[:, start : start + width]
            if kind == "i":
                values = np.ascontiguousarray(values).view(np.int64)
            good = (values >= low) & (values <= high)
            if not good.all():
                for value in further:
                    good |= np.isnan(values) if value != value else values == value  # noqa: PLR0124 - NaN
                if not good.all():
                    at = int(np.flatnonzero(~good.all(axis=1))[0])
                    return at, name, values[at][~good[at]].tolist()[0]
        start += width
    return None


def cells_outside(table: LearnerTable) -> tuple[int, str, float] | None:
    """Return (record, field, value) of the first cell in use that is none: without a key, a time or runs. Cost O(words)."""
    keys = table.integers("key")[: table.size]
    used = (np.arange(CELLS) < table.count("cells")[: table.size, None]) | (keys >= 0)  # or waiting
    means, runs, scatter = (table.floats(name)[: table.size] for name in ("mean", "runs", "scatter"))
    places = 1 << (key_bits(table.axes) * table.axes)  # of one machine's cells
    for name, values, good in (
        ("key", keys, (keys >= 0) & (keys // places < MACHINES_MAX)),
        ("mean", means, means > 0.0),
        ("runs", runs, runs > 0.0),
        ("scatter", scatter, scatter >= -1e-14 * runs * means * means),  # rounding
    ):
        bad = used & ~good
        if bad.any():
            record, cell = (int(at[0]) for at in np.nonzero(bad))
            return record, name, values[record, cell].item()
    return None


def widths_outside(table: Table) -> tuple[int, str, float] | None:
    """Return (record, field, value) of the first component with more predictors than there are. Cost O(components)."""
    words = table.integers("dimensions")[: table.size]
    strange = np.flatnonzero((words & 0xFF) > DIMENSIONS_MAX)
    return (int(strange[0]), "dimensions", float(words[strange[0]])) if len(strange) else None


def sketch_outside(table: Table) -> tuple[int, str, float] | None:
    """Return (record, field, value) of the first cell of a load sketch whose moments lie outside the cell. Cost O(words)."""
    size = table.size
    width = np.exp2(table["cell_exponent"][:size])
    bound = 2.0 * table["cell_runs"][:, :size]  # twice: sums are rounded
    for name in ("cell_sum", "cell_square"):
        bound = bound * width
        bad = table[name][:, :size] > bound
        if bad.any():
            record = int(np.flatnonzero(bad.any(axis=0))[0])
            return record, name, float(table[name][bad[:, record], record][0])
    return None
