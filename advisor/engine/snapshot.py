"""What one commit must write: frozen copies of changed state, safe to hand to a thread; the whole state when all is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

PAGE_SLOTS = 64  # slots a page: one bit each in a mask of changed slots; a page of the base table is 64 KB


@dataclass(frozen=True, slots=True)
class TablePages:
    """Changed pages of one table."""

    table: str  # the table's name, e.g. `base`.
    # fingerprint of the meaning of the words; a state with another layout is upgraded or refused, never misread
    layout: str
    pages: NDArray[np.int64]  # int64 array (k,): page numbers, ascending; page i holds slots 64 i .. 64 i + 63.
    # uint64 array (k, w, 64): the pages' contents: word j of slot 64 i + s is `words[i, j, s]`. Bits, whatever the type
    # of the word.
    words: NDArray[np.uint64]
    changed: NDArray[np.uint64]  # uint64 array (k,): bit s says that slot s of the page changed since the last snapshot

    @property
    def held(self) -> NDArray[np.bool_]:
        """Which slots (k, 64) of the pages have a bit."""
        bits = np.unpackbits(self.changed.astype("<u8").view(np.uint8), bitorder="little")
        return bits.reshape(-1, PAGE_SLOTS).astype(np.bool_)


def flagged(changed: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.uint64]] | None:
    """Return the numbers (k,) and bits (k,) of the pages with changed slots; None where none has."""
    flags = np.zeros((-(-len(changed) // PAGE_SLOTS), PAGE_SLOTS), np.bool_)
    flags.reshape(-1)[: len(changed)] = changed
    pages = np.flatnonzero(flags.any(axis=1))
    if not len(pages):
        return None
    return pages, np.packbits(flags[pages], axis=1, bitorder="little").view("<u8").reshape(-1).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State that changed since the last snapshot, or all of it."""

    tables: tuple[TablePages, ...] = ()
    names: tuple[tuple[int, str], ...] = ()  # tuple of (slot, name): names given a slot; slots are never given twice
    # mapping of (name, incarnation) to sequence: producers whose applied number changed
    producers: Mapping[tuple[str, bytes], int] = field(default_factory=dict[tuple[str, bytes], int])
    producers_gone: tuple[tuple[str, bytes], ...] = ()  # tuple of (name, incarnation): producers evicted
    # all exact counters of the engine (small; always complete)
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    # what is no table, by name: whole wherever it changed. Networks, see `advisor.engine.flows`.
    documents: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    documents_gone: tuple[str, ...] = ()  # names of those that are no more
    # entries of the journal, in their order: what has happened since. Only of what was stored; see `engine.journal`.
    journal: tuple[bytes, ...] = ()
    version: int = 0  # of the state that it starts from, see `advisor.engine.versions`

    @property
    def empty(self) -> bool:
        """True when there is nothing to write."""
        parts = (self.tables, self.names, self.producers, self.producers_gone, self.documents, self.documents_gone)
        return not any(parts)
