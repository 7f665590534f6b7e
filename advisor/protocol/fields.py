"""Checks of one parameter: (field, value) to the value in its typed form, or an error that names field, value, bound.

A check is a function with words for what it takes; the ones here take a bound and give a check. Booleans are not numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from advisor.domain import limits
from advisor.domain.allowed_cores import AllowedCores, parse_allowed
from advisor.domain.core_requests import checked_explore
from advisor.domain.names import checked_name
from advisor.domain.rows import whole
from advisor.errors import InvalidValue, TooLarge, UnknownKey, closest

NUMBER_TYPES = frozenset((int, float))


class Check(NamedTuple):
    """Looks at a parameter."""

    words: str  # what it takes, as the protocol page says it
    take: Callable[[str, Any], Any]  # (field, value) to the typed value; raises InvalidValue, TooLarge or UnknownKey

    def __call__(self, field: str, value: Any) -> Any:
        """Return the typed value of a field."""
        return self.take(field, value)


def takes(words: str) -> Callable[[Callable[[str, Any], Any]], Check]:
    """Make a check of a function, with the words for what it takes."""
    return lambda take: Check(words, take)


def _list(field: str, value: Any, bound: str, items_max: int = limits.ARRAY_ITEMS_MAX) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidValue(field, value, bound)
    items = cast("list[Any]", value)
    if len(items) > items_max:
        raise TooLarge(f"length of {field}", len(items), items_max)
    return items


def _map(field: str, value: Any, bound: str = "a map") -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise InvalidValue(field, value, bound)
    return cast("dict[Any, Any]", value)


@takes("any value")
def anything(field: str, value: Any) -> Any:
    """Whatever it is: it is checked where it is used."""
    return value


@takes("name")
def name(field: str, value: Any) -> str:
    """A component's or producer's name, normalised."""
    return checked_name(field, value)


@takes("text")
def label(field: str, value: Any) -> str:
    """A text that should be a name: it is judged where it is used."""
    if type(value) is not str:
        raise InvalidValue(field, value, "text")
    return value


@takes("number")
def number(field: str, value: Any) -> float:
    """Any integer or float; its domain is checked by who uses it."""
    if type(value) not in NUMBER_TYPES:
        raise InvalidValue(field, value, "a number")
    return value


@takes("array of numbers")
def numbers(field: str, value: Any) -> list[float]:
    """A list of numbers, at most PREDICT_POINTS_MAX."""
    items = _list(field, value, "a list of numbers", limits.PREDICT_POINTS_MAX)
    if not NUMBER_TYPES.issuperset(map(type, items)):
        at, wrong = next((i, v) for i, v in enumerate(items) if type(v) not in NUMBER_TYPES)
        raise InvalidValue(f"{field}[{at}]", wrong, "a number")
    return items


@takes("boolean")
def boolean(field: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise InvalidValue(field, value, "true or false")
    return value


def integer(low: int, high: int) -> Check:
    """An integer from `low` to `high`."""

    @takes(f"integer, {low} to {high}")
    def check(field: str, value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise InvalidValue(field, value, f"an integer from {low} to {high}")
        return value

    return check


def text(bytes_max: int, *, secret: bool = False) -> Check:
    """Text of at most `bytes_max` bytes of UTF-8. Of a secret no error repeats anything."""

    @takes("text")
    def check(field: str, value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidValue(field, type(value).__name__ if secret else value, "text")
        if len(value) > bytes_max or len(value.encode()) > bytes_max:
            raise TooLarge(f"bytes of {field}", len(value.encode()), bytes_max)
        return value

    return check


def within(low: float, high: float, what: str = "number") -> Check:
    """A number from `low` to `high`."""
    bound = f"a number from {low:g} to {high:g}" if what == "number" else f"a number of {what} from {low:g} to {high:g}"

    @takes(f"{what}, {low:g} to {high:g}")
    def check(field: str, value: Any) -> float:
        if type(value) not in NUMBER_TYPES or not low <= value <= high:
            raise InvalidValue(field, value, bound)
        return float(value)

    return check


def one_of(*words: str) -> Check:
    """One of the words."""

    @takes("text: " + ", ".join(f"`{word}`" for word in words))
    def check(field: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise InvalidValue(field, value, " or ".join(words))
        return value

    return check


def binary(length: int | None = None, *, item_bytes: int = 1) -> Check:
    """A `bin` of `length` bytes, or of whole items of `item_bytes`."""

    @takes("bin" if length is None else f"bin of {length} bytes")
    def check(field: str, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise InvalidValue(field, value, "bin")
        if length is not None and len(value) != length:
            raise InvalidValue(field, value, f"bin of {length} bytes")
        if len(value) % item_bytes:
            raise InvalidValue(field, len(value), f"bin of a multiple of {item_bytes} bytes")
        return value

    return check


def or_nil(inner: Check) -> Check:
    """What `inner` takes, or nil."""

    @takes(f"{inner.words}, or nil")
    def check(field: str, value: Any) -> Any:
        return None if value is None else inner(field, value)

    return check


def list_of(inner: Check, items_max: int) -> Check:
    """A list of at most `items_max` of what `inner` takes."""

    @takes(f"array of: {inner.words}")
    def check(field: str, value: Any) -> list[Any]:
        items = _list(field, value, "a list", items_max)
        return [inner(f"{field}[{i}]", item) for i, item in enumerate(items)]

    return check


def texts(items_max: int) -> Check:
    """A list of at most `items_max` texts, whatever they say: each is judged where it is used."""

    @takes("array of texts")
    def check(field: str, value: Any) -> list[str]:
        items = _list(field, value, "a list of texts", items_max)
        if not {str}.issuperset(map(type, items)):
            at, wrong = next((i, v) for i, v in enumerate(items) if type(v) is not str)
            raise InvalidValue(f"{field}[{at}]", wrong, "text")
        return items

    return check


@takes("array of rows")
def rows(field: str, value: Any) -> list[Any]:
    """A list of at most ROWS_BATCH_MAX rows; each row is judged by itself, later."""
    return _list(field, value, "a list of rows [component, predictor, cores, elapsed_s]", limits.ROWS_BATCH_MAX)


def map_of(inner: Check) -> Check:
    """A map from text to what `inner` takes."""

    @takes(f"map by key of: {inner.words}")
    def check(field: str, value: Any) -> dict[str, Any]:
        items = _map(field, value)
        for key in items:
            if not isinstance(key, str):
                raise InvalidValue(f"a key of {field}", key, "text")
        return {key: inner(f"{field}[{key[:40]!r}]", item) for key, item in items.items()}

    return check


def record_of(**keys: Check) -> Check:
    """A map with some of these keys, each with its own check."""

    @takes(f"map with {', '.join(f'`{key}`' for key in keys)}")
    def check(field: str, value: Any) -> dict[str, Any]:
        items = _map(field, value, f"a map with the keys {', '.join(keys)}")
        for key in items:
            if key not in keys:
                raise UnknownKey(
                    f"{field} has no key {str(key)[:40]!r}", field=field, value=key, bound=", ".join(keys),
                    hint=closest(str(key), tuple(keys)),
                )  # fmt: skip
        return {key: keys[key](f"{field}.{key}", item) for key, item in items.items()}

    return check


def either(bound: str, **by_type: Check) -> Check:
    """What the check named after the value's type takes (`str`, `list`, `dict`, `int`, `float`)."""

    @takes(bound)
    def check(field: str, value: Any) -> Any:
        inner = by_type.get(type(value).__name__)
        if inner is None:
            raise InvalidValue(field, value, bound)
        return inner(field, value)

    return check


