"""The ledger of producers: which number of each was applied last, so that no batch is folded twice and none is left out.

A producer is (name, incarnation); its events are numbered from 1. Only applied + 1 is taken; a number applied before is not
taken again; a gap is an error that names the number expected.
"""

from __future__ import annotations

from collections.abc import Callable

from advisor.engine.kinds import RecordKind
from advisor.errors import InvalidValue, SequenceGap, TooLarge

Producer = tuple[str, bytes]


class ProducerLedger(RecordKind[Producer, int]):
    """Applied numbers by producer.

    `producers_max`: producers remembered; further ones are refused until some are evicted. `count`: counts what happens, by
    name: ``batches_replayed``, ``gaps``, ``producers_resumed``.
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
        self._refuse_more_producers(key)
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

    def accept_number(self, key: Producer, applied: int) -> None:
        """Take `applied` as the last number: the producer says so, and our state of it is older or lost.

        Raises InvalidValue when it would go back; TooLarge when the producer is new and there is no room for it.
        """
        known = self.applied.get(key, 0)
        if applied < known:
            raise InvalidValue("resume_at", applied, f"at least {known}, which is applied")
        self._refuse_more_producers(key)
        self._count("producers_resumed")
        self.set_record(key, applied)

    def _refuse_more_producers(self, key: Producer) -> None:
        if key not in self.applied and len(self.applied) >= self.producers_max:
            raise TooLarge(
                "producers", len(self.applied) + 1, self.producers_max, "reuse a producer's name and incarnation"
            )
