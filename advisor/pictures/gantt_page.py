"""A Gantt chart as one HTML file: no server, no network, no library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from advisor.pictures.kinds import COLOURS, OTHER, kinds_of
from advisor.pictures.pages import packed, page, shortened_table
from advisor.simulation.analysis import Execution
from advisor.simulation.metrics import critical_path, ready_length, traced
from advisor.simulation.words import reported_time, scaled

DIGITS = 15  # of a number that a float holds
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
HELP = (
    "Wheel or + and − zoom (with Shift the rows), drag or arrow keys pan, pointing or n and p name a task, a click or "
    "Enter shows it alone, Escape all. Underlined: the critical path through the schedule."
)
MARGINS = (66, 22)  # left and right of the bars: names of cores, half of the last number


def gantt_page(title: str, execution: Execution) -> str:
    """Return the page of a traced execution: its tasks as packed arrays, about 55 bytes a task, and names where it has them."""
    trace, graph = traced(execution), execution.program.graph
    order = np.lexsort((trace.starts, trace.processors))
    kinds, kind_names = kinds_of(execution)
    marked = np.zeros(len(graph), np.uint8)
    marked[[step.task for step in critical_path(execution)]] = 1
    ready = ready_length(execution)
    factor, unit = scaled(execution.makespan, graph.unit)
    per_tick = factor / graph.ticks_per_unit
    makespan = execution.ticks * per_tick
    whole = math.ceil(math.log10(makespan)) if makespan > 1 else 0
    decimals = max(0, min(math.ceil(-math.log10(per_tick) - 1e-9), DIGITS - whole))
    end = makespan or 1.0
    data: dict[str, Any] = {
        "rows": execution.cores, "rowName": "core ", "noun": "tasks", "margins": MARGINS,
        "end": end, "least": max(per_tick, end * 1e-12),
        "unit": unit, "seconds": SECONDS.get(unit, 0.0), "decimals": decimals,
        "palette": COLOURS, "kinds": kind_names, "bands": [], "reasons": [],
        "from": packed(trace.starts[order] * per_tick),
        "to": packed(trace.finishes[order] * per_tick),
        "row": packed(trace.processors[order].astype(np.uint32)),
        "kind": packed(kinds[order].astype(np.uint8)),
        "marked": packed(marked[order]),
        "names": graph.names,
        "label": packed(order.astype(np.uint32)),
        "readyTimes": packed(ready.times * per_tick),
        "readyValues": packed(ready.values.astype(np.uint32)),
        "tables": _tables(execution, kinds, kind_names, decimals),
    }  # fmt: skip
    return page(title, data, HELP)


def _tables(execution: Execution, kinds: Any, kind_names: list[str], decimals: int) -> list[Any]:
    """Return the schedule in words: time by colour and by core, and the critical path."""
    trace, graph = traced(execution), execution.program.graph
    factor, unit = scaled(execution.makespan, graph.unit)
    took = trace.finishes - trace.starts

    def time(ticks: Any) -> str:
        return reported_time(float(ticks) / graph.ticks_per_unit, graph.unit)

    def summed(names: list[str], places: Any, whole: float) -> list[list[str]]:
        counts = np.bincount(places, minlength=len(names)).tolist()
        times = np.bincount(places, took, len(names)).tolist()
        return [
            [name, f"{count:,}", time(ticks), f"{100 * ticks / whole:.1f} %" if whole else "–"]
            for name, count, ticks in zip(names, counts, times, strict=False)
        ]

    def moment(ticks: int) -> str:
        text = f"{ticks * factor / graph.ticks_per_unit:.{decimals}f}"
        return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}".strip()

    path = [
        [graph.name(step.task), str(trace.processors[step.task]), moment(step.start), time(step.finish - step.start)]
        for step in critical_path(execution)
    ]
    colours = [row for row in summed([*kind_names, OTHER], kinds, float(took.sum())) if row[1] != "0"]
    cores = [f"core {number}" for number in range(execution.cores)]
    return [
        ("Tasks by colour", ["colour", "tasks", "time", "of all"], colours),
        shortened_table(
            "Cores", ["core", "tasks", "busy", "of the time"], summed(cores, trace.processors, execution.ticks)
        ),
        shortened_table("Critical path through the schedule", ["task", "core", "from", "takes"], path),
    ]
