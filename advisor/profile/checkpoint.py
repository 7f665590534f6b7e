"""A profiler as bytes: its nodes, sums and strings. What is open is not in them: at a restart it closes as lost."""

from __future__ import annotations

import json
import struct
from typing import Any, Final
from zlib import crc32

import numpy as np

from advisor.domain.json_bytes import read_json
from advisor.domain.task_events import Clock
from advisor.errors import InvalidValue, StateTooNew
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler

VERSION: Final = 2
HEAD: Final = struct.Struct("<IIQQ")  # version, checksum of the rest, bytes of the header and of the tables
OF_RUN: Final = ("strings", "dropped", "accepted", "drift_ns", "spoken", "cpu_s")  # fields of a profiler


def to_bytes(profiler: Profiler) -> bytes:
    """Return what a restart keeps of a profiler: its tables with all that is open closed as lost. Cost O(state)."""
    copy, _ = profiler.tables.closed_copy()
    g = copy.g
    clock = profiler.clock
    header: dict[str, Any] = {name: getattr(profiler, name) for name in OF_RUN} | {
        "clock": None if clock is None else [clock.ticks_per_s, [list(pair) for pair in clock.anchors]],
        "late": profiler.window.late,
        "squeezed": profiler.window.squeezed,
        "waiting_lost": profiler.waiting_lost + len(profiler.window),
        "sampled": list(profiler.sample.ended.items()),
        "latest": [int(time) for time in copy.column("threads", at.THREADS)[:, at.LATEST]],
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    n = int(g[at.NODES])
    parts = [(g, at.KEPT, "<i8"), (copy.nodes, at.NODE * n, "<i8"), (copy.moments, at.MOMENTS * n, "<f8")]
    tables = b"".join(np.asarray(part[:numbers], dtype).tobytes() for part, numbers, dtype in parts)
    return HEAD.pack(VERSION, crc32(tables, crc32(text)), len(text), len(tables)) + text + tables


def from_bytes(data: bytes, profiler: Profiler) -> Profiler:
    """Put into a fresh profiler what `to_bytes` gave, and return it; bytes after the end are ignored.

    Raises StateTooNew when a later version wrote it; InvalidValue when it is damaged.
    """
    if len(data) < HEAD.size:
        raise InvalidValue("profile", len(data), "whole: it was cut short")
    version, summed, text_bytes, table_bytes = HEAD.unpack_from(data)
    if version != VERSION:
        raise StateTooNew(
            f"a profile of version {version}; this version reads {VERSION}", field="profile", value=version
        )
    text = data[HEAD.size : HEAD.size + text_bytes]
    tables = data[HEAD.size + text_bytes : HEAD.size + text_bytes + table_bytes]
    if len(text) + len(tables) != text_bytes + table_bytes or crc32(tables, crc32(text)) != summed:
        raise InvalidValue("profile", len(data), "as its checksum says: it is damaged")
    header: dict[str, Any] = read_json(text)
    profiler.add_strings(header.pop("strings"))
    clock = header["clock"]
    profiler.clock = None if clock is None else Clock(clock[0], tuple((a, b) for a, b in clock[1]))
    for name in OF_RUN[1:]:
        setattr(profiler, name, header[name])
    profiler.window.late, profiler.window.squeezed = header["late"], header["squeezed"]
    profiler.waiting_lost = header["waiting_lost"]
    profiler.sample.ended = dict(header["sampled"])
    numbers = np.frombuffer(tables, "<i8")
    profiler.tables.g[: at.KEPT] = numbers[: at.KEPT]
    profiler.tables.put_nodes(numbers[at.KEPT :], (len(numbers) - at.KEPT) // (at.NODE + at.MOMENTS))
    profiler.tables.put_latest(header["latest"])
    # Whatever comes for what was open is no defect of its producer.
    profiler.tables.g[at.LENIENT] = 1
    return profiler
