"""Watches over real sockets: what is pushed, what is not, and what the runtime states."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live import PATIENCE_S, Live, Peer, refused, running

from advisor.client import AsyncClient
from advisor.service import watching

BASE = {"a": 1.0, "b": 2.0, "c": 1.5}
TEXT = "a .. b .. c"


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch looks for a tenth of the time: after a look that started a worker process, the next would be seconds later."""
    monkeypatch.setattr(watching, "LOOK_SHARE", 1.0)


class Runtime:
    """A runtime of three boxes, whose rows have 10 % noise."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.slow = 1.0

    def rows(self, n: int, cores: dict[str, int] | None = None) -> list[list[Any]]:
        found: list[list[Any]] = []
        for i in range(n):
            box = "abc"[i % 3]
            p = float(cores[box] if cores else 1 << (i // 3) % 5)
            x = float(self.rng.integers(1, 9))
            seconds = BASE[box] * x * (0.02 + 0.98 / p) * (self.slow if box == "b" else 1.0)
            found.append([box, x, p, seconds * float(np.exp(0.1 * self.rng.standard_normal()))])
        return found


async def taught(live: Live) -> tuple[Peer, Runtime]:
    peer, runtime = await live.peer(), Runtime()
    await peer.call("observe_rows", {"rows": runtime.rows(150)})
    return peer, runtime


async def reported(peer: Peer) -> dict[str, Any]:
    """The next thing told."""
    message = await peer.message()
    assert message[:2] == [2, "advice"]
    ((item, *_),) = message[2]
    return item


async def test_a_change_that_pays_is_pushed_and_counts_as_made(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, runtime = await taught(live)
        first = await peer.call("watch", {"network": TEXT, "cores": 24, "change_cost_s": 5.0})
        has = first["allocation"]["cores"]
        assert sum(has.values()) == 24
        for _ in range(10):
            await peer.call("observe_rows", {"rows": runtime.rows(60, has)})
        runtime.slow = 2.0
        other = await live.peer()  # the rows may come from anywhere
        for _ in range(16):
            await other.call("observe_rows", {"rows": runtime.rows(3, has)})
        advice = await reported(peer)
        assert (advice["kind"], advice["watch"]) == ("advice", first["watch"])
        assert advice["allocation"]["cores"]["b"] > has["b"]
        assert advice["gain"] > 0.1
        assert advice["probability"] > 0.99
        assert advice["break_even_s"] == pytest.approx(5.0 * (1 + advice["gain"]) / advice["gain"])
        assert "b" in advice["changed"]
        async with asyncio.timeout(PATIENCE_S):  # the change counts as made: a later look finds none that pays
            while (await peer.call("watch", {"watch": first["watch"]}))["verdict"] == "worth":
                await other.call("observe_rows", {"rows": runtime.rows(30, advice["allocation"]["cores"])})
        assert not peer.early
        await peer.call("watch", {"watch": first["watch"], "current": has})  # the runtime did not make it
        async with asyncio.timeout(PATIENCE_S):  # looks are spaced by the rows so far: as many as the loop above sent
            while "advice" not in peer.early:
                await peer.call("observe_rows", {"rows": runtime.rows(60, has)})
        ((again, *_),) = peer.early.pop("advice")[2]
        assert (again["kind"], again["present"]["throughput_per_s"]) == ("advice", pytest.approx(
            advice["present"]["throughput_per_s"], rel=0.2
        ))  # fmt: skip
        status = (await peer.call("status", {}))["service"]["watching"]
        assert (status["watches"], status["notifications"]["advice"]) == (1, 2)
        assert await peer.call("unwatch", {"watch": first["watch"]}) == {"watch": first["watch"]}
        await refused("invalid", peer.call("unwatch", {"watch": first["watch"]}))


async def test_a_watch_waits_until_enough_is_known(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, runtime = await live.peer(), Runtime()
        first = await peer.call("watch", {"network": TEXT, "cores": 24})
        assert first["allocation"] is None
        assert "'a'" in first["waiting"]
        await peer.call("observe_rows", {"rows": runtime.rows(90)})
        item = await reported(peer)
        assert item["kind"] == "first"
        assert sum(item["allocation"]["cores"].values()) == 24


async def test_a_better_allocation_than_the_present_is_in_the_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, _ = await taught(live)
        current = {"a": {"cores": 12, "instances": 1}, "b": 6, "c": 6}
        answer = await peer.call("watch", {"network": TEXT, "cores": 24, "current": current})
        assert answer["verdict"] == "worth"
        assert answer["present"]["throughput_per_s"] < answer["best"]["throughput_per_s"]
        dear = {"network": TEXT, "cores": 24, "current": current, "change_cost_s": 500.0, "horizon_s": 60.0}
        answer = await peer.call("watch", dear)
        assert answer["verdict"] == "unpaid"
        by_key = dear | {"change_cost_s": {"a": 1.0, "b": 2.0}}
        assert (await peer.call("watch", by_key))["cost_s"] == pytest.approx(3.0)


async def test_turns_are_watched_where_they_are_permitted(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, _ = await taught(live)
        shared = await peer.call("watch", {"network": TEXT, "cores": 4, "turns": "better"})
        assert shared["allocation"]["groups"]
        again = await peer.call(
            "watch", {"network": TEXT, "cores": 4, "turns": "better", "current": {"a": 1, "b": 2, "c": 1}}
        )
        assert again["best"]["throughput_per_s"] > again["present"]["throughput_per_s"]
        assert set(again["changed"]) == set("abc")


OBJECTIVES: list[dict[str, Any]] = [
    {"objective": "throughput"}, {"objective": "latency", "arrival_per_s": 0.1, "quantile": 0.9},
    {"objective": "latency", "target": {"throughput_per_s": 0.1}},
    {"objective": "fewest_cores", "target": {"throughput_per_s": 0.2}},
    {"objective": "fewest_cores", "target": {"latency_s": 20.0}},
]  # fmt: skip


async def test_each_objective_is_watched_by_what_allocate_answers(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, _ = await taught(live)
        for asked in OBJECTIVES:
            ask = {"network": TEXT, "cores": 24, **asked}
            plan, watch = [await peer.call(verb, ask) for verb in ("allocate", "watch")]
            assert watch["objective"] == asked["objective"]
            assert watch["allocation"] == plan


async def test_watches_are_limited_and_end_with_their_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, _ = await taught(live)
        for _ in range(16):
            await peer.call("watch", {"network": TEXT, "cores": 24})
        await refused("too_large", peer.call("watch", {"network": TEXT, "cores": 24}))
        other = await live.peer()
        await other.call("watch", {"network": TEXT, "cores": 24})
        peer.close()
        await peer.writer.wait_closed()
        while (await other.call("status", {}))["service"]["watching"]["watches"] > 1:
            pass


async def test_a_watch_is_renewed_after_the_service_was_gone(tmp_path: Path) -> None:
    runtime = Runtime()
    state = tmp_path / "state"
    async with AsyncClient(f"unix:{tmp_path / 's'}", timeout_s=PATIENCE_S) as client:
        async with running(tmp_path, state=state) as live:
            await client.observe_rows(runtime.rows(150))
            await client.flush()
            watch = await client.watch(TEXT, 24, turns="scarce")
            assert watch.allocation is not None
            has = watch.allocation.cores
            assert watch.watch_number == 1
            del live
        runtime.slow = 2.0
        async with running(tmp_path, state=state):
            while not watch.renewals:  # the client connects again by itself
                await client.status()
            for _ in range(16):
                await client.observe_rows(runtime.rows(3, has))
                await client.flush()
            advice = await watch.next(PATIENCE_S)
            assert advice is not None
            assert advice.kind == "advice"
            assert advice.allocation is not None
            assert advice.allocation.cores["b"] > has["b"]
            await watch.close()
            while (advice := await watch.next(0.0)) is not None:  # what came before the close
                assert advice.watch == watch.watch_number
