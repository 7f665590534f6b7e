"""What people are shown of the boxes of a network: what an allocation gives to those with the least to spare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.domain.networks import Network

BOXES_LISTED = 40  # in a table: two screens


def boxes_shown(network: Network, allocation: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return how many `boxes` a network has, and of the `busiest` name, component, cores, instances, load, bottleneck.

    `allocation`: an answer about it, as `Allocation.as_dict` has it; without one the first boxes are listed.
    """
    boxes: list[dict[str, Any]] = [
        {"key": key, "component": component, **_given(key, allocation)}
        for key, component in zip(network.keys, network.components, strict=True)
    ]
    return {"boxes": len(boxes), "busiest": sorted(boxes, key=_spare)[:BOXES_LISTED]}


def _given(key: str, allocation: Mapping[str, Any] | None) -> dict[str, Any]:
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
