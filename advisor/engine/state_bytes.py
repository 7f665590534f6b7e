"""The whole state as bytes: a header in JSON, the table's words, a checksum over both.

Layout: 8 bytes of magic, u32 header length, header, words (uint64, one statistic after the other), records, documents,
programs, task types, u32 CRC-32 of all before; little-endian. The header: {format, layout, timer_noise_s, components_max,
names, totals, words, slots, model_memory_bytes, supports, documents, programs, task_types}; supports lists [name, layout,
words, records] of each support table, whose records follow the base table's words; documents lists [name, bytes] of each
document; programs and task_types, where there are some, are [layout, bytes, records] of those of whole programs and of task
types.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.names import normalised_name
from advisor.engine.components import SEPARATOR, Components
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.pages import check_words, put_rows
from advisor.engine.programs import LAYOUT as PROGRAM_LAYOUT
from advisor.engine.task_types import LAYOUT as TYPE_LAYOUT
from advisor.errors import InvalidValue, StateDamaged, StateTooNew
from advisor.models.layout import LAYOUT, WORDS
from advisor.models.upgrade import READABLE, upgraded, words_of

Put = Callable[[bytes], object]

RECORDS = {"programs": PROGRAM_LAYOUT, "task_types": TYPE_LAYOUT}  # in this order, behind the documents
MAGIC = b"ADVISOR\x00"
FORMAT = 3  # 1 had the base table only, 2 neither documents nor programs


def dump(components: Components, programs: Sequence[bytes] = (), task_types: Sequence[bytes] = ()) -> bytes:
    """Return the state's bytes; equal states give equal bytes. Cost O(components).

    Parameters
    ----------
    programs, task_types : sequences of bytes
        The records of whole programs and of task types, each of one length.
    """
    n = len(components)
    # By name, and only those with records: the order in which they were made depends on how rows were cut into batches.
    supports = [(name, table) for name, table in sorted(components.records.items()) if table.size]
    documents = components.flows.documents()
    header: dict[str, Any] = {
        "format": FORMAT,
        "layout": LAYOUT,
        "timer_noise_s": components.timer_noise_s,
        "components_max": components.components_max,
        "names": components.names,
        "totals": dict(sorted(components.totals.items())),
        "words": WORDS,
        "slots": n,
        "model_memory_bytes": components.learners.memory_bytes,
        "documents": [[name, len(data)] for name, data in documents.items()],
        "supports": [[name, table.layout, table.words_a_record, table.size] for name, table in supports],
    }
    for (name, layout), records in zip(RECORDS.items(), (programs, task_types), strict=True):
        if records:
            header[name] = [layout, len(records[0]), len(records)]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    words = np.ascontiguousarray(components.table.words[:, :n]).view(np.uint64).astype("<u8", copy=False).tobytes()
    for _, table in supports:
        words += table.words[: table.size].view(np.uint64).astype("<u8", copy=False).tobytes()
    body = b"".join((MAGIC, struct.pack("<I", len(text)), text, words, *documents.values(), *programs, *task_types))
    return body + struct.pack("<I", zlib.crc32(body))


def load(data: bytes, put_program: Put, put_task_type: Put) -> Components:
    """Return the components of a state; the others are given the record of each program, and of each task type.

    Raises
    ------
    StateDamaged
        When the bytes are cut, changed, or no state at all.
    StateTooNew
        When a later version wrote them.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidValue("data", data, "bytes that to_bytes gave")
    data = bytes(data)
    if len(data) < len(MAGIC) + 8 or not data.startswith(MAGIC):
        raise StateDamaged("these bytes are no advisor state", hint="give what to_bytes or `advisor export` wrote")
    if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise StateDamaged("the checksum of the state does not match: it was cut or changed", hint="export it again")
    try:
        return _load(data, put_program, put_task_type)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidValue) as error:
        raise StateDamaged(
            f"the state does not read: {type(error).__name__} {error}",
            hint="give what to_bytes or `advisor export` wrote",
        ) from error


def _load(data: bytes, *put: Put) -> Components:
    (length,) = struct.unpack_from("<I", data, len(MAGIC))
    start = len(MAGIC) + 4
    header: dict[str, Any] = json.loads(data[start : start + length])
    if header["format"] > FORMAT or header["layout"] not in READABLE:
        raise StateTooNew(
            f"state of format {header['format']}, layout {header['layout']}; this version reads format {FORMAT}, {LAYOUT}",
            field="format", value=header["format"], bound=FORMAT, hint="use the version that wrote it",
        )  # fmt: skip
    noise, totals = header["timer_noise_s"], header["totals"]
    names: list[str] = header["names"]
    if not limits.TIMER_NOISE_MIN_S <= noise <= limits.TIMER_NOISE_MAX_S:
        raise ValueError(f"timer_noise_s is {noise!r}")
    if any(normalised_name(part) != part for name in names for part in name.split(SEPARATOR, 1)) or any(
        type(n) is not int for n in totals.values()
    ):
        raise ValueError("names or totals are none")
    if header["slots"] != len(names):
        raise ValueError(f"{header['slots']} slots for {len(names)} names")
    memory = header.get("model_memory_bytes", MODEL_MEMORY_BYTES)
    components = Components(float(noise), int(header["components_max"]), int(memory))
    components.restore(dict(enumerate(names)), totals)
    shape = words_of(header["layout"]), header["slots"]
    words = np.frombuffer(data, "<u8", shape[0] * shape[1], start + length).reshape(shape)
    components.table.records_whole.view(np.uint64)[: header["slots"]] = upgraded(words, header["layout"]).T
    components.table.changed[: header["slots"]] = True
    end = _load_supports(components, data, start + length + 8 * words.size, header.get("supports", []))
    documents: dict[str, bytes] = {}
    for name, size in header.get("documents", []):
        documents[name] = data[end : end + size]
        end += size
    components.flows.restore(documents)
    for (name, known), put_record in zip(RECORDS.items(), put, strict=True):
        layout, each, records = header.get(name, [known, 0, 0])
        if layout != known:
            raise StateTooNew(
                f"{name} of layout {layout!r}; this version reads {known!r}",
                field="layout", value=layout, bound=known, hint="use the version that wrote it",
            )  # fmt: skip
        for at in range(records):
            put_record(data[end + at * each : end + (at + 1) * each])
        end += records * each
    return components


def _load_supports(components: Components, data: bytes, start: int, tables: list[Any]) -> int:
    """Put support tables back; return where they end."""
    for name, layout, width, size in tables:
        words = np.frombuffer(data, "<u8", width * size, start).reshape(size, width)
        put_rows(components, name, layout, 0, words, np.full(int(size), True))
        start += 8 * width * size
    for table in components.records.values():
        table.changed[: table.size] = True
    check_words(components)
    components.resume()
    return start
