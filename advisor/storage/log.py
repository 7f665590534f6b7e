"""The log: records of what was applied, in files named by their first number, each with the digest of all before it.

A file begins at a start and where an image ends. Files whose records are all in the image are removed.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.storage.marker import Commit, sync_directory

INFIX = "-log-"
HEAD = struct.Struct("<IQ16s")  # bytes of the entry, number, digest; then a CRC-32 of these
SUM = struct.Struct("<I")
RECORD_BYTES = HEAD.size + SUM.size  # of a record beside its entry


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
        for number, digest, data in _records(file.read_bytes()):
            after = commit.after(data) if number == commit.number + 1 else None
            if after is not None and after.digest == digest:
                before, commit = commit.digest, after
                entries.append(data)
            elif number > start.number:
                return LogContents(tuple(entries), commit, before, ends)
            ends[file] += RECORD_BYTES + len(data)
    return LogContents(tuple(entries), commit, before, ends)


def _records(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    at = 0
    while len(data) - at >= RECORD_BYTES:
        head = data[at : at + HEAD.size]
        length, number, digest = HEAD.unpack(head)
        at += RECORD_BYTES
        if SUM.unpack_from(data, at - SUM.size)[0] != zlib.crc32(head) or at + length > len(data):
            return
        yield number, digest, data[at : at + length]
        at += length


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
            head = HEAD.pack(len(data), commit.number, commit.digest)
            parts += head, SUM.pack(zlib.crc32(head)), data
        record = b"".join(parts)
        if not self._whole:
            os.ftruncate(self.descriptor, self.end)
        self._whole = False
        write_all(self.descriptor, record, self.end)
        os.fdatasync(self.descriptor)
        self.end += len(record)
        self._whole = True
        return commit, before

    def close(self) -> None:
        """Close the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write bytes at an offset; raises OSError."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
