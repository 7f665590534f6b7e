"""What of a state is to be committed: events, for the journal, or copies of the pages that changed; and putting pages back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from advisor.engine import pages
from advisor.engine.blobs import Paged
from advisor.engine.journal import Entry, Journal, Limits
from advisor.engine.pages import BASE, table_pages
from advisor.engine.snapshot import Snapshot, TablePages
from advisor.engine.state import State
from advisor.engine.versions import Versions


class Commits:
    """What was taken of a state, to be written by whoever drives its engine, and what comes next.

    `settle`: called before anything is taken: folds rows that were put aside, raises what an earlier fold of them has raised.
    """

    def __init__(self, state: State, versions: Versions, settle: Callable[[], None]) -> None:
        self.journal = Journal()
        self._state, self._versions, self._settle = state, versions, settle
        self._taken = 0  # the version of the last snapshot
        self._names_taken = 0  # names 0 .. are in an earlier snapshot

    def keep_journal(self) -> None:
        """From now on note what happens, for `take_entry`: somebody keeps it. What was before needs a snapshot."""
        self.journal.kept = True
        self.journal.restart(self._state.advisor.components)

    def take_entry(self) -> Entry | None:
        """Return what has happened since the last entry or snapshot, and count it as taken; None where that takes a snapshot.

        Cost O(1): the rows are not copied. Not while a batch is under way. An entry whose commit failed is given to
        `journal.put_back`, and the next one holds what it held.
        """
        self._settle()
        if self.journal.beyond or not self.journal.kept:
            return None
        components = self._state.advisor.components
        return self.journal.take(Limits(components.slots.components_max, components.learners.memory_bytes))

    def snapshot(self) -> Snapshot:
        """Return copies of all that changed since the last snapshot, and count it as taken. Cost O(changed pages).

        Not while a batch is under way.
        """
        slices = self.snapshot_in_slices()
        while True:
            try:
                next(slices)
            except StopIteration as whole:
                return whole.value

    def snapshot_in_slices(self) -> Generator[None, None, Snapshot]:
        """Take a snapshot slice by slice, a millisecond or so each; nothing may change the state between them."""
        self._settle()
        components, slots, versions = (
            self._state.advisor.components,
            self._state.advisor.components.slots,
            self._versions,
        )
        n, before = len(components), self._taken
        self._taken = self._state.sweep(versions)
        found = [(yield from table_pages(BASE, components.table, versions.changed(BASE, before, n)))]
        for name, table in components.records.items():
            found.append((yield from table_pages(name, table, versions.changed(name, before, len(table.words)))))
        for paged in self._paged:
            found += paged.pages()
        tables = tuple(pages for pages in found if pages is not None)
        renamed = ((slot, slots.names[slot]) for slot in slots.renamed if slot < self._names_taken)
        names = (*enumerate(slots.names[self._names_taken :], self._names_taken), *renamed)
        slots.renamed.clear()
        self._names_taken = n
        producers, gone = self._state.ledger.take_changed()
        documents, lost = components.flows.take_changed()
        self.journal.restart(components)
        return Snapshot(tables, names, producers, gone, dict(components.totals), documents, lost, version=before)

    def mark_changed(self, snapshot: Snapshot) -> None:
        """Count a snapshot as not taken: its commit failed, and the next one must hold what it held."""
        self.journal.beyond = True
        self.count_again(snapshot)

    def count_again(self, snapshot: Snapshot) -> None:
        """Have the next snapshot hold what this one held; what happened until it was taken is in the journal still."""
        self._taken = min(self._taken, snapshot.version)
        for table in snapshot.tables:
            paged = self._paged_of(table)
            if paged is not None:
                paged.mark(table)
        self._state.advisor.components.flows.mark_changed(snapshot.documents, snapshot.documents_gone)
        if snapshot.names:
            self._names_taken = min(self._names_taken, *(slot for slot, _ in snapshot.names))
        self._state.ledger.mark_changed((*snapshot.producers, *snapshot.producers_gone))

    def put(self, snapshot: Snapshot) -> None:
        """Put all that snapshots have told into a new state: it counts as taken.

        Raises StateTooNew, StateDamaged, InvalidValue as `Engine.restore`.
        """
        components = self._state.advisor.components
        components.restore(dict(snapshot.names), snapshot.totals)
        for table in snapshot.tables:
            paged = self._paged_of(table)
            if paged is not None:
                paged.put(table)
            elif table.table == BASE:
                pages.put_base(components.table, len(components), table)
            else:
                pages.put_records(components, table)
        components.flows.restore(snapshot.documents)
        pages.check_words(components)
        components.resume()
        self._state.ledger.applied.update(snapshot.producers)
        self._names_taken = len(snapshot.names)

    def limit(self, to: Limits) -> None:
        """Allow so many components, or as many as there are, and so much memory."""
        components = self._state.advisor.components
        components.slots.components_max = max(to.components_max, len(components))
        components.learners.memory_bytes = to.model_memory_bytes

    @property
    def _paged(self) -> tuple[Paged[Any, Any], ...]:
        """What keeps tables of things of any length."""
        return self._state.profiles.paged, self._state.advisor.programs.paged, self._state.advisor.task_types.paged

    def _paged_of(self, table: TablePages) -> Paged[Any, Any] | None:
        """Return what keeps a table of things of any length; None for a table of components."""
        return next((each for each in self._paged if each.owns(table)), None)
