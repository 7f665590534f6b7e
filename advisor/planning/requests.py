"""What a caller asks of a plan, and its validation."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from advisor.domain import limits
from advisor.domain.curves import AmdahlCurves
from advisor.domain.networks import Network
from advisor.errors import InvalidValue, TooLarge
from advisor.planning.demand import Demand, Floats, Ints

# Objective -> the targets it takes; one of them is needed where there are any.
OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "throughput": (),
    "latency": (),
    "fewest_cores": ("throughput_per_s", "latency_s"),
}
# Of a target: wider than ELAPSED_MIN_S and ELAPSED_MAX_S with any visits and instances, and far from overflow.
TARGET_MIN, TARGET_MAX = 1e-30, 1e30
VISITS_MAX = 1e9  # visits of one record at one component: with ELAPSED_MAX_S far below the overflow of a double


BOOLEANS = (bool, np.bool_)


@dataclass(frozen=True, slots=True)
class Request:
    """What to plan for.

    Attributes
    ----------
    cores : int or None
        Whole cores to hand out, 1 to 2**20. None is allowed for ``fewest_cores`` only: as many as it takes.
    objective : str
        A key of `OBJECTIVES`: the highest ``throughput``, the lowest ``latency``, or the ``fewest_cores`` for a target.
    target : mapping, optional
        ``{"throughput_per_s": x}`` or ``{"latency_s": y}``, with ``fewest_cores`` only.
    visits : mapping, optional
        Key -> visits per record that enters the network; overrides what structure and shares give.
    shares : sequence of sequences, optional
        One list a choice, in text order: the share of each branch. They are normalised to the sum 1.
    minimum, maximum : mapping, optional
        Key -> cores of one instance, at least and at most; 1 and 2**20 by default.
    instances_max : int or mapping
        Instances of every component, or by key; 1 by default.
    load, level : optional
        Carried for whoever makes the curves; they mean nothing to the planner.

    Raises
    ------
    InvalidValue, TooLarge
        When a value is outside its domain, whatever the network.
    """

    cores: int | None = None
    objective: str = "throughput"
    target: Mapping[str, float] | None = None
    visits: Mapping[str, float] | None = None
    shares: Sequence[Sequence[float]] | None = None
    minimum: Mapping[str, int] | None = None
    maximum: Mapping[str, int] | None = None
    instances_max: int | Mapping[str, int] = 1
    load: Any = None
    level: float = 0.9

    def __post_init__(self) -> None:
        if self.objective not in tuple(OBJECTIVES):  # a tuple compares what cannot be hashed, too
            raise InvalidValue("objective", self.objective, f"one of {', '.join(OBJECTIVES)}")
        if self.cores is not None:
            object.__setattr__(self, "cores", whole("cores", self.cores, limits.ALLOCATE_CORES_MAX))
        elif self.objective != "fewest_cores":
            raise InvalidValue("cores", None, f"given: {self.objective} is planned for a number of cores")
        self._check_target()
        if not limits.LEVEL_MIN <= number("level", self.level) <= limits.LEVEL_MAX:
            raise InvalidValue("level", self.level, f"a number from {limits.LEVEL_MIN} to {limits.LEVEL_MAX}")

    def _check_target(self) -> None:
        targets = OBJECTIVES[self.objective]
        given: object = self.target
        if not targets:
            if given is not None:
                raise InvalidValue("target", given, f"absent for {self.objective}", "targets go with fewest_cores")
            return
        wanted = f"a map with one of {', '.join(targets)}"
        if not isinstance(given, Mapping) or len(cast("Mapping[Any, Any]", given)) != 1:
            raise InvalidValue("target", given, wanted)
        for name, value in cast("Mapping[Any, Any]", given).items():
            if name not in targets:
                raise InvalidValue("target", name, wanted)
            if not TARGET_MIN <= number(f"target.{name}", value) <= TARGET_MAX:
                raise InvalidValue(f"target.{name}", value, f"a number from {TARGET_MIN:g} to {TARGET_MAX:g}")


def whole(field: str, value: object, most: int) -> int:
    """Return a whole number from 1 to `most`, or raise InvalidValue or TooLarge."""
    bound = f"a whole number from 1 to {most}"
    try:
        # Both booleans have an index; neither is a number of cores.
        checked = None if isinstance(value, BOOLEANS) else operator.index(cast("Any", value))
    except TypeError:
        checked = None
    if checked is None:
        raise InvalidValue(field, cast("object", value), bound)
    if checked < 1:
        raise InvalidValue(field, checked, bound)
    if checked > most:
        raise TooLarge(field, checked, most)
    return checked


def number(field: str, value: object) -> float:
    """Return a finite number that is not negative, or raise InvalidValue."""
    bound = "a finite number, not negative"
    if isinstance(value, BOOLEANS) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidValue(field, cast("object", value), bound)
    try:
        checked = float(cast("float", value))
    except OverflowError:
        checked = math.inf
    if not math.isfinite(checked) or checked < 0:
        raise InvalidValue(field, checked, bound)
    return checked


def by_key(field: str, given: object, network: Network) -> dict[int, tuple[str, object]]:
    """Return position -> (field of the entry, value) of a mapping by key; an unknown key is refused by name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidValue(field, given, "a map by key of the network")
    position = {key: index for index, key in enumerate(network.keys)}
    found: dict[int, tuple[str, object]] = {}
    for key, value in cast("Mapping[Any, object]", given).items():
        if key not in position:
            some = ", ".join(network.keys[:8]) + (", …" if len(network.keys) > 8 else "")
            raise InvalidValue(field, key, f"a key of the network: {some}")
        found[position[key]] = (f"{field}.{key}", value)
    return found


def demand_of(network: Network, curves: AmdahlCurves, visits: Floats, request: Request) -> Demand:
    """Return the demand that a request makes on the curves, one curve a key. Cost O(n).

    Raises
    ------
    InvalidValue, TooLarge
        When limits name no key of the network, are no whole numbers, or exclude each other.
    """
    if len(curves) != len(network.keys):
        raise InvalidValue("curves", len(curves), f"one curve a key, {len(network.keys)}")
    low = _limits("minimum", request.minimum, network, 1)
    high = _limits("maximum", request.maximum, network, limits.ALLOCATE_CORES_MAX)
    if (low > high).any():
        row = int(np.argmax(low > high))
        raise InvalidValue(f"minimum.{network.keys[row]}", int(low[row]), f"at most its maximum, {high[row]}")
    instances = request.instances_max
    if isinstance(instances, Mapping):
        instances_max = _limits("instances_max", instances, network, 1, limits.INSTANCES_MAX)
    else:
        instances_max = np.full(len(network.keys), whole("instances_max", instances, limits.INSTANCES_MAX), np.int64)
    return Demand(visits * curves.serial_s, visits * curves.parallel_s, low, high, instances_max)


def _limits(field: str, given: object, network: Network, default: int, most: int = limits.ALLOCATE_CORES_MAX) -> Ints:
    values = np.full(len(network.keys), default, np.int64)
    for row, (name, value) in by_key(field, given, network).items():
        values[row] = whole(name, value, most)
    return values
