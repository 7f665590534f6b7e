"""What happens to models is told in the log: each event with its reason, and no flood of them."""

from __future__ import annotations

import json
import logging
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from live import running

from advisor.engine.components import ModelEvent
from advisor.service.logs import JsonLines
from advisor.service.model_events import EVENTS_A_MINUTE, EVENTS_A_SECOND, ModelEvents


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[dict]:
    return [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == "advisor.service"]


@pytest.fixture
def reported(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "advisor.service")
    return caplog


def test_an_event_is_a_line_with_its_reason_and_its_names_escaped(reported: pytest.LogCaptureFixture) -> None:
    ModelEvents(
        deque([ModelEvent("change", 'a"\u2028{x}', 7, "slower"), ModelEvent("pin", "b\x1fpeak_bytes", 3, "asked")])
    ).drain()
    first, second = lines(reported)
    assert (first["event"], first["component"], first["rows"], first["reason"]) == (
        "model changed",
        'a"\u2028{x}',
        7,
        "slower",
    )
    assert (second["event"], second["component"], second["measure"]) == ("model pinned", "b", "peak_bytes")
    assert "\u2028" not in JsonLines().format(reported.records[0])
    assert "measure" not in first


def test_a_flood_is_counted_in_one_line(reported: pytest.LogCaptureFixture) -> None:
    clock, events = Clock(), deque[ModelEvent]()
    model_events = ModelEvents(events, clock)

    def happen(n: int, kind: str = "change") -> None:
        events.extend(ModelEvent(kind, f"c{i}", i, "why") for i in range(n))
        model_events.drain()

    happen(EVENTS_A_SECOND + 5)
    happen(2, "forget")
    assert len(lines(reported)) == EVENTS_A_SECOND
    model_events.sweep()  # no room yet
    assert len(lines(reported)) == EVENTS_A_SECOND
    clock.now += 1.0
    model_events.sweep()
    (more,) = lines(reported)[EVENTS_A_SECOND:]
    assert (more["event"], more["events"], more["change"], more["forget"]) == ("more model events", 7, 5, 2)
    reported.clear()
    for _ in range(100):
        clock.now += 0.5
        happen(3)
    single = [line for line in lines(reported) if line["event"] == "model changed"]
    assert len(single) == EVENTS_A_MINUTE - EVENTS_A_SECOND  # within one minute
    clock.now += 60.0
    model_events.close()
    counted = sum(line["events"] for line in lines(reported) if line["event"] == "more model events")
    assert len(single) + counted == 300
    assert not events


async def test_a_change_a_pin_and_a_forget_are_logged_and_counted(
    tmp_path: Path, reported: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(3)

    def batch(speed: float) -> dict:
        return {"rows": [["c", 4.0, 2.0, speed * t] for t in np.exp(0.05 * rng.standard_normal(300))]}

    async with running(tmp_path) as live:
        peer = await live.peer()
        await peer.call("observe_rows", batch(1.0))
        assert not [line for line in lines(reported) if line["event"] == "model changed"]
        await peer.call("observe_rows", batch(3.0))
        await peer.call("pin", {"component": "c", "model": "two_step"})
        await peer.call("forget", {"component": "c", "keep": 0.5})
        status = await peer.call("status", {"components": ["c"]})
    found = {line["event"]: line for line in lines(reported) if line.get("component") == "c"}
    assert set(found) == {"model changed", "model pinned", "component forgotten"}
    assert "times as long" in found["model changed"]["reason"]
    assert found["model pinned"]["reason"] == "asked for two_step"
    assert (status["totals"]["changes"], status["totals"]["pins"]) == (1, 1)
    (entry,) = status["components"]
    assert entry["changes"] == 1
    assert abs(entry["changed_by"] - np.log2(3.0)) < 0.5
