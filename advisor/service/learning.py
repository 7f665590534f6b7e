"""The verbs by which a service learns: what they bring is numbered, folded once, and answered when it is durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from advisor.domain.limits import ROWS_BATCH_MAX
from advisor.domain.observations import ComponentNames, columns_of
from advisor.domain.task_events import NO_EVENTS
from advisor.engine import Engine
from advisor.engine.events import (
    AllowedSet,
    ComponentForgotten,
    ComponentPinned,
    Event,
    NetworkDefined,
    ProgramForgotten,
    RunObserved,
)
from advisor.errors import Unauthorized, Unavailable, from_dict
from advisor.protocol import verbs as m
from advisor.protocol.columns import columns_of_bins
from advisor.protocol.connection import RpcRequest, encode_response, plain_batch
from advisor.protocol.rows import NameBook, columns_of_rows
from advisor.protocol.task_events import events_of_params
from advisor.service.background import LATER, Background, Handler
from advisor.service.committer import Committer, Durability
from advisor.service.connection import Connection
from advisor.service.heavy import Heavy
from advisor.service.measures import ServiceMeasures
from advisor.service.producers import Key, Producers
from advisor.service.questions import is_small
from advisor.service.worker import network_of

EMPTY = columns_of(ComponentNames(), [], [], [], [])
NONE_REFUSED: dict[str, Any] = {"count": 0, "by_code": {}, "first": []}


@dataclass(eq=False)
class ChangeAdmission:
    """Looks at each change before it is applied: numbered ones once, from the connection that speaks for their producer."""

    engine: Engine  # whose ledger has the numbers applied
    committer: Durability
    producers: Producers
    background: Background

    def number_of(self, params: m.NumberedVerb) -> tuple[Key, int] | None:
        """Return producer and number of a change; one without is refused while the storage fails."""
        if params.producer is None or params.sequence is None:
            self.refuse_while_storage_fails()
            return None
        return (params.producer, params.incarnation), params.sequence

    def replays(self, connection: Connection, key: Key, sequence: int) -> bool:
        """Return whether a numbered request was applied before; refuse it where it cannot be taken."""
        self._room_for(key)
        self.producers.speak(key, connection)
        if sequence > self.committer.sequence(key):
            self.refuse_while_storage_fails()
        return sequence <= self.engine.applied(*key)

    def _room_for(self, key: Key) -> None:
        """Have a new producer remembered: at the limit the one that has been silent for longest gives way."""
        ledger = self.engine.ledger
        if key in ledger.applied or len(ledger.applied) < ledger.producers_max:
            return
        silent = self.producers.longest_silent()
        if silent is None:
            raise Unavailable(
                "the service remembers as many producers as it may", field="producers", value=len(ledger.applied),
                bound=ledger.producers_max, hint="close clients when they are done",
            )  # fmt: skip
        self.forget_producers([silent])

    def forget_producers(self, keys: list[Key]) -> None:
        """Forget the numbers of producers that are gone."""
        for key in keys:
            self.engine.ledger.remove_record(key)
        self.committer.forget_evicted(keys)

    def refuse_while_storage_fails(self) -> None:
        """Raise what the storage failed with, or that the service is stopping."""
        if self.committer.failure is not None:
            raise from_dict(self.committer.failure.as_dict())  # its own: each raising lengthens a traceback
        if self.background.stopping:
            raise Unavailable("the service is stopping", hint="connect again, and send it again")


@dataclass(eq=False)
class Learning:
    """What changes what is known: numbered, folded once, and answered when it is durable."""

    engine: Engine
    committer: Committer
    producers: Producers
    heavy: Heavy
    measures: ServiceMeasures
    background: Background
    happened: Callable[[], None]  # called when rows were folded

    def __post_init__(self) -> None:
        self.admission = ChangeAdmission(self.engine, self.committer, self.producers, self.background)
        self._book = NameBook()
        self.engine.reported = self.happened
        # the handler of each verb
        self.verbs: dict[str, Handler] = {
            "observe": self._observe, "define_network": self._define_network,
            **{verb: partial(self._apply, change) for verb, change in changes(self._book).items()},
        }  # fmt: skip

    # Rows

    def fold_singles(self, connection: Connection, rows: list[Any]) -> None:
        """Fold the rows of consecutive `observe` notifications together, at most ROWS_BATCH_MAX."""
        if connection.grant is None or not connection.grant.may_write(None):
            self.measures.errors[Unauthorized.code] += len(rows)
            return
        columns = columns_of_rows(rows, self._book)
        self.engine.apply_event(None, None, columns)
        self.committer.changed(len(columns))
        self.happened()

    def learn_plain_batches(self, connection: Connection, backlog: deque[Any], most: int) -> tuple[int, list[bytes]]:
        """Take plain batches of rows at the head of what a connection has sent, as long as nothing about them can go wrong.

        That is: their producer is known and speaks here, their numbers are next, their rows plain. Less than two batches of
        ROWS_BATCH_MAX rows at a time.

        Returns
        -------
        int, list of bytes
            How many were taken, and their answers, none where these wait for the commit. The first batch not taken is still in
            `backlog`, untouched, for `Hub.handle` to look at closely.
        """
        engine, committer = self.engine, self.committer
        answers: list[bytes] = []
        rows = 0
        if connection.grant is None or committer.failure is not None or self.background.stopping:
            return 0, answers
        try:
            while backlog and len(answers) < most and rows < ROWS_BATCH_MAX:
                message = backlog[0]
                batch = plain_batch(message) if type(message) is RpcRequest else None
                if batch is None or self.producers.speakers.get(batch.key) is not connection:
                    break
                if not engine.take_plain_batch(batch.key, batch.sequence, batch.rows):
                    break
                backlog.popleft()
                rows += len(batch.rows)
                accepted = {"accepted": len(batch.rows), "refused": NONE_REFUSED, "sequence": batch.sequence}
                answers.append(encode_response(batch.msgid, accepted))
        finally:
            if rows and committer.durable_storage:
                committer.defer_reply(connection, answers.copy(), rows)
        if committer.durable_storage:
            return len(answers), []
        engine.fold_plain_rows()
        return len(answers), answers

    def _observe(self, connection: Connection, params: m.Observe, msgid: int | None) -> dict[str, Any] | None:
        columns = columns_of_rows([params.row], self._book)
        answer = self.engine.apply_event(None, None, columns)
        self.committer.changed(1)
        return answer

    # Networks, task events, runs, and what is changed by hand

    def _define_network(self, connection: Connection, params: m.DefineNetwork, msgid: int | None) -> Any:
        self.admission.refuse_while_storage_fails()
        given: Any = params.nodes if params.text is None else params.text

        async def define() -> dict[str, Any] | None:
            network = await self.heavy.run(network_of, given)
            answer = self.engine.apply_event(None, None, NetworkDefined(given, params.id, network))
            return self._durably(connection, msgid, answer, 0)

        if not is_small(given):
            return define
        return self._durably(
            connection, msgid, self.engine.apply_event(None, None, NetworkDefined(given, params.id)), 0
        )

    def _apply(self, change: Change, connection: Connection, params: m.NumberedVerb, msgid: int | None) -> Any:
        """Apply an event: exactly once where it is numbered, else at most once."""
        (read, again), numbered = change, self.admission.number_of(params)
        known = numbered is not None and self.admission.replays(connection, *numbered)
        event = again if known and again is not None else read(connection, params)
        size = len(event) if isinstance(event, Sized) else 0
        key, sequence = numbered or (None, None)
        answer = self.engine.apply_event(key, sequence, event)
        return self._durably(connection, msgid, answer, size, key)

    # Once, and durable

    def _durably(
        self,
        connection: Connection,
        msgid: int | None,
        answer: dict[str, Any],
        rows: int,
        key: Key | None = None,
    ) -> dict[str, Any] | None:
        """Answer at once what is durable already; hold the other answers until it is."""
        if key is not None and answer["sequence"] <= self.committer.sequence(key):
            return answer
        if not self.committer.durable_storage:
            return answer
        self.committer.changed(rows)
        self.committer.defer_reply(connection, [encode_response(cast("int", msgid), answer)])
        return LATER


def _forgotten(params: m.Forget) -> Event:
    """Return what is forgotten: the request names one thing."""
    if params.program is not None:
        return ProgramForgotten(params.program)
    return ComponentForgotten(cast("str", params.component))


# How the parameters of a verb become an event; what stands for one that was applied before, None: it is read again.
Change = tuple[Callable[[Connection, Any], Event], Event | None]


def changes(book: NameBook) -> Mapping[str, Change]:
    """Return the change of each verb that may be numbered; `book` has the names of its rows.

    What came again of rows and task events is not read: it may lean on names that this connection has not numbered.
    """
    return {
        "observe_rows": (lambda _, params: columns_of_rows(params, book), EMPTY),
        "observe_columns": (lambda connection, params: columns_of_bins(params, connection.names), EMPTY),
        "task_events": (lambda _, params: events_of_params(params), NO_EVENTS),
        "observe_run": (lambda _, params: RunObserved(params.run), None),
        "forget": (lambda _, params: _forgotten(params), None),
        "pin": (lambda _, params: ComponentPinned(params.component, params.model), None),
        "set_allowed": (
            lambda _, params: AllowedSet(params.component, params.allowed and params.allowed.as_wire()), None,
        ),
    }  # fmt: skip