@takes("array of counts, or `{min, max, multiple_of}` or `{min, max, power_of}`")
def allowed_cores(field: str, value: Any) -> AllowedCores:
    """A set of core counts."""
    return parse_allowed(field, value)


@takes("boolean, or `freeze`")
def explore(field: str, value: Any) -> Any:
    """What may be tried."""
    return checked_explore(field, value)


@takes("array of pairs [cores, runs]")
def under_way(field: str, value: Any) -> dict[int, int]:
    """Runs by their cores: a map has only texts as keys."""
    pairs = _list(field, value, "a list of pairs [cores, runs]", limits.ALLOWED_COUNTS_MAX)
    found: dict[int, int] = {}
    for at, pair in enumerate(pairs):
        values = cast("list[Any]", pair if isinstance(pair, list) else [])
        if len(values) != 2:
            raise InvalidValue(f"{field}[{at}]", cast("Any", pair), "a pair [cores, runs]")
        cores = whole(f"{field}[{at}][0]", values[0], 1, limits.ALLOCATE_CORES_MAX)
        found[cores] = found.get(cores, 0) + whole(f"{field}[{at}][1]", values[1], 0, limits.RUNS_AT_ONCE_MAX)
    return found


@takes("number, or array")
def number_or_list(field: str, value: Any) -> float | list[float]:
    """A number, or a list of numbers."""
    return numbers(field, value) if isinstance(value, list) else number(field, value)


@takes("number, or array of a point's values")
def point(field: str, value: Any) -> float | list[float]:
    """One predictor: a number, or a list of its values where it has several."""
    if not isinstance(value, list):
        return number(field, value)
    values = numbers(field, cast("Any", value))
    if not 1 <= len(values) <= limits.DIMENSIONS_MAX:
        raise InvalidValue(field, f"{len(values)} values", f"a number, or a list of 1 to {limits.DIMENSIONS_MAX}")
    return values


@takes("pair [predictor, cores]")
def setting(field: str, value: Any) -> list[Any]:
    """A pair of a predictor and cores."""
    pair = cast("list[Any]", value if isinstance(value, list) else [])
    if len(pair) != 2:
        raise InvalidValue(field, cast("Any", value), "a pair [predictor, cores]")
    return [point(f"{field}[0]", pair[0]), number(f"{field}[1]", pair[1])]
