"""Putting stored pages back into what they were taken from."""

from __future__ import annotations

from typing import Any

from advisor.engine import pages
from advisor.engine.advisor import Advisor
from advisor.engine.blobs import Paged
from advisor.engine.journal import Limits
from advisor.engine.pages import BASE
from advisor.engine.profiles import Profiles
from advisor.engine.snapshot import Snapshot, TablePages


def put(advisor: Advisor, profiles: Profiles, snapshot: Snapshot) -> None:
    """Put names, totals, pages and documents into a new advisor, and profiles.

    Raises StateTooNew, StateDamaged, InvalidValue as `Engine.restore`.
    """
    components = advisor.components
    components.restore(dict(snapshot.names), snapshot.totals)
    for table in snapshot.tables:
        paged = _paged(advisor, profiles, table)
        if paged is not None:
            paged.put(table)
        elif table.table == BASE:
            pages.put_base(components.table, len(components), table)
        else:
            pages.put_records(components, table)
    components.flows.restore(snapshot.documents)
    pages.check_words(components)
    components.resume()


def _paged(advisor: Advisor, profiles: Profiles, table: TablePages) -> Paged[Any, Any] | None:
    """Return what keeps a table of things of any length; None for a table of components."""
    kept: tuple[Paged[Any, Any], ...] = (profiles.paged, advisor.programs.paged, advisor.task_types.paged)
    return next((each for each in kept if each.owns(table)), None)


def mark(advisor: Advisor, profiles: Profiles, snapshot: Snapshot) -> None:
    """Count what a snapshot has of things of any length, and its documents, as not taken."""
    components = advisor.components
    for table in snapshot.tables:
        paged = _paged(advisor, profiles, table)
        if paged is not None:
            paged.mark(table)
    components.flows.mark_changed(snapshot.documents, snapshot.documents_gone)


def limit(advisor: Advisor, to: Limits) -> None:
    """Allow so many components, or as many as there are, and so much memory."""
    components = advisor.components
    components.slots.components_max = max(to.components_max, len(components))
    components.learners.memory_bytes = to.model_memory_bytes
