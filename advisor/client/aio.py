"""The asynchronous client: the session on anyio, with reconnection, batching by time and a bounded buffer."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypedDict, get_args

import anyio
import anyio.abc

from advisor.client.address import parse_address, usual_address, usual_tls, usual_token
from advisor.client.link import Link
from advisor.client.outbox import Then
from advisor.client.outcomes import Stats
from advisor.client.rows import Count, Item, Taken, TakesRows, WhenFull, rows_of
from advisor.client.session import BATCH_ROWS, BUFFER_ROWS, GREETING, PAUSED, READY, WINDOW_BATCHES, Session
from advisor.client.verbs import Answer, Awaits
from advisor.client.watching import Followed
from advisor.domain.shapes import read
from advisor.errors import AdvisorError, ConnectionFailed, NotAnswered, Unauthorized, not_one_of
from advisor.protocol.declaring import Question, sent
from advisor.protocol.encoding import Body

LINGER_S = 0.02  # a row waits so long for others to fill its batch
TIMEOUT_S = 10.0  # of a question, its connection included
UNREACHABLE_S = 0.9  # of a question to a service that never greeted this client and cannot be reached
UNDURABLE = "the service is connected; its log, status or /readyz says whether its storage fails, or is slow"
UNANSWERED = "the service is connected; give it longer with timeout_s"
CLOSE_S = 5.0  # given to what is held when the client closes


def default_producer() -> str:
    """Return a producer's name for this process."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}"


