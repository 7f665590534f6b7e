"""A copy of a shard's state: a base, which is the state as it was, and an object for each commit since, an entry of the log.

An object of a commit is there before the commit is in the state file, so a copy is never behind the file, and one commit ahead
of it at most, where the process was killed between the two. Whoever opens a shard begins an epoch; what a former process
writes after that, which the front takes for lost, has the former epoch in its name and counts for nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from advisor.cluster.objects import Objects
from advisor.errors import AdvisorError, StateDamaged
from advisor.service.logs import event

BASE, COMMIT, OPENED = "base", "commit", "opened"
BYTES_MAX: Final = 2**27  # of commits since the base, and twice that of the base: a new one is due
COMMITS_MAX: Final = 4_096  # as many requests of a store a start takes, some ten seconds


class Named(NamedTuple):
    """What an object is: `level` counts the commits that it has in it, for OPENED those that the epoch began with."""

    kind: str
    epoch: int
    level: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.epoch:08d}-{self.level:016d}"


class Copied:
    """A copy."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._bytes = self._base_bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None
        found = self._there()
        self._epoch = max((each.epoch for each in found), default=0)
        opened = sorted(each for each in found if each.kind == OPENED)
        self.identity = objects.get(opened[-1].name) if opened else None  # of the state file that went on beside it
        # what was written after a later epoch had gone on from before it is of a process that was taken for lost
        counts = [each for each in found if all(o.level >= each.level for o in opened if o.epoch > each.epoch)]
        self._base = max((each for each in counts if each.kind == BASE), key=lambda each: each.level, default=None)
        self.level = 0 if self._base is None else self._base.level  # commits that it has
        commits = {each.level: each for each in counts if each.kind == COMMIT}
        self._commits: list[Named] = []
        while (following := commits.get(self.level + 1)) is not None:
            self._commits.append(following)
            self.level += 1
        if self._commits and not self._whole(self._commits[-1]):  # its writer was killed
            self._commits.pop()
            self.level -= 1

    def _there(self) -> list[Named]:
        return [named for name in self._objects.names() if (named := _named(name)) is not None]

    def _whole(self, named: Named) -> bool:
        try:
            return self._objects.get(named.name) is not None
        except StateDamaged:
            return False

    def begin(self, level: int, identity: bytes, state: Callable[[], bytes]) -> bool:
        """Begin an epoch at a level; return whether the copy lacked it, and a base was written of the state file."""
        self._epoch += 1
        self._objects.put(Named(OPENED, self._epoch, level).name, identity)
        if lacking := self.level != level:
            self.put_base(state(), level, wait=True)
        return lacking

    def base(self) -> bytes | None:
        """Return the state that the commits go on from; None: an empty one. Raises StateDamaged."""
        return None if self._base is None else self._read(self._base)

    def entries(self) -> list[bytes]:
        """Return the commits since the base, in order: entries of the log. Raises StateDamaged."""
        return [self._read(each) for each in self._commits]

    def _read(self, named: Named) -> bytes:
        found = self._objects.get(named.name)
        if found is None:
            raise StateDamaged(f"{named.name} of a copy is gone")
        return found

    def put(self, entry: bytes) -> None:
        """Take the next commit; it is durable when this returns. Raises StorageFailed."""
        named = Named(COMMIT, self._epoch, self.level + 1)
        self._objects.put(named.name, entry)
        self._commits.append(named)
        self.level += 1
        self._bytes += len(entry)

    @property
    def due(self) -> bool:
        """True when a base should be written: a start would take long, and objects take room."""
        idle = self._writing is None or self._writing.done()
        return idle and (self._bytes > BYTES_MAX + 2 * self._base_bytes or len(self._commits) > COMMITS_MAX)

    def put_base(self, data: bytes, level: int, *, wait: bool = False) -> None:
        """Write the state at a level as the new base, and remove what it replaces."""
        self.level = level
        base = self._base = Named(BASE, self._epoch, self.level)
        self._commits, self._bytes, self._base_bytes = [], 0, len(data)

        def write() -> None:
            self._objects.put(base.name, data)
            self._objects.remove(
                each.name for each in self._there()
                if each.epoch < base.epoch or (each.kind != OPENED and each.level <= base.level and each != base)
            )  # fmt: skip

        if wait:
            write()
            return
        self._thread = self._thread or ThreadPoolExecutor(1, "base")
        self._writing = self._thread.submit(_tried, write)

    def remove(self) -> None:
        """Remove all of it."""
        self._objects.remove(each.name for each in self._there())

    def close(self) -> None:
        """Wait for a base that is being written."""
        if self._thread is not None:
            self._thread.shutdown()


def _tried(write: Callable[[], None]) -> None:
    try:
        write()
    except (
        AdvisorError
    ) as error:  # the former one is there still, with all commits since; another one is tried when it is due
        event(logging.ERROR, "a base of a copy cannot be written", reason=error)


def _named(name: str) -> Named | None:
    kind, *numbers = name.split("-")
    if kind not in (BASE, COMMIT, OPENED) or len(numbers) != 2 or not all(each.isdigit() for each in numbers):
        return None
    return Named(kind, *map(int, numbers))
