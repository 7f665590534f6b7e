"""The ledger of producers: which number of each was applied last, so that no batch is folded twice and none is left out.

A producer is (name, incarnation); its events are numbered from 1. Only applied + 1 is taken; a number applied before is not
taken again; a gap is an error that names the number expected.
"""

from __future__ import annotations

from collections.abc import Callable

from advisor.engine.kinds import RecordKind
from advisor.errors import SequenceGap, TooLarge

Producer = tuple[str, bytes]


class ProducerLedger(RecordKind[Producer, int]):
    """Applied numbers by producer.

    `producers_max`: producers remembered; further ones are refused until some are evicted. `count`: counts what happens, by
    name: ``batches_replayed``, ``gaps``.
    """

    name, merges, record = "producers", {"sequence": "greater"}, int

    def __init__(self, producers_max: int, count: Callable[[str], None]) -> None:
        super().__init__()
        self.producers_max = producers_max
        self._count = count
        self.applied = self.known

    def replays(self, key: Producer, sequence: int) -> bool:
        """Return whether a number was applied before; False: it is the next.

        Raises SequenceGap when the number is beyond the next; nothing is changed; TooLarge when the producer is new and there
        is no room for it.
        """
        if key not in self.applied and len(self.applied) >= self.producers_max:
            raise TooLarge(
                "producers", len(self.applied) + 1, self.producers_max, "reuse a producer's name and incarnation"
            )
        applied = self.applied.get(key, 0)
        if sequence <= applied:
            self._count("batches_replayed")
            return True
        if sequence != applied + 1:
            self._count("gaps")
            raise SequenceGap(sequence, applied + 1)
        return False

    def merged_record(self, key: Producer, mine: int, theirs: int) -> int:
        """Return the greater number."""
        del key
        return max(mine, theirs)
