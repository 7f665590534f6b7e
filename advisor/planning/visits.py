"""How often a record that enters the network visits each component, from structure and shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from advisor.domain.networks import CHOICE, Network
from advisor.errors import InvalidValue, MissingShares
from advisor.planning.demand import Floats
from advisor.planning.requests import VISITS_MAX, Request, by_key, number

UNKNOWN = -1.0  # visits below a choice whose shares nobody gave


def visits_of(network: Network, request: Request) -> Floats:
    """Return the visits per record that enters the network, shape (n,), in the order of ``network.keys``.

    A series passes each record to all its parts, a choice to one, by its shares. A box without input runs once, not
    once a record: 0. `visits` of the request overrides what structure gives, and needs no shares above the key.
    Cost O(nodes).

    Raises
    ------
    MissingShares
        When a choice has no shares and visits below it are needed.
    InvalidValue
        When shares do not fit the choices, or visits name no key, are no numbers, or are all 0.
    """
    given = {row: _visits(name, value) for row, (name, value) in by_key("visits", request.visits, network).items()}
    shares = _shares(network, request.shares)
    if network.choices and len(given) < len(network.keys):
        visits = _from_structure(network, shares)
    else:
        visits = np.ones(len(network.keys))
    visits[list(network.once)] = 0.0
    for row, value in given.items():
        visits[row] = value
    if (visits < 0).any():
        raise _missing(network, shares, int(np.argmax(visits < 0)))
    if not visits.any():
        raise InvalidValue("visits", 0, "positive for at least one component")
    return visits


def _visits(name: str, value: object) -> float:
    visits = number(name, value)
    if visits > VISITS_MAX:
        raise InvalidValue(name, visits, f"at most {VISITS_MAX:g}")
    return visits


def _shares(network: Network, given: object) -> dict[int, list[float]]:
    """Return choice node -> the share of each branch, of sum 1."""
    if given is None:
        return {}
    if not isinstance(given, (list, tuple)):
        raise InvalidValue("shares", given, "a list of lists, one a choice in text order")
    lists = cast("Sequence[object]", given)
    if len(lists) != len(network.choices):
        raise InvalidValue("shares", len(lists), f"one list a choice, {len(network.choices)} in this network")
    return {index: _normalised(network, number_, index, value)
            for number_, (index, value) in enumerate(zip(network.choices, lists, strict=True))
            if value is not None}  # fmt: skip


def _normalised(network: Network, choice: int, index: int, value: object) -> list[float]:
    node = network.nodes[index]
    place = f" (the choice at {node.position})" if node.position else ""
    given = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()
    if len(given) != len(node.children):
        raise InvalidValue(f"shares[{choice}]", cast("object", value),
                           f"a list of {len(node.children)} shares, one a branch{place}")  # fmt: skip
    branches = [number(f"shares[{choice}][{branch}]", share) for branch, share in enumerate(given)]
    total = sum(branches)
    if not 0 < total < float("inf"):
        raise InvalidValue(f"shares[{choice}]", total, f"of a positive, finite sum{place}")
    return [share / total for share in branches]


def _from_structure(network: Network, shares: dict[int, list[float]]) -> Floats:
    """Return visits from the root down; UNKNOWN below a choice without shares."""
    visits = [1.0] * len(network.nodes)
    for index in range(len(network.nodes) - 1, -1, -1):  # parents stand after their children
        node, here = network.nodes[index], visits[index]
        if node.kind == CHOICE and here != 0:
            parts = shares.get(index)
            for branch, child in enumerate(node.children):
                visits[child] = UNKNOWN if parts is None or here < 0 else here * parts[branch]
        else:
            for child in node.children:
                visits[child] = here
    return np.array([visits[index] for index in network.boxes])


def _missing(network: Network, shares: dict[int, list[float]], row: int) -> MissingShares:
    """Return the error for a key without visits: the outermost choice above it that has no shares."""
    inside = network.boxes[row]
    parent = {child: index for index, node in enumerate(network.nodes) for child in node.children}
    choice = inside
    while inside in parent:
        inside = parent[inside]
        if network.nodes[inside].kind == CHOICE and inside not in shares:
            choice = inside
    node, order = network.nodes[choice], network.choices.index(choice)
    place = f" at {node.position}" if node.position else ""
    return MissingShares(
        f"the choice{place} has no shares: how many records take each of its {len(node.children)} branches is unknown",
        field=f"shares[{order}]", value=network.keys[row],
        bound=f"{node.line}:{node.column}" if node.line else None,
        hint=f"give shares, one list a choice ({len(network.choices)} in text order), or visits by key",
    )  # fmt: skip
