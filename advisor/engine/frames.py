"""Frames: the one form that a state's bytes have, in its image, its log and its marker, in exports, parts and copies.

A frame: ``magic, bytes of the label (u32), bytes of the data (u64), CRC-32 of all else, label, data``, little-endian. A reader
that meets a damaged frame finds the next by its magic.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"ADVB"
LENGTHS: Final = struct.Struct("<4sIQ")
SUM: Final = struct.Struct("<I")
FRAME_BYTES: Final = LENGTHS.size + SUM.size  # of a frame beside its label and its data


class Block(NamedTuple):
    """A part of a state."""

    label: str  # in words, for an operator: `components at slots 0 to 255: a, b, …`
    data: bytes


class Frame(NamedTuple):
    """A frame that was read."""

    label: str  # of one that is damaged: its label, or where it is
    data: bytes | None  # None: damaged
    end: int  # where the next one begins


def framed(label: str, data: bytes) -> bytes:
    """Return a frame."""
    text = label.encode()
    lengths = LENGTHS.pack(MAGIC, len(text), len(data))
    return b"".join((lengths, SUM.pack(zlib.crc32(data, zlib.crc32(lengths + text))), text, data))


def read_frames(data: bytes | memoryview) -> Iterator[Frame]:
    """Yield all frames, those that are damaged among them. Cost O(bytes)."""
    data, at = memoryview(data), 0
    while at < len(data):
        body = at + FRAME_BYTES
        if len(data) >= body and _begins(data, at):
            _, named, size = LENGTHS.unpack_from(data, at)
            end = body + named + size
            label = bytes(data[body : body + named]).decode(errors="replace")
            summed = zlib.crc32(data[body:end], zlib.crc32(data[at : at + LENGTHS.size]))
            if end <= len(data) and SUM.unpack_from(data, body - SUM.size)[0] == summed:
                yield Frame(label, bytes(data[body + named : end]), end)
                at = end
                continue
            if _begins(data, end):
                yield Frame(label, None, end)
                at = end
                continue
        following = bytes(data).find(MAGIC, at + 1)
        end = following if following > 0 else len(data)
        yield Frame(f"bytes {at} to {end}", None, end)
        at = end


def _begins(data: memoryview, at: int) -> bool:
    return bytes(data[at : at + len(MAGIC)]) == MAGIC
