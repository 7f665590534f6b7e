"""What people are shown of a network: its parts as composed, and what an allocation gives to each box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from advisor.domain.networks import BOX, CHOICE, FEEDBACK, FILTER, PLACEMENT, REPLICATION, SPLIT, SYNC, Network, Node
from advisor.network.writer import sign_of

BOXES_DRAWN = 120  # of a network: beyond, only their number is given; a screen holds about a dozen
BUSIEST_LISTED = 12  # boxes listed in a table, drawn or not
FRAMES = (REPLICATION, SPLIT, FEEDBACK, PLACEMENT, SYNC, FILTER)  # kinds whose sign stands on a frame around their part


def composed(
    network: Network, allocation: Mapping[str, Any] | None = None, request: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a network as a picture shows it.

    Parameters
    ----------
    allocation : mapping, optional
        An answer about it, as `Allocation.as_dict` has it.
    request : mapping, optional
        What was asked: its `shares` stand at the branches.

    Returns
    -------
    dict
        boxes, and shown of them; tree: nested maps of `kind`, `label`, `children` and `shares`, and of a box `key` and what
        `given` tells; busiest: what is given to the boxes with the least to spare.
    """
    nodes = network.nodes
    keys = dict(zip(network.boxes, network.keys, strict=True))
    below = [0] * len(nodes)
    for index, node in enumerate(nodes):
        below[index] = 1 if node.kind == BOX else sum(below[child] for child in node.children)
    asked: Sequence[Any] = (request or {}).get("shares") or ()
    shares = dict(zip(network.choices, asked, strict=False))
    root: dict[str, Any] = {}
    left = BOXES_DRAWN
    todo: list[tuple[int, list[dict[str, Any]] | None]] = [(len(nodes) - 1, None)]
    while todo:  # in text order, without recursion: a text may nest deeply
        index, siblings = todo.pop()
        node = nodes[index]
        if left <= 0 and below[index]:
            _more(siblings, below[index])
            continue
        data = _part(node)
        if siblings is None:
            root = data
        else:
            siblings.append(data)
        if node.kind == BOX:
            left -= 1
            data |= {"key": keys[index], **given(keys[index], allocation)}
        elif node.children:
            data["children"] = []
            if node.kind == CHOICE and index in shares:
                data["shares"] = [float(share) for share in shares[index]]
            todo += [(child, cast("list[dict[str, Any]]", data["children"])) for child in reversed(node.children)]
    boxes: list[dict[str, Any]] = [
        {"key": key, "component": component, **given(key, allocation)}
        for key, component in zip(network.keys, network.components, strict=True)
    ]
    busiest = sorted(boxes, key=_spare)[:BUSIEST_LISTED]
    return {"boxes": len(network.keys), "shown": BOXES_DRAWN - left, "tree": root, "busiest": busiest}


def given(key: str, allocation: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what an allocation gives to a box: cores an instance, instances, utilization, whether it bounds, or shares."""
    if allocation is None or key not in allocation["instances"]:
        return {}
    data: dict[str, Any] = {
        "cores": allocation["cores"].get(key),
        "instances": allocation["instances"][key],
        "bottleneck": key in allocation["bottleneck"],
        "in_turn": key in allocation.get("in_turn", {}),
    }
    utilization: Mapping[str, float] = allocation.get("utilization") or {}
    if key in utilization:
        data["utilization"] = float(utilization[key])
    return data


def _spare(box: Mapping[str, Any]) -> tuple[bool, float, int]:
    return not box.get("bottleneck", False), -(box.get("utilization") or 0.0), -(box.get("cores") or 0)


def _part(node: Node) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": node.kind}
    if node.kind == BOX:
        data["component"] = node.name
    elif node.kind in FRAMES:
        data["label"] = sign_of(node)
    return data


def _more(siblings: list[dict[str, Any]] | None, boxes: int) -> None:
    """Count boxes that are not drawn, once for neighbours."""
    if siblings is None:
        return
    if siblings and siblings[-1]["kind"] == "more":
        siblings[-1]["boxes"] += boxes
    else:
        siblings.append({"kind": "more", "boxes": boxes})
