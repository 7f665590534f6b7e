"""One row, checked field by field, without numpy: what `Advisor.observe` and the clients' `observe` take."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Real
from typing import Any, Protocol, Required, TypedDict, cast

from advisor.domain import limits
from advisor.domain.names import NAME_BOUND, checked_name
from advisor.errors import InvalidValue, UnknownKey, nearest, not_one_of

# Optional fields that are learned from, and those that are counted only.
FLOW_FIELDS = ("network", "entered", "replica")
LEARNED_FIELDS = ("count", "dimensions", "machine", "measures", *FLOW_FIELDS, "active_cores", "killed")
COUNTED_FIELDS = ("ok", "running")
KILLED = ("memory", "time")  # what a run was killed for; in a column 1 and 2, 0 where it was not
OPTIONAL_FIELDS = (*LEARNED_FIELDS, *COUNTED_FIELDS)
IDENTITY_MAX = 2**64 - 2  # of replicas; the next one stands for none
PLAIN = frozenset((float, int))  # Python's own numbers, but for truth values
NAMES_REMEMBERED = 4096  # names known to be good: to look at one takes 10 times as long

# One line a check: code, what is bad about a row. In order: the first that matches names the refusal.
BOUNDS: Mapping[str, tuple[str, float, float]] = {
    "invalid_predictor": ("predictor", 0.0, limits.PREDICTOR_MAX),
    "invalid_cores": ("cores", limits.CORES_MIN, limits.CORES_MAX),
    "invalid_elapsed_s": ("elapsed_s", limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S),
    "invalid_count": ("count", 1, limits.COUNT_MAX),
}
_X, _P_LOW, _P_HIGH = limits.PREDICTOR_MAX, limits.CORES_MIN, limits.CORES_MAX
_T_LOW, _T_HIGH = limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S

# Columns that are NaN where a row has none: name, and the most that they may be, from 0 on.
MAY_BE_ABSENT: Mapping[str, tuple[str, float]] = {
    "invalid_active_cores": ("active_cores", limits.CORES_MAX),
}


class Travel(TypedDict, total=False):
    """Where a row ran among others, as far as it tells."""

    network: str | None
    entered: bool | None
    replica: int | None
    active_cores: float | None


class RowFields(Travel, total=False):
    """The optional fields of a row."""

    count: int
    ok: bool
    running: bool
    dimensions: int | None
    machine: str | None
    measures: Mapping[str, float] | None
    killed: str | None


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


def measure_bound(name: str) -> str:
    """Return the bound of a measure, in words."""
    low, high = limits.MEASURES[name]
    return f"a finite number from {low:g} to {high:g}"


def bound_text(code: str) -> str:
    """Return the bound that a refusal code stands for, in words."""
    if code in BOUNDS:
        _, low, high = BOUNDS[code]
        return f"a finite number from {low:g} to {high:g}"
    return _BOUND_TEXTS.get(code, code)


_BOUND_TEXTS: Mapping[str, str] = {
    "invalid_dimensions": "as many predictor values as its component's rows have; others are refused",
    "invalid_name": NAME_BOUND,
    "too_many_components": "a known component, or fewer components",
    "invalid_row": "[component, predictor, cores, elapsed_s, {optional}]: a name, numbers, a map of known fields",
    "unknown_key": f"one of {', '.join(OPTIONAL_FIELDS)}",
    "invalid_machine": NAME_BOUND,
    "invalid_network": NAME_BOUND,
    "invalid_active_cores": f"a finite number from 0 to {limits.CORES_MAX:g}",
    "invalid_measure": ", ".join(f"{name} {measure_bound(name)}" for name in limits.MEASURES),
}
REFUSALS = (*BOUNDS, *_BOUND_TEXTS)  # the codes with which a row may be refused


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


def check_row(predictor: Any, cores: Any, elapsed_s: Any, count: Any, ok: Any, running: Any) -> None:
    """Refuse numbers of a row outside their domain, and flags that are not true or false; raises InvalidValue."""
    for (code, (field, low, high)), value in zip(BOUNDS.items(), (predictor, cores, elapsed_s, count), strict=True):
        if (type(value) not in PLAIN and not is_number(value)) or not low <= value <= high:
            raise InvalidValue(field, value, bound_text(code))
    if type(count) is not int and not is_whole(count):
        raise InvalidValue("count", count, "a whole number of runs")
    for field, value in (("ok", ok), ("running", running)):
        if type(value) is not bool and not is_truth(value):
            raise InvalidValue(field, value, "true or false")


def killed_codes(values: Any) -> Any:
    """Return a column of `killed` as numbers, where it has words or None; raises InvalidValue."""
    if hasattr(values, "dtype") and values.dtype.kind in "UO":
        values = values.tolist()
    if not isinstance(values, (list, tuple)) or not any(
        v is None or isinstance(v, str) for v in cast("list[Any]", values)
    ):
        return cast("Any", values)
    return [0 if value is None else 1 + KILLED.index(checked_killed(value)) for value in cast("list[Any]", values)]


def checked_killed(value: Any) -> str:
    """Return what a run was killed for; raises InvalidValue."""
    if value not in KILLED:
        raise not_one_of("killed", value, KILLED)
    return value


def point_of(predictor: Any, dimensions: Any = None) -> tuple[float, ...]:
    """Return the 1 to 4 values of a predictor that is not None.

    Raises InvalidValue when it is neither a number nor a vector of 1 to 4, a value lies outside its domain, or `dimensions`
    disagrees.
    """
    values = cast("Sequence[Any]", (predictor,) if is_number(predictor) else _values(predictor))
    if not 1 <= len(values) <= limits.DIMENSIONS_MAX:
        raise InvalidValue("predictor", predictor, f"a number, or an array of 1 to {limits.DIMENSIONS_MAX}")
    if dimensions is not None:
        if not is_whole(dimensions) or not 1 <= dimensions <= limits.DIMENSIONS_MAX:
            raise InvalidValue("dimensions", dimensions, f"an integer from 1 to {limits.DIMENSIONS_MAX}")
        if dimensions != len(values):
            raise InvalidValue("dimensions", dimensions, f"{len(values)}, the values of predictor")
    if not all(map(is_number, values)):
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


def measures_of(measures: Any) -> dict[str, float]:
    """Return the measures of a row by name, without those that are None or NaN: they were not measured.

    Raises InvalidValue naming the measure, its value and its bound.
    """
    if not isinstance(measures, Mapping):
        raise InvalidValue("measures", measures, f"a map with the keys {', '.join(limits.MEASURES)}")
    found: dict[str, float] = {}
    for name, value in cast("Mapping[Any, Any]", measures).items():
        if name not in limits.MEASURES:
            raise not_one_of("measures", name, limits.MEASURES)
        if value is None:
            continue
        low, high = limits.MEASURES[name]
        if not is_number(value) or value < low or value > high:
            raise InvalidValue(f"measures.{name}", value, measure_bound(name))
        if value == value:  # noqa: PLR0124 - NaN is not
            found[name] = float(value)
    return found


def travel_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row that say where it ran among others, checked, without those that are None.

    Raises UnknownKey for a field that no row has; InvalidValue naming the field, its value and its bound.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in Travel.__annotations__:
            raise UnknownKey(
                f"a row has no field {name[:40]!r}", field=name, value=value, bound=", ".join(OPTIONAL_FIELDS),
                hint=nearest(name, ("predictor", "cores", "elapsed_s", *OPTIONAL_FIELDS)),
            )  # fmt: skip
        if value is None:
            continue
        if name == "network":
            found[name] = checked_name(name, value)
        elif name == "entered":
            if not is_truth(value):
                raise InvalidValue(name, value, "true or false")
            found[name] = bool(value)
        elif (code := f"invalid_{name}") in MAY_BE_ABSENT:
            if not is_number(value) or not 0.0 <= value <= MAY_BE_ABSENT[code][1]:
                raise InvalidValue(name, value, bound_text(code))
            found[name] = float(value)
        else:
            found[name] = whole(name, value, 0, IDENTITY_MAX)
    return found


_name = lru_cache(NAMES_REMEMBERED)(checked_name)


def row_of(component: Any, predictor: Any, cores: Any, elapsed_s: Any, optional: Mapping[str, Any]) -> list[Any]:
    """Return an observation as a row of the wire; its numbers become floats, a predictor of several values a list.

    Raises InvalidValue, UnknownKey: what `Advisor.observe` would refuse, in the same words. Whether the component has that
    many predictors, or there is room for it, only who learns it can tell.
    """
    name = _name("component", component) if type(component) is str else checked_name("component", component)
    if (
        not optional
        and type(elapsed_s) is float
        and type(cores) in (float, int)
        and type(predictor) in (float, int)
        and _T_LOW <= elapsed_s <= _T_HIGH
        and _P_LOW <= cores <= _P_HIGH
        and 0.0 <= predictor <= _X
    ):
        return [name, float(predictor), float(cores), elapsed_s]
    x, further, dimensions = predictor, list[float](), optional.get("dimensions")
    if x is not None and (dimensions is not None or hasattr(x, "__len__")):
        x, *further = point_of(x, dimensions)
    count, ok, running = optional.get("count", 1), optional.get("ok", True), optional.get("running", False)
    check_row(1.0 if x is None else x, cores, elapsed_s, count, ok, running)
    row = [name, None if x is None else [x, *further] if further else float(x), float(cores), float(elapsed_s)]
    if not optional:
        return row
    fields = {key: value for key, value in optional.items() if key not in ("dimensions", "count", *COUNTED_FIELDS)}
    machine, measures, killed = (fields.pop(key, None) for key in ("machine", "measures", "killed"))
    found = travel_of(fields)
    found |= {} if count == 1 else {"count": int(count)}
    found |= ({} if ok else {"ok": False}) | ({"running": True} if running else {})
    found |= {} if killed is None else {"killed": checked_killed(killed)}
    found |= {} if machine is None else {"machine": checked_name("machine", machine)}
    found |= {"measures": reported} if measures is not None and (reported := measures_of(measures)) else {}
    return [*row, found] if found else row
