"""Things of any length kept in pages like a table's: bytes in slots of 512, of which the changed ones are written again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.engine.snapshot import PAGE_SLOTS, TablePages
from advisor.errors import AdvisorError, StateDamaged, StateTooNew

Slots = NDArray[np.uint64]

WORDS: Final = 64  # of a slot: 512 bytes; a changed number rewrites no more than that
GONE: Final = (
    2**64 - 1
)  # first word of what was forgotten; versions that do not know it take it for damage, and leave it out
NO_SLOTS: Final[Slots] = np.zeros((0, WORDS), np.uint64)


def slots_of(data: bytes) -> Slots:
    """Return bytes as slots (n, WORDS), filled up with zeros."""
    data += b"\0" * (-len(data) % (8 * WORDS))
    return np.frombuffer(data, "<u8").astype(np.uint64, copy=False).reshape(-1, WORDS)


def slots_in(pages: TablePages) -> Slots:
    """Return the slots (n, WORDS) of the pages of a whole table."""
    return np.ascontiguousarray(pages.words.transpose(0, 2, 1)).reshape(-1, WORDS)


def bytes_in(slots: Slots) -> bytes:
    """Return what `slots_of` was given, with the zeros behind it."""
    return slots.astype("<u8", copy=False).tobytes()


class Paged:
    """Numbered things of one kind, each kept in the pages of a table of its own, ``KIND-N``: which ones changed, and are gone.

    Parameters
    ----------
    kind, layout : str
        Of the tables; pages of another layout are refused.
    take : callable
        Takes a thing back from its bytes, under its number; ValueError, KeyError and IndexError where they do not read.
    """

    def __init__(self, kind: str, layout: str, take: Callable[[bytes, int], None]) -> None:
        self._kind = kind
        self._layout = layout
        self._take = take
        self._taken: dict[int, Slots] = {}  # of each number in use, as the last snapshot had it
        self._changed: set[int] = set()
        self._gone: dict[int, int] = {}  # numbers of what was forgotten, to be written over, and their slots

    def new(self) -> int:
        """Return the least number that is free, for something new."""
        number = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
        self._gone.pop(number, None)
        self._taken[number] = NO_SLOTS
        self._changed.add(number)
        return number

    def touch(self, number: int) -> None:
        """Count a thing as changed."""
        self._changed.add(number)

    def drop(self, number: int) -> None:
        """Forget a thing; the next pages write over what was stored of it."""
        self._gone[number] = len(self._taken.pop(number))
        self._changed.discard(number)

    def pages(self, data_of: Callable[[int], bytes]) -> list[TablePages]:
        """Return the changed pages of changed things, by their bytes, and count them as taken."""
        found: list[TablePages] = []
        for number in sorted(self._changed):
            slots = slots_of(data_of(number))
            pages = changed_pages(f"{self._kind}-{number}", self._layout, self._taken[number], slots)
            found += [pages] if pages is not None else []
            self._taken[number] = slots
        self._changed.clear()
        for number, slots in self._gone.items():
            empty = np.zeros((max(slots, 1), WORDS), np.uint64)
            empty[0, 0] = GONE
            pages = changed_pages(f"{self._kind}-{number}", self._layout, NO_SLOTS, empty)
            assert pages is not None, "all slots differ from none"
            found.append(pages)
        self._gone.clear()
        return found

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
        """Take a thing back from the pages of its whole table, by `take`; one that is damaged is left out.

        Raises StateTooNew when a later version wrote it; StateDamaged when no slot is missing, and it says what nothing leads
        to.
        """
        number, slots = self._number_of(pages), slots_in(pages)
        if not len(slots) or int(slots[0, 0]) == GONE:
            return
        try:
            self._take(bytes_in(slots), number)
        except StateTooNew:
            raise
        except StateDamaged:
            if not _missing(pages):
                raise
            return
        except (AdvisorError, ValueError, KeyError, IndexError):
            return  # the store has named what is damaged; it begins anew
        self._taken[number] = slots
        self._changed.discard(number)

    def _number_of(self, pages: TablePages) -> int:
        if pages.layout != self._layout or not self.owns(pages):
            raise StateTooNew(
                f"table {pages.table!r} of layout {pages.layout!r}; this version reads {self._layout!r}",
                field="layout", value=pages.layout, bound=self._layout, hint="use the version that wrote it",
            )  # fmt: skip
        return int(pages.table.partition("-")[2])


def _missing(pages: TablePages) -> bool:
    """Return whether a table's pages lack a slot before their last."""
    held = np.unpackbits(pages.changed.astype("<u8").view(np.uint8), bitorder="little")
    return int(pages.pages[-1]) >= len(pages.pages) or not held[: held.nonzero()[0][-1] + 1].all()


def changed_pages(table: str, layout: str, before: Slots, slots: Slots) -> TablePages | None:
    """Return the pages with slots that differ from those of before; None where none does."""
    before = before[: len(slots)]
    changed = np.ones(len(slots), np.bool_)
    changed[: len(before)] = (slots[: len(before)] != before).any(axis=1)
    if not changed.any():
        return None
    padded = -(-len(slots) // PAGE_SLOTS) * PAGE_SLOTS
    flags = np.zeros(padded, np.bool_)
    flags[: len(slots)] = changed
    flags = flags.reshape(-1, PAGE_SLOTS)
    blocks = np.zeros((padded, WORDS), np.uint64)
    blocks[: len(slots)] = slots
    numbers = np.flatnonzero(flags.any(axis=1))
    bits = np.packbits(flags[numbers], axis=1, bitorder="little").view("<u8").reshape(-1).astype(np.uint64)
    words = np.ascontiguousarray(blocks.reshape(-1, PAGE_SLOTS, WORDS)[numbers].transpose(0, 2, 1))
    return TablePages(table, layout, numbers, words, bits)
