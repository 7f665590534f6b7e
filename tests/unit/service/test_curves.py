"""The verb `curves` over a real socket: bundles on request, and pushes of what changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from live import PATIENCE_S, Peer, refused, rows_of, running

from advisor.client import AsyncClient
from advisor.domain.answers import Curves
from advisor.domain.bundle import Directory


async def notice(peer: Peer) -> dict:
    """Return what the next push of curves tells."""
    kind, method, params = await peer.message()
    assert (kind, method) == (2, "curves")
    return params[0]


def names(curves: dict) -> tuple[str, ...]:
    return Directory(curves["bundle"]).names


async def test_a_bundle_holds_the_components_asked_for_and_then_only_those_that_changed(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(90)})
        first = await peer.call("curves", {})
        assert (names(first), first["more"]) == (("c0", "c1", "c2"), 0)
        assert names(await peer.call("curves", {"components": ["c1"]})) == ("c1",)
        assert names(await peer.call("curves", {"since": first["version"]})) == ()
        await peer.call("observe_rows", {"rows": rows_of(1)})
        changed = await peer.call("curves", {"since": first["version"]})
        assert names(changed) == ("c0",)
        assert changed["version"] > first["version"]
        # A version of another run of the service, or of a later state than ours, stands for nothing.
        for since in (0, first["version"] + 2**20, first["version"] + 2**40):
            assert len(names(await peer.call("curves", {"since": since}))) == 3
        await peer.call("pin", {"component": "c2", "model": "two_step"})
        assert names(await peer.call("curves", {"since": changed["version"]})) == ("c2",)
        await refused("unknown_component", peer.call("curves", {"components": ["nobody"]}))
        await refused("invalid", peer.call("curves", {"cores_max": 0}))


async def test_what_changed_is_pushed_and_what_hardly_changed_is_not(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer, other = await live.peer(), await live.peer()
        await other.call("observe_rows", {"rows": rows_of(300)})
        first = await peer.call("curves", {"components": ["c0", "c1", "early"], "watch": True})
        assert names(first) == ("c0", "c1")
        # Three rows of 100 are no news; a component that was not known is, and so is one that doubled, or was pinned.
        await other.call("observe_rows", {"rows": rows_of(9)})
        await other.call("observe_rows", {"rows": [["early", 1.0, 1.0, 0.5]]})
        pushed = await notice(peer)
        assert names(pushed) == ("early",)
        await other.call("observe_rows", {"rows": [row for row in rows_of(400) if row[0] == "c1"]})
        pushed = await notice(peer)
        assert (names(pushed), pushed["version"] > first["version"]) == (("c1",), True)
        await other.call("pin", {"component": "c0", "model": "two_step"})
        assert names(await notice(peer)) == ("c0",)
        # Who watches no more is told no more: the next thing it hears is an answer.
        await peer.call("curves", {"watch": False})
        await other.call("pin", {"component": "c0", "model": None})
        for _ in range(3):
            await peer.call("status", {})
        assert not peer.early


async def test_the_client_reads_bundles_takes_pushes_and_asks_anew_after_a_cut(tmp_path: Path) -> None:
    state = {"state": tmp_path / "state"}
    told: asyncio.Queue[Curves] = asyncio.Queue()
    async with AsyncClient(f"unix:{tmp_path / 's'}", producer="p") as client:
        async with running(tmp_path, **state):
            await client.observe_rows(rows_of(60))
            await client.flush()
            first = await client.curves(on_change=told.put_nowait)
            assert Directory(first.bundle).names == ("c0", "c1", "c2")
            await client.observe_rows(rows_of(60))
            async with asyncio.timeout(PATIENCE_S):
                assert set(Directory((await told.get()).bundle).names) <= {"c0", "c1", "c2"}
        async with running(tmp_path, **state):
            async with asyncio.timeout(PATIENCE_S):
                while len(Directory((await told.get()).bundle)) < 3:  # a push of before the cut
                    pass
            await client.unwatch_curves()
