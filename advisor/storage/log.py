"""The log of a state, and the marker of its last acknowledged commit.

The log has a frame for each commit, labelled by its number: the digest of all up to it, then what was applied. A file is named
by its first number. It begins at a start and where an image ends. Files whose commits are all in the image are removed.

A log that was cut, lost or exchanged reads like a shorter one. The marker, a file of its own, holds the number and digest of
the last acknowledged commit, and so shows what is missing. It has two records in sectors of their own, written in turn: a
write that is cut leaves the record before. A record is written before the commit is acknowledged, and synced behind the
acknowledgement, at the latest before the next record: a kill finds the last one, a power cut that or the one before.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from advisor.engine.frames import framed, read_frames

INFIX = "-log-"
SUFFIX = "-marker"
SECTOR = 4096  # bytes a record: the largest unit that disks write whole
RECORDS = 2
DIGEST_BYTES = 16
NO_DIGEST = bytes(DIGEST_BYTES)


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """One commit; its digest covers all commits before it."""

    identity: bytes = NO_DIGEST  # 16 random bytes of this state; a copy that goes on by itself takes others
    number: int = 0
    digest: bytes = NO_DIGEST

    def after(self, data: bytes) -> Commit:
        """Return the commit that follows with these bytes. Cost O(bytes)."""
        summed = hashlib.blake2b(self.digest, digest_size=DIGEST_BYTES)
        summed.update(data)
        return Commit(self.identity, self.number + 1, summed.digest())

    def encode(self) -> bytes:
        """Return a record of the marker."""
        return framed("marker", msgspec.msgpack.encode(self))


@dataclass(frozen=True, slots=True)
class LogContents:
    """The records of a log up to the first one that is not whole."""

    entries: tuple[bytes, ...]
    commit: Commit  # the last
    before: bytes  # the digest of the one before it
    ends: dict[Path, int]  # the bytes of each file that are whole


def log_files(state: Path) -> list[Path]:
    """Return the files of a log in their order."""
    found = (each for each in state.parent.glob(f"{state.name}{INFIX}*") if each.name.rpartition("-")[2].isdigit())
    return sorted(found, key=lambda each: int(each.name.rpartition("-")[2]))


def read_log(state: Path, start: Commit, before: bytes) -> LogContents:
    """Return what was applied since an image of commit `start`. Raises OSError."""
    entries: list[bytes] = []
    commit, ends = start, dict[Path, int]()
    for file in log_files(state):
        ends[file] = 0
        for label, data, end in read_frames(file.read_bytes()):
            if data is None:
                break
            digest, entry, number = data[:DIGEST_BYTES], data[DIGEST_BYTES:], int(label)
            after = commit.after(entry) if number == commit.number + 1 else None
            if after is not None and after.digest == digest:
                before, commit = commit.digest, after
                entries.append(entry)
            elif number > start.number:
                return LogContents(tuple(entries), commit, before, ends)
            ends[file] = end
    return LogContents(tuple(entries), commit, before, ends)


class Log:
    """The file that records are appended to."""

    def __init__(self, state: Path, first: int) -> None:
        """Begin the file whose first record has this number; raises OSError."""
        self.path = state.with_name(f"{state.name}{INFIX}{first:016d}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self.descriptor = os.open(self.path, flags, 0o600)
        self.end = 0
        self._whole = True
        sync_directory(state)

    def append(self, commit: Commit, entries: Sequence[bytes]) -> tuple[Commit, bytes]:
        """Write entries behind a commit and sync once; return the last commit and the digest before it.

        Raises OSError: the file then counts as it was, and the next call cuts off what came behind.
        """
        parts: list[bytes] = []
        before = commit.digest
        for data in entries:
            before, commit = commit.digest, commit.after(data)
            parts.append(framed(str(commit.number), commit.digest + data))
        record = memoryview(b"".join(parts))
        if not self._whole:
            os.ftruncate(self.descriptor, self.end)
        self._whole, end = False, self.end
        while record:
            written = os.pwrite(self.descriptor, record, end)
            record, end = record[written:], end + written
        os.fdatasync(self.descriptor)
        self._whole, self.end = True, end
        return commit, before

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Marked:
    """Contents of a marker: its last commit, None where no record is whole; and whether a record is damaged."""

    last: Commit | None
    damaged: bool


class Marker:
    """The marker of a state that is open for writing."""

    def __init__(self, state: Path, *, new: Commit | None = None) -> None:
        """Open the marker of a state, or make it with a commit that no reply rests on yet; raises OSError."""
        self.path = marker_path(state)
        self._synced = True
        if new is not None:
            replace_file(self.path, new.encode().ljust(SECTOR, b"\0") * RECORDS)
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def fill(self, commit: Commit) -> None:
        """Write a commit into both records, one after the other."""
        self.write_commit(commit)
        self.write_commit(commit, other=1)
        self.sync()

    def write_commit(self, commit: Commit, *, other: int = 0) -> None:
        """Write one record, the one before having been synced; raises OSError."""
        self.sync()
        self._synced = False
        os.pwrite(self.descriptor, commit.encode(), (commit.number + other) % RECORDS * SECTOR)

    def sync(self) -> None:
        """Have the disk keep the record that was written; raises OSError."""
        if not self._synced:
            os.fdatasync(self.descriptor)
        self._synced = True

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def marker_path(state: Path) -> Path:
    """Return the path of a state's marker."""
    return state.with_name(state.name + SUFFIX)


