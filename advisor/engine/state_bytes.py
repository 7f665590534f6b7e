"""The one encoding of a state: blocks of records, for the state file, copies, exports and parts.

The first block of a state has its limits and totals. A block of components has up to 256 slots: their names, the words of the
table of components, and, for each further table, places and words of their records. Any other block has one record of a kind,
by its key. A block is MessagePack, arrays in it little-endian bytes; a state as bytes is the frames of its blocks and an end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np

from advisor.domain import limits
from advisor.domain.names import normalised_name
from advisor.engine.components import Components
from advisor.engine.frames import Block, framed, read_frames
from advisor.engine.kinds import RecordKind
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.engine.rows import SEPARATOR
from advisor.errors import InvalidValue, StateDamaged, StateTooNew
from advisor.models.contention import NAME as CONTENTION
from advisor.models.layout import LAYOUT, WORDS
from advisor.models.learner_layout import AXES_MAX
from advisor.models.records import RecordTable

FORMAT: Final = 1  # of a state's bytes, file and log: any other is refused
HEAD: Final = "state"  # the label of a state's first block
END: Final = "end"  # and of its last frame, which is empty
SLOTS_A_BLOCK: Final = 256  # about 256 KB, a tenth of a millisecond
NAMES_REPORTED: Final = 8  # of a block, in its label
LEARNERS: Final = re.compile(rf"learner-[2-{AXES_MAX}](-[a-z_]+)?")

COMPONENTS: Final = "components"
TOTALS: Final = "totals"
Keys = Mapping[str, Collection[Any] | None]  # of a part of a state, by kind; None: all
Parts = Keys | Collection[str]  # of what spans components: keys by kind, or kinds as a whole


class StateHead(msgspec.Struct, frozen=True, array_like=True, tag="state"):
    """Limits and totals of a state."""

    format: int
    components_max: int
    model_memory_bytes: int
    totals: dict[str, int]


class ComponentsBlock(msgspec.Struct, frozen=True, array_like=True, tag="components"):
    """Components of some slots."""

    layout: str
    first: int  # slot
    names: list[str]
    words: bytes  # of the table of components
    tables: list[tuple[str, str, bytes, bytes]]  # of each further table its name, layout, places and words


class KeyedRecord(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """One record of a kind, see `advisor.engine.kinds`."""

    kind: str
    key: str | tuple[str, bytes]
    data: bytes


_DECODER: Final = msgspec.msgpack.Decoder(StateHead | ComponentsBlock | KeyedRecord)


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
    components: Components, totals: Mapping[str, int], kinds: Iterable[RecordKind[Any, Any]], keys: Keys | None = None
) -> Iterator[Block]:
    """Yield the blocks of components, and of those records of each kind that are named, None: all. Cost of one: O(block)."""
    memory = components.learners.memory_bytes
    yield _block(HEAD, StateHead(FORMAT, components.slots.components_max, memory, dict(sorted(totals.items()))))
    for first in range(0, len(components), SLOTS_A_BLOCK):
        yield _slots(components, first, min(first + SLOTS_A_BLOCK, len(components)))
    for kind in kinds:
        for key, data in kind.records(None if keys is None else keys.get(kind.name, ())):
            name = key if isinstance(key, str) else key[0]
            yield _block(f"{kind.name.replace('_', ' ')}: {name}", KeyedRecord(kind.name, key, data))


def whole_state(components: Components, kinds: Iterable[RecordKind[Any, Any]]) -> bytes:
    """Return a state as bytes."""
    return to_bytes(encode(components.compact(), components.totals, kinds))


def keys_of_parts(names: Iterable[str] | None, parts: Parts) -> Keys:
    """Return the keys of components with what is of them, all where no names are given, and of parts that span components."""
    of_names = None if names is None else frozenset(names)
    further: Keys = cast("Keys", parts) if isinstance(parts, Mapping) else dict.fromkeys(parts)
    return {**dict.fromkeys((COMPONENTS, "allowed", "task_types"), of_names), **further}


def part_of_state(components: Components, kinds: Iterable[RecordKind[Any, Any]], keys: Keys) -> bytes:
    """Return what stands at keys, those known, as bytes; components in the order of their names."""
    names = keys[COMPONENTS]
    copies = components.copy_components(components.slots.components if names is None else names)
    return to_bytes(encode(copies, components.totals if TOTALS in keys else {}, kinds, keys))


def _block(label: str, contents: StateHead | ComponentsBlock | KeyedRecord) -> Block:
    return Block(label, msgspec.msgpack.encode(contents))


def _slots(components: Components, first: int, end: int) -> Block:
    names = components.slots.names[first:end]
    beside = (components.learners, components.contentions)
    tables = [
        (name, table.layout, places.astype("<i8").tobytes(), table.words[places].astype("<f8", copy=False).tobytes())
        for records in beside for name, table, places in records.within(first, end)
    ]  # fmt: skip
    words = np.ascontiguousarray(components.table.records[first:end]).astype("<f8", copy=False).tobytes()
    plain = [name for name in names if SEPARATOR not in name]
    reported = f"{', '.join(plain[:NAMES_REPORTED])}{', …' if len(plain) > NAMES_REPORTED else ''}"
    label = f"components at slots {first} to {end - 1}: {reported}"
    return _block(label, ComponentsBlock(LAYOUT, first, names, words, sorted(tables)))


def to_bytes(blocks: Iterable[Block]) -> bytes:
    """Return a state as bytes; equal states give equal bytes."""
    return b"".join([framed(*block) for block in blocks] + [framed(END, b"")])


# -- reading ----------------------------------------------------------------------------------------------------------------


def from_bytes(data: bytes) -> Decoded:
    """Return what the bytes of a state hold.

    Raises StateDamaged when they are cut, changed, or no state at all; StateTooNew when they have another format.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidValue("data", data, "bytes that to_bytes gave")
    frames = list(read_frames(data))
    if not frames or frames[0].label != HEAD:
        raise StateDamaged("these bytes are no advisor state", hint="give what to_bytes or `advisor export` wrote")
    blocks = deque(frame.data for frame in frames if frame.data is not None)
    if len(blocks) < len(frames) or frames[-1].label != END:
        raise StateDamaged("the checksum of the state does not match: it was cut or changed", hint="export it again")
    blocks.pop()
    return decode(blocks, len(data))


