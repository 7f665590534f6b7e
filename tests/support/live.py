"""A running service and raw peers on real sockets, for tests. The peers speak bytes, not through the project's client."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgpack
import pytest
from anyio.from_thread import start_blocking_portal

from advisor.domain.limits import PRODUCERS_MAX
from advisor.errors import AdvisorError, from_dict
from advisor.service import Bound, heavy, load_config, serve, server

heavy.WARM_AFTER_S = 3600.0  # workers that no test asks cost more than most tests: they start when one is asked
PATIENCE_S = 120.0  # a test that hangs fails after this: long enough for a machine that is busy with everything else


class Closed(Exception):
    """The service has closed the connection."""


@dataclass
class Peer:
    """A client that sends whatever it likes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    unpacker: Any = field(default_factory=lambda: msgpack.Unpacker(max_buffer_size=2**30))
    numbers: Any = field(default_factory=itertools.count)
    early: dict[int | None, list[Any]] = field(default_factory=dict)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            await self.writer.drain()

    async def post(self, method: str, *params: Any) -> int:
        """Send a request without waiting for its answer."""
        msgid = next(self.numbers)
        await self.send(msgpack.packb([0, msgid, method, list(params)]))
        return msgid

    async def message(self) -> list[Any]:
        """Return the next message, whatever it is."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for message in self.unpacker:
                    return message
                try:
                    data = await self.reader.read(2**16)
                except ConnectionError as error:
                    raise Closed from error
                if not data:
                    raise Closed
                self.unpacker.feed(data)

    async def answer(self, msgid: int | None) -> Any:
        """Return the result that answers a request; raise its error."""
        while msgid not in self.early:
            message = await self.message()
            self.early[message[1]] = message
        _, _, error, result = self.early.pop(msgid)
        if error is not None:
            raise from_dict(error)
        return result

    async def call(self, method: str, *params: Any) -> Any:
        return await self.answer(await self.post(method, *params))

    async def closed(self) -> list[list[Any]]:
        """Wait until the service closes; return what it still said."""
        said = []
        try:
            while True:
                said.append(await self.message())
        except Closed:
            return said

    def close(self) -> None:
        self.writer.close()


@dataclass
class Live:
    """A running service."""

    bound: Bound
    stop: anyio.Event
    peers: list[Peer] = field(default_factory=list)
    end: Any = None  # stops it from another thread

    async def peer(self, limit: int = 2**16) -> Peer:
        async with asyncio.timeout(PATIENCE_S):
            if self.bound.socket is not None:
                streams = await asyncio.open_unix_connection(self.bound.socket, limit=limit)
            else:
                assert self.bound.tcp is not None
                streams = await asyncio.open_connection(*self.bound.tcp, limit=limit)
        self.peers.append(Peer(*streams))
        return self.peers[-1]


@asynccontextmanager
async def running(directory: Path, **options: Any) -> AsyncIterator[Live]:
    """Run a service in this loop, on a Unix socket in `directory` unless `tcp` is given; stop it in order at the end."""
    if "tcp" not in options:
        options["socket"] = directory / "s"
    stop = anyio.Event()
    finished = anyio.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "SHUTDOWN_S", options.pop("shutdown_s", PATIENCE_S))
        patch.setattr(server, "PRODUCERS_MAX", options.pop("producers_max", PRODUCERS_MAX))
        patch.setenv("ADVISOR_KERNELS", "auto")  # of its workers: a plan of milliseconds takes a minute interpreted
        async with anyio.create_task_group() as group:

            async def run(*, task_status: Any) -> None:
                try:
                    # Compiled folds are of the whole process, and so of every later test.
                    patient = {"heavy_deadline_s": PATIENCE_S, "stall_s": PATIENCE_S}
                    await serve(
                        load_config(**{"compiled": False} | patient | options), stop=stop, task_status=task_status
                    )
                finally:
                    finished.set()

            live = Live(await group.start(run), stop)
            try:
                yield live
            finally:
                stop.set()
                for peer in live.peers:
                    peer.close()
                with anyio.fail_after(PATIENCE_S):
                    await finished.wait()


@contextmanager
def serving(directory: Path, **options: Any) -> Iterator[Live]:
    """Run a service in a thread until the block ends."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running(directory, **options)) as live:
        live.end = partial(portal.call, live.stop.set)
        yield live


def resident_bytes() -> int:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # what the allocator only holds back for later is nobody's
        trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def refused(code: str, call: Any) -> AdvisorError:
    """Return the error of a call, which must have the code."""
    with pytest.raises(AdvisorError) as caught:
        await call
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
    return caught.value


def rows_of(n: int, components: int = 3, start: int = 0) -> list[list[Any]]:
    """Rows of a plain law, t = 0.01 x / p."""
    found = []
    for i in range(start, start + n):
        x, p = float(i % 7 + 1), float(1 << i % 4)
        found.append([f"c{i % components}", x, p, 0.01 * x / p])
    return found
