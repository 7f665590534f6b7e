"""Columns from whatever a caller holds: vectors of one kind, predictors of several values, machines, measures.

An array of the wrong shape or type refuses its batch; a value outside its domain refuses its row, elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain.limits import DIMENSIONS_MAX, MEASURES, PREDICTOR_MAX
from advisor.domain.names import normalised_name
from advisor.domain.rows import ABSENT_U32, ABSENT_U64, is_whole, whole
from advisor.errors import InvalidValue, not_one_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]

NONE_NAMED = -1  # the number of no label
_KINDS = {np.float64: ("fiu", "numbers"), np.int64: ("iu", "integers"), np.bool_: ("b", "booleans")}


def array_of(name: str, values: ArrayLike, dtype: Any, shape: str) -> NDArray[Any]:
    """Return an array of any shape, its values of the kind of `dtype`, not yet converted; `shape` is for the error.

    Raises InvalidValue when it is masked, ragged, or of another kind.
    """
    kinds, wanted = _KINDS[dtype]
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidValue(name, "a masked array", f"{shape} without a mask", "leave the masked rows out")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidValue(name, values, f"{shape} of {wanted}") from error
    if array.size == 0:
        array = array.astype(dtype)
    if array.dtype.kind not in kinds:
        raise InvalidValue(name, values, f"{shape} of {wanted}")
    return array


def vector(name: str, values: ArrayLike, dtype: Any, length: int | None) -> NDArray[Any]:
    """Return a vector (n,) of `dtype` (float64, int64 or bool). Cost O(n); none where it is one already.

    Raises InvalidValue when it is no vector of such values, or not of the length.
    """
    array = array_of(name, values, dtype, "a vector")
    if array.ndim != 1:
        raise InvalidValue(name, values, f"a vector of {_KINDS[dtype][1]}")
    if length is not None and len(array) != length:
        raise InvalidValue(name, len(array), f"{length} values, as index has")
    if dtype is np.int64 and array.dtype == np.uint64 and array.size and array.max() > np.uint64(2**63 - 1):
        raise InvalidValue(name, int(array.max()), "an integer below 2**63")
    with np.errstate(over="ignore"):  # a wider float beyond this one's range becomes infinite: its row is refused
        return np.ascontiguousarray(array, dtype)


# -- predictors of several values -------------------------------------------------------------------------------------------


def points(name: str, values: ArrayLike | None, n: int, dimensions: Any = None) -> tuple[Floats, Floats | None]:
    """Return the first value of n predictors (n,), and the further ones (n, 3) or None.

    Raises InvalidValue.

    Parameters
    ----------
    values : array (n,), (n, d), or flat (n * d,), row-major, with `dimensions`
        None means 1 everywhere.
    dimensions : int, optional
        d, 1 to 4; absent: what the shape says.
    """
    d = 1 if dimensions is None else whole("dimensions", dimensions, 1, DIMENSIONS_MAX)
    if values is None:
        if d > 1:
            raise InvalidValue(name, None, f"{d} values a row, as dimensions says")
        return np.ones(n), None
    array = array_of(name, values, np.float64, f"a vector, or {n} rows of 1 to {DIMENSIONS_MAX}")
    if array.ndim == 1 and d == 1:
        return vector(name, array, np.float64, n), None
    if array.ndim == 1 and len(array) == n * d:
        array = array.reshape(n, d)
    if array.ndim != 2:
        raise InvalidValue(name, _shape(array), f"({n},), ({n}, d), or ({n * d},) as dimensions says")
    wide = array.shape[1]
    if len(array) != n or not 1 <= wide <= DIMENSIONS_MAX or (dimensions is not None and wide != d):
        wanted = f"({n}, d), d from 1 to {DIMENSIONS_MAX}" if dimensions is None else f"({n}, {d}), as dimensions says"
        raise InvalidValue(name, _shape(array), wanted)
    with np.errstate(over="ignore"):
        return split_first(np.ascontiguousarray(array, np.float64))


def split_first(table: Floats) -> tuple[Floats, Floats | None]:
    """Return the first column of n points (n, d), all of whose values were given, and the further ones (n, 3) or None.

    A NaN among them would pass for an absent value: it spoils the first one, so that its row is refused as NaN.
    """
    n, d = table.shape
    first = np.ascontiguousarray(table[:, 0])
    if d == 1:
        return first, None
    further = np.full((n, DIMENSIONS_MAX - 1), np.nan)
    further[:, : d - 1] = table[:, 1:]
    spoilt = np.isnan(table[:, 1:]).any(axis=1)
    if spoilt.any():
        first = np.where(spoilt, np.nan, first)
    return first, further if n else None


def further_of(given: Mapping[int, Sequence[float]], n: int) -> Floats | None:
    """Return the further values (n, 3) of n rows from those of the rows that have some, or None."""
    if not given:
        return None
    further = np.full((n, DIMENSIONS_MAX - 1), np.nan)
    for row, values in given.items():
        further[row, : len(values)] = values
    return further


def point(first: float, further: Floats) -> tuple[float, ...]:
    """Return the values of one predictor: `further` (3,) ends where only NaN follow."""
    given = np.flatnonzero(~np.isnan(further))
    return (first, *further[: given[-1] + 1].tolist()) if len(given) else (first,)


def bad_further(further: Floats) -> Bools:
    """Return the rows (n,) of further values (n, 3) with one outside its domain, or behind one that is absent."""
    absent = np.isnan(further)
    wrong = (further < 0.0) | (further > PREDICTOR_MAX)  # False where NaN
    wrong[:, 1:] |= absent[:, :-1] & ~absent[:, 1:]
    return np.logical_or.reduce(wrong, axis=1)


def _shape(array: NDArray[Any]) -> str:
    return f"an array of shape {array.shape}"


# -- machines, networks, records -------------------------------------------------------------------------------------------


def labelled(name: str, values: Any, labels: Sequence[str], n: int) -> Ints:
    """Return the label's number of each row (n,), -1 where it has none; raises InvalidValue."""
    numbers = vector(name, values, np.int64, n)
    numbers = np.where(numbers == ABSENT_U32, NONE_NAMED, numbers)
    if n and not (numbers.min() >= NONE_NAMED and numbers.max() < len(labels)):
        worst = numbers.min() if numbers.min() < NONE_NAMED else numbers.max()
        raise InvalidValue(name, int(worst), f"names, or the number of one of {len(labels)} labels")
    return numbers


