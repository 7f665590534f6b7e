"""The fold of events as kernels: the functions of `events`, `stacks` and `tables`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from advisor import kernels
from advisor.profile.events import fold_events
from advisor.profile.tables import find_node, index_contexts, index_nodes


def examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types of the arguments of each kernel."""
    ints, floats = np.zeros(1, np.int64), np.zeros(1)
    state = (ints, ints, ints, floats, ints, ints, floats, ints, ints, ints)
    yield "fold_events", (state, (ints,) * 7, floats, ints, ints, floats)
    for name in ("index_contexts", "index_nodes"):
        yield name, (ints, ints, ints)
    yield "find_node", (ints, ints, ints, 1, 1, 1)


KERNELS = kernels.Source(
    __name__,
    (fold_events, index_contexts, index_nodes, find_node),
    examples,
    inline=True,
)  # fmt: skip
