"""A disk under SQLite and under the project's own files, which knows what a loss of power would leave of them.

The files are real, so that whoever reads them sees what was written last. Beside them is noted what was written and not
synced yet: a crash keeps any of it, or none, in whole or torn sectors, in any order; of names that were made, moved or removed
since their directory was synced it keeps the first so many. SQLite is seen through a VFS made by ctypes from the one that it
uses anyhow: some of its functions tell the disk what they do.
"""

from __future__ import annotations

import _sqlite3
import ctypes as c
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
FULL, IO_WRITE, IO_SYNC = 13, 778, 1034  # SQLite's words for them


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
        return descriptor

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if self._disk.fails(self._names[descriptor], "full"):
            raise OSError(errno.ENOSPC, "no space left")
        self._disk.wrote(self._names[descriptor], offset, bytes(data))
        return os.pwrite(descriptor, data, offset)

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


# SQLite's structures, as sqlite3.h has them; functions that stay as they are have no type here.
_P, _I, _L = c.c_void_p, c.c_int, c.c_int64
_Write = c.CFUNCTYPE(_I, _P, _P, _I, _L)
_Truncate = c.CFUNCTYPE(_I, _P, _L)
_Sync = c.CFUNCTYPE(_I, _P, _I)
_Open = c.CFUNCTYPE(_I, _P, _P, _P, _I, _P)  # its path is SQLite's own, and is kept by the system's
_Delete = c.CFUNCTYPE(_I, _P, _P, _I)
_Random = c.CFUNCTYPE(_I, _P, _I, _P)


class _Methods(c.Structure):
    _fields_ = [
        ("version", _I), ("close", _P), ("read", _P), ("write", _Write), ("truncate", _Truncate), ("sync", _Sync),
        ("others", _P * 13),
    ]  # fmt: skip


class _Vfs(c.Structure):
    _fields_ = [
        ("version", _I), ("file_bytes", _I), ("path_max", _I), ("next", _P), ("name", c.c_char_p), ("data", _P),
        ("open", _Open), ("delete", _Delete), ("others", _P * 6), ("random", _Random), ("rest", _P * 7),
    ]  # fmt: skip


def sqlite() -> c.CDLL | None:
    """Return SQLite's library as Python has it; None where its functions cannot be called from outside."""
    library = c.CDLL(_sqlite3.__file__)
    try:
        library.sqlite3_vfs_find.restype = c.POINTER(_Vfs)
        library.sqlite3_vfs_find.argtypes = [c.c_char_p]
        library.sqlite3_vfs_register.argtypes = [c.POINTER(_Vfs), _I]
        library.sqlite3_vfs_unregister.argtypes = [c.POINTER(_Vfs)]
        library.sqlite3_randomness.argtypes = [_I, _P]
    except AttributeError:
        return None
    return library if library.sqlite3_vfs_find(None) else None


class _Watched:
    """A VFS that tells a disk what SQLite does to the files of its folder."""

    def __init__(self, system: Any, disk: Disk, rng: random.Random) -> None:
        self._disk, self._rng, self._system = disk, rng, system
        self._names: dict[int, str] = {}  # by the address of an open file
        self._methods: dict[int, tuple[_Methods, _Methods]] = {}  # by the address of the system's: those, and ours
        self.vfs = _Vfs.from_buffer_copy(system)
        self.vfs.name = b"watched"
        self.vfs.open, self.vfs.delete = _Open(self._open), _Delete(self._delete)
        self.vfs.random = _Random(self._random)

    def _open(self, vfs: int, named: int | None, file: int, flags: int, told: int) -> int:
        self._names.pop(file, None)
        path = c.string_at(named) if named else b""
        there = os.path.exists(path)
        result = self._system.open(vfs, named, file, flags, told)
        if result or os.path.dirname(path) != os.fsencode(self._disk.folder):
            return result
        name = self._names[file] = os.path.basename(path).decode()
        if not there:
            self._disk.made(name)
        slot = c.cast(file, c.POINTER(_P))
        if slot[0] not in self._methods:
            theirs = _Methods.from_address(slot[0])
            ours = _Methods.from_buffer_copy(theirs)
            ours.write, ours.truncate = _Write(self._write), _Truncate(self._truncate)
            ours.sync = _Sync(self._sync)
            self._theirs = theirs
            self._methods[slot[0]] = theirs, ours
        slot[0] = c.addressof(self._methods[slot[0]][1])
        return result

    def _delete(self, vfs: int, named: int, directory: int) -> int:
        result = self._system.delete(vfs, named, directory)
        if not result:
            self._disk.removed(os.path.basename(c.string_at(named)).decode())
            if directory:
                self._disk.synced_names()
        return result

    def _write(self, file: int, data: int, n: int, offset: int) -> int:
        name = self._names[file]
        if self._disk.fails(name, "full"):
            return FULL
        self._disk.wrote(name, offset, c.string_at(data, n))
        return self._theirs.write(file, data, n, offset)

    def _truncate(self, file: int, length: int) -> int:
        self._disk.wrote(self._names[file], length, None)
        return self._theirs.truncate(file, length)

    def _sync(self, file: int, flags: int) -> int:
        name = self._names[file]
        if self._disk.fails(name, "sync"):
            return IO_SYNC
        self._disk.synced(name)
        if name.endswith("-wal"):  # its first sync is one of its name, too
            self._disk.synced_names()
        return 0

    def _random(self, _: int, n: int, out: int) -> int:
        c.memmove(out, self._rng.randbytes(n), n)
        return n


@contextmanager
def disk_under(disk: Disk, rng: random.Random) -> Iterator[None]:
    """Let SQLite and the project's storage write to a disk."""
    library = sqlite()
    assert library is not None
    watched = _Watched(library.sqlite3_vfs_find(None).contents, disk, rng)
    library.sqlite3_vfs_register(c.byref(watched.vfs), 1)
    library.sqlite3_randomness(0, None)  # its generator is seeded anew, by ours
    stand_in = DiskOs(disk, rng)
    try:
        with replaced("advisor.storage", "os", os, stand_in), replaced("advisor.client", "os", os, stand_in):
            yield
    finally:
        library.sqlite3_vfs_unregister(c.byref(watched.vfs))
        library.sqlite3_randomness(0, None)
