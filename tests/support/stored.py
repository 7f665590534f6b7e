"""What a storage keeps of an engine, in memory: the last words of every slot, names, numbers and totals; and a journal."""

from __future__ import annotations

import numpy as np

from advisor.engine.journal import Entry
from advisor.engine.snapshot import PAGE_SLOTS, Snapshot, TablePages


class Stored:
    """Snapshots put together: what a restart finds."""

    def __init__(self) -> None:
        self.words: dict[tuple[str, str], dict[int, np.ndarray]] = {}  # by table and layout: slot to words
        self.names: dict[int, str] = {}
        self.producers: dict[tuple[str, bytes], int] = {}
        self.totals: dict[str, int] = {}
        self.documents: dict[str, bytes] = {}
        self.journal: list[bytes] = []

    def append(self, entry: Entry) -> None:
        self.journal.append(entry.encode())

    def commit(self, snapshot: Snapshot) -> None:
        self.journal.clear()
        for table in snapshot.tables:
            records = self.words.setdefault((table.table, table.layout), {})
            for page, words, changed in zip(table.pages.tolist(), table.words, table.changed.tolist(), strict=True):
                for bit in (b for b in range(PAGE_SLOTS) if changed >> b & 1):
                    records[page * PAGE_SLOTS + bit] = words[:, bit].copy()
        self.names |= dict(snapshot.names)
        self.producers |= snapshot.producers
        for key in snapshot.producers_gone:
            self.producers.pop(key, None)
        self.totals = dict(snapshot.totals)
        self.documents |= snapshot.documents
        for name in snapshot.documents_gone:
            self.documents.pop(name, None)

    def snapshot(self) -> Snapshot:
        """Return all of it as one snapshot, tables in the order of their names as a database gives them."""
        tables = tuple(_pages(*key, self.words[key]) for key in sorted(self.words))
        return Snapshot(tables, tuple(self.names.items()), dict(self.producers), (), dict(self.totals),
                        dict(sorted(self.documents.items())), journal=tuple(self.journal))  # fmt: skip


def _pages(table: str, layout: str, records: dict[int, np.ndarray]) -> TablePages:
    pages = sorted({slot // PAGE_SLOTS for slot in records})
    words = np.zeros((len(pages), len(next(iter(records.values()))), PAGE_SLOTS), np.uint64)
    changed = np.zeros(len(pages), np.uint64)
    for slot, record in records.items():
        at = pages.index(slot // PAGE_SLOTS)
        words[at, :, slot % PAGE_SLOTS] = record
        changed[at] |= np.uint64(1 << slot % PAGE_SLOTS)
    return TablePages(table, layout, np.array(pages, np.int64), words, changed)
