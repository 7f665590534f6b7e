"""A shard's state in a folder of its node, and in copies elsewhere: all have a commit before it is acknowledged.

Each commit is counted by a number in the state itself. Copies have it first, so a process that is killed between leaves the
state file one commit behind: it is given that commit when it is opened again, or the whole state where that is not enough.
"""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from advisor.cluster.copying import Copied
from advisor.cluster.objects import objects_at
from advisor.engine import Engine
from advisor.engine.exactly_once import Producer
from advisor.engine.journal import Entry
from advisor.engine.snapshot import Snapshot
from advisor.errors import StateDamaged, StateLocked, StorageFailed
from advisor.storage import Store
from advisor.storage.schema import WIDE_PAGE_BYTES

COMMITS: Final[Producer] = ("commits", b"")  # no peer's: those have incarnations of 16 bytes
FILE: Final = "state"
LOCKED_S: Final = 20.0  # that a process which is being killed may keep its state open
LOCKED_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Written:
    """The bytes of an entry, as a store appends it."""

    data: bytes
    empty: bool = False

    def encode(self) -> bytes:
        return self.data


def level_of(snapshot: Snapshot | None) -> int:
    """Return how many commits a state has seen."""
    if snapshot is None:
        return 0
    for data in reversed(snapshot.journal):
        (length,) = struct.unpack_from("<4xI", data)
        for name, own, number in json.loads(data[8 : 8 + length])["producers"]:
            if (name, bytes.fromhex(own)) == COMMITS:
                return number
    return snapshot.producers.get(COMMITS, 0)


class Keeping:
    """An engine and where it is kept.

    `places`: of this shard: a folder of the node, and of each copy a folder or the URL of a store. `limits`: as `Engine`
    takes them. `anew`: remove what is there.
    """

    def __init__(
        self, places: Sequence[str], limits: dict[str, Any], *, anew: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.mended: list[str] = []  # what was done to bring the places to one state
        self._folder, self._clock = Path(places[0]), clock
        objects = [objects_at(place) for place in places[1:]]
        if anew:
            shutil.rmtree(self._folder, ignore_errors=True)
            for each in objects:
                Copied(each).remove()
        self._store, snapshot = self._open()
        try:
            self._copies = [Copied(each) for each in objects]
            snapshot = self._caught_up(snapshot)
            self.engine = Engine(**limits) if snapshot is None else Engine.restore(snapshot, **limits)
            for place, copy in zip(places[1:], self._copies, strict=True):
                if copy.begin(self.level, self._store.identity, self._store.image):
                    self.mended.append(f"{place}: the whole state")
        except BaseException:
            self._store.close()
            raise
        self.engine.commits.keep_journal()

    @property
    def level(self) -> int:
        """Commits so far."""
        return self.engine.applied(*COMMITS)

    def _open(self) -> tuple[Store, Snapshot | None]:
        end = self._clock() + LOCKED_S
        while True:
            try:
                store = Store.open(self._folder / FILE, page_bytes=WIDE_PAGE_BYTES)
                return store, store.load()
            except StateLocked:
                if self._clock() > end:
                    raise
                time.sleep(LOCKED_LOOK_S)
            except StateDamaged as error:
                aside = self._folder.with_name(f"{self._folder.name}.damaged-{time.time_ns()}")
                self._folder.rename(aside)
                self.mended.append(f"{self._folder}: damaged ({error}), put aside as {aside.name}")

    def _caught_up(self, snapshot: Snapshot | None) -> Snapshot | None:
        """Return the state with what only a copy has, after writing that into the state file."""
        best, level = max(self._copies, key=lambda copy: copy.level, default=None), level_of(snapshot)
        if best is None or not best.level:
            return snapshot
        own = level == 0 or best.identity == self._store.identity
        if best.level < level or (own and best.level == level):
            return snapshot
        one = own and level == best.level - 1
        if not one:  # of another node, which was lost, or of long ago
            self._store.close()
            self._folder.rename(self._folder.with_name(f"{self._folder.name}.aside-{time.time_ns()}"))
            if base := best.base():
                self._folder.mkdir(mode=0o700, parents=True)
                (self._folder / FILE).write_bytes(base)
            self._store, _ = self._open()
        self.mended.append(f"{self._folder}: {'one commit' if one else 'the whole state'}")
        for commit in best.commits(int(one)):
            if isinstance(commit, Snapshot):
                self._store.commit(commit)
            else:
                self._store.append(cast("Entry", _Written(commit)))
        self._store.close()
        self._store, snapshot = self._open()
        return snapshot

    def commit(self) -> int:
        """Make all that was applied durable in every place; return the commit's number.

        Raises StorageFailed when one cannot be written. The engine is then ahead of it: whoever drives it ends.
        """
        self.engine.advance(COMMITS, self.level + 1)
        entry = self.engine.commits.take_entry()
        snapshot: Snapshot | None = None
        if entry is None or self._store.journal_full:
            if (cut_off := self._store.give_up()) is not None:
                self.engine.commits.count_again(cut_off)
            snapshot = self.engine.commits.snapshot()
        if entry is not None:
            entry = cast("Entry", _Written(b"" if entry.empty else entry.encode(), entry.empty))  # once for all places
        for place in (*self._copies, self._store):
            _write(place, entry, snapshot)
        for copy in self._copies:
            if copy.due and not self._store.writes_on:
                copy.put_base(self._store.image())
        return self.level

    def close(self) -> None:
        """Let go of the places; nothing committed depends on it."""
        self._store.close()
        for copy in self._copies:
            copy.close()


def _write(place: Store | Copied, entry: Entry | None, snapshot: Snapshot | None) -> None:
    if isinstance(place, Copied):
        place.put(snapshot or cast("Entry", entry).encode())  # pages have in them what happened before
    elif entry is None or (snapshot is not None and not place.takes_beside(snapshot)):
        if snapshot is None:
            raise StorageFailed("nothing was taken to be written", field="state")
        place.commit(snapshot)
    else:
        place.append(entry, snapshot)
