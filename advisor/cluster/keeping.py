"""A shard's state in its folder and in a second one: both have it before anything is acknowledged.

Each commit is counted by a number in the state itself. A process that is killed between the two leaves one of them a commit
behind: when they are opened again it is given that commit, or the whole state where that is not enough.
"""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from advisor.engine import Engine
from advisor.engine.exactly_once import Producer
from advisor.engine.journal import Entry
from advisor.engine.snapshot import Snapshot
from advisor.errors import StateDamaged, StateLocked, StorageFailed
from advisor.storage import Store

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

    Parameters
    ----------
    folders : sequence of Path
        Of this shard; the first is the nearest. None: nothing is kept.
    limits : mapping
        As `Engine` takes them.
    """

    def __init__(
        self, folders: Sequence[Path], limits: dict[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.mended: list[str] = []  # what was done to bring the folders to one state
        opened = [self._open(folder, clock) for folder in folders]
        levels = [level_of(snapshot) for _, snapshot in opened]
        best = max(range(len(opened)), key=lambda at: levels[at], default=None)
        snapshot = None if best is None else opened[best][1]
        self.engine = Engine(**limits) if snapshot is None else Engine.restore(snapshot, **limits)
        self._stores = [store for store, _ in opened]
        behind: list[int] = []
        for at, level in enumerate(levels):
            last = snapshot.journal[-1:] if snapshot is not None else ()
            if level == max(levels):
                continue
            if level and level == max(levels) - 1 and last:
                self._stores[at].append(cast("Entry", _Written(last[0])))
                self.mended.append(f"{folders[at]}: one commit")
            else:
                behind.append(at)
                self.mended.append(f"{folders[at]}: the whole state")
        if best is not None and behind:
            self._copy(folders, best, behind)
        if folders:
            self.engine.keep_journal()
        self._threads = ThreadPoolExecutor(max(1, len(folders) - 1), "copy")

    @property
    def level(self) -> int:
        """Commits so far."""
        return self.engine.applied(*COMMITS)

    def _open(self, folder: Path, clock: Callable[[], float]) -> tuple[Store, Snapshot | None]:
        end = clock() + LOCKED_S
        while True:
            try:
                store = Store.open(folder / FILE)
                return store, store.load()
            except StateLocked:
                if clock() > end:
                    raise
                time.sleep(LOCKED_LOOK_S)
            except StateDamaged as error:
                aside = folder.with_name(f"{folder.name}.damaged-{time.time_ns()}")
                folder.rename(aside)
                self.mended.append(f"{folder}: damaged ({error}), put aside as {aside.name}")

    def _copy(self, folders: Sequence[Path], best: int, behind: Sequence[int]) -> None:
        """Copy the file of one folder, closed, to others. A copy is a state of its own, with a witness of its own."""
        for at in (best, *behind):
            self._stores[at].close()
        for at in behind:
            shutil.rmtree(folders[at])
            folders[at].mkdir(mode=0o700, parents=True)
            shutil.copyfile(folders[best] / FILE, folders[at] / FILE)
        for at in (best, *behind):
            self._stores[at] = Store.open(folders[at] / FILE)
            self._stores[at].load()

    def commit(self) -> int:
        """Make all that was applied durable in every folder; return the commit's number.

        Raises StorageFailed when a folder cannot be written. The engine is then ahead of its folders: whoever drives it ends.
        """
        self.engine.advance(COMMITS, self.level + 1)
        entry = self.engine.take_entry()
        snapshot: Snapshot | None = None
        if self._stores and (entry is None or any(store.journal_full for store in self._stores)):
            for store in self._stores:
                if (cut_off := store.give_up()) is not None:
                    self.engine.count_again(cut_off)
            snapshot = self.engine.snapshot()
        if entry is not None:
            entry = cast("Entry", _Written(b"" if entry.empty else entry.encode(), entry.empty))  # once for all folders
        works = [self._threads.submit(_write, store, entry, snapshot) for store in self._stores[1:]]
        try:
            if self._stores:
                _write(self._stores[0], entry, snapshot)
        finally:
            for work in works:
                work.result()
        return self.level

    def close(self) -> None:
        """Let go of the folders; nothing committed depends on it."""
        self._threads.shutdown()
        for store in self._stores:
            store.close()

    def ready(self) -> None:
        """See that the files are those that a restart would find; raises StorageFailed."""
        for store in self._stores:
            store.look()


def _write(store: Store, entry: Entry | None, snapshot: Snapshot | None) -> None:
    if entry is None or (snapshot is not None and not store.takes_beside(snapshot)):
        if snapshot is None:
            raise StorageFailed("nothing was taken to be written", field="state")
        store.commit(snapshot)
    else:
        store.append(entry, snapshot)
