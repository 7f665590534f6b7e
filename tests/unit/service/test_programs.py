"""Whole programs and task types over a real socket: exactly once, durable, filled from a profile; types are components."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from live import refused, running
from program_runs import run, runs
from task_program import Program, recursive

from advisor.client import AsyncClient, SyncClient
from advisor.domain.task_events import EventWriter, Kind
from advisor.errors import UnknownProgram


async def test_both_clients_teach_and_ask(tmp_path: Path) -> None:
    async with running(tmp_path):
        address = str(tmp_path / "s")
        async with AsyncClient(address, producer="a") as client:
            for each in runs()[:40]:
                await client.observe_run("law", **each)
            found = await client.predict_run("law", size=400.0, workers=[2, 4])

        def ask() -> object:
            with SyncClient(address, producer="b") as sync:
                assert sync.observe_run("law", **run(400.0, 4))["runs"] == 41
                return sync.predict_run("law", size=400.0, workers=[2, 4], level=0.5)

        again = await anyio.to_thread.run_sync(ask)
        assert (found.observations, again.observations) == (40, 41)  # type: ignore[attr-defined]
        assert found.elapsed_s == pytest.approx(again.elapsed_s, rel=0.01)  # type: ignore[attr-defined]


async def test_a_profile_fills_a_run_and_its_types_are_components(tmp_path: Path) -> None:
    events = Program(2, recursive(4, 2, 1000)).run()
    late = EventWriter()
    late.add_event(10**12, Kind.IDLE_BEGIN, thread=7)
    records = events.records[events.records["time"].argsort(kind="stable")]
    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call(
            "task_events",
            {"records": records.tobytes(), "strings": list(events.strings), "producer": "fib", "sequence": 1},
        )
        await peer.call("task_events", {"records": late.batch().records.tobytes(), "producer": "fib", "sequence": 2})
        profile = await peer.call("profile", {"producer": "fib"})
        answer = await peer.call("observe_run", {"program": "fib", "size": 4, "profile": {"producer": "fib"}})
        assert answer["runs"] == 1
        types = profile["profile"]["types"]
        (name,) = types
        measures = profile["measures"]
        assert types[name]["count"] == measures["ends"]
        prediction = await peer.call("predict", name, None, 1)
        assert prediction["observations"] == measures["ends"]
        assert prediction["elapsed_s"] == pytest.approx(types[name]["mean_s"], rel=0.02)
        allocation = await peer.call("allocate", {"network": "solve", "cores": 2, "components": {"solve": name}})
        assert allocation["cores"]["solve"] >= 1
        status = await peer.call("status", {})
        assert status["totals"]["tasks_learned"] == measures["ends"]
        await refused(
            "invalid", peer.call("observe_run", {"program": "x", "size": 4, "profile": {"producer": "nobody"}})
        )


async def test_programs_are_forgotten_once_and_for_good(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with running(tmp_path, state=state), AsyncClient(str(tmp_path / "s"), producer="a") as client:
        await client.observe_run("law", **run(100.0, 1))
        await client.observe_run("other", **run(100.0, 1))
        assert (await client.forget(program="law"))["runs"] == 1
        with pytest.raises(UnknownProgram):
            await client.forget(program="law")

        def again() -> int:
            with SyncClient(str(tmp_path / "s"), producer="b") as sync:
                sync.observe_run("third", **run(100.0, 1))
                return sync.forget(program="third")["runs"]

        assert await anyio.to_thread.run_sync(again) == 1
    async with running(tmp_path, state=state) as live:
        peer = await live.peer()
        assert [each["program"] for each in (await peer.call("status", {}))["programs"]] == ["other"]
