"""Task graphs: what takes how long, and what must be done before what.

A graph is flat arrays: times in whole ticks, edges as compressed rows (CSR). `task_graph` builds one from arrays,
`graph_of_tasks` from any iterable of `Task`, a generator as well; both validate, so that a `TaskGraph` in hand is a good one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain import limits
from advisor.errors import InvalidValue, TooLarge, not_one_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Ticks in one unit of time. A unit of time with no name (Standard Task Graphs) is cut finely enough for contention to show.
TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "unit": 10**6}
NAMED_IN_CYCLE = 8  # tasks of a cycle that its error names
NUMBER_BITS = 32  # of a task in the key of an edge, parent first: there are fewer than 2**31 tasks
NUMBER_MASK = 2**NUMBER_BITS - 1
INDEX_COLUMNS = ("loop", "group", "queue", "tied")  # columns of whole numbers; -1 says: none


@dataclass(frozen=True, slots=True)
class Task:
    """One task as a generator yields it: its name, its time in the graph's unit, the names of the tasks that it waits for.

    `task_type` and `size` are what a model predicts its time from; `columns` holds further numbers (see `TaskGraph.columns`).
    """

    name: str
    time: float
    after: Sequence[str] = ()
    task_type: str = ""
    size: float = 1.0
    columns: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """n tasks and m precedences, validated: acyclic, times not negative.

    Attributes
    ----------
    ticks : int64 array (n,)
        Each task's time on one core, in ticks of ``TICKS[unit]`` to a unit.
    first : int64 array (n + 1,)
        The children of task i are ``children[first[i]:first[i + 1]]``, ascending and without repetition.
    children : int64 array (m,)
        Tasks that wait for another.
    unit : str
        Unit of time of the graph: a key of `TICKS`. Answers about the graph have this unit.
    names : tuple of str
        One a task, or empty: then a task's name is its number.
    types : tuple of str
        Task types; ``columns["type"]`` says which a task has.
    columns : mapping of str to array (n,)
        What else is known of each task. Read by policies: ``loop`` (number of its parallel loop or phase), ``queue`` (its
        own queue), ``tied`` (tasks of one number stay on one processor). Read by contention models: ``rate``, ``demand``, … as
        each says. Read by models: ``type`` and ``size``.
    """

    ticks: Ints
    first: Ints
    children: Ints
    unit: str = "s"
    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def __len__(self) -> int:
        return len(self.ticks)

    @property
    def edges(self) -> int:
        """Number of precedences."""
        return len(self.children)

    @property
    def ticks_per_unit(self) -> int:
        """Ticks in one unit of the graph's time."""
        return TICKS[self.unit]

    @property
    def times(self) -> Floats:
        """Each task's time in the graph's unit."""
        return self.ticks / self.ticks_per_unit

    @cached_property
    def waits(self) -> Ints:
        """Number of parents of each task."""
        return np.bincount(self.children, minlength=len(self))

    @cached_property
    def order(self) -> Ints:
        """The tasks in program order: parents before children, of those that could come next the lowest number first."""
        return _ordered(self.first, self.children, self.waits, self)

    def name(self, task: int) -> str:
        """Return the name of a task."""
        return self.names[task] if self.names else str(task)

    def column(self, name: str, hint: str = "") -> NDArray[Any]:
        """Return a column.

        Raises
        ------
        InvalidValue
            When the graph has none of that name.
        """
        if name not in self.columns:
            known = f"the graph has {', '.join(self.columns)}" if self.columns else "the graph has no columns"
            raise InvalidValue(f"columns.{name}", None, "given for each task", f"{hint}; {known}" if hint else known)
        return self.columns[name]

    def timed(self, times: ArrayLike) -> TaskGraph:
        """Return the same graph with other times, (n,) in its unit; raises as `task_graph`."""
        return replace(self, ticks=_ticks(times, self.unit, len(self), self.names))


def task_graph(
    times: ArrayLike,
    edges: ArrayLike = (),
    *,
    unit: str = "s",
    names: Sequence[str] = (),
    types: Sequence[str] = (),
    columns: Mapping[str, ArrayLike] | None = None,
) -> TaskGraph:
    """Return the graph of tasks with these times and precedences.

    Parameters
    ----------
    times : array (n,)
        In `unit`, finite and not negative; rounded to ticks.
    edges : array (m, 2)
        Pairs (parent, child) of task numbers; a repeated pair counts once.
    unit : str
        A key of `TICKS`.
    names, types, columns
        As the attributes of `TaskGraph`.

    Raises
    ------
    InvalidValue
        For a time that is not finite or is negative, a task that does not exist, a cycle (its tasks are named), a column or
        names of another length.
    TooLarge
        Beyond the limits of `advisor.domain.limits`.

    Notes
    -----
    Cost O(n + m log m). Edges that all lead from a lower to a higher number need no search for cycles.
    """
    if unit not in TICKS:
        raise not_one_of("unit", unit, TICKS)
    count = np.shape(times)[0] if np.ndim(times) == 1 else -1
    if count < 0:
        raise InvalidValue("times", np.shape(times), "a vector, one number a task")
    if count > limits.GRAPH_TASKS_MAX:
        raise TooLarge("tasks", count, limits.GRAPH_TASKS_MAX)
    if names and len(names) != count:
        raise InvalidValue("names", len(names), f"one a task, {count}")
    ticks = _ticks(times, unit, count, names)
    parents, children = _edges(edges, count)
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(parents, minlength=count), out=first[1:])
    checked = {name: _column(name, values, count) for name, values in (columns or {}).items()}
    if "type" in checked and count and not 0 <= int(checked["type"].min()) <= int(checked["type"].max()) < len(types):
        raise InvalidValue("columns.type", int(checked["type"].max()), f"an index of the {len(types)} types")
    graph = TaskGraph(ticks, first, children, unit, tuple(names), tuple(types), checked)
    if (parents >= children).any():
        graph.order  # noqa: B018 - finds a cycle, and keeps the order that it needed for it
    return graph


