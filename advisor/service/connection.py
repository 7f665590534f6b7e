"""One client's byte stream: bytes in, answers out, at the pace of the service and not of the peer.

Callbacks instead of a task a connection: a request is answered inside the read that completed it, which takes 16
microseconds a round trip where a task that awaits its stream takes 20 (bare sockets: 10). See decision 100.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, cast

from advisor.domain import limits
from advisor.errors import AdvisorError, Unavailable
from advisor.protocol.columns import ConnectionNames
from advisor.protocol.connection import (
    RpcRequest,
    ServerConnection,
    Singles,
    Violation,
    encode_error,
    encode_notification,
    encode_response,
)
from advisor.protocol.verbs import METHODS
from advisor.service.access import Access, Grant, Identity, shown_by
from advisor.service.logs import event
from advisor.service.measures import ServiceMeasures
from advisor.service.turns import Path, WorkTurns

READ_BYTES = 2**18  # taken from a socket at a time, into one buffer that all connections share
CROWDED_BYTES = 2**14  # taken while somebody waits for a turn: a thousand connections keep 16 MiB until it is theirs
OUT_BYTES_HIGH = 2**18  # unsent answers of one connection; above, none of its requests is read or worked on
OUT_BYTES_LOW = 2**16
STRANGER_BYTES_MAX = 2**16  # of a peer before it has shown a token: a hello with one takes 5 KB at most
SLICE_S = 0.002  # worked for one connection before the others have their turn
NOTABLE_S = 0.0002  # after less, another connection's rows need not wait for the loop to read again
PLAIN_METHOD = "observe_rows"  # whose batches may take the short way
ROWS_BRING = frozenset(name for name, verb in METHODS.items() if verb.scope == "write")


class RowLearner(Protocol):
    """What a connection asks of `advisor.service.learning`."""

    def learn_plain_batches(
        self, connection: Connection, backlog: deque[Any], most: int
    ) -> tuple[int, list[bytes]]: ...
    def fold_singles(self, connection: Connection, rows: list[Any]) -> None: ...


class Service(Protocol):
    """What a connection asks of the service it belongs to, `advisor.service.hub`."""

    access: Access
    measures: ServiceMeasures
    read_buffer: memoryview
    turns: WorkTurns

    @property
    def learning(self) -> RowLearner: ...
    def add_connection(self, connection: Connection) -> bool: ...
    def remove_connection(self, connection: Connection, how: str) -> None: ...
    def unsubscribe(self, connection: Connection) -> None: ...
    def pending_changed(self, connection: Connection, pending: int) -> None: ...
    def handle(self, connection: Connection, request: RpcRequest) -> bytes | None: ...


class Connection(asyncio.BufferedProtocol):
    """A client. Made by a listener, known to the hub from `connection_made` to `connection_lost`."""

    watches_max = 16  # each may cost plans for as long as it stands

    def __init__(self, hub: Service) -> None:
        self.number = 0  # connections are numbered as they come: of two, the newer has the higher number
        self.identity: Identity | None = None  # what the peer has shown of itself
        self.grant: Grant | None = None  # what it may do; None while it is a stranger
        self._strange_bytes = 0  # taken in before we knew who it is
        self.names = ConnectionNames()
        self.peer = "unix"
        self.heavy_jobs = 0
        self._hub = hub
        self._framing = ServerConnection()
        self._transport = cast("asyncio.Transport", None)
        self._backlog: deque[RpcRequest | Singles | Violation] = deque()
        self._undecoded = b""  # read while the time for work out of turn was used up
        self._unanswered = 0
        self._held_back = False  # reading is paused by us
        self._unsent_since: float | None = None
        self._unfinished_since: float | None = None
        self._scheduled = False
        self._closing_since: float | None = None
        self._arrived = 0.0
        self._draining = False  # takes no new requests
        # True once the peer sends no more: it may still read what is owed to it, but subscribes to nothing
        self.ended = False
        self.here = True  # until it is gone: nobody waits for the answers of others
        self._waits = 0  # reasons to work on nothing more, see `wait`
        self.pending_bytes = 0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the hub, or be turned away when it is full."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(OUT_BYTES_HIGH, OUT_BYTES_LOW)
        address: Any = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.peer = f"{address[0]}:{address[1]}"
            # The system finds out about a peer that is gone without a word.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.identity = shown_by(transport)
        self.grant = self._hub.access.grant(self.identity)
        self._arrived = time.monotonic()
        if not self._hub.add_connection(self):
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the hub; answers not sent are dropped, what they acknowledge stays."""
        self.ended, self.here = True, False
        self._backlog.clear()
        self._undecoded = b""
        self._hub.remove_connection(self, "error" if exc else "closed")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer that all connections read into: it is emptied before another can read."""
        buffer = self._hub.read_buffer
        return buffer[:CROWDED_BYTES] if self._hub.turns.awaited else buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what was read."""
        if self.grant is None:
            self._strange_bytes += nbytes
            if self._strange_bytes > STRANGER_BYTES_MAX:
                self.close_now("stranger")
                return
        turns, data = self._hub.turns, self._hub.read_buffer[:nbytes]
        if not turns.may_ask:
            self._undecoded += data
            self._go_on()
            return
        turn, began = turns.free, time.perf_counter()
        self._decode(data)
        if (spent_s := time.perf_counter() - began) > NOTABLE_S:
            turns.worked(spent_s)
        if self._backlog and not self._scheduled:
            self._handle_messages(turn=turn)

    def _decode(self, data: bytes | memoryview) -> None:
        events = self._framing.receive_requests(data)
        pending = self._framing.pending_bytes
        if pending != self.pending_bytes:
            self._hub.pending_changed(self, pending)
            self.pending_bytes = pending
        if not pending:
            self._unfinished_since = None
        elif events or self._unfinished_since is None:
            self._unfinished_since = time.monotonic()
        self._backlog.extend(events)

    def eof_received(self) -> bool:
        """The peer sends no more, but may still read what is owed to it: closed when that is written, and then sent."""
        self.ended = True
        self._hub.unsubscribe(self)
        self._go_on()
        return not self._transport.is_closing()

    def pause_writing(self) -> None:
        """The peer does not read: stop reading and working for it."""
        self._unsent_since = time.monotonic()
        self._go_on()

    def resume_writing(self) -> None:
        """The peer has read."""
        self._unsent_since = None
        self._go_on()

    # our side

    @property
    def authenticated(self) -> bool:
        """True when the peer came over the Unix socket, or has shown a token."""
        return self.identity is not None and self.identity[0] != "open"

    def answer(self, msgid: int | None, result: AdvisorError | dict[str, Any]) -> None:
        """Send the answer to a request that was taken for later."""
        if isinstance(result, AdvisorError):
            self._hub.measures.errors[result.code] += 1
            self.release([encode_error(msgid, result)])
        elif msgid is not None:
            self.release([encode_response(msgid, result)])

    def release(self, answers: list[bytes]) -> None:
        """Send answers that were held back."""
        self._unanswered -= len(answers)
        if self._transport.is_closing():
            return
        self._transport.write(b"".join(answers))
        self._go_on()

    def pause_reading(self) -> None:
        """Work on nothing more, and read no more, until `resume`."""
        self._waits += 1
        self._go_on()

    def resume_reading(self) -> None:
        """Go on after `wait`."""
        self._waits -= 1
        self._go_on()

    @property
    def reads(self) -> bool:
        """True while the peer has read enough of what was sent to it for more to be sent."""
        return self._unsent_since is None and not self._transport.is_closing()

    def send_notification(self, advice: Mapping[str, Any]) -> None:
        """Send advice about a watch."""
        if not self._transport.is_closing():
            self._transport.write(encode_notification("advice", [[advice]]))

    def stalled_since(self) -> float | None:
        """Return since when the peer owes something: the rest of a message, a token, its reading; None if nothing."""
        if self._closing_since is not None or self._unsent_since is not None:
            return self._closing_since or self._unsent_since
        if self.grant is None:
            return self._arrived
        return None if self._held_back else self._unfinished_since

    def close_now(self, reason: str) -> None:
        """Close at once, whatever is unsent."""
        event(logging.INFO, "connection dropped", connection=self.number, peer=self.peer, reason=reason)
        self._hub.measures.ends[reason] += 1
        self._transport.abort()

    def refuse(self, error: AdvisorError, msgid: int | None = None) -> None:
        """Say why this connection cannot be, and close it."""
        self._hub.measures.errors[error.code] += 1
        self._backlog.clear()
        self._transport.write(encode_error(msgid, error))
        self._close()

    @property
    def path(self) -> Path:
        """By which the turns go round: identity, then connection."""
        return (self.identity, self.number)

    def stop_reading(self) -> None:
        """Take no new requests: the service is stopping."""
        self._draining = True
        self._go_on()

    def finish(self) -> None:
        """Close when everything owed is sent."""
        if self._backlog or self._undecoded or self._unanswered:
            self.refuse(Unavailable("the service is stopping", hint="connect again, and send what was not answered"))
        else:
            self._close()

    @property
    def idle(self) -> bool:
        """True when nothing received is unanswered, and nothing answered is unsent."""
        return not (
            self._unanswered
            or self._waits
            or self._backlog
            or self._undecoded
            or self._transport.get_write_buffer_size()
        )

    def _close(self) -> None:
        """Close when what is written has been read."""
        self._closing_since = time.monotonic()
        self._transport.close()

    def _go_on(self) -> None:
        """Read while there is room for what it brings, work on what was read, close when all is done."""
        if self._transport.is_closing():
            return
        waiting, stuck = bool(self._backlog or self._undecoded), self._stuck()
        hold = self._draining or self.ended or waiting or stuck
        if hold != self._held_back:
            self._held_back = hold
            if hold:
                self._transport.pause_reading()
            else:
                if self._unfinished_since is not None:
                    self._unfinished_since = time.monotonic()
                self._transport.resume_reading()
        if waiting and not self._scheduled and not stuck:
            self._scheduled = True
            self._hub.turns.request_turn(self.path, self._continue)
        elif self.ended and not (waiting or self._unanswered or self._waits):
            self._close()

    def _continue(self) -> None:
        self._scheduled = False
        if not self._transport.is_closing():
            data, self._undecoded = self._undecoded, b""
            if data:
                self._decode(data)
            self._handle_messages(turn=True)

    def _stuck(self) -> bool:
        """True while requests wait: for the peer to read, for a commit or an image."""
        return self._unsent_since is not None or self._waits > 0 or self._unanswered >= limits.UNANSWERED_MAX

    def _handle_messages(self, *, turn: bool) -> None:
        """Answer what was received, for a slice of time, in one write; rows only in a turn, questions also out of turn.

        A defect of ours ends the connection, for what it has cut off nobody would answer.
        """
        backlog, hub = self._backlog, self._hub
        answers: list[bytes] = []
        answered_bytes = 0
        began = last = time.perf_counter()
        try:
            while backlog and answered_bytes <= OUT_BYTES_HIGH and last - began <= SLICE_S and not self._stuck():
                if not turn and (_brings_rows(backlog[0]) or not hub.turns.may_ask):
                    break
                message: Any = backlog[0]
                if type(message) is RpcRequest and message.method == PLAIN_METHOD:
                    unanswered = limits.UNANSWERED_MAX - self._unanswered
                    taken, answered = hub.learning.learn_plain_batches(self, backlog, unanswered)
                    if taken:
                        self._unanswered += taken - len(answered)
                        answers += answered
                        now = time.perf_counter()
                        hub.measures.count_requests(PLAIN_METHOD, (now - last) / taken, taken)
                        last = now
                        continue
                backlog.popleft()
                if type(message) is Violation:
                    self._violation(message, answers)
                    return
                answer, last = self._handle(message, last)
                answers.append(answer)
                answered_bytes += len(answer)
        except Exception as defect:
            event(logging.ERROR, "defect in a connection", error=defect, connection=self.number, peer=self.peer)
            self.close_now("defect")
            return
        if answers:
            self._transport.write(b"".join(answers))  # of nothing, too: asyncio then does nothing
        if last - began > NOTABLE_S:
            hub.turns.worked(0.0 if turn else last - began)
        self._go_on()

    def _handle(self, request: Any, last: float) -> tuple[bytes, float]:
        """Return the answer, empty where it comes later or not at all, and the time after it; `last` was that before it."""
        hub = self._hub
        if type(request) is Singles:
            if len(request.rows) > limits.ROWS_BATCH_MAX:
                self._backlog.appendleft(Singles(request.rows[limits.ROWS_BATCH_MAX :]))
            hub.learning.fold_singles(self, request.rows[: limits.ROWS_BATCH_MAX])
            now = time.perf_counter()
            hub.measures.count_requests("observe", now - last)
            return b"", now
        jobs = self.heavy_jobs
        answer = hub.handle(self, request)
        if answer is None:
            self._unanswered += request.msgid is not None
        now = time.perf_counter()
        # What is answered by work in the background is measured at its end; what waits for a commit, when it is folded.
        if answer is not None or self.heavy_jobs == jobs:
            hub.measures.count_requests(request.method if request.method in METHODS else "unknown", now - last)
        return answer or b"", now

    def _violation(self, violation: Violation, answers: list[bytes]) -> None:
        """The bytes are no protocol: say so, and close; what follows may be garbage."""
        self._hub.measures.errors[violation.error.code] += 1
        event(logging.INFO, "protocol violated", connection=self.number, peer=self.peer, reason=violation.error)
        self._transport.write(b"".join([*answers, violation.reply]))
        self._close()


def _brings_rows(message: RpcRequest | Singles | Violation) -> bool:
    return type(message) is Singles or (type(message) is RpcRequest and message.method in ROWS_BRING)
