"""How often a record that enters the network visits each component, from structure and routing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import floor
from typing import Any, cast

import numpy as np

from advisor.domain import elementary
from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SPLIT, Network
from advisor.domain.plan_options import PlanOptions
from advisor.domain.vectors import Floats
from advisor.errors import InvalidValue, MissingShares
from advisor.planning.by_key import VISITS_MAX, by_key, finite_number, within

UNKNOWN = -1.0  # visits below a node whose numbers nobody gave
REPLICAS_RETAINED = 4096  # of the product of nested splits: the lightest beyond are put together evenly


@dataclass(frozen=True, slots=True)
class Visits:
    """How records visit the parts of a network."""

    per_record: Floats  # (n,): v_c: visits at each key per record that enters the network
    # (nodes,): records that enter each node per record that enters the network, by structure; UNKNOWN where that is open
    entries: Floats
    routing: Routing  # the numbers used; shares of choices that only visits tell are derived from them
    # key's row -> shares of the replicas of the splits around it, heaviest first, where there are any
    replicas: Mapping[int, Sequence[float]]


def visits_of(network: Network, request: PlanOptions) -> Visits:
    """Return the visits per record that enters the network.

    A series passes each record to all its parts, a choice to one of them by its shares, a join to every one, a replication to
    as many replicas as its mean depth, a feedback with return probability r 1/(1-r) times to its part, a split to one
    replica: all replicas of a box share its cores. Filters and synchrocells cost nothing. A box without input runs once, not
    once a record: 0. `visits` of the request override what structure gives, and need no numbers above the key.
    Cost O(nodes). Raises MissingShares when numbers of a choice, replication, feedback or split are needed and nobody gave
    them: node, place and fix; InvalidValue when numbers do not fit the network, visits name no key, are no numbers, or are
    all 0.
    """
    routing = routing_of(network, request)
    entries = _entries(network, routing)
    visits = entries[list(network.boxes)]
    visits[list(network.once)] = 0.0
    for row, value in routing.visits.items():
        visits[row] = value
    if (visits < 0).any():
        row = int(np.argmax(visits < 0))
        raise missing(network, routing, _unknown_above(network, routing, row), network.keys[row])
    if not visits.any():
        raise InvalidValue("visits", 0, "positive for at least one component")
    if (entries < 0).any():
        routing = _derived(network, routing, visits)
        entries = _entries(network, routing)
    return Visits(visits, entries, routing, _replicas(network, routing, request))


def _entries(network: Network, routing: Routing) -> Floats:
    """Return the entries of each node from the root down; UNKNOWN below a node whose numbers are open."""
    entries = [1.0] * len(network.nodes)
    for index in range(len(network.nodes) - 1, -1, -1):  # parents stand after their children
        node, here = network.nodes[index], entries[index]
        if node.kind == CHOICE and here != 0:
            parts = routing.shares.get(index)
            for branch, child in enumerate(node.children):
                entries[child] = UNKNOWN if parts is None or here < 0 else here * parts[branch]
            continue
        times = _times(node.kind, index, routing) if here != 0 else 1.0
        for child in node.children:
            entries[child] = UNKNOWN if times is None or here < 0 else here * times
    return np.array(entries)


def _times(kind: str, index: int, routing: Routing) -> float | None:
    """Return how often a record that enters the node passes its part; None where that is open."""
    if kind == REPLICATION:
        depths = routing.depths.get(index)
        return None if depths is None else mean_depth(depths)
    if kind == FEEDBACK:
        back = routing.returns.get(index)
        return None if back is None else 1 / (1 - back)
    return 1.0


def _parents(network: Network) -> dict[int, int]:
    return {child: index for index, node in enumerate(network.nodes) for child in node.children}


def _unknown_above(network: Network, routing: Routing, row: int) -> int:
    """Return the outermost node above a key whose numbers are needed and open."""
    inside, parent = network.boxes[row], _parents(network)
    found = inside
    while inside in parent:
        inside = parent[inside]
        kind = network.nodes[inside].kind
        if kind in (CHOICE, REPLICATION, FEEDBACK) and not routing.known(kind, inside):
            found = inside
    return found


def _derived(network: Network, routing: Routing, visits: Floats) -> Routing:
    """Return the routing with what is open filled in from the visits of every key.

    The first visited box inside a part tells how often the part is entered: the largest visits of its boxes, which no
    choice inside it lowers.
    """
    within = [0.0] * len(network.nodes)
    position = {index: row for row, index in enumerate(network.boxes)}
    for index, node in enumerate(network.nodes):
        if index in position:
            within[index] = float(visits[position[index]])
        elif node.kind == CHOICE:
            within[index] = sum(within[child] for child in node.children)
        else:
            within[index] = max((within[child] for child in node.children), default=0.0)
    shares, depths, returns = dict(routing.shares), dict(routing.depths), dict(routing.returns)
    for index in network.choices:
        children, total = network.nodes[index].children, within[index]
        even = [1 / len(children)] * len(children)
        shares.setdefault(index, [within[child] / total for child in children] if total > 0 else even)
    for index in network.replications:
        depths.setdefault(index, (0.0, 1.0))
    for index in network.feedbacks:
        returns.setdefault(index, 0.0)
    return Routing(shares, depths, routing.fan_outs, returns, routing.visits)


def _replicas(network: Network, routing: Routing, request: PlanOptions) -> dict[int, Sequence[float]]:
    """Return the shares of the replicas around each key below a split; needed only where it may have instances."""
    if not network.splits:
        return {}
    parent, found = _parents(network), dict[int, Sequence[float]]()
    for row, index in enumerate(network.boxes):
        splits: list[int] = []
        while index in parent:
            index = parent[index]  # noqa: PLW2901 - climbs to the root
            if network.nodes[index].kind == SPLIT:
                splits.append(index)
        if not splits:
            continue
        lacking = [split for split in splits if split not in routing.fan_outs]
        if lacking and _may_have_instances(request, network.keys[row]):
            raise missing(network, routing, lacking[-1], network.keys[row])
        if not lacking:
            found[row] = _product([routing.fan_outs[split] for split in splits])
    return found


def _may_have_instances(request: PlanOptions, key: str) -> bool:
    """Return whether a key may have a second instance."""
    pin: object = (request.pinned or {}).get(key)
    if isinstance(pin, Mapping) and "instances" in pin:
        return cast("Mapping[str, object]", pin)["instances"] != 1
    most = request.instances_max
    return most.get(key, 1) != 1 if isinstance(most, Mapping) else most != 1


def _product(parts: Sequence[Sequence[float]]) -> Sequence[float]:
    """Return the shares of all combinations of replicas, heaviest first, nested splits taken as independent."""
    product = np.ones(1)
    for part in parts:
        product = np.sort(np.outer(product, np.asarray(part)).ravel())[::-1]
        if len(product) > REPLICAS_RETAINED:
            rest = product[REPLICAS_RETAINED:].sum() / REPLICAS_RETAINED
            product = product[:REPLICAS_RETAINED] + rest
    return product.tolist()


def heaviest_share(replicas: Sequence[float], instances: int) -> tuple[float, list[float]]:
    """Return the heaviest instance's share, and all instances' shares, when replicas are assigned longest first.

    All records of one replica (one tag value) go to one instance; more instances than replicas are of no use. Cost
    O(replicas log instances).
    """
    loads = [0.0] * instances
    heapify(loads)
    for share in replicas:
        heapreplace(loads, loads[0] + share)
    return max(loads), sorted(loads, reverse=True)


# ----------------------------------------------------------------------------------------------------------------------------
# How records travel: what the request says, checked against the network.


DEPTH_MAX = 10_000  # replicas that one record passes: beyond, a distribution of them is no longer small
FAN_OUT_MAX = 100_000  # replicas of one split: as many as components
RETURN_MAX = 1 - 1e-6  # beyond, a record goes round a million times

# Kind -> (the request's field, what it is called, what it lacks, what that means, how to give it).
FIELDS: Mapping[str, tuple[str, str, str, str, str]] = {
    CHOICE: ("shares", "choice", "shares", "how many records take each of its {n} branches is unknown", "one list a choice"),
    REPLICATION: ("depths", "replication", "depth", "how many replicas a record passes is unknown",
                  "one mean or distribution a replication"),
    SPLIT: ("fan_outs", "split", "fan-out", "how records spread over its replicas is unknown",
            "one number or list of shares a split"),
    FEEDBACK: ("returns", "feedback", "return probability", "how many of the records that leave it return is unknown",
               "one probability a feedback"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Routing:
    """The way of records, by node; what nobody knows is absent."""

    shares: Mapping[int, Sequence[float]]
    depths: Mapping[int, Sequence[float]]
    fan_outs: Mapping[int, Sequence[float]]
    returns: Mapping[int, float]
    visits: Mapping[int, float]

    def known(self, kind: str, index: int) -> bool:
        """Return whether the node's numbers are known."""
        return index in getattr(self, FIELDS[kind][0])


