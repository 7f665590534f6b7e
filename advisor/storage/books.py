"""What the state file must hold, as the next commit has to know it: checksums of its rows, and the root row that sums them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.engine.snapshot import Snapshot
from advisor.storage import schema
from advisor.storage.ledger import ABSENT, JournalBooks, Ledger, checksum
from advisor.storage.reading import ROOT_KEY, document_checksum, producer_checksum
from advisor.storage.witness import Commit, digest

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Books:
    """What the file holds after the last commit."""

    commit: Commit
    ledgers: dict[str, Ledger] = field(default_factory=dict[str, Ledger])
    name_sums: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # by slot, ABSENT where unnamed
    producer_sums: dict[tuple[str, bytes], int] = field(default_factory=dict[tuple[str, bytes], int])
    document_sums: dict[str, int] = field(default_factory=dict[str, int])
    journal: JournalBooks = field(default_factory=JournalBooks)
    stamp: int = 0  # up to which pages and slots are what the state stands on, see `ledger.stamped`
    root: bytes = b""  # but for the journal, the commit and the brace behind them


def write_names(
    connection: sqlite3.Connection, sums: NDArray[np.int64], names: Sequence[tuple[int, str]]
) -> NDArray[np.int64]:
    """Write the names of slots; return the checksum of each slot's name then."""
    if not names:
        return sums
    sums = np.concatenate([sums, np.full(max(0, max(s for s, _ in names) + 1 - len(sums)), ABSENT, np.int64)])
    rows = [(slot, data := name.encode(), checksum(data, slot)) for slot, name in names]
    connection.executemany("INSERT OR REPLACE INTO names VALUES (?, ?, ?)", rows)
    sums[[slot for slot, _, _ in rows]] = [summed for _, _, summed in rows]
    return sums


def write_producers(
    connection: sqlite3.Connection, before: dict[tuple[str, bytes], int], snapshot: Snapshot
) -> dict[tuple[str, bytes], int]:
    """Write producers' numbers, remove those of producers that are gone; return the checksum of each row then."""
    left = [(name.encode(), incarnation) for name, incarnation in snapshot.producers_gone]
    connection.executemany("DELETE FROM producers WHERE name = ? AND incarnation = ?", left)
    rows = {
        (name, own): (data := name.encode(), own, number, producer_checksum(data, own, number))
        for (name, own), number in snapshot.producers.items()
    }
    connection.executemany("INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?)", rows.values())
    return _summed(before, snapshot.producers_gone, {key: row[-1] for key, row in rows.items()})


def write_documents(connection: sqlite3.Connection, before: dict[str, int], snapshot: Snapshot) -> dict[str, int]:
    """Write documents, remove those that are gone; return the checksum of each then."""
    connection.executemany("DELETE FROM documents WHERE id = ?", [(name.encode(),) for name in snapshot.documents_gone])
    rows = {
        name: (key := name.encode(), data, document_checksum(key, data)) for name, data in snapshot.documents.items()
    }
    connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows.values())
    return _summed(before, snapshot.documents_gone, {name: row[-1] for name, row in rows.items()})


def _summed(before: dict[Key, int], gone: Collection[Key], now: Mapping[Key, int]) -> dict[Key, int]:
    if not (gone or now):
        return before
    left = frozenset(gone)
    return {key: summed for key, summed in before.items() if key not in left} | dict(now)


def root_of(books: Books, totals: Mapping[str, int]) -> bytes:
    """Return the root row up to what it says of the journal and the commit, which change with each."""
    named = books.name_sums[books.name_sums != ABSENT]
    root = {
        "format": schema.FORMAT,
        "pages": books.stamp,
        "totals": dict(totals),
        "names": [len(named), int(named.sum())],
        "producers": [len(books.producer_sums), sum(books.producer_sums.values())],
        "documents": [len(books.document_sums), sum(books.document_sums.values())],
        "tables": {name: [own.number, own.layout, own.words, own.sum] for name, own in books.ledgers.items()},
    }
    return json.dumps(root, sort_keys=True)[:-1].encode()


def put_root(connection: sqlite3.Connection, books: Books, file: str) -> Books:
    """Write the root row of the next commit to a file of this identity; return the books with it."""
    journal, last = books.journal, books.commit
    data = b'%b, "journal": [%d, %d, %d], "commit": [%d, "%b", "%b", "%b"]}' % (
        books.root, journal.first, journal.count, journal.sum,
        last.number + 1, last.digest.hex().encode(), last.identity.hex().encode(), file.encode(),
    )  # fmt: skip
    connection.execute("INSERT OR REPLACE INTO root VALUES (?, ?, ?)", (ROOT_KEY, data, checksum(data, ROOT_KEY)))
    return replace(books, commit=Commit(last.identity, last.number + 1, digest(data), journal.bytes))
