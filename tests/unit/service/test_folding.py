"""Batches over real sockets: one is one turn of the loop, identities take turns, and images are written beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgpack
import pytest
from live import PATIENCE_S, Peer, refused, rows_of, running

from advisor.domain import limits
from advisor.engine import Engine
from advisor.storage import Store


async def total(peer: Peer) -> int:
    """Return the rows that the service has folded."""
    return (await peer.call("status", {}))["totals"].get("rows_accepted", 0)


def loaded(path: Path) -> Any:
    with Store.open(path) as store:
        return store.load()


async def test_a_batch_at_the_limit_is_folded_and_one_beyond_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        bounds = (await peer.call("hello", {}))["limits"]
        assert (bounds["rows_batch_max"], bounds["names_batch_max"], bounds["rows_bytes_max"]) == (2048, 512, 2**20)
        receipt = await peer.call("observe_rows", {"rows": rows_of(limits.ROWS_BATCH_MAX)})
        assert receipt["accepted"] == limits.ROWS_BATCH_MAX
        error = await refused("too_large", peer.call("observe_rows", {"rows": rows_of(limits.ROWS_BATCH_MAX + 1)}))
        assert (error.value, error.bound) == (limits.ROWS_BATCH_MAX + 1, limits.ROWS_BATCH_MAX)
        names = [f"n{i}" for i in range(limits.NAMES_BATCH_MAX + 1)]
        error = await refused("too_large", peer.call("names", 0, names))
        assert (error.value, error.bound) == (limits.NAMES_BATCH_MAX + 1, limits.NAMES_BATCH_MAX)
        assert await peer.call("names", 0, names[:-1]) == {"known": limits.NAMES_BATCH_MAX}
        assert await total(peer) == limits.ROWS_BATCH_MAX


async def test_rows_may_bring_more_new_components_than_one_message_names(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        peer = await live.peer()
        names = [f"n{i}" for i in range(limits.ROWS_BATCH_MAX)]
        for first in range(0, len(names), limits.NAMES_BATCH_MAX):
            await peer.call("names", first, names[first : first + limits.NAMES_BATCH_MAX])
        index = b"".join(i.to_bytes(4, "little") for i in range(len(names)))
        one = msgpack.packb(1.0)[1:][::-1] * len(names)
        receipt = await peer.call("observe_columns", {"index": index, "cores": one, "elapsed_s": one})
        assert receipt["accepted"] == len(names)


async def test_many_singles_of_one_read_are_folded_a_batch_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    apply = Engine.apply_event

    def noted(self: Engine, producer: Any, sequence: Any, event: Any) -> Any:
        batches.append(len(event))
        return apply(self, producer, sequence, event)

    monkeypatch.setattr(Engine, "apply_event", noted)
    async with running(tmp_path) as live:
        peer = await live.peer()
        n = 2 * limits.ROWS_BATCH_MAX + 1
        await peer.send(msgpack.packb([2, "observe", ["a", 1.0, 1, 0.5]]) * n)
        with anyio.fail_after(PATIENCE_S):
            while await total(peer) < n:
                pass
        assert max(batches) <= limits.ROWS_BATCH_MAX
        assert sum(batches) == n


async def test_while_images_are_written_rows_and_questions_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.storage.store.LOG_ENTRIES_MAX", 0)  # an image is always due
    monkeypatch.setattr("advisor.engine.state_bytes.SLOTS_A_BLOCK", 1)
    images: list[int] = []
    take_image = Store._take_image
    monkeypatch.setattr(Store, "_take_image", lambda *given: (images.append(1), take_image(*given))[1])
    async with running(tmp_path, state=tmp_path / "state") as live:
        senders, asking = [await live.peer() for _ in range(3)], await live.peer()
        await asking.call("observe_rows", {"rows": [[f"c{i}", 1.0, 1, 0.5] for i in range(2000)]})
        sent: list[tuple[Peer, int]] = []
        number = 0
        with anyio.fail_after(PATIENCE_S):
            while len(images) < 4 or number < 40:
                number += 1
                for place, sender in enumerate(senders):
                    spread = [[f"c{64 * i}", 1.0, 1, 0.5] for i in range(20 + place)]
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
