"""Task events through kill -9: each life of the service goes on where the last durable number says; nothing counts twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from kill_harness import Harness
from live import Closed, Peer
from task_program import Program, recursive

from advisor.domain.task_events import Kind, TaskEvents
from advisor.profile.checkpoint import from_bytes, to_bytes
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

PARTS = 60
UNANSWERED = 4  # batches on their way when the service is killed
LIVES = 3
WHO = {"producer": "run", "incarnation": bytes(16)}


def batches() -> list[TaskEvents]:
    """Return a run of some seconds in parts; the last says that it has ended."""
    run = Program(2, recursive(5, 3, 700)).run()
    records = run.records[run.records["time"].argsort(kind="stable")]
    records["time"] *= np.uint64(10_000)  # most leave the window of 0.1 s
    parts = np.array_split(records, PARTS)
    last = len(parts) - 1
    return [TaskEvents(part, run.strings if k == 0 else (), ended=k == last) for k, part in enumerate(parts)]


def request(number: int, events: TaskEvents) -> dict[str, Any]:
    return {
        **WHO, "sequence": number, "records": events.records.tobytes(), "strings": list(events.strings), "ended": events.ended,
    }  # fmt: skip


async def send_until_killed(harness: Harness, peer: Peer, given: list[TaskEvents], durable: int, kill_at: int) -> int:
    """Send the batches after `durable`, some of them once more; kill when `kill_at` is acknowledged. Return the last one."""
    acked = durable
    waiting: dict[int, int] = {}
    for number in range(max(1, durable - 2), min(kill_at + UNANSWERED, len(given)) + 1):
        waiting[await peer.post("task_events", request(number, given[number - 1]))] = number
    try:
        while acked < kill_at:
            _, msgid, error, result = await peer.message()
            assert error is None, error
            number = waiting[msgid]
            assert bool(result.get("replayed")) == (number <= durable)
            acked = max(acked, number)
    except Closed:
        pass
    if acked < len(given):
        await harness._kill()
    return acked


async def test_every_event_is_folded_once_through_kills(tmp_path: Path) -> None:
    given = batches()
    rng = random.Random(5)
    harness = Harness(tmp_path, kills=0)
    expected = Profiler(compiled=False)
    durable = lives = 0
    while durable < len(given):
        await harness._start()
        peer = await harness.connect()
        found = (await peer.call("hello", WHO))["sequence"]
        assert found >= durable  # what was acknowledged is there
        for number in range(durable, found):
            expected.fold(given[number])
        if lives:
            expected = from_bytes(to_bytes(expected), Profiler(compiled=False))
        lives += 1
        durable = found
        if durable < len(given):
            told = await peer.call("profile", {"producer": "run"}) if durable else None
            if told is not None:
                assert told["profile"] == profile_of(expected).as_dict()
            goal = len(given) if lives == LIVES else durable + rng.randint(1, PARTS // LIVES - UNANSWERED)
            acked = await send_until_killed(harness, peer, given, durable, goal)
            for number in range(durable, acked):
                expected.fold(given[number])
            durable = acked
            if acked == len(given):
                told = await peer.call("profile", {"producer": "run"})
                profile = Profile.from_dict(told["profile"])
                assert profile.as_dict() == profile_of(expected).as_dict()
        peer.writer.transport.abort()
    assert lives == LIVES
    assert profile.notes["instances_lost"] > 0
    begins = sum(int((each.records["kind"] == Kind.BEGIN).sum()) for each in given)
    lost = profile.notes["events_lost_at_restart"]
    assert begins - lost <= profile.measures.begins <= begins
    await harness._stop()
