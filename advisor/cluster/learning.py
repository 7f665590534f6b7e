"""How the front takes rows and events in: they go to shards, and are answered when these have committed."""

from __future__ import annotations

import time
from collections import Counter, deque
from functools import partial
from typing import Any

import anyio

from advisor.cluster.connections import Answer
from advisor.cluster.replicas import ComponentReplicas
from advisor.cluster.routing import subject_of
from advisor.cluster.shard_set import ShardSet
from advisor.domain.observations import Columns
from advisor.engine.effects import answer_again
from advisor.engine.events import NetworkDefined
from advisor.engine.exactly_once import Producer
from advisor.errors import Unsupported, from_dict
from advisor.protocol import verbs as m
from advisor.protocol.rows import NameBook, columns_of_rows
from advisor.service import questions
from advisor.service.background import Handler
from advisor.service.committer import Durability
from advisor.service.connection import Connection
from advisor.service.hub import Hub
from advisor.service.learning import Change, ChangeAdmission, changes
from advisor.service.worker import network_of

WAITING_ROWS_MAX = 2_000_000  # that are not acknowledged, at some 60 bytes: beyond, who sends waits
OWN_COUNTS = ("batches_replayed", "gaps")  # each shard sees all batches, the front once


def refuse_profiles(*_: object) -> None:
    """Refuse what needs a profile; raises Unsupported."""
    raise Unsupported(
        "a service with shards keeps no profiles of runs", field="method", value="task_events",
        hint="send task events to a service of one process",
    )  # fmt: skip


class RoutedLearning:
    """Sends what is learned to shards; as `advisor.service.learning.Learning`."""

    def __init__(self, hub: Hub, committer: Durability, shards: ShardSet, replicas: ComponentReplicas) -> None:
        self._hub, self._engine, self._shards, self._replicas = hub, hub.engine, shards, replicas
        self.admission = ChangeAdmission(hub.engine, committer, hub.producers, hub.background)
        self._committer = committer
        self.counted = Counter[str]()
        self._book = NameBook()
        self._defining = anyio.Lock()
        self._slow = deque[Connection]()  # which wait until less is unacknowledged
        self.verbs: dict[str, Handler] = {
            "observe": lambda c, params, msgid: self._send(
                c, msgid, None, None, columns_of_rows([params.row], self._book)
            ),
            "define_network": self._define_network,
            **{verb: partial(self._apply, change) for verb, change in changes(self._book).items()},
        }

    # -- rows -------------------------------------------------------------------------------------------------------------

    def learn_plain_batches(self, connection: Connection, backlog: deque[Any], most: int) -> tuple[int, list[bytes]]:
        """Take nothing on the short way: every batch goes to shards."""
        return 0, []

    def fold_singles(self, connection: Connection, rows: list[Any]) -> None:
        """Send the rows of consecutive `observe` notifications together, at most ROWS_BATCH_MAX."""
        if connection.grant is None or not connection.grant.may_write(None):
            self._hub.measures.errors["unauthorized"] += len(rows)
            return
        self._send(connection, None, None, None, columns_of_rows(rows, self._book))

    def _send(
        self, connection: Connection, msgid: int | None, key: Producer | None, sequence: int | None, event: Any
    ) -> None:
        """Send rows to their shards, another event to the one that it is about; the answer comes when these have committed."""
        began = time.perf_counter()
        subject = None if isinstance(event, Columns) else subject_of(event)

        def done(answer: Answer) -> None:
            if answer.get("replayed"):
                self.counted["batches_replayed"] += 1
            if "error" in answer and key is not None:  # its number was not taken everywhere: it has to come again
                self._engine.ledger.set_record(key, self._shards.durable.get(key, 0))
            elif subject is not None:
                self._replicas.forget(subject)
            else:
                self._replicas.networks_behind.update(event.networks)
            self._hub.measures.commit_s.count_value(time.perf_counter() - began)
            if subject is not None:
                connection.resume_reading()
            error = answer.get("error")
            if msgid is not None:
                connection.answer(msgid, answer if error is None else from_dict(error))
            while self._slow and self._committer.rows_waiting < WAITING_ROWS_MAX // 2:
                self._slow.popleft().resume_reading()

        if subject is not None:
            connection.pause_reading()  # what comes next may be a question about it
        self._shards.send(key, sequence, event, done)
        if self._committer.rows_waiting > WAITING_ROWS_MAX:
            connection.pause_reading()
            self._slow.append(connection)

    # -- runs, and what is changed by hand --------------------------------------------------------------------------------

    def _apply(self, change: Change, connection: Connection, params: m.NumberedVerb, msgid: int | None) -> Any:
        """Send a change to its shards: exactly once where it is numbered, else at most once."""
        (read, again), numbered = change, self.admission.number_of(params)
        if getattr(params, "profile", None) is not None:
            refuse_profiles()
        if numbered is None:
            return self._send(connection, msgid, None, None, read(connection, params))
        key, sequence = numbered
        known = self.admission.replays(connection, key, sequence)
        if known and sequence <= self._committer.sequence(key):
            self.counted["batches_replayed"] += 1
            event = read(connection, params) if again is None else again
            return answer_again(event, sequence)
        event = read(connection, params)
        if not known:  # what came again is completed where it is missing
            self._engine.ledger.replays(key, sequence)  # raises where one before it is missing
            self._engine.ledger.set_record(key, sequence)
        return self._send(connection, msgid, key, sequence, event)

    def _define_network(self, _: Connection, params: m.DefineNetwork, __: int | None) -> Any:
        self.admission.refuse_while_storage_fails()
        given: Any = params.nodes if params.text is None else params.text
        return partial(self._define, given, params.id)

    async def _define(self, given: Any, network_id: int | str) -> dict[str, Any]:
        """Define a network here, and at its shard."""
        network = None if questions.is_small(given) else await self._hub.heavy.run(network_of, given)
        async with self._defining:
            answer = self._engine.apply_event(None, None, NetworkDefined(given, network_id, network))
            definition = self._engine.advisor.components.flows.definition(answer["id"])
            await self._shards.apply(NetworkDefined(definition, answer["id"]))
        return answer

    def sum_counters(self) -> None:
        """Let the counters be those of all shards."""
        totals = self._engine.advisor.components.totals
        totals.clear()
        totals.update(self._shards.totals())
        for name in OWN_COUNTS:
            totals[name] = self.counted[name]
