"""`advisor allocate A.snet B.snet`: which options are of the machine, and which of which network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.errors import InvalidValue, TooLarge
from advisor.protocol.verbs import Allocate, AllocateTogether

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.cli.known_networks import NamedNetwork
    from advisor.client import SyncClient
    from advisor.domain.networks import Network

COST_WEIGHTS = ("core_s", "latency_s", "record")  # of all networks together
# Options NETWORK=N, one number a network.
RANKED = ("weight", "priority", "arrival_per_s", "throughput_per_s", "latency_s")
MACHINE = tuple(key for key in AllocateTogether.verb.keys if key in Allocate.verb.keys and key != "cores")
# Options NAME=N by key or by box name of a network -> where the names are.
NAMED = {
    "visits": "keys", "minimum": "keys", "maximum": "keys", "pin": "keys", "speed": "keys",
    "load": "components", "component": "components",
}  # fmt: skip
# Options with one value a node, in text order -> which nodes.
LISTED = {"shares": "choices", "depths": "replications", "fan_outs": "splits", "returns": "feedbacks"}


def names_of(networks: Sequence[NamedNetwork]) -> list[str]:
    """Return what each network is called: its id, or its file without folder and ending; raises InvalidValue, TooLarge."""
    from advisor.domain.limits import NETWORKS_TOGETHER_MAX

    if len(networks) > NETWORKS_TOGETHER_MAX:
        raise TooLarge("networks", len(networks), NETWORKS_TOGETHER_MAX)
    names = [network.name for network in networks]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValue("network", name, "the name of one file only", "networks are called as their files")
    return names


def spread(
    networks: Sequence[NamedNetwork], names: Sequence[str], given: Mapping[str, Any], asker: Advisor | SyncClient
) -> list[dict[str, Any]]:
    """Return the options of each network alone, as if it were asked about alone; its name, weight and priority too.

    Options by box go to every network with such a box, or as NETWORK:BOX=N to one. Options with a value a node are taken in
    the order of the files. Raises InvalidValue when an option names nothing of any network, or there are too few or too many
    of one with a value a node; NetworkSyntax.
    """
    costs = [pair for pair in given["weight"] if pair[0] in COST_WEIGHTS and given["objective"] == "cost"]
    found: list[dict[str, Any]] = [
        {**given, "name": name, **dict.fromkeys(RANKED, ()), "costs": costs} for name in names
    ]
    for option in RANKED:
        _to_networks(option, found, [pair for pair in given[option] if option != "weight" or pair not in costs])
    if any(given[option] for option in (*NAMED, *LISTED)):
        read = _read(networks, names, asker)
        for option, named in NAMED.items():
            _to_boxes(option, found, given[option], [getattr(network, named) for network in read])
        for option, nodes in LISTED.items():
            _in_order(option, found, given[option], [len(getattr(network, nodes)) for network in read])
    return found


def _read(networks: Sequence[NamedNetwork], names: Sequence[str], asker: Advisor | SyncClient) -> list[Network]:
    from advisor.planning.shares import about

    read: list[Network] = []
    for place, (network, name) in enumerate(zip(networks, names, strict=True)):
        with about(place, name):
            read.append(network.structure(asker))
    return read


def _to_networks(option: str, found: Sequence[dict[str, Any]], pairs: Sequence[tuple[str, list[Any]]]) -> None:
    shown = option.removesuffix("_s").removesuffix("_per")
    for name, numbers in pairs:
        there = [one for one in found if one["name"] == name]
        if not there or len(numbers) != 1:
            value = f"{name}={','.join(map(str, numbers))}".removeprefix("=")
            names = ", ".join(str(one["name"]) for one in found)
            raise InvalidValue(shown, value, f"NETWORK=N, the network one of {names}", "of several networks")
        there[0][option] = [("", numbers)]


def _to_boxes(
    option: str, found: Sequence[dict[str, Any]], pairs: Sequence[tuple[str, Any]], boxes: Sequence[Sequence[str]]
) -> None:
    for one in found:
        one[option] = []
    for name, value in pairs:
        network, sign, box = name.partition(":")
        places = [place for place, one in enumerate(found) if sign and one["name"] == network and box in boxes[place]]
        if not places:
            box, places = name, [place for place in range(len(found)) if name in boxes[place]]
        if not places:
            raise InvalidValue(option, name, "a box of one of the networks", "as BOX=N, or as NETWORK:BOX=N for one")
        for place in places:
            found[place][option].append((box, value))


def _in_order(option: str, found: Sequence[dict[str, Any]], values: Sequence[Any], counts: Sequence[int]) -> None:
    if values and len(values) != sum(counts):
        each = ", ".join(f"{one['name']} has {count}" for one, count in zip(found, counts, strict=True))
        raise InvalidValue(option.replace("_", "-"), len(values), f"{sum(counts)}: {each}", "in the order of the files")
    start = 0
    for one, count in zip(found, counts, strict=True):
        one[option] = list(values[start : start + count])
        start += count
