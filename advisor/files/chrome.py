"""Schedules as Chrome traces: JSON that chrome://tracing, Perfetto and Speedscope open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advisor.errors import InvalidValue
from advisor.simulation.analysis import Execution
from advisor.simulation.metrics import ready_length, traced

MICROSECONDS = {
    "s": 1e6,
    "ms": 1e3,
    "us": 1.0,
    "ns": 1e-3,
    "unit": 1.0,
}  # of one unit of a graph's time; a nameless one is shown as 1


def chrome_events(execution: Execution) -> list[dict[str, Any]]:
    """Return the events of a traced execution: one a task on the track of its processor, and the ready list as a counter.

    Raises
    ------
    InvalidValue
        When no trace was kept.
    """
    trace, graph = traced(execution), execution.program.graph
    scale = MICROSECONDS[graph.unit] / graph.ticks_per_unit
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "pid": 0,
            "name": "process_name",
            "args": {"name": f"{execution.policy} on {execution.cores} cores"},
        }
    ]
    events += [
        {"ph": "M", "pid": 0, "tid": processor, "name": "thread_name", "args": {"name": f"core {processor}"}}
        for processor in range(execution.cores)
    ]
    kinds = graph.columns["type"].tolist() if graph.types else None
    rows = zip(trace.starts.tolist(), trace.finishes.tolist(), trace.processors.tolist(), strict=True)
    for task, (start, finish, processor) in enumerate(rows):
        event: dict[str, Any] = {
            "ph": "X", "pid": 0, "tid": processor, "name": graph.name(task), "ts": start * scale, "dur": (finish - start) *
            scale,
        }  # fmt: skip
        if kinds is not None:
            event["cat"] = graph.types[kinds[task]]
        events.append(event)
    ready = ready_length(execution)
    for time, value in zip(ready.times.tolist(), ready.values.tolist(), strict=True):
        events.append({"ph": "C", "pid": 0, "name": "ready tasks", "ts": time * scale, "args": {"ready": value}})
    return events


def write_chrome(execution: Execution, path: str | Path) -> Path:
    """Write a traced execution as a Chrome trace and return its path; raises InvalidValue where it cannot be written."""
    target = Path(path)
    data = {"traceEvents": chrome_events(execution), "displayTimeUnit": "ms"}
    try:
        target.write_text(json.dumps(data), encoding="utf-8")
    except OSError as error:
        raise InvalidValue("chrome", str(path), "a file that can be written", error.strerror or "") from error
    return target
