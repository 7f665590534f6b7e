"""What the trace event format asks of a trace, and what its readers do with one, held against the schedules that are written.

The rules: the format's own page ("Trace Event Format": fields by phase, slices that nest), and how Perfetto reads it: process
and thread 0 are the kernel's idle ones; ``ts`` is read as text and ``dur`` as a float, each cut to whole nanoseconds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.domain.task_graphs import TICKS, task_graph
from advisor.files.chrome import write_chrome
from advisor.simulation import simulate

FIELDS = {
    "M": {"pid", "name", "args"},
    "X": {"pid", "tid", "ts", "dur", "name"},
    "C": {"pid", "ts", "name", "args"},
}
METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def checked(path: Path) -> list[dict[str, Any]]:
    """Return the events of a trace that keeps the rules."""
    text = path.read_text(encoding="utf-8")
    data = json.loads(text)
    assert list(data) == ["traceEvents", "displayTimeUnit"]
    assert data["displayTimeUnit"] == "ms"
    assert not re.search(r"(?<!\\)(?:\\\\)*\\u(?!00[01])", text)  # only control characters are escaped
    for number in re.findall(r'"(?:ts|dur)": ?([^,}]*)', text):
        assert re.fullmatch(r"\d+\.\d{1,3}", number), number  # whole nanoseconds, and no exponent
    events = data["traceEvents"]
    named = set[int]()
    for event in events:
        assert FIELDS[event["ph"]] <= event.keys()
        assert event["pid"] >= 1
        assert event.get("tid", 1) >= 1
        if event["ph"] == "M":
            assert METADATA[event["name"]] in event["args"]
            assert "ts" not in event
            named |= {event["tid"]} if event["name"] == "thread_name" else set()
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
    assert {event["tid"] for event in events if event["ph"] == "X"} <= named
    slices_nest(events)
    return events


def nanoseconds(value: float) -> int:
    """Return a time as a viewer that reads floats has it."""
    return int(value * 1000.0)


def slices_nest(events: list[dict[str, Any]]) -> None:
    """Slices of a thread follow each other, also in what is read."""
    whole: dict[int, list[tuple[int, int]]] = {}
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            whole.setdefault(event["tid"], []).append((start, start + nanoseconds(event["dur"])))
    for spans in whole.values():
        for (_, finish), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert finish <= start


@pytest.mark.parametrize("unit", sorted(TICKS))
def test_schedules(unit: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    for count in (0, 1, 400):
        times = rng.uniform(1.0 / TICKS[unit], 2.0 if unit != "ns" else 2000.0, count)
        names = tuple(f'<\x07\u202e漢 🚀\ud800 "{n}\\u' if n % 3 else str(n) for n in range(count))
        edges = [(n // 3, n) for n in range(3, count)]
        graph = task_graph(times, edges, unit=unit, names=names)
        execution = simulate(graph, 7, trace=True)
        events = checked(write_chrome(execution, tmp_path / "t.json"))
        tasks = [event for event in events if event["ph"] == "X"]
        assert len(tasks) == count
        per_us = 1e6 if unit == "unit" else 1e3
        assert sum(event["dur"] for event in tasks) == pytest.approx(graph.ticks.sum() / per_us, abs=1e-3 * count)
