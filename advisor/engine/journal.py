"""What was applied since the last commit, event by event, as an entry of the log.

A fold is a strict left fold, so an image and then the events in their order give the same state, to the bit. Rows name their
components by numbers that the log gives to names as they come; profiles, whose open parts no log holds, are in it as patches
of their records. What else changes a state needs an image.

One entry a commit, as MessagePack; an array is an extension of it. The store adds a checksum.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from math import prod
from typing import Any, Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.domain.observations import UNRESOLVED, Columns, ComponentNames, Misread
from advisor.engine import events as e
from advisor.engine.effects import LOGGED
from advisor.engine.exactly_once import Producer
from advisor.engine.frames import Block
from advisor.engine.patches import Patch
from advisor.engine.state import State
from advisor.errors import StateDamaged

ARRAY: Final = 1  # the extension: type of an array, that of its bytes, or "bits", shape, little-endian bytes
NUMBERS: Final = re.compile(r"[<|]?[iufb][1248]")  # types of an array as numpy writes them
NARROW_ROWS: Final = 64  # arrays of fewer are written as they are: to look at them takes as long


@dataclass(frozen=True, slots=True)
class Logged:
    """An event, and for rows what names their numbers stand for."""

    event: e.Event
    numbers: NDArray[np.int64] | None = None  # of each row's component in the log
    names: tuple[tuple[str, bool], ...] = ()  # the next numbers of the log: names, and whether they are legal ones
    anew: bool = False  # numbers begin anew with these names


class Limits(msgspec.Struct, array_like=True, frozen=True):
    """What the engine was allowed: which rows are refused depends on it, so they are replayed under the same."""

    components_max: int
    model_memory_bytes: int


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """What one commit adds to the log, as it is written but for its events."""

    limits: Limits
    events: tuple[Any, ...] = ()  # each a `Logged`; a map in bytes
    producers: dict[Producer, int] = {}  # the numbers applied, of producers whose number changed
    producers_gone: tuple[Producer, ...] = ()
    counts: dict[str, int] = {}  # what the totals count beside the events
    patches: tuple[Patch, ...] = ()  # of the records of profiles

    @property
    def empty(self) -> bool:
        """True when there is nothing to write: counts alone wait for company."""
        return not (self.events or self.producers or self.producers_gone or self.patches)

    def then(self, later: Entry) -> Entry:
        """Return both as one."""
        kept = {key: number for key, number in self.producers.items() if key not in later.producers_gone}
        gone = tuple(key for key in self.producers_gone if key not in later.producers)
        return Entry(
            later.limits, self.events + later.events, kept | later.producers,
            tuple(dict.fromkeys(gone + later.producers_gone)), Counter(self.counts) + Counter(later.counts),
            self.patches + later.patches,
        )  # fmt: skip

    def encode(self) -> bytes:
        """Return the entry's bytes; none where it is empty. Cost O(rows)."""
        if self.empty:
            return b""
        return _ENCODER.encode(msgspec.structs.replace(self, events=tuple(map(_as_map, self.events))))


def decode(data: bytes, book: Book) -> Entry:
    """Return an entry, its rows by the names of `book`, which learns the new ones; raises StateDamaged when it is none."""
    try:
        found = _DECODER.decode(data)
        return msgspec.structs.replace(found, events=tuple(_logged(each, book) for each in found.events))
    except (LookupError, TypeError, ValueError, RecursionError, AttributeError, msgspec.MsgspecError) as error:
        raise StateDamaged(f"an entry of the log does not read: {error!r}", hint="restore a backup") from error


class Book:
    """The names that the numbers of rows in a log stand for."""

    def __init__(self) -> None:
        self._names = ComponentNames()

    def add_names(self, names: Sequence[Sequence[Any]], *, anew: bool) -> ComponentNames:
        """Give the next numbers to names in normal form, with whether they are legal; return all names."""
        if anew:
            self._names = ComponentNames()
        known = self._names
        known.names += [str(name) for name, _ in names]
        known.valid = np.concatenate([known.valid, np.array([bool(valid) for _, valid in names], np.bool_)])
        known.slots = np.concatenate([known.slots, np.full(len(names), UNRESOLVED, np.int64)])
        return known


