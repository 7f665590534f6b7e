"""Things of any length kept in pages like a table's: bytes in slots of 512, of which the changed ones are written again."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.engine.snapshot import PAGE_SLOTS, TablePages
from advisor.errors import StateTooNew

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


def numbered(pages: TablePages, kind: str, layout: str) -> int:
    """Return which table of its kind, ``kind-N``, these pages are of.

    Raises
    ------
    StateTooNew
        When a later version wrote them.
    """
    name, _, number = pages.table.partition("-")
    if pages.layout != layout or name != kind or not number.isdecimal():
        raise StateTooNew(
            f"table {pages.table!r} of layout {pages.layout!r}; this version reads {layout!r}",
            field="layout", value=pages.layout, bound=layout, hint="use the version that wrote it",
        )  # fmt: skip
    return int(number)


def gone_pages(table: str, layout: str, slots: int) -> TablePages:
    """Return pages that write over so many slots of what is no more: a length that nothing has, then zeros."""
    empty = np.zeros((max(slots, 1), WORDS), np.uint64)
    empty[0, 0] = GONE
    pages = changed_pages(table, layout, NO_SLOTS, empty)
    assert pages is not None, "all slots differ from none"
    return pages


def is_gone(slots: Slots) -> bool:
    """Return whether these are the slots of what is no more."""
    return not len(slots) or int(slots[0, 0]) == GONE


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
