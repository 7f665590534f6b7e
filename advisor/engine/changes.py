"""What changed since a version, as frames that may be applied again and be cut anywhere: a reader that follows a state.

Each frame: ``length (u32), checksum (u32), bytes``, little-endian. The first is a head in JSON, what follows are parts of the
state (`state_bytes`) that stand in the place of what the reader has of the same names, the last has the version alone.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from advisor.domain.json_bytes import read_json
from advisor.errors import StateDamaged, StateTooNew

FORMAT: Final = 1
NAMES_A_FRAME: Final = 256  # about a megabyte: what is done again after a cut
NAMED: Final = ("components", "networks", "programs", "task_types")  # kinds whose keys are names
NUMBERED: Final = ("producers", "profiles")  # (name, incarnation)
Gone = Mapping[str, Sequence[Any]]
_HEAD: Final = struct.Struct("<II")


def head(whole: bool, gone: Gone) -> bytes:
    """Return what changes begin with: `whole`, nothing else of the reader's stays; and by kind the keys of what is gone."""
    told: dict[str, Any] = {"format": FORMAT, "whole": whole}
    told |= {kind: list(gone.get(kind, ())) for kind in NAMED}
    told |= {kind: [[name, own.hex()] for name, own in gone.get(kind, ())] for kind in NUMBERED}
    return json.dumps(told, ensure_ascii=False).encode()


def head_of(data: bytes) -> tuple[bool, Gone]:
    """Return what `head` was given; raises StateTooNew, StateDamaged."""
    told = _told(data)
    if told.get("format", FORMAT) > FORMAT:
        raise StateTooNew(
            f"changes of format {told['format']}; this version reads {FORMAT}",
            field="format", value=told["format"], bound=FORMAT, hint="use the version that wrote them",
        )  # fmt: skip
    try:
        gone: dict[str, list[Any]] = {kind: _names(told[kind]) for kind in NAMED}
        gone |= {kind: [(str(name), bytes.fromhex(own)) for name, own in told[kind]] for kind in NUMBERED}
        return told["whole"] is True, gone
    except (KeyError, TypeError, ValueError) as error:
        raise StateDamaged(f"the head of changes lacks {error}: nobody writes such") from error


def _names(told: Any) -> list[str]:
    if not isinstance(told, list) or not all(isinstance(name, str) for name in cast("list[Any]", told)):
        raise TypeError("a list of names")
    return cast("list[str]", told)


def version_of(data: bytes) -> int:
    """Return the version that changes end with; raises StateDamaged."""
    version = _told(data).get("version")
    if not isinstance(version, int):
        raise StateDamaged("changes end without a version: nobody writes such")
    return version


def _told(data: bytes) -> Mapping[str, Any]:
    try:
        told = read_json(data)
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"changes do not read: {error}") from error
    if not isinstance(told, dict) or not isinstance(cast("Any", told).get("format", FORMAT), int):
        raise StateDamaged("changes begin with something else than a map of their format")
    return cast("Mapping[str, Any]", told)


def framed(payloads: Iterable[bytes]) -> bytes:
    """Return payloads as frames."""
    return b"".join(_HEAD.pack(len(each), zlib.crc32(each)) + each for each in payloads)


def frames(data: bytes) -> Iterator[bytes]:
    """Yield the payloads of whole frames; where the bytes are cut, no more.

    Raises StateDamaged when a frame was changed on its way.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        length, summed = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        payload = data[at : at + length]
        if len(payload) < length:
            return
        if zlib.crc32(payload) != summed:
            raise StateDamaged("the checksum of changes does not match: they were changed on their way")
        yield payload
        at += length