# -- as bytes ---------------------------------------------------------------------------------------------------------------


def _as_map(logged: Logged) -> dict[str, Any]:
    """Return an event with its fields, but for those without a value, or read again from the others."""
    event = logged.event
    rows = event.rows if isinstance(event, e.Travels) else event
    found: dict[str, Any] = {"type": type(event).__name__, "fields": {}}
    without: Sequence[str] = ("read",)
    if isinstance(rows, Columns):
        found |= {"rows": logged.numbers, "names": logged.names, "anew": logged.anew}
        found["misread"] = None if rows.misread is None else rows.misread.codes
        without = ("components", "index", "misread")
    for each in fields(rows):
        value = getattr(rows, each.name)
        empty = value is None or (isinstance(value, (Mapping, tuple)) and not value)
        needed = each.default is MISSING and each.default_factory is MISSING
        if each.name not in without and (needed or not empty):
            found["fields"][each.name] = value
    return found


def _logged(found: Mapping[str, Any], book: Book) -> Logged:
    kind = LOGGED[found["type"]]
    types = {each.name: str(each.type) for each in fields(Columns if kind is e.Travels else kind)}
    values: dict[str, Any] = {
        name: tuple(value) if types[name].startswith("tuple") else value for name, value in found["fields"].items()
    }
    if kind not in (Columns, e.Travels):
        return Logged(kind(**values))
    numbers, codes = found["rows"], found["misread"]
    names = book.add_names(found["names"], anew=found["anew"])
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(names):
        raise IndexError(f"rows of component {numbers.max()}, of {len(names)}")
    rows = Columns(names, numbers, misread=None if codes is None else Misread(codes, {}), **values)
    return Logged(e.Travels(rows) if kind is e.Travels else rows, numbers)


def _packed(value: Any) -> Any:
    """Return what MessagePack has no form for in one that it has."""
    if not isinstance(value, np.ndarray):
        return cast("Any", value).item() if isinstance(value, np.generic) else dict(cast("Mapping[str, Any]", value))
    array = cast("NDArray[Any]", value)
    bits = array.dtype == np.bool_
    narrow = np.packbits(array) if bits else _narrowed(array)
    data = narrow.astype(narrow.dtype.newbyteorder("<"), copy=False).tobytes()
    said = array.dtype.str, "bits" if bits else narrow.dtype.str, array.shape, data
    return msgspec.msgpack.Ext(ARRAY, msgspec.msgpack.encode(said))


def _unpacked(code: int, said: memoryview) -> NDArray[Any]:
    """Return the array that an extension is; raises ValueError, TypeError, msgspec.DecodeError."""
    if code != ARRAY:
        raise ValueError(f"an extension {code}")
    own, narrow, shape, data = msgspec.msgpack.decode(said, type=tuple[str, str, tuple[int, ...], bytes])
    if narrow != "bits":
        return np.frombuffer(data, _dtype_of(narrow)).astype(_dtype_of(own), copy=False).reshape(shape)
    values = np.unpackbits(np.frombuffer(data, np.uint8))
    n = prod(shape)
    if not len(values) - 8 < n <= len(values):
        raise ValueError(f"{n} bits in {len(data)} bytes")
    return values[:n].astype(np.bool_).reshape(shape)


