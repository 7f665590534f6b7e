"""Networks put together from parts, for tests: a part is a network, or the name of a box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.domain.networks import Network, network_from_nodes

Part = Network | str


def box(name: str, **keys: Any) -> Network:
    return network_from_nodes([{"kind": "box", "name": name, **keys}])


def series(*parts: Part) -> Network:
    return _joined({"kind": "series"}, parts)


def choice(*parts: Part, ordered: bool = False) -> Network:
    return _joined({"kind": "choice", "ordered": ordered}, parts)


def join(*parts: Part) -> Network:
    return _joined({"kind": "join"}, parts)


def around(kind: str, part: Part, **keys: Any) -> Network:
    nodes = (box(part) if isinstance(part, str) else part).as_nodes()
    return network_from_nodes([*nodes, {"kind": kind, "children": [len(nodes) - 1], **keys}])


def leaf(kind: str, **keys: Any) -> Network:
    return network_from_nodes([{"kind": kind, **keys}])


def _joined(root: dict[str, Any], parts: Sequence[Part]) -> Network:
    branches = [(box(part) if isinstance(part, str) else part).as_nodes() for part in parts]
    if len(branches) == 1:
        return network_from_nodes(branches[0])
    nodes: list[dict[str, Any]] = []
    children: list[int] = []
    for branch in branches:
        at = len(nodes)
        nodes += [
            {**node, "children": [child + at for child in node["children"]]} if "children" in node else node
            for node in branch
        ]
        children.append(len(nodes) - 1)
    return network_from_nodes([*nodes, {**root, "children": children}])
