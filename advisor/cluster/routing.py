"""Rows to shards: each row to the shard of its component, and what it says of a network's flow to that of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.cluster.layout import Layout
from advisor.domain.limits import FIRST_REFUSALS
from advisor.domain.observations import UNRESOLVED, Columns, ComponentNames
from advisor.domain.vectors import NONE_NAMED, Ints
from advisor.engine.events import NetworkDefined, ProgramForgotten, RunObserved, Travels
from advisor.engine.flows import name_of

INVALID = 0  # the shard that refuses rows whose name is none
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What one shard gets of a batch."""

    events: tuple[Any, ...] = ()  # rows, `Travels` of them; or another event
    rows: Ints | None = None  # int64 array (n,) or None: which rows of the batch the first has; None: all of them


def subject_of(event: Any) -> str:
    """Return the name of what an event other than rows is about."""
    if isinstance(event, NetworkDefined):
        return name_of(event.id)
    return event.program if isinstance(event, (RunObserved, ProgramForgotten)) else event.component


def split_by_shard(event: Any, layout: Layout) -> dict[int, BatchPart]:
    """Return what each shard gets that gets something. Cost O(rows), and a hash for each new name."""
    if not isinstance(event, Columns):
        return {layout.shard_of(subject_of(event)): BatchPart((event,))}
    columns = event
    shards = _shards_of(columns.components, columns.index, layout)
    plain = columns
    if columns.network is not None:
        plain = replace(columns, network=None, networks=(), entered=None, replica=None)
    found: dict[int, BatchPart] = {}
    present: list[int] = np.unique(shards).tolist()
    for shard in present:
        rows = None if len(present) == 1 else np.flatnonzero(shards == shard)
        own = plain if rows is None else plain.select_rows(rows)
        found[shard] = BatchPart((own.with_own_names(),), rows)
    for shard, travels in _travels(columns, layout):
        part = found.get(shard, BatchPart())
        found[shard] = BatchPart((*part.events, travels), part.rows)
    return found


def _shards_of(names: ComponentNames, index: Ints, layout: Layout) -> Ints:
    cache = names.slots_of(layout)
    shards = cache[index]
    if (shards == UNRESOLVED).any():
        new: list[int] = np.unique(index[shards == UNRESOLVED]).tolist()
        for number in new:
            cache[number] = layout.shard_of(names.names[number]) if names.valid[number] else INVALID
        shards = cache[index]
    return shards


def _travels(columns: Columns, layout: Layout) -> list[tuple[int, Travels]]:
    """Return, by the network's shard, the rows that name one."""
    if columns.network is None:
        return []
    homes = np.array([*map(layout.shard_of, columns.networks), UNRESOLVED], np.int64)[columns.network]
    homes[columns.network == NONE_NAMED] = UNRESOLVED
    known: list[int] = np.unique(homes[homes != UNRESOLVED]).tolist()
    return [(shard, Travels(columns.select_rows(homes == shard).with_own_names())) for shard in known]


def joined(answers: Sequence[tuple[Answer, BatchPart]], sequence: int | None) -> Answer:
    """Return the answer to a batch from those of its parts, rows counted as in the batch; or that to an event.

    Where a part was applied before, its rows are not counted again, and ``replayed`` says so.
    """
    by_code = Counter[str]()
    first: list[Any] = []
    for answer, part in answers:
        if part.events and not isinstance(part.events[0], (Columns, Travels)):
            return answer
        refused = answer.get("refused", {})
        by_code.update(refused.get("by_code", {}))
        rows = part.rows
        first += [[row if rows is None else int(rows[row]), *rest] for row, *rest in refused.get("first", ())]
    found: Answer = {
        "accepted": sum(answer.get("accepted", 0) for answer, _ in answers),
        "refused": {"count": by_code.total(), "by_code": dict(by_code), "first": sorted(first)[:FIRST_REFUSALS]},
    }
    if sequence is not None:
        found["sequence"] = sequence
        if any(answer.get("replayed") for answer, _ in answers):
            found["replayed"] = True
    return found
