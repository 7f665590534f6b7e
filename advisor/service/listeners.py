"""Where clients come in: a Unix socket by its mode, a TCP port with tokens and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import cast

from advisor.errors import InvalidValue, Unavailable
from advisor.service.option_types import Address

BACKLOG = 512  # connections that the system holds for us while we are busy
ACCEPTED_AT_ONCE = 64  # of them, in a turn of the loop: each takes a descriptor before anybody can turn it away
HANDSHAKES_MAX = 128  # TLS handshakes under way on a listener: who began first gives way to a newcomer
# For the state, logs, pipes of worker processes, HTTP connections, and what listeners accept at once or shake hands with.
DESCRIPTORS_RESERVED = 384
SOCKET_UMASK = 0o177  # the socket is made with mode 0600, and opened further, if asked for, after that
TLS_HANDSHAKE_S = 10.0
ProtocolMaker = Callable[[], asyncio.BaseProtocol]


def unix_socket(path: Path) -> socket.socket:
    """Return a listening Unix socket at `path`, in place of one that nobody answers on.

    Raises Unavailable when a live service listens there; InvalidValue when something else stands there, or the path cannot be
    used.
    """
    if len(os.fsencode(path)) > 107:  # sun_path
        raise InvalidValue("socket", str(path), "a path of at most 107 bytes, as Unix sockets have")
    with contextlib.suppress(OSError):  # bind says what is wrong
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(SOCKET_UMASK)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise InvalidValue("socket", str(path), f"a path where a socket can be made ({error.strerror})") from error
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # nothing there; or bind says what is wrong
    if not stat.S_ISSOCK(mode):
        raise InvalidValue("socket", str(path), "free, or a socket", "something else stands there; it is left alone")
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink(missing_ok=True)
                return
            if error.errno != errno.EAGAIN:  # EAGAIN: its backlog is full, so it lives
                raise InvalidValue("socket", str(path), f"a socket that can be probed ({error.strerror})") from error
    raise Unavailable(
        "a service listens on this socket already",
        field="socket",
        value=str(path),
        hint="stop it, or choose another path",
    )


def tcp_sockets(field: str, address: Address) -> list[socket.socket]:
    """Return listening sockets for all that the host name stands for; raises InvalidValue."""
    made: list[socket.socket] = []
    port = address.port
    try:
        found = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, where in dict.fromkeys(found):
            listener = socket.create_server((where[0], port, *where[2:]), family=family, backlog=BACKLOG)
            made.append(listener)
            listener.setblocking(False)
            port = listener.getsockname()[1]  # port 0: the second family takes what the first was given
    except OSError as error:
        for listener in made:
            listener.close()
        raise InvalidValue(field, str(address), f"an address to listen on ({error.strerror})") from error
    return made


class Handshake(asyncio.Protocol):
    """A TLS handshake, with a bound on how many there are: until it ends nobody else knows of the connection.

    What the peer sends in the same breath is held for whoever the connection is for.
    """

    def __init__(self, tls: ssl.SSLContext, protocol: ProtocolMaker, under_way: dict[Handshake, None]) -> None:
        self._tls = tls
        self._protocol = protocol
        self._under_way = under_way
        self._early: list[bytes] = []
        self._ended = False
        self._task: asyncio.Task[None] | None = None  # held here: the loop does not

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        if len(self._under_way) >= HANDSHAKES_MAX:
            next(iter(self._under_way)).give_way()
        self._under_way[self] = None
        self._task = asyncio.get_running_loop().create_task(self._shake(cast("asyncio.Transport", transport)))

    def data_received(self, data: bytes) -> None:
        """Hold it."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the peer is gone."""
        self._ended = True

    def give_way(self) -> None:
        """End it, for there are too many."""
        self._under_way.pop(self, None)
        if self._task is not None:
            self._task.cancel()

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                transport, self, self._tls, server_side=True, ssl_handshake_timeout=TLS_HANDSHAKE_S
            )
        except (OSError, asyncio.CancelledError):
            transport.abort()
            return
        finally:
            self._under_way.pop(self, None)
        if encrypted is None or self._ended:
            return
        protocol = cast("asyncio.Protocol | asyncio.BufferedProtocol", self._protocol())
        protocol.connection_made(encrypted)
        encrypted.set_protocol(protocol)
        early = memoryview(b"".join(self._early))
        while early:
            if isinstance(protocol, asyncio.BufferedProtocol):
                room = cast("memoryview", protocol.get_buffer(len(early)))[: len(early)]
                room[:] = early[: len(room)]
                protocol.buffer_updated(len(room))
                early = early[len(room) :]
            else:
                protocol.data_received(bytes(early))
                early = early[len(early) :]


class Listeners:
    """All that a service listens on; each connection is a protocol that its maker returns."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self.servers: list[asyncio.Server] = []
        self._made: tuple[Path, int] | None = None  # the Unix socket's name and inode

    async def open_tcp(
        self, field: str, address: Address, maker: ProtocolMaker, tls: ssl.SSLContext | None = None
    ) -> Address:
        """Accept on all that a host name stands for; return where. Raises InvalidValue."""
        made = tcp_sockets(field, address)
        under_way: dict[Handshake, None] = {}
        await self._accept(made, maker if tls is None else lambda: Handshake(tls, maker, under_way))
        return Address(address.host, made[0].getsockname()[1])

    async def open_unix(self, path: Path, mode: int, maker: ProtocolMaker) -> None:
        """Accept on a Unix socket; raises as `unix_socket`."""
        made = unix_socket(path)
        self._made = path, path.stat().st_ino
        await self._accept([made], maker)
        path.chmod(mode)

    async def _accept(self, sockets: list[socket.socket], maker: ProtocolMaker) -> None:
        self._sockets += sockets
        loop = asyncio.get_running_loop()
        for each in sockets:
            create = loop.create_unix_server if each.family == socket.AF_UNIX else loop.create_server
            self.servers.append(await create(maker, sock=each, backlog=ACCEPTED_AT_ONCE))
            each.listen(BACKLOG)

    def stop(self) -> None:
        """Accept no more."""
        for server in self.servers:
            server.close()

    def close(self) -> None:
        """Close the sockets; remove the Unix socket's name, unless another service has put its own there."""
        self.stop()
        for each in self._sockets:
            each.close()
        with contextlib.suppress(OSError):
            if self._made is not None and self._made[0].stat().st_ino == self._made[1]:
                self._made[0].unlink()


def raise_descriptors(connections: int) -> int:
    """Lift the soft limit of descriptors as far as needed and allowed; return how many of the connections have one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + DESCRIPTORS_RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, wanted - DESCRIPTORS_RESERVED))
