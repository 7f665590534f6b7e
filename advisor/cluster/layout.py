"""Which shard has which bucket of names: a map with a version, kept in a file beside the shards' states."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.cluster.objects import Objects
from advisor.domain.buckets import BUCKETS, bucket_of
from advisor.errors import StateDamaged

NAME = "layout"
BUCKETS_A_MOVE = 64  # that rows wait for together: some 1,500 of 100,000 components, 10 MB


@dataclass(frozen=True, slots=True)
class Move:
    """Buckets on their way from one shard to another."""

    source: int
    target: int
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Buckets by shard."""

    version: int  # grows with each change
    shards: int  # there are shards 0 to `shards` - 1
    owner: tuple[int, ...]  # the shard of each bucket
    begun: bool = False  # the shards have states: one without is one that was lost
    moving: Move | None = None  # the target may have taken these buckets in, but their source still has them
    leaving: Move | None = None  # the target has these buckets; their source may have them, too
    retired: Mapping[str, int] = field(default_factory=dict[str, int])  # what shards that are no more have counted

    @classmethod
    def even(cls, shards: int) -> Layout:
        """Return the layout of a new state."""
        return cls(1, shards, tuple(bucket * shards // BUCKETS for bucket in range(BUCKETS)))

    def shard_of(self, name: str) -> int:
        """Return whose a name is; raises InvalidValue."""
        return self.owner[bucket_of(name)]

    def after(self, **changed: Any) -> Layout:
        """Return the next layout."""
        return replace(self, version=self.version + 1, **changed)

    def moved(self, move: Move) -> Layout:
        """Return the layout in which the target has what moved, and the source has to let it go."""
        owner = list(self.owner)
        for bucket in move.buckets:
            owner[bucket] = move.target
        return self.after(owner=tuple(owner), moving=None, leaving=move)

    def save(self, places: Iterable[Objects]) -> None:
        """Write it into each place, whole or not at all."""
        told = {name: getattr(self, name) for name in ("version", "shards", "owner", "begun", "retired")}
        for name in ("moving", "leaving"):
            move: Move | None = getattr(self, name)
            told[name] = None if move is None else [move.source, move.target, move.buckets]
        for place in places:
            place.put(NAME, json.dumps(told).encode())

    @classmethod
    def load(cls, places: Iterable[Objects]) -> Layout | None:
        """Return the latest that some place has; None where there is none. Raises StateDamaged."""
        found = [cls._read(data) for place in places if (data := place.get(NAME)) is not None]
        return max(found, key=lambda each: each.version, default=None)

    @classmethod
    def _read(cls, data: bytes) -> Layout:
        try:
            told = json.loads(data)
            for name in ("moving", "leaving"):
                told[name] = told[name] and Move(told[name][0], told[name][1], tuple(told[name][2]))
            found = cls(**told | {"owner": tuple(told["owner"])})
            good = len(found.owner) == BUCKETS and 0 <= min(found.owner) <= max(found.owner) < found.shards
        except (ValueError, KeyError, TypeError) as error:
            raise StateDamaged(
                f"the layout does not read: {error}", hint="put the one of the copy in its place"
            ) from error
        if not good:
            raise StateDamaged(
                "the layout has not an owner of each bucket", hint="put the one of the copy in its place"
            )
        return found


def bucket_of_producer(name: str) -> int:
    """Return the bucket of the profiles of a producer's runs; that of events without a producer is 0."""
    return bucket_of(name) if name else 0


def moves(owner: Sequence[int], shards: int) -> list[Move]:
    """Return the fewest moves, slice by slice, after which shards 0 to `shards` - 1 have all buckets, the same number each.

    The numbers differ by one at most, and no bucket moves that need not.
    """
    have = Counter(owner)
    room = dict.fromkeys(range(shards), BUCKETS // shards)
    for shard in sorted(room, key=lambda each: -have[each])[: BUCKETS % shards]:
        room[shard] += 1
    spare: dict[int, list[int]] = {}
    for bucket, shard in enumerate(owner):
        if room.get(shard, 0) > 0:
            room[shard] -= 1
        else:
            spare.setdefault(shard, []).append(bucket)
    found: list[Move] = []
    for source, buckets in sorted(spare.items()):
        for target in sorted(room):
            taken = [buckets.pop(0) for _ in range(min(room[target], len(buckets)))]
            room[target] -= len(taken)
            found += [
                Move(source, target, tuple(taken[start : start + BUCKETS_A_MOVE]))
                for start in range(0, len(taken), BUCKETS_A_MOVE)
            ]
    return found
