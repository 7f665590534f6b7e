"""The engine: an advisor and its producers; the sole owner of state behind a service. Events in, state and answers out.

Exactly once: a producer is (name, incarnation); its batches are numbered from 1. Only applied + 1 is folded; a number applied
before is not folded again; a gap is an error that names the number expected. The applied numbers travel in the same snapshot as
the words that they changed, so a commit of the snapshot makes both durable together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.answers import Receipt
from advisor.domain.observations import Columns
from advisor.engine.advisor import Advisor
from advisor.engine.snapshot import PAGE_SLOTS, Snapshot, TablePages
from advisor.errors import InvalidValue, SequenceGap, StateTooNew, TooLarge
from advisor.models.layout import LAYOUT, WORDS
from advisor.models.upgrade import READABLE, upgraded

TABLE = "base"
Producer = tuple[str, bytes]


class Engine:
    """State behind a service.

    Parameters
    ----------
    timer_noise_s, components_max
        As for `Advisor`.
    producers_max : int
        Producers remembered; further ones are refused until some are evicted.
    """

    def __init__(
        self,
        *,
        timer_noise_s: float = 1e-6,
        components_max: int = limits.COMPONENTS_MAX,
        producers_max: int = limits.PRODUCERS_MAX,
    ) -> None:
        self.advisor = Advisor(timer_noise_s, components_max)
        self.producers_max = producers_max
        self.producers: dict[Producer, int] = {}
        self._producers_changed: dict[Producer, None] = {}
        self._producers_gone: dict[Producer, None] = {}
        self._names_taken = 0  # names 0 .. are in an earlier snapshot

    @property
    def totals(self) -> Mapping[str, int]:
        """Exact counters, see `Components.totals`."""
        return self.advisor.components.totals

    @property
    def state_bytes(self) -> int:
        """Bytes of the tables."""
        return self.advisor.components.table.bytes

    # -- events -----------------------------------------------------------------------------------------------------------

    def observe(self, columns: Columns) -> Receipt:
        """Fold a batch without a number: at most once."""
        return self.advisor.fold(columns)

    def observe_batch(self, producer: str, incarnation: bytes, sequence: int, columns: Columns) -> Receipt:
        """Fold a numbered batch once.

        Raises
        ------
        SequenceGap
            When the number is beyond the next; nothing is changed.
        TooLarge
            When the producer is new and there is no room for it.
        """
        key = (producer, incarnation)
        if self._is_replay(key, sequence):
            return Receipt(0, sequence=sequence, replayed=True)
        receipt = self.advisor.fold(columns)
        self._advance(key, sequence)
        return Receipt(receipt.accepted, receipt.refused, sequence)

    def forget_batch(
        self, producer: str, incarnation: bytes, sequence: int, component: str, keep: float
    ) -> dict[str, Any]:
        """Forget as a numbered event; the errors of `observe_batch` and `Advisor.forget`."""
        key = (producer, incarnation)
        if self._is_replay(key, sequence):
            return {"component": component, "keep": keep, "sequence": sequence, "replayed": True}
        answer = self.advisor.forget(component, keep)
        self._advance(key, sequence)
        return answer | {"sequence": sequence}

    def applied(self, producer: str, incarnation: bytes) -> int:
        """Return the last number folded of a producer, 0 for an unknown one."""
        return self.producers.get((producer, incarnation), 0)

    def resume_producer(self, producer: str, incarnation: bytes, applied: int) -> None:
        """Take `applied` as the last number folded: the producer says so, and our state of it is older or lost.

        Raises
        ------
        InvalidValue
            When it would go back.
        TooLarge
            When the producer is new and there is no room for it.
        """
        key = (producer, incarnation)
        if applied < self.applied(*key):
            raise InvalidValue("resume_at", applied, f"at least {self.applied(*key)}, which is applied")
        self._make_room(key)
        self.totals_add("producers_resumed")
        self._advance(key, applied)

    def evict_producers(self, producers: Iterable[Producer]) -> None:
        """Drop producers that the caller knows to be idle."""
        for key in producers:
            if self.producers.pop(key, None) is not None:
                self._producers_changed.pop(key, None)
                self._producers_gone[key] = None

    def _is_replay(self, key: Producer, sequence: int) -> bool:
        self._make_room(key)
        applied = self.applied(*key)
        if sequence <= applied:
            self.totals_add("batches_replayed")
            return True
        if sequence != applied + 1:
            self.totals_add("gaps")
            raise SequenceGap(sequence, applied + 1)
        return False

    def _make_room(self, key: Producer) -> None:
        if key not in self.producers and len(self.producers) >= self.producers_max:
            raise TooLarge(
                "producers", len(self.producers) + 1, self.producers_max, "reuse a producer's name and incarnation"
            )

    def totals_add(self, name: str, n: int = 1) -> None:
        """Count an event of the face that drives this engine among the durable totals."""
        self.advisor.components.totals[name] += n

    def _advance(self, key: Producer, sequence: int) -> None:
        self.producers[key] = sequence
        self._producers_changed[key] = None
        self._producers_gone.pop(key, None)

    # -- snapshots --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return copies of all that changed since the last snapshot, and count it as taken. Cost O(changed pages)."""
        self.advisor.flush()
        components = self.advisor.components
        table, n = components.table, len(components)
        capacity = -(-n // PAGE_SLOTS) * PAGE_SLOTS
        changed = table.changed[:capacity].reshape(-1, PAGE_SLOTS)
        pages = np.flatnonzero(changed.any(axis=1))
        tables: tuple[TablePages, ...] = ()
        if len(pages):
            blocks = table.words.view(np.uint64)[:, :capacity].reshape(WORDS, -1, PAGE_SLOTS)
            words = np.ascontiguousarray(blocks[:, pages].transpose(1, 0, 2))
            bits = np.packbits(changed[pages], axis=1, bitorder="little").view("<u8").reshape(-1).astype(np.uint64)
            tables = (TablePages(TABLE, LAYOUT, pages, words, bits),)
            table.changed[:capacity] = False
        names = tuple(enumerate(components.names[self._names_taken :], self._names_taken))
        self._names_taken = n
        producers = {key: self.producers[key] for key in self._producers_changed}
        gone = tuple(self._producers_gone)
        self._producers_changed, self._producers_gone = {}, {}
        return Snapshot(components.timer_noise_s, tables, names, producers, gone, dict(components.totals))

    def mark_changed(self, snapshot: Snapshot) -> None:
        """Count a snapshot as not taken: its commit failed, and the next one must hold what it held."""
        table = self.advisor.components.table
        for pages in snapshot.tables:
            bits = np.unpackbits(pages.changed.astype("<u8").view(np.uint8), bitorder="little").reshape(-1, PAGE_SLOTS)
            for page, mask in zip(pages.pages.tolist(), bits.astype(np.bool_), strict=True):
                table.changed[page * PAGE_SLOTS : (page + 1) * PAGE_SLOTS] |= mask
        if snapshot.names:
            self._names_taken = min(self._names_taken, snapshot.names[0][0])
        for key in snapshot.producers:
            if key in self.producers:
                self._producers_changed[key] = None
        for key in snapshot.producers_gone:
            if key not in self.producers:
                self._producers_gone[key] = None

    @classmethod
    def restore(
        cls,
        snapshot: Snapshot,
        *,
        components_max: int = limits.COMPONENTS_MAX,
        producers_max: int = limits.PRODUCERS_MAX,
    ) -> Engine:
        """Return the engine whose snapshots, put together, gave `snapshot`.

        Raises
        ------
        StateTooNew
            When a table has a layout that this version does not read.
        InvalidValue
            When names or pages do not fit together.
        """
        engine = cls(timer_noise_s=snapshot.timer_noise_s, components_max=components_max, producers_max=producers_max)
        components = engine.advisor.components
        components.restore(dict(snapshot.names), snapshot.totals)
        n = len(components)
        for pages in snapshot.tables:
            if pages.table != TABLE or pages.layout not in READABLE:
                raise StateTooNew(
                    f"table {pages.table!r} of layout {pages.layout!r}; this version reads {TABLE!r} of {LAYOUT!r}",
                    field="layout", value=pages.layout, bound=LAYOUT, hint="use the version that wrote it",
                )  # fmt: skip
            if len(pages.pages) and int(pages.pages.max()) * PAGE_SLOTS >= n:
                raise InvalidValue("pages", int(pages.pages.max()), f"below {-(-n // PAGE_SLOTS)}, as there are names")
            blocks = components.table.words.view(np.uint64)
            bits = np.unpackbits(pages.changed.astype("<u8").view(np.uint8), bitorder="little").reshape(-1, PAGE_SLOTS)
            now = upgraded(pages.words, pages.layout)
            for page, words, held in zip(pages.pages.tolist(), now, bits.astype(np.bool_), strict=True):
                # A slot without its bit was lost by the storage, or never written: it begins anew.
                block = blocks[:, page * PAGE_SLOTS : (page + 1) * PAGE_SLOTS]
                np.copyto(block, words[:, : block.shape[1]], where=held[: block.shape[1]])
        # Of another layout, all pages go into the next commit: a table has one layout.
        components.table.changed[:] = False
        components.table.changed[:n] = any(pages.layout != LAYOUT for pages in snapshot.tables)
        engine.producers = dict(snapshot.producers)
        engine._names_taken = n
        return engine
