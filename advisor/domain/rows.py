"""One row, checked field by field, without numpy: what `Advisor.observe`, the clients' `observe` and the wire take."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from numbers import Real
from typing import Any, NamedTuple, Protocol, Required, TypedDict, cast

from advisor.domain import limits
from advisor.domain.names import NAME_BOUND, checked_name, normal_form
from advisor.errors import InvalidValue, UnknownKey, nearest, not_one_of

KILLED = ("memory", "time")  # what a run was killed for; in a column 1 and 2, 0 where it was not
ABSENT_U32 = 2**32 - 1  # of a label's number on the wire: this row has none
ABSENT_U64 = 2**64 - 1  # of replicas: the same
PLAIN = frozenset((float, int))  # Python's own numbers, but for truth values

# The numbers that rows must have, and how many runs each stands for: code of a refusal, field, least and most.
BOUNDS: Mapping[str, tuple[str, float, float]] = {
    "invalid_predictor": ("predictor", 0.0, limits.PREDICTOR_MAX),
    "invalid_cores": ("cores", limits.CORES_MIN, limits.CORES_MAX),
    "invalid_elapsed_s": ("elapsed_s", limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S),
    "invalid_count": ("count", 1, limits.COUNT_MAX),
}
_X, _P_LOW, _P_HIGH = limits.PREDICTOR_MAX, limits.CORES_MIN, limits.CORES_MAX
_T_LOW, _T_HIGH = limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S


class RowFields(TypedDict, total=False):
    """The optional fields of a row."""

    count: int
    ok: bool
    running: bool
    dimensions: int | None
    machine: str | None
    measures: Mapping[str, float] | None
    killed: str | None
    network: str | None
    entered: bool | None
    replica: int | None
    active_cores: float | None


class ColumnFields(TypedDict, total=False):
    """The optional columns of a batch: what `RowFields` says of each row, as arrays of any kind."""

    count: Any
    ok: Any
    running: Any
    dimensions: int | None
    machine: Any
    measures: Mapping[str, Any] | None
    network: Any
    entered: Any
    replica: Any
    active_cores: Any
    killed: Any
    labels: Sequence[str] | None


class ColumnsGiven(ColumnFields, total=False):
    """A batch of columns as a client's `observe_columns` takes it."""

    components: Sequence[str] | None
    index: Required[Any]
    predictor: Any
    cores: Required[Any]
    elapsed_s: Required[Any]


class Array(Protocol):
    """An array of numpy, or of whatever has `tolist`."""

    def tolist(self) -> Any:
        """Return its values as lists."""
        ...


Point = float | Sequence[float] | Array | None  # a row's predictor


def is_number(value: object) -> bool:
    """Return True for a real number of Python or numpy; a truth value is none."""
    return isinstance(value, (float, int, Real)) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Return True for an integer of Python or numpy; a truth value is none."""
    return hasattr(value, "__index__") and is_number(value)


def is_truth(value: object) -> bool:
    """Return True for a truth value of Python or numpy."""
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "char", "") == "?"


def whole(field: str, value: Any, low: int, high: int | None = None, hint: str = "") -> int:
    """Return a whole number from `low` to `high` as Python's own; raises InvalidValue."""
    if not is_whole(value) or value < low or (high is not None and value > high):
        bound = f"a whole number from {low}" + ("" if high is None else f" to {high}")
        raise InvalidValue(field, value, bound, hint)
    return operator.index(value)


def truth(field: str, value: Any) -> bool:
    """Return a truth value as Python's own; raises InvalidValue."""
    if not is_truth(value):
        raise InvalidValue(field, value, "true or false")
    return bool(value)


def number(field: str, value: Any, low: float, high: float, hint: str = "") -> float:
    """Return a number within its bounds as Python's own; raises InvalidValue."""
    if not is_number(value) or not low <= value <= high:
        raise InvalidValue(field, value, f"a number from {low:g} to {high:g}", hint)
    return float(value)


def _within(low: float, high: float) -> str:
    return f"a finite number from {low:g} to {high:g}"


def _number_or_nan(field: str, value: Any, low: float, high: float) -> float:
    """Return a number within its bounds, or NaN, which is none."""
    if not is_number(value) or value < low or value > high:
        raise InvalidValue(field, value, _within(low, high))
    return float(value)


def _killed(field: str, value: Any) -> str:
    if value not in KILLED:
        raise not_one_of(field, value, KILLED)
    return value


def _measures(field: str, measures: Any) -> dict[str, float]:
    """Return measures by name, without those that are None or NaN: they were not measured."""
    if not isinstance(measures, Mapping):
        raise InvalidValue(field, measures, f"a map with the keys {', '.join(limits.MEASURES)}")
    found: dict[str, float] = {}
    given = cast("Mapping[Any, Any]", measures)
    for name in given:
        if name not in limits.MEASURES:
            raise not_one_of(field, name, limits.MEASURES)
    for name in limits.MEASURES:  # in the order in which columns are looked at
        if (value := given.get(name)) is not None:
            found[name] = _number_or_nan(f"{field}.{name}", value, *limits.MEASURES[name])
    return {name: value for name, value in found.items() if value == value}  # noqa: PLR0124 - NaN is not


