"""What a state keeps by key: one declaration a kind serves the state file, copies, exports, parts and merges."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import msgspec

K = TypeVar("K", bound=Any)
V = TypeVar("V")


class RecordKind(ABC, Generic[K, V]):
    """Records of one kind by key; a key is a name, or the (name, incarnation) of a producer.

    A kind says how a record becomes bytes and is read from them, and how two of one key become one: `merges` names the law
    of each field. "exact", "rounding", "approximate": the sum of both, to the bit, to rounding, within a bound that the law
    suite tests. "greater": the greater one. "ours": the one that is here stays. "in both": what both have; a merge that leaves
    nothing is refused. "equal": must be equal, else the merge is refused. "more events": the one with more, as a whole.
    """

    name: ClassVar[str]
    merges: ClassVar[Mapping[str, str]]
    record: ClassVar[type]  # of one that MessagePack encodes as it is
    records_max: int = sys.maxsize

    def __init__(self) -> None:
        self.known: dict[K, V] = {}
        # keys whose records changed, or went, since the log had them; None where no log asks for them
        self.unlogged: dict[K, None] | None = None

    def encode_record(self, record: V) -> bytes:
        """Return a record's bytes, as MessagePack has it; equal ones give equal bytes."""
        return msgspec.msgpack.encode(record)

    def decode_record(self, key: K, data: bytes) -> V:
        """Return a record of its bytes; raises ValueError, LookupError, MsgspecError or StateDamaged where they do not read."""
        del key
        return cast("V", msgspec.msgpack.decode(data, type=self.record))

    @abstractmethod
    def merged_record(self, key: K, mine: V, theirs: V) -> V:
        """Return two records of one key as one, changing neither; raises Mismatch where they do not go together."""

    def settle(self) -> None:
        """Bring the records up to date, where something waits to be learned."""

    def leave_out(self, record: V) -> None:
        """Count a record of another state for which there is no room; raises TooLarge where one is due."""

    def copy_record(self, key: K, record: V) -> V:
        """Return a record's copy."""
        return self.decode_record(key, self.encode_record(record))

    def records(self, keys: Container[K] | None = None) -> Iterator[tuple[K, bytes]]:
        """Yield the keys and bytes of all records, or of those named, in the order of their keys."""
        self.settle()
        for key in sorted(self.known):
            if keys is None or key in keys:
                yield key, self.encode_record(self.known[key])

    def restore_record(self, key: K, data: bytes) -> None:
        """Let a record's bytes stand in the place of what its key had; raises as `decode_record`."""
        self.set_record(key, self.decode_record(key, data))

    def set_record(self, key: K, record: V) -> None:
        """Let a record stand in the place of what its key had."""
        self.known[key] = record
        if self.unlogged is not None:
            self.unlogged[key] = None

    def remove_record(self, key: K) -> None:
        """Take a record away, where there is one."""
        self.settle()
        if self.known.pop(key, None) is not None and self.unlogged is not None:
            self.unlogged[key] = None

    def merged_records(self, other: Self) -> dict[K, V]:
        """Return the records that change when another's are added, new ones as far as there is room; changes none.

        Raises as `merged_record` and `leave_out`.
        """
        self.settle()
        other.settle()
        found, room = dict[K, V](), self.records_max - len(self.known)
        for key, theirs in sorted(other.known.items()):
            if key in self.known:
                found[key] = self.merged_record(key, self.known[key], theirs)
            elif room > 0:
                found[key], room = self.copy_record(key, theirs), room - 1
            else:
                self.leave_out(theirs)
        return found

    def set_records(self, records: Mapping[K, V]) -> None:
        """Let records stand in the place of what their keys had."""
        for key, record in records.items():
            self.set_record(key, record)
