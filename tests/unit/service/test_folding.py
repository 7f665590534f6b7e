"""Large batches over real sockets: others are answered meanwhile, order and numbers hold, and nothing is half durable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import msgpack
import numpy as np
import pytest
from live import PATIENCE_S, Live, Peer, refused, rows_of, running

from advisor.engine import Engine
from advisor.service.folding import Folding
from advisor.storage import Store

NEW = 20  # components of a large batch
ROWS = 40 * NEW
SLICE_ROWS = 4


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a batch have many slices, and each end a turn of the loop."""
    monkeypatch.setattr("advisor.engine.slices.SLICE_ROWS", SLICE_ROWS)
    monkeypatch.setattr("advisor.service.folding.SLICE_ROWS", SLICE_ROWS)
    monkeypatch.setattr("advisor.service.folding.SLICE_S", 0.0)


def large(seed: int = 1, prefix: str = "new") -> list[list[Any]]:
    rng = np.random.default_rng(seed)
    x, p = np.exp(rng.uniform(0, 7, ROWS)), rng.choice([1.0, 2.0, 4.0], ROWS)
    t = 1e-4 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1, ROWS)
    names = [f"{prefix}-{i % NEW}" for i in range(ROWS)]
    return [list(row) for row in zip(names, x.tolist(), p.tolist(), t.tolist(), strict=True)]


async def total(peer: Peer) -> int:
    """Return the rows that the service has folded."""
    return (await peer.call("status", {}))["totals"].get("rows_accepted", 0)


async def begun(live: Live, numbered: dict[str, Any]) -> tuple[Peer, int, Peer]:
    """Send a large batch; return its sender and number, and another peer, once some of it is folded and some is not."""
    sender, other = await live.peer(), await live.peer()
    await other.call("observe_rows", {"rows": rows_of(30)})
    msgid = await sender.post("observe_rows", {"rows": large()} | numbered)
    while (rows := await total(other)) <= 30:
        pass
    assert rows < 30 + ROWS
    return sender, msgid, other


