"""The whole state as bytes: a header in JSON, the table's words, a checksum over both.

Layout: 8 bytes of magic, u32 header length, header, words (uint64, one statistic after the other), records, documents,
programs, task types, profiles, u32 CRC-32 of all before; little-endian. The header: {format, layout,
components_max, names, totals, words, slots, model_memory_bytes, supports, documents, programs, task_types, producers,
profiles}; supports lists [name, layout, words, records] of each support table, whose records follow the base table's words;
documents lists [name, bytes] of each document; programs and task_types, where there are some, are [layout, bytes, records] of
those of whole programs and of task types; producers and profiles, of an engine's state, are [name, incarnation, number] of
each producer and the layout and bytes of each run.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from advisor.domain.json_bytes import read_json
from advisor.domain.names import normalised_name
from advisor.engine.components import Components
from advisor.engine.exactly_once import Producer
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.pages import check_words, put_rows
from advisor.engine.programs import LAYOUT as PROGRAM_LAYOUT
from advisor.engine.slots import SEPARATOR
from advisor.engine.task_types import LAYOUT as TYPE_LAYOUT
from advisor.errors import InvalidValue, StateDamaged, StateTooNew
from advisor.models.layout import LAYOUT, WORDS
from advisor.models.upgrade import READABLE, upgraded, words_of

RECORDS = {"programs": PROGRAM_LAYOUT, "task_types": TYPE_LAYOUT}  # in this order, behind the documents
PROFILE_LAYOUT: Final = "profile-1"
MAGIC = b"ADVISOR\x00"
FORMAT = 4  # 1 had the base table only, 2 neither documents nor programs, 3 neither producers nor profiles


@dataclass(frozen=True)
class Parts:
    """What a state has beside the components, or a part of it; see `Engine.extract` for the law of each."""

    totals: Mapping[str, int]
    documents: Mapping[str, bytes]  # networks, with what was learned of their flow
    # programs, task_types: records, each kind of one length
    programs: Sequence[bytes] = ()
    task_types: Sequence[bytes] = ()
    # mapping of (name, incarnation) to int, or None: the ledger; None in the state of an advisor, which has none
    producers: Mapping[Producer, int] | None = None
    profiles: Sequence[bytes] = ()  # runs of any length


def dump(components: Components, parts: Parts) -> bytes:
    """Return the state's bytes; equal states give equal bytes. Cost O(components)."""
    components = components.compact()
    n = len(components)
    # By name, and only those with records: the order in which they were made depends on how rows were cut into batches.
    supports = [(name, table) for name, table in sorted(components.records.items()) if table.size]
    header: dict[str, Any] = {
        "format": FORMAT if parts.producers is not None else FORMAT - 1,
        "layout": LAYOUT,
        "components_max": components.slots.components_max,
        "names": components.slots.names,
        "totals": dict(sorted(parts.totals.items())),
        "words": WORDS,
        "slots": n,
        "model_memory_bytes": components.learners.memory_bytes,
        "documents": [[name, len(data)] for name, data in parts.documents.items()],
        "supports": [[name, table.layout, table.words_a_record, table.size] for name, table in supports],
    }
    for name, layout in RECORDS.items():
        if records := getattr(parts, name):
            header[name] = [layout, len(records[0]), len(records)]
    if parts.producers is not None:
        numbers = sorted(parts.producers.items())
        header["producers"] = [[name, incarnation.hex(), number] for (name, incarnation), number in numbers]
        header["profiles"] = [PROFILE_LAYOUT, *map(len, parts.profiles)]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    words = np.ascontiguousarray(components.table.words[:n].T).view(np.uint64).astype("<u8", copy=False).tobytes()
    for _, table in supports:
        words += table.words[: table.size].view(np.uint64).astype("<u8", copy=False).tobytes()
    records = (*parts.documents.values(), *parts.programs, *parts.task_types, *parts.profiles)
    body = b"".join((MAGIC, struct.pack("<I", len(text)), text, words, *records))
    return body + struct.pack("<I", zlib.crc32(body))


