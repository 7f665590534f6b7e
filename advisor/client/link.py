"""Keeps one session connected: the loop that connects, converses, backs off, and connects again."""

from __future__ import annotations

import logging
import random
import ssl
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Final

import anyio
import anyio.abc

from advisor.client.address import TcpAddress, UnixAddress
from advisor.client.session import GREETING, Session
from advisor.errors import AdvisorError, ConnectionFailed, RowsRefused

CONNECT_S = 10.0  # for a connection and its TLS handshake
BACKOFF_FIRST_S, BACKOFF_LAST_S = 0.05, 5.0
STALL_S = 30.0  # twice so long without a byte where one is owed: the service is gone without saying so
SILENCE_S = 0.7  # then rows that wait for a service that was never reached are warned of
READ_BYTES = 2**18
TLS_HINT = "does the service take TLS, with a certificate of the authority that tls, --tls-ca names?"

_CONNECTION_ERRORS: Final = (
    OSError,
    ssl.SSLError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    anyio.ClosedResourceError,
)


@dataclass(eq=False)
class Link:
    """Moves the bytes of a session."""

    # address, tls: where the service is; encryption of TCP
    address: UnixAddress | TcpAddress
    tls: ssl.SSLContext | None
    session: Session
    _: KW_ONLY
    linger_s: float  # how long a row waits for others to fill its batch

    def __post_init__(self) -> None:
        self._scope: anyio.CancelScope | None = None  # made by `run`: a scope needs the loop it is on
        self._stopped = False
        self._wake = anyio.Event()
        self._stream: anyio.abc.ByteStream | None = None
        self.progress = anyio.Event()  # set, and replaced, whenever something was answered
        self.session.warn = lambda why: warn(f"{self.address}: {why}; stats() counts the others")

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.set()

    def stop(self) -> None:
        """Close the connection and stay so."""
        self._stopped = True
        self._notify()
        if self._scope is not None:
            self._scope.cancel()

    def fileno(self) -> int | None:
        """Return the file descriptor of the connection that stands."""
        if self._stream is None:
            return None
        return self._stream.extra(anyio.abc.SocketAttribute.raw_socket).fileno()  # noqa: S610

    async def run(self) -> None:
        """Stay connected until `stop`."""
        with anyio.CancelScope() as self._scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._warn_of_silence)
                await self._stay_connected()
                group.cancel_scope.cancel()

    async def _stay_connected(self) -> None:
        attempt = 0
        while not self._stopped:
            before, began = self._answers, anyio.current_time()
            error = await self._connection()
            self.session.disconnected(error)
            self._notify()
            # To be greeted is not enough: who is turned away right after it must not come back at once.
            moved = self._answers > before
            attempt = 0 if moved or anyio.current_time() - began > BACKOFF_LAST_S else attempt + 1
            await anyio.sleep(backoff_s(attempt))

    @property
    def _answers(self) -> int:
        return self.session.answered + self.session.stats.batches_acknowledged

    async def _warn_of_silence(self) -> None:
        """Log that the service cannot be reached, where the client holds rows for it and was never greeted."""
        await anyio.sleep(SILENCE_S)
        if not self.session.welcome and (held := self.session.stats.rows_held):
            why = self.session.failure or f"no answer from {self.address}"
            logging.getLogger("advisor.client").warning(
                "%s; %d rows are held so far, stats() counts what becomes of them", why, held
            )

    async def _connection(self) -> AdvisorError:
        """Connect and converse until the connection ends; return why."""
        try:
            with anyio.fail_after(CONNECT_S):
                stream = await self._connect()
        except (*_CONNECTION_ERRORS, TimeoutError) as error:
            return ConnectionFailed(
                f"no connection to {self.address}: {_reason(error)}",
                field="address", value=str(self.address),
                hint=TLS_HINT if isinstance(error, ssl.SSLError) else "is the service running?",
            )  # fmt: skip
        try:
            async with stream:
                self._stream = stream
                return await self._converse(stream)
        except _CONNECTION_ERRORS as error:
            return self._closed_by(error)
        finally:
            self._stream = None

    async def _connect(self) -> anyio.abc.ByteStream:
        match self.address:
            case UnixAddress(path):
                return await anyio.connect_unix(path)
            case TcpAddress(host, port):
                if self.tls is None:
                    return await anyio.connect_tcp(host, port)
                return await anyio.connect_tcp(host, port, ssl_context=self.tls, tls_hostname=host)

    async def _converse(self, stream: anyio.abc.ByteStream) -> AdvisorError:
        self.session.connected()
        reasons: list[AdvisorError] = []
        async with anyio.create_task_group() as group:

            async def until_broken(work: Callable[[], Awaitable[AdvisorError]]) -> None:
                try:
                    reasons.append(await work())
                except _CONNECTION_ERRORS as error:
                    reasons.append(self._closed_by(error))
                group.cancel_scope.cancel()

            group.start_soon(until_broken, lambda: self._write(stream))
            group.start_soon(until_broken, lambda: self._read(stream, group))
        return reasons[0]

    def _closed_by(self, error: BaseException) -> ConnectionFailed:
        """Return the error of a connection that ended; before any greeting TLS may be what is missing."""
        plain = isinstance(self.address, TcpAddress) and self.tls is None and self.session.state == GREETING
        hint = "does the service take TLS only? name the file of its authority: tls, --tls-ca" if plain else ""
        why = f"the connection to {self.address} closed: {_reason(error)}"
        return ConnectionFailed(why, field="address", value=str(self.address), hint=hint)

    async def _write(self, stream: anyio.abc.ByteStream) -> AdvisorError:
        """Send what there is to send; a batch that fills is sealed when its time has come."""
        seal_at: float | None = None
        while True:
            self._wake = anyio.Event()
            if self.session.outbox.filling:
                now = anyio.current_time()
                seal_at = now + self.linger_s if seal_at is None else seal_at
                if now >= seal_at:
                    self.session.outbox.seal()
                    seal_at = None
            else:
                seal_at = None
            data = self.session.outgoing()
            if data:
                await stream.send(data)
                continue
            with anyio.CancelScope(deadline=inf if seal_at is None else seal_at):
                await self._wake.wait()

    async def _read(self, stream: anyio.abc.ByteStream, group: anyio.abc.TaskGroup) -> AdvisorError:
        owed_before = False
        while True:
            data = b""
            with anyio.move_on_after(STALL_S):
                data = await stream.receive(READ_BYTES)
            if not data:
                if owed_before and self.session.expecting:
                    return ConnectionFailed("the service does not answer", field="address", value=str(self.address))
                owed_before = self.session.expecting
                continue
            owed_before = False
            pauses = self.session.pauses
            if (over := self.session.receive_answers(data)) is not None:
                return over
            if self.session.pauses > pauses:
                group.start_soon(self._resume_after, backoff_s(self.session.pauses))
            self._notify()

    async def _resume_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self.session.resume_sending()
        self._wake.set()

    def _notify(self) -> None:
        """Wake the writer, and who waits for progress."""
        self._wake.set()
        progress, self.progress = self.progress, anyio.Event()
        progress.set()


def warn(why: str) -> None:
    """Warn of refused rows. Where warnings are errors it is logged: raised in the client's task it would end the client."""
    try:
        warnings.warn(why, RowsRefused, stacklevel=2)
    except RowsRefused:
        logging.getLogger("advisor.client").warning("%s", why)


def _reason(error: BaseException) -> str:
    """Return the error in words, its type's name where it has none."""
    return str(error) or type(error).__name__


def backoff_s(attempt: int) -> float:
    """Return the seconds to wait before an attempt: doubling, bounded, with jitter so that not all come at once."""
    return min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2 ** min(attempt, 16)) * random.uniform(0.5, 1.0)  # noqa: S311
