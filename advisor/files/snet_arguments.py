"""An allocation as S-Net's runtimes take it: workers, and how many records each box works on, or which worker it is on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.domain.allocations import Allocation
from advisor.domain.networks import PLACEMENT, Network, network_from_nodes

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


def placed_on_workers(network: Network, allocation: Allocation) -> tuple[list[str], Network]:
    """Return ``-w`` and ``-dloc`` of LPEL, and the network with ``@ worker`` at each box. The allocation: on nodes of one core.

    A group that takes turns is on one worker. The least busy is worker 0, which has all that is no box, too. Cost O(nodes).
    """
    shared = {key for _, components in allocation.groups for key in components}
    groups = [components for _, components in allocation.groups] + [(key,) for key in network.keys if key not in shared]
    busy = allocation.utilization or {}
    groups.sort(key=lambda group: sum(busy.get(key, 0.0) for key in group))
    worker = {key: number for number, group in enumerate(groups) for key in group}
    keys = dict(zip(network.boxes, network.keys, strict=True))
    nodes: list[dict[str, Any]] = []
    at: list[int] = []  # where each former node stands now, a box with its placement
    for index, node in enumerate(network.as_nodes()):
        children: list[int] = [at[child] for child in node.get("children", ())]
        nodes.append(node | ({"children": children} if children else {}))
        if index in keys:
            nodes.append({"kind": PLACEMENT, "place": worker[keys[index]], "children": [len(nodes) - 1]})
        at.append(len(nodes) - 1)
    return ["-w", str(len(groups)), "-dloc"], network_from_nodes(nodes)


def _ordered(network: Network) -> list[bool]:
    """Return for each node whether an operator around it keeps the order of records."""
    found = [False] * len(network.nodes)
    for index in range(len(found) - 1, -1, -1):  # parents stand after their children
        node = network.nodes[index]
        for child in node.children:
            found[child] = found[index] or node.ordered
    return found
