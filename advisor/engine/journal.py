"""What was applied since the last commit, event by event, as an entry of the log.

A fold is a strict left fold, so an image and then the events in their order give the same state, to the bit. Profiles, whose
open parts no log holds, are in it as their records. What else changes a state needs an image.

One entry a commit, as MessagePack; an array is an extension of it. Rows name new components, and known ones by their slots: a
replay gives these in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.domain.observations import Columns, ComponentNames, Misread
from advisor.engine import events as e
from advisor.engine.exactly_once import Producer
from advisor.engine.frames import Block
from advisor.engine.slots import Slots
from advisor.engine.state import State
from advisor.errors import StateDamaged

ARRAY: Final = 1  # the extension: type of an array, shape, little-endian bytes
TYPES: Final = frozenset(("<f8", "<i8", "<u8", "|b1"))
ROWS: Final = (Columns, e.Travels)
FIELDS: Final = tuple(each.name for each in fields(Columns))


class LoggedRows(msgspec.Struct, frozen=True, tag=True):
    """Rows as the log has them."""

    names: list[str]  # that rows count in; none where they count in slots
    illegal: list[int]  # the numbers of those that are no names
    columns: dict[str, Any]  # further fields of `Columns` that have a value
    misread: dict[str, Any]  # see `Misread`
    travels: bool

    @classmethod
    def from_event(cls, event: Columns | e.Travels, slots: Slots, known: int) -> LoggedRows:
        """Return rows that name their components by slots, if these are all among the first `known`, else by their names."""
        travels, rows = isinstance(event, e.Travels), event.rows if isinstance(event, e.Travels) else event
        numbers = np.zeros(0) if travels else rows.components.slots_of(slots.generation)[rows.index]
        by_slot = len(numbers) > 0 and 0 <= numbers.min() <= numbers.max() < known
        if not by_slot and len(rows.components) > len(rows):
            rows = rows.with_own_names()
        found = {name: value for name in FIELDS if (value := getattr(rows, name)) is not None}
        names, misread = found.pop("components"), found.pop("misread", None)
        columns = {name: value for name, value in found.items() if len(value)}
        if by_slot:
            columns["index"], names = numbers, ComponentNames()
        illegal: list[int] = np.flatnonzero(~names.valid).tolist()
        return cls(names.names, illegal, columns, {} if misread is None else misread.codes, travels)

    def as_event(self, slots: Slots) -> Columns | e.Travels:
        """Return the rows again; raises LookupError, TypeError, ValueError."""
        valid = np.ones(len(self.names), np.bool_)
        valid[self.illegal] = False
        misread = Misread(self.misread, {}) if self.misread else None
        names = ComponentNames.of(self.names, valid) if self.names else slots.as_numbered_names()
        rows = Columns(names, misread=misread, **self.columns)
        if not 0 <= rows.index.min() <= rows.index.max() < len(names):
            raise IndexError(f"rows of component {rows.index.max()}, of {len(names)}")
        return e.Travels(rows) if self.travels else rows


LoggedEvent = (
    LoggedRows | e.Ended | e.RunObserved | e.NetworkDefined | e.ComponentForgotten | e.ComponentPinned | e.AllowedSet
    | e.ProgramForgotten
)  # fmt: skip


class Limits(msgspec.Struct, array_like=True, frozen=True):
    """What the engine was allowed: which rows are refused depends on it, so they are replayed under the same."""

    components_max: int
    model_memory_bytes: int


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """What one commit adds to the log."""

    limits: Limits
    events: tuple[LoggedEvent, ...] = ()
    producers: dict[Producer, int] = {}  # the numbers applied, of producers whose number changed
    producers_gone: tuple[Producer, ...] = ()
    counts: dict[str, int] = {}  # what the totals count beside the events
    profiles: dict[Producer, bytes | None] = {}  # the records of those that changed; None: it gave way

    @property
    def empty(self) -> bool:
        """True when there is nothing to write: counts alone wait for company."""
        return not (self.events or self.producers or self.producers_gone or self.profiles)

    def encode(self) -> bytes:
        """Return the entry's bytes; none where it is empty. Cost O(rows)."""
        return b"" if self.empty else _ENCODER.encode(self)


def decode(data: bytes) -> Entry:
    """Return an entry; raises StateDamaged when it is none."""
    try:
        return _DECODER.decode(data)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        raise StateDamaged(f"an entry of the log does not read: {error!r}", hint="restore a backup") from error


