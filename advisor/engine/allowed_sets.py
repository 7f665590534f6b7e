"""The core counts that components themselves allow, by their names; see `advisor.domain.allowed_cores`."""

from __future__ import annotations

from advisor.domain.allowed_cores import AllowedCores
from advisor.engine.kinds import RecordKind
from advisor.errors import Mismatch


class AllowedSets(RecordKind[str, AllowedCores]):
    """Which components have a set of their own. A merge keeps what both sides allow."""

    name, merges, record = "allowed", {"counts": "in both"}, AllowedCores

    def merged_record(self, key: str, mine: AllowedCores, theirs: AllowedCores) -> AllowedCores:
        """Return the counts in both; raises Mismatch where there is none."""
        both = mine.intersection(theirs)
        if both is None:
            raise Mismatch(
                f"component {key!r} is allowed {mine} cores here, and {theirs} there: no count is in both",
                field="allowed", value=str(mine), bound=str(theirs), hint="change one with set_allowed",
            )  # fmt: skip
        return both
