"""Task times of a graph from what was learned: each task's type is a component, its size the predictor, on one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from advisor.domain.task_graphs import TICKS, TaskGraph
from advisor.domain.vectors import Floats
from advisor.errors import InvalidValue

SLICE = 128  # predictions made at a time, within 2 ms, before others may have their turn


def predict_in_slices(
    predict: Callable[..., Any], graph: TaskGraph, times: Floats, components: Mapping[str, str], machine: str | None
) -> Iterator[None]:
    """Fill in the times (n,) of a graph's tasks, in slices; yields between them. Tasks of no type keep what they have.

    Each different (type, size) is predicted once. Column ``part`` is the share of its instance that a task is, where tasks are
    strands of what was learned as one.

    Raises InvalidValue where the graph has no types, or its unit of time has no name; UnknownComponent, NotEnoughData as
    `Advisor.predict`.

    `predict`: of an `Advisor`: predicts a component for an array of predictors. `components`: the component that stands for a
    type, where it is not of the same name.
    """
    if not graph.types:
        raise InvalidValue("graph.types", None, "given", "task times are predicted by task type and size")
    if graph.unit == "unit":
        raise InvalidValue("graph.unit", graph.unit, "s, ms, us or ns", "predictions are in seconds")
    unknown = sorted(set(components) - set(graph.types))
    if unknown:
        raise InvalidValue("components", unknown[0], f"task types of the graph: {', '.join(graph.types)[:200]}")
    kinds, sizes, parts = (graph.columns.get(name, np.ones(len(graph))) for name in ("type", "size", "part"))
    per_second = TICKS["s"] / TICKS[graph.unit]
    for kind, name in enumerate(graph.types):
        mine = np.flatnonzero(kinds == kind)
        if not name or not len(mine):
            continue
        different, back = np.unique(sizes[mine], return_inverse=True)
        predictions: list[Any] = []
        for start in range(0, len(different), SLICE):
            part = different[start : start + SLICE]
            predictions.append(predict(components.get(name, name), predictor=part, cores=1, machine=machine))
            yield
        predicted = np.concatenate([np.atleast_1d(part.elapsed_s) for part in predictions])
        times[mine] = predicted[back] * per_second * parts[mine]


def predicted_times(
    predict: Callable[..., Any], graph: TaskGraph, components: Mapping[str, str], machine: str | None
) -> Floats:
    """Return the times of a graph's tasks, (n,), as `predict_in_slices`."""
    times = graph.times.copy()
    for _ in predict_in_slices(predict, graph, times, components, machine):
        pass
    return times
