"""Where the service's parts meet: connections bring requests, the engine answers, the committer makes it durable."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio

from advisor import __version__, kernels
from advisor.domain import limits
from advisor.domain.rows import CARRIED_FIELDS, COUNTED_FIELDS, LEARNED_FIELDS
from advisor.engine import Advisor, Engine
from advisor.engine.events import DefineNetwork
from advisor.errors import AdvisorError, InvalidValue, Unauthorized, Unavailable, Unsupported
from advisor.protocol import verbs as m
from advisor.protocol.connection import Request, encode_error, encode_response
from advisor.protocol.verbs import PROTOCOL_VERSION
from advisor.service import curves, questions
from advisor.service.access import Access, digest
from advisor.service.advising import Advising
from advisor.service.committer import Committer
from advisor.service.config import Config
from advisor.service.connection import READ_BYTES, Connection
from advisor.service.doors import LATER, Doors
from advisor.service.happenings import MINUTE_S, Window
from advisor.service.heavy import Heavy, Spec
from advisor.service.logs import event
from advisor.service.measures import Measures, Rates
from advisor.service.memory import GROWING, Memory, resident_bytes
from advisor.service.peers import NAME_KEPT_BYTES, PRODUCER_KEPT_BYTES, Peers
from advisor.service.producers import Producers
from advisor.service.simulating import simulated_apart
from advisor.service.snet_resources import SnetResources

HEAVY_JOBS_CONNECTION_MAX = 16
STRANGERS_MAX = 64  # peers that have not shown who they are; who has taken longest gives way
GUESS_S = 1.0  # until a wrong token is answered: with STRANGERS_MAX so many guesses a second, for 2**128 tokens
PRODUCERS_TOLD_AT = 0.9  # of their limit: the log says that it is near
GUESSES_TOLD_A_MINUTE = 10  # in the log; the metric counts all
PRODUCERS_TOLD = 100  # of one status answer, the first to connect first
WATCHES_TOLD = 100  # of one status answer
VERSION_ORIGIN_MASK = 2**31 - 1  # seconds at which this service began: versions of curves are its own
FEATURES = {"learned": [*LEARNED_FIELDS], "counted": [*COUNTED_FIELDS], "carried": [*CARRIED_FIELDS]}


def _refuse_stranger() -> None:
    raise Unauthorized("say hello with the token first", field="token")


class Hub(Doors):
    """The state of a running service, and its verbs. One event loop, no locks.

    Parameters
    ----------
    config : Config
    engine : Engine
    committer : Committer
    producers : Producers
    heavy : Heavy
    measures : Measures
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
        super().__init__(engine, committer, producers, heavy, measures, Peers(config.peer_memory))
        self.config = config
        engine.advisor.bundles.origin = int(time.time()) & VERSION_ORIGIN_MASK
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.connections: dict[int, Connection] = {}
        self.snet: SnetResources | None = None
        self.advising = Advising(engine, self.planner, config.advise)
        self.access = Access(config)
        self.memory = Memory(config.memory_max)
        self.rates = Rates(time.monotonic(), self._counts())
        self._strangers: dict[Connection, None] = {}  # in the order of coming
        self._guesses = Window(GUESSES_TOLD_A_MINUTE, MINUTE_S)
        self._numbered = 0
        self._many_producers = False
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

    def _asking(self, question: Callable[[Advisor, Any], Any]) -> Callable[[Connection, Any, int | None], Any]:
        """Return the verb of a question that the engine answers at once."""
        return lambda _, params, __: question(self.engine.advisor, params)

    # Connections

    def join(self, connection: Connection) -> bool:
        """Take a connection in; False when the service is full or stopping."""
        if connection.grant is None:
            if len(self._strangers) >= STRANGERS_MAX:
                next(iter(self._strangers)).drop("stranger")
            self._strangers[connection] = None
        if len(self.connections) >= self.config.connections_max:
            self._make_room()
        if self.stopping or self.memory.short or len(self.connections) >= self.config.connections_max:
            self.measures.connections_refused += 1
            return False
        self._numbered += 1
        connection.number = self._numbered
        self.connections[connection.number] = connection
        self.measures.connections_accepted += 1
        return True

    def leave(self, connection: Connection, how: str) -> None:
        """Forget a connection."""
        self._strangers.pop(connection, None)
        if self.connections.pop(connection.number, None) is None:
            return
        self.measures.ends[how] += 1
        self.peers.release(connection)
        self.producers.leave(connection)
        self.committer.drop(connection)
        self.unsubscribe(connection)

    def unsubscribe(self, connection: Connection) -> None:
        """Tell a connection of nothing any more."""
        self.subscriptions.leave(connection)
        self.watching.leave(connection)

    def pending_changed(self, connection: Connection, by: int) -> None:
        """Keep count of the bytes of half-received messages; beyond the budget the longest half-sent one goes."""
        if self.peers.add(connection, "messages", by):
            self._drop_slowest(lambda other: other.pending_bytes > 0 and other is not connection, "inbound memory")

    def sweep(self) -> None:
        """Drop the peers that have stalled for too long, forget the producers that were silent for too long."""
        limit = time.monotonic() - self.config.stall_s
        for connection in list(self.connections.values()):
            since = connection.stalled_since()
            if since is not None and since < limit:
                connection.drop("stalled")
        self._look_at_grants()
        self.rates.note(time.monotonic(), self._counts())
        self.happenings.sweep()
        self.watching.sweep()
        silent = self.producers.silent(self.config.producer_idle_s)
        if silent:
            self._forget_producers(silent)
            event(logging.INFO, "idle producers forgotten", producers=len(silent))
        many = len(self.engine.producers) >= PRODUCERS_TOLD_AT * self.engine.ledger.producers_max
        if many and not self._many_producers:
            event(
                logging.WARNING, "nearly as many producers as may be remembered", producers=len(self.engine.producers),
                producers_max=self.engine.ledger.producers_max, hint="close clients when they are done; or raise producers_max",
            )  # fmt: skip
        self._many_producers = many

    def _look_at_grants(self) -> None:
        """Read the grants again where their files have changed; who is granted something else has to connect anew."""
        try:
            if not self.access.changed():
                return
        except InvalidValue as error:
            event(logging.ERROR, "grants not read again, the former ones hold", reason=error)
            return
        revoked = [
            connection
            for connection in self.connections.values()
            if connection.grant is not None and self.access.grant(connection.identity) != connection.grant
        ]
        for connection in revoked:
            connection.drop("revoked")
        event(logging.WARNING, "grants read again", revoked=len(revoked))

    def look_at_memory(self) -> None:
        """See whether there is memory for more; while there is not, new components are refused like those beyond the limit.

        Rows are replayed under one limit a commit: it falls to what is there, which all rows of this commit kept, and
        rises again only between two.
        """
        if self.memory.look(may_recover=not self.committer.unsaved):
            components = self.engine.advisor.components
            components.components_max = len(components) if self.memory.short else self.config.components_max

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
            grant = connection.grant
            if grant is None and method != "hello":
                _refuse_stranger()
            limits_of = None if grant is None or grant.admin else grant
            if limits_of is not None:
                limits_of.check(method)
            params = m.check_params(method, given, notification=msgid is None)
            if limits_of is not None:
                limits_of.check(method, params)
            if method in GROWING:
                self.memory.refuse_while_short()
            self.engine.flush()
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

    def _hello(self, connection: Connection, params: m.Hello, msgid: int | None) -> dict[str, Any] | None:
        if params.protocol != PROTOCOL_VERSION:
            raise Unsupported(
                f"protocol {params.protocol} is not spoken here", field="protocol", value=params.protocol,
                bound=PROTOCOL_VERSION,
            )  # fmt: skip
        if connection.grant is None:
            if params.token is None:
                raise Unauthorized("no token, or a wrong one", field="token", hint="ask whoever runs the service")
            identity = "token", digest(params.token.encode())
            grant = self.access.grant(identity)
            if grant is None:
                connection.wait()  # for nothing: it is over
                self.spawn(self._refuse_guess, connection, msgid)
                return None
            self._strangers.pop(connection, None)
            connection.admit(identity, grant)
            grant.check("hello", params)
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
            if params.retire:
                return answer | {"sequence": self._retire(key, connection)}
            if params.resume_at is not None:
                self.producers.refuse_another(key, connection)
            if not self.producers.speaks(key, connection):
                self.peers.keep(connection, "producers", PRODUCER_KEPT_BYTES)
            self.producers.speak(key, connection)
            connection.producer = params.producer
            if params.resume_at is not None:
                self._resume(key, params.resume_at)
            answer["sequence"] = self.committer.sequence(key)
        return answer

    async def _refuse_guess(self, connection: Connection, msgid: int | None) -> None:
        """A wrong token: say so late, and end the connection. So a guess takes a place among the strangers, and time."""
        await self.guessed(connection.peer)
        if connection.number in self.connections:
            connection.refuse(
                Unauthorized("no token, or a wrong one", field="token", hint="ask whoever runs the service"), msgid
            )

    async def guessed(self, peer: object) -> None:
        """Count a wrong token, tell of it, and let whoever gave it wait."""
        if self._guesses.room(time.monotonic()):
            self._guesses.take()
            event(logging.WARNING, "wrong token", peer=peer)
        self.measures.guesses += 1
        await anyio.sleep(GUESS_S)

    def _resume(self, key: tuple[str, bytes], at: int) -> None:
        """A client without incarnation is ahead of us: our state was lost. Go on where it stands, and say so."""
        applied = self.engine.applied(*key)
        if at <= applied:
            return
        event(logging.WARNING, "producer resumes ahead of us", producer=key[0], applied=applied, resume_at=at)
        self.engine.resume_producer(*key, at)
        self.committer.changed()

    def _retire(self, key: tuple[str, bytes], connection: Connection) -> int:
        """A producer is done: all its batches are answered."""
        self.producers.refuse_another(key, connection)
        sequence = self.committer.sequence(key)
        if sequence == self.engine.applied(*key):
            self.producers.retire(key)
            self._forget_producers([key])
        return sequence

    def _names(self, connection: Connection, params: m.Names, _: int | None) -> dict[str, Any]:
        fresh = params.names[max(0, len(connection.names.numbered) - params.first_id) :]
        size = NAME_KEPT_BYTES * len(fresh) + sum(map(len, fresh))
        self.peers.keep(connection, "names", size)
        try:
            return {"known": connection.names.learn(params)}
        except AdvisorError:
            self.peers.add(connection, "names", -size)
            raise

    def _profile(self, _: Connection, params: m.Profile, __: int | None) -> dict[str, Any]:
        return self.engine.profiles.answer(
            params.producer, params.incarnation, nodes=params.nodes, diagnosis=params.diagnosis, ended=params.ended
        )

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
        given: Any = params.nodes if params.text is None else params.text
        if given is None:  # for the checker: one of them is there
            return None
        if questions.is_small(given):
            answer = self.engine.apply(None, None, DefineNetwork(given, params.id))
            return self._durably(connection, msgid, answer, 0)
        return self._apart("define_network", connection, msgid, self._define_apart, connection, msgid, given, params.id)

    async def _define_apart(
        self, connection: Connection, msgid: int | None, given: Spec, network_id: int | str | None
    ) -> dict[str, Any] | None:
        """Define a large network, read in a worker."""
        network = await self.heavy.read(given)
        answer = self.engine.apply(None, None, DefineNetwork(given, network_id, network))
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
            result = await work(*args) if connection.number in self.connections else None
        except AdvisorError as error:
            result = error.detached()
        except Exception as error:
            result = self._defect(verb, connection, error)
        finally:
            connection.heavy_jobs -= 1
        self.measures.request(verb, time.perf_counter() - began)
        if result is not None:  # LATER, when it is durable
            connection.answer(msgid, result)

    def _status(self, connection: Connection, params: m.Status, msgid: int | None) -> dict[str, Any] | None:
        if params.components is False or params.limit <= questions.STATUS_SLICE:
            return questions.status(self.engine.advisor, params) | {"service": self.health()}
        return self._apart("status", connection, msgid, self._status_apart, params)

    async def _status_apart(self, params: m.Status) -> dict[str, Any]:
        return await questions.status_in_slices(self.engine.advisor, params) | {"service": self.health()}

    def _counts(self) -> tuple[int, int]:
        """Return rows and requests so far."""
        return self.engine.totals.get("rows_accepted", 0), self.measures.answered

    def health(self) -> dict[str, Any]:
        """Return what an operator asks first."""
        failure, now = self.committer.failure, time.monotonic()
        rows_per_s, requests_per_s = self.rates.rates(now, self._counts())
        errors = self.sampled.errors
        return {
            "version": __version__,
            "uptime_s": now - self.rates.started,
            "rows_per_s": rows_per_s,
            "requests_per_s": requests_per_s,
            "memory_bytes": resident_bytes(),
            "error_median": errors.quantile(0.5),
            "error_9_of_10": errors.quantile(0.9),
            "errors_sampled": sum(errors.counts),
            "errors_covered": self.sampled.covered,
            "state": None if self.config.state is None else str(self.config.state.absolute()),
            "connections": len(self.connections),
            "producers": len(self.engine.producers),
            "producers_live": len(self.producers),
            "speaking": [
                {"producer": name, "sequence": self.engine.applied(name, incarnation)}
                for name, incarnation in self.producers.speaking(PRODUCERS_TOLD)
            ],
            "peer_memory": {"bytes": self.peers.bytes, "bytes_max": self.peers.bytes_max, **self.peers.kept},
            "short_of_memory": self.memory.short,
            "storage": "none" if not self.committer.durable_storage else "failed" if failure else "ok",
            "storage_failure": None if failure is None else str(failure),
            "stopping": self.stopping,
            "commits": sum(self.measures.commit_s.counts),
            "commit_mean_s": self.measures.commit_s.mean,
            "answers_kept": len(self.planner.answers),
            "kernels": kernels.states(),
            "watching": self.watching.status(WATCHES_TOLD),
        }
