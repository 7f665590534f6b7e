"""One client's side of the conversation, sans-IO: rows and calls in, bytes out; bytes in, answers out.

The session owns what must survive a cut: the rows and batches (`outbox`), the calls without an answer. It
has no clock and no socket; a binding moves the bytes and decides when to try again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from advisor.client.outbox import NumberedRequest, Outbox, Then
from advisor.domain.limits import STRUCTURE_BYTES_MAX
from advisor.errors import (
    AdvisorError,
    InvalidValue,
    MalformedMessage,
    SequenceGap,
    TooLarge,
    Unauthorized,
)
from advisor.protocol.connection import ClientConnection, Notice, Reply, encode_request
from advisor.protocol.encoding import EMPTY, Body, encode_numbered
from advisor.protocol.verbs import PROTOCOL_VERSION

BUFFER_ROWS = 100_000  # held for a service that does not answer: about 30 MB
BATCH_ROWS = 1000  # beyond, a larger batch costs no less a row
WINDOW_BATCHES = (
    64  # in flight: with 8, waiting for commits of many components cost 79 % of the rate, with 64 it costs 12 %
)
# Of a call. A first message of number 1 begins as SSL 2 did: a service that takes TLS only would wait for the rest of it.
FIRST_ID = 2
REWINDS_MAX = 8  # in a row without an acknowledgement: then the connection is given up, and backed off from

DISCONNECTED: Final = "disconnected"
GREETING: Final = "greeting"  # hello is sent, not yet answered
READY: Final = "ready"
PAUSED: Final = "paused"  # the service asked to send batches again later: `resume_sending` says when


@dataclass(slots=True)
class Asked:
    """A call that is not answered yet."""

    method: str
    params: Callable[[], Sequence[Any]]
    then: Then
    place: int = 0  # of the last batch that it was asked behind
    standing: bool = False  # asked anew on each connection, until `abandon`


class Session:
    """What one client object has to say, across any number of connections.

    Parameters
    ----------
    producer : str
        Name of this client at the service.
    new_incarnation : callable
        Gives 16 bytes that no other client object ever had.
    token : str, optional
        What the service asks for.
    batch_rows, buffer_rows, window : int
        Rows a batch; rows held; batches in flight.
    """

    def __init__(
        self,
        producer: str,
        new_incarnation: Callable[[], bytes],
        *,
        token: str | None = None,
        batch_rows: int = BATCH_ROWS,
        buffer_rows: int = BUFFER_ROWS,
        window: int = WINDOW_BATCHES,
    ) -> None:
        self.outbox = Outbox(batch_rows, buffer_rows)
        self.stats = self.outbox.stats
        self.state = DISCONNECTED
        self.welcome: dict[str, Any] = {}
        self.failure: AdvisorError | None = None  # why there is no connection, for those who ask in vain
        self._producer = producer
        self._new_incarnation = new_incarnation
        self._incarnation = new_incarnation()
        self._token = token
        self._window = window
        self._connection = ClientConnection()
        self._out = bytearray()
        self._last_id = FIRST_ID - 1
        self.pauses = 0  # how often the service has asked on this connection to send batches again later
        self.answered = 0  # calls that were answered
        self.pushed: Callable[[str, list[Any]], object] = lambda method, params: (
            None
        )  # takes what the service sends by itself
        self.warn: Callable[[str], object] = lambda why: None  # called when the service refuses rows for the first time
        self._calls: dict[int, Asked] = {}
        self._to_ask: deque[int] = deque()  # of them, those not asked on this connection yet
        # What is on its way on this connection, by msgid.
        self._greeting: int | None = None
        self._asked: dict[int, int] = {}
        self._in_flight: dict[int, NumberedRequest] = {}
        self._numbered: dict[int, NumberedRequest] = {}  # numbered calls that somebody waits for
        self._introduced = False  # whether this connection's hello named the producer
        self._rewind = False  # send again from the first unacknowledged, when nothing is in flight any more
        self._rewinds = 0
        self._pause: AdvisorError | None = None

    # -- what the program gives ------------------------------------------------------------------------------------

    def call(self, method: str, params: Sequence[Any], then: Then) -> int:
        """Ask; `then` takes the answer. Asked again after a cut.

        It is asked behind the rows that were taken before it: a service folds what comes first, and so answers from them. It
        waits for no commit. Where the service takes no rows now (its storage fails), the question does not wait for them.
        Raises TooLarge when the question exceeds a message; InvalidValue when it holds what the wire has no form for.
        """
        call = self._new_id()
        try:
            size = len(encode_request(call, method, params))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidValue("params", str(error), "text, numbers, and lists and maps of them") from error
        if size > STRUCTURE_BYTES_MAX:
            raise TooLarge(f"bytes of {method}", size, STRUCTURE_BYTES_MAX, "ask in parts")
        self._calls[call] = Asked(method, lambda: params, then, self.outbox.seal())
        self._to_ask.append(call)
        return call

    def call_numbered(self, body: Body, then: Then) -> int:
        """Make a numbered call, such as `forget`, in its place among the rows. It is made exactly once."""
        call = self._new_id()
        self._numbered[call] = self.outbox.submit(body, then)
        return call

    def abandon(self, call: int) -> None:
        """Nobody waits for this answer any more. A numbered call is made all the same."""
        self._calls.pop(call, None)
        if (request := self._numbered.pop(call, None)) is not None:
            request.then = None

    def stand(self, method: str, params: Callable[[], Sequence[Any]], then: Then) -> int:
        """Ask this on each connection that comes, until `abandon`; `then` takes each answer."""
        call = self._new_id()
        self._calls[call] = Asked(method, params, then, standing=True)
        return call

    def closing(self) -> dict[str, Any] | None:
        """Return the `hello` by which a client that is done gives its number back; None where it has none."""
        if self.state != READY or not self.outbox.last_sequence or not self.outbox.idle:
            return None
        return {"producer": self._producer, "incarnation": self._incarnation, "retire": True}

    @property
    def expecting(self) -> bool:
        """True when the service owes an answer."""
        return self._greeting is not None or bool(self._asked or self._in_flight)

    # -- what the binding does -------------------------------------------------------------------------------------

    def connected(self) -> None:
        """A new connection stands: greet."""
        self.state = GREETING
        self.stats.connections += 1
        self._connection = ClientConnection()
        self._out.clear()
        self._in_flight.clear()
        self._asked.clear()
        self._to_ask = deque(self._calls)
        self._rewind = False
        self._rewinds = self.pauses = 0
        self._pause = None
        self.outbox.rewind()
        self._introduced = False
        self._greet()

    def disconnected(self, error: AdvisorError) -> None:
        """The connection is gone, or could not be made; where none can be had until somebody mends it, nobody waits longer."""
        self.state = DISCONNECTED
        self.failure = error
        self.stats.last_error = str(error)
        if not error.retry:
            for waiting in (*self._calls.values(), *self._numbered.values()):
                if waiting.then is not None and not (isinstance(waiting, Asked) and waiting.standing):
                    waiting.then(error, None)

    def resume_sending(self) -> None:
        """The pause is over: send again from the first batch that is not acknowledged."""
        if self.state == PAUSED:
            self.state = READY

    def outgoing(self) -> bytes:
        """Return the bytes to send now. Cost O(bytes)."""
        if self.state == READY and not (self._introduced or self.outbox.idle):
            self.state = GREETING
            self._greet()
        elif self.state == READY:
            self._ask_behind_rows()
            while not self._rewind and len(self._in_flight) < self._window and (batch := self.outbox.next_batch()):
                msgid = self._new_id()
                self._in_flight[msgid] = batch
                self._out += encode_numbered(msgid, batch.body, self._producer, self._incarnation, batch.sequence)
                self._ask_behind_rows()
        elif self.state == PAUSED:
            self._ask_behind_rows(waiting=False)
        out = bytes(self._out)
        self._out.clear()
        return out

    def receive_answers(self, data: bytes | memoryview) -> AdvisorError | None:
        """Hand on what the bytes say; return why the connection is of no more use: close it, back off, connect again."""
        try:
            replies = self._connection.receive_replies(data)
        except (MalformedMessage, TooLarge) as error:
            return error.detached()
        for reply in replies:
            if isinstance(reply, Notice):
                self.pushed(*reply)
            elif (over := self._take(reply)) is not None:
                return over
        return None

    # -- sending ---------------------------------------------------------------------------------------------------

    def _new_id(self) -> int:
        self._last_id = (self._last_id + 1) % 2**32
        return self._last_id

    def _greet(self) -> None:
        """Say hello: as a producer once there is something to number, so that a client that only asks may do so read-only."""
        hello: dict[str, Any] = {"protocol": PROTOCOL_VERSION}
        self._introduced = bool(self.outbox.last_sequence) or not self.outbox.idle
        if self._introduced:
            hello |= {"producer": self._producer, "incarnation": self._incarnation}
        if self._token is not None:
            hello["token"] = self._token
        self._greeting = self._new_id()
        self._out += encode_request(self._greeting, "hello", [hello])

    def _ask_behind_rows(self, *, waiting: bool = True) -> None:
        """Ask what is behind no row that is still to be sent."""
        while self._to_ask:
            asked = self._calls.get(self._to_ask[0])
            if asked is not None and waiting and (self._rewind or not self.outbox.sent(asked.place)):
                return
            call = self._to_ask.popleft()
            if asked is not None:  # else nobody waits for it any more
                msgid = self._new_id()
                self._asked[msgid] = call
                self._out += encode_request(msgid, asked.method, asked.params())

    # -- receiving -------------------------------------------------------------------------------------------------

    def _take(self, reply: Reply) -> AdvisorError | None:
        """Hand an answer on; return why the connection is of no more use."""
        msgid = reply.msgid
        if msgid is None:
            return reply.error or MalformedMessage("an answer to nothing")
        if msgid == self._greeting:
            return self._greeted(reply)
        if msgid in self._asked:
            call = self._asked.pop(msgid)
            asked = self._calls.get(call)
            if asked is not None and not asked.standing:
                del self._calls[call]
            elif asked is not None and reply.error is not None:
                self.stats.last_error = str(reply.error)
            self._answer(asked, reply.error, reply.result)
            return None
        batch = self._in_flight.pop(msgid, None)
        return None if batch is None else self._settled(batch, reply)

    def _answer(self, asked: Asked | NumberedRequest | None, error: AdvisorError | None, result: Any) -> None:
        """Hand an answer to who waits for it, if anybody does."""
        if asked is not None and asked.then is not None:
            self.answered += 1
            asked.then(error, result)

    def _greeted(self, reply: Reply) -> AdvisorError | None:
        self._greeting = None
        if reply.error is not None:
            return reply.error
        self.welcome = cast("dict[str, Any]", reply.result if isinstance(reply.result, dict) else {})
        durable = self.welcome.get("sequence") or 0
        if type(durable) is not int:
            return MalformedMessage("hello was answered without a number", field="sequence", value=durable)
        if self._introduced and not self.outbox.acknowledged <= durable <= self.outbox.last_sequence:
            # The service lost its state, or knows more of us than we said: as a new one we agree on everything.
            self.outbox.renumber(durable)
            self._incarnation = self._new_incarnation()
            self._greet()
            return None
        self.outbox.acknowledge(durable)
        self.state = READY
        self.failure = None
        for request in self._numbered.values():
            if request.durable:
                self._answer(request, None, None)
        return None

    def _settled(self, batch: NumberedRequest, reply: Reply) -> AdvisorError | None:
        """A batch has its answer."""
        error = reply.error
        if error is None:
            self._rewinds = 0
            self.outbox.acknowledge(batch.sequence)
            if why := self.outbox.count_receipt(reply.result):
                self.warn(why)
            self._answer(batch, None, reply.result)
        elif batch.durable:
            pass  # a later one was acknowledged, and this one with it
        elif isinstance(error, SequenceGap):
            if error.bound not in range(self.outbox.acknowledged + 1, batch.sequence + 1):
                return error  # hello will tell where the service stands
            self._rewind = True
        elif error.retry:
            self._rewind = True
            self._pause = error
        elif batch.body is EMPTY or isinstance(error, Unauthorized):
            return error
        else:
            self._rewind = True
            self._answer(batch, error, None)
            self.outbox.refuse_for_ever(batch, error)
        return self._go_back(error) if self._rewind and not self._in_flight else None

    def _go_back(self, error: AdvisorError | None) -> AdvisorError | None:
        """Everything in flight is answered: begin again with the first batch that is not acknowledged."""
        self._rewind = False
        self._rewinds += 1
        self.outbox.rewind()
        if self._pause is not None:
            self.state, self.stats.last_error = PAUSED, str(self._pause)
            self.pauses += 1
            self._pause = None
            return None
        return error if self._rewinds > REWINDS_MAX else None
