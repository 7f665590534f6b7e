"""One service per state, however its file is named: the file is locked, and compared with what its name stands for."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

from advisor.errors import StateLocked, StorageFailed

COMPANIONS = ("-log-*", "-marker")  # files beside the state that are opened and written by their names

FOUND = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")  # of what `os.stat` says: what tells files apart


class FileChanged(StorageFailed):
    """A file is the one that it was, and its size or its time is not."""


class StateLock:
    """An exclusive lock on the state file itself, held until `close` or the death of the process; and a watch on its files."""

    def __init__(self, path: Path) -> None:
        """Take the lock; make an empty file, and the folders above it, where there are none.

        Raises StateLocked when a service has the file open, by whatever name; StorageFailed when the file cannot be opened or
        locked, or what lies beside it is not a plain file of its owner.
        """
        # the file's own name, behind all symbolic links: what lies beside the state lies beside this
        self.path = path.resolve()
        self._given = path
        with suppress(OSError):  # to open the file says what is wrong
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._watched: dict[str, tuple[int, ...]] = {}
        self.busy = threading.Lock()  # held while the owner changes the files
        self._descriptor = _locked(self.path)
        try:
            for suffix in COMPANIONS:
                for companion in self.path.parent.glob(self.path.name + suffix):
                    _refuse_foreign(companion, os.stat(self.path).st_uid)
        except BaseException:
            self.close()
            raise
        self.watch(path)

    def replace_by(self, fresh: Path) -> int:
        """Lock a new file, let it take the state's name; return the former descriptor. Raises OSError, StorageFailed."""
        descriptor = _locked(fresh)
        os.replace(fresh, self.path)
        former, self._descriptor = self._descriptor, descriptor
        self.watch(self._given)
        return former

    def watch(self, path: Path | str, descriptor: int | None = None) -> None:
        """Expect the file of this name to be as it is now, or as the open one is; see `compare`."""
        self._watched[str(path)] = FOUND(os.stat(path) if descriptor is None else os.fstat(descriptor))

    def watch_again(self) -> None:
        """Expect all watched files as they are now."""
        for path in list(self._watched):
            self.watch(path)

    def forget(self, path: Path) -> None:
        """Watch a file no more."""
        self._watched.pop(str(path), None)

    def compare(self) -> None:
        """Compare all watched files with what their names stand for: the owner, while it holds `busy`. Cost: some microseconds.

        Raises StorageFailed when one was deleted, renamed or replaced, FileChanged when its size or its time is not what this
        process has left: what is written now would not be found by a restart.
        """
        for path, known in list(self._watched.items()):
            try:
                there = FOUND(os.stat(path))
            except OSError:
                there = None
            if there == known:
                continue
            happened, kind = "deleted or renamed", StorageFailed
            if there is not None and there[:2] == known[:2]:
                happened, kind = "truncated" if there[2] < known[2] else "overwritten", FileChanged
            elif there is not None:
                happened = "replaced"
            raise kind(
                f"{path} was {happened} while the service ran: nothing is acknowledged",
                field="state", value=path, hint="put the file back as it was",
            )  # fmt: skip

    def remove_if_empty(self) -> None:
        """Remove a file that was made for the lock, and that nothing was written to."""
        with suppress(OSError):
            found = os.fstat(self._descriptor)
            if found.st_size == 0 and FOUND(os.stat(self.path)) == FOUND(found):
                os.unlink(self.path)

    def close(self) -> None:
        """Give the lock back, and watch nothing more."""
        self._watched.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _locked(path: Path) -> int:
    """Return the descriptor of a file, made where there is none, that holds an exclusive lock on it."""
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found, there = os.fstat(descriptor), os.stat(path)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StateLocked(
            "another service has the state file open", field="state", value=str(path),
            hint="stop it ('fuser' names its process), or give this one another --state",
        ) from error  # fmt: skip
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise StorageFailed(
            f"the state file cannot be opened or locked: {error.strerror}", field="state", value=str(path)
        ) from error
    if not stat.S_ISREG(found.st_mode) or FOUND(there)[:2] != FOUND(found)[:2]:
        os.close(descriptor)
        raise StorageFailed("the state is no plain file, or was just replaced", field="state", value=str(path))
    return descriptor


def _refuse_foreign(path: Path, owner: int) -> None:
    """Refuse a companion that is a link, or somebody else's: it would be written through."""
    found = os.lstat(path)
    ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid in {os.geteuid(), owner, 0}
    if not ours:
        raise StorageFailed(
            f"{path} is no plain file of ours: it is not written to",
            field="state",
            value=str(path),
            hint="move it away, and keep the state where nobody else can write",
        )
