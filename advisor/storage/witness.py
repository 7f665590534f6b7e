"""The witness of the last commit: a file of its own, so that a log that was lost, cut or damaged is missed.

SQLite takes the first bad frame of its log for the end of it, and opens what came before as if nothing had been behind it. The
file ``<state>-witness`` therefore says which commit was the last: its number, the digest of its root row (which holds the
digest before it and the sums of all else, so that one digest speaks for the whole state), and the length of the journal then.
Two records in sectors of their own are written in turn, each synced before the commit is acknowledged; a write that is cut
leaves the one before.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import StorageFailed

SUFFIX = "-witness"
MAGIC = b"ADVW0001"
RECORD = struct.Struct("<8s16sQ16sQ")  # magic, id, number, digest, length; then a CRC-32 of them
SUM = struct.Struct("<I")
SECTOR = 4096  # of one record: the largest that disks write whole
RECORDS = 2
DIGEST_BYTES = 16
NO_DIGEST = bytes(DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as the state's root row and the witness both tell it."""

    identity: bytes  # 16 random bytes of this state; a copy that goes on by itself takes others
    number: int = 0  # commits since the state has a witness; 0 before the first
    digest: bytes = NO_DIGEST  # of its root row
    length: int = 0  # bytes of the journal's entries

    def encode(self) -> bytes:
        data = RECORD.pack(MAGIC, self.identity, self.number, self.digest, self.length)
        return data + SUM.pack(zlib.crc32(data))


@dataclass(frozen=True, slots=True)
class Testimony:
    """What a witness file says: its last commit, or None where no record is whole; and whether one is damaged."""

    last: Commit | None
    damaged: bool

    @property
    def silent(self) -> bool:
        """True before it has seen a commit."""
        return self.last is not None and self.last.number == 0 and not self.damaged


def digest(root: bytes) -> bytes:
    """Return the digest of a root row's data. Cost: a microsecond."""
    return hashlib.blake2b(root, digest_size=DIGEST_BYTES).digest()


class Witness:
    """The witness file of a state that is open to be written."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def make(cls, state: Path, commit: Commit) -> Witness:
        """Make it anew, whatever was there; it has seen this commit; raises StorageFailed."""
        path = beside(state)
        fresh = path.with_name(path.name + ".new")
        found: Witness | None = None
        try:
            fresh.unlink(missing_ok=True)
            found = cls(path, os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            os.pwrite(found._descriptor, commit.encode().ljust(SECTOR, b"\0") * RECORDS, 0)
            os.fsync(found._descriptor)
            os.replace(fresh, path)
            sync_directory(path)
        except OSError as error:
            if found:
                found.close()
            raise _failed(path, error) from error
        return found

    @classmethod
    def open(cls, state: Path) -> Witness:
        """Open the one that is there; raises StorageFailed."""
        path = beside(state)
        try:
            return cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        except OSError as error:
            raise _failed(path, error) from error

    def fill(self, commit: Commit) -> None:
        """Put a commit into both records, one after the other: what was before can be told no more, and need not."""
        self.put(commit)
        self.put(commit, other=1)

    def put(self, commit: Commit, *, other: int = 0) -> None:
        """Write and sync one record: some 90 microseconds, 30 of them of the processor; raises StorageFailed."""
        try:
            os.pwrite(self._descriptor, commit.encode(), (commit.number + other) % RECORDS * SECTOR)
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _failed(self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def beside(state: Path) -> Path:
    """Return the path of a state's witness."""
    return state.with_name(state.name + SUFFIX)


def testimony(state: Path) -> Testimony | None:
    """Return what the witness beside a state says; None where there is none.

    Raises StorageFailed when it cannot be read.
    """
    path = beside(state)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            data = os.pread(descriptor, RECORDS * SECTOR, 0)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failed(path, error) from error
    found = [_decode(data[at * SECTOR :][: RECORD.size + SUM.size]) for at in range(RECORDS)]
    whole = [commit for commit in found if commit is not None]
    last = max(whole, key=lambda commit: commit.number, default=None)
    return Testimony(last, len(whole) < RECORDS or len({commit.identity for commit in whole}) > 1)


def _decode(data: bytes) -> Commit | None:
    if len(data) < RECORD.size + SUM.size or SUM.unpack_from(data, RECORD.size)[0] != zlib.crc32(data[: RECORD.size]):
        return None
    magic, identity, number, digest, length = RECORD.unpack_from(data)
    return Commit(identity, number, digest, length) if magic == MAGIC else None


def lacking(said: Testimony | None, commit: Commit | None, before: bytes, *, copied: bool) -> str:
    """Return, in words, what a state lacks of what its witness has seen; empty where it lacks nothing.

    A log that is ahead of its witness is whole: the commit was written, and not acknowledged yet.

    `said`: what the witness says, read before the state. `commit`: the state's last commit; None where the state has never
    had a witness: it is new, or of an older format. `before`: the digest before it. `copied`: the state file is a copy of the
    one that the witness was made for: a backup is one file, without its witness.
    """
    if said is None or (said.silent and (commit is None or said.last.identity != commit.identity)):  # type: ignore[union-attr]
        if commit is None or copied:
            return ""
        return (
            f"its witness is gone, and perhaps its log: it holds {commit.number} commits, and whether more were "
            "acknowledged cannot be told"
        )
    last = said.last
    if last is None:
        return "its witness is damaged: whether all that was acknowledged is there cannot be told"
    if commit is None or commit.identity != last.identity:
        return f"it is not the state that its witness has seen {last.number} commits of"
    behind = last.number - commit.number
    if behind > 0:
        return (
            f"it holds {commit.number} commits, and {last.number} were acknowledged: the last {behind} are gone, with the "
            f"rows of a journal of {last.length} bytes (here {commit.length}); its log was lost, cut or damaged, or it is older"
        )
    if said.damaged and behind == 0:  # a write that was cut was of the commit behind the record that is whole
        return "its witness is damaged: whether all that was acknowledged is there cannot be told"
    if (behind == 0 and commit.digest != last.digest) or (behind == -1 and before != last.digest):
        return f"its commit {last.number} is not the one that was acknowledged"
    return ""


def sync_directory(path: Path) -> None:
    """Make the file's name itself durable."""
    descriptor = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(path: Path, error: OSError) -> StorageFailed:
    return StorageFailed(
        f"the witness of the state's commits cannot be written or read: {error.strerror}",
        field="state", value=str(path), hint="see that the disk has room and may be written",
    )  # fmt: skip
