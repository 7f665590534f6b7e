"""Tables as pages of 64 slots: taking those that changed, and putting them back.

Pages are copied in slices: whoever takes them may do something else between, as long as it changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Generator

import numpy as np

from advisor.domain.vectors import Bools, Words
from advisor.engine.components import Components
from advisor.engine.snapshot import PAGE_SLOTS, TablePages, flagged
from advisor.errors import InvalidValue, StateDamaged, StateTooNew
from advisor.models.contention import FORMER as FORMER_CONTENTION
from advisor.models.contention import NAME as CONTENTION
from advisor.models.layout import LAYOUT
from advisor.models.learner_layout import AXES_MAX
from advisor.models.records import RecordTable
from advisor.models.table import Table
from advisor.models.upgrade import READABLE, SUPPORT_POINTS, cells_of_points, contentions, upgraded

BASE = "base"
RECORDS = re.compile(r"(?:learner|support)-([2-5])(?:-([a-z_]+))?")

SLICE_BYTES = 2**20  # copied at a time: about a millisecond


def table_pages(name: str, table: RecordTable, changed: Bools) -> Generator[None, None, TablePages | None]:
    """Copy the pages with changed slots (n,) of a table slice by slice, and return them. Cost O(changed pages)."""
    found = flagged(changed)
    if found is None:
        return None
    pages, bits = found
    table.grow_capacity(-(-len(changed) // PAGE_SLOTS) * PAGE_SLOTS)
    whole = len(table.words) // PAGE_SLOTS
    blocks = table.words.view(np.uint64)[: whole * PAGE_SLOTS].reshape(whole, PAGE_SLOTS, -1)
    words = np.empty((len(pages), table.words_a_record, PAGE_SLOTS), np.uint64)
    step = max(1, SLICE_BYTES // (table.words_a_record * PAGE_SLOTS * 8))
    for start in range(0, len(pages), step):
        words[start : start + step] = blocks[pages[start : start + step]].transpose(0, 2, 1)
        yield
    return TablePages(name, table.layout, pages, words, bits)


def put_base(table: Table, size: int, pages: TablePages) -> None:
    """Put pages into the base table of `size` components; older layouts are upgraded, and then all of it counts as changed.

    Raises StateTooNew, InvalidValue.
    """
    if pages.layout not in READABLE:
        raise _too_new(pages, LAYOUT)
    if len(pages.pages) and int(pages.pages.max()) * PAGE_SLOTS >= size:
        raise InvalidValue("pages", int(pages.pages.max()), f"below {-(-size // PAGE_SLOTS)}, as there are names")
    records = table.records_whole.view(np.uint64)
    now = upgraded(pages.words, pages.layout)
    for page, words, there in zip(pages.pages.tolist(), now, pages.held, strict=True):
        # A slot without its bit was lost by the storage, or never written: it begins anew.
        block = records[page * PAGE_SLOTS : (page + 1) * PAGE_SLOTS]
        np.copyto(block, words.T[: len(block)], where=there[: len(block), None])
    # Of another layout, all pages go into the next commit: a table has one layout.
    table.changed[:size] = pages.layout != LAYOUT


def put_records(components: Components, pages: TablePages) -> None:
    """Put pages into the table of records of their name; raises StateTooNew."""
    for page, words, mask in zip(pages.pages.tolist(), pages.words, pages.held, strict=True):
        put_rows(components, pages.table, pages.layout, page * PAGE_SLOTS, words.T, mask)


def put_rows(components: Components, name: str, layout: str, first: int, words: Words, there: Bools) -> None:
    """Put rows (n, w) of words into the table of records of a name, from place `first` on, where they are `there` (n,).

    Support points of an older version become cells of a learner at the same places, contentions of one begin epochs anew;
    they count as changed: a table has one layout.

    Raises StateTooNew.
    """
    table = record_table(components, name, layout)
    last = int(np.flatnonzero(there).max(initial=-1))
    if last < 0:
        return
    table.grow(first + 1 + last)
    rows = table.words.view(np.uint64)[first : first + 1 + last]
    if layout != table.layout:
        axes = SUPPORT_POINTS.get(layout)
        used = words[: 1 + last]
        words = cells_of_points(used, there[: 1 + last], axes) if axes else contentions(used)
        table.changed[first : first + 1 + last] |= there[: 1 + last]
    elif words.shape[1] != table.words_a_record:
        raise ValueError(f"{words.shape[1]} words a record of {name}")
    np.copyto(rows, words[: 1 + last], where=there[: 1 + last, None])


def record_table(components: Components, name: str, layout: str) -> RecordTable:
    """Return the table of records that a name and layout stand for, made where there is none.

    Raises StateTooNew when this version knows no such table.
    """
    known = RECORDS.fullmatch(name)
    axes = int(known[1]) if known else 0
    if name != CONTENTION and (known is None or axes > AXES_MAX):
        raise StateTooNew(
            f"table {name!r}; this version reads {BASE!r}, {CONTENTION!r} and learners' tables",
            field="table", value=name, bound=BASE, hint="use the version that wrote it",
        )  # fmt: skip
    if known is None:
        table: RecordTable = components.contentions.named(CONTENTION)
    else:
        table = components.learners.table(axes, known[2] or "")
    former = SUPPORT_POINTS.get(layout) == axes if known else layout == FORMER_CONTENTION
    if table.layout != layout and not former:
        raise StateTooNew(
            f"table {name!r} of layout {layout!r}; this version reads {table.layout!r}",
            field="layout", value=layout, bound=table.layout, hint="use the version that wrote it",
        )  # fmt: skip
    return table


def check_words(components: Components) -> None:
    """See that all words are such as rows can lead to, before they are used.

    Raises StateDamaged when one is not: a checksum does not tell who wrote it.
    """
    n = len(components)
    name, owners = BASE, np.arange(n)
    found = components.table.outside(n)
    for table_name, table in components.records.items():
        if found is not None:
            break
        name, owners = table_name, table.count("component")[: table.size]
        strange = np.flatnonzero((owners < -1) | (owners >= n))
        found = (int(strange[0]), "component", int(owners[strange[0]])) if len(strange) else table.outside(table.size)
    if found is not None:
        slot = int(owners[found[0]])
        whose = components.slots.names[slot] if 0 <= slot < n else "no component"
        raise StateDamaged(
            f"{name} table: {found[1]} of {whose} is {found[2]!r}, which no rows lead to", components=(whose,),
            hint="restore a backup",
        )  # fmt: skip


def _too_new(pages: TablePages, bound: str) -> StateTooNew:
    return StateTooNew(
        f"table {pages.table!r} of layout {pages.layout!r}; this version reads {bound!r}",
        field="layout", value=pages.layout, bound=bound, hint="use the version that wrote it",
    )  # fmt: skip
