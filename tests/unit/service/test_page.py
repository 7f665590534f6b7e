"""The live page's listener: who may read, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from live import PATIENCE_S, Live, rows_of, running

from advisor.service import page

TEXT = "net main connect read .. (small | large) .. write;"


async def get(live: Live, path: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        return await client.request(options.pop("method", "GET"), f"http://{live.bound.http}{path}", **options)


async def reported(live: Live, path: str) -> Any:
    response = await get(live, path)
    assert response.status_code == 200, response.text
    return response.json()


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
            for path in ("/", "/page/news", "/page/components"):
                assert (await get(live, path, method=method)).status_code == 405
        for path in ("/", "/page/news", "/page/components"):
            assert (await get(live, path, headers={"host": "evil.example"})).status_code == 421
        for path in ("/page/news", "/page/components"):
            assert (await get(live, path, headers={"sec-fetch-site": "cross-site"})).status_code == 403


async def test_news_tell_what_changed_since_a_version_and_are_made_once_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(50)})
        monkeypatch.setattr(page, "NEWS_AGE_S", 0.0)
        first = await reported(live, "/page/news")
        found = first["topics"]
        assert set(found) == {"now", "answers"}
        assert found["now"]["counts"]["rows_accepted"] == 50
        assert found["now"]["components"] == len({row[0] for row in rows_of(50)})
        await peer.call("observe_rows", {"producer": "p", "sequence": 2, "rows": rows_of(50)})
        second = await reported(live, f"/page/news?since={first['version']}")
        assert set(second["topics"]) == {"now"}
        monkeypatch.setattr(page, "NEWS_AGE_S", float("inf"))
        again = [await get(live, "/page/news") for _ in range(2)]
        assert again[0].content == again[1].content
        assert again[0].json()["topics"]["now"] == second["topics"]["now"]


async def test_components_are_searched_paged_and_shown(tmp_path: Path) -> None:
    async with running(tmp_path, http="127.0.0.1:0") as live:
        peer = await live.peer()
        rows = [[f"c{n:03}", 1.0 + k, 1.0 + k, 1.0] for n in range(60) for k in range(1 + n % 2)]
        await peer.call("observe_rows", {"rows": [*rows, ["odd <name>", 1.0, 1.0, 1.0]]})
        first = await reported(live, "/page/components")
        last = await reported(live, "/page/components?page=99")
        assert [first[key] for key in ("known", "found", "page", "pages")] == [61, 61, 0, 3]
        assert [row["component"] for row in first["rows"]] == [f"c{2 * n + 1:03}" for n in range(page.ROWS_A_PAGE)]
        assert (last["page"], last["rows"][-1]["component"]) == (2, "odd <name>")
        assert (await reported(live, "/page/components?find=C01"))["found"] == 10
        assert (await reported(live, "/page/component?name=c001"))["runs"] == 2
        for path, status, word in (
            ("/page/component?name=nobody", 404, "nobody"),
            ("/page/components?page=-1", 400, "page"),
            (f"/page/components?find={'x' * 999}", 400, "find"),
        ):
            response = await get(live, path)
            assert response.status_code == status, path
            assert word in response.json()["error"], path