def decode(blocks: deque[bytes], bytes_max: int) -> Decoded:
    """Return what blocks hold, and consume them. Slots whose block is not there are free. Raises as `from_bytes`.

    `bytes_max`: what all blocks together may have had: room is made for no more.
    """
    made = Decoded(Components(limits.COMPONENTS_MAX, MODEL_MEMORY_BYTES))
    try:
        while blocks:
            _restore(made, _DECODER.decode(blocks.popleft()), bytes_max // (8 * WORDS))
        made.components.slots.index()
        _check_owners(made.components)
    except (LookupError, TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise StateDamaged(
            f"the state does not read: {type(error).__name__} {error}",
            hint="restore a backup, or give what to_bytes or `advisor export` wrote",
        ) from error
    made.components.rebuild_indices()
    return made


def _restore(made: Decoded, block: StateHead | ComponentsBlock | KeyedRecord, slots_max: int) -> None:
    components = made.components
    if isinstance(block, StateHead):
        if block.format != FORMAT:
            raise _other("format", block.format, FORMAT)
        components.slots.components_max = block.components_max
        components.learners.memory_bytes = block.model_memory_bytes
        components.totals.update(block.totals)
    elif isinstance(block, ComponentsBlock):
        _restore_slots(components, block, slots_max)
    else:
        name = block.key if isinstance(block.key, str) else block.key[0]
        if name and normalised_name(name) != name:
            raise ValueError("a key is no name")
        made.records.setdefault(block.kind, {})[block.key] = block.data


def _restore_slots(components: Components, block: ComponentsBlock, slots_max: int) -> None:
    if block.layout != LAYOUT:
        raise _other("layout", block.layout, LAYOUT)
    first, names = block.first, block.names
    if any(normalised_name(part) != part for name in names for part in name.split(SEPARATOR) if part):
        raise ValueError("names are none")
    end = first + len(names)
    if not 0 <= first <= end <= slots_max:
        raise ValueError(f"slots {first} to {end}")
    components.slots.set_names(first, names)
    components.table.grow(len(components), max(components.slots.components_max, end))
    words = np.frombuffer(block.words, "<u8").reshape(len(names), WORDS)
    components.table.records_whole.view(np.uint64)[first:end] = words
    for name, layout, at, words in block.tables:
        table, places = _table(components, name, layout), np.frombuffer(at, "<i8")
        if len(places) and not 0 <= places.min() <= places.max() < slots_max:
            raise ValueError(f"a place of {name}")
        table.grow(int(places.max(initial=-1)) + 1)
        table.words[places] = np.frombuffer(words, "<f8").reshape(len(places), table.words_a_record)


def _table(components: Components, name: str, layout: str) -> RecordTable:
    """Return the table of records of a name; raises StateTooNew when this version knows no such one."""
    if name != CONTENTION and not LEARNERS.fullmatch(name):
        raise _other("table", name, f"{CONTENTION} and learners' tables")
    table: RecordTable = (components.contentions if name == CONTENTION else components.learners).named(name)
    if table.layout != layout:
        raise _other("layout", layout, table.layout)
    return table


def _other(field: str, found: object, read: object) -> StateTooNew:
    return StateTooNew(
        f"a state of {field} {found!r}; this version reads {read!r}", field=field, value=cast("Any", found),
        bound=cast("Any", read), hint="use the version that wrote it",
    )  # fmt: skip


def _check_owners(components: Components) -> None:
    """Raise ValueError where a record is of no component."""
    for name, table in components.records.items():
        owners = table.int_field("component")[: table.size]
        if not -1 <= owners.min(initial=-1) <= owners.max(initial=-1) < len(components):
            raise ValueError(f"a record of {name} is of no component")
