"""The asynchronous client: the session on anyio, with reconnection, batching by time and a bounded buffer."""

from __future__ import annotations

import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc

from advisor.client.address import parse_address, usual_address, usual_tls, usual_token
from advisor.client.link import Link
from advisor.client.outcomes import Answered, Pushed, Stats
from advisor.client.policy import WhenFull, buffer_full, check_policy
from advisor.client.rows import TakesRows
from advisor.client.session import BATCH_ROWS, GREETING, PAUSED, READY, WINDOW_BATCHES, Session
from advisor.client.taking import LEFT, TAKEN, Taken
from advisor.client.verbs import Answer, Awaits
from advisor.client.watching import Followed
from advisor.domain.shapes import read
from advisor.errors import AdvisorError, ConnectionFailed, NotAnswered
from advisor.protocol import verbs as v
from advisor.protocol.declaring import Question, sent
from advisor.protocol.encoding import Body

BUFFER_ROWS = 100_000  # held for a service that does not answer: about 30 MB
LINGER_S = 0.02  # a row waits so long for others to fill its batch
TIMEOUT_S = 10.0  # of a question, its connection included
UNREACHABLE_S = 0.9  # of a question to a service that never greeted this client and cannot be reached
UNDURABLE = "the service is connected; its log, status or /readyz says whether its storage fails, or is slow"
UNANSWERED = "the service is connected; give it longer with timeout_s"
CLOSE_S = 5.0  # given to what is held when the client closes