async def test_others_are_answered_while_a_large_batch_is_folded(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        sender, msgid, other = await begun(live, {})
        folded: list[int] = []
        while not folded or folded[-1] < 30 + ROWS:
            folded.append(await total(other))
            assert (await other.call("predict", "c1", 4.0, 2))["elapsed_s"] > 0
        assert len(set(folded)) > 20  # at one and the same turn of the loop all would be there
        assert (await sender.answer(msgid))["accepted"] == ROWS


async def test_singles_are_folded_in_pieces_too(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        sender, other = await live.peer(), await live.peer()
        await sender.send(b"".join(msgpack.packb([2, "observe", row]) for row in large()))
        folded = [0]
        while folded[-1] < ROWS:
            folded.append(await total(other))
        assert len(set(folded)) > 20
        assert await total(sender) == ROWS


async def test_what_a_connection_sends_after_a_large_batch_comes_after_it(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        first = await peer.post("observe_rows", {"rows": large()})
        asked = await peer.post("status", {})
        second = await peer.post("observe_rows", {"rows": large(2, "later")})
        last = await peer.post("status", {})
        order = [(await peer.message())[1] for _ in range(4)]
        assert order == [first, asked, second, last]


async def test_the_receipt_is_that_of_a_small_batch(tmp_path: Path) -> None:
    rows = large()
    for at in (0, 7, ROWS // 2, ROWS - 1):
        rows[at] = [rows[at][0], -1.0, *rows[at][2:]]
    rows[5] = ["no row"]
    async with running(tmp_path) as live:
        receipt = await (await live.peer()).call("observe_rows", {"rows": rows})
    assert receipt["accepted"] == ROWS - 5
    assert receipt["refused"]["by_code"] == {"invalid_predictor": 4, "invalid_row": 1}
    assert [entry[0] for entry in receipt["refused"]["first"]] == [0, 5, 7, ROWS // 2, ROWS - 1]


@pytest.mark.parametrize("state", [False, True])
async def test_a_batch_that_is_sent_again_meanwhile_is_folded_once(tmp_path: Path, state: bool) -> None:
    """The sender's connection breaks, it connects again and sends again what was not acknowledged."""
    batch = {"producer": "p", "sequence": 1}
    async with running(tmp_path, **({"state": tmp_path / "state"} if state else {})) as live:
        sender, _, other = await begun(live, batch)
        sender.close()
        again = await live.peer()
        hello = await again.post("hello", {"producer": "p"})
        resent = await again.post("observe_rows", {"rows": large()} | batch)
        forget = await again.post("forget", {"component": "new-1", "producer": "p", "sequence": 2})
        assert await total(other) < 30 + ROWS  # the other one is still under way
        assert (await again.answer(hello))["sequence"] in ((0, 1) if state else (1,))
        assert (await again.answer(resent))["replayed"]
        assert (await again.answer(forget))["sequence"] == 2
        assert await total(other) == 30 + ROWS


async def test_two_large_batches_take_turns_and_both_are_whole(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        peers = [await live.peer() for _ in range(3)]
        sent = [
            await peer.post("observe_rows", {"producer": f"p{i}", "sequence": 1, "rows": large(i, f"of-{i}")})
            for i, peer in enumerate(peers)
        ]
        for peer, msgid in zip(peers, sent, strict=True):
            assert (await peer.answer(msgid))["accepted"] == ROWS
        assert await total(peers[0]) == 3 * ROWS


async def test_small_batches_between_are_acknowledged_and_durable(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        sender, msgid, other = await begun(live, {"producer": "p", "sequence": 1})
        for number in range(1, 4):
            receipt = await other.call("observe_rows", {"producer": "o", "sequence": number, "rows": rows_of(3)})
            assert receipt["sequence"] == number
        assert (await sender.answer(msgid))["accepted"] == ROWS
    restored = Engine.restore(loaded(tmp_path / "state"))
    assert restored.totals["rows_accepted"] == 30 + ROWS + 9
    assert restored.applied("p", bytes(16)) == 1
    assert restored.applied("o", bytes(16)) == 3


def loaded(path: Path) -> Any:
    store = Store.open(path)
    try:
        return store.load()
    finally:
        store.close()


async def test_a_service_that_is_cut_off_in_the_middle_has_all_of_a_batch_or_none(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state", shutdown_s=0.1) as live:
        _, _, other = await begun(live, {"producer": "p", "sequence": 1})
        waits = await other.post("observe_rows", {"producer": "o", "sequence": 1, "rows": rows_of(3)})
        assert waits
        assert await total(other) < 30 + ROWS + 3
    restored = Engine.restore(loaded(tmp_path / "state"))
    applied = restored.applied("p", bytes(16))
    assert applied == restored.applied("o", bytes(16))  # in one commit, or in none
    assert restored.totals["rows_accepted"] == 30 + applied * (ROWS + 3)


async def test_a_service_that_stops_folds_and_acknowledges_what_it_has_taken(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        sender, msgid, _ = await begun(live, {"producer": "p", "sequence": 1})
        live.stop.set()
        assert (await sender.answer(msgid))["accepted"] == ROWS
    assert Engine.restore(loaded(tmp_path / "state")).applied("p", bytes(16)) == 1


async def test_a_sender_that_is_gone_leaves_a_whole_batch(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        sender, _, other = await begun(live, {"producer": "p", "sequence": 1})
        sender.close()
        async with asyncio.timeout(PATIENCE_S):
            while await total(other) < 30 + ROWS:
                pass
        await other.call("observe_rows", {"rows": rows_of(1)})
    assert Engine.restore(loaded(tmp_path / "state")).applied("p", bytes(16)) == 1


async def test_a_defect_in_a_piece_is_told_and_the_service_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        sender, msgid, other = await begun(live, {"producer": "p", "sequence": 1})
        with monkeypatch.context() as broken:
            broken.setattr("advisor.engine.slices.Batch.fold_next", lambda _: 1 / 0)
            await refused("service", sender.answer(msgid))
        receipt = await other.call("observe_rows", {"producer": "o", "sequence": 1, "rows": rows_of(3)})
        assert receipt["sequence"] == 1
        with anyio.fail_after(PATIENCE_S):
            assert (await other.call("observe_rows", {"rows": large(3, "third")}))["accepted"] == ROWS


async def test_beyond_what_may_wait_a_batch_is_folded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.service.folding.WAITING_ROWS_MAX", ROWS)
    async with running(tmp_path) as live:
        sender, msgid, other = await begun(live, {})
        receipt = await other.call("observe_rows", {"rows": large(2, "other")})
        assert receipt["accepted"] == ROWS
        assert 30 + ROWS < await total(other) < 30 + 2 * ROWS  # the first one is still under way
        assert (await sender.answer(msgid))["accepted"] == ROWS
        assert await total(other) == 30 + 2 * ROWS


async def test_while_pages_are_copied_what_would_change_them_waits_and_questions_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.storage.store.JOURNAL_ENTRIES_MAX", 0)  # each commit writes pages
    monkeypatch.setattr("advisor.engine.pages.SLICE_BYTES", 1)  # and each page is a slice
    deferred: list[str] = []
    defer = Folding.defer
    monkeypatch.setattr(
        Folding,
        "defer",
        lambda self, connection: (deferred.append("x") if self.copying else None, defer(self, connection)),
    )
    async with running(tmp_path, state=tmp_path / "state") as live:
        senders, asking = [await live.peer() for _ in range(3)], await live.peer()
        await asking.call("observe_rows", {"rows": [[f"c{i}", 1.0, 1, 0.5] for i in range(2000)]})
        sent: list[tuple[Peer, int]] = []
        number = 0
        with anyio.fail_after(PATIENCE_S):
            while not deferred or number < 40:
                number += 1
                for place, sender in enumerate(senders):
                    spread = [[f"c{64 * i}", 1.0, 1, 0.5] for i in range(20 + place)]  # each on a page of its own
                    batch = {"producer": f"p{place}", "sequence": number, "rows": spread}
                    sent.append((sender, await sender.post("observe_rows", batch)))
                await senders[0].send(msgpack.packb([2, "observe", ["c1", 2.0, 1, 0.5]]))
                assert (await asking.call("predict", "c1", 4.0, 2))["elapsed_s"] > 0
        for sender, msgid in sent:
            assert (await sender.answer(msgid))["accepted"]
        assert await total(asking) == 2000 + number * (20 + 21 + 22 + 1)
    restored = Engine.restore(loaded(tmp_path / "state"))
    assert restored.totals["rows_accepted"] == 2000 + number * (20 + 21 + 22 + 1)
    assert [restored.applied(f"p{place}", bytes(16)) for place in range(3)] == [number] * 3