def load(data: bytes) -> tuple[Components, Parts]:
    """Return the components of a state, with its networks and totals; and what it has beside.

    Raises StateDamaged when the bytes are cut, changed, or no state at all; StateTooNew when a later version wrote them.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidValue("data", data, "bytes that to_bytes gave")
    data = bytes(data)
    if len(data) < len(MAGIC) + 8 or not data.startswith(MAGIC):
        raise StateDamaged("these bytes are no advisor state", hint="give what to_bytes or `advisor export` wrote")
    if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise StateDamaged("the checksum of the state does not match: it was cut or changed", hint="export it again")
    try:
        return _load(data)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, InvalidValue) as error:
        raise StateDamaged(
            f"the state does not read: {type(error).__name__} {error}",
            hint="give what to_bytes or `advisor export` wrote",
        ) from error


def _load(data: bytes) -> tuple[Components, Parts]:
    (length,) = struct.unpack_from("<I", data, len(MAGIC))
    start = len(MAGIC) + 4
    header: dict[str, Any] = read_json(data[start : start + length])
    if header["format"] > FORMAT or header["layout"] not in READABLE:
        raise StateTooNew(
            f"state of format {header['format']}, layout {header['layout']}; this version reads format {FORMAT}, {LAYOUT}",
            field="format", value=header["format"], bound=FORMAT, hint="use the version that wrote it",
        )  # fmt: skip
    totals = header["totals"]
    names: list[str] = header["names"]
    if any(normalised_name(part) != part for name in names for part in name.split(SEPARATOR, 1)) or any(
        type(n) is not int for n in totals.values()
    ):
        raise ValueError("names or totals are none")
    if header["slots"] != len(names):
        raise ValueError(f"{header['slots']} slots for {len(names)} names")
    memory = header.get("model_memory_bytes", MODEL_MEMORY_BYTES)
    components = Components(int(header["components_max"]), int(memory))
    components.restore(dict(enumerate(names)), totals)
    shape = words_of(header["layout"]), header["slots"]
    words = np.frombuffer(data, "<u8", shape[0] * shape[1], start + length).reshape(shape)
    components.table.records_whole.view(np.uint64)[: header["slots"]] = upgraded(words, header["layout"]).T
    components.table.changed[: header["slots"]] = True
    end = _load_supports(components, data, start + length + 8 * words.size, header.get("supports", []))
    documents: dict[str, bytes] = {}
    for name, size in header.get("documents", []):
        documents[name] = data[end : end + _count(size, data)]
        end += size
    components.flows.restore(documents)
    found: dict[str, list[bytes]] = {}
    for name, known in (*RECORDS.items(), ("profiles", PROFILE_LAYOUT)):
        layout, *sizes = header.get(name, [known])
        if layout != known:
            raise StateTooNew(
                f"{name} of layout {layout!r}; this version reads {known!r}",
                field="layout", value=layout, bound=known, hint="use the version that wrote it",
            )  # fmt: skip
        if name in RECORDS and sizes:
            each, records = sizes
            sizes = [each] * (_count(records, data) * bool(each))
        found[name] = [data[(end := end + _count(size, data)) - size : end] for size in sizes]
    producers = header.get("producers")
    if producers is not None:
        producers = {(name, bytes.fromhex(own)): int(number) for name, own, number in producers}
    return components, Parts(totals, documents, producers=producers, **found)


def _count(value: object, data: bytes) -> int:
    """Return what the head counts: no more of anything than there are bytes, before room is made for it."""
    if type(value) is not int or not 0 <= value <= len(data):
        raise ValueError(f"a count of {value!r}")
    return value


def _load_supports(components: Components, data: bytes, start: int, tables: list[Any]) -> int:
    """Put support tables back; return where they end."""
    for name, layout, width, size in tables:
        if not _count(width, data) and _count(size, data):
            raise ValueError(f"{size} records of no words")
        words = np.frombuffer(data, "<u8", _count(width * size, data), start).reshape(size, width)
        put_rows(components, name, layout, 0, words, np.full(int(size), True))
        start += 8 * width * size
    for table in components.records.values():
        table.changed[: table.size] = True
    check_words(components)
    components.resume()
    return start
