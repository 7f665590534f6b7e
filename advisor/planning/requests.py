"""What a caller asks of a plan, and its validation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.allowed_cores import KEYS as FORM_KEYS
from advisor.domain.allowed_cores import AllowedCores, parse_allowed
from advisor.domain.networks import Network
from advisor.domain.plan_options import PlanOptions, checked_options
from advisor.domain.rows import is_number, is_whole, whole
from advisor.errors import InvalidValue

Value = TypeVar("Value")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PERIOD, LATENCY, CORES, COST = "period", "latency", "cores", "cost"  # what an objective minimises
RATE, LATE = "throughput_per_s", "latency_s"  # what a target names


class Objective(NamedTuple):
    """What an objective minimises, the targets that it takes, a figure of it in words, and what it seeks.

    With `fewest` cores are sought for a target: the first allocation on a way of rising cores that reaches it is best. With
    `front` the answer holds all allocations that are best in some respect.
    """

    measure: str
    targets: tuple[str, ...]
    figure: str
    by_rate: bool = False
    by_latency: bool = False
    fewest: bool = False
    front: bool = False

    @property
    def searched(self) -> bool:
        """Whether only the search plans for it: closed forms know one throughput, one latency, or the fewest cores."""
        return self.front or not (self.by_rate or self.by_latency or self.fewest)


REACH = "it would reach {} records/s"
OBJECTIVES: Mapping[str, Objective] = {
    "throughput": Objective(PERIOD, (), REACH, by_rate=True),
    "latency": Objective(LATENCY, (RATE,), "a record would take {} s", by_latency=True),
    "fewest_cores": Objective(CORES, (RATE, LATE), "it would take {} cores", fewest=True),
    "pareto": Objective(PERIOD, (), REACH, by_rate=True, front=True),
    "cost": Objective(COST, (), "it would cost {} per second"),
}
MEASURES: Mapping[str, str] = {RATE: PERIOD, LATE: LATENCY}  # what a target names -> the figure that reaches it
# What a target names -> the objective without a target whose best says what is possible.
BARE: Mapping[str, str] = {RATE: "throughput", LATE: "latency"}
# Of the objective `cost`, per unit: of a core for a second, of a record's second in the network; a record's worth.
WEIGHTS = ("core_s", "latency_s", "record")
# Of a target: wider than ELAPSED_MIN_S and ELAPSED_MAX_S with any visits and instances, and far from overflow.
TARGET_MIN, TARGET_MAX = 1e-30, 1e30
VISITS_MAX = 1e9  # visits of one record at one component: with ELAPSED_MAX_S far below the overflow of a double


WEIGHT_MAX = 1e12  # of a cost: with rates below 1e9/s and 2**20 cores far below the overflow of a double
SCALE_MIN, SCALE_MAX = 1e-6, 1e6  # of a what-if: a component a million times faster or slower is another one
ARRIVAL_VARIATION_MAX = 1e4  # squared coefficient of variation between arrivals: burstier is no stationary stream
QUANTILE_MAX = 0.9999  # of the latency: beyond, the tail of a fit by two moments tells nothing
# What is a number, from what to what.
WITHIN: Mapping[str, tuple[float, float]] = {
    "quantile": (limits.LEVEL_MIN, QUANTILE_MAX),
    "memory_bytes": (1.0, limits.MEASURES["peak_bytes"][1] * limits.CORES_MAX),
    "arrival_per_s": (TARGET_MIN, TARGET_MAX), "arrival_variation": (0.0, ARRIVAL_VARIATION_MAX),
}  # fmt: skip
# Whether components may take turns on shared cores: not at all, where there are fewer cores than components, or wherever
# that does better than a core of one's own for each.
NEVER, SCARCE = "never", "scarce"


@dataclass(frozen=True, kw_only=True)
class Request(PlanOptions):
    """What to plan for: options that are typed; raises InvalidValue when values exclude each other, whatever the network.

    `cores` are whole cores to hand out; None is allowed where they are what is sought: as many as it takes.
    """

    cores: int | None = None

    def __post_init__(self) -> None:
        if self.cores is None and not self.aim.fewest:
            raise InvalidValue("cores", None, f"given: {self.objective} is planned for a number of cores")
        self._check_target()
        for name, bounds in WITHIN.items():
            if getattr(self, name) is not None:
                within(name, getattr(self, name), *bounds)
        self._check_weights()

    def _check_weights(self) -> None:
        given = self.weights
        if self.aim.measure != COST:
            if given is not None:
                raise InvalidValue("weights", given, f"absent for {self.objective}", "weights go with a cost")
            return
        if not given or not given.keys() <= set(WEIGHTS):
            raise InvalidValue("weights", given, f"a map with some of {', '.join(WEIGHTS)}")
        for name, value in given.items():
            within(f"weights.{name}", value, 0.0, WEIGHT_MAX)

    @property
    def aim(self) -> Objective:
        """What is sought."""
        return OBJECTIVES[self.objective]

    @property
    def gap_variation(self) -> float:
        """Squared coefficient of variation of the time between arrivals: of a Poisson stream, where none is given."""
        return 1.0 if self.arrival_variation is None else self.arrival_variation

    @property
    def for_latency(self) -> bool:
        """Whether latency is what is planned for."""
        return self.aim.by_latency or LATE in (self.target or {})

    @property
    def promises(self) -> bool:
        """Whether the answer promises a throughput."""
        return RATE in (self.target or {}) if self.aim.fewest else self.aim.by_rate and not self.aim.front

    def may_have_instances(self, key: str) -> bool:
        """Return whether a key may have a second instance."""
        pin: object = (self.pinned or {}).get(key)
        if isinstance(pin, Mapping) and "instances" in pin:
            return cast("Mapping[str, object]", pin)["instances"] != 1
        most = self.instances_max
        return most.get(key, 1) != 1 if isinstance(most, Mapping) else most != 1

    def _check_target(self) -> None:
        targets, needed = self.aim.targets, self.aim.fewest
        given = self.target
        if given is None and not needed:
            return
        if not targets:
            raise InvalidValue("target", given, f"absent for {self.objective}", "ask for the fewest cores")
        if given is None or len(given) != 1 or not given.keys() <= set(targets):
            raise InvalidValue("target", given, f"a map with one of {', '.join(targets)}")
        for name, value in given.items():
            if not TARGET_MIN <= finite_number(f"target.{name}", value) <= TARGET_MAX:
                raise InvalidValue(f"target.{name}", value, f"a number from {TARGET_MIN:g} to {TARGET_MAX:g}")


def request_of(options: Mapping[str, Any]) -> Request:
    """Return the request of options by name. Raises UnknownKey for a name that no request has, InvalidValue, TooLarge."""
    return Request(**checked_options(options))


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


def scales_of(network: Network, request: Request) -> Floats:
    """Return the factor on each component's time, shape (n,)."""
    scales = np.ones(len(network.keys))
    for row, (name, value) in by_key("scale", request.scale, network).items():
        scales[row] = within(name, value, SCALE_MIN, SCALE_MAX)
    return scales


def limits_of(network: Network, request: Request) -> tuple[Ints, Ints, Ints]:
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


def pins_of(network: Network, request: Request) -> dict[int, tuple[int | None, int | None]]:
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


def allowed_of(network: Network, request: Request) -> dict[int, AllowedCores]:
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


def is_allowed(allowed: AllowedCores, counts: Ints) -> NDArray[np.bool_]:
    """Return which counts, all from `allowed.least` to `allowed.most`, are members."""
    members = allowed.few_members
    return np.isin(counts, members) if members else counts % allowed.multiple_of == 0
