"""The shape of a machine: which processors share a core, a cache and a node's memory."""

from __future__ import annotations

from dataclasses import dataclass, field

Core = tuple[int, ...]  # the processors of one core, as the system numbers them
Cache = tuple[Core, ...]  # the cores behind one last-level cache
Node = tuple[Cache, ...]  # the caches of one node


@dataclass(frozen=True, slots=True)
class Machine:
    """Processors by core, cache and node."""

    name: str  # of letters, digits, dots and dashes
    # nodes of caches of cores of processors, each processor by the number that the system has for it
    nodes: tuple[Node, ...]
    # those numbers in that order: what stands at k is what others call logical processor k
    processors: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = tuple(n for node in self.nodes for cache in node for core in cache for n in core)
        object.__setattr__(self, "processors", found)
