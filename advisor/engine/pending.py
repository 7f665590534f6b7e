"""Rows that `Advisor.observe` took one by one, checked, waiting to be folded together."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from advisor.domain import limits, vectors
from advisor.domain.names import checked_name
from advisor.domain.observations import Columns, ComponentNames, bound_text, measure_bound
from advisor.engine.checks import check_kinds, is_number
from advisor.errors import InvalidValue

PENDING_ROWS_MAX = 1_024  # a fold of a thousand rows costs little more than a fold of one
# Fields that say where a row ran among others: (what stands for none, type) of their columns.
TRAVEL: Mapping[str, tuple[Any, Any]] = {
    "network": (vectors.NONE_NAMED, np.int64),
    "record": (vectors.ABSENT_U64, np.uint64),
    "entered": (False, np.bool_),
    "replica": (vectors.ABSENT_U64, np.uint64),
    "active_cores": (np.nan, np.float64),
}


class More(NamedTuple):
    """What a row has beyond its plain values: checked, in normal form."""

    further: tuple[float, ...] = ()
    machine: str | None = None
    measures: Mapping[str, float] = {}
    travel: Mapping[str, Any] = {}


def point_of(predictor: Any, dimensions: Any = None) -> tuple[float, ...]:
    """Return the 1 to 4 values of a predictor that is not None.

    Raises
    ------
    InvalidValue
        When it is neither a number nor a vector of 1 to 4, a value lies outside its domain, or `dimensions` disagrees.
    """
    if is_number(predictor):
        values: list[Any] = [predictor]
    else:
        array = vectors.array_of("predictor", predictor, np.float64, "a number, or an array of 1 to 4")
        if array.ndim != 1 or not 1 <= len(array) <= limits.DIMENSIONS_MAX:
            raise InvalidValue("predictor", predictor, f"a number, or an array of 1 to {limits.DIMENSIONS_MAX}")
        values = array.tolist()
    if dimensions is not None and vectors.checked_dimensions(dimensions) != len(values):
        raise InvalidValue("dimensions", dimensions, f"{len(values)}, the values of predictor")
    for value in values:
        if not 0.0 <= value <= limits.PREDICTOR_MAX:
            raise InvalidValue("predictor", value, bound_text("invalid_predictor"))
    return tuple(float(value) for value in values)


def measures_of(measures: Any) -> dict[str, float]:
    """Return the measures of a row by name, without those that are None or NaN: they were not measured.

    Raises
    ------
    InvalidValue
        Naming the measure, its value and its bound.
    """
    if not isinstance(measures, Mapping):
        raise InvalidValue("measures", measures, f"a map with the keys {', '.join(limits.MEASURES)}")
    found: dict[str, float] = {}
    for name, value in cast("Mapping[Any, Any]", measures).items():
        if name not in limits.MEASURES:
            raise InvalidValue("measures", name, f"one of {', '.join(limits.MEASURES)}")
        if value is None:
            continue
        if not is_number(value) or vectors.outside(value, *limits.MEASURES[name]):
            raise InvalidValue(f"measures.{name}", value, measure_bound(name))
        if value == value:  # noqa: PLR0124 - NaN is not
            found[name] = float(value)
    return found


def travel_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row that say where it ran among others, checked, in the form of `Columns`.

    Raises
    ------
    InvalidValue
        Naming the field, its value and its bound.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in TRAVEL:
            raise InvalidValue(name, value, f"one of {', '.join(TRAVEL)}")
        if value is None:
            continue
        if name == "network":
            found[name] = checked_name(name, value)
        elif name == "entered":
            check_kinds(1, entered=value)
            found[name] = bool(value)
        elif name == "active_cores":
            if not is_number(value) or not 0.0 <= value <= limits.CORES_MAX:
                raise InvalidValue(name, value, bound_text("invalid_active_cores"))
            found[name] = float(value)
        else:
            found[name] = _identity(name, value)
    return found


def _identity(name: str, value: Any) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    number = operator.index(cast("int", value)) if whole else -1
    if not 0 <= number < vectors.ABSENT_U64:
        raise InvalidValue(name, cast("object", value), f"a whole number from 0 to {vectors.ABSENT_U64 - 1}")
    return number


def more_of(further: Sequence[float], machine: Any, measures: Any, travel: Mapping[str, Any] | None = None) -> More:
    """Return what a row has beyond its plain values.

    Raises
    ------
    InvalidValue
    """
    return More(
        tuple(further),
        None if machine is None else checked_name("machine", machine),
        {} if measures is None else measures_of(measures),
        travel_of(travel) if travel else {},
    )


class Pending:
    """A bounded list of checked rows."""

    __slots__ = ("_more", "_number", "_rows")

    def __init__(self) -> None:
        self._rows: list[tuple[int, float, float, float, int, bool, bool]] = []
        self._number: dict[str, int] = {}
        self._more: dict[int, More] = {}

    def add(
        self,
        component: str,
        x: float,
        p: float,
        t: float,
        count: int,
        ok: bool,
        running: bool,
        more: More | None = None,
    ) -> bool:
        """Take a row; True when it is time to fold."""
        if more is not None:
            self._more[len(self._rows)] = more
        self._rows.append((self._number.setdefault(component, len(self._number)), x, p, t, count, ok, running))
        return len(self._rows) >= PENDING_ROWS_MAX

    def new_names(self, known: Container[str]) -> list[str]:
        """Return the waiting names that are not in `known`."""
        return [name for name in self._number if name not in known]

    def take(self) -> Columns | None:
        """Return the waiting rows in order, and wait for none."""
        if not self._rows:
            return None
        index, x, p, t, count, ok, running = zip(*self._rows, strict=True)
        columns = Columns(
            ComponentNames(list(self._number)),
            np.array(index, np.int64),
            np.array(x),
            np.array(p),
            np.array(t),
            count=None if count.count(1) == len(count) else np.array(count, np.int64),
            ok=None if all(ok) else np.array(ok, np.bool_),
            running=np.array(running, np.bool_) if any(running) else None,
            **(self._more_columns() if self._more else {}),
        )
        self.__init__()
        return columns

    def _more_columns(self) -> dict[str, Any]:
        n = len(self._rows)
        machine = np.full(n, vectors.NONE_NAMED, np.int64)
        machines: dict[str, int] = {}
        further: dict[int, tuple[float, ...]] = {}
        networks: dict[str, int] = {}
        travel: dict[str, Any] = {}
        measures: dict[str, dict[int, float]] = {}
        for row, more in self._more.items():
            if more.further:
                further[row] = more.further
            if more.machine is not None:
                machine[row] = machines.setdefault(more.machine, len(machines))
            for name, value in more.travel.items():
                if name not in travel:
                    absent, kind = TRAVEL[name]
                    travel[name] = np.full(n, absent, kind)
                travel[name][row] = networks.setdefault(value, len(networks)) if name == "network" else value
            for name, value in more.measures.items():
                measures.setdefault(name, {})[row] = value
        return {
            "further": vectors.further_of(further, n),
            "machine": machine if machines else None,
            "machines": tuple(machines),
            "networks": tuple(networks),
            **travel,
            "measures": vectors.measured({name: vectors.sparse(values, n) for name, values in measures.items()}),
        }
