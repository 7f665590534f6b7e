"""One service per state file: a lock that the kernel frees when its holder dies, whatever it dies of."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from advisor.errors import StateLocked, StorageFailed

LOCK_SUFFIX = ".lock"  # beside the file: closing any descriptor of the file itself would drop SQLite's own locks
HOLDER_BYTES_MAX = 64  # of the lock file, repeated in the error: a process number


class StateLock:
    """An exclusive lock on `<path>.lock`, held until `close` or the death of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises
        ------
        StateLocked
            When another service holds it.
        StorageFailed
            When the lock file cannot be made.
        """
        self._path = path.with_name(path.name + LOCK_SUFFIX)
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageFailed(
                f"the lock of the state file cannot be made: {error.strerror}",
                field="state",
                value=str(self._path),
                hint="give the service a directory that it may write",
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, HOLDER_BYTES_MAX, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StorageFailed(
                    f"the state file cannot be locked: {error.strerror}", field="state", value=str(path)
                ) from error
            raise StateLocked(
                f"another service has the state file open (process {holder or 'unknown'})",
                field="state",
                value=str(path),
                hint="stop it, or give this one another --state",
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Give the lock back; the file stays, since removing it would race with the next holder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
