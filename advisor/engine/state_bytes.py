"""The one encoding of a state: blocks of records, for the state file, copies, exports and parts.

A block: ``bytes of the head (u32), head (JSON), body``, little-endian. The first block of a state has its limits and totals.
A block of components has up to 256 slots: their names, the words of the table of components, and, for each further table,
places and words of their records. Any other block has records of one kind by key. States as bytes are the magic, then
blocks in frames, ``length (u64), CRC-32 (u32), block``, and an empty frame.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import numpy as np

from advisor.domain import limits
from advisor.domain.json_bytes import read_json
from advisor.domain.names import normalised_name
from advisor.engine.components import Components
from advisor.engine.kinds import RecordKind
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.rows import SEPARATOR
from advisor.errors import InvalidValue, StateDamaged, StateTooNew
from advisor.models.contention import NAME as CONTENTION
from advisor.models.layout import LAYOUT, WORDS
from advisor.models.learner_layout import AXES_MAX
from advisor.models.records import RecordTable

MAGIC: Final = b"ADVISOR\x00"
FORMAT: Final = 1  # of a state's bytes, file and log: any other is refused
SLOTS_A_BLOCK: Final = 256  # about 256 KB, a tenth of a millisecond
RECORDS_BYTES: Final = 2**18  # of a block of other records, but for one that has more
END: Final = b""  # the last frame of a state
NAMES_REPORTED: Final = 8  # of a block, in its label
LEARNERS: Final = re.compile(r"learner-([2-5])(?:-([a-z_]+))?")
_FRAME: Final = struct.Struct("<QI")
_LENGTH: Final = struct.Struct("<I")


COMPONENTS: Final = "components"
TOTALS: Final = "totals"
PART_KINDS: Final = {"flows": "networks"}  # other parts have the name of their kind
Keys = Mapping[str, Collection[Any] | None]  # of a part of a state, by kind; None: all


class Block(NamedTuple):
    """A part of a state; the text before the colon of its label tells it from the others."""

    label: str  # in words, for an operator: `components at slots 0 to 255: a, b, …`
    data: bytes


class Stored(NamedTuple):
    """What a restart finds: the blocks of an image that are whole, the bytes it had, and the entries of the log behind it."""

    blocks: deque[bytes]
    log: Sequence[bytes] = ()
    bytes: int = 0


@dataclass(frozen=True)
class Decoded:
    """The components of a state, with its totals; and records of other kinds, by kind and key."""

    components: Components
    records: dict[str, dict[Any, bytes]] = field(default_factory=dict[str, dict[Any, bytes]])


# -- writing ----------------------------------------------------------------------------------------------------------------


def encode(
    components: Components,
    totals: Mapping[str, int],
    kinds: Iterable[tuple[RecordKind[Any, Any], Collection[Any] | None]],
) -> Iterator[Block]:
    """Yield the blocks of components, and of those records of each kind that are named, None: all. Cost of one: O(block)."""
    yield _block("totals", {
        "kind": "state", "format": FORMAT, "components_max": components.slots.components_max,
        "model_memory_bytes": components.learners.memory_bytes, "totals": dict(sorted(totals.items())),
    })  # fmt: skip
    for first in range(0, len(components), SLOTS_A_BLOCK):
        yield _slots(components, first, min(first + SLOTS_A_BLOCK, len(components)))
    for kind, keys in kinds:
        yield from _records(kind, keys)


def whole_state(components: Components, kinds: Iterable[RecordKind[Any, Any]]) -> bytes:
    """Return a state as bytes."""
    return to_bytes(encode(components.compact(), components.totals, [(kind, None) for kind in kinds]))


def keys_of_parts(names: Iterable[str] | None, parts: Iterable[str]) -> Keys:
    """Return the keys of components with what is of them, all where no names are given, and of parts that span components."""
    of_names = None if names is None else frozenset(names)
    return dict.fromkeys((COMPONENTS, "allowed", "task_types"), of_names) | {
        PART_KINDS.get(part, part): None for part in parts
    }


def part_of_state(components: Components, kinds: Iterable[RecordKind[Any, Any]], keys: Keys) -> bytes:
    """Return what stands at keys, those known, as bytes; components in the order of their names."""
    names = keys[COMPONENTS]
    copies = components.copy_components(components.slots.components if names is None else names)
    totals: Mapping[str, int] = components.totals if TOTALS in keys else {}
    return to_bytes(encode(copies, totals, [(kind, keys.get(kind.name, ())) for kind in kinds]))


def _block(label: str, head: Mapping[str, Any], *body: bytes) -> Block:
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    return Block(label, b"".join([_LENGTH.pack(len(text)), text, *body]))


def _label(what: str, names: Sequence[str]) -> str:
    return f"{what}: {', '.join(names[:NAMES_REPORTED])}{', …' if len(names) > NAMES_REPORTED else ''}"


def _slots(components: Components, first: int, end: int) -> Block:
    names = components.slots.names[first:end]
    body = [np.ascontiguousarray(components.table.records[first:end]).astype("<f8", copy=False).tobytes()]
    tables: list[tuple[str, str, int]] = []
    beside = (components.learners, components.contentions)
    found = (each for records in beside for each in records.within(first, end))
    for name, table, places in sorted(found, key=lambda each: each[0]):
        tables.append((name, table.layout, len(places)))
        body += places.astype("<i8").tobytes(), table.words[places].astype("<f8", copy=False).tobytes()
    head = {"kind": "components", "layout": LAYOUT, "first": first, "names": names, "tables": tables}
    plain = [name for name in names if SEPARATOR not in name]
    return _block(_label(f"components at slots {first} to {end - 1}", plain), head, *body)


def _records(kind: RecordKind[Any, Any], keys: Collection[Any] | None) -> Iterator[Block]:
    found: list[tuple[Any, bytes]] = []
    blocks = 0

    def block() -> Block:
        reported = [key if isinstance(key, str) else [key[0], key[1].hex()] for key, _ in found]
        head = {"kind": kind.name, "keys": reported, "sizes": [len(data) for _, data in found]}
        names = [key if isinstance(key, str) else key[0] for key, _ in found]
        return _block(
            _label(f"{kind.name.replace('_', ' ')}, part {blocks}", names), head, *(data for _, data in found)
        )

    for key, data in kind.records(keys):
        if found and sum(len(each) for _, each in found) + len(data) > RECORDS_BYTES:
            yield block()
            blocks += 1
            found.clear()
        found.append((key, data))
    if found:
        yield block()


def to_bytes(blocks: Iterable[Block]) -> bytes:
    """Return a state as bytes; equal states give equal bytes."""
    return MAGIC + framed((*(block.data for block in blocks), END))


def framed(payloads: Iterable[bytes]) -> bytes:
    """Return payloads as frames."""
    return b"".join(part for data in payloads for part in (_FRAME.pack(len(data), zlib.crc32(data)), data))


# -- reading ----------------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> Iterator[bytes]:
    """Yield the payloads of whole frames, up to a cut. Raises StateDamaged."""
    at = 0
    while at + _FRAME.size <= len(data):
        length, summed = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        payload = data[at : at + length]
        if len(payload) < length:
            return
        if zlib.crc32(payload) != summed:
            raise StateDamaged("the checksum of the state does not match: it was changed", hint="export it again")
        yield payload
        at += length


def from_bytes(data: bytes) -> Decoded:
    """Return what the bytes of a state hold.

    Raises StateDamaged when they are cut, changed, or no state at all; StateTooNew when they have another format.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidValue("data", data, "bytes that to_bytes gave")
    data = bytes(data)
    if not data.startswith(MAGIC):
        raise StateDamaged("these bytes are no advisor state", hint="give what to_bytes or `advisor export` wrote")
    blocks = deque(frames(data[len(MAGIC) :]))
    if len(MAGIC) + sum(_FRAME.size + len(each) for each in blocks) != len(data) or not blocks or blocks.pop() != END:
        raise StateDamaged("the checksum of the state does not match: it was cut or changed", hint="export it again")
    return decode(blocks, len(data))


