"""Task graphs of Dask: anything with ``__dask_graph__``, or a mapping of keys to tasks. Dask itself is not needed to read
one."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, cast

from advisor.domain.task_graphs import Task, TaskGraph, graph_of_tasks
from advisor.errors import InvalidValue

NO_WORK = ("Alias", "DataNode")  # of a graph's nodes since 2024: another name of a key, and data
# What makes a key the only one: a hash, or the groups of a UUID, some of which delayed functions have kept.
TOKEN = re.compile(r"-(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[^-]{8,})$")
Times = float | Mapping[Any, float] | Callable[[Any], float]


def graph_from_dask(collection: Any, times: Times, *, unit: str = "s") -> TaskGraph:
    """Return the graph of a Dask collection.

    Raises InvalidValue when there is no graph, or a task has no time.

    Parameters
    ----------
    collection : object
        With ``__dask_graph__``, or the graph itself.
    times : float, mapping or function
        Each task's time in `unit`, by its key; one number for all. A key whose value is data, not a task, takes
        none.
    unit : str
        Of the times.
    """
    graph: Any = collection.__dask_graph__() if hasattr(collection, "__dask_graph__") else collection
    if not isinstance(graph, Mapping):
        raise InvalidValue("graph", type(graph).__name__, "a Dask collection or graph")
    tasks = dict(cast("Mapping[Any, Any]", graph))
    return graph_of_tasks(
        (
            Task(
                _name(key),
                _time(times, key, value, tasks),
                [_name(parent) for parent in _parents(key, value, tasks)],
                _type(key),
            )
            for key, value in tasks.items()
        ),
        unit=unit,
    )


def _parents(key: Hashable, value: Any, tasks: Mapping[Any, Any]) -> list[Any]:
    """Return the keys that a task waits for: as it names them itself (since 2024), or found in its tuple."""
    named: Any = getattr(value, "dependencies", None)
    found: Any = cast("Any", named) if isinstance(named, (set, frozenset)) else _keys(value, tasks)
    return sorted({parent for parent in found if parent in tasks and parent != key}, key=str)


def _keys(value: Any, tasks: Mapping[Any, Any]) -> Iterator[Any]:
    stack: list[Any] = [value]
    while stack:
        part = stack.pop()
        if _hashable(part) and part in tasks:
            yield part
        elif isinstance(part, (tuple, list, set)):
            stack.extend(cast("Any", part))
        elif isinstance(part, dict):
            stack.extend(cast("dict[Any, Any]", part).values())


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return isinstance(value, (str, bytes, int, float, tuple))


def _is_task(value: Any, tasks: Mapping[Any, Any]) -> bool:
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        return bool(parts) and callable(parts[0])
    return type(value).__name__ not in NO_WORK and callable(value)


def _time(times: Times, key: Any, value: Any, tasks: Mapping[Any, Any]) -> float:
    if isinstance(times, Mapping):
        for known in (key, _name(key)):
            if known in times:
                return float(cast("Mapping[Any, float]", times)[known])
        if not _is_task(value, tasks):
            return 0.0
        raise InvalidValue(f"times[{_name(key)}]", None, "a time for each task")
    if not _is_task(value, tasks):
        return 0.0
    return float(times(key)) if callable(times) else float(times)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key)


def _type(key: Any) -> str:
    """Return what Dask calls the prefix of a key: the function's name, without the token that follows it."""
    parts = cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
    head = str(parts[0])
    return TOKEN.sub("", head) or head