def routing_of(network: Network, request: PlanOptions) -> Routing:
    """Return what a request says of the way of records. Cost O(nodes).

    Raises InvalidValue when numbers do not fit the network, or are no numbers.
    """
    found: dict[str, dict[int, Any]] = {}
    for kind, (field, *_) in FIELDS.items():
        nodes = nodes_of_kind(network, kind)
        given = _listed(field, getattr(request, field), kind, len(nodes))
        found[field] = {
            index: READERS[kind](network, f"{field}[{order}]", index, given[order])
            for order, index in enumerate(nodes)
            if given[order] is not None
        }
    visits = {
        row: within(name, value, 0.0, VISITS_MAX)
        for row, (name, value) in by_key("visits", request.visits, network).items()
    }
    return Routing(found["shares"], found["depths"], found["fan_outs"], found["returns"], visits)


def nodes_of_kind(network: Network, kind: str) -> tuple[int, ...]:
    """Return the nodes of a kind in text order, the numbering of the request's lists."""
    named = {CHOICE: network.choices, REPLICATION: network.replications, SPLIT: network.splits}
    return named.get(kind, network.feedbacks)


def _listed(field: str, given: Sequence[Any] | None, kind: str, count: int) -> Sequence[Any]:
    if given is None:
        return [None] * count
    if len(given) != count:
        raise InvalidValue(field, len(given), f"{FIELDS[kind][-1]}, {count} in this network")
    return given


