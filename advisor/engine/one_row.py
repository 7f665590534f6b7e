"""The fields of one row, checked one by one: what `Advisor.observe` takes beside plain numbers."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from advisor.domain import limits, vectors
from advisor.domain.names import checked_name
from advisor.domain.observations import MAY_BE_ABSENT, Columns, ComponentNames, bound_text, measure_bound
from advisor.engine.checks import check_kinds, is_number
from advisor.errors import InvalidValue

# Fields that say where a row ran among others: (what stands for none, type) of their columns.
TRAVEL: Mapping[str, tuple[Any, Any]] = {
    "network": (vectors.NONE_NAMED, np.int64),
    "record": (vectors.ABSENT_U64, np.uint64),
    "entered": (False, np.bool_),
    "replica": (vectors.ABSENT_U64, np.uint64),
    "active_cores": (np.nan, np.float64),
    "at_risk_s": (np.nan, np.float64),
}


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
        elif (code := f"invalid_{name}") in MAY_BE_ABSENT:
            if not is_number(value) or not 0.0 <= value <= MAY_BE_ABSENT[code][1]:
                raise InvalidValue(name, value, bound_text(code))
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


def columns_of_row(
    component: str, point: tuple[float, ...], cores: float, elapsed_s: float, count: int, ok: bool, running: bool,
    machine: Any, measures: Any, travel: Mapping[str, Any],
) -> Columns:  # fmt: skip
    """Return one checked row as columns: one that names more than a predictor, cores and a time, or a component that is new.

    Raises
    ------
    InvalidValue
    """
    machine = None if machine is None else checked_name("machine", machine)
    measured = {} if measures is None else measures_of(measures)
    found: dict[str, Any] = {}
    for name, value in travel_of(travel).items():
        if name == "network":
            found["networks"], value = (value,), 0  # noqa: PLW2901 - the column numbers the names beside it
        found[name] = np.array([value], TRAVEL[name][1])
    return Columns(
        ComponentNames([component]),
        np.zeros(1, np.int64),
        np.array([point[0]]),
        np.array([cores]),
        np.array([elapsed_s]),
        count=None if count == 1 else np.array([count], np.int64),
        ok=None if ok else np.zeros(1, np.bool_),
        running=np.ones(1, np.bool_) if running else None,
        further=vectors.further_of({0: point[1:]}, 1) if len(point) > 1 else None,
        machine=None if machine is None else np.zeros(1, np.int64),
        machines=() if machine is None else (machine,),
        measures=vectors.measured({name: np.array([value]) for name, value in measured.items()}),
        **found,
    )
