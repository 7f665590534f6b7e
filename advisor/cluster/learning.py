"""How the front of a fleet learns: rows and events go to shards, and are answered when these have committed."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sized
from typing import Any, cast

import anyio

from advisor.cluster.copies import Copies
from advisor.cluster.fleet import Fleet
from advisor.cluster.lanes import Answer
from advisor.cluster.layout import bucket_of_producer
from advisor.domain.buckets import bucket_of
from advisor.domain.observations import Columns
from advisor.domain.task_events import TaskEvents
from advisor.engine.effects import KINDS, NOTHING
from advisor.engine.events import Event, NetworkDefined, ProfileForgotten, ProgramForgotten, RunObserved
from advisor.engine.exactly_once import Producer
from advisor.engine.flows import name_of
from advisor.errors import AdvisorError, Unavailable, from_dict
from advisor.protocol import verbs as m
from advisor.protocol.rows import columns_of_rows
from advisor.service import questions
from advisor.service.background import LATER
from advisor.service.connection import Connection
from advisor.service.learning import Learning
from advisor.service.worker import network_of

WAITING_ROWS_MAX = 2_000_000  # that are not acknowledged, at some 60 bytes: beyond, who sends waits
OWN_COUNTS = ("batches_replayed", "gaps", "producers_resumed")  # each shard sees all batches, the front once


class ClusterLearning(Learning):
    """Sends what is learned to shards."""

    def begin(self, fleet: Fleet, copies: Copies) -> None:
        """Send it to these."""
        self.fleet, self.copies = fleet, copies
        self.counted: Counter[str] = Counter()
        self.profiled = True  # profiles have changed since somebody looked
        self._defining = anyio.Lock()
        self._applying: set[Producer | None] = set()  # whose event is on its way to a shard
        self._slow: deque[Connection] = deque()  # who waits until less is unacknowledged
        # Batches that came again while they were on their way.
        self._again: dict[Producer, list[tuple[int, Connection, int | None]]] = {}

    # -- rows -------------------------------------------------------------------------------------------------------------

    def take_few(self, connection: Connection, backlog: deque[Any], most: int) -> list[bytes]:
        """Take nothing on the short way: every batch goes to shards."""
        return []

    def fold_singles(self, connection: Connection, rows: list[Any]) -> None:
        """Send the rows of consecutive `observe` notifications together, at most ROWS_BATCH_MAX."""
        if connection.grant is None or not connection.grant.may_write(None):
            self.measures.errors["unauthorized"] += len(rows)
            return
        self._send(connection, None, None, None, columns_of_rows(rows, self._book))

    def _observe(self, connection: Connection, params: m.Observe, msgid: int | None) -> dict[str, Any] | None:
        self._send(connection, msgid, None, None, columns_of_rows([params.row], self._book))
        return LATER

    def _batch(
        self,
        connection: Connection,
        params: m.ObserveRows | m.ObserveColumns,
        msgid: int | None,
        read: Callable[[], Columns],
    ) -> dict[str, Any] | None:
        key: Producer | None = None
        sequence = params.sequence
        if params.producer is not None and sequence is not None:
            key = params.producer, params.incarnation
        if key is None or sequence is None:
            self._refuse_while_storage_fails()
        elif self._known(connection, key, sequence):
            return self._replayed(connection, msgid, key, sequence)
        columns = read()
        if key is not None and sequence is not None:
            self.engine.state.ledger.replays(key, sequence)  # raises where one before it is missing
            self.engine.advance(key, sequence)
        self._send(connection, msgid, key, None if key is None else sequence, columns)
        return LATER

    def _replayed(
        self, connection: Connection, msgid: int | None, key: Producer, sequence: int, more: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any] | None:
        """Answer a number that was taken before, when every shard has it."""
        self.counted["batches_replayed"] += 1
        if sequence <= self.committer.sequence(key):
            return {**more, "sequence": sequence, "replayed": True}
        self._again.setdefault(key, []).append((sequence, connection, msgid))
        return LATER

    def _send(
        self, connection: Connection, msgid: int | None, key: Producer | None, sequence: int | None, columns: Columns
    ) -> None:
        self.sampled.columns(columns)
        began = time.perf_counter()

        def done(answer: Answer) -> None:
            if answer.get("replayed"):
                self.counted["batches_replayed"] += 1
            if "error" in answer and key is not None:  # its number was not taken everywhere: it has to come again
                self.engine.advance(key, self.fleet.durable.get(key, 0))
            if "error" not in answer:
                self.copies.networks_behind.update(columns.networks)
            self.measures.commit_s.add(time.perf_counter() - began)
            self._done(connection, msgid, key, answer)

        self.fleet.send(key, sequence, columns, done)
        if self.fleet.rows_waiting > WAITING_ROWS_MAX:
            connection.wait()
            self._slow.append(connection)

    def _done(self, connection: Connection, msgid: int | None, key: Producer | None, answer: Answer) -> None:
        """Give the answer to a change, and to those who have sent the same again meanwhile."""
        self.count()
        wrong = answer.get("error")
        if msgid is not None:
            connection.answer(msgid, answer if wrong is None else from_dict(wrong))
        if key is not None and key in self._again:
            durable, waiting = self.fleet.durable.get(key, 0), self._again.pop(key)
            for sequence, other, number in waiting:
                if sequence > durable and wrong is None:
                    self._again.setdefault(key, []).append((sequence, other, number))
                elif number is not None:
                    same = {**NOTHING, "sequence": sequence, "replayed": True}
                    other.answer(number, same if wrong is None else from_dict(wrong))
        while self._slow and self.fleet.rows_waiting < WAITING_ROWS_MAX // 2:
            self._slow.popleft().resume()

    # -- runs, and what is changed by hand --------------------------------------------------------------------------------

    def _apply(
        self,
        connection: Connection,
        params: Any,
        msgid: int | None,
        read: Callable[[], Event],
        applied: Event | None = None,
    ) -> dict[str, Any] | None:
        key: Producer | None = None if params.sequence is None else (params.producer, params.incarnation)
        sequence = cast("int | None", params.sequence)
        known = False
        if key is None or sequence is None:
            self._refuse_while_storage_fails()
        else:
            known = self._known(connection, key, sequence)
        event = applied if known and applied is not None else read()
        size = len(event) if isinstance(event, Sized) else 0
        if known and key is not None and sequence is not None:
            return self._replayed(connection, msgid, key, sequence, KINDS[type(event)].again(event))
        if key is not None and sequence is not None:
            self.engine.state.ledger.replays(key, sequence)  # raises where one before it is missing
        if key is not None and key in self._applying:
            raise Unavailable("an event of this producer is on its way to its shard", field="producer", value=key[0])
        if key is not None:
            self._applying.add(key)
        connection.wait()
        self.background.start(self._applied, connection, msgid, key, sequence, event, size)
        return LATER

    async def _applied(
        self, connection: Connection, msgid: int | None, key: Producer | None, sequence: int | None, event: Any, size: int
    ) -> None:  # fmt: skip
        """Have an event happen at the shards that it is for, and answer it."""
        answer: Answer
        try:
            answer = await self._happens(key, sequence, event)
            if key is not None and sequence is not None:
                self.engine.advance(key, sequence)
        except AdvisorError as error:
            answer = {"error": error.as_dict()}
        self._applying.discard(key)
        connection.resume()
        self._done(connection, msgid, key, answer)

    async def _happens(self, key: Producer | None, sequence: int | None, event: Any) -> Answer:
        """Have it happen where what it is about is; raises what is wrong with it."""
        if isinstance(event, TaskEvents):
            self.profiled = True
            return await self.fleet.fold_events(key, sequence, event)
        if isinstance(event, ProfileForgotten):
            self.profiled = True
            return await self.fleet.apply(bucket_of_producer(event.producer), key, sequence, event)
        if isinstance(event, RunObserved):
            run = {name: value for name, value in event.run.items() if value is not None}
            named = run.pop("profile", None)
            if named:
                run = await self.fleet.lane_of_producer(named["producer"]).ask("run_of", named) | run
            event = RunObserved(run)
        name = event.program if isinstance(event, (RunObserved, ProgramForgotten)) else event.component
        answer = await self.fleet.apply(bucket_of(name), key, sequence, event)
        self.copies.forget(name)
        return answer

    def _define_network(
        self, connection: Connection, params: m.DefineNetwork, msgid: int | None
    ) -> dict[str, Any] | None:
        self._refuse_while_storage_fails()
        given: Any = params.nodes if params.text is None else params.text
        return self.background.later("define_network", connection, msgid, self._define, given, params.id)

    async def _define(self, given: Any, network_id: int | str | None) -> dict[str, Any]:
        """Define a network here, where ids are given, and at its shard."""
        network = None if questions.is_small(given) else await self.heavy.run(network_of, given)
        async with self._defining:
            answer = self.engine.apply(None, None, NetworkDefined(given, network_id, network))
            definition = self.engine.advisor.components.flows.definition(answer["id"])
            home = bucket_of(name_of(answer["id"]))
            await self.fleet.apply(home, None, None, NetworkDefined(definition, answer["id"]))
        self.follow()
        return answer

    def follow(self) -> None:
        """Keep the components of defined networks up to date: plans and advice ask for them."""
        flows = self.engine.advisor.components.flows
        self.copies.defined = {
            name for each, kept in flows.kept.items() if kept.definition is not None for name in flows.defined(each).components
        }  # fmt: skip

    def forget_producers(self, keys: list[Producer]) -> None:
        super().forget_producers(keys)
        for key in keys:
            self.fleet.tell("evict", key)

    def count(self) -> None:
        """Let the counters be those of all shards."""
        totals = self.engine.advisor.components.totals
        totals.clear()
        totals.update(self.fleet.totals())
        for name in OWN_COUNTS:
            totals[name] = self.counted[name]
