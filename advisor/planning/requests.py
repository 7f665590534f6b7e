"""What a caller asks of a plan, and its validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.allowed_cores import KEYS as FORM_KEYS
from advisor.domain.allowed_cores import AllowedCores, AllowedForm, parse_allowed
from advisor.domain.networks import Network
from advisor.domain.rows import is_number, is_whole
from advisor.domain.rows import whole as checked_whole
from advisor.errors import InvalidValue, TooLarge, UnknownKey, nearest, not_one_of

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
WORK_MAX = 10**9  # steps of a search: hours
# What is whole, from 1 to how much; and what is a number, from what to what.
WHOLE: Mapping[str, int] = {
    "cores": limits.ALLOCATE_CORES_MAX, "nodes": limits.ALLOCATE_CORES_MAX, "work_max": WORK_MAX,
}  # fmt: skip
WITHIN: Mapping[str, tuple[float, float]] = {
    "level": (limits.LEVEL_MIN, limits.LEVEL_MAX), "quantile": (limits.LEVEL_MIN, QUANTILE_MAX),
    "memory_bytes": (1.0, limits.MEASURES["peak_bytes"][1] * limits.CORES_MAX),
    "arrival_per_s": (TARGET_MIN, TARGET_MAX), "arrival_variation": (0.0, ARRIVAL_VARIATION_MAX),
}  # fmt: skip
# Whether components may take turns on shared cores: not at all, where there are fewer cores than components, or wherever
# that does better than a core of one's own for each.
NEVER, SCARCE, BETTER = "never", "scarce", "better"
TURNS = (NEVER, SCARCE, BETTER)


@dataclass(frozen=True, slots=True)
class Request:
    """What to plan for; raises InvalidValue, TooLarge when a value is outside its domain, whatever the network."""

    # whole cores to hand out, 1 to 2**20. None is allowed where the cores are what is sought: as many as it takes.
    cores: int | None = None
    objective: str = "throughput"  # a key of `OBJECTIVES`
    # `{"throughput_per_s": x}` or `{"latency_s": y}` where the fewest cores are sought; with the lowest latency the
    # throughput that must remain: a lone record's is often lowest where all take turns, and few records a second then
    # get through
    target: Mapping[str, float] | None = None
    # key -> visits per record that enters the network; overrides what structure and shares give
    visits: Mapping[str, float] | None = None
    # one list a choice, in text order: the share of each branch. They are normalised to the sum 1.
    shares: Sequence[Sequence[float]] | None = None
    # minimum, maximum: key -> cores of one instance, at least and at most; 1 and 2**20 by default
    minimum: Mapping[str, int] | None = None
    maximum: Mapping[str, int] | None = None
    instances_max: int | Mapping[str, int] = 1  # instances of every component, or by key; 1 by default
    # plan for the upper bound of each curve, which its maker chose at this level (0.5: for the expectation); absent: a
    # throughput is what each component keeps up with a probability of 0.975, whether it is sought or a target; all else
    # is expected
    level: float | None = None
    # one entry a replication, in text order: the mean number of replicas that a record passes, or the shares of records
    # that pass 0, 1, 2, … (normalised to the sum 1)
    depths: Sequence[float | Sequence[float] | None] | None = None
    # one entry a split: the number of its replicas, or their shares of the records. Needed only where a box inside may
    # have several instances: records of one replica all go to one instance.
    fan_outs: Sequence[int | Sequence[float] | None] | None = None
    # one entry a feedback: the probability that a record which leaves returns, below 1
    returns: Sequence[float | None] | None = None
    # counts that one instance may have, for all or by key: a list, `{min, max, multiple_of}` or `{min, max, power_of}`. What
    # a component itself allows (`TabulatedCurves.allowed`) holds besides
    allowed: AllowedForm | Mapping[str, AllowedForm] | None = None
    # key -> cores, or `{"cores": p, "instances": n}`: decided already
    pinned: Mapping[str, int | Mapping[str, int]] | None = None
    # cores of one node of the machine: an instance does not straddle nodes. The last node has what is left of `cores`.
    nodes: int | None = None
    # memory of a node, or of the machine where no `nodes` are given; instances need their curve's `peak_bytes`
    memory_bytes: float | None = None
    # records that enter per second: latencies then include queueing, and the throughput is judged against it
    arrival_per_s: float | None = None
    # squared coefficient of variation of the time between arrivals: 1 for a Poisson stream
    arrival_variation: float = 1.0
    # of the latency, e.g. 0.95: what `latency` then minimises and a `latency_s` target bounds, for the mean.
    quantile: float | None = None
    # for `cost`: any of `core_s`, `latency_s` (of one record), and the worth of a `record`, per unit
    weights: Mapping[str, float] | None = None
    scale: Mapping[str, float] | None = None  # what if: key -> factor on its time; 0.5 is a component twice as fast
    # steps that the search may take: the best so far is then answered with its gap to the bound
    work_max: int | None = None
    # whether components may take turns on shared cores: `better`, wherever that does better than cores of one's own, so
    # that more cores are never worse; `scarce`, only where there are fewer cores than components; `never`
    turns: str = "better"
    # an allocation in use, as an answer or key -> cores or `{"cores": p, "instances": n}`: it is answered, by the curves of
    # the moment, unless the new one gains `stability.GAIN_KEPT` or it breaks the request
    current: Any = None

    def __post_init__(self) -> None:
        if self.objective not in tuple(OBJECTIVES):  # a tuple compares what cannot be hashed, too
            raise not_one_of("objective", self.objective, OBJECTIVES)
        if self.turns not in TURNS:
            raise not_one_of("turns", self.turns, TURNS)
        for name, most in WHOLE.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name), most))
        if self.cores is None and not self.aim.fewest:
            raise InvalidValue("cores", None, f"given: {self.objective} is planned for a number of cores")
        self._check_target()
        for name, bounds in WITHIN.items():
            if getattr(self, name) is not None:
                within(name, getattr(self, name), *bounds)
        self._check_weights()

    def _check_weights(self) -> None:
        given: object = self.weights
        if self.aim.measure != COST:
            if given is not None:
                raise InvalidValue("weights", given, f"absent for {self.objective}", "weights go with a cost")
            return
        if not isinstance(given, Mapping) or not given:
            raise InvalidValue("weights", given, f"a map with some of {', '.join(WEIGHTS)}")
        for name, value in cast("Mapping[Any, Any]", given).items():
            if name not in WEIGHTS:
                raise InvalidValue("weights", name, f"a map with some of {', '.join(WEIGHTS)}")
            within(f"weights.{name}", value, 0.0, WEIGHT_MAX)

    @property
    def aim(self) -> Objective:
        """What is sought."""
        return OBJECTIVES[self.objective]

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
        pin = self.pinned.get(key) if isinstance(self.pinned, Mapping) else None
        if isinstance(pin, Mapping) and "instances" in pin:
            return pin["instances"] != 1
        most = self.instances_max
        return most.get(key, 1) != 1 if isinstance(most, Mapping) else most != 1

    def _check_target(self) -> None:
        targets, needed = self.aim.targets, self.aim.fewest
        given: object = self.target
        if given is None and not needed:
            return
        if not targets:
            raise InvalidValue("target", given, f"absent for {self.objective}", "ask for the fewest cores")
        wanted = f"a map with one of {', '.join(targets)}"
        if not isinstance(given, Mapping) or len(cast("Mapping[Any, Any]", given)) != 1:
            raise InvalidValue("target", given, wanted)
        for name, value in cast("Mapping[Any, Any]", given).items():
            if name not in targets:
                raise InvalidValue("target", name, wanted)
            if not TARGET_MIN <= finite_number(f"target.{name}", value) <= TARGET_MAX:
                raise InvalidValue(f"target.{name}", value, f"a number from {TARGET_MIN:g} to {TARGET_MAX:g}")


def request_of(options: Mapping[str, Any]) -> Request:
    """Return the request of options by name.

    Raises UnknownKey for a name that no request has, with the nearest; InvalidValue, TooLarge.
    """
    known = tuple(each.name for each in fields(Request))
    for name in options:
        if name not in known:
            raise UnknownKey(
                f"allocate has no option {name[:40]!r}", field=name, value=options[name], bound=", ".join(known),
                hint=nearest(name, known),
            )  # fmt: skip
    return Request(**options)


def whole(field: str, value: object, most: int) -> int:
    """Return a whole number from 1 to `most`, or raise InvalidValue or TooLarge."""
    if is_whole(value) and cast("int", value) > most:
        raise TooLarge(field, int(cast("int", value)), most)
    return checked_whole(field, value, 1, most)


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
    return low, high, instances_max


def pins_of(network: Network, request: Request) -> dict[int, tuple[int | None, int | None]]:
    """Return row -> (cores, instances) of the pinned components; None where one of them is left open."""
    found: dict[int, tuple[int | None, int | None]] = {}
    for row, (name, value) in by_key("pinned", request.pinned, network).items():
        if not isinstance(value, Mapping):
            found[row] = whole(name, value, limits.ALLOCATE_CORES_MAX), None
            continue
        given = cast("Mapping[Any, object]", value)
        for part in given:
            if part not in ("cores", "instances"):
                raise InvalidValue(name, part, "a map with cores, instances or both")
        cores, instances = given.get("cores"), given.get("instances")
        found[row] = (
            None if cores is None else whole(f"{name}.cores", cores, limits.ALLOCATE_CORES_MAX),
            None if instances is None else whole(f"{name}.instances", instances, limits.INSTANCES_MAX),
        )
    return found


def allowed_of(network: Network, request: Request) -> dict[int, AllowedCores]:
    """Return row -> the counts that a request allows it. A map is by key unless all its keys are those of one set."""
    given: object = request.allowed
    if given is None or (isinstance(given, Mapping) and not _is_one_set(cast("Mapping[Any, object]", given))):
        sets = by_key("allowed", cast("object", given), network)
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


def _limits(field: str, given: object, network: Network, default: int, most: int = limits.ALLOCATE_CORES_MAX) -> Ints:
    values = np.full(len(network.keys), default, np.int64)
    for row, (name, value) in by_key(field, given, network).items():
        values[row] = whole(name, value, most)
    return values
