"""A request about a network, read and checked: what is missing are the curves, which change with every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, cast

import numpy as np

from advisor.domain import limits
from advisor.domain.allocations import Allocation
from advisor.domain.allowed_cores import AllowedCores, intersect_allowed
from advisor.domain.curves import PROMISED, TabulatedCurves
from advisor.domain.fields import record, shape_of
from advisor.domain.networks import Network
from advisor.domain.plan_options import Count, Instances
from advisor.domain.shapes import plain
from advisor.errors import InvalidValue
from advisor.planning.placing import MachineNodes, machine_of
from advisor.planning.requests import Floats, Ints, Request, allowed_of, limits_of, pin_of, pins_of, scales_of
from advisor.planning.structure import Structure, structure_of
from advisor.planning.visits import Visits, visits_of

LEVEL = 0.9  # at which the curves' upper bounds are made where nobody asks for another
IN_USE_PARTS = ("cores", "instances", "groups")  # of an answer
IN_USE = shape_of(record(
    cores=Mapping[str, Count], instances=Mapping[str, Instances], groups=list[record(cores=Count, components=list[str])],
))  # fmt: skip
PRICE = NormalDist().inv_cdf(PROMISED) / NormalDist().inv_cdf(LEVEL)  # of `PROMISED`, in units of the curves' bounds


@dataclass(frozen=True, slots=True)
class Setting:
    """What a runtime gives its components, each key: cores of an instance, and instances.

    `groups` are the cores of each group and the keys that take turns on them; empty where each has its own.
    """

    cores: Mapping[str, int]
    instances: Mapping[str, int]
    groups: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @classmethod
    def setting_of(cls, allocation: Allocation) -> Setting:
        """Return the setting of a runtime that follows the advice."""
        return cls(allocation.cores, allocation.instances, allocation.groups)

    @classmethod
    def given(cls, field: str, value: Any, keys: Sequence[str]) -> Setting:
        """Return the setting that a caller names: an answer, or key -> cores or ``{"cores": p, "instances": k}``.

        Raises InvalidValue when a key is missing or unknown, or its value is none of these.
        """
        given: Any = plain(value)
        if not isinstance(given, dict):
            raise InvalidValue(field, value, "an answer, or a map by key of the network")
        parts, groups = cast("dict[str, Any]", given), ()
        if "cores" in parts and not parts.keys() <= set(keys):
            answer = IN_USE.check_value(field, {name: parts[name] for name in IN_USE_PARTS if parts.get(name)})
            groups = tuple((part["cores"], tuple(part["components"])) for part in answer.get("groups", ()))
            many = answer.get("instances", {})
            parts = {key: {"cores": p, "instances": many.get(key, 1)} for key, p in answer["cores"].items()}
        unknown = next((key for key in parts if key not in set(keys)), None)
        if unknown is not None:
            raise InvalidValue(field, unknown, f"a key of the network: {', '.join(keys[:8])}")
        missing = next((key for key in keys if key not in parts), None)
        if missing is not None:
            raise InvalidValue(field, missing, "every key of the network", "leave it out where nothing is in use")
        if groups and sorted(key for _, some in groups for key in some) != sorted(keys):
            raise InvalidValue(f"{field}.groups", groups, "maps of cores and components, each key in one")
        pins = {key: pin_of(f"{field}.{key}", as_map(parts[key])) for key in keys}
        without = next((key for key, (cores, _) in pins.items() if cores is None), None)
        if without is not None:
            raise InvalidValue(
                f"{field}.{without}", parts[without], "a number of cores, or a map of cores and instances"
            )
        return cls({key: cores or 1 for key, (cores, _) in pins.items()}, {key: many or 1 for key, (_, many) in pins.items()},
                   groups)  # fmt: skip


def as_map(value: Any) -> Any:
    """Return what a key has as a map: a number is one of cores."""
    return cast("Any", value) if isinstance(value, dict) else {"cores": value}


@dataclass(eq=False)
class Asked:
    """What a request asks of a network and of each of its components, whatever the curves.

    `pins` has row -> (cores, instances), None where one of them is open; others are as in `Demand`.
    """

    request: Request
    keys: tuple[str, ...]
    visits: Visits
    structure: Structure
    machine: MachineNodes
    low: Ints
    high: Ints
    fewest: Ints
    most: Ints
    scale: Floats | None
    pins: Mapping[int, tuple[int | None, int | None]]
    rules: Mapping[int, AllowedCores]
    replicas: Mapping[int, Sequence[float]]
    current: Setting | None = None  # what the runtime has now
    # the last demand by its price: of other times at the same counts only these are put in
    last: dict[float, Any] = field(init=False, default_factory=dict[float, Any], repr=False)
    # where to plan, in units of the curves' bounds: a throughput is promised at `PROMISED`, all else expected. One price for
    # the highest throughput and for the fewest cores for one: the latter are the least on which the former reaches it
    price: float = field(init=False)
    by_rate: bool = field(init=False)  # nothing but contention couples components to each other

    def __post_init__(self) -> None:
        """Note what decides how it is planned."""
        request = self.request
        self.price = PRICE if request.promises and request.level is None else 0.0
        coupled = (request.nodes, request.memory_bytes, request.arrival_per_s, request.weights) != (None,) * 4
        self.by_rate = not (coupled or request.aim.searched or request.for_latency)


def asked_of(network: Network, request: Request) -> Asked:
    """Return what a request asks of a network. Cost O(n).

    Raises InvalidValue, TooLarge, MissingShares when the request does not fit the network, or limits exclude each other.
    """
    visits = visits_of(network, request)
    machine = machine_of(request.cores or limits.ALLOCATE_CORES_MAX, request.nodes, request.memory_bytes)
    low, high, most = limits_of(network, request)
    fewest, pins = np.ones(len(low), np.int64), pins_of(network, request)
    for row, (_, instances) in pins.items():
        if instances is not None:
            fewest[row] = most[row] = instances
    replicas = {row: some for row, some in visits.replicas.items() if most[row] > 1}
    for row, shares in replicas.items():
        most[row] = max(min(int(most[row]), len(shares)), int(fewest[row]))
    scale = scales_of(network, request)[:, None] if request.scale else None
    return Asked(request, network.keys, visits, structure_of(network, visits), machine, low, high, fewest, most, scale,
                 pins, allowed_of(network, request), replicas,
                 None if request.current is None else Setting.given("current", request.current, network.keys))  # fmt: skip


def rules_of(asked: Asked, curves: TabulatedCurves) -> dict[int, AllowedCores]:
    """Return row -> the counts that the request and the component itself allow; raises InvalidValue where these are none."""
    rules = dict(asked.rules)
    for row, mine in enumerate(curves.allowed or ()):
        if mine is not None:
            field, whose = f"allowed.{asked.keys[row]}", f"component {asked.keys[row]!r}"
            rules[row] = mine if row not in rules else intersect_allowed(field, rules[row], mine, whose)
    return rules
