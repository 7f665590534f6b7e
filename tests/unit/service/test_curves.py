"""The verb `curves` over a real socket: what changed since a version."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_curves import Curves
from live import refused, rows_of, running

from advisor.client import AsyncClient
from advisor.service import answering


def names(answer: dict) -> tuple[str, ...]:
    return Curves(answer["bundle"]).names


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


async def test_curves_come_page_by_page_and_what_changes_between_pages_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "BUNDLE_BYTES_MAX", 1)
    async with running(tmp_path) as live, AsyncClient(str(live.bound.socket)) as client:
        peer = await live.peer()
        await peer.call("observe_rows", {"rows": rows_of(90)})
        found = [await client.curves()]
        await peer.call("observe_rows", {"rows": rows_of(1)})  # of c0, whose page is read
        while found[-1].next is not None:
            found.append(await client.curves(after=found[-1].next))
        assert [Curves(each.bundle).names for each in found] == [("c0",), ("c1",), ("c2",)]
        assert [each.more for each in found] == [2, 1, 0]
        later = await client.curves(since=found[0].version)
        assert (Curves(later.bundle).names, later.next) == (("c0",), None)
        await refused("unknown_component", peer.call("curves", {"after": "nobody"}))
