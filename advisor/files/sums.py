"""Sums of task instances that were not followed one by one, grafted onto the profile of those that were.

A tool that cannot send every event sums the instances that it leaves out, by thread, task type and depth, and says so in lines of
fields with tabs between them (docs/openmp.md): ``sum`` type thread depth tasks made work creation waiting least most squares
(times in ns), ``run`` incarnation, and at last ``end`` producer sent dropped summed restarts sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from advisor.errors import InvalidValue
from advisor.profile import layout as at
from advisor.profile.tree import COLUMNS, MOMENTS, Profile

APART: Final = "tasks not followed"  # region in which a thread is, while such tasks run on it
DEPTH: Final = "depth"
SUMS_BYTES_MAX: Final = 2**26  # 4,096 threads of 2,048 sums would be more: a machine of some hundred cores
SUM_FIELDS, END_FIELDS = 12, 7


@dataclass(frozen=True, slots=True)
class Sum:
    """Instances of one type and depth on one thread; times in ns."""

    type: str
    thread: int
    depth: int
    tasks: int
    made: int
    work_ns: float
    creation_ns: float
    waiting_ns: float
    least_ns: float
    most_ns: float
    squares_ns2: float

    @property
    def total_ns(self) -> float:
        """Inclusive time of all of them."""
        return self.work_ns + self.creation_ns + self.waiting_ns


@dataclass(frozen=True, slots=True)
class Sums:
    """What a tool says at the end of a run.

    Attributes
    ----------
    sums : tuple of Sum
    incarnation : bytes
        Of the run; it changes where the service has lost its state.
    sent, dropped, summed : int
        Records sent and acknowledged; lost; and left out because their tasks are in the sums.
    sample : int
        Of so many tasks one was followed at the end.
    """

    sums: tuple[Sum, ...]
    incarnation: bytes
    sent: int
    dropped: int
    summed: int
    sample: int


def read_sums(path: Path) -> Sums | None:
    """Return the sums of a file; None where the tool did not come to its end, as of a program that was killed.

    Raises
    ------
    InvalidValue
        When a line is none.
    """
    if not path.exists():
        return None
    if path.stat().st_size > SUMS_BYTES_MAX:
        raise InvalidValue("sums", path.stat().st_size, f"at most {SUMS_BYTES_MAX} bytes")
    found: list[Sum] = []
    incarnation = b""
    for line in path.read_text().splitlines():
        kind, *fields = line.split("\t")
        try:
            if kind == "sum" and len(fields) == SUM_FIELDS - 1:
                found.append(Sum(fields[0], *map(int, fields[1:5]), *map(float, fields[5:])))
            elif kind == "run":
                incarnation = bytes.fromhex(fields[0])
            elif kind == "end" and len(fields) == END_FIELDS - 1:
                sent, dropped, summed, _, sample = map(int, fields[1:])
                return Sums(tuple(found), incarnation, sent, dropped, summed, sample)
            else:
                raise InvalidValue("sums", line[:80], "a line of sums")
        except ValueError as error:
            raise InvalidValue("sums", line[:80], "a line of sums") from error
    return None


class _Nodes:
    """The columns of a profile as lists that grow."""

    def __init__(self, profile: Profile) -> None:
        self.columns: dict[str, list[Any]] = {name: getattr(profile, name).tolist() for name in (*COLUMNS, *MOMENTS)}
        self.names = list(profile.names)
        self.found: dict[tuple[int, int, str, int], int] = {}
        for node in range(len(profile)):
            key = (int(profile.parent[node]), int(profile.role[node]), profile.names[node], int(profile.value[node]))
            self.found[key] = node

    def node(self, parent: int, role: int, name: str, value: int = 0) -> int:
        key = (parent, role, name, value)
        if key not in self.found:
            self.found[key] = len(self.names)
            self.names.append(name)
            for column, values in self.columns.items():
                values.append({"parent": parent, "role": role, "value": value}.get(column, 0))
        return self.found[key]

    def add(self, node: int, inclusive_ns: float, exclusive_ns: float, count: int = 0) -> None:
        self.columns["inclusive_ns"][node] += round(inclusive_ns)
        self.columns["exclusive_ns"][node] += round(exclusive_ns)
        self.columns["count"][node] += count

    def join(self, node: int, tasks: int, total_ns: float, squares_ns2: float, least_ns: float, most_ns: float) -> None:
        """Merge the statistics of visits; before their count is added."""
        c = self.columns
        n, mean = c["count"][node], c["mean_ns"][node]
        other = total_ns / tasks
        apart = other - mean
        within = c["variance_ns2"][node] * max(n - 1, 0) + max(squares_ns2 - tasks * other * other, 0.0)
        within += apart * apart * n * tasks / (n + tasks)
        c["mean_ns"][node] = mean + apart * tasks / (n + tasks)
        c["variance_ns2"][node] = within / (n + tasks - 1) if n + tasks > 1 else 0.0
        c["least_ns"][node] = round(min(c["least_ns"][node], least_ns) if n else least_ns)
        c["most_ns"][node] = round(max(c["most_ns"][node], most_ns))


def with_sums(profile: Profile, sums: Sequence[Sum]) -> Profile:
    """Return a profile that holds the summed instances, too: in their types' trees, by depth, without their call paths.

    What a thread spent on them is in their nodes then, and its region `APART` is a stub. Their waiting counts as no_work: what
    was ready meanwhile is not known. The span stays that of the instances that were followed.
    """
    if not sums:
        return profile
    nodes = _Nodes(profile)
    apart_ns = 0
    for node in np.flatnonzero(profile.role == at.REGION).tolist():
        if profile.names[node] == APART:
            nodes.columns["role"][node] = at.STUB
            apart_ns += int(profile.exclusive_ns[node])
    for each in sums:
        root = nodes.node(at.NONE, at.TASK, each.type)
        depth = nodes.node(root, at.PARAMETER, DEPTH, each.depth)
        for node in (root, depth):
            nodes.join(node, each.tasks, each.total_ns, each.squares_ns2, each.least_ns, each.most_ns)
            nodes.add(node, each.total_ns, each.work_ns if node == depth else 0.0, each.tasks)
        if each.made:
            nodes.add(nodes.node(depth, at.CREATION, APART), each.creation_ns, each.creation_ns, each.made)
        if each.waiting_ns:
            nodes.add(nodes.node(depth, at.TASKWAIT, APART), each.waiting_ns, each.waiting_ns)
    columns: dict[str, Any] = {name: np.array(nodes.columns[name], np.int64) for name in COLUMNS}
    columns |= {name: np.array(nodes.columns[name], np.float64) for name in MOMENTS}
    tasks = sum(each.tasks for each in sums)
    work, creation, waiting = (
        sum(getattr(each, name) for each in sums) * 1e-9 for name in ("work_ns", "creation_ns", "waiting_ns")
    )
    m = profile.measures
    measures = replace(
        m,
        work_s=m.work_s - apart_ns * 1e-9 + work,
        creation_s=m.creation_s + creation,
        waiting_s=m.waiting_s + waiting,
        no_work_s=m.no_work_s + waiting,
        unaccounted_s=m.unaccounted_s + apart_ns * 1e-9 - work - creation - waiting,
        creates=m.creates + tasks,
        begins=m.begins + tasks,
        ends=m.ends + tasks,
    )
    grown = len(nodes.names) - len(profile)
    return Profile(
        **columns,
        names=tuple(nodes.names),
        measures=measures,
        metrics={name: np.append(values, np.zeros(grown)) for name, values in profile.metrics.items()},
        notes={**profile.notes, "tasks_summed": tasks},
    )
