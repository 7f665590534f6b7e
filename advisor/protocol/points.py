"""Predictors of several values, as a client holds them, made flat for the wire. Works without numpy, and with its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from advisor.domain.limits import DIMENSIONS_MAX
from advisor.domain.rows import whole
from advisor.errors import InvalidValue


def flattened(values: Any, dimensions: Any = None) -> tuple[Any, int]:
    """Return predictors row-major, and how many values each has; those of one value are returned as they came.

    Raises InvalidValue when `dimensions` is none, or the rows have another, or several, lengths. The values are not looked
    at.

    `values`: array (n,) or (n, d), list of numbers, or list of lists of d numbers, flat (n * d,) with `dimensions` d.
    `dimensions`: d, 1 to 4; absent: what the shape says.
    """
    if dimensions is not None:
        dimensions = whole("dimensions", dimensions, 1, DIMENSIONS_MAX)
    widths = _widths(values)
    if widths is None:
        if values is None and dimensions not in (None, 1):
            raise InvalidValue("predictor", None, f"{dimensions} values a row, as dimensions says")
        return values, dimensions or 1
    (wide,) = widths if len(widths) == 1 else (None,)
    if wide is None or not 1 <= wide <= DIMENSIONS_MAX or dimensions not in (None, wide):
        reported = f"rows of {', '.join(map(str, sorted(widths)[:DIMENSIONS_MAX]))} values"
        raise InvalidValue("predictor", reported, f"{dimensions or f'1 to {DIMENSIONS_MAX}'} values in every row")
    if hasattr(values, "reshape"):
        return values.reshape(-1), wide
    return [value for row in values for value in row], wide


def _widths(values: Any) -> set[int] | None:
    """Return the lengths of the rows; None where the first is no row. Cost O(1) then."""
    if hasattr(values, "ndim"):
        return {values.shape[1]} if values.ndim == 2 else None
    if not isinstance(values, (list, tuple)) or not values or not _is_row(cast("Sequence[Any]", values)[0]):
        return None
    return {len(row) if _is_row(row) else 0 for row in cast("Sequence[Any]", values)}


def _is_row(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1
