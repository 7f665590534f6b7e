"""HTTP peers that idle, stall, crowd or never read: health and metrics answer, and the socket keeps its descriptors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from live import PATIENCE_S, Live, running

from advisor.service import http

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n"


@asynccontextmanager
async def crowd(live: Live, count: int, first_bytes: bytes = b"") -> AsyncIterator[list[Streams]]:
    """So many peers that connect, say that much, and wait."""
    assert live.bound.http is not None
    peers = []
    try:
        for _ in range(count):
            peers.append(await asyncio.open_connection(*live.bound.http))
            peers[-1][1].write(first_bytes)
        yield peers
    finally:
        for _, writer in peers:
            writer.transport.abort()


async def status_of(reader: asyncio.StreamReader) -> int:
    """Return the status of the next answer, whose body is read."""
    async with asyncio.timeout(PATIENCE_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
    return int(head.split()[1])


async def answers(live: Live) -> None:
    for path in (b"/healthz", b"/readyz", b"/metrics"):
        async with crowd(live, 1, GET % path) as [(reader, _)]:
            assert await status_of(reader) == 200


async def ended(peer: Streams) -> bytes:
    """Wait until a peer's connection is ended; return what was said before."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await peer[0].read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize("first_bytes", [b"", b"GET /metrics HT", GET % b"/healthz"], ids=["idle", "half", "kept"])
async def test_a_crowd_of_idle_connections_keeps_nobody_out(tmp_path: Path, first_bytes: bytes) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live, crowd(live, 4 * http.CONNECTIONS_MAX, first_bytes):
        await answers(live)
        await (await live.peer()).call("status", {})


async def test_who_does_not_read_gives_way(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live, crowd(live, 1) as [(reader, writer)]:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write((GET % b"/metrics") * 1000)
        async with crowd(live, 2 * http.CONNECTIONS_MAX, b"GET /h"):
            await answers(live)
            async with asyncio.timeout(PATIENCE_S):
                while not writer.transport.is_closing():
                    writer.write(GET % b"/metrics")
                    await asyncio.sleep(0)
