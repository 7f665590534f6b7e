"""Groups on the nodes of a machine: a group lies on one node, with the memory of all of its components."""

from __future__ import annotations

import numpy as np

from advisor.planning.asked.demand import Floats
from advisor.planning.closed_forms.partitions import Rooms
from advisor.planning.closed_forms.turns import Grouping
from advisor.planning.in_turns.asking import Asked
from advisor.planning.solving.placing import place


def rooms_of(asked: Asked) -> Rooms | None:
    """Return the nodes as partitions know them; None where there is one of unlimited memory."""
    sizes, memory = asked.machine.sizes, asked.machine.memory_bytes
    if asked.machine.whole and not np.isfinite(memory):
        return None
    size = int(sizes[0])
    full = int((sizes == size).sum())
    return Rooms(full, size, int(sizes[-1]) if full < len(sizes) else 0, asked.peak_bytes / memory)


def nodes_of(asked: Asked, found: Grouping) -> list[int] | None:
    """Return the node of each group, or None where they do not fit.

    Whoever waits for a turn stays in memory: a group needs that of all of its instances.
    """
    needs: Floats = np.bincount(
        found.group, weights=asked.peak_bytes * found.instances, minlength=len(found.sizes)
    ).astype(np.float64)
    placed = place(asked.machine, found.sizes, np.ones_like(found.sizes), needs)
    return None if placed is None else [nodes[0] for nodes in placed]


def placeable(asked: Asked, found: Grouping) -> bool:
    """Return whether the groups fit on the nodes."""
    if asked.machine.whole and not np.isfinite(asked.machine.memory_bytes):
        return True
    return nodes_of(asked, found) is not None
