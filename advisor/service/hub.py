"""Where the service's parts meet: connections bring requests, the engine answers, the committer makes it durable."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import anyio

from advisor import __version__, kernels
from advisor.domain import limits
from advisor.domain.rows import COUNTED_FIELDS, LEARNED_FIELDS
from advisor.engine import Engine
from advisor.errors import AdvisorError, Unauthorized, Unsupported
from advisor.protocol import verbs as m
from advisor.protocol.connection import RpcRequest, encode_error, encode_response
from advisor.protocol.verbs import PROTOCOL_VERSION
from advisor.service.access import Access, Grant, digest
from advisor.service.answering import answering
from advisor.service.answers import RecentAnswers
from advisor.service.backend import Backend, Gather
from advisor.service.background import LATER, Background, Handler, Work
from advisor.service.config import Config
from advisor.service.connection import READ_BYTES, Connection
from advisor.service.heavy import Heavy
from advisor.service.logs import event
from advisor.service.measures import Rates, ServiceMeasures, resident_bytes
from advisor.service.peers import NAME_BYTES, PRODUCER_BYTES, Peers
from advisor.service.planner import Planner
from advisor.service.producers import Producers
from advisor.service.turns import WorkTurns
from advisor.service.watching import Watching

STRANGERS_MAX = 64  # peers that have not shown who they are; who has taken longest gives way
PLACES_RESERVED = 8  # one place in so many is kept for authenticated peers: others cannot take all
GUESS_S = 0.5  # until a wrong token is answered: with STRANGERS_MAX 128 guesses a second, for 2**128 tokens; commands wait 1 s
ASK_OPERATOR = "ask the operator of the service; commands take --token-file or ADVISOR_TOKEN_FILE"
GUESSES_REPORTED_S = 6.0  # between two in the log; the metric counts all
VERSION_ORIGIN_MASK = 2**31 - 1  # seconds at which this service began: versions of curves are its own
HELLO_LIMITS = (
    "message_bytes_max", "rows_bytes_max", "rows_batch_max", "names_batch_max", "name_bytes_max", "unanswered_max",
    "name_ids_max",
)  # fmt: skip
FEATURES = {"learned": [*LEARNED_FIELDS], "counted": [*COUNTED_FIELDS]}


class Hub:
    """The state of a running service, and its verbs. One event loop, no locks."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        backend_of: Callable[[Hub], Backend],
    ) -> None:
        self.config, self.engine, self.producers = config, engine, Producers(engine.producers)
        self.heavy, self.measures = Heavy(config.heavy_deadline_s), ServiceMeasures()
        engine.advisor.bundles.origin = int(time.time()) & VERSION_ORIGIN_MASK
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.connections: dict[int, Connection] = {}
        self.access = Access(config)
        self.peers = Peers()
        self.turns = WorkTurns()
        self.background = Background(self.measures, self.turns)
        self.planner = Planner(engine.advisor, self.heavy, RecentAnswers())
        self.watching = Watching(engine, self.planner, self.measures)
        self.backend = backend_of(self)
        self.learning, self.committer = self.backend.learning, self.backend.committer
        self.rates = Rates(time.monotonic(), self._counts())
        self._strangers = OrderedDict[Connection, None]()  # in the order of coming
        self._guess_reported = -GUESSES_REPORTED_S
        self._numbered = 0
        self._verbs: dict[str, Handler] = {
            **self.learning.verbs, **answering(engine, self.planner, self.watching), **self.backend.verbs,
            "hello": self._hello, "names": self._names,
        }  # fmt: skip

    # Connections

    def add_connection(self, connection: Connection) -> bool:
        """Take a connection in; False when the service is full or stopping."""
        if connection.grant is None:
            self._strangers[connection] = None
            if len(self._strangers) > STRANGERS_MAX:  # the first is out at once: many may come in one turn of the loop
                self._strangers.popitem(last=False)[0].close_now("stranger")
        if self._full(connection):
            self._drop_slowest(lambda other: True, "made room")
        if self.background.stopping or self._full(connection):
            return False
        self._numbered += 1
        connection.number = self._numbered
        self.connections[connection.number] = connection
        return True

    def _full(self, newcomer: Connection) -> bool:
        """Return whether there is no place: some are kept for peers of the Unix socket and for those with a token."""
        most = self.config.connections_max
        if newcomer.authenticated or len(self.connections) < most - most // PLACES_RESERVED:
            return len(self.connections) >= most
        open_ones = sum(not each.authenticated for each in self.connections.values())
        return len(self.connections) >= most or open_ones >= most - most // PLACES_RESERVED

    def remove_connection(self, connection: Connection, how: str) -> None:
        """Forget a connection."""
        self._strangers.pop(connection, None)
        if self.connections.pop(connection.number, None) is None:
            return
        self.measures.ends[how] += 1
        self.peers.release(connection)
        self.producers.release_producer(connection)
        self.committer.discard_replies(connection)
        self.unsubscribe(connection)

    def unsubscribe(self, connection: Connection) -> None:
        """Tell a connection of nothing any more."""
        self.watching.forget_watches(connection)

    def pending_changed(self, connection: Connection, pending: int) -> None:
        """Keep count of the bytes of half-received messages; beyond the budget the longest half-sent one goes."""
        self.peers.unfinished(connection, pending)
        if self.peers.count_bytes(connection, pending - connection.pending_bytes):
            self._drop_slowest(lambda other: other.pending_bytes > 0 and other is not connection, "inbound memory")

    def sweep(self) -> None:
        """Drop the peers that have stalled for too long."""
        limit = time.monotonic() - self.config.stall_s
        for connection in list(self.connections.values()):
            since = connection.stalled_since()
            if since is not None and since < limit:
                connection.close_now("stalled")
        self.rates.note(time.monotonic(), self._counts())

    def _drop_slowest(self, eligible: Callable[[Connection], bool], reason: str) -> None:
        """Drop whoever keeps us waiting longest in the middle of a message."""
        stalled = [(c.stalled_since(), c) for c in self.connections.values() if eligible(c)]
        candidates = [(since, c.number, c) for since, c in stalled if since is not None]
        if candidates:
            _, _, slowest = min(candidates)
            slowest.close_now(reason)
            self.remove_connection(slowest, reason)

    # Requests

    def handle(self, connection: Connection, request: RpcRequest) -> bytes | None:
        """Return the answer's bytes: empty for a notification, LATER when it comes by itself. Never raises."""
        msgid, method, given = request
        try:
            _refuse_forbidden(connection.grant, method)
            params = m.check_params(method, given, notification=msgid is None)
            _refuse_forbidden(connection.grant, method, params)
            gather = None if msgid is None else self.backend.fetch_needed(method, params)
            if gather is None:
                result = self._answered(connection, method, params, msgid)
            else:
                result = partial(self._gathered, gather, connection, method, params, msgid)
            if callable(result):
                self.background.later(method, connection, msgid, cast("Work", result), heavy=gather is None)
                result = LATER
        except AdvisorError as error:
            self.measures.errors[error.code] += 1
            return b"" if msgid is None else encode_error(msgid, error)
        except Exception as error:  # a defect of ours must not cost other clients their service
            defect = self.background.defect(method, connection, error)
            return b"" if msgid is None else encode_error(msgid, defect)
        if msgid is None:
            return b""
        return LATER if result is None else encode_response(msgid, result)

    async def _gathered(
        self, gather: Gather | None, client: Connection, method: str, params: Any, msgid: int | None
    ) -> Any:
        """Return the answer to a question when what it is about is here; raises as its handler."""
        if gather is not None:
            await gather()
        result = self._answered(client, method, params, msgid)
        return await cast("Work", result)() if callable(result) else result

    def _answered(self, connection: Connection, method: str, params: Any, msgid: int | None) -> Any:
        """Return what the handler of a verb answers, see `Handler`; raises as that does."""
        self.engine.fold_plain_rows()
        result = self._verbs[method](connection, params, msgid)
        self.watching.notify()
        return result

    async def ask(self, client: Connection, method: str, given: Mapping[str, Any]) -> Any:
        """Return what a verb answers a client of this process; raises AdvisorError as its handler does."""
        params = m.check_params(method, [given])
        try:
            await self.turns.await_turn(client.path)
            return await self._gathered(self.backend.fetch_needed(method, params), client, method, params, None)
        except AdvisorError:
            raise
        except Exception as error:
            raise self.background.defect(method, client, error) from error

    def _hello(self, connection: Connection, params: m.Hello, msgid: int | None) -> dict[str, Any] | None:
        if params.protocol != PROTOCOL_VERSION:
            raise Unsupported(
                f"the client speaks version {params.protocol} of the protocol, this service version {PROTOCOL_VERSION}",
                field="protocol", value=params.protocol, bound=PROTOCOL_VERSION, hint="install the same version on both sides",
            )  # fmt: skip
        if connection.grant is None:
            if params.token is None:
                raise Unauthorized("no token, or a wrong one", field="token", hint=ASK_OPERATOR)
            identity = "token", digest(params.token.encode())
            grant = self.access.grant(identity)
            if grant is None:
                connection.pause_reading()  # for nothing: it is over
                self.background.spawn(self._refuse_guess, connection, msgid)
                return None
            self._strangers.pop(connection, None)
            connection.identity, connection.grant = identity, grant
            grant.refuse_forbidden("hello", params)
        answer: dict[str, Any] = {
            "protocol": PROTOCOL_VERSION,
            "version": __version__,
            "limits": {name: getattr(limits, name.upper()) for name in HELLO_LIMITS},
            "features": FEATURES,
        }
        if params.producer is not None:
            key = (params.producer, params.incarnation)
            if params.retire:
                return answer | {"sequence": self._retire(key, connection)}
            if self.producers.speakers.get(key) is not connection:
                self.peers.keep(connection, "producers", PRODUCER_BYTES)
            self.producers.speak(key, connection)
            answer["sequence"] = self.committer.sequence(key)
        return answer

    async def _refuse_guess(self, connection: Connection, msgid: int | None) -> None:
        """A wrong token: say so late, and end the connection. So a guess takes a place among the strangers, and time."""
        await self.guessed(connection.peer)
        if connection.number in self.connections:
            connection.refuse(Unauthorized("no token, or a wrong one", field="token", hint=ASK_OPERATOR), msgid)

    async def guessed(self, peer: object) -> None:
        """Count a wrong token, tell of it, and let whoever gave it wait."""
        if (now := time.monotonic()) - self._guess_reported >= GUESSES_REPORTED_S:
            self._guess_reported = now
            event(logging.WARNING, "wrong token", peer=peer)
        self.measures.guesses += 1
        await anyio.sleep(GUESS_S)

    def _retire(self, key: tuple[str, bytes], connection: Connection) -> int:
        """A producer is done: all its batches are answered."""
        self.producers.speak(key, connection)
        sequence = self.committer.sequence(key)
        if sequence == self.engine.applied(*key):
            self.producers.retire(key)
            self.learning.admission.forget_producers([key])
        return sequence

    def _names(self, connection: Connection, params: m.Names, _: int | None) -> dict[str, Any]:
        fresh = params.names[max(0, len(connection.names.numbered) - params.first_id) :]
        size = NAME_BYTES * len(fresh) + sum(map(len, fresh))
        self.peers.keep(connection, "names", size)
        try:
            return {"known": connection.names.number_names(params)}
        except AdvisorError:
            self.peers.count_bytes(connection, -size)
            raise

    def _counts(self) -> tuple[int, int]:
        """Return rows and requests so far."""
        return self.engine.totals.get("rows_accepted", 0), self.measures.answered

    def health(self) -> dict[str, Any]:
        """Return what an operator asks first."""
        failure, now = self.committer.failure, time.monotonic()
        rows_per_s, requests_per_s = self.rates.rates(now, self._counts())
        return {
            "version": __version__,
            "uptime_s": now - self.rates.started,
            "rows_per_s": rows_per_s,
            "requests_per_s": requests_per_s,
            "memory_bytes": resident_bytes(),
            "state": None if self.config.state is None else str(self.config.state.absolute()),
            "connections": len(self.connections),
            "producers": len(self.engine.producers),
            "producers_live": len(self.producers),
            "peer_memory": {"bytes": self.peers.bytes, "bytes_max": self.peers.bytes_max},
            "storage": "none" if not self.committer.durable_storage else "failed" if failure else "ok",
            "storage_failure": None if failure is None else str(failure),
            "stopping": self.background.stopping,
            "commits": sum(self.measures.commit_s.counts),
            "commit_mean_s": self.measures.commit_s.mean,
            "kernels": kernels.states(),
            "watching": {
                "watches": len(self.watching),
                "notifications": dict(self.measures.notifications),
                "replans": dict(self.measures.replans),
            },
            **self.backend.health(),
        }


def _refuse_forbidden(grant: Grant | None, method: str, params: Any = None) -> None:
    """Refuse what a peer may not do, a stranger all but `hello`; raises Unauthorized."""
    if grant is not None and grant.scope != "admin":
        grant.refuse_forbidden(method, params)
    elif grant is None and method != "hello":
        raise Unauthorized("say hello with the token first", field="token")
