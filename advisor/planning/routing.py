"""How records travel: what the request says, merged with what was learned, checked against the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, cast

from advisor.domain import elementary
from advisor.domain.flows import Flow
from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SPLIT, Network
from advisor.errors import InvalidValue, MissingShares
from advisor.planning.requests import VISITS_MAX, Request, by_key, number

DEPTH_MAX = 10_000  # replicas that one record passes: beyond, a distribution of them is no longer small
FAN_OUT_MAX = 100_000  # replicas of one split: as many as components
RETURN_MAX = 1 - 1e-6  # beyond, a record goes round a million times

# Kind -> (the request's field, what its numbers mean, how to give it).
FIELDS: Mapping[str, tuple[str, str, str]] = {
    CHOICE: ("shares", "how many records take each of its {n} branches is unknown", "one list a choice"),
    REPLICATION: ("depths", "how many replicas a record passes is unknown", "one mean or distribution a replication"),
    SPLIT: ("fan_outs", "how records spread over its replicas is unknown", "one number or list of shares a split"),
    FEEDBACK: ("returns", "how many of the records that leave it return is unknown", "one probability a feedback"),
}  # fmt: skip
NAMES: Mapping[str, str] = {CHOICE: "choice", REPLICATION: "replication", SPLIT: "split", FEEDBACK: "feedback"}


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


def routing_of(network: Network, request: Request, flow: Flow | None = None) -> Routing:
    """Return what is known of the way of records: the request first, `flow` where it is silent. Cost O(nodes).

    Learned visits count only where the request gives no shares, depths or returns of its own: a question "what if the shares
    were others" must not be answered by the visits of the old ones. Raises InvalidValue when numbers do not fit the network,
    or are no numbers.
    """
    learned = flow or Flow()
    found: dict[str, dict[int, Any]] = {}
    for kind, (field, _, _) in FIELDS.items():
        nodes = nodes_of_kind(network, kind)
        given = _listed(field, getattr(request, field), kind, len(nodes))
        below = _listed(f"flow.{field}", getattr(learned, field) or None, kind, len(nodes))
        found[field] = {}
        for order, index in enumerate(nodes):
            source, value = (field, given[order]) if given[order] is not None else (f"flow.{field}", below[order])
            if value is not None:
                found[field][index] = READERS[kind](network, f"{source}[{order}]", index, value)
    asked = {row: _visits(name, value) for row, (name, value) in by_key("visits", request.visits, network).items()}
    changed = any(getattr(request, field) is not None for field in ("shares", "depths", "returns"))
    if not changed and learned.visits:
        known = {key: value for key, value in learned.visits.items() if key in set(network.keys)}
        below_visits = by_key("flow.visits", known, network).items()
        asked = {row: _visits(name, value) for row, (name, value) in below_visits} | asked
    return Routing(found["shares"], found["depths"], found["fan_outs"], found["returns"], asked)


def nodes_of_kind(network: Network, kind: str) -> tuple[int, ...]:
    """Return the nodes of a kind in text order, the numbering of the request's lists."""
    named = {CHOICE: network.choices, REPLICATION: network.replications, SPLIT: network.splits}
    return named.get(kind, network.feedbacks)


def _listed(field: str, given: object, kind: str, count: int) -> Sequence[object]:
    if given is None:
        return [None] * count
    if not isinstance(given, (list, tuple)):
        raise InvalidValue(field, given, f"a list, {FIELDS[kind][2]} in text order")
    values = cast("Sequence[object]", given)
    if len(values) != count:
        raise InvalidValue(field, len(values), f"{FIELDS[kind][2]}, {count} in this network")
    return values


def _place(network: Network, index: int) -> str:
    node = network.nodes[index]
    return f" (the {NAMES[node.kind]} at {node.position})" if node.position else ""


