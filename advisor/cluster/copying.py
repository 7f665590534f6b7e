"""A copy of a shard's state: a base, which is the state file as it was, and an object for each commit since.

An object of a commit is there before the commit is in the state file, so a copy is never behind the file, and one commit ahead
of it at most, where the process was killed between the two. Whoever opens a shard begins an epoch; what a former process
writes after that, which the front takes for lost, has the former epoch in its name and counts for nothing.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.objects import Objects
from advisor.engine.snapshot import Snapshot, TablePages
from advisor.errors import AdvisorError, StateDamaged
from advisor.service.logs import event

BASE, COMMIT, OPENED = "base", "commit", "opened"
ENTRY, PAGES = b"E", b"P"
LENGTH_BYTES: Final = 8
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
            self.level = level
            self.put_base(state(), wait=True)
        return lacking

    def base(self) -> bytes | None:
        """Return the state file that the commits go on from; None: an empty one. Raises StateDamaged."""
        return None if self._base is None else self._read(self._base)

    def commits(self, last: int = 0) -> list[bytes | Snapshot]:
        """Return the last commits, or all since the base, in order: entries of the journal, or pages. Raises StateDamaged."""
        return [_decoded(self._read(each)) for each in self._commits[-last:]]

    def _read(self, named: Named) -> bytes:
        found = self._objects.get(named.name)
        if found is None:
            raise StateDamaged(f"{named.name} of a copy is gone")
        return found

    def put(self, commit: bytes | Snapshot) -> None:
        """Take the next commit, an entry or pages; it is durable when this returns. Raises StorageFailed."""
        parts, named = _encoded(commit), Named(COMMIT, self._epoch, self.level + 1)
        self._objects.put(named.name, *parts)
        self._commits.append(named)
        self.level += 1
        self._bytes += sum(map(len, parts))

    @property
    def due(self) -> bool:
        """True when a base should be written: a start would take long, and objects take room."""
        idle = self._writing is None or self._writing.done()
        return idle and (self._bytes > BYTES_MAX + 2 * self._base_bytes or len(self._commits) > COMMITS_MAX)

    def put_base(self, data: bytes, *, wait: bool = False) -> None:
        """Write the state file, when no pages are on their way into it, as the new base, and remove what it replaces."""
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


def _encoded(commit: bytes | Snapshot) -> list[bytes | memoryview]:
    """Return an entry as it is, behind its mark; pages as a head of JSON, and the bytes of their arrays and documents."""
    if isinstance(commit, bytes):
        return [ENTRY, commit]
    arrays = [np.ascontiguousarray(part) for each in commit.tables for part in (each.pages, each.words, each.changed)]
    head = {
        "tables": [[each.table, each.layout, *each.words.shape] for each in commit.tables], "names": commit.names,
        "producers": [[name, own.hex(), number] for (name, own), number in commit.producers.items()],
        "producers_gone": [[name, own.hex()] for name, own in commit.producers_gone], "totals": dict(commit.totals),
        "documents": [[name, len(data)] for name, data in commit.documents.items()],
        "documents_gone": commit.documents_gone,
    }  # fmt: skip
    told = json.dumps(head).encode()
    length = len(told).to_bytes(LENGTH_BYTES, "little")
    return [PAGES, length, told, *(array.data.cast("B") for array in arrays if array.size), *commit.documents.values()]


def _decoded(data: bytes) -> bytes | Snapshot:
    if data[:1] != PAGES:
        return data[1:]
    at = 1 + LENGTH_BYTES + int.from_bytes(data[1 : 1 + LENGTH_BYTES], "little")
    head: dict[str, Any] = json.loads(data[1 + LENGTH_BYTES : at])

    def cut(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    def words(*shape: int) -> NDArray[np.uint64]:
        return np.frombuffer(cut(8 * math.prod(shape)), np.uint64).reshape(shape)

    return Snapshot(
        tables=tuple(
            TablePages(table, layout, words(shape[0]).view(np.int64), words(*shape), words(shape[0]))
            for table, layout, *shape in head["tables"]
        ),
        names=tuple((slot, name) for slot, name in head["names"]),
        producers={(name, bytes.fromhex(own)): number for name, own, number in head["producers"]},
        producers_gone=tuple((name, bytes.fromhex(own)) for name, own in head["producers_gone"]),
        totals=head["totals"], documents={name: cut(size) for name, size in head["documents"]},
        documents_gone=tuple(head["documents_gone"]),
    )  # fmt: skip
