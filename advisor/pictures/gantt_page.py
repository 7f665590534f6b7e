"""A Gantt chart as one HTML file: no server, no network, no library. Wheel zooms, drag pans, a click names a task."""

from __future__ import annotations

import base64
import html
import json
import re
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.pictures.kinds import COLOURS, kinds_of
from advisor.simulation.analysis import Execution
from advisor.simulation.metrics import critical_path, ready_length, traced
from advisor.simulation.words import scaled


def gantt_page(title: str, execution: Execution) -> str:
    """Return the page of a traced execution: its tasks as packed arrays, about 20 bytes a task, and names where it has them."""
    trace, graph = traced(execution), execution.program.graph
    order = np.lexsort((trace.starts, trace.processors))
    kinds, kind_names = kinds_of(execution)
    critical = np.zeros(len(graph), np.uint8)
    critical[[step.task for step in critical_path(execution)]] = 1
    ready = ready_length(execution)
    factor, unit = scaled(execution.makespan, graph.unit)
    per_tick = factor / graph.ticks_per_unit
    data: dict[str, Any] = {
        "cores": execution.cores,
        "unit": unit,
        "makespan": execution.ticks * per_tick,
        "palette": COLOURS,
        "kinds": kind_names,
        "starts": _packed(trace.starts[order] * per_tick),
        "finishes": _packed(trace.finishes[order] * per_tick),
        "processors": _packed(trace.processors[order].astype(np.uint32)),
        "kind": _packed(kinds[order].astype(np.uint8)),
        "critical": _packed(critical[order]),
        "task": _packed(order.astype(np.uint32)),
        "names": [graph.names[task] for task in order.tolist()] if graph.names else [],
        "readyTimes": _packed(ready.times * per_tick),
        "readyValues": _packed(ready.values),
    }
    template = resources.files("advisor.pictures").joinpath("gantt.html").read_text(encoding="utf-8")
    # A task's name cannot end the script: "</" is written as "<\/", which JSON reads as the same.
    script = json.dumps(data).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    # In one pass: what a title or a name says is never taken for a place of the page.
    places = {"{{TITLE}}": html.escape(title), "{{DATA}}": script}
    return re.sub(r"\{\{(?:TITLE|DATA)\}\}", lambda found: places[found.group()], template)


def _packed(values: NDArray[np.generic]) -> str:
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")
