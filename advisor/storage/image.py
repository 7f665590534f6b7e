"""One image of a state: a head that names its commit, then blocks that each carry their length and checksum, then an end.

An image is written beside the present one and takes its name when it is whole and synced, so a cut changes nothing. Blocks
describe themselves, so a reader that meets a damaged one finds the next.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from advisor.engine.state_bytes import FORMAT, Block
from advisor.errors import StateDamaged, StateTooNew
from advisor.storage.lock import file_of
from advisor.storage.log import write_all
from advisor.storage.marker import NO_DIGEST, Commit

MAGIC = b"ADVSTATE"
HEAD = struct.Struct("<8sI16sQ16s16s64s")  # magic, format, identity, number, digest, the digest before it, file
BLOCK_MAGIC = b"ADVB"
BLOCK = struct.Struct("<4sIQI")  # magic, bytes of the label and of the data, CRC-32 of both
SUM = struct.Struct("<I")  # CRC-32 behind each head
END = "end"


@dataclass(frozen=True, slots=True)
class Image:
    """Contents of an image."""

    commit: Commit = field(default_factory=Commit)  # the last one that is in it
    before: bytes = NO_DIGEST  # the digest of the commit before
    file: str = ""  # the file that it was written to, see `lock.file_of`
    bytes: int = 0
    damaged: tuple[str, ...] = ()  # what is not whole, in words
    blocks: tuple[Block, ...] = ()  # those that are whole


class ImageWriter:
    """An image on its way; a block of a key takes the place of a former one. All raise OSError."""

    def __init__(self, path: Path, commit: Commit, before: bytes) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self.path, self._descriptor, self.end = path, os.open(path, flags, 0o600), 0
        self.image = Image(commit, before, file_of(path))
        self._write(_summed(HEAD.pack(MAGIC, FORMAT, commit.identity, commit.number, commit.digest, before,
                                      self.image.file.encode())))  # fmt: skip

    def put(self, block: Block) -> int:
        """Write a block; return its bytes."""
        label = block.label.encode()
        crc = zlib.crc32(block.data, zlib.crc32(label))
        self._write(_summed(BLOCK.pack(BLOCK_MAGIC, len(label), len(block.data), crc)) + label)
        self._write(block.data)
        return len(block.data)

    def finish(self) -> Image:
        """Write the end and sync; return the image without its blocks."""
        self.put(Block(END, b""))
        os.fsync(self._descriptor)
        self.close()
        return Image(self.image.commit, self.image.before, self.image.file, self.end)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: bytes) -> None:
        write_all(self._descriptor, data, self.end)
        self.end += len(data)


def _summed(head: bytes) -> bytes:
    return head + SUM.pack(zlib.crc32(head))


def read_image(path: Path) -> tuple[Image, int]:
    """Return an image with its blocks, and the file's inode; an empty one where there is no file or nothing in it.

    Raises StateDamaged when it is no image; StateTooNew when it has another format; OSError. Cost O(bytes).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Image(), 0
    with open(descriptor, "rb") as file:
        data, inode = file.read(), os.fstat(file.fileno()).st_ino
    return (_decoded(memoryview(data), path) if data else Image()), inode


def _decoded(data: memoryview, path: Path) -> Image:
    start = HEAD.size + SUM.size
    magic, found, identity, number, digest, before, file = HEAD.unpack(bytes(data[: HEAD.size]).ljust(HEAD.size, b"\0"))
    damaged: list[str] = []
    if len(data) < start or SUM.unpack_from(data, HEAD.size)[0] != zlib.crc32(data[: HEAD.size]):
        damaged, number = ["its head"], 0
    elif magic == MAGIC and found != FORMAT:
        raise StateTooNew(
            f"the state file has format {found}, this version reads {FORMAT}", field="state", value=found, bound=FORMAT,
            hint="run the version that wrote it",
        )  # fmt: skip
    blocks: dict[str, Block] = {}
    whole = False
    for label, block in _blocks(data, start):
        if block is None:
            damaged.append(label)
        elif label == END:
            whole = True
        else:
            blocks[label.partition(":")[0]] = Block(label, block)
    if magic != MAGIC and not blocks:
        raise StateDamaged(f"{path} is no state file of Advisor", hint="name another file, or restore a backup")
    if not whole:
        damaged.append("its end, which is lost")
    commit = Commit(identity, number, digest) if number else Commit()
    kept = tuple(blocks.values())
    return Image(commit, before, file.rstrip(b"\0").decode(errors="replace"), len(data), tuple(damaged), kept)


def _blocks(data: memoryview, at: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the label and the data of each block, None where they are damaged."""
    while at < len(data):
        body = at + BLOCK.size + SUM.size
        head = bytes(data[at : at + BLOCK.size])
        whole = len(data) >= body and head.startswith(BLOCK_MAGIC)
        if not whole or SUM.unpack_from(data, body - SUM.size)[0] != zlib.crc32(head):
            following = bytes(data).find(BLOCK_MAGIC, at + 1)
            yield f"bytes {at} to {following if following > 0 else len(data)}", None
            if following < 0:
                return
            at = following
            continue
        _, named, count, crc = BLOCK.unpack(head)
        at = body + named + count
        label = bytes(data[body : body + named]).decode(errors="replace")
        yield label, bytes(data[body + named : at]) if at <= len(data) and zlib.crc32(data[body:at]) == crc else None
