"""Schedules as Chrome traces: JSON that chrome://tracing, Perfetto and Speedscope open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advisor.errors import InvalidValue
from advisor.simulation.analysis import Execution
from advisor.simulation.metrics import critical_path, traced

# Of a tick: a viewer's clock counts whole nanoseconds, and cuts off what is less. A unit without a name is shown as a
# microsecond, whose ticks are millionths of it.
TICKS_PER_NS = {"s": 1, "ms": 1, "us": 1, "ns": 1, "unit": 1000}
# Process 0 and thread 0 are the idle ones of the kernel to Perfetto, which would name and merge them.
PROCESS = 1
FIRST_THREAD = 1


def chrome_events(execution: Execution) -> list[dict[str, Any]]:
    """Return the events of a traced execution: one a task on the track of its processor.

    A task on the critical path says so, and why it did not start sooner: viewers find it by that word.

    Times are microseconds with three digits behind the point, so that no viewer's rounding lays one task over the next.
    Raises InvalidValue when no trace was kept.
    """
    trace, graph = traced(execution), execution.program.graph
    per_ns = TICKS_PER_NS[graph.unit]
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": PROCESS, "name": name, "args": args, **thread}
        for name, args, thread in (
            ("process_name", {"name": f"{execution.policy} on {execution.cores} cores"}, {}),
            *(
                (name, args, {"tid": FIRST_THREAD + processor})
                for processor in range(execution.cores)
                for name, args in (
                    ("thread_name", {"name": f"core {processor}"}),
                    ("thread_sort_index", {"sort_index": processor}),
                )
            ),
        )
    ]
    kinds = graph.columns["type"].tolist() if graph.types else None
    critical = {step.task: step.why for step in critical_path(execution)}
    rows = zip(
        (trace.starts // per_ns).tolist(), (trace.finishes // per_ns).tolist(), trace.processors.tolist(), strict=True
    )
    for task, (start, finish, processor) in enumerate(rows):
        event: dict[str, Any] = {
            "ph": "X", "pid": PROCESS, "tid": FIRST_THREAD + processor, "ts": start / 1000, "dur": (finish - start) / 1000,
            "name": graph.name(task),
        }  # fmt: skip
        if kinds is not None:
            event["cat"] = graph.types[kinds[task]]
        if task in critical:
            event["args"] = {"critical path": critical[task]}
        events.append(event)
    return events


def write_chrome(execution: Execution, path: str | Path) -> Path:
    """Write a traced execution as a Chrome trace and return its path; raises InvalidValue where it cannot be written."""
    target = Path(path)
    data = {"traceEvents": chrome_events(execution), "displayTimeUnit": "ms"}
    try:
        # Letters as they are: older viewers do not read \\u. Half of a pair, which JSON can hold and UTF-8 cannot, is a ?.
        target.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidValue("chrome", str(path), "a file that can be written", error.strerror or "") from error
    return target
