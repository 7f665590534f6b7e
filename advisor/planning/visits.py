"""How often a record that enters the network visits each component, from structure and routing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.domain.flows import Flow
from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SPLIT, Network
from advisor.errors import InvalidValue
from advisor.planning.requests import Floats, Request
from advisor.planning.routing import Routing, mean_depth, missing, routing_of

UNKNOWN = -1.0  # visits below a node whose numbers nobody gave
REPLICAS_KEPT = 4096  # of the product of nested splits: the lightest beyond are put together evenly


@dataclass(frozen=True, slots=True)
class Visits:
    """How records visit the parts of a network."""

    per_record: Floats  # (n,): v_c: visits at each key per record that enters the network
    # (nodes,): records that enter each node per record that enters the network, by structure; UNKNOWN where that is open
    entries: Floats
    routing: Routing  # the numbers used; shares of choices that only visits tell are derived from them
    # key's row -> shares of the replicas of the splits around it, heaviest first, where there are any
    replicas: Mapping[int, Sequence[float]]


def visits_of(network: Network, request: Request, flow: Flow | None = None) -> Visits:
    """Return the visits per record that enters the network.

    A series passes each record to all its parts, a choice to one of them by its shares, a join to every one, a replication to
    as many replicas as its mean depth, a feedback with return probability r 1/(1-r) times to its part, a split to one
    replica: all replicas of a box share its cores. Filters and synchrocells cost nothing. A box without input runs once, not
    once a record: 0. `visits` of the request (or learned) override what structure gives, and need no numbers above the key.
    Cost O(nodes). Raises MissingShares when numbers of a choice, replication, feedback or split are needed and nobody gave
    them: node, place and fix; InvalidValue when numbers do not fit the network, visits name no key, are no numbers, or are
    all 0.
    """
    routing = routing_of(network, request, flow)
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


def _replicas(network: Network, routing: Routing, request: Request) -> dict[int, Sequence[float]]:
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
        if lacking and request.may_have_instances(network.keys[row]):
            raise missing(network, routing, lacking[-1], network.keys[row])
        if not lacking:
            found[row] = _product([routing.fan_outs[split] for split in splits])
    return found


def _product(parts: Sequence[Sequence[float]]) -> Sequence[float]:
    """Return the shares of all combinations of replicas, heaviest first, nested splits taken as independent."""
    product = np.ones(1)
    for part in parts:
        product = np.sort(np.outer(product, np.asarray(part)).ravel())[::-1]
        if len(product) > REPLICAS_KEPT:
            rest = product[REPLICAS_KEPT:].sum() / REPLICAS_KEPT
            product = product[:REPLICAS_KEPT] + rest
    return product.tolist()