def _dtype_of(text: str) -> np.dtype[Any]:
    """Return the type of an array's numbers; raises TypeError. numpy reads some other texts as Python."""
    if not NUMBERS.fullmatch(text):
        raise TypeError(f"an array of {text!r}")
    return np.dtype(text)


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as one or two bytes each where all of many are the same then: 19 bytes a plain row of 28."""
    if len(values) < NARROW_ROWS or values.ndim > 1 or values.dtype.kind not in "if":
        return values
    low, high = values.min(), values.max()
    if not (0 if values.dtype.kind == "i" else 1) <= low <= high <= np.iinfo(np.uint16).max:
        return values
    found = values.astype(np.uint8 if high <= np.iinfo(np.uint8).max else np.uint16)
    return found if bool((found == values).all()) else values


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_packed)
_DECODER: Final = msgspec.msgpack.Decoder(Entry, ext_hook=_unpacked)


# -- on their way -----------------------------------------------------------------------------------------------------------


class Journal:
    """What was applied to a state and is not written yet: events on their way into the next entry, or the need of an image."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.kept = False  # whether somebody takes entries: else nothing is noted
        self.beyond = False  # something changed that only an image holds: the next commit must write one
        self._events: list[Logged] = []
        self._counts: Counter[str] = Counter()
        self._restart()

    def keep(self) -> None:
        """From now on note what is applied: somebody keeps it. What was before needs an image."""
        self.kept = True
        self._restart()

    def _restart(self) -> None:
        """Begin anew, with a new dictionary of names: an image holds all that was noted."""
        self.beyond, self._waiting = False, None
        self._generation, self._anew = object(), True
        self._numbers: dict[tuple[str, bool], int] = {}
        self._events, self._counts = [], Counter()
        if self.kept:
            self._state.ledger.unlogged = {}

    def note_event(self, event: e.Event) -> None:
        """Note an event that was folded. Cost O(rows)."""
        if not self.kept:
            return
        rows = event.rows if isinstance(event, e.Travels) else event
        if not isinstance(rows, Columns):
            self._events.append(Logged(event))
            return
        known, before = rows.components, len(self._numbers)
        cached = known.log is self._generation and len(known.logged) == len(known.names)
        cache = known.logged if cached else known.logged_of(self._generation)
        numbers = cache[rows.index]
        if (missing := numbers == UNRESOLVED).any():
            for number in cast("list[int]", np.unique(rows.index[missing]).tolist()):
                name = known.names[number], bool(known.valid[number])
                cache[number] = self._numbers.setdefault(name, len(self._numbers))
            numbers = cache[rows.index]
        new = tuple(self._numbers)[before:] if len(self._numbers) > before else ()
        self._events.append(Logged(event, numbers, new, self._anew))
        self._anew = False

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
        state, unlogged = self._state, self._state.ledger.unlogged
        components = state.advisor.components
        limits = Limits(components.slots.components_max, components.learners.memory_bytes)
        patches = state.profiles.take_patches() if state.profiles.unlogged else ()
        if not (self._events or unlogged or self._waiting or patches):
            return Entry(limits)
        applied = state.ledger.applied
        numbers: dict[Producer, Any] = dict(zip(unlogged or (), map(applied.get, unlogged or ()), strict=True))
        gone = tuple(key for key, number in numbers.items() if number is None) if None in numbers.values() else ()
        for key in gone:
            del numbers[key]
        entry = Entry(limits, tuple(self._events), numbers, gone, self._counts, tuple(patches))
        if self._waiting is not None:
            entry, self._waiting = self._waiting.then(entry), None
        self._events, self._counts, state.ledger.unlogged = [], Counter(), {}
        return entry

    def put_back(self, entry: Entry) -> None:
        """Count an entry as not written: its commit failed, and the next one begins with it."""
        self._waiting = entry if self._waiting is None else entry.then(self._waiting)

    def pop_image(self) -> list[Block]:
        """Return all of the state, and count it as written. Cost O(state). Where it is not, `beyond` has to be set."""
        blocks = list(self._state.blocks())
        self.begin_image()
        return blocks

    def begin_image(self) -> Iterator[Block]:
        """Count all of the state as written; return what yields it, as it then is: for a copy of this process's memory."""
        self._state.profiles.take_patches()
        self._restart()
        return self._state.blocks()
