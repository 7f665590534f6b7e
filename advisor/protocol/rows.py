"""Rows off the wire as columns. The service's side: it imports numpy, as `columns` does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.names import NAME_BOUND
from advisor.domain.observations import Columns, ComponentNames, Misread, columns_from_fields
from advisor.domain.rows import PLAIN, bound_text, checked_fields, code_of
from advisor.errors import InvalidValue, UnknownKey
from advisor.protocol import verbs

_Misread = dict[int, InvalidValue | UnknownKey]  # what is wrong with rows, by their places


class NameBook:
    """Names met in rows, numbered in the order of their first coming, so that each is checked and resolved once.

    One book serves one engine, for any number of connections. It starts anew beyond `names_max` names, so that a
    peer with ever new names cannot make it grow; batches already read keep the list they were read with.
    """

    __slots__ = ("_ids", "_names_max", "names")

    def __init__(self, names_max: int = limits.NAME_IDS_MAX) -> None:
        self._names_max = names_max
        self._ids: dict[str, int] = {}
        self.names = ComponentNames()

    def index_of(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of `names` in `self.names`, which grows by the new ones. Cost O(n)."""
        try:
            return np.fromiter(map(self._ids.__getitem__, names), np.int64, len(names))
        except KeyError:
            new = dict.fromkeys(name for name in names if name not in self._ids)
        if len(self._ids) + len(new) > self._names_max:
            self._ids = {}
            self.names = ComponentNames()
            new = dict.fromkeys(names)
        first = len(self._ids)
        self.names.extend(list(new))
        self._ids.update(zip(new, range(first, first + len(new)), strict=True))
        return self.index_of(names)


def columns_of_rows(params: verbs.ObserveRows | Sequence[Any], book: NameBook | None = None) -> Columns:
    """Return the batch of `observe_rows`, or of a list of rows. Cost O(n).

    A row that cannot be read keeps its place, as a `Misread`: it is refused as a row, the others are accepted.

    `params`: ObserveRows, or list of rows, rows `[component, predictor, cores, elapsed_s, {optional}]`. `book`: numbers for
    the names; with one book for all batches each name is checked and resolved once.
    """
    rows = params.rows if isinstance(params, verbs.ObserveRows) else params
    book = NameBook() if book is None else book
    misread: _Misread = {}
    heads = _plain_heads(rows)
    if heads is None:
        heads = [_head(row, i, misread) for i, row in enumerate(rows)]
    names, predictor, cores, elapsed_s = zip(*heads, strict=True) if heads else ((), (), (), ())
    index, (x, further, absent) = book.index_of(names), _points(predictor)
    p, t = np.array(cores, np.float64), np.array(elapsed_s, np.float64)
    columns = Columns(book.names, index, x, p, t, further=further, absent=absent)
    if not misread and {*map(len, rows)} <= {4}:
        return columns
    fields = columns_from_fields(_optional_fields(rows, misread), len(rows))
    return replace(columns, **fields | {"misread": _misread(misread, len(rows)) if misread else None})


def _plain_heads(rows: Sequence[Any]) -> list[Sequence[Any]] | None:
    """Return what every row has, where no row needs a closer look: all at once, at a quarter of the cost."""
    if {*map(type, rows)} != {list} or not {*map(len, rows)} <= {4, 5}:
        return None
    heads = [row[:4] for row in rows]
    names, predictor, cores, elapsed_s = zip(*heads, strict=True)
    several = {*map(type, predictor)} == {list}
    if several and not {*map(len, predictor)} <= {*range(1, limits.DIMENSIONS_MAX + 1)}:
        return None
    values = chain.from_iterable(predictor) if several else (value for value in predictor if value is not None)
    plain = PLAIN.issuperset(map(type, chain(values, cores, elapsed_s)))
    plain = plain and {*map(type, names)} == {str} and max(map(len, names)) <= limits.NAME_BYTES_MAX
    return heads if plain else None


