"""What the state file must hold, row by row: checksums kept apart from the rows, so a lost or stale row is found too.

SQLite keeps no checksum of its own pages, and a bit flipped in its structure can make a row vanish. Each commit
therefore writes, beside the rows, a ledger a table: 24 bytes a page of 64 slots.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.engine.snapshot import PAGE_SLOTS

ABSENT = -1  # in `page_sums`: the page was never written whole
GROWTH_PAGES = 64  # ledgers grow by blocks


def checksum(data: bytes | memoryview | NDArray[np.uint64], key: int) -> int:
    """Return the CRC-32 of a row's data, begun at its key: the same bytes under another key do not pass."""
    return zlib.crc32(data, (key ^ (key >> 32) * 0x9E3779B1) & 0xFFFFFFFF)  # type: ignore[arg-type]


def stamped(data: bytes | memoryview | NDArray[np.uint64], key: int, stamp: int) -> int:
    """Return what stands in the column ``checksum`` of a page or slot: its checksum, and above it the stamp of its writing.

    Each page and slot has two places. Those of one checkpoint go to the places that are free, with a stamp above all
    former ones; when they all are there the root row says so. So of two rows of a page or slot the one with the greatest
    stamp up to the root's is the present one, and a checkpoint that was cut off changes nothing.
    """
    return checksum(data, key ^ (stamp * 0x85EBCA6B & 0xFFFFFFFF)) | stamp << 32


def intact(data: object, key: object, summed: object) -> bool:
    """Return whether a page's or slot's row is as it was written."""
    return (
        isinstance(data, bytes) and isinstance(key, int) and isinstance(summed, int)
        and summed >= 0 and stamped(data, key, summed >> 32) == summed
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class JournalBooks:
    """Which entries the journal has: `count` from the number `first` on; the sum of their checksums, and their bytes."""

    first: int = 1
    count: int = 0
    sum: int = 0
    bytes: int = 0

    @property
    def next(self) -> int:
        """The number of the next entry. Numbers are given once, so that an older row never passes for a later one."""
        return self.first + self.count

    def grown(self, checksum: int, length: int) -> JournalBooks:
        """Return the books with one more entry."""
        return JournalBooks(self.first, self.count + 1, self.sum + checksum, self.bytes + length)

    def after(self, before: JournalBooks) -> JournalBooks:
        """Return the books of the entries behind those of `before`, of the same beginning."""
        return JournalBooks(
            before.next, self.count - before.count, self.sum - before.sum, self.bytes - before.bytes
        )  # fmt: skip


@dataclass(slots=True)
class Ledger:
    """Checksums of one table's rows."""

    # number, layout, words: the table's id in the file, the fingerprint of its words, and words a slot
    number: int
    layout: str
    words: int
    page_sums: NDArray[np.int64]  # int64 array (k,): stamp and checksum of each whole page, ABSENT where there is none
    # uint64 array (k, 64): stamps and checksums of the single slots that override a page, 0 where none does
    slot_sums: NDArray[np.uint64]
    overridden: NDArray[np.bool_]  # bool array (k, 64)
    # page_second, slot_second: bool arrays (k,), (k, 64): which of its two places each stands in: found when it is
    # read, not written
    page_second: NDArray[np.bool_]
    slot_second: NDArray[np.bool_]
    sum: int = ABSENT  # checksum of the ledger itself, as it was last written

    @classmethod
    def new(cls, number: int, layout: str, words: int) -> Ledger:
        """Return the ledger of a table without rows."""
        return cls(
            number,
            layout,
            words,
            np.empty(0, np.int64),
            np.empty((0, PAGE_SLOTS), np.uint64),
            np.empty((0, PAGE_SLOTS), np.bool_),
            np.empty(0, np.bool_),
            np.empty((0, PAGE_SLOTS), np.bool_),
        )

    def grown(self, pages: int) -> Ledger:
        """Return a copy with room for `pages` pages: a commit changes the copy, and keeps it when it succeeds."""
        extra = max(0, -(-pages // GROWTH_PAGES) * GROWTH_PAGES - len(self.page_sums))
        return Ledger(
            self.number,
            self.layout,
            self.words,
            np.concatenate([self.page_sums, np.full(extra, ABSENT, np.int64)]),
            np.concatenate([self.slot_sums, np.zeros((extra, PAGE_SLOTS), np.uint64)]),
            np.concatenate([self.overridden, np.zeros((extra, PAGE_SLOTS), np.bool_)]),
            np.concatenate([self.page_second, np.zeros(extra, np.bool_)]),
            np.concatenate([self.slot_second, np.zeros((extra, PAGE_SLOTS), np.bool_)]),
        )

    def encode(self) -> bytes:
        """Return the file's form: per page its checksum, the mask of overriding slots, the sum of their checksums."""
        masks = np.packbits(self.overridden, axis=1, bitorder="little").view("<u8")[:, 0]
        sums = self.slot_sums.sum(axis=1, dtype=np.uint64)
        return self.page_sums.astype("<i8").tobytes() + masks.tobytes() + sums.astype("<u8").tobytes()

    @staticmethod
    def decode(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint64]]:
        """Return (page_sums (k,), overridden (k, 64), sums of the overriding slots' checksums (k,))."""
        pages = len(data) // 24
        page_sums = np.frombuffer(data, "<i8", pages).astype(np.int64)
        masks = np.frombuffer(data, np.uint8, pages * 8, pages * 8).reshape(pages, 8)
        sums = np.frombuffer(data, "<u8", pages, pages * 16).astype(np.uint64)
        return page_sums, np.unpackbits(masks, axis=1, bitorder="little").astype(np.bool_), sums
