"""What a state keeps by key: one declaration a kind serves the state file, copies, exports and parts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Any)


class RecordKind(Generic[K]):
    """Records of one kind by key; a key is a name, or the (name, incarnation) of a producer.

    `name`: of the kind. `known`: the things that there are, by key. `merges`: for each field of a record how two of one key
    become one, see `LAWS`. `encode_record`: returns the bytes of a key's thing; equal things give equal bytes.
    `restore_record`: takes a thing from its bytes, in the place of what its key had; raises ValueError, LookupError or
    StateDamaged where they do not read. `remove_record`: forgets a thing.
    """

    def __init__(
        self, name: str, known: Mapping[K, Any], merges: Mapping[str, str], encode_record: Callable[[K], bytes],
        restore_record: Callable[[K, bytes], None], remove_record: Callable[[K], object],
    ) -> None:  # fmt: skip
        self.name, self.known, self.merges = name, known, merges
        self.encode_record = encode_record
        self.restore_record = restore_record
        self.remove_record = remove_record

    def records(self, keys: Container[K] | None = None) -> Iterator[tuple[K, bytes]]:
        """Yield the keys and bytes of all things, or of those named, in the order of their keys."""
        for key in sorted(self.known):
            if keys is None or key in keys:
                yield key, self.encode_record(key)


LAWS = {
    "exact": "the sum of both, to the bit",
    "rounding": "the sum of both, to rounding",
    "approximate": "a sum whose bound the law suite tests",
    "greater": "the greater one",
    "ours": "the one that is here stays; a new key is copied",
    "in both": "what both have; a merge that leaves nothing is refused",
    "equal": "must be equal, else the merge is refused",
    "more events": "the one with more events, as a whole",
}
