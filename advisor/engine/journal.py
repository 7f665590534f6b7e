"""The journal: what has happened since the pages were written, event by event, so that a commit need not write pages.

A fold is a strict left fold, so the pages and then the events in their order give the same state, to the bit. Held are rows,
by the slots that they went to, and the events of `BY_HAND`; what else changes a state (task events) needs its pages.

One entry a commit: ``magic, length of the head (u32), head (JSON), columns``, numbers little-endian. Who keeps it adds a
checksum.
"""

from __future__ import annotations

import json
import operator
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain.json_bytes import read_json
from advisor.domain.observations import UNRESOLVED, Columns, ComponentNames, Misread
from advisor.domain.runs import ProgramRun
from advisor.domain.vectors import Bools, Ints
from advisor.engine.components import Components
from advisor.engine.events import (
    ComponentForgotten,
    ComponentPinned,
    Drop,
    Event,
    NetworkDefined,
    ProgramForgotten,
    Travels,
)
from advisor.engine.exactly_once import Producer
from advisor.errors import AdvisorError, StateDamaged, StateTooNew

# The last two are the format; a later one is refused. 01 had no events but rows, `forget` and `pin`, 02 no narrow columns,
# 03 no rows without predictor: these were rows of 1.
MAGIC = b"AJ04"
READABLE = (b"AJ01", b"AJ02", b"AJ03", MAGIC)
_HEAD = struct.Struct("<4sI")

