"""Task events through kill -9: each life of the service goes on where the last durable number says; nothing counts twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from served import Served, Wire
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


def send(wire: Wire, given: list[TaskEvents], durable: int, kill_at: int) -> int:
    """Send the batches after `durable`, some of them once more; return the last one acknowledged, `kill_at` or later."""
    acked = durable
    waiting: dict[int, int] = {}
    for number in range(max(1, durable - 2), min(kill_at + UNANSWERED, len(given)) + 1):
        waiting[wire.post("task_events", request(number, given[number - 1]))] = number
    while acked < kill_at:
        _, msgid, error, result = wire.message()
        assert error is None, error
        number = waiting[msgid]
        assert bool(result.get("replayed")) == (number <= durable)
        acked = max(acked, number)
    return acked


def test_every_event_is_folded_once_through_kills(tmp_path: Path) -> None:
    given = batches()
    rng = random.Random(5)
    service = Served(tmp_path, state=True)
    expected = Profiler(compiled=False)
    durable = 0
    for life in range(LIVES):
        with service:
            wire = service.wire()
            found = wire.call("hello", WHO)["sequence"]
            assert found >= durable  # what was acknowledged is there
            for number in range(durable, found):
                expected.fold_batch(given[number])
            if life:
                expected = from_bytes(to_bytes(expected), Profiler(compiled=False))
                assert wire.call("profile", {"producer": "run"})["profile"] == profile_of(expected).as_dict()
            last = life == LIVES - 1
            durable = send(
                wire, given, found, len(given) if last else found + rng.randint(1, PARTS // LIVES - UNANSWERED)
            )
            for number in range(found, durable):
                expected.fold_batch(given[number])
            if last:
                profile = Profile.from_dict(wire.call("profile", {"producer": "run"})["profile"])
                assert profile.as_dict() == profile_of(expected).as_dict()
            wire.close()
            service.kill()
    assert profile.notes["instances_lost"] > 0
    begins = sum(int((each.records["kind"] == Kind.BEGIN).sum()) for each in given)
    lost = profile.notes["events_lost_at_restart"]
    assert begins - lost <= profile.measures.begins <= begins