def default_producer() -> str:
    """Return a producer's name for this process."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}"


class AsyncClient(Awaits, TakesRows[Taken[bool], Taken[int]]):
    """A client of the service, for anyio and asyncio programs; use it as an asynchronous context manager.

    Rows are taken at once and sent in numbered batches behind the program's back: through cuts, restarts and crashes of
    the service each acknowledged row is counted once. Questions wait for their answer, at most `timeout_s`.

    Parameters
    ----------
    address : str, optional
        ``unix:/path`` or a path, ``tcp://host:port`` or ``host:port``. By default what ADVISOR_SOCKET or ADVISOR_TCP says, else
        where `advisor serve` listens.
    producer : str, optional
        Name of this client at the service; host and process by default.
    token : str, optional
        What a service beyond this machine asks for. By default what the file that ADVISOR_TOKEN_FILE names holds.
    tls : ssl.SSLContext or bool, optional
        Encrypts TCP. True: the service's certificate is checked by the authorities that this machine trusts. By default
        ADVISOR_TLS_CA names a PEM file of authorities (or ``system``), ADVISOR_TLS_CERTIFICATE one with a certificate and key
        of the client's own; without both TCP is plain.
    when_full : {"drop_newest", "drop_oldest", "block", "raise"}
        What happens to rows beyond `buffer_rows`. The default drops and counts: a scheduler never waits.
    buffer_rows, batch_rows, window : int
        Rows held; rows a batch; batches in flight.
    linger_s : float
        How long a row waits for others to fill its batch.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        producer: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | bool | None = None,
        when_full: WhenFull = "drop_newest",
        buffer_rows: int = BUFFER_ROWS,
        batch_rows: int = BATCH_ROWS,
        window: int = WINDOW_BATCHES,
        linger_s: float = LINGER_S,
        timeout_s: float = TIMEOUT_S,
        close_s: float = CLOSE_S,
    ) -> None:
        self._address = parse_address(usual_address() if address is None else address)
        context = ssl.create_default_context() if tls is True else usual_tls() if tls is None else tls or None
        self._token = token = usual_token() if token is None else token
        self._when_full = check_policy(when_full)
        self._buffer_rows = buffer_rows
        self.timeout_s = timeout_s
        self._close_s = close_s
        self._session = Session(
            producer or default_producer(), lambda: os.urandom(16), token=token, batch_rows=batch_rows, window=window
        )
        self._outbox = self._session.outbox
        self.counts = self._session.stats  # as they stand, without a copy
        self._answers: dict[int, tuple[anyio.Event, list[Answered]]] = {}
        self.subscriptions = Followed(self._session, self.ask)
        self._group: anyio.abc.TaskGroup | None = None
        self._link = Link(
            self._address, context, self._session, linger_s=linger_s, tell=self._tell, told=self._take_push,
            failed=self._failed,
        )  # fmt: skip
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncClient: {self.summary}>"

    @property
    def summary(self) -> str:
        """Where the client stands, in words."""
        state = "closed" if self._closed else self._session.state
        return (
            f"{self._address}, {state}, {self.counts.rows_held} rows held, {self.counts.rows_acknowledged} acknowledged"
        )

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._link.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            await self.close()
        self._closed = True
        self._link.stop()
        group, self._group = self._group, None
        if group is None:
            return None
        if isinstance(error, Exception):  # the program's own: not to be wrapped in a group
            await group.__aexit__(None, None, None)
            return None
        return await group.__aexit__(kind, error, trace)

    async def close(self, within_s: float | None = None) -> None:
        """Send what is held, for at most `close_s` seconds, and end. What is held still is counted in `stats`."""
        if self._closed:
            return
        with anyio.move_on_after(self._close_s if within_s is None else within_s):
            await self.drained()
            farewell = self._session.farewell()
            if farewell is not None:
                with suppress(AdvisorError):  # a service that does not know of it forgets us by itself
                    await self._answer(self._session.call("hello", [farewell]), "hello", dict[str, Any], self._close_s)
        self._closed = True
        self._link.stop()

    # -- rows ------------------------------------------------------------------------------------------------------

    def _take_row(self, row: list[Any]) -> Taken[bool]:
        if self.room(1):
            self.take(row)
            return TAKEN
        waits = self._offer([row])
        return Taken(False, waits.rest_is_taken, waits.drop) if waits.items else TAKEN if waits.taken else LEFT

    def _take_batches(self, bodies: Sequence[Body]) -> Taken[int]:
        waits = self._offer(bodies)
        return Taken(waits.taken, waits.rest_is_counted, waits.drop) if waits.items else Taken(waits.taken)

    async def names(self, names: Sequence[str]) -> int:
        """Number names for `index` columns, on every connection of this client; return the first's number."""
        return self._session.declare(list(names))

    async def flush(self, timeout_s: float | None = None) -> Stats:
        """Wait until every row taken is durable at the service, or refused; return the counts.

        A question needs no flush: it is answered from the rows that were given before it, durable or not.

        Raises
        ------
        NotAnswered
            When that takes longer than `timeout_s` (the client's by default) on a connection that stands.
        ConnectionFailed
            When there is no connection. Either way the rows are held and sent on.
        """
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        if await self._within(timeout_s, self.drained):
            return self.stats()
        raise self._why_silent(f"{self.stats().rows_held} rows are not durable after {timeout_s:.3g} s", UNDURABLE)

    def stats(self) -> Stats:
        """Return what became of the rows so far."""
        stats = self._session.stats
        return replace(
            stats, refused_by_code=stats.refused_by_code.copy(), last_refused=stats.last_refused.copy()
        )  # fmt: skip

    # -- questions -------------------------------------------------------------------------------------------------

    async def greet(self, timeout_s: float | None) -> dict[str, Any]:
        """Return the answer to `hello`."""
        call = self._session.call("hello", [{"protocol": v.PROTOCOL_VERSION} | sent(v.Hello(token=self._token))])
        return await self._answer(call, "hello", dict[str, Any], timeout_s)

    async def change(self, body: Body, timeout_s: float | None) -> dict[str, Any]:
        """Make a numbered call in its place among the rows."""
        return await self._answer(self._session.call_numbered(body), body.method, dict[str, Any], timeout_s)

    def ask(self, asked: Question, answer: type[Answer]) -> Coroutine[Any, Any, Answer]:
        """Ask the service, and return its answer as that type; raises at once what is wrong with the question."""
        return self._asked(asked.verb.name, sent(asked), answer, asked.timeout_s)

    # -- inside: rows ----------------------------------------------------------------------------------------------

    def take(self, item: Sequence[Any] | Body) -> None:
        """Take a row or a batch, room or not."""
        if isinstance(item, Body):
            self._outbox.submit(item)
            self._link.wake()
            return
        filling = self._outbox.filling
        self._outbox.observe(item)
        if filling != self._outbox.filling:  # a batch begins, whose time must be kept, or is full
            self._link.wake()

    async def progress(self) -> None:
        """Wait until the service has answered something, or the connection is gone."""
        await self._link.progress.wait()

    async def progress_or(self, ready: Callable[[], bool]) -> None:
        """Wait for `progress`, unless it is so already, or the client is closed."""
        progress = self._link.progress
        if not self._closed and not ready():
            await progress.wait()

    def fileno(self) -> int | None:
        """Return the file descriptor of the connection that stands."""
        return self._link.fileno()

    def room(self, rows: int) -> bool:
        """True when the buffer takes so many rows more. An empty buffer takes any one batch."""
        held = self._session.stats.rows_held
        return not self._closed and (held + rows <= self._buffer_rows or not held)

    def _offer(self, items: Sequence[Sequence[Any] | Body]) -> _Waits:
        """Take rows and batches as far as there is room, or `when_full` makes it; return what then waits for more."""
        waits = _Waits(self, deque(items))
        while waits.items:
            rows = rows_of(waits.items[0])
            if not self.room(rows) and self._when_full == "block" and not self._closed:
                break
            item = waits.items.popleft()
            if self._make_room(rows):
                self.take(item)
                waits.taken += rows
        return waits

    def _make_room(self, rows: int) -> bool:
        """Do what `when_full` says, which does not wait; return whether there is room now."""
        while self._when_full == "drop_oldest" and not self.room(rows) and self._outbox.drop_oldest():
            pass
        if self.room(rows):
            return True
        self._outbox.drop_new(rows)
        if self._when_full == "raise":
            raise buffer_full(self._session.stats.rows_held, self._buffer_rows)
        return False

    async def drained(self) -> None:
        """Wait until nothing that was taken is left, however long that takes."""
        self._outbox.seal()
        self._link.wake()
        while not self._outbox.idle:
            await self._link.progress.wait()
            self._outbox.seal()
            self._link.wake()

    # -- inside: questions -----------------------------------------------------------------------------------------

    async def _asked(
        self, method: str, params: Mapping[str, Any], answer: type[Answer], timeout_s: float | None
    ) -> Answer:
        return await self._answer(self._session.call(method, [params]), method, answer, timeout_s)

    async def _answer(self, call: int, method: str, answer: type[Answer], timeout_s: float | None) -> Answer:
        if self._closed or self._group is None:
            self._session.abandon(call)
            raise ConnectionFailed("the client is closed, or not entered", field="address", value=str(self._address))
        arrived: list[Answered] = []
        event = anyio.Event()
        self._answers[call] = event, arrived
        self._link.wake()
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            await self._within(timeout_s, event.wait)
        finally:
            del self._answers[call]
            self._session.abandon(call)
        if not arrived:
            raise self._why_silent(f"{method} was not answered within {timeout_s:.3g} s", UNANSWERED)
        _, error, result = arrived.pop()
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame: neither may hold it
        return read(answer, result)

    async def _within(self, timeout_s: float, wait: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        """Return whether the wait ended in time; a service that cannot be reached, or refuses us, is given `UNREACHABLE_S`."""
        for seconds in (min(timeout_s, UNREACHABLE_S), max(0.0, timeout_s - UNREACHABLE_S)):
            with anyio.move_on_after(seconds):
                await wait()
                return True
            failure = self._session.failure
            if failure is not None and not (self._session.welcome and failure.retry):
                break
        return False

    def _why_silent(self, what: str, connected: str) -> AdvisorError:
        """Return the error of what did not come in time: of a connection, where there is none, or of a slow service."""
        session, address = self._session, str(self._address)
        if session.state in (READY, PAUSED) or (session.state == GREETING and session.failure is None):
            why = f"{what}: {session.stats.last_error}" if session.state == PAUSED else what
            return NotAnswered(why, field="address", value=address, hint=connected)
        failure = session.failure or ConnectionFailed("no connection yet", hint="is the service running?")
        if not failure.retry:
            return failure.detached()
        return ConnectionFailed(f"{what}: {failure.message}", field="address", value=address, hint=failure.hint)

    def _tell(self, answer: Answered) -> None:
        waiting = self._answers.get(answer.call)
        if waiting is not None and not waiting[1]:
            waiting[1].append(answer)
            waiting[0].set()

    def _take_push(self, push: Pushed) -> None:
        if push.params:
            self.subscriptions.take_push(push.method, push.params[0])

    def _failed(self, error: AdvisorError) -> None:
        for call in list(self._answers):
            self._tell(Answered(call, error, None))


@dataclass(slots=True)
class _Waits:
    """Rows and batches that wait for room in the buffer, in their order."""

    client: AsyncClient
    items: deque[Sequence[Any] | Body]
    taken: int = 0

    async def rest_is_counted(self) -> int:
        """Take them as room comes; return how many rows were taken in all."""
        client = self.client
        while self.items:
            await client.progress_or(lambda: client.room(rows_of(self.items[0])))
            more = client._offer(self.items)  # pyright: ignore[reportPrivateUsage]
            self.taken, self.items = self.taken + more.taken, more.items
        return self.taken

    async def rest_is_taken(self) -> bool:
        """Take the one row when there is room."""
        return bool(await self.rest_is_counted())

    def drop(self) -> None:
        """Count them as dropped."""
        for item in self.items:
            self.client._outbox.drop_new(rows_of(item))  # pyright: ignore[reportPrivateUsage]


def rows_of(item: Sequence[Any] | Body) -> int:
    """Return how many rows an item of a buffer is."""
    return item.rows if isinstance(item, Body) else 1
