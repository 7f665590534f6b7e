"""The kinds of tasks that a schedule's picture tells apart, and their colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.pictures.charts import PALETTE
from advisor.simulation.analysis import Execution

OTHER = "others"
# Black is for the critical path; a lighter grey would be Okabe and Ito's purple or green to who does not see green.
COLOURS = (*PALETTE, "#606060")


def kinds_of(execution: Execution) -> tuple[NDArray[np.int64], list[str]]:
    """Return a kind for each task, which its colour shows, and the kinds' names: types, else loops, else one kind.

    The kinds with most time keep their own colour; the last colour is for all others.
    """
    graph = execution.program.graph
    if graph.types:
        kinds, names = graph.columns["type"], [name or "no type" for name in graph.types]
    elif "loop" in graph.columns:
        loops, kinds = np.unique(graph.columns["loop"], return_inverse=True)
        numbers: list[int] = loops.tolist()
        names = [f"loop {number}" if number >= 0 else "no loop" for number in numbers]
    else:
        return np.zeros(len(graph), np.int64), ["task"]
    time = np.bincount(kinds, graph.ticks, len(names))
    order: list[int] = np.argsort(-time, kind="stable")[: len(COLOURS) - 1].tolist()
    place = np.full(len(names), len(COLOURS) - 1)
    place[order] = np.arange(len(order))
    reported = [names[kind] for kind in order if time[kind]]
    return place[kinds], [*reported, OTHER] if (time > 0).sum() > len(order) else reported
