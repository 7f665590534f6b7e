"""Task events in a file: blocks of a header in JSON and records as they travel; a file is read a block at a time.

The file begins with 8 bytes, ``ADVTASK1``. A block is: bytes of the header (u32), CRC-32 of header and records (u32), bytes of
the records (u64), all little-endian; the header, JSON in UTF-8, padded with spaces to a multiple of 8; the records. The header
holds `strings` (new ones), `clock` {ticks_per_s, anchors} and `dropped`; where there are any, `sums`, a list of the
fields of each, and, with the last, `ended` and `cpu_s`, the processor time of the program.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final
from zlib import crc32

import numpy as np

from advisor.domain.limits import MESSAGE_BYTES_MAX
from advisor.domain.task_events import SUM, Clock, TaskEvents, decode
from advisor.errors import AdvisorError, InvalidValue

MAGIC: Final = b"ADVTASK1"
BLOCK: Final = struct.Struct("<IIQ")
HEADER_BYTES_MAX: Final = 64 * MESSAGE_BYTES_MAX // 8  # a header of 2**20 strings of 60 bytes
RECORDS_BYTES_MAX: Final = 2**28  # of one block: read into memory at a time


class CutShort(InvalidValue):
    """The last block of a file is not whole: its writer was killed, or still writes."""


def write_events(path: Path, batches: Iterable[TaskEvents]) -> int:
    """Write batches to a file, made anew; return how many events."""
    written = 0
    with path.open("wb") as file:
        file.write(MAGIC)
        for events in batches:
            clock = {"ticks_per_s": events.clock.ticks_per_s, "anchors": [list(pair) for pair in events.clock.anchors]}
            header: dict[str, Any] = {
                "strings": list(events.strings), "clock": clock, "dropped": events.dropped,
            }  # fmt: skip
            sums = np.ascontiguousarray(events.sums).tolist()
            header |= {
                key: value for key, value in (("sums", sums), ("ended", events.ended), ("cpu_s", events.cpu_s)) if value
            }
            text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
            text += b" " * (-len(text) % 8)
            records = np.ascontiguousarray(events.records).tobytes()
            file.write(BLOCK.pack(len(text), crc32(records, crc32(text)), len(records)) + text + records)
            written += len(events)
    return written


def is_event_file(path: Path) -> bool:
    """Return whether a file begins as one of task events; raises InvalidValue when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise InvalidValue("file", str(path), f"a file that can be read ({error.strerror})") from error


def read_events(path: Path) -> Iterator[TaskEvents]:
    """Yield the batches of a file.

    Raises InvalidValue when it is no file of task events, or a block is damaged; CutShort when the last block is not whole;
    those before it have come.
    """
    if not is_event_file(path):
        raise InvalidValue("file", str(path), f"a file of task events, which begins with {MAGIC.decode()}")
    with path.open("rb") as file:
        file.seek(len(MAGIC))
        block = 0
        while head := file.read(BLOCK.size):
            yield _block(file, head, f"{path.name}, block {block}")
            block += 1


def _block(file: BinaryIO, head: bytes, where: str) -> TaskEvents:
    if len(head) < BLOCK.size:
        raise CutShort("file", where, "whole: it was cut short")
    header_bytes, summed, records_bytes = BLOCK.unpack(head)
    if header_bytes > HEADER_BYTES_MAX or records_bytes > RECORDS_BYTES_MAX:
        raise InvalidValue("file", where, "a block of at most 256 MiB: it is damaged")
    text, records = file.read(header_bytes), file.read(records_bytes)
    if len(text) + len(records) < header_bytes + records_bytes:
        raise CutShort("file", where, "whole: it was cut short")
    if crc32(records, crc32(text)) != summed:
        raise InvalidValue("file", where, "as its checksum says: it is damaged")
    try:
        header = json.loads(text)
        clock = Clock(
            float(header["clock"]["ticks_per_s"]), tuple((int(a), int(b)) for a, b in header["clock"]["anchors"])
        )
        sums = np.array([tuple(each) for each in header.get("sums", ())], SUM)
        return decode(
            records, header["strings"], clock=clock, dropped=int(header["dropped"]),
            sums=sums.tobytes(), ended=bool(header.get("ended", False)), cpu_s=float(header.get("cpu_s", 0.0)),
        )  # fmt: skip
    except AdvisorError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidValue("file", where, f"a header of task events ({type(error).__name__})") from error
