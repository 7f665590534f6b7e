"""Rows off the wire as columns. The service's side: it imports numpy, as `columns` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal, cast

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from advisor.domain import fields as f
from advisor.domain import limits, vectors
from advisor.domain.fields import Further
from advisor.domain.observations import Columns, ComponentNames, Misread, named_columns
from advisor.domain.rows import KILLED, bound_text
from advisor.errors import CallerError, InvalidValue, UnknownKey
from advisor.protocol import verbs

_ROW_BOUND = bound_text("invalid_row")


def _within(low: int, high: int, code: str = "") -> Further:
    """Integers that need not fit int64."""

    def refuse_outside(field: str, value: int) -> int:
        if not low <= value <= high:
            raise InvalidValue(field, value, bound_text(code) if code else f"an integer from {low} to {high}")
        return value

    return Further(refuse_outside)


_IDENTITY = Annotated[int, _within(0, verbs.ABSENT_U64 - 1)]
# A machine or network that is no name is refused as a name, not as a row.
_OPTIONAL = f.shape_of(f.record(
    # what an int64 column can hold, and enough to be refused by value
    count=Annotated[int, _within(-1, 2**63 - 1, "invalid_count")], ok=bool, running=bool,
    dimensions=Annotated[int, Meta(ge=1, le=limits.DIMENSIONS_MAX)], network=str,
    entered=bool, replica=_IDENTITY, machine=str, active_cores=verbs.Number, killed=Literal[KILLED],
    measures=f.record(**dict.fromkeys(verbs.MEASURES, verbs.Number)),
))  # fmt: skip
_NUMBER, _NUMBERS = f.shape_of(verbs.Number), f.shape_of(verbs.Numbers)


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
    misread: dict[int, CallerError] = {}
    plain = _plain_rows(rows, book)
    if plain is None:
        plain = _rows_one_by_one(rows, book, misread)
    optional = _optional_fields(rows, misread) if plain.maps else {}
    more = _further_columns(optional, len(rows)) if optional else {}
    unread = _misread(misread, len(rows)) if misread else None
    unnamed: Misread | None = more.pop("misread", None)
    if unread is not None and unnamed is not None:  # of other rows
        unread = unread.and_also(unnamed)
    return Columns(
        plain.names, plain.index, plain.predictor, plain.cores, plain.elapsed_s,
        misread=unread or unnamed, further=plain.further, absent=plain.absent, **more,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Plain:
    """The values that every row has; `maps` says that some rows have more."""

    names: ComponentNames
    index: NDArray[np.int64]
    predictor: NDArray[np.float64]
    cores: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    maps: bool
    further: NDArray[np.float64] | None = None
    absent: NDArray[np.bool_] | None = None


def _plain_rows(rows: Sequence[Any], book: NameBook) -> _Plain | None:
    """Return the rows' plain values, all at once; None when one of them needs a closer look."""
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
        return _Plain(book.names, index, x, p, t, 5 in widths, further, absent)
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
    if not f.NUMBER_TYPES.issuperset(map(type, values)):
        raise TypeError("not numbers throughout")
    return np.fromiter(values, np.float64, len(values))


def _rows_one_by_one(rows: Sequence[Any], book: NameBook, misread: dict[int, CallerError]) -> _Plain:
    """Return the rows' plain values; rows that cannot be read go to `misread`, and have good values in their place."""
    names = [""] * len(rows)
    numbers = np.ones((3, len(rows)))
    further: dict[int, list[float]] = {}
    absent = np.zeros(len(rows), np.bool_)
    for i, row in enumerate(rows):
        try:
            names[i], point, *numbers[1:, i] = _plain_row(row)
        except CallerError as error:
            misread[i] = error
            continue
        absent[i] = row[1] is None
        # A NaN behind the first value would pass for an absent one: it spoils the first.
        numbers[0, i] = point[0] if all(value == value for value in point) else np.nan  # noqa: PLR0124
        if len(point) > 1:
            further[i] = point[1:]
    index = book.index_of(names)
    return _Plain(
        book.names, index, *numbers, maps=True, further=vectors.further_of(further, len(rows)),
        absent=absent if absent.any() else None,
    )  # fmt: skip