def decode(blocks: deque[bytes], bytes_max: int) -> Decoded:
    """Return what blocks hold, and consume them. Slots whose block is not there are free. Raises as `from_bytes`.

    `bytes_max`: what all blocks together may have had: room is made for no more.
    """
    made = Decoded(Components(limits.COMPONENTS_MAX, MODEL_MEMORY_BYTES))
    try:
        while blocks:
            _restore(made, blocks.popleft(), bytes_max // (8 * WORDS))
        made.components.slots.index()
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, struct.error) as error:
        raise StateDamaged(
            f"the state does not read: {type(error).__name__} {error}",
            hint="restore a backup, or give what to_bytes or `advisor export` wrote",
        ) from error
    _check_words(made.components)
    made.components.rebuild_indices()
    return made


def _restore(made: Decoded, block: bytes, slots_max: int) -> None:
    (length,) = _LENGTH.unpack_from(block)
    head: dict[str, Any] = read_json(block[_LENGTH.size : _LENGTH.size + length])
    body, components = block[_LENGTH.size + length :], made.components
    if head["kind"] == "state":
        if head["format"] != FORMAT:
            raise _other("format", head["format"], FORMAT)
        totals = head["totals"]
        if any(type(n) is not int for n in totals.values()):
            raise ValueError("totals are none")
        components.slots.components_max = int(head["components_max"])
        components.learners.memory_bytes = int(head["model_memory_bytes"])
        components.totals.update(totals)
    elif head["kind"] == "components":
        _restore_slots(components, head, body, slots_max)
    else:
        at, found = 0, made.records.setdefault(head["kind"], {})
        for key, size in zip(head["keys"], head["sizes"], strict=True):
            if type(size) is not int or not 0 <= size <= len(body) - at:
                raise ValueError(f"a record of {size!r} bytes")
            known = key if isinstance(key, str) else (str(key[0]), bytes.fromhex(key[1]))
            name = known if isinstance(known, str) else known[0]
            if name and normalised_name(name) != name:
                raise ValueError("a key is no name")
            found[known] = body[at : at + size]
            at += size


