"""Things of any length kept in pages like a table's: bytes in slots of 512, of which the changed ones are written again."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.domain.names import normalised_name
from advisor.engine.snapshot import PAGE_SLOTS, TablePages, flagged
from advisor.errors import AdvisorError, StateDamaged, StateTooNew

SlotWords = NDArray[np.uint64]
K = TypeVar("K", bound=Any)
V = TypeVar("V")

WORDS: Final = 64  # of a slot: 512 bytes; a changed number rewrites no more than that
NAME_BYTES: Final = 208  # of a record that begins with a name: its length, at most 200 bytes of it, and room
# GONE: first word of what was forgotten; versions that do not know it take it for damage, and leave it out
GONE: Final = 2**64 - 1
NO_SLOTS: Final[SlotWords] = np.zeros((0, WORDS), np.uint64)


def named(name: str, words: NDArray[np.float64], last: int = 0) -> bytes:
    """Return the record of something with a name, which may say `last` in the byte before its words."""
    text = name.encode()
    head = bytes([len(text)]) + text
    return head + b"\0" * (NAME_BYTES - 1 - len(head)) + bytes([last]) + words.astype("<f8", copy=False).tobytes()


def name_and_words(data: bytes, words: int) -> tuple[str, NDArray[np.float64]]:
    """Return what `named` was given; raises ValueError where it is no such record."""
    name = data[1 : 1 + data[0]].decode()
    if normalised_name(name) != name or len(data) < NAME_BYTES + 8 * words:
        raise ValueError("no record of something with a name")
    return name, np.frombuffer(data, "<f8", words, NAME_BYTES).astype(np.float64)


class Paged(Generic[K, V]):
    """Things of one kind by key, each kept in the pages of a table of its own, ``KIND-N``: which ones changed, and are gone.

    `kind`, `layout`: of the tables; pages of another layout are refused. `record`: returns the bytes of a key's thing.
    `read`: returns a key and its thing of their bytes; ValueError, KeyError and IndexError where they do not read. `keep`:
    keeps a thing by its key, which has its number.
    """

    def __init__(
        self, kind: str, layout: str, record: Callable[[K], bytes], read: Callable[[bytes], tuple[K, V]],
        keep: Callable[[K, V], None],
    ) -> None:  # fmt: skip
        self._kind = kind
        self._layout = layout
        self._record = record
        self._read = read
        self._keep = keep
        self.numbers: dict[K, int] = {}  # of their tables
        self.touched: dict[K, None] = {}  # keys of those that changed, or went, since somebody took note
        self._taken: dict[int, SlotWords] = {}  # of each number in use, as the last snapshot had it
        self._changed: set[int] = set()
        self._gone: dict[int, int] = {}  # numbers of what was forgotten, to be written over, and their slots

    def touch(self, key: K) -> int:
        """Count a thing as changed, a new one under the least number that is free; return its number."""
        number = self.numbers.get(key)
        if number is None:
            number = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
            self.numbers[key] = number
            self._gone.pop(number, None)
            self._taken[number] = NO_SLOTS
        self._changed.add(number)
        self.touched[key] = None
        return number

    def drop(self, key: K) -> None:
        """Forget a thing; the next pages write over what was stored of it."""
        number = self.numbers.pop(key)
        self._gone[number] = len(self._taken.pop(number))
        self._changed.discard(number)
        self.touched[key] = None

    def records(self, keys: Container[K] | None = None) -> list[bytes]:
        """Return the bytes of each thing, or of those named, in the order of their keys: equal states give equal bytes."""
        return [self._record(key) for key in sorted(self.numbers) if keys is None or key in keys]

    def put_record(self, data: bytes) -> None:
        """Take a thing from its bytes, in the place of what its key had; raises StateDamaged where they do not read."""
        try:
            key, thing = self._read(data)
        except (ValueError, LookupError) as error:
            raise StateDamaged(
                f"a {self._kind} of the state does not read: {error}", hint="restore a backup"
            ) from error
        self.touch(key)
        self._keep(key, thing)

    def pages(self) -> list[TablePages]:
        """Return the changed pages of changed things, and count them as taken."""
        found: list[TablePages | None] = []
        key_of = {number: key for key, number in self.numbers.items()}
        for number in sorted(self._changed):
            data = self._record(key_of[number])
            data += b"\0" * (-len(data) % (8 * WORDS))
            slots = np.frombuffer(data, "<u8").astype(np.uint64, copy=False).reshape(-1, WORDS)
            found.append(changed_pages(f"{self._kind}-{number}", self._layout, self._taken[number], slots))
            self._taken[number] = slots
        for number, slots in self._gone.items():
            empty = np.zeros((max(slots, 1), WORDS), np.uint64)
            empty[0, 0] = GONE
            found.append(changed_pages(f"{self._kind}-{number}", self._layout, NO_SLOTS, empty))
        self._changed.clear()
        self._gone.clear()
        return [pages for pages in found if pages is not None]

    def mark(self, pages: TablePages) -> None:
        """Count pages as not taken."""
        number = self._number_of(pages)
        if number in self._taken:
            self._taken[number] = NO_SLOTS
            self._changed.add(number)
        else:
            self._gone[number] = (int(pages.pages.max()) + 1) * PAGE_SLOTS

    def owns(self, pages: TablePages) -> bool:
        """Return whether pages are of a table of this kind."""
        name, _, number = pages.table.partition("-")
        return name == self._kind and number.isdecimal()

    def put(self, pages: TablePages) -> None:
        """Take a thing back from the pages of its whole table; one that is damaged is left out.

        Raises StateTooNew, and StateDamaged where no slot is missing, and it says what nothing leads to.
        """
        number = self._number_of(pages)
        slots = np.ascontiguousarray(pages.words.transpose(0, 2, 1)).reshape(-1, WORDS)
        if not len(slots) or int(slots[0, 0]) == GONE:
            return
        try:
            key, thing = self._read(slots.astype("<u8", copy=False).tobytes())
        except StateTooNew:
            raise
        except StateDamaged:
            if not _missing(pages):
                raise
            return
        except (AdvisorError, ValueError, KeyError, IndexError):
            return  # the store has named what is damaged; it begins anew
        self.numbers[key], self._taken[number], self.touched[key] = number, slots, None
        self._keep(key, thing)

    def _number_of(self, pages: TablePages) -> int:
        if pages.layout != self._layout or not self.owns(pages):
            raise StateTooNew(
                f"table {pages.table!r} of layout {pages.layout!r}; this version reads {self._layout!r}",
                field="layout", value=pages.layout, bound=self._layout, hint="use the version that wrote it",
            )  # fmt: skip
        return int(pages.table.partition("-")[2])


def _missing(pages: TablePages) -> bool:
    """Return whether a table's pages lack a slot before their last."""
    held = pages.held.reshape(-1)
    return int(pages.pages[-1]) >= len(pages.pages) or not held[: held.nonzero()[0][-1] + 1].all()


def changed_pages(table: str, layout: str, before: SlotWords, slots: SlotWords) -> TablePages | None:
    """Return the pages with slots that differ from those of before; None where none does."""
    before = before[: len(slots)]
    changed = np.ones(len(slots), np.bool_)
    changed[: len(before)] = (slots[: len(before)] != before).any(axis=1)
    found = flagged(changed)
    if found is None:
        return None
    blocks = np.zeros((-(-len(slots) // PAGE_SLOTS) * PAGE_SLOTS, WORDS), np.uint64)
    blocks[: len(slots)] = slots
    numbers, bits = found
    words = np.ascontiguousarray(blocks.reshape(-1, PAGE_SLOTS, WORDS)[numbers].transpose(0, 2, 1))
    return TablePages(table, layout, numbers, words, bits)
