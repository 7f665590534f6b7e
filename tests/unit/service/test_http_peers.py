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


@pytest.mark.parametrize(
    "first_bytes", [b"", b"GET /metr", GET % b"/healthz" + b"GET /m"], ids=["none", "first", "next"]
)
async def test_a_request_that_does_not_end_in_time_ends_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_bytes: bytes
) -> None:
    monkeypatch.setattr(http, "HEADERS_S", 0.05)
    async with running(tmp_path, http="127.0.0.1:0") as live, crowd(live, 1, first_bytes) as [slow]:
        assert (await ended(slow)).count(b"HTTP/1.1 200 OK") == first_bytes.count(b"healthz")
        monkeypatch.undo()
        await answers(live)


async def test_bytes_that_trickle_do_not_prolong_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEADERS_S", 0.2)
    async with running(tmp_path, http="127.0.0.1:0") as live, crowd(live, 1, b"GET /metrics HTTP/1.1\r\nx: ") as [slow]:
        end = asyncio.create_task(ended(slow))
        while not end.done():  # faster than any time that starts anew
            slow[1].write(b"y")
            await asyncio.wait([end], timeout=0.01)


async def test_a_connection_idles_between_requests_longer_than_a_request_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live, crowd(live, 1, GET % b"/healthz") as [(reader, writer)]:
        assert await status_of(reader) == 200
        monkeypatch.setattr(http, "HEADERS_S", 0.05)
        async with crowd(live, 1, b"GET") as [slow]:
            await ended(slow)
        monkeypatch.undo()
        writer.write(GET % b"/metrics")
        assert await status_of(reader) == 200


async def test_who_does_not_read_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "UNREAD_S", 0.1)
    async with running(tmp_path, http="127.0.0.1:0") as live, crowd(live, 1) as [(reader, writer)]:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE_S):
            while not writer.transport.is_closing():
                writer.write((GET % b"/metrics") * 100)
                await asyncio.sleep(0)
        monkeypatch.undo()
        await answers(live)