def _head(row: Any, place: int, misread: _Misread) -> Sequence[Any]:
    """Return what every row has; good values where that cannot be read, and why goes to `misread`."""
    try:
        _check_head(row)
    except (InvalidValue, UnknownKey) as error:
        misread[place] = error
        return "" if error.field in ("row", "component") else row[0], 1.0, 1.0, 1.0
    return row[:4]


def _check_head(row: Any) -> None:
    """Check the types of what every row has; whether a number lies in its domain is asked of all rows at once."""
    parts = cast("list[Any]", row if isinstance(row, list) else [])
    if not 4 <= len(parts) <= 5:
        raise InvalidValue("row", cast("Any", row), bound_text("invalid_row"))
    component, predictor, cores, elapsed_s = parts[:4]
    if type(component) is not str or len(component) > limits.NAME_BYTES_MAX:
        raise InvalidValue("component", component, NAME_BOUND)
    point = cast("list[Any]", predictor if type(predictor) is list else [1.0 if predictor is None else predictor])
    if not 1 <= len(point) <= limits.DIMENSIONS_MAX:
        raise InvalidValue("predictor", len(point), f"a number, or 1 to {limits.DIMENSIONS_MAX}")
    for field, value in (*(("predictor", value) for value in point), ("cores", cores), ("elapsed_s", elapsed_s)):
        if type(value) not in PLAIN:
            raise InvalidValue(field, value, bound_text(f"invalid_{field}"))


def _points(
    predictor: Sequence[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.bool_] | None]:
    """Return the first value of each predictor, the further ones (n, 3) or None, and which rows have none, or None."""
    kinds = {*map(type, predictor)}
    absent = np.array([value is None for value in predictor]) if type(None) in kinds else None
    if list not in kinds:
        x = np.array(predictor, np.float64)
        return x if absent is None else np.where(absent, 1.0, x), None, absent
    points: list[list[Any]] = [x if type(x) is list else [1.0 if x is None else x] for x in predictor]
    lengths = np.array([*map(len, points)])
    width = int(lengths.max())
    table = np.array([point + [np.nan] * (width - len(point)) for point in points], np.float64)
    # A NaN behind the first value would pass for an absent one: it spoils the first.
    table[np.isnan(table).sum(axis=1) > width - lengths, 0] = np.nan
    further = np.pad(table[:, 1:], ((0, 0), (0, limits.DIMENSIONS_MAX - width)), constant_values=np.nan)
    return table[:, 0].copy(), further if width > 1 else None, absent


def _optional_fields(rows: Sequence[Any], misread: _Misread) -> dict[str, dict[int, Any]]:
    """Return field -> row -> value of the rows' maps; of rows whose map is wrong, which go to `misread`, what is right."""
    optional: dict[str, dict[int, Any]] = {}
    for i, row in enumerate(rows):
        if i in misread or len(row) == 4 or row[4] is None:
            continue
        values = len(cast("list[Any]", row[1])) if isinstance(row[1], list) else 1
        try:
            given = checked_fields(row[4], values)
        except (InvalidValue, UnknownKey) as error:
            misread[i] = error
            given = _right_fields(row[4], values)
        for key, value in given.items():
            optional.setdefault(key, {})[i] = value
    return optional


def _right_fields(given: Any, values: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", given).items() if isinstance(given, dict) else ():
        with suppress(InvalidValue, UnknownKey):
            found |= checked_fields({name: value}, values)
    return found


def _misread(errors: _Misread, rows: int) -> Misread:
    """Return what could not be read, as the refusals know it."""
    codes: dict[str, NDArray[np.bool_]] = {}
    for row, error in errors.items():
        codes.setdefault(code_of(error), np.zeros(rows, np.bool_))[row] = True
    values: dict[int, Any] = {}
    for row in sorted(errors)[: limits.FIRST_REFUSALS]:
        of, _, measure = (errors[row].field or "").partition(".")
        values[row] = {measure: errors[row].value} if of == "measures" and measure else errors[row].value
    return Misread(codes, values)
