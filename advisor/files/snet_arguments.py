"""An allocation as arguments of S-Net's runtime: workers, and how many records each box may work on at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.domain.allocations import Allocation
from advisor.domain.networks import Network

ONE: Mapping[str, Any] = {"allowed": [1]}  # of a request: a worker is one core, and a box runs on one worker


def arguments_of(network: Network, allocation: Allocation) -> list[str]:
    """Return ``-w`` and ``-c`` for an allocation of a network, as a shell would hand them over.

    ``-c`` has the default, 1, then ``N:boxes`` for those with N instances, ``ND:boxes`` where they keep their records' order: a
    box with an ordered operator around it. Uses of one box share its N, the largest. Cost O(nodes).
    """
    ordered = _ordered(network)
    most: dict[str, int] = {}
    keeps: set[str] = set()
    for key, name, node in zip(network.keys, network.components, network.boxes, strict=True):
        most[name] = max(most.get(name, 1), allocation.instances[key])
        if ordered[node]:
            keeps.add(name)
    groups: dict[str, list[str]] = {}
    for name, count in most.items():
        if count > 1:
            groups.setdefault(f"{count}{'D' if name in keeps else ''}", []).append(name)
    boxes = [f"{count}:{','.join(names)}" for count, names in groups.items()]
    return ["-w", str(allocation.cores_used), "-c", " ".join(["1", *boxes])]


def _ordered(network: Network) -> list[bool]:
    """Return for each node whether an operator around it keeps the order of records."""
    found = [False] * len(network.nodes)
    for index in range(len(found) - 1, -1, -1):  # parents stand after their children
        node = network.nodes[index]
        for child in node.children:
            found[child] = found[index] or node.ordered
    return found
