"""Rows to be learned: one as columns; columns taken apart by what they teach, elapsed times and each measure beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from advisor.domain import vectors
from advisor.domain.observations import Bools, Columns, ComponentNames, Ints, columns_from_fields

# What is learned beside a component's times with a predictor goes through the same tables, under a name that nobody can send:
# no name may hold a control character. Rows without predictor come under the first of these names, measures behind it.
SEPARATOR: Final = "\x1f"
WITHOUT_PREDICTOR: Final = f"{SEPARATOR}no_predictor"


def with_internal_names(columns: Columns) -> Columns:
    """Return rows where those without predictor are runs of a component of their own: they teach no curve of the others."""
    if columns.absent is None:
        return columns
    names = columns.components.paired(WITHOUT_PREDICTOR)
    return replace(columns, components=names, index=2 * columns.index + columns.absent, absent=None)


def ended_well(columns: Columns, rows: Bools, good: Bools | None) -> Bools:
    """Return those of `rows` that are learned: accepted, of runs that ended well, or were killed."""
    if good is not None:
        rows = rows & good
    cut = cut_short(columns)
    if columns.ok is not None:
        rows = rows & (columns.ok if cut is None else columns.ok | cut)
    if columns.running is not None:
        rows = rows & (~columns.running if cut is None else ~columns.running | cut)
    return rows


def cut_short(columns: Columns) -> Bools | None:
    """Return which runs were killed: their times and measures are lower bounds, whatever else their rows say; None: no row."""
    return None if columns.killed is None or not columns.killed.any() else columns.killed > 0


def widths_of(columns: Columns, rows: Any) -> Ints:
    """Return how many values the predictors of the given rows have."""
    found = np.ones(len(columns), np.int64)[rows]
    if columns.further is not None:
        found += np.count_nonzero(~np.isnan(columns.further[rows]), axis=1)
    return found


def columns_of_row(
    component: str, predictor: Any, cores: float, elapsed_s: float, fields: Mapping[str, Any]
) -> Columns:
    """Return one row, as `row_of` gives it, as columns."""
    point = cast("list[float]", predictor if isinstance(predictor, list) else [1.0 if predictor is None else predictor])
    return Columns(
        ComponentNames([component]),
        np.zeros(1, np.int64),
        np.array(point[:1]),
        np.array([cores]),
        np.array([elapsed_s]),
        further=vectors.further_of({0: point[1:]}, 1) if len(point) > 1 else None,
        absent=np.ones(1, np.bool_) if predictor is None else None,
        **columns_from_fields({name: {0: value} for name, value in fields.items()}, 1),
    )
