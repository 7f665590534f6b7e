"""A shard's state in a folder of its node, and in copies elsewhere: all have a commit before it is acknowledged.

Each commit is counted by a number in the state itself. Copies have it first, so a process that is killed between leaves the
state file one commit behind: it is given that commit when it is opened again, or the whole state where that is not enough.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from advisor.cluster.copying import Copied
from advisor.cluster.objects import objects_at
from advisor.engine import Engine, state_bytes
from advisor.engine.exactly_once import Producer
from advisor.engine.state_bytes import Block
from advisor.errors import StateDamaged, StateLocked
from advisor.storage import Store

COMMITS: Final[Producer] = ("commits", b"")  # no peer's: those have incarnations of 16 bytes
FILE: Final = "state"
LOCKED_S: Final = 20.0  # that a process which is being killed may keep its state open
LOCKED_LOOK_S: Final = 0.02


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
        self._limits = limits
        self._store, self.engine = self._open()
        try:
            self._copies = [Copied(each) for each in objects]
            self._catch_up()
            if not self._store.commits:  # copies know a state by its identity
                self._store.save(self.engine.commits.image())
            for place, copy in zip(places[1:], self._copies, strict=True):
                if copy.begin(self.level, self._store.identity, self._bytes):
                    self.mended.append(f"{place}: the whole state")
        except BaseException:
            self._store.close()
            raise
        self.engine.commits.keep_journal()

    @property
    def level(self) -> int:
        """Commits so far."""
        return self.engine.applied(*COMMITS)

    def _bytes(self) -> bytes:
        """Return the state as a copy begins with it."""
        return state_bytes.to_bytes(self.engine.state.blocks())

    def _open(self) -> tuple[Store, Engine]:
        end = self._clock() + LOCKED_S
        while True:
            try:
                store = Store.open(self._folder / FILE)
                stored = store.load()
                return store, Engine(**self._limits) if stored is None else Engine.restore(stored, **self._limits)
            except StateLocked:
                if self._clock() > end:
                    raise
                time.sleep(LOCKED_LOOK_S)
            except StateDamaged as error:
                aside = self._folder.with_name(f"{self._folder.name}.damaged-{time.time_ns()}")
                self._folder.rename(aside)
                self.mended.append(f"{self._folder}: damaged ({error}), put aside as {aside.name}")

    def _catch_up(self) -> None:
        """Give the state file what only a copy has."""
        best, level = max(self._copies, key=lambda copy: copy.level, default=None), self.level
        if best is None or not best.level:
            return
        own = level == 0 or best.identity == self._store.identity
        if best.level < level or (own and best.level == level):
            return
        entries = best.entries()
        one = own and level == best.level - 1 and bool(entries)
        if not one:  # of another node, which was lost, or of long ago
            self._store.close()
            if self._folder.exists():
                self._folder.rename(self._folder.with_name(f"{self._folder.name}.aside-{time.time_ns()}"))
            self._store, _ = self._open()
            base = best.base()
            blocks = () if base is None else state_bytes.frames(base[len(state_bytes.MAGIC) :])
            self._store.save(Block(f"block {at} of a copy", data) for at, data in enumerate(blocks) if data)
        self.mended.append(f"{self._folder}: {'one commit' if one else 'the whole state'}")
        for entry in entries[-int(one) :]:
            self._store.append(entry)
        self._store.close()
        self._store, self.engine = self._open()

    def commit(self) -> int:
        """Make all that was applied durable in every place; return the commit's number.

        Raises StorageFailed when one cannot be written. The engine is then ahead of it: whoever drives it ends.
        """
        self.engine.advance(COMMITS, self.level + 1)
        entry = self.engine.commits.take_entry()
        blocks = self.engine.commits.image() if entry is None or self._store.image_due else []
        data = None if entry is None else entry.encode()
        for place in (*self._copies, self._store):
            _write(place, data, blocks, self.level)
        self._store.write_on()
        for copy in self._copies:
            if copy.due:
                copy.put_base(self._bytes(), self.level)
        return self.level

    def close(self) -> None:
        """Let go of the places; nothing committed depends on it."""
        self._store.close()
        for copy in self._copies:
            copy.close()


def _write(place: Store | Copied, entry: bytes | None, blocks: list[Block], level: int) -> None:
    if isinstance(place, Store):
        if entry is None:
            place.save(blocks)
        else:
            place.append(entry, blocks)
    elif entry is None:
        place.put_base(state_bytes.to_bytes(blocks), level, wait=True)
    else:
        place.put(entry)
