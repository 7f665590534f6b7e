"""The live page's listener: who may read, how many, how much, until when; and what it answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from live import PATIENCE_S, Live, rows_of, running

from advisor.service import http, page

TEXT = "net main connect read .. (small | large) .. write;"


class Reader:
    """One open page, as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def head(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return int((await self.reader.readuntil(b"\r\n\r\n")).split()[1])

    async def event(self) -> tuple[str, bytes]:
        """Return the next event's name and data."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = await self.reader.readline()
                if not line:
                    raise EOFError
                if line.startswith(b"event: "):
                    return line[7:].decode().strip(), (await self.reader.readline()).removeprefix(b"data: ").strip()

    async def until(self, name: str) -> Any:
        while True:
            found, data = await self.event()
            if found == name:
                return json.loads(data)

    async def rest(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()


@asynccontextmanager
async def reading(live: Live, count: int = 1, path: str = page.STREAM) -> AsyncIterator[list[Reader]]:
    assert live.bound.http is not None
    readers: list[Reader] = []
    try:
        for _ in range(count):
            readers.append(Reader(*await asyncio.open_connection(*live.bound.http)))
            readers[-1].writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        yield readers
    finally:
        for each in readers:
            each.writer.transport.abort()


async def get(live: Live, path: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        return await client.request(options.pop("method", "GET"), f"http://{live.bound.http}{path}", **options)


async def reported(live: Live, path: str) -> Any:
    response = await get(live, path)
    assert response.status_code == 200, response.text
    return response.json()


async def free_places(live: Live, count: int) -> None:
    """Wait until so many streams find a place: those of peers that went are noticed by and by."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with reading(live, count) as readers:
                if [await each.head() for each in readers] == [200] * count:
                    return


async def test_the_page_loads_nothing_and_runs_only_its_own_program(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live:
        response = await get(live, "/")
        policy = dict(
            each.strip().partition(" ")[::2] for each in response.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["script-src"].startswith("'sha256-")
        assert policy["script-src"].count("'") == policy["style-src"].count("'") == 2
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "src=" not in response.text.partition("<script")[0]
        assert len(response.content) < 120_000
        for method in ("POST", "PUT", "DELETE"):
            for path in ("/", page.STREAM, "/page/components"):
                assert (await get(live, path, method=method)).status_code == 405
        for path in ("/", page.STREAM, "/page/components"):
            assert (await get(live, path, headers={"host": "evil.example"})).status_code == 421
        for path in (page.STREAM, "/page/components"):
            assert (await get(live, path, headers={"sec-fetch-site": "cross-site"})).status_code == 403
        assert (await get(live, page.STREAM, method="HEAD")).status_code == 200


async def test_news_tell_what_happens_and_are_made_once_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "TICK_S", 0.01)
    async with running(tmp_path, http="127.0.0.1:0") as live, reading(live, 4) as readers:
        assert [await each.head() for each in readers] == [200] * 4
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(50)})
        await peer.call("define_network", {"id": "pipe", "text": TEXT})
        for each in readers:
            while (await each.until("now"))["counts"]["rows_accepted"] < 50:
                pass
        seen = [
            {data for name, data in [await each.event() for _ in range(20)] if name == "now"} for each in readers[:2]
        ]
        assert seen[0] & seen[1]  # each news has its own time: these are the same bytes
        async with reading(live) as [late]:
            found = {name: json.loads(data) for name, data in [await late.event() for _ in range(6)]}
        assert set(found) == {"now", "trend", "answers", "networks", "producers", "profiles"}
        assert found["now"]["components"] == len({row[0] for row in rows_of(50)})
        assert found["networks"] == [{"network": "pipe", "rows": 0, "answer": None}]
        assert [each["producer"] for each in found["producers"]["producers"]] == ["p"]


async def test_open_pages_take_no_place_from_health_and_metrics(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live:
        async with reading(live, page.STREAMS_MAX) as readers:
            assert [await each.head() for each in readers] == [200] * page.STREAMS_MAX
            refused = await get(live, page.STREAM)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            async with reading(live, 2 * http.CONNECTIONS_MAX, "/healthz"):  # and a crowd beside them
                for path in ("/healthz", "/readyz", "/metrics", "/", "/page/components"):
                    assert (await get(live, path)).status_code == 200
            assert [await each.until("now") for each in readers]  # nobody had to go
        await free_places(live, page.STREAMS_MAX)


async def test_streams_end_when_the_service_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "TICK_S", 0.001)
    monkeypatch.setattr(http, "CLOSE_S", PATIENCE_S)  # whoever waited for it would time out
    async with running(tmp_path, http="127.0.0.1:0") as live, reading(live, 3) as readers:
        readers[2].reader._transport.pause_reading()  # type: ignore[attr-defined]
        for each in readers[:2]:
            await each.until("now")
        live.stop.set()
        for each in readers[:2]:
            assert b"event: stopping" in await each.rest()


async def test_components_are_searched_paged_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SEARCHED_INLINE", 50)
    async with running(tmp_path, http="127.0.0.1:0") as live:
        peer = await live.peer()
        rows = [[f"c{n:03}", 1.0 + k, 1.0 + k, 1.0] for n in range(60) for k in range(1 + n % 2)]
        await peer.call("observe_rows", {"rows": [*rows, ["odd <name>", 1.0, 1.0, 1.0]]})
        first, last = (
            await reported(live, "/page/components?order=name"),
            await reported(live, "/page/components?order=name&page=99"),
        )
        assert [first[key] for key in ("known", "found", "page", "pages")] == [61, 61, 0, 3]
        assert [card["component"] for card in first["cards"]] == [f"c{n:03}" for n in range(page.CARDS_A_PAGE)]
        assert (last["page"], last["cards"][-1]["component"]) == (2, "odd <name>")
        assert (await reported(live, "/page/components?find=C01&order=name"))["found"] == 10
        assert (await reported(live, "/page/component?name=c001"))["runs"] == 2
        for path, status, word in (
            ("/page/component?name=nobody", 404, "nobody"),
            ("/page/components?order=luck", 400, "order"),
            ("/page/components?page=-1", 400, "page"),
            (f"/page/components?find={'x' * 999}", 400, "find"),
            ("/page/network?name=none", 404, "none"),
            ("/page/answer?id=1", 400, "id"),
            ("/page/profile.html?producer=p", 400, "producer"),
            ("/page/profile.html?producer=p&incarnation=zz", 400, "incarnation"),
        ):
            response = await get(live, path)
            assert response.status_code == status, path
            assert word in response.json()["error"], path
