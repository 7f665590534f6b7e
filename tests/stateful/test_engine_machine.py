"""The engine under any sequence of batches, replays, gaps, forks, forgets, commits, failed commits and crashes.

A commit writes pages, or appends to the journal.

The model of it is a dict of counts. Whatever happens: a row that was answered is counted once; what was committed is what a
restart finds; a restored engine goes on to the same bytes as one that never stopped.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stored import Stored

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.engine import Engine
from advisor.engine.events import ComponentForgotten, ComponentPinned, NetworkDefined
from advisor.engine.frames import read_frames
from advisor.engine.journal import Entry, Limits
from advisor.errors import SequenceGap, TooLarge, UnknownComponent
from advisor.models.learner_layout import LearnerTable

NAMES = [f"c{i}" for i in range(70)]  # two pages
PRODUCERS = [("one", bytes(16)), ("one", bytes([1] * 16)), ("two", bytes(16))]
COMPONENTS_MAX, PRODUCERS_MAX = 68, 2
MEMORY = 5 * LearnerTable(2).words_a_record * 8  # five components have a learner

ROW = st.tuples(
    st.integers(0, len(NAMES) - 1) | st.sampled_from([0, 1, 66]),
    st.sampled_from([0.0, 1.0, 50.0, 3e6, 1e9, -1.0]),
    st.sampled_from([1.0, 2.0, 8.0, 0.0]),
    st.floats(1e-6, 10.0) | st.sampled_from([float("nan")]),
    st.booleans(),
)
BOX = {"kind": "box", "name": "c0"}
NETWORKS: list[list[dict[str, Any]]] = [
    [BOX],
    [BOX, {"kind": "replication", "children": [0], "patterns": ["{x}"]}],
    [BOX, {"kind": "box", "name": "c66"}, {"kind": "choice", "children": [0, 1]}],
]
ROWS = st.lists(ROW, min_size=0, max_size=25)


def as_columns(rows: list[tuple[int, float, float, float, bool]]) -> Columns:
    index, x, p, t, ok = (np.array(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    n = len(rows)
    travel = {
        "network": [None if i % 3 == 2 else f"n{row[0] % 2}" for i, row in enumerate(rows)],
        "entered": np.arange(n) % 4 == 0, "active_cores": np.where(np.arange(n) % 5 == 0, np.nan, 9.0),
    }  # fmt: skip
    return columns_of(ComponentNames(NAMES), index, x, p, t, ok=ok if rows else None, **(travel if rows else {}))


def words_of(state: bytes) -> bytes:
    """Return the blocks of a state behind the first, which has the totals."""
    return b"".join([frame.data or b"" for frame in read_frames(state)][1:])


class EngineMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.engine = Engine(components_max=COMPONENTS_MAX, producers_max=PRODUCERS_MAX, model_memory_bytes=MEMORY)
        self.engine.journal.keep()
        self.storage = Stored()
        self.counted: Counter[tuple[str, str]] = Counter()  # (component, rows | failed)
        self.accepted = self.refused = self.sent = self.replayed = self.gaps = 0
        self.applied: dict[tuple[str, bytes], int] = {}
        self.sent_batches: dict[tuple[tuple[str, bytes], int], list[Any]] = {}
        self.durable: dict[str, Any] = self.state()

    def state(self) -> dict[str, Any]:
        return {
            "counted": self.counted.copy(), "applied": dict(self.applied), "bytes": self.engine.advisor.to_bytes(),
            "sums": (self.accepted, self.refused, self.sent, self.replayed, self.gaps),
        }  # fmt: skip

    @property
    def limits(self) -> Limits:
        return Limits(COMPONENTS_MAX, MEMORY)

    def room_for(self, key: tuple[str, bytes]) -> bool:
        return key in self.applied or len(self.applied) < PRODUCERS_MAX

    def fold(self, rows: list[Any], receipt: Any) -> None:
        """Do to the model what the engine should have done."""
        accepted = 0
        known = {name for name, _ in self.counted}
        valid = [r for r in rows if r[1] >= 0 and r[2] > 0 and r[3] == r[3]]
        for component, _, _, _, ok in valid:
            name = NAMES[component]
            if name not in known and len(known) >= COMPONENTS_MAX:
                continue
            known.add(name)
            self.counted[name, "rows" if ok else "failed"] += 1
            accepted += 1
        assert receipt["accepted"] == accepted
        assert receipt["accepted"] + receipt["refused"]["count"] == len(rows)
        self.accepted += accepted
        self.refused += len(rows) - accepted
        self.sent += len(rows)

    # -- events -----------------------------------------------------------------------------------------------------------

    @rule(rows=ROWS)
    def observe(self, rows: list[Any]) -> None:
        self.fold(rows, self.engine.apply_event(None, None, as_columns(rows)))

    @rule(key=st.sampled_from(PRODUCERS), rows=ROWS)
    def next_batch(self, key: tuple[str, bytes], rows: list[Any]) -> None:
        number = self.applied.get(key, 0) + 1
        if not self.room_for(key):
            with pytest.raises(TooLarge):
                self.engine.apply_event(key, number, as_columns(rows))
            return
        receipt = self.engine.apply_event(key, number, as_columns(rows))
        assert (receipt["sequence"], "replayed" in receipt) == (number, False)
        self.fold(rows, receipt)
        self.applied[key] = number
        self.sent_batches[key, number] = rows

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.applied)))
        number = data.draw(st.integers(0, self.applied[key]))
        rows = self.sent_batches.get((key, number), [])
        receipt = self.engine.apply_event(key, number, as_columns(rows))
        assert (receipt["accepted"], receipt["refused"]["count"], receipt["replayed"]) == (0, 0, True)
        self.replayed += 1

    @rule(key=st.sampled_from(PRODUCERS), ahead=st.integers(2, 2**40))
    def gap(self, key: tuple[str, bytes], ahead: int) -> None:
        if not self.room_for(key):
            return
        expected = self.applied.get(key, 0) + 1
        with pytest.raises(SequenceGap) as caught:
            self.engine.apply_event(key, expected - 1 + ahead, as_columns([(0, 1.0, 1.0, 1.0, True)]))
        assert caught.value.bound == expected
        self.gaps += 1

    @rule(key=st.sampled_from(PRODUCERS), component=st.sampled_from(NAMES[:3]))
    def forget(self, key: tuple[str, bytes], component: str) -> None:
        if not self.room_for(key):
            return
        number = self.applied.get(key, 0) + 1
        if component not in {name for name, _ in self.counted}:
            with pytest.raises(UnknownComponent):
                self.engine.apply_event(key, number, ComponentForgotten(component))
            return  # the number is not consumed
        answer = self.engine.apply_event(key, number, ComponentForgotten(component))
        assert answer["rows"] == self.counted[component, "rows"]
        self.applied[key] = number
        before = self.engine.advisor.to_bytes()
        assert self.engine.apply_event(key, number, ComponentForgotten(component))["replayed"]
        self.replayed += 1
        assert words_of(self.engine.advisor.to_bytes()) == words_of(before), "a replayed forget forgets nothing more"

    @rule(number=st.integers(0, 1), nodes=st.sampled_from(NETWORKS))
    def define(self, number: int, nodes: list[dict[str, Any]]) -> None:
        answer = self.engine.apply_event(None, None, NetworkDefined(nodes, f"n{number}"))
        state = self.engine.advisor.to_bytes()
        assert self.engine.apply_event(None, None, NetworkDefined(nodes, f"n{number}")) == answer
        assert self.engine.advisor.to_bytes() == state

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.applied)))
        for gone in (key, ("never", bytes(16))):
            self.engine.ledger.remove_record(gone)
        del self.applied[key]
        self.sent_batches = {k: v for k, v in self.sent_batches.items() if k[0] != key}

    # -- commits ----------------------------------------------------------------------------------------------------------

    @rule(rows=ROWS)
    def commit(self, rows: list[Any]) -> None:
        snapshot, state = self.engine.take_image(), self.state()
        self.observe(rows)  # what comes while the commit is in flight belongs to the next one
        self.storage.commit(snapshot)
        self.durable = state

    @rule(rows=ROWS)
    def commit_to_the_journal(self, rows: list[Any]) -> None:
        state, entry = self.state(), self.engine.take_entry()
        if entry is None:  # something changed that the journal does not hold
            self.commit(rows)
            return
        self.observe(rows)
        if not entry.empty:
            self.storage.append(entry)
            self.durable = state

    @rule(rows=ROWS)
    def commit_to_the_journal_that_fails(self, rows: list[Any]) -> None:
        entry = self.engine.take_entry()
        self.observe(rows)
        if entry is not None and not entry.empty:
            self.engine.journal.put_back(entry)

    @rule(component=st.sampled_from(NAMES[:3]))
    def pin(self, component: str) -> None:
        if component in {name for name, _ in self.counted}:
            with suppress(TooLarge):  # no room for its record
                self.engine.apply_event(None, None, ComponentPinned(component, "two_step"))

    @rule(rows=ROWS)
    def commit_that_fails(self, rows: list[Any]) -> None:
        snapshot = self.engine.take_image()
        self.observe(rows)
        assert snapshot
        self.engine.journal.beyond = True

    @rule()
    def crash(self) -> None:
        self.engine = Engine.restore(
            self.storage.stored(), components_max=COMPONENTS_MAX, producers_max=PRODUCERS_MAX,
            model_memory_bytes=MEMORY,
        )  # fmt: skip
        self.counted, self.applied = self.durable["counted"].copy(), dict(self.durable["applied"])
        self.accepted, self.refused, self.sent, self.replayed, self.gaps = self.durable["sums"]
        self.sent_batches = {k: v for k, v in self.sent_batches.items() if k[1] <= self.applied.get(k[0], 0)}
        assert self.engine.advisor.to_bytes() == self.durable["bytes"]
        self.engine.journal.keep()
        assert self.engine.take_entry() == Entry(self.limits)

    # -- laws ---------------------------------------------------------------------------------------------------------------

    @invariant()
    def every_row_counts_once(self) -> None:
        components = self.engine.advisor.components
        for slot, name in enumerate(components.slots.names):
            assert components.table.int_field("rows")[slot] == self.counted[name, "rows"]
            assert components.table.int_field("failed")[slot] == self.counted[name, "failed"]
        assert set(components.slots.names) == {name for name, _ in self.counted}

    @invariant()
    def totals_add_up(self) -> None:
        totals = self.engine.totals
        assert totals["rows_accepted"] == self.accepted == sum(self.counted.values())
        assert totals["rows_refused"] == self.refused
        assert self.accepted + self.refused == self.sent
        assert sum(n for key, n in totals.items() if key.startswith("refused.")) == self.refused
        assert (totals["batches_replayed"], totals["gaps"]) == (self.replayed, self.gaps)

    @invariant()
    def numbers_are_those_applied(self) -> None:
        assert self.engine.producers == self.applied
        for key in PRODUCERS:
            assert self.engine.applied(*key) == self.applied.get(key, 0)


EngineMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestEngineMachine = EngineMachine.TestCase
