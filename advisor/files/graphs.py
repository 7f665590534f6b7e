"""Task graphs from files, by suffix: ``.json`` (a form of ours, node-link, or WfCommons' WfFormat), ``.events`` (recorded task
events).

The JSON form is ``{"unit": "s", "tasks": [{"id": "a", "time": 1.5, "after": ["b"]}, …]}``. A task may have a ``type`` and a
``size``, from which a model predicts its time, and any other numbers, which become columns of the graph. Beside ``after``,
or in place of it, stand ``"edges": [["b", "a"], …]``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from advisor.domain.task_graphs import Task, TaskGraph, graph_of_tasks
from advisor.errors import InvalidValue
from advisor.files.events import is_event_file, read_events
from advisor.files.lines import Lines, text_of
from advisor.files.workflows import workflow_of
from advisor.profile.recorded import graph_of_events

EVENTS_SUFFIX = ".events"
# What the fields of a task may be called.
ALIASES = {
    "id": ("id", "name"),
    "time": ("time", "duration", "runtime", "runtimeInSeconds", "weight"),
    "after": ("after", "parents"),
    "before": ("before", "children"),
    "task_type": ("type",),
    "size": ("size",),
}


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph as a file has it."""

    graph: TaskGraph
    name: str  # the file's name, or the workflow's


def read_graph(path: str | Path, *, timed: bool = True) -> GraphFile:
    """Return the graph of a file, read by its suffix.

    Without `timed` a task that has a type needs no time: it is to be predicted, and is 0 until then. Raises InvalidValue when
    the file cannot be read, is not of its form, or its graph is none (see `advisor.domain.task_graphs.task_graph`); TooLarge
    for a file or a graph beyond the limits.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix == EVENTS_SUFFIX or (suffix != ".json" and source.is_file() and is_event_file(source)):
        return GraphFile(graph_of_events(read_events(source)), source.stem)
    if suffix != ".json":
        raise InvalidValue("graph", source.name, f"a file whose suffix is .json or {EVENTS_SUFFIX}")
    text = text_of(Lines(source).whole())
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue("graph", source.name, "valid JSON", str(error)) from error
    return graph_from_json(data, source.stem, timed=timed)


def graph_from_json(data: Any, name: str = "graph", *, timed: bool = True) -> GraphFile:
    """Return the graph of decoded JSON, of any of the three forms; a list is one of tasks. `timed` as `read_graph` has it."""
    top = cast("Mapping[str, Any]", {"tasks": data} if isinstance(data, list) else data)
    if not isinstance(data, (Mapping, list)):
        raise InvalidValue("graph", data, "a JSON object with tasks, or a list of them")
    if isinstance(top.get("workflow"), Mapping):
        found = workflow_of(top, name)
        graph = graph_of_tasks(_tasks(found.tasks, {}, timed=timed), unit="s")
        return GraphFile(graph, found.name)
    entries = top.get("tasks", top.get("nodes"))
    if not isinstance(entries, list):
        raise InvalidValue("graph.tasks", entries, "a list of tasks")
    edges = top.get("edges", top.get("links", []))
    graph = graph_of_tasks(
        _tasks(cast("list[Any]", entries), _pairs(edges), timed=timed), unit=str(top.get("unit", "s"))
    )
    return GraphFile(graph, name)


def _pairs(edges: Any) -> dict[str, list[str]]:
    """Return the parents that a list of edges gives each task."""
    after: dict[str, list[str]] = {}
    if not isinstance(edges, list):
        raise InvalidValue("graph.edges", edges, "a list of pairs")
    for edge in cast("list[Any]", edges):
        pair: Any = edge
        if isinstance(edge, Mapping):
            ends = cast("Mapping[str, Any]", edge)
            pair = [ends.get("source"), ends.get("target")]
        ids = cast("list[Any]", pair) if isinstance(pair, list) else []
        if len(ids) != 2:
            raise InvalidValue("graph.edges", cast("Any", edge), "a pair of tasks, the first before the second")
        after.setdefault(str(ids[1]), []).append(str(ids[0]))
    return after


def _tasks(entries: Sequence[Any], after: dict[str, list[str]], *, timed: bool) -> Iterable[Task]:
    """Yield the tasks of JSON entries; edges that name no task are refused."""
    names: list[str] = []
    checked: list[Mapping[str, Any]] = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise InvalidValue(f"tasks[{place}]", entry, "an object with id and time")
        checked.append(cast("Mapping[str, Any]", entry))
        names.append(str(_field(checked[-1], "id", place)))
        for child in _listed(f"tasks[{names[-1]}].before", _field(checked[-1], "before", None)):
            after.setdefault(str(child), []).append(names[-1])
    unknown = after.keys() - set(names)
    if unknown:
        raise InvalidValue("graph.edges", min(unknown), "a task of the graph")
    columns: dict[
        tuple[str, ...], list[str]
    ] = {}  # what is no field of a task, by the keys that an entry has: few kinds
    for name, entry in zip(names, checked, strict=True):
        keys = tuple(entry)
        if keys not in columns:
            known = {next((alias for alias in aliases if alias in entry), "") for aliases in ALIASES.values()}
            columns[keys] = [key for key in keys if key not in known]
        time = _field(entry, "time", None)
        if time is None and not timed and _field(entry, "task_type", ""):
            time = 0.0
        if time is None:
            raise InvalidValue(f"tasks[{name}].time", None, "a number", f"or one of {', '.join(ALIASES['time'])}")
        parents = _listed(f"tasks[{name}].after", _field(entry, "after", None))
        yield Task(
            name,
            _number(f"tasks[{name}].time", time),
            list(dict.fromkeys([*(str(parent) for parent in parents), *after.get(name, [])])),
            str(_field(entry, "task_type", "")),
            _number(f"tasks[{name}].size", _field(entry, "size", 1.0)),
            {key: float(entry[key]) for key in columns[keys] if _is_number(entry[key])},
        )


def _listed(field: str, value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise InvalidValue(field, value, "a list of tasks")
    return cast("list[Any]", value or [])


def _field(entry: Mapping[str, Any], name: str, absent: Any) -> Any:
    return next((entry[alias] for alias in ALIASES[name] if alias in entry), absent)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(field: str, value: Any) -> float:
    if not _is_number(value):
        raise InvalidValue(field, value, "a number")
    return float(value)


__all__ = ["GraphFile", "graph_from_json", "read_graph"]
