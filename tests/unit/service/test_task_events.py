"""Task events over a real socket: folded once, durable when answered, lost where they were open at a restart."""

from __future__ import annotations

from pathlib import Path

from live import running
from task_program import Program, recursive

from advisor.client import AsyncClient
from advisor.domain.task_events import EventWriter, Kind, RegionKind
from advisor.profile import layout as at
from advisor.profile.tree import Profile


async def test_instances_open_at_a_restart_close_as_lost(tmp_path: Path) -> None:
    out = EventWriter()
    out.add_event(0, Kind.ENTER, instance=1, other=RegionKind.PARALLEL, type="parallel")
    out.add_event(100, Kind.BEGIN, instance=5, type="A")
    out.add_event(300, Kind.ENTER, instance=5, type="foo")
    out.add_event(10**9, Kind.EXIT, instance=5, type="foo")  # pushes the others out of the window
    state = tmp_path / "state"
    async with running(tmp_path, state=state) as live:
        peer = await live.peer()
        batch = out.batch()
        request = {"records": batch.records.tobytes(), "strings": list(batch.strings)}
        await peer.call("task_events", request | {"producer": "p", "sequence": 1})
    async with running(tmp_path, state=state) as live:
        peer = await live.peer()
        answer = await peer.call("profile", {"producer": "p"})
        assert answer["notes"] == {"instances_lost": 1, "events_lost_at_restart": 1}
        profile = Profile.from_dict(answer["profile"])
        (task,) = profile.roots(at.TASK)
        assert (profile.count[task], profile.open[task], profile.inclusive_ns[task]) == (0, 0, 200)
        out.add_event(2 * 10**9, Kind.END, instance=5)
        out.add_event(2 * 10**9 + 1, Kind.CREATE, instance=6, type="A")
        out.add_event(3 * 10**9, Kind.IDLE_BEGIN)
        batch = out.batch()
        answer = await peer.call("task_events", {"records": batch.records.tobytes(), "producer": "p", "sequence": 2})
        assert answer["refused"]["by_code"] == {"unknown_instance": 1}
        assert answer["refused"]["first"] == [[2 * 10**9, "unknown_instance", "no such task instance is active"]]


async def test_the_client_sends_events_exactly_once(tmp_path: Path) -> None:
    events = Program(2, recursive(2, 2, 1000)).run()
    async with running(tmp_path), AsyncClient(f"unix:{tmp_path / 's'}", producer="mine") as client:
        answer = await client.task_events(events.records, strings=list(events.strings))
        assert answer["waiting"] == len(events)
        for _ in range(2):  # looking changes nothing
            answer = await client.profile("mine", nodes=False)
            assert answer["notes"] == {"events_waiting": len(events)}
            assert answer["measures"]["ends"] == 0
            whole = await client.profile("mine", ended=True)
            assert whole["measures"]["ends"] == int((events.records["kind"] == Kind.END).sum())
            assert whole["profile"]["notes"] == {}
        answer = await client.task_events(b"", ended=True)
        assert (answer["accepted"], answer["waiting"]) == (len(events), 0)
        answer = await client.profile("mine", nodes=False)
        assert answer["notes"] == {}
        profile = (await client.profile("mine"))["profile"]
        assert whole["profile"]["types"] == {}  # instances teach when their events are applied
        assert profile["types"].pop("solve task")["count"] == int((events.records["kind"] == Kind.END).sum())
        assert profile == whole["profile"]