class RowField(NamedTuple):
    """An optional field of a row: what it takes in a row and as a column, and what it means."""

    check: Callable[[str, Any], Any]  # (field, value) to the value as Python's own; raises InvalidValue
    words: str  # what a row may have, as the protocol page says it
    column: str  # the type of a column of the wire, as numpy writes it; "" where there is no such column
    absent: Any  # what a column has where a row has none
    meaning: str


_LABEL = (checked_name, f"name: {NAME_BOUND}", "<u4", ABSENT_U32)
FIELDS: Mapping[str, RowField] = {
    "count": RowField(
        partial(whole, low=1, high=limits.COUNT_MAX), "integer, 1 to 2^32", "<u4", 1,
        "the row stands for so many equal runs; `elapsed_s` is their mean",
    ),
    "dimensions": RowField(
        partial(whole, low=1, high=limits.DIMENSIONS_MAX), f"integer, 1 to {limits.DIMENSIONS_MAX}", "", None,
        "values of one `predictor`, which is then an array; as column one integer a batch, `predictor` is row-major",
    ),
    "machine": RowField(*_LABEL, "where it ran"),
    "measures": RowField(
        _measures, "`{peak_bytes, energy_j}`", "", {},
        "peak memory in bytes, energy in joules; as columns a map of f64, NaN: not measured",
    ),
    "network": RowField(*_LABEL, "the id of the network that it ran in, as text"),
    "entered": RowField(truth, "boolean", "u1", False, "true: its record entered the network with this row"),
    "replica": RowField(
        partial(whole, low=0, high=ABSENT_U64 - 1), "integer, 0 to 2^64 − 2", "<u8", ABSENT_U64,
        "tag value of the innermost index split",
    ),
    "active_cores": RowField(
        partial(_number_or_nan, low=0.0, high=limits.CORES_MAX), "number, 0 to 2^20", "<f8", nan,
        "mean busy cores of the machine meanwhile, its own included",
    ),
    "killed": RowField(
        _killed, "`memory` or `time`", "u1", 0,
        "what the run was killed for, as column 1, 2 or 0: `elapsed_s` and `measures` are lower bounds, `ok` and "
        "`running` do not matter",
    ),
    "ok": RowField(truth, "boolean", "u1", True, "false: the run failed; counted, not learned"),
    "running": RowField(
        truth, "boolean", "u1", False, "true: not ended, `elapsed_s` is a lower bound; counted, not learned"
    ),
}  # fmt: skip
LEARNED_FIELDS, COUNTED_FIELDS = tuple(FIELDS)[:-2], tuple(FIELDS)[-2:]
_CODES = {"component": "invalid_name"} | {name: f"invalid_{name}" for name in FIELDS} | {"measures": "invalid_measure"}

# The codes with which a row may be refused, in the order in which a row is looked at: what each asks of it.
REFUSALS: Mapping[str, str] = {
    "invalid_row": "[component, predictor, cores, elapsed_s, {optional}]",
    "unknown_key": f"one of {', '.join(FIELDS)}",
    "invalid_name": NAME_BOUND,
    **{code: _within(low, high) for code, (_, low, high) in BOUNDS.items()},
    **{_CODES[name]: field.words for name, field in FIELDS.items() if name != "count"},
    "invalid_dimensions": "as many predictor values as its component's rows have, 1 to 4; others are refused",
    "invalid_measure": ", ".join(f"{name} {_within(*bounds)}" for name, bounds in limits.MEASURES.items()),
    "too_many_components": "a known component, or fewer components",
}


def code_of(error: UnknownKey | InvalidValue) -> str:
    """Return the code with which a row is refused for an error about one of its fields."""
    field = (error.field or "").partition(".")[0]
    return error.code if isinstance(error, UnknownKey) else _CODES.get(field, f"invalid_{field}")


def bound_text(code: str) -> str:
    """Return the bound that a refusal code stands for, in words."""
    return REFUSALS.get(code, code)


def texts_in(values: Any) -> list[Any] | None:
    """Return a column as a list where it has texts or None; None where it has neither."""
    if hasattr(values, "dtype") and values.dtype.kind in "UO":  # a numpy array, without importing numpy
        values = values.tolist()
    given: list[Any] = cast("list[Any]", values) if isinstance(values, (list, tuple)) else []
    return given if any(value is None or isinstance(value, str) for value in given) else None