def _restore_slots(components: Components, head: Mapping[str, Any], body: bytes, slots_max: int) -> None:
    if head["layout"] != LAYOUT:
        raise _other("layout", head["layout"], LAYOUT)
    first, names = head["first"], cast("list[str]", head["names"])
    if any(normalised_name(part) != part for name in names for part in name.split(SEPARATOR) if part):
        raise ValueError("names are none")
    end = first + len(names)
    if type(first) is not int or not 0 <= first <= end <= slots_max:
        raise ValueError(f"slots {first!r} to {end}")
    components.slots.set_names(first, names)
    components.table.grow(len(components), max(components.slots.components_max, end))
    at = 8 * WORDS * len(names)
    words = np.frombuffer(body, "<u8", WORDS * len(names)).reshape(-1, WORDS)
    components.table.records_whole.view(np.uint64)[first:end] = words
    for name, layout, count in head["tables"]:
        table = _table(components, name, layout)
        places = np.frombuffer(body, "<i8", count, at)
        if len(places) and not 0 <= places.min() <= places.max() < slots_max:
            raise ValueError(f"a place of {name}")
        at += places.nbytes
        words = np.frombuffer(body, "<f8", count * table.words_a_record, at)
        table.grow(int(places.max(initial=-1)) + 1)
        table.words[places] = words.reshape(count, -1)
        at += words.nbytes
    if at != len(body):
        raise ValueError(f"{len(body)} bytes, {at} by the head")


def _table(components: Components, name: str, layout: str) -> RecordTable:
    """Return the table of records of a name; raises StateTooNew when this version knows no such one."""
    known = LEARNERS.fullmatch(name)
    axes = int(known[1]) if known else 0
    if name != CONTENTION and (known is None or axes > AXES_MAX):
        raise _other("table", name, f"{CONTENTION} and learners' tables")
    if known is not None:
        table: RecordTable = components.learners.table(axes, known[2] or "")
    else:
        table = components.contentions.named(name)
    if table.layout != layout:
        raise _other("layout", layout, table.layout)
    return table


def _other(field: str, found: object, read: object) -> StateTooNew:
    return StateTooNew(
        f"a state of {field} {found!r}; this version reads {read!r}", field=field, value=cast("Any", found),
        bound=cast("Any", read), hint="use the version that wrote it",
    )  # fmt: skip


def _check_words(components: Components) -> None:
    """See that all words are such as rows can lead to, before they are used.

    Raises StateDamaged when one is not: a checksum does not tell who wrote it.
    """
    n = len(components)
    name, owners = "base", np.arange(n)
    found = components.table.outside(n)
    for table_name, table in components.records.items():
        if found is not None:
            break
        name, owners = table_name, table.int_field("component")[: table.size]
        strange = np.flatnonzero((owners < -1) | (owners >= n))
        found = (int(strange[0]), "component", int(owners[strange[0]])) if len(strange) else table.outside(table.size)
    if found is not None:
        slot = int(owners[found[0]])
        whose = components.slots.names[slot] if 0 <= slot < n else "no component"
        raise StateDamaged(
            f"{name} table: {found[1]} of {whose} is {found[2]!r}, which no rows lead to", components=(whose,),
            hint="restore a backup",
        )  # fmt: skip
