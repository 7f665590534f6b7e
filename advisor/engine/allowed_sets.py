"""The core counts that a component itself allows, as records beside its sums; see `advisor.domain.allowed_cores`.

Merge: the intersection of both sides, exact; an empty one is refused before anything is merged.
"""

from __future__ import annotations

from typing import cast

from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.limits import ALLOCATE_CORES_MAX, ALLOWED_COUNTS_MAX
from advisor.engine.records_by_slot import RecordsBySlot
from advisor.models import records as legal
from advisor.models.records import Field, RecordTable

_COUNT = (1.0, float(ALLOCATE_CORES_MAX), ())
_HALF = 32  # bits: two counts a word
FIELDS: tuple[Field, ...] = (
    ("component", 1, "i", -1, None),  # slot in the base table
    ("least", 1, "i", 1, _COUNT),
    ("most", 1, "i", 1, _COUNT),
    ("multiple_of", 1, "i", 1, _COUNT),
    ("power_of", 1, "i", 0, (0.0, float(ALLOCATE_CORES_MAX), ())),
    ("listed", ALLOWED_COUNTS_MAX // 2, "i", 0, legal.PACKED),
)
ENDS = ("least", "most", "multiple_of", "power_of")
NAME, LAYOUT = "allowed", "allowed-1"


class AllowedSets(RecordsBySlot[RecordTable]):
    """Which components have a set of their own, 1 KB each."""

    def __init__(self) -> None:
        super().__init__(lambda _: RecordTable(FIELDS, LAYOUT))

    def of_slot(self, slot: int) -> AllowedCores | None:
        """Return a component's set; None: every count."""
        found = self.find(slot)
        if found is None:
            return None
        table, place = found
        least, most, step, base = (int(table.count(name)[place]) for name in ENDS)
        words = cast("list[int]", table.integers("listed")[place].tolist())
        halves = (half for word in words for half in (word & (1 << _HALF) - 1, word >> _HALF))
        return AllowedCores(least, most, step, base, tuple(half for half in halves if half))

    def put(self, slot: int, allowed: AllowedCores | None) -> None:
        """Set a component's counts; None: every count."""
        if allowed is None:
            self.free(slot)
            return
        found = self.find(slot)
        table = self.named(NAME)
        place = self.give(slot, table) if found is None else found[1]
        for name in ENDS:
            table.count(name)[place] = getattr(allowed, name)
        counts = [*allowed.listed, *[0] * (ALLOWED_COUNTS_MAX - len(allowed.listed))]
        table.integers("listed")[place] = [
            low | high << _HALF for low, high in zip(counts[::2], counts[1::2], strict=True)
        ]
        table.changed[place] = True