def texts_as_labels(columns: dict[str, Any]) -> dict[str, Any]:
    """Return `columns` with texts in `network` and `machine` replaced by numbers of `labels`; raises InvalidValue."""
    labels: list[Any] = list(columns.get("labels") or ())
    numbers: dict[Any, int] = {label: number for number, label in reversed(list(enumerate(labels)))}
    found = dict(columns)
    for key in ("network", "machine"):
        if (texts := texts_in(columns.get(key))) is None:
            continue
        found[key] = []
        for text in texts:
            if text is not None and not isinstance(text, str):
                raise InvalidValue(key, text, "names or None, throughout")
            if text is not None and text not in numbers:
                numbers[text] = len(labels)
                labels.append(text)
            found[key].append(ABSENT_U32 if text is None else numbers[text])
    return found | {"labels": labels} if labels else found


def killed_codes(values: Any) -> Any:
    """Return a column of `killed` as numbers, where it has words or None; raises InvalidValue."""
    texts = texts_in(values)
    if texts is None:
        return values
    return [killed_code(None if text is None else _killed("killed", text)) for text in texts]


def killed_code(why: str | None) -> int:
    """Return what stands in a column for what a run was killed for."""
    return 0 if why is None else 1 + KILLED.index(why)


def point_of(predictor: Any) -> tuple[float, ...]:
    """Return the 1 to 4 values of a predictor that is not None.

    Raises InvalidValue when it is neither a number nor a vector of 1 to 4, or a value lies outside its domain.
    """
    values = cast("Sequence[Any]", (predictor,) if is_number(predictor) else _values(predictor))
    if not 1 <= len(values) <= limits.DIMENSIONS_MAX or not all(map(is_number, values)):
        raise InvalidValue("predictor", predictor, f"a number, or an array of 1 to {limits.DIMENSIONS_MAX}")
    for value in values:
        if not 0.0 <= value <= limits.PREDICTOR_MAX:
            raise InvalidValue("predictor", value, bound_text("invalid_predictor"))
    return tuple(float(value) for value in values)


def _values(predictor: Any) -> Sequence[Any]:
    """Return a vector as a sequence."""
    if hasattr(predictor, "mask"):
        raise InvalidValue("predictor", "a masked array", "numbers without a mask", "leave the masked rows out")
    found = predictor.tolist() if hasattr(predictor, "tolist") else predictor
    if isinstance(found, (list, tuple)):
        return cast("Sequence[Any]", found)
    raise InvalidValue("predictor", predictor, f"a number, or an array of 1 to {limits.DIMENSIONS_MAX}")


def checked_fields(given: Any, values: int) -> dict[str, Any]:
    """Return the optional fields of a row whose predictor has so many values, but for those that say nothing.

    Raises UnknownKey for a field that no row has; InvalidValue naming the first wrong field, its value and its bound.
    """
    if not isinstance(given, Mapping):
        raise InvalidValue("row", given, bound_text("invalid_row"))
    there = cast("Mapping[str, Any]", given)
    if not there.keys() <= FIELDS.keys():
        name = next(name for name in there if name not in FIELDS)
        raise UnknownKey(
            f"a row has no field {name[:40]!r}", field=name, value=name, bound=", ".join(FIELDS),
            hint=nearest(name, ("predictor", "cores", "elapsed_s", *FIELDS)),
        )  # fmt: skip
    found: dict[str, Any] = {}
    for name in FIELDS if len(there) > 1 else there:
        if name in there and (value := there[name]) is not None:
            field = FIELDS[name]
            if (value := field.check(name, value)) != field.absent:
                found[name] = value
    if found.pop("dimensions", values) != values:
        raise InvalidValue("dimensions", there["dimensions"], f"{values}, the values of predictor")
    return found


def row_of(component: Any, predictor: Any, cores: Any, elapsed_s: Any, optional: Mapping[str, Any]) -> list[Any]:
    """Return an observation as a row of the wire; its numbers become floats, a predictor of several values a list.

    Raises InvalidValue, UnknownKey. Whether the component has that many predictors, or there is room for it, only who
    learns it can tell.
    """
    name = (normal_form(component) if type(component) is str else None) or checked_name("component", component)
    if (
        type(elapsed_s) is float
        and type(cores) in PLAIN
        and type(predictor) in PLAIN
        and _T_LOW <= elapsed_s <= _T_HIGH
        and _P_LOW <= cores <= _P_HIGH
        and 0.0 <= predictor <= _X
    ):
        row: list[Any] = [name, float(predictor), float(cores), elapsed_s]
        values = 1
    else:
        point = () if predictor is None else point_of(predictor)
        for (code, (field, low, high)), value in zip(BOUNDS.items(), (0.0, cores, elapsed_s), strict=False):
            if not is_number(value) or not low <= value <= high:
                if value is None and optional:  # it may have been given by a wrong name
                    checked_fields(optional, len(point) or 1)
                raise InvalidValue(field, value, bound_text(code))
        x, values = list(point) if len(point) > 1 else point[0] if point else None, len(point) or 1
        row = [name, x, float(cores), float(elapsed_s)]
    if optional and (found := checked_fields(optional, values)):
        row.append(found)
    return row