def _shares(network: Network, field: str, index: int, value: object) -> Sequence[float]:
    children = network.nodes[index].children
    given = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()
    if len(given) != len(children):
        raise InvalidValue(
            field, cast("object", value), f"a list of {len(children)} shares, one a branch{_place(network, index)}"
        )
    return _normalised(network, field, index, given)


def _normalised(network: Network, field: str, index: int, given: Sequence[object]) -> list[float]:
    parts = [number(f"{field}[{order}]", share) for order, share in enumerate(given)]
    total = sum(parts)
    if not 0 < total < float("inf"):
        raise InvalidValue(field, total, f"of a positive, finite sum{_place(network, index)}")
    return [part / total for part in parts]


def _depths(network: Network, field: str, index: int, value: object) -> Sequence[float]:
    """Return the distribution; a number is the mean of records that pass its floor or one more."""
    if isinstance(value, (list, tuple)):
        given = cast("Sequence[object]", value)
        if not 1 <= len(given) <= DEPTH_MAX + 1:
            raise InvalidValue(field, len(given), f"1 to {DEPTH_MAX + 1} shares, of records that pass 0, 1, … replicas")
        return _normalised(network, field, index, given)
    mean = number(field, value)
    if mean > DEPTH_MAX:
        raise InvalidValue(field, mean, f"a mean depth of at most {DEPTH_MAX}{_place(network, index)}")
    whole = floor(mean)
    return [0.0] * whole + [1 - (mean - whole), mean - whole]


def _fan_outs(network: Network, field: str, index: int, value: object) -> Sequence[float]:
    """Return the shares of the replicas, heaviest first; a whole number is that many equal ones."""
    if isinstance(value, (list, tuple)):
        given = cast("Sequence[object]", value)
        if not 1 <= len(given) <= FAN_OUT_MAX:
            raise InvalidValue(field, len(given), f"1 to {FAN_OUT_MAX} shares{_place(network, index)}")
        return sorted(_normalised(network, field, index, given), reverse=True)
    replicas = number(field, value)
    if replicas != floor(replicas) or not 1 <= replicas <= FAN_OUT_MAX:
        raise InvalidValue(field, replicas, f"a whole number of replicas from 1 to {FAN_OUT_MAX}, or their shares")
    return [1 / replicas] * int(replicas)


def _returns(network: Network, field: str, index: int, value: object) -> float:
    probability = number(field, value)
    if probability > RETURN_MAX:
        raise InvalidValue(field, probability, f"a probability below {RETURN_MAX}{_place(network, index)}")
    return probability


def _visits(name: str, value: object) -> float:
    visits = number(name, value)
    if visits > VISITS_MAX:
        raise InvalidValue(name, visits, f"at most {VISITS_MAX:g}")
    return visits


READERS: Mapping[str, Callable[[Network, str, int, object], Any]] = {
    CHOICE: _shares, REPLICATION: _depths, SPLIT: _fan_outs, FEEDBACK: _returns,
}  # fmt: skip


def mean_depth(depths: Sequence[float]) -> float:
    """Return the mean number of replicas that a record passes."""
    return elementary.weighted(depths, range(len(depths)))


def missing(network: Network, routing: Routing, index: int, key: str) -> MissingShares:
    """Return the error for a node whose numbers nobody gave, needed for `key`."""
    node = network.nodes[index]
    field, unknown, how = FIELDS[node.kind]
    nodes = nodes_of_kind(network, node.kind)
    place = f" at {node.position}" if node.position else ""
    what = {CHOICE: "shares", REPLICATION: "depth", SPLIT: "fan-out", FEEDBACK: "return probability"}[node.kind]
    instead = "one instance each for the boxes inside" if node.kind == SPLIT else "visits by key"
    return MissingShares(
        f"the {NAMES[node.kind]}{place} has no {what}: {unknown.format(n=len(node.children))}",
        field=f"{field}[{nodes.index(index)}]", value=key,
        bound=f"{node.line}:{node.column}" if node.line else None,
        hint=f"give {field}, {how} ({len(nodes)} in text order), or {instead}",
    )  # fmt: skip
