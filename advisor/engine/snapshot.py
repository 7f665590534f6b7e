"""What one commit must write: frozen copies of changed state, safe to hand to a thread; the whole state when all is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

PAGE_SLOTS = 64  # slots a page: one bit each in a mask of changed slots; a page of the base table is 64 KB


@dataclass(frozen=True, slots=True)
class TablePages:
    """Changed pages of one table.

    Attributes
    ----------
    table : str
        The table's name, e.g. ``base``.
    layout : str
        Fingerprint of the meaning of the words; a state with another layout is upgraded or refused, never misread.
    pages : int64 array (k,)
        Page numbers, ascending; page i holds slots 64 i .. 64 i + 63.
    words : uint64 array (k, w, 64)
        The pages' contents: word j of slot 64 i + s is ``words[i, j, s]``. Bits, whatever the type of the word.
    changed : uint64 array (k,)
        Bit s says that slot s of the page changed since the last snapshot.
    """

    table: str
    layout: str
    pages: NDArray[np.int64]
    words: NDArray[np.uint64]
    changed: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State that changed since the last snapshot, or all of it.

    Attributes
    ----------
    names : tuple of (slot, name)
        Names given a slot; slots are never given twice.
    producers : mapping of (name, incarnation) to sequence
        Producers whose applied number changed.
    producers_gone : tuple of (name, incarnation)
        Producers evicted.
    documents : mapping of str to bytes
        What is no table, by name: whole wherever it changed. Networks, see `advisor.engine.flows`.
    documents_gone : tuple of str
        Names of those that are no more.
    totals : mapping of str to int
        All exact counters of the engine (small; always complete).
    version : int
        Of the state that it starts from, see `advisor.engine.versions`.
    journal : tuple of bytes
        Entries of the journal, in their order: what has happened since. Only of what was stored; see `engine.journal`.
    """

    tables: tuple[TablePages, ...] = ()
    names: tuple[tuple[int, str], ...] = ()
    producers: Mapping[tuple[str, bytes], int] = field(default_factory=dict[tuple[str, bytes], int])
    producers_gone: tuple[tuple[str, bytes], ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    documents: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    documents_gone: tuple[str, ...] = ()
    journal: tuple[bytes, ...] = ()
    version: int = 0

    @property
    def empty(self) -> bool:
        """True when there is nothing to write."""
        parts = (self.tables, self.names, self.producers, self.producers_gone, self.documents, self.documents_gone)
        return not any(parts)
