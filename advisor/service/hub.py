"""Where the service's parts meet: connections bring requests, the engine answers, the committer makes it durable."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from advisor import __version__
from advisor.domain import limits
from advisor.domain.observations import (
    CARRIED_FIELDS,
    COUNTED_FIELDS,
    LEARNED_FIELDS,
    Columns,
    ComponentNames,
    columns_of,
)
from advisor.domain.task_events import NO_EVENTS
from advisor.engine import Advisor, Engine
from advisor.errors import AdvisorError, ServiceError, Unauthorized, Unavailable, Unsupported
from advisor.protocol import messages as m
from advisor.protocol.columns import columns_of_bins
from advisor.protocol.connection import Request, encode_error, encode_response
from advisor.protocol.params import PROTOCOL_VERSION
from advisor.protocol.rows import NameBook, columns_of_rows
from advisor.protocol.task_events import events_of_params
from advisor.service import curves, questions
from advisor.service.answers import Answers
from advisor.service.committer import Committer
from advisor.service.config import Config
from advisor.service.connection import READ_BYTES, Connection
from advisor.service.folding import Folding
from advisor.service.happenings import Happenings
from advisor.service.heavy import Heavy, Spec
from advisor.service.logs import event
from advisor.service.measures import Measures
from advisor.service.planner import Planner
from advisor.service.producers import Producers
from advisor.service.simulating import simulated_apart
from advisor.service.subscriptions import Subscriptions
from advisor.service.watching import Watching

LATER = None  # a handler's result: the answer comes when it is durable, or worked out
EMPTY = columns_of(ComponentNames(), [], [], [], [])
HEAVY_JOBS_CONNECTION_MAX = 16
WATCHES_TOLD = 100  # of one status answer
NUMBERED = ("hello", "observe_rows", "observe_columns", "task_events", "forget", "pin", "observe_run")
VERSION_ORIGIN_MASK = 2**31 - 1  # seconds at which this service began: versions of curves are its own
FEATURES = {"learned": [*LEARNED_FIELDS], "counted": [*COUNTED_FIELDS], "carried": [*CARRIED_FIELDS]}


def _nothing_runs(*_: object) -> None:
    raise Unavailable("the service is starting")


def _refuse_untrusted() -> None:
    raise Unauthorized("say hello with the token first", field="token")


class Hub:
    """The state of a running service, and its verbs. One event loop, no locks.

    Parameters
    ----------
    config : Config
    engine : Engine
    committer : Committer
    producers : Producers
    heavy : Heavy
    measures : Measures

    Attributes
    ----------
    spawn : callable
        Starts a coroutine in the background; set by whoever runs the hub.
    """

    def __init__(
        self,
        config: Config,
        engine: Engine,
        committer: Committer,
        producers: Producers,
        heavy: Heavy,
        measures: Measures,
    ) -> None:
        self.config = config
        self.engine = engine
        engine.advisor.bundles.origin = int(time.time()) & VERSION_ORIGIN_MASK
        self.committer = committer
        self.producers = producers
        self.heavy = heavy
        self.measures = measures
        self.happenings = Happenings(engine.advisor.components.events)
        self.folding = Folding(engine, self.happenings.drain)
        committer.commits_when(self.folding.until_whole)
        self.subscriptions = Subscriptions()
        self.planner = Planner(engine.advisor, heavy, Answers())
        self.watching = Watching(engine, self.planner, self.subscriptions, measures, self._spawned)
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.connections: dict[int, Connection] = {}
        self.stopping = False
        self.spawn: Callable[..., object] = _nothing_runs
        self.inbound_bytes = 0
        self._token = config.token()
        self._book = NameBook()
        self._numbered = 0
        self._verbs: Mapping[str, Callable[[Connection, Any, int | None], Any]] = {
            "hello": self._hello,
            "names": self._names,
            "observe": self._observe,
            "observe_rows": self._observe_rows,
            "observe_columns": self._observe_columns,
            "predict": self._predict,
            "choose_cores": self._asking(questions.choose_cores),
            "suggest": self._asking(questions.suggest),
            "allocate": self._allocate,
            "allocate_together": self._allocate_together,
            "watch": self._watch,
            "explain": self._explain,
            "unwatch": lambda connection, params, _: self.watching.close(connection, params.watch),
            "curves": self._curves,
            "define_network": self._define_network,
            "flow": self._asking(questions.flow),
            "simulate": self._simulate,
            "status": self._status,
            "forget": self._forget,
            "task_events": self._task_events,
            "profile": self._profile,
            "observe_run": self._observe_run,
            "predict_run": self._asking(questions.predict_run),
            "pin": self._pin,
        }

    def _spawned(self, *work: Any) -> None:
        """Start work in the background, by whatever `spawn` is then."""
        self.spawn(*work)

    def _asking(self, question: Callable[[Advisor, Any], Any]) -> Callable[[Connection, Any, int | None], Any]:
        """Return the verb of a question that the engine answers at once."""
        return lambda _, params, __: question(self.engine.advisor, params)

    # Connections

    @property
    def asks_token(self) -> bool:
        """True when TCP clients must give a token."""
        return self._token is not None

    def join(self, connection: Connection) -> bool:
        """Take a connection in; False when the service is full or stopping."""
        if len(self.connections) >= self.config.connections_max:
            self._make_room()
        if self.stopping or len(self.connections) >= self.config.connections_max:
            self.measures.connections_refused += 1
            return False
        self._numbered += 1
        connection.number = self._numbered
        self.connections[connection.number] = connection
        self.measures.connections_accepted += 1
        return True

    def leave(self, connection: Connection, how: str) -> None:
        """Forget a connection."""
        if self.connections.pop(connection.number, None) is None:
            return
        self.measures.ends[how] += 1
        self.inbound_bytes -= connection.pending_bytes
        self.producers.leave(connection)
        self.committer.drop(connection)
        self.subscriptions.leave(connection)
        self.watching.leave(connection)

    def pending_changed(self, connection: Connection, by: int) -> None:
        """Keep count of the bytes of half-received messages; beyond the bound the longest half-sent one goes."""
        self.inbound_bytes += by
        if by > 0 and self.inbound_bytes > self.config.inbound_bytes_max:
            self._drop_slowest(lambda other: other.pending_bytes > 0 and other is not connection, "inbound memory")

    def sweep(self) -> None:
        """Drop the peers that have stalled for too long, forget the producers that were silent for too long."""
        limit = time.monotonic() - self.config.stall_s
        for connection in list(self.connections.values()):
            since = connection.stalled_since()
            if since is not None and since < limit:
                connection.drop("stalled")
        self.happenings.sweep()
        self.watching.sweep()
        silent = self.producers.silent(self.config.producer_idle_s)
        if silent:
            self.engine.evict_producers(silent)
            self.committer.forget(silent)
            self.committer.changed()
            self.measures.evicted += len(silent)
            event(logging.INFO, "idle producers forgotten", producers=len(silent))

    def _make_room(self) -> None:
        """At the limit, whoever keeps us waiting longest in the middle of a message gives way to the newcomer."""
        self._drop_slowest(lambda other: True, "made room")

    def _drop_slowest(self, eligible: Callable[[Connection], bool], reason: str) -> None:
        stalled = [(c.stalled_since(), c) for c in self.connections.values() if eligible(c)]
        candidates = [(since, c.number, c) for since, c in stalled if since is not None]
        if candidates:
            _, _, slowest = min(candidates)
            slowest.drop(reason)
            self.leave(slowest, reason)

    # Requests

    def handle(self, connection: Connection, request: Request) -> bytes | None:
        """Return the answer's bytes: empty for a notification, LATER when it comes by itself. Never raises."""
        msgid, method, given = request
        try:
            params = m.check_params(method, given, notification=msgid is None)
            if not connection.trusted and method != "hello":
                _refuse_untrusted()
            result = self._verbs[method](connection, params, msgid)
            self.happenings.drain()
            self.subscriptions.stir()
        except AdvisorError as error:
            self.measures.errors[error.code] += 1
            return b"" if msgid is None else encode_error(msgid, error)
        except Exception as error:  # a defect of ours must not cost other clients their service
            defect = self._defect(method, connection, error)
            return b"" if msgid is None else encode_error(msgid, defect)
        if msgid is None:
            return b""
        return LATER if result is None else encode_response(msgid, result)

    def _defect(self, method: str, connection: Connection, error: Exception) -> AdvisorError:
        event(logging.ERROR, "defect in a request", error=error, verb=method, connection=connection.number)
        self.measures.errors["defect"] += 1
        defect = ServiceError("the service failed on this request; it has logged why", field="method", value=method)
        defect.retry = False
        return defect

    def fold_singles(self, connection: Connection, rows: list[Any]) -> None:
        """Fold the rows of consecutive `observe` notifications together."""
        if not connection.trusted:
            self.measures.errors[Unauthorized.code] += len(rows)
            return
        for start in range(0, len(rows), limits.ROWS_BATCH_MAX):
            columns = columns_of_rows(rows[start : start + limits.ROWS_BATCH_MAX], self._book)
            stops = self.engine.cuts(columns)
            if len(stops) > 1 and self.folding.takes(connection, None, len(columns)):
                self.spawn(self._fold_apart, "observe", connection, None, columns, stops)
                continue
            self.engine.observe(columns)
            self._observed(columns)
        self.happenings.drain()
        self.subscriptions.stir()

    def _observed(self, columns: Columns) -> None:
        """Rows that nobody waits for were folded."""
        self.watching.observed(columns)
        self.committer.changed(len(columns))

    def defers(self, connection: Connection, request: Request) -> bool:
        """Return whether a request has to wait, for a large batch of the producer that it speaks for."""
        _, method, given = request
        if not self.folding.busy or method not in NUMBERED or not connection.trusted:
            return False
        try:
            params = m.check_params(method, given, notification=request.msgid is None)
        except AdvisorError:
            return False
        producer = getattr(params, "producer", None)
        if producer is None or not self.folding.holds((producer, cast("m.Hello", params).incarnation)):
            return False
        self.folding.defer(connection)
        return True

    def _hello(self, connection: Connection, params: m.Hello, _: int | None) -> dict[str, Any]:
        if params.protocol != PROTOCOL_VERSION:
            raise Unsupported(
                f"protocol {params.protocol} is not spoken here", field="protocol", value=params.protocol,
                bound=PROTOCOL_VERSION,
            )  # fmt: skip
        if not connection.trusted:
            # Compared in constant time, and nowhere logged or repeated.
            if params.token is None or not hmac.compare_digest(params.token.encode(), cast("bytes", self._token)):
                raise Unauthorized("no token, or a wrong one", field="token", hint="ask whoever runs the service")
            connection.trusted = True
        answer: dict[str, Any] = {
            "protocol": PROTOCOL_VERSION,
            "version": __version__,
            "limits": {
                name: getattr(limits, name.upper())
                for name in ("message_bytes_max", "rows_batch_max", "name_bytes_max", "unanswered_max", "name_ids_max")
            },
            "features": FEATURES,
        }
        if params.producer is not None:
            key = (params.producer, params.incarnation)
            self.producers.speak(key, connection)
            if params.resume_at is not None:
                self._resume(key, params.resume_at)
            answer["sequence"] = self.committer.sequence(key)
        return answer

    def _resume(self, key: tuple[str, bytes], at: int) -> None:
        """A client without incarnation is ahead of us: our state was lost. Go on where it stands, and say so."""
        applied = self.engine.applied(*key)
        if at <= applied:
            return
        event(logging.WARNING, "producer resumes ahead of us", producer=key[0], applied=applied, resume_at=at)
        self.engine.resume_producer(*key, at)
        self.committer.changed()

    def _names(self, connection: Connection, params: m.Names, _: int | None) -> dict[str, Any]:
        return {"known": connection.names.learn(params)}

    def _observe(self, _: Connection, params: m.Observe, __: int | None) -> dict[str, Any]:
        columns = columns_of_rows([params.row], self._book)
        receipt = self.engine.observe(columns)
        self.watching.observed(columns)
        self.committer.changed(1)
        return receipt.as_dict()

    def _observe_rows(self, connection: Connection, params: m.ObserveRows, msgid: int | None) -> dict[str, Any] | None:
        return self._batch(connection, params, msgid, lambda: columns_of_rows(params, self._book))

    def _observe_columns(
        self, connection: Connection, params: m.ObserveColumns, msgid: int | None
    ) -> dict[str, Any] | None:
        return self._batch(connection, params, msgid, lambda: columns_of_bins(params, connection.names))

    def _batch(
        self,
        connection: Connection,
        params: m.ObserveRows | m.ObserveColumns,
        msgid: int | None,
        read: Callable[[], Columns],
    ) -> dict[str, Any] | None:
        key = None if params.producer is None else (params.producer, params.incarnation)
        if key is None or params.sequence is None:
            self._refuse_while_storage_fails()
        elif self._known(connection, key, params.sequence):
            # Nothing of it is read again: it may lean on names that this connection has not numbered.
            receipt = self.engine.observe_batch(*key, params.sequence, EMPTY)
            return self._durably(connection, msgid, receipt.as_dict(), 0, key)
        columns = read()
        stops = self.engine.cuts(columns)
        if len(stops) > 1 and self.folding.takes(connection, key, len(columns)):
            verb = "observe_rows" if isinstance(params, m.ObserveRows) else "observe_columns"
            self.spawn(self._fold_apart, verb, connection, msgid, columns, stops, key, params.sequence)
            return LATER
        if key is None or params.sequence is None:
            receipt = self.engine.observe(columns)
        else:
            receipt = self.engine.observe_batch(*key, params.sequence, columns)
        self.watching.observed(columns)
        return self._durably(connection, msgid, receipt.as_dict(), len(columns), key)

    async def _fold_apart(
        self,
        verb: str,
        connection: Connection,
        msgid: int | None,
        columns: Columns,
        stops: list[int],
        key: tuple[str, bytes] | None = None,
        sequence: int | None = None,
    ) -> None:
        """Fold a large batch piece by piece, and answer for it."""
        began = time.perf_counter()
        result: dict[str, Any] | AdvisorError | None
        try:
            self.committer.changed()  # from here on something is not durable yet
            receipt = await self.folding.fold(connection, columns, stops, key, sequence)
            self.watching.observed(columns)
            if verb == "observe":
                self.committer.changed(len(columns))
                result = None
            else:
                result = self._durably(connection, msgid, receipt.as_dict(), len(columns), key)
        except AdvisorError as error:
            result = error
        except Exception as error:
            result = self._defect(verb, connection, error)
        self.subscriptions.stir()
        self.measures.request(verb, time.perf_counter() - began)
        if result is not None and verb != "observe":
            connection.answer(msgid, result)

    def _task_events(self, connection: Connection, params: m.TaskEvents, msgid: int | None) -> dict[str, Any] | None:
        if params.producer is None or params.sequence is None:
            self._refuse_while_storage_fails()
            events = events_of_params(params)
            return self._durably(connection, msgid, self.engine.fold_events(events), len(events))
        key = (params.producer, params.incarnation)
        events = NO_EVENTS if self._known(connection, key, params.sequence) else events_of_params(params)
        answer = self.engine.events_batch(*key, params.sequence, events)
        return self._durably(connection, msgid, answer, len(events), key)

    def _profile(self, _: Connection, params: m.Profile, __: int | None) -> dict[str, Any]:
        return self.engine.profiles.answer(
            params.producer, params.incarnation, nodes=params.nodes, diagnosis=params.diagnosis, ended=params.ended
        )

    def _known(self, connection: Connection, key: tuple[str, bytes], sequence: int) -> bool:
        """Return whether a numbered request was applied before; refuse it where it cannot be taken."""
        try:
            self.producers.speak(key, connection)
        except Unavailable:
            self.measures.superseded += 1
            raise
        if sequence > self.committer.sequence(key):
            self._refuse_while_storage_fails()
        return sequence <= self.engine.applied(*key)

    def _refuse_while_storage_fails(self) -> None:
        if self.committer.failure is not None:
            raise self.committer.failure
        if self.stopping:
            raise Unavailable("the service is stopping", hint="connect again, and send it again")

    def _durably(
        self,
        connection: Connection,
        msgid: int | None,
        answer: dict[str, Any],
        rows: int,
        key: tuple[str, bytes] | None = None,
    ) -> dict[str, Any] | None:
        """Answer at once what is durable already; hold the other answers until it is."""
        if key is not None and answer["sequence"] <= self.committer.sequence(key):
            return answer
        if not self.committer.durable_storage:
            return answer
        self.committer.changed(rows)
        self.committer.hold(connection, encode_response(cast("int", msgid), answer))
        return LATER

    def _change(
        self,
        connection: Connection,
        params: m.Forget | m.Pin,
        msgid: int | None,
        once: Callable[..., dict[str, Any]],
        numbered: Callable[..., dict[str, Any]],
        *change: Any,
    ) -> dict[str, Any] | None:
        """Change what is known of something: exactly once where it is numbered, else at most once."""
        if params.producer is None or params.sequence is None:
            self._refuse_while_storage_fails()
            return self._durably(connection, msgid, once(*change), 0)
        key = (params.producer, params.incarnation)
        self._known(connection, key, params.sequence)
        return self._durably(connection, msgid, numbered(*key, params.sequence, *change), 0, key)

    def _forget(self, connection: Connection, params: m.Forget, msgid: int | None) -> dict[str, Any] | None:
        engine = self.engine
        once, numbered, what = engine.advisor.forget, engine.forget_batch, (params.component, params.keep)
        if params.program is not None:
            once, numbered, what = engine.forget_program, engine.forget_program_batch, (params.program,)
        elif params.profile is not None:
            once, numbered, what = engine.forget_profile, engine.forget_profile_batch, (params.profile,)
        return self._change(connection, params, msgid, once, numbered, *what)

    def _pin(self, connection: Connection, params: m.Pin, msgid: int | None) -> dict[str, Any] | None:
        engine = self.engine
        change = params.component, params.model
        return self._change(connection, params, msgid, engine.advisor.pin, engine.pin_batch, *change)

    def _observe_run(self, connection: Connection, params: m.ObserveRun, msgid: int | None) -> dict[str, Any] | None:
        if params.producer is None or params.sequence is None:
            self._refuse_while_storage_fails()
            return self._durably(connection, msgid, self.engine.observe_run(params.run), 1)
        key = (params.producer, params.incarnation)
        self._known(connection, key, params.sequence)
        return self._durably(connection, msgid, self.engine.run_batch(*key, params.sequence, params.run), 1, key)

    def _allocate(self, connection: Connection, params: m.Allocate, msgid: int | None) -> dict[str, Any] | None:
        network, request = questions.allocation_asked(self.engine.advisor, params)
        return self._apart("allocate", connection, msgid, self.planner.allocate, network, request, params.deadline_s)

    def _allocate_together(
        self, connection: Connection, params: m.AllocateTogether, msgid: int | None
    ) -> dict[str, Any] | None:
        advisor, planner = self.engine.advisor, self.planner
        asked, of_all = questions.together_asked(advisor, params), questions.of_all_asked(params)
        return self._apart(
            "allocate_together", connection, msgid, planner.allocate_together, asked, of_all, params.objective,
            params.deadline_s,
        )  # fmt: skip

    def _explain(self, connection: Connection, params: m.Explain, msgid: int | None) -> dict[str, Any] | None:
        return self._apart("explain", connection, msgid, partial(self.planner.explain, replay=params.replay), params.id)

    def _watch(self, connection: Connection, params: m.Watch, msgid: int | None) -> dict[str, Any] | None:
        if params.watch is not None:
            return self.watching.tell(connection, params)
        return self._apart("watch", connection, msgid, self.watching.open, connection, params)

    def _define_network(
        self, connection: Connection, params: m.DefineNetwork, msgid: int | None
    ) -> dict[str, Any] | None:
        self._refuse_while_storage_fails()
        given = params.nodes if params.text is None else params.text
        if given is None:  # for the checker: one of them is there
            return None
        if questions.is_small(given):
            answer = self.engine.advisor.define_network(given, id=params.id)
            return self._durably(connection, msgid, answer, 0)
        return self._apart("define_network", connection, msgid, self._define_apart, connection, msgid, given, params.id)

    async def _define_apart(
        self, connection: Connection, msgid: int | None, given: Spec, network_id: int | str | None
    ) -> dict[str, Any] | None:
        """Define a large network, read in a worker."""
        network = await self.heavy.read(given)
        answer = self.engine.advisor.define_network(given, id=network_id, read=network)
        return self._durably(connection, msgid, answer, 0)

    def _simulate(self, connection: Connection, params: m.Simulate, msgid: int | None) -> dict[str, Any] | None:
        advisor = self.engine.advisor
        return self._apart("simulate", connection, msgid, simulated_apart, advisor, self.heavy, params)

    def _predict(self, connection: Connection, params: m.Predict, msgid: int | None) -> dict[str, Any] | None:
        if questions.points_asked(params) <= questions.PREDICT_SLICE:
            return questions.predict(self.engine.advisor, params)
        return self._apart("predict", connection, msgid, questions.predict_in_slices, self.engine.advisor, params)

    def _curves(self, connection: Connection, params: m.Curves, msgid: int | None) -> dict[str, Any] | None:
        advisor = self.engine.advisor
        follower = curves.asked(advisor, params)
        return self._apart(
            "curves", connection, msgid, curves.curves, advisor, self.subscriptions, connection, params, follower
        )

    def _apart(
        self, verb: str, connection: Connection, msgid: int | None, work: Callable[..., Awaitable[Any]], *args: Any
    ) -> None:
        """Answer later, by `work` that lets others have their turn.

        Raises
        ------
        Unavailable
            When the connection has too much of that under way.
        """
        if connection.heavy_jobs >= HEAVY_JOBS_CONNECTION_MAX:
            raise Unavailable(
                "too many large requests of one connection at a time", field="method",
                bound=HEAVY_JOBS_CONNECTION_MAX, hint="wait for their answers",
            )  # fmt: skip
        connection.heavy_jobs += 1
        self.spawn(self._work_apart, verb, connection, msgid, work, *args)

    async def _work_apart(
        self, verb: str, connection: Connection, msgid: int | None, work: Callable[..., Awaitable[Any]], *args: Any
    ) -> None:
        began = time.perf_counter()
        result: dict[str, Any] | AdvisorError | None
        try:
            result = await work(*args)
        except AdvisorError as error:
            result = error
        except Exception as error:
            result = self._defect(verb, connection, error)
        finally:
            connection.heavy_jobs -= 1
        self.measures.request(verb, time.perf_counter() - began)
        if result is not None:  # LATER, when it is durable
            connection.answer(msgid, result)

    def _status(self, _: Connection, params: m.Status, __: int | None) -> dict[str, Any]:
        return questions.status(self.engine.advisor, params) | {"service": self.health()}

    def health(self) -> dict[str, Any]:
        """Return what an operator asks first."""
        failure = self.committer.failure
        return {
            "version": __version__,
            "connections": len(self.connections),
            "producers": len(self.engine.producers),
            "producers_live": len(self.producers),
            "storage": "none" if not self.committer.durable_storage else "failed" if failure else "ok",
            "storage_failure": None if failure is None else str(failure),
            "stopping": self.stopping,
            "commits": sum(self.measures.commit_s.counts),
            "commit_mean_s": self.measures.commit_s.mean,
            "answers_kept": len(self.planner.answers),
            "watching": self.watching.status(WATCHES_TOLD),
        }
