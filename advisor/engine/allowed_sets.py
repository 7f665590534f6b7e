"""The core counts that components themselves allow, by their names; see `advisor.domain.allowed_cores`.

Merge: the intersection of both sides, exact; an empty one is refused before anything is merged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from advisor.domain.allowed_cores import AllowedCores, parse_allowed
from advisor.domain.json_bytes import read_json
from advisor.engine.kinds import RecordKind
from advisor.errors import Mismatch


class AllowedSets:
    """Which components have a set of their own."""

    def __init__(self) -> None:
        self.sets: dict[str, AllowedCores] = {}
        self.kind = RecordKind(
            "allowed", self.sets, {"counts": "in both"}, lambda name: json.dumps(self.sets[name].as_wire()).encode(),
            lambda name, data: self.set_allowed_counts(name, parse_allowed("allowed", read_json(data))),
            lambda name: self.set_allowed_counts(name, None),
        )  # fmt: skip

    def set_allowed_counts(self, component: str, allowed: AllowedCores | None) -> None:
        """Set a component's counts; None: every count."""
        if allowed is not None:
            self.sets[component] = allowed
        else:
            self.sets.pop(component, None)

    def clear_allowed(self, components: Iterable[str]) -> None:
        """Allow some components every count."""
        for name in components if self.sets else ():
            self.set_allowed_counts(name, None)

    def merged(self, other: AllowedSets) -> dict[str, AllowedCores]:
        """Return what a merge with another's sets changes here; raises Mismatch where both have no count in common."""
        found: dict[str, AllowedCores] = {}
        for name, theirs in other.sets.items():
            mine = self.sets.get(name, theirs)
            both = mine.intersection(theirs)
            if both is None:
                raise Mismatch(
                    f"component {name!r} is allowed {mine} cores here, and {theirs} there: no count is in both",
                    field="allowed", value=str(mine), bound=str(theirs), hint="change one with set_allowed",
                )  # fmt: skip
            found[name] = both
        return found
