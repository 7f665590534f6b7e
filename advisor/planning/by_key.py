"""Options of a plan that are given by key of the network, and the numbers in them, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import numpy as np

from advisor.domain import limits
from advisor.domain.allowed_cores import KEYS as FORM_KEYS
from advisor.domain.allowed_cores import AllowedCores, parse_allowed
from advisor.domain.networks import Network
from advisor.domain.plan_options import PlanOptions
from advisor.domain.rows import is_number, is_whole, whole
from advisor.domain.vectors import Bools, Floats, Ints
from advisor.errors import InvalidValue

Value = TypeVar("Value")
VISITS_MAX = 1e9  # visits of one record at one component: with ELAPSED_MAX_S far below the overflow of a double
SCALE_MIN, SCALE_MAX = 1e-6, 1e6  # of a what-if: a component a million times faster or slower is another one


def finite_number(field: str, value: object) -> float:
    """Return a finite number that is not negative, or raise InvalidValue."""
    bound = "a finite number, not negative"
    if not is_number(value):
        raise InvalidValue(field, value, bound)
    try:
        checked = float(cast("float", value))
    except OverflowError:
        checked = math.inf
    if not math.isfinite(checked) or checked < 0:
        raise InvalidValue(field, checked, bound)
    return checked


def within(field: str, value: object, least: float, most: float) -> float:
    """Return a finite number from `least` to `most`, or raise InvalidValue."""
    checked = finite_number(field, value)
    if not least <= checked <= most:
        raise InvalidValue(field, checked, f"a number from {least:g} to {most:g}")
    return checked


def by_key(field: str, given: Mapping[str, Value] | None, network: Network) -> dict[int, tuple[str, Value]]:
    """Return position -> (field of the entry, value) of a mapping by key; an unknown key is refused by name."""
    position = {key: index for index, key in enumerate(network.keys)}
    found: dict[int, tuple[str, Value]] = {}
    for key, value in (given or {}).items():
        if key not in position:
            some = ", ".join(network.keys[:8]) + (", …" if len(network.keys) > 8 else "")
            raise InvalidValue(field, key, f"a key of the network: {some}")
        found[position[key]] = (f"{field}.{key}", value)
    return found


def values_by_key(field: str, given: Any, network: Network) -> dict[str, Any]:
    """Return key -> value of an option, where one value may stand for all keys; a map of counts may be such a value."""
    if given is None:
        return {}
    if isinstance(given, Mapping) and not (field == "allowed" and _is_one_set(cast("Mapping[Any, object]", given))):
        return dict(cast("Mapping[str, Any]", given))
    return dict.fromkeys(network.keys, cast("Any", given))


def scales_of(network: Network, request: PlanOptions) -> Floats:
    """Return the factor on each component's time, shape (n,)."""
    scales = np.ones(len(network.keys))
    for row, (name, value) in by_key("scale", request.scale, network).items():
        scales[row] = within(name, value, SCALE_MIN, SCALE_MAX)
    return scales


def limits_of(network: Network, request: PlanOptions) -> tuple[Ints, Ints, Ints]:
    """Return fewest and most cores of one instance, and the most instances, each (n,)."""
    low = _counts("minimum", request.minimum, network, 1)
    high = _counts("maximum", request.maximum, network, limits.ALLOCATE_CORES_MAX)
    if (low > high).any():
        row = int(np.argmax(low > high))
        raise InvalidValue(f"minimum.{network.keys[row]}", int(low[row]), f"at most its maximum, {high[row]}")
    return low, high, _counts("instances_max", request.instances_max, network, 1)


def _counts(field: str, given: int | Mapping[str, int] | None, network: Network, default: int) -> Ints:
    values = np.full(len(network.keys), default, np.int64)
    for row, (_, value) in by_key(field, values_by_key(field, given, network), network).items():
        values[row] = value
    return values


def pins_of(network: Network, request: PlanOptions) -> dict[int, tuple[int | None, int | None]]:
    """Return row -> (cores, instances) of the pinned components; None where one of them is left open."""
    pins = by_key("pinned", request.pinned, network)
    return {row: pin_of(name, value) for row, (name, value) in pins.items()}


def pin_of(field: str, value: object) -> tuple[int | None, int | None]:
    """Return cores and instances of a number of cores, or of a map of these; None where one of them is left open."""
    given = cast("Mapping[Any, object]", value) if isinstance(value, Mapping) else None
    for part in given or ():
        if part not in ("cores", "instances"):
            raise InvalidValue(field, part, "a map with cores, instances or both")
    if given is None:
        return whole(f"{field}", value, 1, limits.ALLOCATE_CORES_MAX), None
    bounds = {"cores": limits.ALLOCATE_CORES_MAX, "instances": limits.INSTANCES_MAX}
    cores, instances = (None if given.get(part) is None else whole(f"{field}.{part}", given[part], 1, most)
                        for part, most in bounds.items())  # fmt: skip
    return cores, instances


def allowed_of(network: Network, request: PlanOptions) -> dict[int, AllowedCores]:
    """Return row -> the counts that a request allows it. A map is by key unless all its keys are those of one set."""
    given: Any = request.allowed
    if given is None or (isinstance(given, Mapping) and not _is_one_set(cast("Mapping[Any, object]", given))):
        sets = by_key("allowed", cast("Any", given), network)
        return {row: parse_allowed(name, value) for row, (name, value) in sets.items()}
    return dict.fromkeys(range(len(network.keys)), parse_allowed("allowed", given))


def _is_one_set(given: Mapping[Any, object]) -> bool:
    """Return whether a map is one set of counts, not sets by key: a box may be called `min`, but its set is no number."""
    counts = [value for value in given.values() if value is not None]
    return bool(given) and given.keys() <= set(FORM_KEYS) and all(map(is_whole, counts))


def is_allowed(allowed: AllowedCores, counts: Ints) -> Bools:
    """Return which counts, all from `allowed.least` to `allowed.most`, are members."""
    members = allowed.listed
    return np.isin(counts, members) if members else counts % allowed.multiple_of == 0