def _packed(value: Any) -> Any:
    """Return what MessagePack has no form for in one that it has."""
    if not isinstance(value, np.ndarray):
        return cast("Any", value).item() if isinstance(value, np.generic) else dict(cast("Mapping[str, Any]", value))
    array = cast("NDArray[Any]", value)
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return msgspec.msgpack.Ext(ARRAY, msgspec.msgpack.encode((array.dtype.str, array.shape, data)))


def _unpacked(code: int, said: memoryview) -> NDArray[Any]:
    """Return the array that an extension is; raises ValueError, TypeError, msgspec.DecodeError."""
    kind, shape, data = msgspec.msgpack.decode(said, type=tuple[str, tuple[int, ...], bytes])
    if code != ARRAY or kind not in TYPES:
        raise ValueError(f"an extension {code} of {kind!r}")
    return np.frombuffer(data, kind).reshape(shape)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_packed)
_DECODER: Final = msgspec.msgpack.Decoder(Entry, ext_hook=_unpacked)


# -- on their way -----------------------------------------------------------------------------------------------------------


class Journal:
    """What was applied to a state and is not written yet: events on their way into the next entry, or the need of an image."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.kept = False  # whether somebody takes entries: else nothing is noted
        self.beyond = False  # something changed that only an image holds: the next commit must write one
        self._empty()

    def keep(self) -> None:
        """From now on note what is applied: somebody keeps it. What was before needs an image."""
        self.kept = True
        self._state.profiles.unlogged = {}
        self._empty()

    def _empty(self) -> None:
        """Begin anew: all that was noted is written."""
        self._events: list[LoggedEvent] = []
        self._counts: Counter[str] = Counter()
        self._profiles: dict[Producer, bytes | None] = {}
        self._known = len(self._state.advisor.components.slots)  # those that a replay has before the next event
        if self.kept:
            self._state.ledger.unlogged = {}

    def note_event(self, event: e.Event) -> None:
        """Note an event that was folded. Cost O(rows)."""
        if not self.kept or (isinstance(event, (*ROWS, e.Ended)) and not len(event)):
            return
        slots = self._state.advisor.components.slots
        rows = LoggedRows.from_event(event, slots, self._known) if isinstance(event, ROWS) else event
        self._events.append(cast("LoggedEvent", rows))
        self._known = len(slots)

    def note_count(self, name: str, n: int) -> None:
        """Note what the totals count and no event tells."""
        if self.kept:
            self._counts[name] += n

    def pop_entry(self) -> Entry | None:
        """Return what was noted since the last entry or image, and count it as written; None where that takes an image.

        Counts alone wait for company. Cost O(1), and O(record) for a profile that changed: the rows are not copied. An entry
        whose commit failed is given to `put_back`, and the next one holds what it held.
        """
        if self.beyond or not self.kept:
            return None
        state, unlogged = self._state, self._state.ledger.unlogged or {}
        components, applied = state.advisor.components, state.ledger.applied
        limits = Limits(components.slots.components_max, components.learners.memory_bytes)
        if state.profiles.unlogged:
            self._profiles |= state.profiles.take_changed()
        if not (self._events or unlogged or self._profiles):
            return Entry(limits)
        numbers = {key: applied[key] for key in unlogged if key in applied}
        gone = tuple(key for key in unlogged if key not in applied)
        entry = Entry(limits, tuple(self._events), numbers, gone, self._counts, self._profiles)
        self._empty()
        return entry

    def put_back(self, entry: Entry) -> None:
        """Count an entry as not written: its commit failed, and the next one holds what it held."""
        self._events[:0], self._profiles = entry.events, entry.profiles | self._profiles
        self._counts.update(entry.counts)
        self._state.ledger.unlogged = dict.fromkeys([*entry.producers, *entry.producers_gone]) | (
            self._state.ledger.unlogged or {}
        )

    def pop_image(self) -> list[Block]:
        """Return all of the state, and count it as written. Cost O(state). Where it is not, `beyond` has to be set."""
        blocks = list(self._state.blocks())
        self.begin_image()
        return blocks

    def begin_image(self) -> Iterator[Block]:
        """Count all of the state as written; return what yields it, as it then is: for a copy of this process's memory."""
        self._state.profiles.take_changed()
        self._empty()
        self.beyond = False
        return self._state.blocks()
