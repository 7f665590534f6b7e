"""Which shard has which bucket of names: a map with a version, kept in a file beside the shards' states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct, msgpack
from msgspec.structs import replace

from advisor.domain.buckets import BUCKETS, bucket_of
from advisor.engine.frames import framed, read_frames
from advisor.errors import StateDamaged, StorageFailed
from advisor.storage.log import replace_file

NAME = "layout"
BUCKETS_A_MOVE = 64  # that rows wait for together: some 1,500 of 100,000 components, 10 MB


@dataclass(frozen=True, slots=True)
class Move:
    """Buckets that go from one shard to another."""

    source: int
    target: int
    buckets: frozenset[int]


class Layout(Struct, frozen=True):
    """Buckets by shard."""

    version: int  # grows with each change; 0: not every shard has a state yet
    shards: int  # there are shards 0 to `shards` - 1
    owner: tuple[int, ...]  # the shard of each bucket
    removed: dict[str, int] = {}  # counters of shards that were removed

    @classmethod
    def even(cls, shards: int) -> Layout:
        """Return the layout of a new state."""
        return cls(0, shards, tuple(bucket * shards // BUCKETS for bucket in range(BUCKETS)))

    def shard_of(self, name: str) -> int:
        """Return the shard of a name; raises InvalidValue."""
        return self.owner[bucket_of(name)]

    def buckets_of(self, shard: int) -> frozenset[int]:
        """Return the buckets of a shard."""
        return frozenset(bucket for bucket, owner in enumerate(self.owner) if owner == shard)

    def after(self, **changed: Any) -> Layout:
        """Return the next layout."""
        return replace(self, version=self.version + 1, **changed)

    def moved(self, move: Move) -> Layout:
        """Return the layout in which the target has what moved."""
        return self.after(
            owner=tuple(move.target if bucket in move.buckets else owner for bucket, owner in enumerate(self.owner))
        )

    def save(self, folder: Path) -> None:
        """Write it, whole or not at all. Raises StorageFailed."""
        try:
            replace_file(folder / NAME, framed(NAME, msgpack.encode(self)))
        except OSError as error:
            raise StorageFailed(f"the layout cannot be written: {error}", field="state", value=str(folder)) from error

    @classmethod
    def load(cls, folder: Path) -> Layout | None:
        """Return the layout of a folder; None where there is no state yet. Raises StateDamaged."""
        path = folder / NAME
        if not path.exists():
            if any(folder.glob("shard-*")):
                raise StateDamaged(f"{path} is missing, and shards are there", hint="restore the whole folder")
            return None
        frame = next(read_frames(path.read_bytes()), None)
        if frame is None or frame.data is None:
            raise StateDamaged(f"{path} does not read", hint="restore the whole folder")
        return msgpack.decode(frame.data, type=cls)


def moves(owner: Sequence[int], shards: int) -> list[Move]:
    """Return the fewest moves, slice by slice, after which shards 0 to `shards` - 1 have all buckets, the same number each.

    The numbers differ by one at most, and no bucket moves that need not.
    """
    have = Counter(owner)
    room = dict.fromkeys(range(shards), BUCKETS // shards)
    for shard in sorted(room, key=lambda each: -have[each])[: BUCKETS % shards]:
        room[shard] += 1
    surplus: list[int] = []
    for bucket, shard in enumerate(owner):
        if room.get(shard, 0) > 0:
            room[shard] -= 1
        else:
            surplus.append(bucket)
    targets = [shard for shard in range(shards) for _ in range(room[shard])]
    due: dict[tuple[int, int], list[int]] = {}
    for bucket, target in zip(sorted(surplus, key=lambda bucket: owner[bucket]), targets, strict=True):
        due.setdefault((owner[bucket], target), []).append(bucket)
    return [
        Move(*pair, frozenset(buckets[start : start + BUCKETS_A_MOVE]))
        for pair, buckets in due.items()
        for start in range(0, len(buckets), BUCKETS_A_MOVE)
    ]