def graph_of_tasks(tasks: Iterable[Task], *, unit: str = "s") -> TaskGraph:
    """Return the graph of an iterable of tasks, in its order; a task may wait for one that comes later.

    Raises
    ------
    InvalidValue
        For a name twice, a task waited for that is not there, and as `task_graph`.
    TooLarge
        As `task_graph`.
    """
    number: dict[str, int] = {}
    found: list[Task] = []
    for task in tasks:
        if task.name in number:
            raise InvalidValue("tasks", task.name, "names that occur once")
        if len(found) >= limits.GRAPH_TASKS_MAX:
            raise TooLarge("tasks", len(found) + 1, limits.GRAPH_TASKS_MAX)
        number[task.name] = len(found)
        found.append(task)
    pairs: list[tuple[int, int]] = []
    for child, task in enumerate(found):
        for parent in task.after:
            if parent not in number:
                raise InvalidValue(f"tasks[{task.name}].after", parent, "a task of the graph")
            pairs.append((number[parent], child))
    columns: dict[str, Any] = {key: [] for task in found for key in task.columns}
    for key, values in columns.items():
        absent = -1.0 if key in INDEX_COLUMNS else 0.0
        values.extend(task.columns.get(key, absent) for task in found)
    types = sorted({task.task_type for task in found})
    if types != [""]:
        index = {name: place for place, name in enumerate(types)}
        columns["type"] = [index[task.task_type] for task in found]
        columns["size"] = [task.size for task in found]
    return task_graph(
        [task.time for task in found],
        pairs,
        unit=unit,
        names=tuple(number),
        types=types if columns.keys() & {"type"} else (),
        columns=columns,
    )


def _ticks(times: ArrayLike, unit: str, count: int, names: Sequence[str]) -> Ints:
    try:
        given = np.asarray(times, np.float64) if count else np.zeros(0)
    except (TypeError, ValueError) as error:
        raise InvalidValue("times", times, "numbers") from error
    if given.shape != (count,):
        raise InvalidValue("times", given.shape, f"one number a task, ({count},)")
    bad = ~(np.isfinite(given) & (given >= 0))
    if bad.any():
        at = int(bad.argmax())
        raise InvalidValue(f"times[{names[at] if names else at}]", float(given[at]), "finite and not negative")
    total = float(given.sum()) * TICKS[unit]
    if total > limits.GRAPH_TICKS_MAX:
        raise TooLarge(
            "times", total / TICKS[unit], limits.GRAPH_TICKS_MAX / TICKS[unit], "give the times in a larger unit"
        )
    return np.rint(given * TICKS[unit]).astype(np.int64)


def _edges(edges: ArrayLike, count: int) -> tuple[Ints, Ints]:
    """Return parents and children of the edges, sorted by (parent, child), each pair once."""
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InvalidValue("edges", f"{pairs.dtype} {pairs.shape}", "pairs of task numbers, (m, 2)")
    if len(pairs) > limits.GRAPH_EDGES_MAX:
        raise TooLarge("edges", len(pairs), limits.GRAPH_EDGES_MAX)
    if int(pairs.min()) < 0 or int(pairs.max()) >= count:
        at = int(((pairs < 0) | (pairs >= count)).any(axis=1).argmax())
        raise InvalidValue(f"edges[{at}]", f"{pairs[at, 0]} -> {pairs[at, 1]}", f"tasks from 0 to {count - 1}")
    keys = (pairs[:, 0].astype(np.int64) << NUMBER_BITS) | pairs[:, 1].astype(np.int64)
    if not (keys[1:] > keys[:-1]).all():
        keys.sort()
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return keys >> NUMBER_BITS, keys & NUMBER_MASK


def _column(name: str, values: ArrayLike, count: int) -> NDArray[Any]:
    whole = name == "type" or name in INDEX_COLUMNS
    try:
        column = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"columns.{name}", values, "numbers") from error
    if column.shape != (count,):
        raise InvalidValue(f"columns.{name}", column.shape, f"one number a task, ({count},)")
    if not np.isfinite(column).all():
        raise InvalidValue(f"columns.{name}", "not finite", "finite numbers")
    if whole and count and not ((column == np.floor(column)) & (column >= -1) & (column < 2**31)).all():
        raise InvalidValue(f"columns.{name}", "a number that is no index", "whole numbers from -1 on")
    return column.astype(np.int64) if whole else column


