"""What became of a service's files: the record of its writes, a power cut after any of them, and damage."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

SECTOR = 512  # what a disk writes whole
Files = dict[str, bytes]


def shim(folder: Path) -> Path | None:
    """Build the library that records what becomes of files; None where there is no C compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc"))), None)
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "disk_shim.so"
    source = Path(__file__).with_name("disk_shim.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", source, "-o", library, "-ldl", "-lpthread"], check=True)
    return library


def journal(path: Path) -> list[tuple[str, str, int, bytes]]:
    """Return the steps of a life: (kind, name, offset, data); a step that was cut by the kill is left out."""
    data, at, found = path.read_bytes() if path.exists() else b"", 0, []
    while (end := data.find(b"\n", at)) >= 0:
        kind, name, offset, length = data[at:end].split(b" ")
        at = end + 1 + int(length)
        if at <= len(data):
            found.append((kind.decode(), name.decode(), int(offset), data[end + 1 : at]))
    return found


class Inode:
    """A file: what is surely on the disk, and the writes since its last sync."""

    def __init__(self, data: bytes = b"") -> None:
        self.synced, self.pending = bytearray(data), list[tuple[int, bytes | None]]()

    def after(self, rng: random.Random) -> bytes:
        """Return what a power cut leaves: of the writes since the last sync any, whole or in torn sectors."""
        found, share = bytearray(self.synced), rng.choice((0.0, 0.5, 0.9, 1.0))
        for offset, data in self.pending:
            if data is None:
                if rng.random() < share:
                    _cut(found, offset)
                continue
            for at in range(offset // SECTOR * SECTOR, offset + len(data), SECTOR):
                first = max(at, offset)
                if rng.random() < share:
                    _put(found, first, data[first - offset : at + SECTOR - offset])
        return bytes(found)

    def sync(self) -> None:
        for offset, data in self.pending:
            if data is None:
                _cut(self.synced, offset)
            else:
                _put(self.synced, offset, data)
        self.pending.clear()


def _put(file: bytearray, offset: int, data: bytes) -> None:
    file.extend(bytes(max(0, offset + len(data) - len(file))))
    file[offset : offset + len(data)] = data


def _cut(file: bytearray, length: int) -> None:
    del file[length:]
    file.extend(bytes(length - len(file)))


def power_cut(before: Files, steps: list[tuple[str, str, int, bytes]], rng: random.Random) -> Files:
    """Return the files after a power cut behind the last of these steps; `before` was on the disk when they began.

    Names that were made, moved or removed since their folder was synced are kept up to a random one of these changes.
    """
    now = {name: Inode(data) for name, data in before.items()}
    sure, since = dict(now), list[dict[str, Inode]]()
    for kind, name, offset, data in steps:
        if kind == "sync" and name == ".":
            sure, since = dict(now), []
        elif kind == "make":
            now[name] = Inode()
        elif kind == "move" and name in now:
            now[data.decode()] = now.pop(name)
        elif kind == "remove":
            now.pop(name, None)
        elif name in now:  # a file that was removed while it was open is nobody's
            if kind == "sync":
                now[name].sync()
            else:
                now[name].pending.append((offset, None if kind == "cut" else data))
        if kind in ("make", "move", "remove"):
            since.append(dict(now))
    return {name: inode.after(rng) for name, inode in rng.choice([sure, *since]).items()}


def _flip(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) * 8)
    data[at // 8] ^= 1 << at % 8


def _zero(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data)) // SECTOR * SECTOR
    data[at : at + SECTOR] = bytes(len(data[at : at + SECTOR]))


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _exchange(data: bytearray, rng: random.Random) -> None:
    one, other = (rng.randrange(len(data)) // 4096 * 4096 for _ in range(2))
    a, b = bytes(data[one : one + 4096]), bytes(data[other : other + 4096])
    if len(a) == len(b):
        data[one : one + 4096], data[other : other + 4096] = b, a


DAMAGES = {"flip": _flip, "zero": _zero, "truncate": _truncate, "exchange": _exchange}