def texts(name: str, values: Any) -> list[str]:
    """Return a list of texts; raises InvalidValue."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidValue(name, values, "a list of names")
    found = list(cast("Iterable[object]", values))
    for text in found:
        if not isinstance(text, str):
            raise InvalidValue(name, text, "a list of names")
    return cast("list[str]", found)


def named(labels: Sequence[object], numbers: Ints) -> tuple[Ints | None, tuple[str, ...], Bools | None]:
    """Return each row's number (n,) or None, the names numbered, and the rows (n,) whose label is no name, or None.

    Labels that are one name when normalised are one: a machine, or a network. They are numbered in the order of the rows,
    so that the same rows give the same numbers, whatever the labels. Cost O(n + labels).
    """
    n = len(numbers)
    first = np.full(len(labels) + 1, n, np.int64)  # the row that first has a label; the last place is of no label, -1
    first[numbers[::-1]] = np.arange(n - 1, -1, -1)  # where a place is written twice, the last write stays
    used = np.flatnonzero(first[:-1] < n)
    given = np.full(len(first), NONE_NAMED, np.int64)
    unnamed = np.zeros(len(first), np.bool_)
    number_of: dict[str, int] = {}
    for label in used[np.argsort(first[used])].tolist():
        name = normalised_name(labels[label])
        if name is None:
            unnamed[label] = True
        else:
            given[label] = number_of.setdefault(name, len(number_of))
    number = given[numbers] if number_of else None
    return number, tuple(number_of), unnamed[numbers] if unnamed.any() else None


def identities(name: str, values: Any, n: int) -> Words:
    """Return identities (n,): integers from 0 to 2**64 - 2, ABSENT_U64 for None or -1; raises InvalidValue."""
    bound = f"integers from 0 to {ABSENT_U64 - 1}, None or -1 for none"
    if isinstance(values, (list, tuple)):
        plain = [ABSENT_U64 if v is None or v == -1 else v for v in cast("Sequence[Any]", values)]
        wrong = [v for v in plain if not is_whole(v) or not 0 <= v <= ABSENT_U64]
        if wrong:
            raise InvalidValue(name, wrong[0], bound)
        array = np.array(plain, np.uint64)
    else:
        array = array_of(name, values, np.int64, "a vector")
        if array.dtype.kind == "i" and array.size and array.min() < NONE_NAMED:
            raise InvalidValue(name, int(array.min()), bound)
        array = array.astype(np.uint64)  # -1 becomes ABSENT_U64
    if array.shape != (n,):
        raise InvalidValue(name, _shape(array), f"a vector of {n} values, as index has")
    return array


# -- measures ---------------------------------------------------------------------------------------------------------------


def measures(given: Any, n: int) -> dict[str, Floats]:
    """Return the measures of n rows from a map of vectors, without those that are NaN throughout.

    Raises InvalidValue when it is no map, has an unknown measure, or a vector of another length.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidValue("measures", given, f"a map with the keys {', '.join(MEASURES)}")
    columns = cast("Mapping[object, Any]", given)
    for key in columns:
        if key not in MEASURES:
            raise not_one_of("measures", key, MEASURES)
    return measured({
        name: vector(f"measures.{name}", columns[name], np.float64, n)
        for name in MEASURES
        if columns.get(name) is not None
    })  # fmt: skip


def measured(columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the columns that have a value, in one order."""
    return {name: columns[name] for name in MEASURES if name in columns and not np.isnan(columns[name]).all()}


def outside(values: Any, low: float, high: float) -> Any:
    """Return where values lie outside low to high; NaN is no value, and does not."""
    return (values < low) | (values > high)
