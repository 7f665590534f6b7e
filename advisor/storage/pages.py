"""Writing a table's changed pages, whole or slot by slot, and the ledger that says what the file must hold of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.engine.snapshot import PAGE_SLOTS, TablePages
from advisor.errors import Mismatch
from advisor.storage import schema
from advisor.storage.ledger import ABSENT, Ledger, checksum, stamped

# A page with fewer changed slots goes slot by slot: 1000 random slots of 100,000 cost 7 ms so, 103 ms by pages.
WHOLE_PAGE_SLOTS = PAGE_SLOTS // 8
# Records near SQLite's own page of 4 KiB and above cost their bytes either way: 1000 random ones of 4000 cost 23 ms slot by
# slot, 63 ms by whole pages from an eighth on; half of them all 35 and 60 ms.
LARGE_RECORD_BYTES = 2048

# Written at a time: some five milliseconds of a commit that others wait for.
STEP_BYTES = 2**19

Row = tuple[int, Any, int]
Ints = NDArray[np.int64]
Steps = Generator[int, None, Ledger]  # bytes written since the step before; at the end what the file then must hold


def key_of(number: int, place: int, *, second: bool) -> int:
    """Return the key of a page or slot of a table."""
    return (number << schema.NUMBER_BITS) + (second << schema.PLACE_BIT) + place


def span_of(number: int) -> tuple[int, int]:
    """Return the first and the last key of a table."""
    first = number << schema.NUMBER_BITS
    return first, first + 2**schema.NUMBER_BITS - 1


def placed(key: int) -> tuple[int, bool]:
    """Return the page or slot that a key of a table stands for, and whether in its second place."""
    return key & 2**schema.PLACE_BIT - 1, bool(key >> schema.PLACE_BIT & 1)


def of_one_layout(table: TablePages, ledgers: Mapping[str, Ledger]) -> bool:
    """Return whether a table's pages may stand beside those that the file has: another layout needs all of them at once."""
    known = ledgers.get(table.table)
    return known is None or (known.layout, known.words) == (table.layout, table.words.shape[1])


def write_table(
    connection: sqlite3.Connection, table: TablePages, ledgers: Mapping[str, Ledger], stamp: int, *, beside: bool
) -> Steps:
    """Write changed pages, step by step: over those that are there, or beside them, into the places that are free."""
    known = ledgers.get(table.table)
    if known is None or not of_one_layout(table, ledgers):
        number = known.number if known else 1 + max((own.number for own in ledgers.values()), default=0)
        known = _begin_table(connection, table, number, known)
    ledger = known.grown(int(table.pages[-1]) + 1 if len(table.pages) else 0)
    changed = np.unpackbits(table.changed.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    enough = WHOLE_PAGE_SLOTS if 8 * ledger.words <= LARGE_RECORD_BYTES else PAGE_SLOTS
    whole = (changed.sum(axis=1) >= enough) | (ledger.page_sums[table.pages] == ABSENT)
    at_once = max(1, STEP_BYTES // (8 * ledger.words * PAGE_SLOTS))
    for rows in _in_steps(np.flatnonzero(whole), at_once):
        words = table.words[rows].astype("<u8", copy=False)
        _write_pages(connection, ledger, table.pages[rows], words, stamp, beside=beside)
        yield words.nbytes
    rest = np.flatnonzero(~whole)
    pairs, slots = np.nonzero(changed[rest])
    for some in _in_steps(np.arange(len(pairs)), at_once * PAGE_SLOTS):
        rows = rest[pairs[some]]
        cells = np.ascontiguousarray(table.words[rows, :, slots[some]].astype("<u8", copy=False))
        _write_slots(connection, ledger, table.pages[rows], slots[some], cells, stamp, beside=beside)
        yield cells.nbytes
    return ledger


def _in_steps(rows: Ints, at_once: int) -> Iterator[Ints]:
    return (rows[start : start + at_once] for start in range(0, len(rows), at_once))


def _begin_table(connection: sqlite3.Connection, table: TablePages, number: int, known: Ledger | None) -> Ledger:
    if known is None:
        return Ledger.new(number, table.layout, table.words.shape[1])
    if not np.isin(np.flatnonzero(known.page_sums != ABSENT), table.pages).all():
        raise Mismatch(
            f"table {table.table} has layout {known.layout} in the file, and the new layout {table.layout} comes "
            "without all of its pages"
        )
    for name in ("pages", "slots"):
        connection.execute(f"DELETE FROM {name} WHERE id BETWEEN ? AND ?", span_of(number))  # noqa: S608 (two fixed names)
    return Ledger.new(number, table.layout, table.words.shape[1])


def _write_pages(
    connection: sqlite3.Connection, ledger: Ledger, pages: Ints, words: NDArray[np.uint64], stamp: int, *, beside: bool
) -> None:
    second = ledger.page_second[pages] ^ (beside & (ledger.page_sums[pages] != ABSENT))
    ledger.page_second[pages] = second

    def rows() -> Iterator[Row]:
        for page, place, data in zip(pages.tolist(), second.tolist(), words, strict=True):
            key = key_of(ledger.number, page, second=place)
            ledger.page_sums[page] = summed = stamped(data, key, stamp)
            yield key, data, summed

    connection.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", rows())
    # A page written whole speaks for all its slots. Those that it is written beside are needed until all are there; then they
    # are older than their page, and the next of their place is written over them.
    if not beside:
        for page in pages[ledger.overridden[pages].any(axis=1)].tolist():
            for place in (False, True):
                low = key_of(ledger.number, page * PAGE_SLOTS, second=place)
                connection.execute("DELETE FROM slots WHERE id BETWEEN ? AND ?", (low, low + PAGE_SLOTS - 1))
    ledger.overridden[pages] = False
    ledger.slot_sums[pages] = 0


def _write_slots(
    connection: sqlite3.Connection, ledger: Ledger, pages: Ints, slots: Ints, cells: NDArray[np.uint64], stamp: int, *,
    beside: bool,
) -> None:  # fmt: skip
    second = ledger.slot_second[pages, slots] ^ (beside & ledger.overridden[pages, slots])
    numbers = (pages * PAGE_SLOTS + slots).tolist()
    keys = [key_of(ledger.number, n, second=place) for n, place in zip(numbers, second.tolist(), strict=True)]
    view = memoryview(cells.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
    width = cells.shape[1] * 8
    sums = [stamped(view[i * width : i * width + width], key, stamp) for i, key in enumerate(keys)]
    rows = ((key, view[i * width : i * width + width], sums[i]) for i, key in enumerate(keys))
    connection.executemany(
        "INSERT INTO slots VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET data = excluded.data, checksum = excluded.checksum",
        rows,
    )
    ledger.slot_second[pages, slots] = second
    ledger.overridden[pages, slots] = True
    ledger.slot_sums[pages, slots] = np.array(sums, np.uint64)


def put_ledger(connection: sqlite3.Connection, ledger: Ledger) -> None:
    """Write what the file must hold of a table."""
    data = ledger.encode()
    ledger.sum = checksum(data, ledger.number)
    connection.execute("INSERT OR REPLACE INTO ledgers VALUES (?, ?, ?)", (ledger.number, data, ledger.sum))
