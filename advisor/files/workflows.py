"""Workflow executions in WfCommons' WfFormat, versions 1.0 to 1.6.

Up to 1.4 a workflow has one list of tasks (`jobs` in the first versions); in 1.5 their specification and their execution are
apart. Run times are in seconds. A task's type is the program that it ran, where that is one word and no script, or its
category, or its name without what tells it from others of its kind; its size the bytes of its input files; its columns `cores`
and `peak_bytes` are the cores that it was given, else kept busy, and its peak memory, which the analysis does not use.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from advisor.errors import InvalidValue
from advisor.files.lines import Lines, number_of, text_of
from advisor.files.run_files import ZERO, Passed, Ran, RunEntry

Entry = Mapping[str, Any]
TIMELESS = "without a run time"
UNSPECIFIED = "in no specification"
TAG = re.compile(r"\s*\([^()]*(?:\([^()]*\)[^()]*)*\)$")  # of a task of Nextflow: FASTQC (sample 1)


class Workflow(NamedTuple):
    """An execution as its file has it: the tasks as `advisor.files.graphs` reads them."""

    tasks: list[dict[str, Any]]  # id, time in seconds or None, after, before, type, size; cores, peak_bytes where known
    name: str
    unspecified: int = 0  # tasks that ran and are in no specification


def workflow_of(top: Entry, name: str) -> Workflow:
    """Return the workflow of decoded JSON; raises InvalidValue for what WfFormat does not have."""
    flow = _object(top["workflow"], "workflow")
    specification = _object(flow.get("specification", flow), "workflow.specification")
    execution = _object(flow.get("execution", flow), "workflow.execution")
    sizes = {_name(file, "workflow.files"): _bytes(file) for file in _objects(specification, "files")}
    entries = _objects(specification, "tasks", "jobs")
    ran = {_name(task, "workflow.execution.tasks"): task for task in _objects(execution, "tasks", "jobs")}
    keys = _keys(entries)
    tasks = [_task(entry, ran.get(_name(entry, "workflow.tasks"), {}), keys, sizes) for entry in entries]
    return Workflow(tasks, str(top.get("name", name)), len(ran.keys() - {task["id"] for task in tasks}))


def _task(entry: Entry, run: Entry, keys: Mapping[str, str], sizes: Mapping[str, float]) -> dict[str, Any]:
    command: Any = run.get("command", entry.get("command"))
    program = cast("Entry", command).get("program") if isinstance(command, Mapping) else None
    read = sum(sizes.get(str(file), 0.0) for file in _listed(entry, "inputFiles"))
    read += sum(_bytes(file) for file in _objects(entry, "files") if str(file.get("link")).lower() == "input")
    kilobytes = _number(_first(run, "memory")) * 1e3  # of versions before 1.4
    busy = _number(_first(run, "avgCPU"))  # percent; in files that leave the cores out
    cores = _number(_first(run, "coreCount", "cores"))
    if math.isnan(cores) and math.isfinite(busy):
        cores = max(1.0, math.ceil(busy / 100.0))
    numbers = {
        "time": _number(_first({**entry, **run}, "runtimeInSeconds", "runtime")),
        "cores": cores,
        "peak_bytes": _number(_first(run, "memoryInBytes")) if math.isnan(kilobytes) else kilobytes,
    }
    return {
        "id": _name(entry, "workflow.tasks"),
        "after": [keys.get(str(parent), str(parent)) for parent in _listed(entry, "parents")],
        "before": [keys.get(str(child), str(child)) for child in _listed(entry, "children")],
        "type": str(_word(program) or _first(entry, "category") or _stem(_name(entry, "workflow.tasks", "name", "id"))),
        "size": max(read, 1.0),
        **{name: value for name, value in numbers.items() if math.isfinite(value)},
    }


def _keys(entries: list[Entry]) -> dict[str, str]:
    """Return the key of each task by what others may call it: its id, or its name where no other task has that one."""
    often = Counter(str(entry["name"]) for entry in entries if "name" in entry)
    known = {
        str(entry["name"]): _name(entry, "workflow.tasks")
        for entry in entries
        if "name" in entry and often[str(entry["name"])] == 1
    }
    return known | {str(entry["id"]): str(entry["id"]) for entry in entries if "id" in entry}


def _name(entry: Entry, field: str, *keys: str) -> str:
    name = _first(entry, *(keys or ("id", "name")))
    if name is None:
        raise InvalidValue(field, None, "objects with an id or a name")
    return str(name)


def _bytes(file: Entry) -> float:
    size = _first(file, "sizeInBytes", "size")
    if size is not None and not _is_number(size):
        raise InvalidValue("workflow.files.sizeInBytes", size, "a number")
    return float(size or 0.0)


def _word(program: Any) -> str:
    """Return the program, or nothing where it is a script: traces of Nextflow have all of it here."""
    return program if isinstance(program, str) and len(program.split()) == 1 else ""


def _stem(name: str) -> str:
    name = TAG.sub("", name) or name
    return name.rstrip("0123456789").removesuffix("ID").rstrip("_-") or name


def _first(entry: Entry, *names: str) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _number(value: Any) -> float:
    """Return a number, which may stand as text; NaN for anything else."""
    return number_of(value) if isinstance(value, str) else float(value) if _is_number(value) else math.nan


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _listed(entry: Entry, name: str) -> list[Any]:
    value: Any = entry.get(name)
    if value is not None and not isinstance(value, list):
        raise InvalidValue(f"workflow.tasks.{name}", value, "a list")
    return cast("list[Any]", value or [])


def _object(value: Any, field: str) -> Entry:
    if not isinstance(value, Mapping):
        raise InvalidValue(field, value, "an object, as WfFormat has it")
    return cast("Entry", value)


def _objects(entry: Entry, *names: str) -> list[Entry]:
    value = _first(entry, *names)
    if value is not None and not isinstance(value, list):
        raise InvalidValue(f"workflow.{names[0]}", value, "a list of objects")
    return [_object(item, f"workflow.{names[0]}") for item in cast("list[Any]", value or [])]


def runs(lines: Lines) -> Iterator[RunEntry]:
    """Yield the tasks of an execution as runs; a task without a time is named by its place among the tasks.

    Raises InvalidValue where the file is no workflow in WfFormat.
    """
    try:
        top: Any = json.loads(text_of(lines.whole()))
    except ValueError as error:
        raise InvalidValue(str(lines.path), "no JSON", "a workflow in WfFormat") from error
    if not isinstance(top, Mapping) or not isinstance(cast("Entry", top).get("workflow"), Mapping):
        raise InvalidValue(str(lines.path), "no workflow", "an object with a workflow, as WfFormat has it")
    flow = workflow_of(cast("Entry", top), lines.path.stem)
    yield from (Passed(0, UNSPECIFIED) for _ in range(flow.unspecified))
    for place, task in enumerate(flow.tasks, 1):
        seconds = task.get("time")
        if not seconds:
            yield Passed(place, TIMELESS if seconds is None else ZERO)
            continue
        cells = {"elapsed_s": (f"runtimeInSeconds of {task['id']}", str(seconds))}
        peak = task.get("peak_bytes") or None
        yield Ran(place, task["type"], task["size"], task.get("cores", 1.0), seconds, cells, peak)
