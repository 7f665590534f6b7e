"""A service that is short of memory refuses what is new, with words, and goes on with the rest."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from live import refused, rows_of, running
from served import Served

from advisor.service import hub as hubs
from advisor.service import memory

MIB = 2**20


async def test_nothing_new_is_taken_while_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [100 * MIB]
    looked = memory.Memory(1000 * MIB, lambda: taken[0])
    monkeypatch.setattr(hubs, "Memory", lambda _: looked)
    monkeypatch.setattr(memory, "LOOKS_EVERY_S", 0.001)
    async with running(tmp_path, memory_max=1000 * MIB, state=tmp_path / "state") as live:
        peer = await live.peer()
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(60)})
        taken[0] = 950 * MIB
        while not (await peer.call("status", {}))["service"]["short_of_memory"]:
            pass
        strange = [[f"new{i}", 1.0, 1.0, 1.0] for i in range(5)]
        receipt = await peer.call("observe_rows", {"producer": "p", "sequence": 2, "rows": strange + rows_of(3)})
        assert (receipt["accepted"], receipt["refused"]["by_code"]) == (3, {"too_many_components": 5})
        assert (await peer.call("predict", "c0", 4.0, 2))["observations"] == 21
        for method, params in (("names", [0, ["a"]]), ("define_network", [{"text": "c0"}])):
            error = await refused("unavailable", peer.call(method, *params))
            assert (error.field, error.bound, error.retry) == ("memory_max", 1000 * MIB, True)
        assert await (await live.peer()).closed() == []
        taken[0] = 100 * MIB
        while (await peer.call("status", {}))["service"]["short_of_memory"]:
            pass
        receipt = await peer.call("observe_rows", {"producer": "p", "sequence": 3, "rows": strange})
        assert receipt["accepted"] == 5
        before = await peer.call("status", {"components": True})
    async with running(tmp_path, state=tmp_path / "state") as live:
        after = await (await live.peer()).call("status", {"components": True})
        assert (after["totals"], after["components"]) == (before["totals"], before["components"])


def test_a_flood_of_new_names_stays_within_the_budget(tmp_path: Path) -> None:
    """A service of its own, whose other bounds allow ten times as much, until names are refused and as many again."""
    refusals = most = sent = after = 0
    with Served(tmp_path, "--components-max", "10000000", "--memory-max", "192MiB") as service:
        assert service.process is not None
        statm, peer = Path(f"/proc/{service.process.pid}/statm"), service.wire()
        while after < 5 and sent < 2_000_000:
            names = [f"name {sent + i} {'x' * 150}" for i in range(500)]
            ones = array("d", [1.0] * len(names)).tobytes()
            index = array("I", range(len(names))).tobytes()
            columns = {"components": names, "index": index, "cores": ones, "elapsed_s": ones}
            refusals += peer.call("observe_columns", columns)["refused"]["count"]
            after += bool(refusals)
            sent += len(names)
            most = max(most, int(statm.read_text().split()[1]) * 4096)
        assert peer.call("predict", "name 0 " + "x" * 150, 1.0, 1)["observations"] == 1
        peer.close()
    assert refusals > 0
    assert most <= 192 * MIB
