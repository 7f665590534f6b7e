"""Rows off the wire as columns. The service's side: it imports numpy, as `columns` does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits, vectors
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
        """Return the numbers of `names` in `self.names`, which grows by the new ones. Cost O(n).

        Raises ValueError when a new name is longer than any name may be: it is not worth remembering.
        """
        try:
            return np.fromiter(map(self._ids.__getitem__, names), np.int64, len(names))
        except KeyError:
            new = dict.fromkeys(name for name in names if name not in self._ids)
        if max(map(len, new)) > limits.NAME_BYTES_MAX:
            raise ValueError("a name that is none")
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
    columns, maps = _plain_rows(rows, book) or (_rows_one_by_one(rows, book, misread), True)
    if not maps:
        return columns
    fields = columns_from_fields(_optional_fields(rows, misread), len(rows))
    return replace(columns, **fields | {"misread": _misread(misread, len(rows)) if misread else None})


def _plain_rows(rows: Sequence[Any], book: NameBook) -> tuple[Columns, bool] | None:
    """Return what every row has, all at once, and whether some have more; None when one of them needs a closer look."""
    try:
        widths = {*map(len, rows)}
        if 5 in widths and widths <= {4, 5}:
            if {*map(type, rows)} != {list}:
                return None
            values = list(chain.from_iterable([row[:4] for row in rows]))
        elif widths == {4}:
            values = list(chain.from_iterable(rows))  # of what is no list, too: its parts are no name and three numbers
        else:
            return None
        names, predictor = values[0::4], values[1::4]
        if {*map(type, names)} != {str}:
            return None
        index = book.index_of(names)
        absent = np.ones(len(rows), np.bool_) if predictor[0] is None and {*predictor} == {None} else None
        x, further = _plain_points(predictor) if absent is None else (np.ones(len(rows)), None)
        p, t = _floats(values[2::4]), _floats(values[3::4])
        return Columns(book.names, index, x, p, t, further=further, absent=absent), 5 in widths
    except (TypeError, ValueError):
        return None


def _plain_points(predictor: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    if type(predictor[0]) is list:
        (d,) = {*map(len, predictor)}
        if {*map(type, predictor)} != {list} or not 1 <= d <= limits.DIMENSIONS_MAX:
            raise TypeError("not points of one width throughout")
        return vectors.split_first(_floats(list(chain.from_iterable(predictor))).reshape(-1, d))
    return _floats(predictor), None


def _floats(values: Sequence[Any]) -> NDArray[np.float64]:
    if not PLAIN.issuperset(map(type, values)):
        raise TypeError("not numbers throughout")
    return np.fromiter(values, np.float64, len(values))


def _rows_one_by_one(rows: Sequence[Any], book: NameBook, misread: _Misread) -> Columns:
    """Return what every row has; rows that cannot be read go to `misread`, and have good values in their place."""
    names = [""] * len(rows)
    numbers = np.ones((3, len(rows)))
    further: dict[int, list[float]] = {}
    absent = np.zeros(len(rows), np.bool_)
    for i, row in enumerate(rows):
        try:
            names[i], point, *numbers[1:, i] = _plain_row(row)
        except (InvalidValue, UnknownKey) as error:
            misread[i] = error
            names[i] = "" if error.field in ("row", "component") else row[0]
            continue
        absent[i] = row[1] is None
        # A NaN behind the first value would pass for an absent one: it spoils the first.
        numbers[0, i] = point[0] if all(value == value for value in point) else np.nan  # noqa: PLR0124
        if len(point) > 1:
            further[i] = point[1:]
    index = book.index_of(names)
    more = vectors.further_of(further, len(rows))
    x, p, t = numbers
    return Columns(book.names, index, x, p, t, further=more, absent=absent if absent.any() else None)


def _plain_row(row: Any) -> tuple[str, list[float], float, float]:
    """Return the values of a row that every row has; those of the predictor as a list; raises InvalidValue."""
    parts = cast("list[Any]", row if isinstance(row, list) else [])
    if not 4 <= len(parts) <= 5:
        raise InvalidValue("row", cast("Any", row), bound_text("invalid_row"))
    component, predictor, cores, elapsed_s = parts[:4]
    if not isinstance(component, str) or len(component) > limits.NAME_BYTES_MAX:
        raise InvalidValue("component", component, NAME_BOUND)
    several = isinstance(predictor, list)
    point = cast("list[Any]", predictor) if several else [1.0 if predictor is None else predictor]
    if not 1 <= len(point) <= limits.DIMENSIONS_MAX:
        raise InvalidValue("predictor", len(point), f"a number, or 1 to {limits.DIMENSIONS_MAX}")
    for field, value in (*(("predictor", value) for value in point), ("cores", cores), ("elapsed_s", elapsed_s)):
        if type(value) not in PLAIN:  # whether it lies in its domain is asked of all rows at once
            raise InvalidValue(field, value, bound_text(f"invalid_{field}"))
    return component, point, cores, elapsed_s


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