def _ordered(first: Ints, children: Ints, waits: Ints, graph: TaskGraph) -> Ints:
    """Return the program order; raises InvalidValue naming the tasks of a cycle.

    Kahn's algorithm with a heap in place of his set, so that the order is one and the same in every implementation.
    """
    count = len(first) - 1
    parents = np.repeat(np.arange(count), np.diff(first))
    if (parents < children).all():
        return np.arange(count)
    from heapq import heapify, heappop, heappush  # noqa: PLC0415 - rarely needed

    left, starts, kids = waits.tolist(), first.tolist(), children.tolist()
    heap = np.flatnonzero(waits == 0).tolist()
    heapify(heap)
    order: list[int] = []
    while heap:
        task = heappop(heap)
        order.append(task)
        for child in kids[starts[task] : starts[task + 1]]:
            left[child] -= 1
            if not left[child]:
                heappush(heap, child)
    if len(order) < count:
        raise _cycle(graph, left, parents, children)
    return np.asarray(order, np.int64)


def _cycle(graph: TaskGraph, left: list[int], parents: Ints, children: Ints) -> InvalidValue:
    """Return the error that names one cycle: walking to a parent that never became ready must come round."""
    waiting = np.asarray(left) > 0
    among = waiting[parents] & waiting[children]
    parent_of = dict(zip(children[among].tolist(), parents[among].tolist(), strict=True))
    walk, seen = [next(iter(parent_of))], set[int]()
    while walk[-1] not in seen:
        seen.add(walk[-1])
        walk.append(parent_of[walk[-1]])
    cycle = walk[walk.index(walk[-1]) :][::-1]
    lowest = cycle.index(min(cycle))
    cycle = cycle[lowest:-1] + cycle[: lowest + 1]
    named = [graph.name(task) for task in cycle[:NAMED_IN_CYCLE]]
    if len(cycle) > NAMED_IN_CYCLE:
        named += [f"… ({len(cycle) - 1} tasks)"]
    return InvalidValue("edges", " -> ".join(named), "without a cycle", "a task cannot wait for itself")


def checked_graph(graph: Any) -> TaskGraph:
    """Return a task graph; raises InvalidValue where it is none."""
    if not isinstance(graph, TaskGraph):
        raise InvalidValue("graph", graph, "a TaskGraph", "task_graph and graph_of_tasks make one")
    return graph


# The flat form: what the wire and the pipe to a worker carry, little-endian.

FLAT_KEYS = ("unit", "times", "edges", "names", "types", "type", "size", "columns")


def graph_as_flat(graph: TaskGraph) -> dict[str, Any]:
    """Return a graph as a map of texts and bytes: `times` float64 (n,), `edges` uint32 (m, 2), and what else it has."""
    parents = np.repeat(np.arange(len(graph)), np.diff(graph.first))
    flat: dict[str, Any] = {
        "unit": graph.unit,
        "times": graph.times.astype("<f8").tobytes(),
        "edges": np.column_stack([parents, graph.children]).astype("<u4").tobytes(),
    }
    if graph.names:
        flat["names"] = list(graph.names)
    columns = {name: np.asarray(values) for name, values in graph.columns.items()}
    if graph.types:
        flat["types"] = list(graph.types)
        flat["type"] = columns.pop("type").astype("<u4").tobytes()
        if "size" in columns:
            flat["size"] = columns.pop("size").astype("<f8").tobytes()
    if columns:
        flat["columns"] = {name: values.astype("<f8").tobytes() for name, values in columns.items()}
    return flat


def graph_from_flat(flat: Mapping[str, Any]) -> TaskGraph:
    """Return the graph of a flat form; raises as `task_graph`, and InvalidValue for bytes that are no whole numbers of
    values."""
    unknown = flat.keys() - set(FLAT_KEYS)
    if unknown:
        raise InvalidValue("graph", min(unknown), f"one of {', '.join(FLAT_KEYS)}")
    edges = _values(flat, "edges", "<u4").astype(np.int64)
    if len(edges) % 2:
        raise InvalidValue("graph.edges", len(edges), "pairs of task numbers")
    columns: dict[str, Any] = {f"{name}": _values(flat["columns"], name, "<f8") for name in flat.get("columns", {})}
    for name, kind in (("type", "<u4"), ("size", "<f8")):
        if name in flat:
            columns[name] = _values(flat, name, kind)
    return task_graph(
        _values(flat, "times", "<f8"),
        edges.reshape(-1, 2),
        unit=flat.get("unit", "s"),
        names=flat.get("names", ()),
        types=flat.get("types", ()),
        columns=columns,
    )


def _values(flat: Mapping[str, Any], name: str, kind: str) -> NDArray[Any]:
    data = flat.get(name, b"")
    size = np.dtype(kind).itemsize
    if not isinstance(data, bytes) or len(data) % size:
        raise InvalidValue(f"graph.{name}", data, f"bytes, {size} a value")
    return np.frombuffer(data, kind)
