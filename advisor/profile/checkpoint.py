"""A profiler as bytes: its nodes, sums and strings. What is open is not in them: at a restart it closes as lost."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from advisor.domain.task_events import Clock
from advisor.errors import InvalidValue
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler

OF_RUN: Final = ("dropped", "accepted", "drift_ns", "spoken", "cpu_s", "clock")  # kept as they are
OF_WINDOW: Final = ("late", "squeezed")


class ProfileRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a restart keeps."""

    tables: bytes  # numbers of the whole, nodes, moments, little-endian
    latest: list[int]  # time of each thread's last event
    strings: list[str]
    dropped: int
    accepted: int
    drift_ns: float
    spoken: int
    cpu_s: float
    clock: Clock | None
    late: int
    squeezed: int
    waiting_lost: int
    sampled: dict[int, int]


def to_bytes(profiler: Profiler) -> bytes:
    """Return what a restart keeps of a profiler: its tables with all that is open closed as lost. Cost O(state)."""
    copy, _ = profiler.tables.closed_copy()
    n, window = int(copy.g[at.NODES]), profiler.window
    parts = ((copy.g, at.KEPT, "<i8"), (copy.nodes, at.NODE * n, "<i8"), (copy.moments, at.MOMENTS * n, "<f8"))
    record = ProfileRecord(
        tables=b"".join(np.asarray(part[:numbers], dtype).tobytes() for part, numbers, dtype in parts),
        latest=copy.column("threads", at.THREADS)[:, at.LATEST].tolist(), strings=profiler.strings,
        waiting_lost=profiler.waiting_lost + len(window), sampled=profiler.sample.ended,
        **{name: getattr(profiler, name) for name in OF_RUN}, **{name: getattr(window, name) for name in OF_WINDOW},
    )  # fmt: skip
    return msgspec.msgpack.encode(record)


def from_bytes(data: bytes, profiler: Profiler) -> Profiler:
    """Put into a fresh profiler what `to_bytes` gave, and return it; raises InvalidValue where it gave something else."""
    try:
        record = msgspec.msgpack.decode(data, type=ProfileRecord)
    except msgspec.DecodeError as error:
        raise InvalidValue("profile", len(data), "the record of a profile") from error
    profiler.add_strings(record.strings)
    for names, into in ((OF_RUN, profiler), (OF_WINDOW, profiler.window)):
        for name in names:
            setattr(into, name, getattr(record, name))
    profiler.waiting_lost = record.waiting_lost
    profiler.sample.ended = record.sampled
    numbers = np.frombuffer(record.tables, "<i8")
    profiler.tables.g[: at.KEPT] = numbers[: at.KEPT]
    profiler.tables.put_nodes(numbers[at.KEPT :], (len(numbers) - at.KEPT) // (at.NODE + at.MOMENTS))
    profiler.tables.put_latest(record.latest)
    # Whatever comes for what was open is no defect of its producer.
    profiler.tables.g[at.LENIENT] = 1
    return profiler
