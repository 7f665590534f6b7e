"""A disk under the project's own files, which knows what a loss of power would leave of them.

The files are real, so that whoever reads them sees what was written last. Beside them is noted what was written and not
synced yet: a crash keeps any of it, or none, in whole or torn sectors, in any order; of names that were made, moved or removed
since their directory was synced it keeps the first so many.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim_clock import replaced

SECTOR = 512  # what a disk writes whole


@dataclass
class File:
    """What is sure to be in a file, and what was written since: (offset, bytes), or (length, None) where it was cut."""

    synced: bytearray = field(default_factory=bytearray)
    written: list[tuple[int, bytes | None]] = field(default_factory=list)

    def put(self, offset: int, data: bytes | None) -> None:
        if data is None:
            del self.synced[offset:]
            self.synced.extend(bytes(offset - len(self.synced)))
            return
        self.synced.extend(bytes(max(0, offset + len(data) - len(self.synced))))
        self.synced[offset : offset + len(data)] = data

    def sync(self) -> None:
        for each in self.written:
            self.put(*each)
        self.written.clear()

    def after(self, rng: random.Random | None) -> bytes:
        """Return what a crash leaves; all of it where no power was lost."""
        left = File(bytearray(self.synced), list(self.written))
        if rng is not None:
            share = rng.choice((0.0, 0.5, 0.9, 1.0))
            sectors: list[tuple[int, bytes | None]] = []
            for offset, data in left.written:
                parts = [(offset, None)] if data is None else _sectors(offset, data)
                sectors += [part for part in parts if rng.random() < share]
            left.written = sectors
        left.sync()
        return bytes(left.synced)


def _sectors(offset: int, data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while data:
        n = SECTOR - offset % SECTOR
        found.append((offset, data[:n]))
        offset, data = offset + n, data[n:]
    return found


class Disk:
    """The files of one folder.

    Attributes
    ----------
    trouble : str
        "full": nothing is written; "sync": nothing is synced, and what was to be may be lost for good; or nothing.
    crash_after : int or None
        So many steps from now on power is lost.
    image : dict or None
        What is left once it was lost: contents by name.
    """

    def __init__(self, folder: Path, rng: random.Random, told: Callable[..., None]) -> None:
        self.folder, self.rng, self.told = folder, rng, told
        self._files: dict[str, File] = {}
        self._named: dict[str, File] = {}  # as the synced directory has it
        self._renamed: list[dict[str, File]] = []  # as it was after each change since
        self.trouble = ""
        self.crash_after: int | None = None
        self.image: dict[str, bytes] | None = None

    def crash(self, *, power: bool) -> None:
        """Keep what a crash leaves: of the process alone, or of all that has power."""
        names = self.rng.choice([self._named, *self._renamed]) if power else self._files
        self.image = {name: file.after(self.rng if power else None) for name, file in names.items()}
        self.told("crash", power, {name: len(data) for name, data in self.image.items()})

    def restart(self) -> None:
        """Put what was left into the files; a file that keeps its name keeps its inode."""
        assert self.image is not None
        for path in self.folder.glob("state*"):
            if path.name not in self.image:
                path.unlink()
        for name, data in self.image.items():
            path = self.folder / name
            with open(path, "r+b" if path.exists() else "w+b") as file:
                path.chmod(0o600)
                file.truncate()
                file.write(data)
        self._files = {name: File(bytearray(data)) for name, data in self.image.items()}
        self._named, self._renamed = dict(self._files), []
        self.image, self.crash_after, self.trouble = None, None, ""

    # steps

    def _step(self, *what: Any) -> bool:
        """Take note of a step; False when there is no power any more."""
        if self.image is not None:
            return False
        self.told("disk", *what)
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                self.crash(power=True)
        return self.image is None

    def made(self, name: str, *, anew: bool = False) -> None:
        if (anew or name not in self._files) and self._step("made", name):
            self._files[name] = File()
            self._renamed.append(dict(self._files))

    def moved(self, name: str, other: str) -> None:
        if self._step("moved", name, other):
            self._files[other] = self._files.pop(name)
            self._renamed.append(dict(self._files))

    def removed(self, name: str) -> None:
        if name in self._files and self._step("removed", name):
            del self._files[name]
            self._renamed.append(dict(self._files))

    def wrote(self, name: str, offset: int, data: bytes | None) -> None:
        if self._step("wrote", name, offset, None if data is None else len(data)):
            self._files[name].written.append((offset, data))

    def synced(self, name: str) -> None:
        if self._step("synced", name):
            self._files[name].sync()

    def synced_names(self) -> None:
        if self._step("synced names"):
            self._named, self._renamed = dict(self._files), []

    def fails(self, name: str, kind: str) -> bool:
        """Return whether a step does not succeed."""
        if self.trouble != kind or self.image is not None:
            return False
        if kind == "sync" and name in self._files and self.rng.random() < 0.5:
            self._files[name].written.clear()  # the system takes the pages for clean, and never writes them
        self.told("fails", name, kind)
        return True


class DiskOs:
    """What stands for the module `os` in the project's own storage."""

    def __init__(self, disk: Disk, rng: random.Random) -> None:
        self._disk, self._rng = disk, rng
        self._names: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        name, there = Path(path).name, os.path.exists(path)
        descriptor = os.open(path, flags, mode)
        self._names[descriptor] = "" if flags & os.O_DIRECTORY else name
        if not there:
            self._disk.made(name, anew=bool(flags & os.O_EXCL))
        elif flags & os.O_TRUNC:
            self._disk.wrote(name, 0, None)
        return descriptor

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if self._disk.fails(self._names[descriptor], "full"):
            raise OSError(errno.ENOSPC, "no space left")
        self._disk.wrote(self._names[descriptor], offset, bytes(data))
        return os.pwrite(descriptor, data, offset)

    def ftruncate(self, descriptor: int, length: int) -> None:
        self._disk.wrote(self._names[descriptor], length, None)
        os.ftruncate(descriptor, length)

    def truncate(self, path: Path, length: int) -> None:
        self._disk.wrote(path.name, length, None)
        os.truncate(path, length)

    def unlink(self, path: Path) -> None:
        os.unlink(path)
        self._disk.removed(path.name)

    def fsync(self, descriptor: int) -> None:
        name = self._names[descriptor]
        if self._disk.fails(name, "sync"):
            raise OSError(errno.EIO, "input/output error")
        if name:
            self._disk.synced(name)
        else:
            self._disk.synced_names()

    fdatasync = fsync

    def replace(self, path: Path, other: Path) -> None:
        os.replace(path, other)
        self._disk.moved(path.name, other.name)
        self._names = {key: other.name if name == path.name else name for key, name in self._names.items()}

    def urandom(self, n: int) -> bytes:
        return self._rng.randbytes(n)


@contextmanager
def disk_under(disk: Disk, rng: random.Random) -> Iterator[None]:
    """Let the project's storage and clients write to a disk."""
    stand_in = DiskOs(disk, rng)
    with replaced("advisor.storage", "os", os, stand_in), replaced("advisor.client", "os", os, stand_in):
        yield