# Columns that a batch may have, in their order behind the head: (name, type on disk, type in memory, values a row).
PLAIN = (
    ("predictor", "<f8", np.float64, 1), ("cores", "<f8", np.float64, 1), ("elapsed_s", "<f8", np.float64, 1),
)  # fmt: skip
NARROW = {"slots": "<u2", "cores": "u1"}  # on disk where all values of many rows fit in: 19 bytes a row of 28
NARROW_ROWS = 64  # fewer are not looked at: that takes as long as they do
OPTIONAL = (
    ("count", "<i8", np.int64, 1), ("ok", "u1", np.bool_, 1), ("running", "u1", np.bool_, 1),
    ("further", "<f8", np.float64, 3), ("machine", "<i8", np.int64, 1), ("network", "<i8", np.int64, 1),
    ("record", "<u8", np.uint64, 1), ("entered", "u1", np.bool_, 1), ("replica", "<u8", np.uint64, 1),
    ("active_cores", "<f8", np.float64, 1), ("at_risk_s", "<f8", np.float64, 1),
    ("absent", "u1", np.bool_, 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowsEvent:
    """A batch, or a piece of one, that was folded."""

    columns: Columns
    # int64 array (n,): the slot of each row's component; UNRESOLVED where it has none: such a row was refused
    slots: Ints
    names: tuple[str, ...]  # what was given the next slots since the event before
    # tuple of (slot, name): former slots that serve other names: all since the pages were written, where there are new
    # ones
    renamed: tuple[tuple[int, str], ...] = ()
    travels: bool = False  # of these rows only the flow of networks was learned

    @property
    def event(self) -> Columns | Travels:
        """What happened."""
        return Travels(self.columns) if self.travels else self.columns

    def __len__(self) -> int:
        return len(self.slots)

    def encode(self, parts: list[bytes]) -> dict[str, Any]:
        """Append the columns to `parts`; return what the head says of them."""
        columns, slots = self.columns, self.slots
        told: dict[str, Any] = {"travels" if self.travels else "rows": len(slots)}
        if self.names:
            told["names"] = self.names
        if self.renamed:
            told["renamed"] = self.renamed
        if (slots == UNRESOLVED).any():
            slots, told["others"] = _with_others(columns, slots)
        narrow: list[str] = []
        for key, kind, values in (
            ("slots", "<i4", slots),
            *((key, kind, getattr(columns, key)) for key, kind, *_ in PLAIN),
        ):
            fits = _narrowed(values, NARROW[key]) if key in NARROW and len(slots) >= NARROW_ROWS else None
            if fits is not None:
                narrow.append(key)
            parts.append((values.astype(kind, copy=False) if fits is None else fits).tobytes())
        there: list[str] = []
        for key, kind, _, _ in OPTIONAL:
            if (values := getattr(columns, key)) is not None:
                there.append(key)
                parts.append(values.astype(kind, copy=False).tobytes())
        parts += [values.astype("<f8", copy=False).tobytes() for values in columns.measures.values()]
        misread: Mapping[str, Bools] = {} if columns.misread is None else columns.misread.codes
        parts += [np.packbits(mask).tobytes() for mask in misread.values()]
        rest = {
            "narrow": narrow, "columns": there, "measures": list(columns.measures), "machines": columns.machines,
            "networks": columns.networks, "misread": list(misread), "carried": dict(columns.carried),
        }  # fmt: skip
        return told | {key: value for key, value in rest.items() if value}


# Events written field by field: each by the name that its first field has in the head.
BY_HAND: Mapping[str, type[Any]] = {
    "forget": ComponentForgotten, "drop": Drop, "pin": ComponentPinned, "forget_program": ProgramForgotten,
    "run": ProgramRun, "network": NetworkDefined,
}  # fmt: skip
NOT_WRITTEN = ("read",)  # a network is read again
NAME_OF = {kind: name for name, kind in BY_HAND.items()}

ByHand = ComponentForgotten | Drop | ComponentPinned | ProgramForgotten | ProgramRun | NetworkDefined
JournalEvent = RowsEvent | ByHand


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine was allowed: which rows are refused depends on it, so they are replayed under the same."""

    components_max: int
    model_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What one commit adds to the journal."""

    limits: Limits
    events: tuple[JournalEvent, ...] = ()
    # mapping of (name, incarnation) to sequence: producers whose applied number changed
    producers: Mapping[Producer, int] = field(default_factory=dict[Producer, int])
    producers_gone: tuple[Producer, ...] = ()  # tuple of (name, incarnation)
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # what the totals count beside the events

    @property
    def empty(self) -> bool:
        """True when there is nothing to write: counts alone wait for company."""
        return not (self.events or self.producers or self.producers_gone)

    def then(self, later: Entry) -> Entry:
        """Return both as one."""
        kept = {key: number for key, number in self.producers.items() if key not in later.producers_gone}
        gone = tuple(key for key in self.producers_gone if key not in later.producers)
        return Entry(
            later.limits, self.events + later.events, kept | dict(later.producers),
            tuple(dict.fromkeys(gone + later.producers_gone)), Counter(self.counts) + Counter(later.counts),
        )  # fmt: skip

    def encode(self) -> bytes:
        """Return the entry's bytes. Cost O(rows)."""
        parts: list[bytes] = []
        events: list[dict[str, Any]] = []
        for event in self.events:
            if isinstance(event, RowsEvent):
                events.append(event.encode(parts))
            else:
                first, *rest = (each.name for each in fields(event) if each.name not in NOT_WRITTEN)
                told = {NAME_OF[type(event)]: getattr(event, first)}
                events.append(told | {name: getattr(event, name) for name in rest})
        limits = self.limits
        head = {
            "limits": [limits.components_max, limits.model_memory_bytes],
            "events": events,
            "producers": [[name, own.hex(), number] for (name, own), number in self.producers.items()],
            "gone": [[name, own.hex()] for name, own in self.producers_gone],
            "counts": dict(self.counts),
        }
        data = json.dumps(head).encode()
        return b"".join([_HEAD.pack(MAGIC, len(data)), data, *parts])


def decode(data: bytes, book: Book) -> Entry:
    """Return an entry, its rows by the names of `book`, which learns the new ones.

    Raises StateTooNew when a later version wrote it; StateDamaged when it is no entry.
    """
    try:
        return _decode(data, book)
    except (LookupError, TypeError, ValueError, RecursionError, AttributeError, struct.error) as error:
        if isinstance(error, AdvisorError):
            raise
        raise StateDamaged(f"an entry of the journal does not read: {error!r}", hint="restore a backup") from error


def _decode(data: bytes, book: Book) -> Entry:
    magic, length = _HEAD.unpack_from(data)
    if magic not in READABLE:
        raise StateTooNew(
            f"a journal of format {magic!r}; this version reads {MAGIC!r}",
            field="journal", value=magic, bound=MAGIC, hint="use the version that wrote it",
        )  # fmt: skip
    head: dict[str, Any] = read_json(data[_HEAD.size : _HEAD.size + length])
    reader = _EntryReader(data, _HEAD.size + length)
    events = tuple(_event(told, reader, book) for told in head["events"])
    if reader.offset != len(data):
        raise StateDamaged(f"an entry of the journal has {len(data)} bytes, {reader.offset} by its head")
    return Entry(
        Limits(*head["limits"]),
        events,
        {(name, bytes.fromhex(own)): number for name, own, number in head["producers"]},
        tuple((name, bytes.fromhex(own)) for name, own in head["gone"]),
        {name: operator.index(n) for name, n in head["counts"].items()},
    )


class Book:
    """The names of all slots, as the events of a journal count them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = ComponentNames()
        self.learn(names)

    def learn(self, names: Sequence[str]) -> None:
        """Name the next slots. What is learned beside time has a slot too, and a name that no row may have."""
        _append(self._names, names, [True] * len(names))

    def rename(self, renamed: Sequence[tuple[int, str]]) -> None:
        """Give slots other names."""
        if renamed:
            former, self._names = (
                self._names,
                ComponentNames(),
            )  # lists of names only grow: whoever has seen one knows it
            _append(self._names, former.names, former.valid.tolist())
        for slot, name in renamed:
            self._names.names[slot] = name

    def named(self, slots: Ints, others: Sequence[tuple[str, bool]]) -> tuple[ComponentNames, Ints]:
        """Return names, and the number of each row's: its slot, or one of `others` where that is negative."""
        if len(slots) and not -len(others) <= slots.min() <= slots.max() < len(self._names.names):
            raise StateDamaged(f"an entry of the journal has rows of slot {slots.max()}, of {len(self._names.names)}")
        if not others:
            return self._names, slots
        known, index = np.unique(slots, return_inverse=True)
        numbers: list[int] = known.tolist()
        names = ComponentNames()
        found = [others[-1 - slot] if slot < 0 else (self._names.names[slot], True) for slot in numbers]
        _append(names, [name for name, _ in found], [valid for _, valid in found])
        return names, index


def _append(names: ComponentNames, more: Sequence[str], valid: Sequence[bool]) -> None:
    """Append names as they are in a state: in normal form already."""
    names.names += more
    names.valid = np.concatenate([names.valid, np.array(valid, np.bool_)])
    names.slots = np.concatenate([names.slots, np.full(len(more), UNRESOLVED, np.int64)])


def _with_others(columns: Columns, slots: Ints) -> tuple[Ints, list[tuple[str, bool]]]:
    """Return the slots, -1 - i in rows of the i-th other name; and those, with whether they are names at all."""
    missing = slots == UNRESOLVED
    numbers, index = np.unique(columns.index[missing], return_inverse=True)
    slots = slots.copy()
    slots[missing] = -1 - index
    known = columns.components
    return slots, [(known.names[number], bool(known.valid[number])) for number in numbers.tolist()]


def _narrowed(values: NDArray[Any], kind: str) -> NDArray[Any] | None:
    """Return values as a narrower type; None where some are not the same then."""
    with np.errstate(invalid="ignore"):
        found = values.astype(kind)
    return found if bool((found == values).all()) else None


class _EntryReader:
    """Columns, one behind the other."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self.offset = offset

    def take(self, kind: str, rows: int) -> NDArray[Any]:
        found = np.frombuffer(self._data, kind, rows, self.offset)
        self.offset += found.nbytes
        return found

    def masks(self, codes: Sequence[str], rows: int) -> Iterator[tuple[str, Bools]]:
        for code in codes:
            yield code, np.unpackbits(self.take("u1", -(-rows // 8)), count=rows).astype(np.bool_)


def _event(told: Mapping[str, Any], reader: _EntryReader, book: Book) -> JournalEvent:
    kind = next((kind for name, kind in BY_HAND.items() if name in told), None)
    if kind is not None:
        return kind(*told.values())  # in the order of the fields, as they were written
    travels = "travels" in told
    n = told["travels" if travels else "rows"]
    names = told.get("names", ())
    if names:
        book.learn(names)
    book.rename(told.get("renamed", ()))
    kinds = {key: NARROW[key] for key in told.get("narrow", ())}
    slots = reader.take(kinds.get("slots", "<i4"), n).astype(np.int64)
    components, index = book.named(slots, told.get("others", ()))
    columns: dict[str, Any] = {
        key: reader.take(kinds.get(key, kind), n).astype(own, copy=False) for key, kind, own, _ in PLAIN
    }
    there = told.get("columns", ())
    for key, kind, own, width in OPTIONAL:
        if key in there:
            values = reader.take(kind, n * width).astype(own, copy=False)
            columns[key] = values.reshape(n, width) if width > 1 else values
    measures = {key: reader.take("<f8", n).astype(np.float64, copy=False) for key in told.get("measures", ())}
    codes = dict(reader.masks(told.get("misread", ()), n))
    read = Columns(
        components, index, **columns, measures=measures, misread=Misread(codes, {}) if codes else None,
        machines=tuple(told.get("machines", ())), networks=tuple(told.get("networks", ())),
        carried=told.get("carried", {}),
    )  # fmt: skip
    renamed = tuple((slot, name) for slot, name in told.get("renamed", ()))
    return RowsEvent(read, slots, tuple(names), renamed, travels)


class Journal:
    """Events on their way into the next entry."""

    def __init__(self) -> None:
        self.kept = False  # whether somebody takes entries: else nothing is noted
        self.beyond = False  # something changed that only pages hold: the next commit must write them
        self._names_noted = self._renames = 0
        self._waiting: Entry | None = None  # whose commit failed
        self._clear()

    def _clear(self) -> None:
        self._events: list[JournalEvent] = []
        self._producers: dict[Producer, int] = {}
        self._gone: dict[Producer, None] = {}
        self._counts: Counter[str] = Counter()

    def restart(self, components: Components) -> None:
        """Begin anew: the pages hold all that was noted, and the names of `components`."""
        self.beyond = False
        self._names_noted, self._renames = len(components), components.slots.renames
        self._waiting = None
        self._clear()

    def note(self, event: Event, components: Components) -> None:
        """Note an event that was folded into `components`. Cost O(new names)."""
        if not self.kept:
            return
        if isinstance(event, (Columns, Travels)):
            columns = event.rows if isinstance(event, Travels) else event
            slots = columns.components.slots_of(components.slots.era)[columns.index]
            new = tuple(components.slots.names[self._names_noted :])
            self._names_noted += len(new)
            renamed = components.slots.renamed if self._renames != components.slots.renames else ()
            self._renames = components.slots.renames
            told = tuple((slot, components.slots.names[slot]) for slot in renamed)
            self._events.append(RowsEvent(columns, slots, new, told, isinstance(event, Travels)))
        else:
            self._events.append(cast("ByHand", event))

    def advance(self, key: Producer, number: int) -> None:
        """Note the number that a producer has come to."""
        if self.kept:
            self._producers[key] = number
            self._gone.pop(key, None)

    def evict(self, key: Producer) -> None:
        """Note that a producer was forgotten."""
        if self.kept:
            self._producers.pop(key, None)
            self._gone[key] = None

    def count(self, name: str, n: int) -> None:
        """Note what the totals count and no event tells."""
        if self.kept:
            self._counts[name] += n

    def take(self, limits: Limits) -> Entry:
        """Return what was noted since the last time, and count it as written; counts alone wait for company."""
        if not (self._events or self._producers or self._gone or self._waiting):
            return Entry(limits)
        entry = Entry(limits, tuple(self._events), self._producers, tuple(self._gone), self._counts)
        if self._waiting is not None:
            entry, self._waiting = self._waiting.then(entry), None
        self._clear()
        return entry

    def put_back(self, entry: Entry) -> None:
        """Count an entry as not written: its commit failed, and the next one begins with it."""
        self._waiting = entry if self._waiting is None else entry.then(self._waiting)
