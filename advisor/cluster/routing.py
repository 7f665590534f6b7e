"""Rows to shards: each row to the shard of its component, and what it tells of a network's flow to that of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.cluster.layout import Layout
from advisor.domain.limits import FIRST_REFUSALS
from advisor.domain.observations import UNRESOLVED, Columns, ComponentNames
from advisor.domain.vectors import NONE_NAMED, Ints
from advisor.engine.events import Travels

NUMBER_BITS = 32  # of a name's number; the shard stands above it
NUMBER_MASK = 2**NUMBER_BITS - 1
STRANGE = 0  # the shard that refuses rows whose name is none
Answer = dict[str, Any]


class Numbered:
    """The names that one shard knows, numbered in the order of their arrival."""

    def __init__(self) -> None:
        self.names: list[tuple[str, bool]] = []
        self._number: dict[tuple[str, bool], int] = {}

    def known(self, name: str) -> int | None:
        """Return the number of a known name; None for another."""
        return self._number.get((name, True))

    def number(self, name: str, valid: bool) -> int:
        """Return the number of a name; a new one gets the next."""
        found = self._number.get((name, valid))
        if found is None:
            found = self._number[name, valid] = len(self.names)
            self.names.append((name, valid))
        return found


@dataclass(frozen=True, slots=True)
class Piece:
    """What one shard gets of a batch."""

    events: tuple[Columns | Travels, ...]  # columns whose index counts the shard's names, and perhaps `Travels`
    rows: Ints | None = None  # int64 array (n,) or None: which rows of the batch the first are; None: all of them


class Router:
    """Cuts batches under one layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.numbered = [Numbered() for _ in range(layout.shards)]  # by shard

    def number_of(self, name: str) -> int | None:
        """Return the number that a name has at its shard; None where its rows have not come under this layout."""
        return self.numbered[self.layout.shard_of(name)].known(name)

    def split(self, columns: Columns) -> dict[int, Piece]:
        """Return what each shard gets that gets something. Cost O(rows), and a hash for each new name."""
        codes = self._codes(columns.components, columns.index)
        shards = codes >> NUMBER_BITS
        plain = columns
        if columns.network is not None:
            plain = replace(columns, network=None, networks=(), record=None, entered=None, replica=None)
        found: dict[int, Piece] = {}
        there: list[int] = np.unique(shards).tolist()
        for shard in there:
            rows = None if len(there) == 1 else np.flatnonzero(shards == shard)
            part = plain if rows is None else plain.take(rows)
            numbers = (codes if rows is None else codes[rows]) & NUMBER_MASK
            carried: Mapping[str, int] = columns.carried if shard == there[0] else {}
            found[shard] = Piece((replace(part, components=ComponentNames(), index=numbers, carried=carried),), rows)
        for shard, travels in self._travels(columns):
            piece = found.get(shard, Piece(()))
            found[shard] = Piece((*piece.events, travels), piece.rows)
        return found

    def _codes(self, names: ComponentNames, index: Ints) -> Ints:
        cache = names.slots_of(self)
        codes = cache[index]
        missing = codes == UNRESOLVED
        if missing.any():
            new: list[int] = np.unique(index[missing]).tolist()
            for number in new:
                name, valid = names.names[number], bool(names.valid[number])
                shard = self.layout.shard_of(name) if valid else STRANGE
                cache[number] = shard << NUMBER_BITS | self.numbered[shard].number(name, valid)
            codes = cache[index]
        return codes

    def _travels(self, columns: Columns) -> list[tuple[int, Travels]]:
        """Return, by the network's shard, the rows that name one."""
        if columns.network is None:
            return []
        homes = np.array([*map(self.layout.shard_of, columns.networks), UNRESOLVED], np.int64)[columns.network]
        homes[columns.network == NONE_NAMED] = UNRESOLVED
        found: list[tuple[int, Travels]] = []
        known_homes: list[int] = np.unique(homes[homes != UNRESOLVED]).tolist()
        for shard in known_homes:
            rows = columns.take(homes == shard)
            known, numbered = columns.components, self.numbered[shard]
            distinct, places = np.unique(rows.index, return_inverse=True)
            numbers: list[int] = distinct.tolist()
            own = np.array([numbered.number(known.names[n], bool(known.valid[n])) for n in numbers], np.int64)
            found.append((shard, Travels(replace(rows, components=ComponentNames(), index=own[places.ravel()]))))
        return found


def joined(answers: Sequence[tuple[Answer, Ints | None]], sequence: int | None) -> Answer:
    """Return the answer to a batch from those of its pieces, rows counted as in the batch.

    Where a piece was applied before, its rows are not counted again, and ``replayed`` says so.
    """
    by_code: dict[str, int] = {}
    first: list[Any] = []
    for answer, rows in answers:
        refused = answer.get("refused", {})
        for code, count in refused.get("by_code", {}).items():
            by_code[code] = by_code.get(code, 0) + count
        first += [[row if rows is None else int(rows[row]), *rest] for row, *rest in refused.get("first", ())]
    found: Answer = {
        "accepted": sum(answer.get("accepted", 0) for answer, _ in answers),
        "refused": {"count": sum(by_code.values()), "by_code": by_code, "first": sorted(first)[:FIRST_REFUSALS]},
    }
    if sequence is not None:
        found["sequence"] = sequence
        if any(answer.get("replayed") for answer, _ in answers):
            found["replayed"] = True
    return found
