"""The profile: nodes in columns, and what may be asked of them. A frozen picture of the profiler's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue
from advisor.profile import layout as at
from advisor.profile.measures import Measures

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FORMAT: Final = "advisor-profile-1"
COLUMNS: Final = (
    "parent",
    "role",
    "value",
    "count",
    "open",
    "inclusive_ns",
    "exclusive_ns",
    "least_ns",
    "most_ns",
    "active_max",
    "worked_most_ns",
)
MOMENTS: Final = ("mean_ns", "variance_ns2")


@dataclass(frozen=True)
class Profile:
    """A call-path profile: a tree for each thread's implicit task, one for each task construct (paper 5)."""

    parent: Ints  # int64 array (n,): number of the node above, -1 for a root; always smaller than the node's own
    role: Ints  # int64 array (n,): what the node stands for, see `layout.ROLE_NAMES`
    names: tuple[str, ...]  # task type, region, parameter; of a thread its number
    value: Ints  # int64 array (n,): of a parameter
    # count, open: int64 arrays (n,): visits completed (of a stub: fragments), and visits that last
    count: Ints
    open: Ints
    # inclusive_ns, exclusive_ns: int64 arrays (n,): time of all visits, up to now; suspended time is in neither
    inclusive_ns: Ints
    exclusive_ns: Ints
    # least_ns, most_ns, mean_ns, variance_ns2: arrays (n,): of completed visits, inclusive; 0 where there are none. The
    # variance is of the sample (n - 1).
    least_ns: Ints
    most_ns: Ints
    mean_ns: Floats
    variance_ns2: Floats
    # int64 array (n,): of a thread or parallel region: most task instances begun and not ended on one thread (paper 5,
    # Table II)
    active_max: Ints
    # int64 array (n,): of a task construct: the most that one instance worked, without creating, managing and waiting;
    # of sums at most that
    worked_most_ns: Ints
    measures: Measures  # of the whole run
    # what is missing or was put right: refused events by code, lost instances, nodes beyond the cap and so on
    notes: Mapping[str, int] = field(default_factory=dict[str, int])
    # what is known of each task type, as `advisor.models.type_verdict.TypeReport.as_dict` gives it
    types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def __len__(self) -> int:
        """Return how many nodes there are."""
        return len(self.parent)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The nodes below each node: parameters in order of their values, then those with the most time first."""
        below: list[list[int]] = [[] for _ in range(len(self))]
        for node in np.argsort(-self.inclusive_ns, kind="stable").tolist():
            if self.parent[node] >= 0:
                below[int(self.parent[node])].append(node)
        for nodes in below:
            if len(nodes) > 1:
                nodes.sort(key=self._place)
        return tuple(tuple(nodes) for nodes in below)

    def _place(self, node: int) -> tuple[bool, str, int]:
        """Return what sorts a node among its siblings; a sort by it leaves the order of others as it is."""
        if self.role[node] == at.PARAMETER:
            return False, self.names[node], int(self.value[node])
        return True, "", 0

    @cached_property
    def root(self) -> Ints:
        """The root above each node (n,)."""
        root = np.arange(len(self))
        for node in np.flatnonzero(self.parent >= 0).tolist():
            root[node] = root[self.parent[node]]
        return root

    def roots(self, role: int) -> tuple[int, ...]:
        """Return the roots of a role: `layout.TASK` or `layout.THREAD`; tasks with the most time first."""
        found = np.flatnonzero((self.parent < 0) & (self.role == role))
        if role == at.TASK:
            found = found[np.argsort(-self.inclusive_ns[found], kind="stable")]
        return tuple(found.tolist())

    def label(self, node: int) -> str:
        """Return a node's name as people read it."""
        role, name = int(self.role[node]), self.names[node]
        if role == at.PARAMETER:
            return f"{name}={int(self.value[node])}"
        if role == at.THREAD:
            return f"thread {name}"
        return at.ROLE_NAMES[role] if role in (at.IDLE, at.OVERFLOW) else name

    def walk(self, root: int) -> Iterator[tuple[int, int]]:
        """Yield nodes of a tree with their depth, each above what is below it."""
        stack = [(root, 0)]
        while stack:
            node, depth = stack.pop()
            yield node, depth
            stack.extend((below, depth + 1) for below in reversed(self.children[node]))

    def as_dict(self) -> dict[str, Any]:
        """Return the profile as plain values, for JSON and the wire."""
        columns: dict[str, Any] = {name: getattr(self, name).tolist() for name in (*COLUMNS, *MOMENTS)}
        columns["role"] = [at.ROLE_NAMES[role] for role in columns["role"]]
        return {
            "format": FORMAT,
            "nodes": {**columns, "name": list(self.names)},
            "measures": self.measures.as_dict(),
            "notes": dict(self.notes),
            "types": {name: dict(reported) for name, reported in self.types.items()},
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Profile:
        """Return the profile whose `as_dict` gave this; raises InvalidValue where it is of another format."""
        if given.get("format") != FORMAT:
            raise InvalidValue("format", given.get("format"), f"{FORMAT!r}: a profile that advisor wrote")
        nodes = given["nodes"]
        columns: dict[str, Any] = {name: np.array(nodes[name], np.int64) for name in COLUMNS if name != "role"}
        columns |= {name: np.array(nodes[name], np.float64) for name in MOMENTS}
        return cls(
            **columns, role=np.array([at.ROLE_NAMES.index(role) for role in nodes["role"]], np.int64),
            names=tuple(nodes["name"]), measures=msgspec.convert(given["measures"], Measures), notes=given["notes"],
            types=given["types"],
        )  # fmt: skip
