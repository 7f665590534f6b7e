"""One service per state file, however it is named: the file itself is locked, and looked at by its path."""

from __future__ import annotations

import array
import fcntl
import os
import stat
from pathlib import Path

from advisor.errors import StateLocked, StorageFailed

LOCKS = "/proc/locks"  # who holds which lock, by inode
COMPANIONS = ("-wal", "-shm", "-witness")  # files beside the state that are opened and written by their names

GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION: tells a file from a later one of the same inode

_held: dict[tuple[int, int], int] = {}  # by this process: device and inode to descriptor


class StateLock:
    """An exclusive lock on the state file itself, held until `close` or the death of the process.

    It is taken on a descriptor that is opened before SQLite's and closed after them. While a process has a file open by
    SQLite it must close no other descriptor of it: POSIX then drops all locks that the process has on it.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock; make an empty file where there is none.

        Raises StateLocked when a service has the file open, by whatever name; StorageFailed when the file cannot be opened or
        locked, or what lies beside it is not a plain file of its owner.
        """
        # the file's own name, behind all symbolic links: what lies beside the state lies beside this
        self.path = path.resolve()
        self._given = path
        self._descriptors: list[int] = []
        self._watched: dict[Path, tuple[int, int]] = {}
        self._lock(self.path)
        try:
            for suffix in COMPANIONS:
                _refuse_foreign(self.path.with_name(self.path.name + suffix), os.stat(self.path).st_uid)
        except BaseException:
            self.close()
            raise
        self.watch(path)

    def _lock(self, path: Path) -> None:
        try:
            known = _identity(path)
        except OSError:
            known = None  # it is made
        if known in _held:  # opening and closing it here would drop the locks of its holder
            raise _locked(path, str(os.getpid()))
        descriptor = -1
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(path, flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(descriptor)
            plain = stat.S_ISREG(found.st_mode) and _identity(path) == (found.st_dev, found.st_ino)
        except BlockingIOError as error:
            holder = _holder(os.fstat(descriptor))
            os.close(descriptor)
            raise _locked(path, holder) from error
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise StorageFailed(
                f"the state file cannot be opened or locked: {error.strerror}", field="state", value=str(path)
            ) from error
        if not plain:
            os.close(descriptor)
            raise StorageFailed("the state is no plain file, or was just replaced", field="state", value=str(path))
        self._descriptors.append(descriptor)
        _held[found.st_dev, found.st_ino] = descriptor

    def replaced_by(self, fresh: Path) -> None:
        """Lock a new file, too, that takes the state's name now; raises StorageFailed."""
        self._lock(fresh)
        os.replace(fresh, self.path)
        self.watch(self._given)

    def watch(self, path: Path) -> None:
        """Take the file that has this name now for the one that must have it; see `look`."""
        self._watched[path] = _identity(path)

    def look(self) -> None:
        """See that all watched files are still what their names stand for. Cost: some microseconds.

        Raises StorageFailed when one was deleted, renamed or replaced: what is written now would not be found by a restart.
        """
        for path, known in self._watched.items():
            try:
                there = _identity(path)
            except OSError:
                there = None
            if there != known:
                happened = "replaced" if there else "deleted or renamed"
                raise StorageFailed(
                    f"{path} was {happened} while the service ran: nothing is acknowledged",
                    field="state",
                    value=str(path),
                    hint="put the file back; or stop the service, which then writes all of its log into the state it has open",
                )

    def close(self) -> None:
        """Give the lock back, after SQLite's descriptors were closed."""
        for descriptor in self._descriptors:
            found = os.fstat(descriptor)
            _held.pop((found.st_dev, found.st_ino), None)
            os.close(descriptor)
        self._descriptors.clear()


def file_of(path: Path) -> str:
    """Return what tells this file from a copy of it: its inode, and its generation where the file system gives one.

    Raises StorageFailed when it cannot be opened.
    """
    generation = array.array("l", [0])
    try:
        known = _identity(path)
        descriptor = _held.get(known)
        own = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor is None else -1
        try:
            fcntl.ioctl(own if descriptor is None else descriptor, GET_GENERATION, generation)
        except OSError:
            generation[0] = 0
        finally:
            if own >= 0:
                os.close(own)
    except OSError as error:
        raise StorageFailed(
            f"the state file cannot be opened: {error.strerror}", field="state", value=str(path)
        ) from error
    return f"{known[1]}:{generation[0] & 0xFFFFFFFF}"


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _locked(path: Path, holder: str) -> StateLocked:
    return StateLocked(
        f"another service has the state file open (process {holder})",
        field="state",
        value=str(path),
        hint="stop it, or give this one another --state",
    )


def _holder(found: os.stat_result) -> str:
    """Return the number of the process that holds a lock, as far as the kernel tells."""
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open(LOCKS, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if "FLOCK" in fields and wanted in fields:
                    return fields[fields.index(wanted) - 1]
    except OSError:
        return "unknown"
    return "unknown"


def _refuse_foreign(path: Path, owner: int) -> None:
    """Refuse a companion that is a link, or somebody else's: it would be written through."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed(f"{path} cannot be looked at: {error.strerror}", field="state", value=str(path)) from error
    ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid in {os.geteuid(), owner, 0}
    if not ours:
        raise StorageFailed(
            f"{path} is no plain file of ours: it is not written to",
            field="state",
            value=str(path),
            hint="move it away, and keep the state where nobody else can write",
        )
