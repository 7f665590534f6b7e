"""What rows tell of the way of records through one network: counts, in constant space.

Three things are learned, each from what tells it without bias:

- *Runs* that ended well of each key (a box name, or ``name#k``), and records that entered, from every row whose network and
  component read, learned or refused: integers, so the order of rows does not matter. Visits are their ratio.
- *Passes*: how often a record passes a counted place (a replication, or a key where no network is defined). Records are
  chosen by a hash of the network and the record, so that a choice depends on nothing that a record does. A chosen record is
  open from the row with which it enters; at most `OPEN_MAX` are. They close in the order in which they came, the oldest when
  a newer one needs its place and no row of it came for some time; else fewer are chosen. So exactly the records up to some
  point have been counted, long and short ones alike.
- *Replicas* of splits: see `flow_replicas`.

Counts halve when `WINDOW_RECORDS` entered, so that answers are of the recent past. Merge: counts and replicas exact, passes
of closed records exact; the other side's open records are left out (no choice of theirs depends on what they do).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np

from advisor.domain.observations import Columns, ComponentNames
from advisor.domain.vectors import ABSENT_U64, NONE_NAMED, Bools, Ints
from advisor.models.flow_replicas import Replicas, mixed

# KEYS_MAX: of a network: 40 bytes each; further ones are counted together, and shares that need them are not known
KEYS_MAX = 4_096
COUNTERS_MAX = 32  # places whose passes are counted a record
OPEN_MAX = 512  # chosen records open at a time
STILL = OPEN_MAX // 2  # chosen records that entered since a record's last row, from which on it is taken to have left
DEPTH_MAX = 1_023  # passes kept apart; more count as so many
WINDOW_RECORDS = 2**16  # counts halve at so many entered rows: a share is known to 0.4 % then
WINDOW_CLOSED = (
    2**13
)  # the same of passes, by closed records; then half as many are chosen: their rows cost 1 microsecond each
PRICE_LEVEL_MAX = 6  # down to one record in 64
LEVEL_MAX = 16  # one record in 65,536

# Fields of a key, each a column of int64.
KEY_FIELDS = ("runs", "replica_runs")
NO_KEY = -2  # in the cache: a name whose number was not asked for yet
WINDOWED = ("entered", "entered_rows", "entered_chosen", "entered_again", "keyless")
PASSES = ("closed", "closed_weight")
EXACT = ("rows", "records", "chosen", "level", *PASSES)


class Open:
    """A chosen record that may still run."""

    __slots__ = ("last", "passes", "weight")

    def __init__(self, weight: int, last: int, passes: Sequence[tuple[int, int]] = ()) -> None:
        self.weight = weight  # records that it stands for
        self.last = last  # how many records were chosen until its last row
        self.passes: dict[int, int] = {counter: n for counter, n in passes}  # noqa: C416 - pairs of JSON are lists


class FlowCounts:
    """Counts of one network, `name`.

    `places` has the keys whose runs are the passes of each counted place; None counts each key by itself, as they come.
    """

    def __init__(self, name: str, places: Sequence[Sequence[str]] | None = None) -> None:
        self.name = name
        self.salt = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")
        self.keys: list[str] = []
        self.key_of: dict[str, int] = {}
        self.counts: dict[str, Ints] = {field: np.zeros(0, np.int64) for field in KEY_FIELDS}
        self.entered_square = 0.0
        self.n: dict[str, int] = dict.fromkeys((*WINDOWED, *EXACT), 0)
        self.replicas = Replicas()
        self.open: dict[int, Open] = {}
        self._cached: ComponentNames | None = None  # the last list of names that rows counted in, and its keys' numbers
        self._cache: Ints = np.zeros(0, np.int64)
        self.define(places)

    def define(self, places: Sequence[Sequence[str]] | None) -> None:
        """Count the passes of these places from now on; what was counted of passes is dropped."""
        self.places = None if places is None else [list(keys) for keys in places[:COUNTERS_MAX]]
        self._place_of = {} if self.places is None else {key: i for i, ks in enumerate(self.places) for key in ks}
        self._counter: list[int] = [self._counter_of(i) for i in range(len(self.keys))]
        self.open.clear()
        self._drop_passes()

    def _counter_of(self, number: int) -> int:
        if self.places is None:
            return number if number < COUNTERS_MAX else NONE_NAMED
        return self._place_of.get(self.keys[number], NONE_NAMED)

    def _drop_passes(self) -> None:
        self.passes: dict[int, dict[int, int]] = {}  # counter -> passes, from 1 -> records
        for field in PASSES:
            self.n[field] = 0

    # -- learning ---------------------------------------------------------------------------------------------------------

    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of keys, giving new ones theirs in order; -1 where there is no room."""
        for name in names:
            if name not in self.key_of and len(self.keys) < KEYS_MAX:
                self.key_of[name] = len(self.keys)
                self.keys.append(name)
                self._counter.append(self._counter_of(len(self.keys) - 1))
        room = len(self.counts["runs"])
        if len(self.keys) > room:
            more = np.zeros(max(len(self.keys) - room, room // 8), np.int64)
            self.counts = {field: np.append(column, more) for field, column in self.counts.items()}
        return [self.key_of.get(name, NONE_NAMED) for name in names]

    def cache(self, names: ComponentNames) -> Ints:
        """Return the numbers of the keys of a list of names, NO_KEY where not looked up yet: to be filled by the caller."""
        if self._cached is not names:
            self._cached, self._cache = names, np.full(len(names), NO_KEY, np.int64)
        elif len(self._cache) < len(names):
            self._cache = np.append(self._cache, np.full(len(names) - len(self._cache), NO_KEY, np.int64))
        return self._cache

    def count_rows(self, rows: Columns, key: Ints) -> None:
        """Count n rows, in order, of keys (n,). Cost O(n), and about 1 microsecond a row of a chosen record."""
        start, n = 0, len(key)
        ended = np.ones(n, np.bool_) if rows.ok is None else rows.ok
        entered = np.zeros(n, np.bool_) if rows.entered is None else rows.entered
        while start < n:
            entries = np.flatnonzero(entered[start:])
            room = WINDOW_RECORDS - self.n["entered_rows"]
            part = slice(start, n if len(entries) < room else start + int(entries[room - 1]) + 1)
            self._fold(rows if part == slice(0, n) else rows.select_rows(part), key[part], ended[part], entered[part])
            start = part.stop
            if self.n["entered_rows"] >= WINDOW_RECORDS:
                self._halve()

    def _fold(self, rows: Columns, key: Ints, ended: Bools, entered: Bools) -> None:
        runs = np.ones(len(key), np.int64) if rows.count is None else rows.count
        known = key >= 0
        self.n["keyless"] += int(runs[~known].sum())
        known &= ended
        np.add.at(self.counts["runs"], key[known], runs[known])
        if entered.any():
            of = runs[entered]
            self.n["entered"] += int(of.sum())
            self.n["entered_rows"] += len(of)
            self.n["records"] += int(of.sum())
            # one by one, as single rows would come
            self.entered_square = float(np.add.accumulate([self.entered_square, *(of.astype(np.float64) ** 2)])[-1])
        if rows.replica is not None:
            named = np.flatnonzero(known & (rows.replica != np.uint64(ABSENT_U64)))
            if len(named):
                np.add.at(self.counts["replica_runs"], key[named], runs[named])
                self.replicas.count_replicas(key[named], rows.replica[named], runs[named])
        if rows.record is not None:
            hashes = mixed(rows.record, self.salt)
            chosen = (hashes & np.uint64(self.mask) == 0) & (rows.record != np.uint64(ABSENT_U64)) & (ended | entered)
            columns = (column[chosen].tolist() for column in (hashes, rows.record, key, runs, entered, ended))
            for h, *row in zip(*columns, strict=True):
                self._meet(h, *row)
        self.n["rows"] += len(key)

    @property
    def mask(self) -> int:
        """Bits of a record's hash that must be 0 for it to be chosen."""
        return (1 << self.n["level"]) - 1

    def _meet(self, h: int, record: int, key: int, count: int, entered: bool, ended: bool) -> None:
        if entered and record not in self.open and not h & self.mask and len(self.open) >= OPEN_MAX:
            self._make_room()
        if h & self.mask or not (entered or record in self.open):
            return
        if entered:
            self.n["entered_chosen"] += count
            self.n["entered_again"] += count if record in self.open else 0
        if record not in self.open:
            self.n["chosen"] += 1
            self.open[record] = Open(count, 0)
        one = self.open[record]
        one.last = self.n["chosen"]
        if ended and key >= 0 and (counter := self._counter[key]) >= 0:
            one.passes[counter] = one.passes.get(counter, 0) + 1

    def _make_room(self) -> None:
        """Close the oldest open record where it has left, else choose half as many."""
        oldest, one = next(iter(self.open.items()))
        if self.n["chosen"] - one.last < STILL and self.n["level"] < LEVEL_MAX:
            self._choose_fewer()
            return
        del self.open[oldest]
        _count(self.passes, one)
        self.n["closed"] += 1
        self.n["closed_weight"] += one.weight
        if self.n["closed"] >= WINDOW_CLOSED:
            self._halve_passes()
            if self.n["level"] < PRICE_LEVEL_MAX:
                self._choose_fewer()

    def _choose_fewer(self) -> None:
        self.n["level"] += 1
        self._stay_chosen()

    def _stay_chosen(self) -> None:
        """Leave out the open records that are no longer chosen."""
        hashes = mixed(np.array(list(self.open), np.uint64), self.salt)
        stay = (hashes & np.uint64(self.mask) == 0).tolist()
        self.open = {record: one for (record, one), kept in zip(self.open.items(), stay, strict=True) if kept}

    # -- ageing -----------------------------------------------------------------------------------------------------------

    def _halve(self) -> None:
        for field in KEY_FIELDS:
            self.counts[field] >>= 1
        self.entered_square *= 0.5
        for field in WINDOWED:
            self.n[field] >>= 1
        self.replicas.halve()

    def _halve_passes(self) -> None:
        for field in PASSES:
            self.n[field] >>= 1
        for known in self.passes.values():
            for depth in known:
                known[depth] >>= 1

    # -- what was learned -------------------------------------------------------------------------------------------------

    @property
    def entering(self) -> float:
        """Records that entered, without those that were said to enter twice."""
        chosen, again = self.n["entered_chosen"], self.n["entered_again"]
        return self.n["entered"] * (1.0 - again / chosen if chosen else 1.0)

    @property
    def evidence(self) -> float:
        """Independent records that `entering` rests on: (sum of count)**2 / sum of count**2."""
        return self.n["entered"] ** 2 / self.entered_square if self.entered_square else 0.0

    def visited(self) -> dict[str, int]:
        """Return the visits of each key: runs that ended well."""
        return dict(zip(self.keys, self.counts["runs"].tolist(), strict=False))

    def passed(self) -> tuple[dict[int, dict[int, int]], int]:
        """Return counter -> passes, from 1 -> records; and the records that these are of, with those that passed none.

        Of the open records the oldest three in four count too: the rest came after them, so that they hardly run any more.
        """
        found = {counter: dict(known) for counter, known in self.passes.items()}
        total = self.n["closed_weight"]
        for one in islice(self.open.values(), len(self.open) - len(self.open) // 4):
            _count(found, one)
            total += one.weight
        return found, total

    def fan_out(self, keys: Sequence[str]) -> list[float] | None:
        """Return the share of records of each replica of some keys, heaviest first; None where no row named one."""
        reported = [number for key in keys if (number := self.key_of.get(key)) in self.replicas.runs]
        return self.replicas.shares(reported, sum(int(self.counts["replica_runs"][number]) for number in reported))

    # -- merge --------------------------------------------------------------------------------------------------

    def merge(self, other: FlowCounts) -> None:
        """Add another's counts of the same network."""
        mine = np.array(self.numbers_of(other.keys), np.int64)
        there = np.flatnonzero(mine >= 0)
        for field, column in self.counts.items():
            column[mine[there]] += other.counts[field][there]
        self.entered_square += other.entered_square
        for field in (*WINDOWED, "rows", "records"):
            self.n[field] += other.n[field]
        self.n["level"] = max(self.n["level"], other.n["level"])
        self._stay_chosen()
        if self.places == other.places:
            for field in PASSES:
                self.n[field] += other.n[field]
            for counter, records in other.passes.items():  # of a place, or where none are defined, of a key
                here = counter if self.places is not None else int(mine[counter])
                if 0 <= here < COUNTERS_MAX:
                    known = self.passes.setdefault(here, {})
                    for depth, n in records.items():
                        known[depth] = known.get(depth, 0) + n
        self.replicas.merge(other.replicas, mine)
        while self.n["entered_rows"] >= WINDOW_RECORDS:
            self._halve()

    # -- as plain values --------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return the state as JSON has it; equal states give equal values. Cost O(keys + open records)."""
        k = len(self.keys)
        return {
            "places": self.places, "keys": self.keys, "n": self.n, "entered_square": self.entered_square.hex(),
            "counts": {field: column[:k].tolist() for field, column in self.counts.items()},
            "passes": [[c, sorted(known.items())] for c, known in sorted(self.passes.items())],
            "replicas": [[key, sorted(known.items())] for key, known in sorted(self.replicas.runs.items())],
            "open": [[record, [one.weight, one.last, sorted(one.passes.items())]] for record, one in self.open.items()],
        }  # fmt: skip

    @classmethod
    def of_plain(cls, name: str, state: Mapping[str, Any]) -> FlowCounts:
        """Return the counts of network `name` whose `plain` is given; ValueError, KeyError, TypeError where it is none."""
        found = cls(name, state["places"])
        found.numbers_of(state["keys"])
        for field, column in found.counts.items():
            column[: len(found.keys)] = np.array(state["counts"][field], np.int64)
        found.entered_square = float.fromhex(state["entered_square"])
        found.n = {field: int(state["n"][field]) for field in found.n}
        found.passes = {c: dict(map(tuple, known)) for c, known in state["passes"]}
        found.replicas.runs = {key: dict(map(tuple, known)) for key, known in state["replicas"]}
        found.open = {record: Open(*one) for record, one in state["open"]}
        return found


def _count(passes: dict[int, dict[int, int]], one: Open) -> None:
    for counter, n in one.passes.items():
        known = passes.setdefault(counter, {})
        depth = min(n, DEPTH_MAX)
        known[depth] = known.get(depth, 0) + one.weight
