"""The core counts that components themselves allow, by their names; see `advisor.domain.allowed_cores`."""

from __future__ import annotations

import json

from advisor.domain.allowed_cores import AllowedCores, parse_allowed
from advisor.domain.json_bytes import read_json
from advisor.engine.kinds import RecordKind
from advisor.errors import Mismatch


class AllowedSets(RecordKind[str, AllowedCores]):
    """Which components have a set of their own. A merge keeps what both sides allow."""

    name, merges = "allowed", {"counts": "in both"}

    def encode_record(self, record: AllowedCores) -> bytes:
        """Return a set's bytes."""
        return json.dumps(record.as_wire()).encode()

    def decode_record(self, key: str, data: bytes) -> AllowedCores:
        """Return a set of its bytes."""
        del key
        return parse_allowed("allowed", read_json(data))

    def merged_record(self, key: str, mine: AllowedCores, theirs: AllowedCores) -> AllowedCores:
        """Return the counts in both; raises Mismatch where there is none."""
        both = mine.intersection(theirs)
        if both is None:
            raise Mismatch(
                f"component {key!r} is allowed {mine} cores here, and {theirs} there: no count is in both",
                field="allowed", value=str(mine), bound=str(theirs), hint="change one with set_allowed",
            )  # fmt: skip
        return both
