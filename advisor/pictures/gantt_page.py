"""A Gantt chart as one HTML file: no server, no network, no library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from advisor.pictures.kinds import COLOURS, kinds_of
from advisor.pictures.pages import packed, page
from advisor.simulation.analysis import Execution
from advisor.simulation.metrics import critical_path, ready_length, traced
from advisor.simulation.words import scaled

DIGITS = 15  # of a number that a float holds
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
HELP = (
    "Wheel or + and − zoom (with Shift the rows), drag or arrow keys pan, pointing or n and p name a task, a double click or "
    "Enter shows it alone, Escape all. Underlined: the critical path through the schedule."
)


def gantt_page(title: str, execution: Execution) -> str:
    """Return the page of a traced execution: its tasks as packed arrays, about 55 bytes a task, and names where it has them."""
    trace, graph = traced(execution), execution.program.graph
    order = np.lexsort((trace.starts, trace.processors))
    kinds, kind_names = kinds_of(execution)
    critical = np.zeros(len(graph), np.uint8)
    critical[[step.task for step in critical_path(execution)]] = 1
    ready = ready_length(execution)
    factor, unit = scaled(execution.makespan, graph.unit)
    per_tick = factor / graph.ticks_per_unit
    makespan = execution.ticks * per_tick
    whole = math.ceil(math.log10(makespan)) if makespan > 1 else 0
    data: dict[str, Any] = {
        "cores": execution.cores,
        "unit": unit,
        "seconds": SECONDS.get(unit, 0.0),
        "makespan": makespan,
        "tick": per_tick,
        "decimals": max(0, min(math.ceil(-math.log10(per_tick) - 1e-9), DIGITS - whole)),
        "palette": COLOURS,
        "kinds": kind_names,
        "starts": packed(trace.starts[order] * per_tick),
        "finishes": packed(trace.finishes[order] * per_tick),
        "processors": packed(trace.processors[order].astype(np.uint32)),
        "kind": packed(kinds[order].astype(np.uint8)),
        "critical": packed(critical[order]),
        "task": packed(order.astype(np.uint32)),
        "names": [graph.names[task] for task in order.tolist()] if graph.names else [],
        "readyTimes": packed(ready.times * per_tick),
        "readyValues": packed(ready.values.astype(np.uint32)),
    }
    return page(title, "gantt", data, HELP)
