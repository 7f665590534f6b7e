"""What rows tell of the way of records through one network: counts, in constant space.

Counted are runs that ended well of each key (a box name, or ``name#k``), records that entered, and runs of each replica of a
split, from every row whose network and component read, learned or refused. All are integers: their order does not matter, and
merges are exact. Visits are runs over entered records. Counts halve when `WINDOW_RECORDS` entered, so that answers are of the
recent past.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from advisor.domain.observations import Columns
from advisor.domain.rows import ABSENT_U64
from advisor.domain.vectors import Bools, Ints, Words

KEYS_MAX = 4_096  # of a network; further ones are counted together, and shares that need them are not known
REPLICAS_MAX = 4_096  # of all splits of a network, the first ones that come; runs of further ones are in no fan-out
FAN_OUT_MAX = 1_024  # replicas that a fan-out lists
WINDOW_RECORDS = 2**16  # counts halve at so many entered rows: a share is known to 0.4 % then
WINDOWED = ("entered", "entered_rows", "keyless")
EXACT = ("rows", "records")


class FlowCounts:
    """Counts of one network."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self.replicas: dict[tuple[str, int], int] = {}  # runs by key and replica
        self.n: dict[str, int] = dict.fromkeys((*WINDOWED, *EXACT), 0)

    def count_rows(self, rows: Columns) -> None:
        """Count rows in their order. Cost O(n log n)."""
        start, n = 0, len(rows)
        entered = np.zeros(n, np.bool_) if rows.entered is None else rows.entered
        while start < n:
            entries = np.flatnonzero(entered[start:])
            room = WINDOW_RECORDS - self.n["entered_rows"]
            part = slice(start, n if len(entries) < room else start + int(entries[room - 1]) + 1)
            self._fold(rows if part == slice(0, n) else rows.select_rows(part), entered[part])
            start = part.stop
            if self.n["entered_rows"] >= WINDOW_RECORDS:
                self._halve()

    def _fold(self, rows: Columns, entered: Bools) -> None:
        runs = np.ones(len(rows), np.int64) if rows.count is None else rows.count
        ended = np.ones(len(rows), np.bool_) if rows.ok is None else rows.ok
        names, coming = rows.components.names, runs[entered].tolist()
        for number, _, total in _summed(runs[ended], rows.index[ended]):
            self._add_runs(names[number], total)
        if rows.replica is not None:
            named = ended & (rows.replica != np.uint64(ABSENT_U64))
            for number, replica, total in _summed(runs[named], rows.index[named], rows.replica[named]):
                self._add_replica((names[number], replica), total)
        for field, value in (("entered", sum(coming)), ("records", sum(coming)), ("entered_rows", len(coming)),
                             ("rows", len(rows))):  # fmt: skip
            self.n[field] += value

    def _add_runs(self, key: str, runs: int) -> None:
        if key in self.runs or len(self.runs) < KEYS_MAX:
            self.runs[key] = self.runs.get(key, 0) + runs
        else:
            self.n["keyless"] += runs

    def _add_replica(self, replica: tuple[str, int], runs: int) -> None:
        if replica in self.replicas or len(self.replicas) < REPLICAS_MAX:
            self.replicas[replica] = self.replicas.get(replica, 0) + runs

    def _halve(self) -> None:
        self.runs = {key: runs >> 1 for key, runs in self.runs.items()}
        self.replicas = {replica: runs >> 1 for replica, runs in self.replicas.items() if runs > 1}
        for field in WINDOWED:
            self.n[field] >>= 1

    def fan_out(self, keys: Sequence[str]) -> list[float] | None:
        """Return the share of records of each replica of some keys, heaviest first; None where no row named one."""
        runs: dict[int, int] = {}
        for (key, replica), n in self.replicas.items():
            if key in keys:
                runs[replica] = runs.get(replica, 0) + n
        known = sorted(runs.values(), reverse=True)[:FAN_OUT_MAX]
        return [n / sum(known) for n in known] or None

    def merge(self, other: FlowCounts) -> None:
        """Add another's counts of the same network."""
        for key, runs in other.runs.items():
            self._add_runs(key, runs)
        for replica, runs in other.replicas.items():
            self._add_replica(replica, runs)
        for field, n in other.n.items():
            self.n[field] += n
        while self.n["entered_rows"] >= WINDOW_RECORDS:
            self._halve()

    def plain(self) -> dict[str, Any]:
        """Return the state as JSON has it; equal states give equal values. Cost O(keys log keys)."""
        replicas = [[*replica, n] for replica, n in sorted(self.replicas.items())]
        return {"n": self.n, "runs": dict(sorted(self.runs.items())), "replicas": replicas}

    @classmethod
    def of_plain(cls, state: Mapping[str, Any]) -> FlowCounts:
        """Return the counts whose `plain` is given; ValueError, KeyError, TypeError where it is none."""
        found = cls()
        found.n = {field: int(state["n"][field]) for field in found.n}
        found.runs = {key: int(runs) for key, runs in state["runs"].items()}
        found.replicas = {(str(key), int(replica)): int(n) for key, replica, n in state["replicas"]}
        return found


def _summed(runs: Ints, number: Ints, replica: Words | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield each different number and replica of some rows, in the order of their first one, and their runs."""
    some, inverse = np.unique(number, return_inverse=True)
    replicas = np.zeros(len(some), np.uint64)
    if replica is not None:
        values, other = np.unique(replica, return_inverse=True)
        pairs, inverse = np.unique(inverse * len(values) + other, return_inverse=True)
        some, replicas = some[pairs // len(values)], values[pairs % len(values)]
    total, first = np.zeros((2, len(some)), np.int64)
    np.add.at(total, inverse, runs)
    first[inverse[::-1]] = np.arange(len(runs))[::-1]
    for at in np.argsort(first).tolist():
        yield int(some[at]), int(replicas[at]), int(total[at])
