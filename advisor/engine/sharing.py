"""Several networks that share one machine: what is asked about each, and the allocation of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from advisor.domain import limits
from advisor.domain.fields import shape_of, unknown_key
from advisor.domain.names import checked_name
from advisor.domain.networks import Network
from advisor.domain.plan_options import OF_MACHINE, OF_NETWORK, OF_SHARE, TogetherWord, checked_options
from advisor.domain.shapes import plain
from advisor.domain.sharing import Together
from advisor.engine.curve_tables import CurveTables
from advisor.engine.flows import Flows, NetworkId, filled, name_of
from advisor.engine.guards import checked_cores, checked_level
from advisor.errors import InvalidValue, TooLarge
from advisor.models.prediction import LEVEL
from advisor.planning import Request, Share, plan_together
from advisor.planning.shares import about

KEYS = ("network", *OF_SHARE, *OF_NETWORK)


@dataclass(frozen=True, slots=True)
class NetworkAsked:
    """What is asked about one of several networks."""

    name: str
    network: Any  # as `Advisor.allocate` takes it
    options: Mapping[str, Any]  # of `OF_NETWORK`, with what was learned of the flow of a network that is kept by id
    # components, load: as `Advisor.allocate` takes them
    components: Mapping[str, str]
    load: Mapping[str, float]
    weight: float  # unchecked, as `Share` takes it

    def share(self, network: Any, curves: Any, of_all: Mapping[str, Any]) -> Share:
        """Return what the planner takes: with the network as it was read, its curves, and what is of the machine."""
        return Share(network, curves, Request(**self.options, **of_all), self.weight, name=self.name)


def asked_of(flows: Flows, networks: object) -> list[NetworkAsked]:
    """Return what is asked about each network, by a list of maps with some of `KEYS`.

    Raises InvalidValue, TooLarge, UnknownKey, UnknownNetwork: `field` begins with ``networks[i]``.
    """
    if not isinstance(networks, (list, tuple)) or not networks:
        raise InvalidValue("networks", cast("object", networks), "a list of at least one map with a network")
    given = cast("Sequence[Any]", networks)
    if len(given) > limits.NETWORKS_TOGETHER_MAX:
        raise TooLarge("networks", len(given), limits.NETWORKS_TOGETHER_MAX)
    found: list[NetworkAsked] = []
    for place, one in enumerate(given):
        name = _name(flows, place, one)
        with about(place, name):
            found.append(_asked(flows, name, one))
    return found


def _name(flows: Flows, place: int, given: Any) -> str:
    """Return what a network is called: as it is given, else by the id that it is kept by, else by its place."""
    if not isinstance(given, Mapping) or given.get("network") is None:
        raise InvalidValue(
            f"networks[{place}]", cast("object", given), "a map with a network", "S-Net text, nodes or an id"
        )
    one, number = cast("Mapping[str, Any]", given), str(place + 1)
    with about(place, number):
        if one.get("name") is not None:
            return checked_name("name", one["name"])
        return name_of(one["network"]) if flows.keeps(one["network"]) else number


def _asked(flows: Flows, name: str, given: Mapping[Any, Any]) -> NetworkAsked:
    for key in given:
        if key not in KEYS:
            raise unknown_key("a network among several", key, KEYS, str(key)[:40])
    there = {key: value for key, value in given.items() if value is not None}
    options = checked_options({key: there[key] for key in OF_NETWORK if key in there})
    maps: dict[str, Mapping[str, Any]] = {key: options.pop(key, {}) for key in ("components", "load")}
    if flows.keeps(given["network"]):
        options = filled(options, flows.flow(cast("NetworkId", given["network"])))
    options = {key: value for key, value in options.items() if value is not None}
    weight: Any = shape_of(OF_SHARE["weight"]).check_value("weight", plain(there.get("weight", 1.0)))
    return NetworkAsked(name, given["network"], options, **maps, weight=weight)


def of_machine(cores: int, objective: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the request of every network has alike; raises InvalidValue, UnknownKey."""
    for key in options:
        if key not in OF_MACHINE:
            raise unknown_key("a question about several networks", key, OF_MACHINE, key[:40])
    shape_of(TogetherWord).check_value("objective", objective)
    return checked_options({"cores": checked_cores("cores", cores), "objective": objective, **options})


def allocate_together(
    flows: Flows, read: Callable[[Any], Network], tables: CurveTables, networks: object, cores: int, objective: str,
    options: Mapping[str, Any],
) -> Together:  # fmt: skip
    """Return the allocation of one machine to several networks, see `Advisor.allocate_together`; `read` gives a network."""
    of_all = of_machine(cores, objective, options)
    level = checked_level(of_all.get("level", LEVEL))
    shares: list[Share] = []
    for place, asked in enumerate(asked_of(flows, networks)):
        with about(place, asked.name):
            network = read(asked.network)
            curves = tables.curves(network.components, asked.components, asked.load, cores_max=cores, level=level)
            shares.append(asked.share(network, curves, of_all))
    return plan_together(shares, cores, objective)