def _plain_row(row: Any) -> tuple[str, list[float], float, float]:
    """Return the values of a row that every row has; those of the predictor as a list; raises InvalidValue."""
    parts = cast("list[Any]", row if isinstance(row, list) else [])
    if not 4 <= len(parts) <= 5:
        raise InvalidValue("row", cast("Any", row), _ROW_BOUND)
    component, predictor, cores, elapsed_s = parts[:4]
    if not isinstance(component, str):
        raise InvalidValue("component", component, "text")
    if len(component) > limits.NAME_BYTES_MAX:
        raise InvalidValue("name", component, bound_text("invalid_name"))
    if isinstance(predictor, list):
        point = _NUMBERS.check_value("predictor", predictor)
        if not 1 <= len(point) <= limits.DIMENSIONS_MAX:
            raise InvalidValue("predictor", len(point), f"1 to {limits.DIMENSIONS_MAX} values")
    else:
        point = [1.0 if predictor is None else _NUMBER.check_value("predictor", predictor)]
    return component, point, _NUMBER.check_value("cores", cores), _NUMBER.check_value("elapsed_s", elapsed_s)


def _optional_fields(rows: Sequence[Any], misread: dict[int, CallerError]) -> dict[str, dict[int, Any]]:
    """Return key -> row -> value of the rows' maps; rows whose map is wrong go to `misread`; nil is absent."""
    optional: dict[str, dict[int, Any]] = {}
    for i, row in enumerate(rows):
        if i in misread or len(row) == 4:
            continue
        try:
            given = _OPTIONAL.check_value("row", row[4])
            _check_dimensions(row[1], given.get("dimensions"))
        except CallerError as error:
            misread[i] = error
            continue
        for key, value in given.items():
            if value is not None:
                optional.setdefault(key, {})[i] = value
    return optional


def _check_dimensions(predictor: Any, dimensions: int | None) -> None:
    values = len(cast("list[Any]", predictor)) if isinstance(predictor, list) else 1
    if dimensions not in (None, values):
        raise InvalidValue("dimensions", dimensions, f"{values}, the values of predictor")


def _further_columns(optional: Mapping[str, dict[int, Any]], rows: int) -> dict[str, Any]:
    """Return the optional columns, as `Columns` has them, from key -> row -> value."""
    machine, network = ([by_row.get(row) for row in range(rows)] if (by_row := optional.get(key)) else None
              for key in ("machine", "network"))  # fmt: skip
    columns: dict[str, Any] = {**named_columns(machine, network, None, rows)}
    for key, default, dtype in _SCATTERED:
        if (by_row := optional.get(key)) is not None:
            column = columns[key] = np.full(rows, default, dtype)
            column[list(by_row)] = list(by_row.values())
    for row, why in optional.get("killed", {}).items():
        columns.setdefault("killed", np.zeros(rows, np.int64))[row] = 1 + KILLED.index(why)
    measures: dict[str, dict[int, float]] = {}
    for row, given in optional.get("measures", {}).items():
        for name, value in given.items():
            if value is not None:
                measures.setdefault(name, {})[row] = value
    columns["measures"] = vectors.measured({name: vectors.sparse(given, rows) for name, given in measures.items()})
    return columns


_SCATTERED = (
    ("count", 1, np.int64), ("ok", True, np.bool_), ("running", False, np.bool_),
    ("entered", False, np.bool_), ("replica", verbs.ABSENT_U64, np.uint64),
    ("active_cores", np.nan, np.float64),
)  # fmt: skip


def _misread(errors: Mapping[int, CallerError], rows: int) -> Misread:
    """Return what could not be read, as the refusals know it."""
    codes: dict[str, NDArray[np.bool_]] = {}
    for row, error in errors.items():
        code = {"name": "invalid_name"}.get(error.field or "", "invalid_row")
        if isinstance(error, UnknownKey):
            code = error.code
        codes.setdefault(code, np.zeros(rows, np.bool_))[row] = True
    return Misread(codes, {row: errors[row].value for row in sorted(errors)[: limits.FIRST_REFUSALS]})