def _place(network: Network, index: int) -> str:
    node = network.nodes[index]
    return f" (the {FIELDS[node.kind][1]} at {node.position})" if node.position else ""


def _shares(network: Network, field: str, index: int, value: Sequence[float]) -> Sequence[float]:
    children = network.nodes[index].children
    if len(value) != len(children):
        raise InvalidValue(field, value, f"a list of {len(children)} shares, one a branch{_place(network, index)}")
    return _normalised(network, field, index, value)


def _normalised(network: Network, field: str, index: int, given: Sequence[float]) -> list[float]:
    parts = [finite_number(f"{field}[{order}]", share) for order, share in enumerate(given)]
    total = sum(parts)
    if not 0 < total < float("inf"):
        raise InvalidValue(field, total, f"of a positive, finite sum{_place(network, index)}")
    return [part / total for part in parts]


def _depths(network: Network, field: str, index: int, value: float | Sequence[float]) -> Sequence[float]:
    """Return the distribution; a number is the mean of records that pass its floor or one more."""
    if isinstance(value, Sequence):
        if not 1 <= len(value) <= DEPTH_MAX + 1:
            raise InvalidValue(field, len(value), f"1 to {DEPTH_MAX + 1} shares, of records that pass 0, 1, … replicas")
        return _normalised(network, field, index, value)
    mean = within(field, value, 0.0, DEPTH_MAX)
    whole = floor(mean)
    return [0.0] * whole + [1 - (mean - whole), mean - whole]


def _fan_outs(network: Network, field: str, index: int, value: float | Sequence[float]) -> Sequence[float]:
    """Return the shares of the replicas, heaviest first; a whole number is that many equal ones."""
    if isinstance(value, Sequence):
        return sorted(_normalised(network, field, index, value), reverse=True)
    replicas = finite_number(field, value)
    if replicas != floor(replicas) or not 1 <= replicas <= FAN_OUT_MAX:
        raise InvalidValue(field, replicas, f"a whole number of replicas from 1 to {FAN_OUT_MAX}, or their shares")
    return [1 / replicas] * int(replicas)


def _returns(_: Network, field: str, __: int, value: float) -> float:
    return within(field, value, 0.0, RETURN_MAX)


READERS: Mapping[str, Callable[[Network, str, int, Any], Any]] = {
    CHOICE: _shares, REPLICATION: _depths, SPLIT: _fan_outs, FEEDBACK: _returns,
}  # fmt: skip


def mean_depth(depths: Sequence[float]) -> float:
    """Return the mean number of replicas that a record passes."""
    return elementary.weighted(depths, range(len(depths)))


def missing(network: Network, routing: Routing, index: int, key: str) -> MissingShares:
    """Return the error for a node whose numbers nobody gave, needed for `key`."""
    node = network.nodes[index]
    field, name, what, unknown, how = FIELDS[node.kind]
    nodes = nodes_of_kind(network, node.kind)
    place = f" at {node.position}" if node.position else ""
    instead = "one instance each for the boxes inside" if node.kind == SPLIT else "visits by key"
    return MissingShares(
        f"the {name}{place} has no {what}: {unknown.format(n=len(node.children))}",
        field=f"{field}[{nodes.index(index)}]", value=key,
        bound=f"{node.line}:{node.column}" if node.line else None,
        hint=f"give {field}, {how} ({len(nodes)} in text order), or {instead}",
    )  # fmt: skip
