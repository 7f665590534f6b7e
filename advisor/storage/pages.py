"""Writing a table's changed pages, whole or slot by slot, and the ledger that says what the file must hold of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.engine.snapshot import PAGE_SLOTS, TablePages
from advisor.errors import Mismatch
from advisor.storage import schema
from advisor.storage.ledger import ABSENT, Ledger, checksum

# A page with fewer changed slots goes slot by slot: 1000 random slots of 100,000 cost 7 ms so, 103 ms by pages.
WHOLE_PAGE_SLOTS = PAGE_SLOTS // 8
# Records near SQLite's own page of 4 KiB and above cost their bytes either way: 1000 random ones of 4000 cost 23 ms slot by
# slot, 63 ms by whole pages from an eighth on; half of them all 35 and 60 ms.
LARGE_RECORD_BYTES = 2048

Row = tuple[int, Any, int]


def write_table(connection: sqlite3.Connection, table: TablePages, ledgers: Mapping[str, Ledger]) -> Ledger:
    known = ledgers.get(table.table)
    if known is None or (known.layout, known.words) != (table.layout, table.words.shape[1]):
        number = known.number if known else 1 + max((own.number for own in ledgers.values()), default=0)
        known = _begin_table(connection, table, number, known)
    ledger = known.grown(int(table.pages[-1]) + 1 if len(table.pages) else 0)
    words = table.words.astype("<u8", copy=False)
    changed = np.unpackbits(table.changed.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    enough = WHOLE_PAGE_SLOTS if 8 * ledger.words <= LARGE_RECORD_BYTES else PAGE_SLOTS
    whole = (changed.sum(axis=1) >= enough) | (ledger.page_sums[table.pages] == ABSENT)
    _write_pages(connection, ledger, table.pages[whole], words[whole])
    rest = np.flatnonzero(~whole)
    pairs, slots = np.nonzero(changed[rest])
    positions = rest[pairs]
    cells = np.ascontiguousarray(words[positions, :, slots])
    _write_slots(connection, ledger, table.pages[positions], slots, cells)
    put_ledger(connection, ledger)
    return ledger


def _begin_table(connection: sqlite3.Connection, table: TablePages, number: int, known: Ledger | None) -> Ledger:
    if known is None:
        return Ledger.new(number, table.layout, table.words.shape[1])
    if not np.isin(np.flatnonzero(known.page_sums != ABSENT), table.pages).all():
        raise Mismatch(
            f"table {table.table} has layout {known.layout} in the file, and the new layout {table.layout} comes "
            "without all of its pages"
        )
    first = number << schema.NUMBER_BITS
    for name in ("pages", "slots"):
        connection.execute(
            f"DELETE FROM {name} WHERE id BETWEEN ? AND ?",  # noqa: S608 (two fixed names)
            (first, first + 2**schema.NUMBER_BITS - 1),
        )
    return Ledger.new(number, table.layout, table.words.shape[1])


def _write_pages(
    connection: sqlite3.Connection, ledger: Ledger, pages: NDArray[np.int64], words: NDArray[np.uint64]
) -> None:
    first = ledger.number << schema.NUMBER_BITS

    def rows() -> Iterator[Row]:
        for page, data in zip(pages.tolist(), words, strict=True):
            key = first + page
            ledger.page_sums[page] = summed = checksum(data, key)
            yield key, data, summed

    connection.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", rows())
    # A page written whole speaks for all its slots.
    for page in pages[ledger.overridden[pages].any(axis=1)].tolist():
        low = first + page * PAGE_SLOTS
        connection.execute("DELETE FROM slots WHERE id BETWEEN ? AND ?", (low, low + PAGE_SLOTS - 1))
    ledger.overridden[pages] = False
    ledger.slot_sums[pages] = 0


def _write_slots(
    connection: sqlite3.Connection,
    ledger: Ledger,
    pages: NDArray[np.int64],
    slots: NDArray[np.int64],
    cells: NDArray[np.uint64],
) -> None:
    keys = ((ledger.number << schema.NUMBER_BITS) + pages * PAGE_SLOTS + slots).tolist()
    view = memoryview(cells.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
    width = cells.shape[1] * 8
    sums = [checksum(view[i * width : i * width + width], key) for i, key in enumerate(keys)]
    rows = ((key, view[i * width : i * width + width], sums[i]) for i, key in enumerate(keys))
    connection.executemany(
        "INSERT INTO slots VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET data = excluded.data, checksum = excluded.checksum",
        rows,
    )
    ledger.overridden[pages, slots] = True
    ledger.slot_sums[pages, slots] = sums


def put_ledger(connection: sqlite3.Connection, ledger: Ledger) -> None:
    data = ledger.encode()
    ledger.sum = checksum(data, ledger.number)
    connection.execute("INSERT OR REPLACE INTO ledgers VALUES (?, ?, ?)", (ledger.number, data, ledger.sum))