class ClientOptions(TypedDict, total=False):
    """What both clients take beside an address."""

    producer: str | None
    token: str | None
    tls: ssl.SSLContext | bool | None
    when_full: WhenFull
    buffer_rows: int
    batch_rows: int
    window: int
    linger_s: float
    timeout_s: float
    close_s: float


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
    when_full : {"drop_newest", "block"}
        What happens to rows beyond `buffer_rows`. The default drops and counts: a scheduler never waits.
    buffer_rows, batch_rows, window : int
        Rows held; rows a batch; batches in flight.
    linger_s : float
        How long a row waits for others to fill its batch.
    timeout_s, close_s : float
        Given to a question; to what is held when the client closes.
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
        token = usual_token() if token is None else token
        if when_full not in get_args(WhenFull):
            raise not_one_of("when_full", when_full, get_args(WhenFull))
        self._blocks = when_full == "block"
        self.timeout_s = timeout_s
        self._close_s = close_s
        self._session = Session(
            producer or default_producer(), lambda: os.urandom(16), token=token, batch_rows=batch_rows,
            buffer_rows=buffer_rows, window=window,
        )  # fmt: skip
        self.outbox = self._session.outbox
        self.subscriptions = Followed(self._session, self.ask)
        self._group: anyio.abc.TaskGroup | None = None
        self._link = Link(self._address, context, self._session, linger_s=linger_s)
        self.wake = self.outbox.notify = self._link.wake
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncClient: {self.summary}>"

    @property
    def summary(self) -> str:
        """Where the client stands, in words."""
        state, stats = "closed" if self._closed else self._session.state, self._session.stats
        return f"{self._address}, {state}, {stats.rows_held} rows held, {stats.rows_acknowledged} acknowledged"

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
        self._end()
        group, self._group = self._group, None
        if group is None:
            return None
        if isinstance(error, Exception):  # the program's own: not to be wrapped in a group
            await group.__aexit__(None, None, None)
            return None
        return await group.__aexit__(kind, error, trace)

    async def close(self, within_s: float | None = None) -> None:
        """Send what is held, for at most `close_s` seconds, and end; at once, where the service refuses this client.

        What is held still is counted in `stats`.
        """
        if self._closed:
            return
        with anyio.move_on_after(self._close_s if within_s is None else within_s):
            await self.drained(unless_refused=True)
            closing = self._session.closing()
            if closing is not None:
                with suppress(AdvisorError):  # a service that does not know of it forgets us by itself
                    await self._asked("hello", closing, dict[str, Any], self._close_s)
        self._end()

    def _end(self) -> None:
        self._closed = True
        self.outbox.close()
        self._link.stop()

    # -- rows ------------------------------------------------------------------------------------------------------

    def _take_row(self, row: list[Any]) -> Taken[bool]:
        return self._take(bool, (row,))

    def _take_batches(self, bodies: Sequence[Body]) -> Taken[int]:
        return self._take(int, bodies)

    def _take(self, kind: Callable[[int], Count], items: Sequence[Item]) -> Taken[Count]:
        """Take rows and batches as far as there is space; what then is left waits where `when_full` says so."""
        taken = 0
        for at, item in enumerate(items):
            if self.outbox.enqueue(item):
                taken += rows_of(item)
            elif self._blocks and not self._closed:
                return Taken(kind, taken, items[at:], self.take_with_space, self.outbox.drop_new)
            else:
                self.outbox.drop_new(rows_of(item))
        return Taken(kind, taken)

    async def take_with_space(self, item: Item) -> bool:
        """Take a row or a batch when there is space; False where the client is closed before."""
        while not self._closed:
            progress = self._link.progress
            if self.outbox.enqueue(item):
                return True
            await progress.wait()
        self.outbox.drop_new(rows_of(item))
        return False

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
        raise self._why_silent(f"{self.stats().rows_held} rows are not durable", timeout_s, UNDURABLE)

    def stats(self) -> Stats:
        """Return what became of the rows so far."""
        stats = self._session.stats
        return replace(
            stats, refused_by_code=stats.refused_by_code.copy(), last_refused=stats.last_refused.copy()
        )  # fmt: skip

    # -- questions -------------------------------------------------------------------------------------------------

    async def change(self, body: Body, timeout_s: float | None) -> dict[str, Any]:
        """Make a numbered call in its place among the rows."""
        return await self._answer(
            lambda then: self._session.call_numbered(body, then), body.method, dict[str, Any], timeout_s
        )

    def ask(self, asked: Question, answer: type[Answer]) -> Coroutine[Any, Any, Answer]:
        """Ask the service, and return its answer as that type; raises at once what is wrong with the question."""
        return self._asked(asked.verb.name, sent(asked), answer, asked.timeout_s)

    # -- inside: rows ----------------------------------------------------------------------------------------------

    def fileno(self) -> int | None:
        """Return the file descriptor of the connection that stands."""
        return self._link.fileno()

    async def drained(self, *, unless_refused: bool = False) -> None:
        """Wait until nothing that was taken is left, however long that takes, or until the service refuses this client."""
        self.outbox.seal()
        self._link.wake()
        while not (self.outbox.idle or (unless_refused and isinstance(self._session.failure, Unauthorized))):
            await self._link.progress.wait()
            self.outbox.seal()
            self._link.wake()

    # -- inside: questions -----------------------------------------------------------------------------------------

    async def _asked(
        self, method: str, params: Mapping[str, Any], answer: type[Answer], timeout_s: float | None
    ) -> Answer:
        return await self._answer(lambda then: self._session.call(method, [params], then), method, answer, timeout_s)

    async def _answer(
        self, ask: Callable[[Then], int], method: str, answer: type[Answer], timeout_s: float | None
    ) -> Answer:
        if self._closed or self._group is None:
            raise ConnectionFailed("the client is closed, or not entered", field="address", value=str(self._address))
        arrived: list[tuple[AdvisorError | None, Any]] = []
        event = anyio.Event()

        def then(error: AdvisorError | None, result: Any) -> None:
            arrived.append((error, result))
            event.set()

        call = ask(then)
        self._link.wake()
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            await self._within(timeout_s, event.wait)
        finally:
            self._session.abandon(call)
        if not arrived:
            raise self._why_silent(f"{method} was not answered", timeout_s, UNANSWERED)
        error, result = arrived.pop(0)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame: neither may hold it
        return read(answer, result)

    async def _within(self, timeout_s: float, wait: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        """Return whether the wait ended in time; a service that cannot be reached, or refuses us, is given `UNREACHABLE_S`."""
        ends = anyio.current_time() + timeout_s
        while True:
            left = max(0.0, ends - anyio.current_time())
            with anyio.move_on_after(min(left, UNREACHABLE_S)):
                await wait()
                return True
            failure = self._session.failure
            lost = failure is not None and not (self._session.welcome and failure.retry)
            if lost or left <= UNREACHABLE_S:
                return False

    def _why_silent(self, what: str, timeout_s: float, connected: str) -> AdvisorError:
        """Return the error of what did not come in time: of a connection, where there is none, or of a slow service."""
        session, address = self._session, str(self._address)
        if session.state in (READY, PAUSED) or (session.state == GREETING and session.failure is None):
            why = f"{what} within {timeout_s:.3g} s{f': {session.stats.last_error}' if session.state == PAUSED else ''}"
            return NotAnswered(why, field="address", value=address, hint=connected)
        failure = session.failure or ConnectionFailed("no connection yet", hint="is the service running?")
        if not failure.retry:
            return failure.detached()
        return ConnectionFailed(f"{what}: {failure.message}", field="address", value=address, hint=failure.hint)