def read_marker(state: Path) -> Marked | None:
    """Return the contents of a state's marker; None where there is none. Raises OSError."""
    try:
        data = marker_path(state).read_bytes()
    except FileNotFoundError:
        return None
    found = [_decode_marker(data[at * SECTOR : (at + 1) * SECTOR]) for at in range(RECORDS)]
    whole = [commit for commit in found if commit is not None]
    last = max(whole, key=lambda commit: commit.number, default=None)
    return Marked(last, len(whole) < RECORDS or len({commit.identity for commit in whole}) > 1)


def _decode_marker(sector: bytes) -> Commit | None:
    record = next(read_frames(sector), None)
    return None if record is None or record.data is None else msgspec.msgpack.decode(record.data, type=Commit)


def missing_commits(marked: Marked | None, commit: Commit, before: bytes) -> str:
    """Return in words what was acknowledged and is not there; "" where nothing is missing.

    `commit`: the last one found, number 0 where there is none. `before`: the digest of the one before it.
    """
    last = None if marked is None else marked.last
    if marked is None or (last is not None and last.number == 0 and not marked.damaged):
        if not commit.number or (last is not None and last.identity == commit.identity):  # no reply rests on it
            return ""
        return (
            f"its commit marker is gone, and perhaps its log: it holds {commit.number} commits, and whether more were "
            "acknowledged is not known"
        )
    if last is None:
        return "its commit marker is damaged: whether all that was acknowledged is there is not known"
    if commit.identity != last.identity or not commit.number:
        return f"it is not the state that its commit marker belongs to, which acknowledged {last.number} commits"
    behind = last.number - commit.number
    if behind > 0:
        return (
            f"it holds {commit.number} commits, and {last.number} were acknowledged: the last {behind} are gone; its log was "
            "lost, cut or damaged, or it is older"
        )
    if marked.damaged and behind == 0:  # a write that was cut was of the commit behind the record that is whole
        return "its commit marker is damaged: whether all that was acknowledged is there is not known"
    if (behind == 0 and commit.digest != last.digest) or (behind == -1 and before != last.digest):
        return f"its commit {last.number} is not the one that was acknowledged"
    return ""


def replace_file(path: Path, data: bytes) -> None:
    """Make a file of these bytes, durably: whole, or as it was. Raises OSError."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with open(fresh, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    sync_directory(path)


def sync_directory(path: Path) -> None:
    """Make the file's name itself durable."""
    descriptor = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
