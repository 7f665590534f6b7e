"""The profiler's tables looked at: a profile of what was folded so far, open visits included. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.profile import layout as at
from advisor.profile.measures import Measures
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile

Ints = NDArray[np.int64]

NOTED = {
    "nodes_beyond_cap": at.NODES_REFUSED,
    "instances_untracked": at.UNTRACKED,
    "dependences_beyond_cap": at.EDGES_REFUSED,
    "instances_lost": at.LOST,
    "regions_repaired": at.REPAIRED,
    "instances_summed": at.SUMMED,
}
NS = 1e-9


def profile_of(profiler: Profiler, types: Mapping[str, Mapping[str, Any]] | None = None) -> Profile:
    """Return the profile of what has left the window, with what is known of its task types. Cost O(state)."""
    closed, opened = profiler.tables.closed_copy()
    n = int(closed.g[at.NODES])
    nodes, moments = closed.column("nodes", at.NODE)[:n], closed.column("moments", at.MOMENTS)[:n]
    exclusive, is_open = nodes[:, at.EXCLUSIVE], opened[:n]
    used = (nodes[:, at.COUNT] > 0) | (exclusive > 0) | (is_open > 0)
    for node in np.flatnonzero(used)[::-1].tolist():  # a chain of parents is used as a whole
        above = int(nodes[node, at.PARENT])
        while above >= 0 and not used[above]:
            used[above] = True
            above = int(nodes[above, at.PARENT])
    number = np.cumsum(used) - 1
    parent = np.where(nodes[:, at.PARENT] >= 0, number[nodes[:, at.PARENT]], at.NONE)[used]
    role = (nodes[:, at.LABEL] >> at.LABEL_BITS)[used]
    numbers = (nodes[:, at.LABEL] & at.LABEL_MASK)[used].tolist()
    count = nodes[used, at.COUNT]
    variance = np.where(count > 1, moments[used, 1] / np.maximum(count - 1, 1), 0.0)
    return Profile(
        parent=parent,
        role=role,
        names=tuple(_name(profiler, kind, n) for kind, n in zip(role.tolist(), numbers, strict=True)),
        value=nodes[used, at.VALUE],
        count=count,
        open=is_open[used],
        inclusive_ns=nodes[used, at.INCLUSIVE],
        exclusive_ns=exclusive[used],
        least_ns=np.where(count > 0, nodes[used, at.LEAST], 0),
        most_ns=nodes[used, at.MOST],
        mean_ns=moments[used, 0],
        variance_ns2=variance,
        active_max=np.where(np.isin(role, (at.THREAD, at.PARALLEL)), nodes[used, at.ACTIVE_MAX], 0),
        worked_most_ns=np.where(role == at.TASK, nodes[used, at.WORKED_MOST], 0),
        measures=_measures(profiler, closed.g, role, exclusive[used]),
        notes=notes_of(profiler),
        types=types or {},
    )


def notes_of(profiler: Profiler) -> dict[str, int]:
    """Return what is missing from a profile or was put right, by name; what did not happen is left out."""
    g = profiler.tables.g
    found = {name: int(g[place]) for name, place in NOTED.items()}
    found |= {
        "events_dropped": profiler.dropped,
        "events_late": profiler.window.late,
        "events_squeezed": profiler.window.squeezed,
        "events_lost_at_restart": profiler.waiting_lost,
        "events_waiting": len(profiler.window),
        "clock_drift_ns": round(profiler.drift_ns),
    }
    found |= {f"refused_{word}": int(g[at.COUNTED_REFUSALS + code]) for code, (word, _) in at.REFUSALS.items()}
    return {name: value for name, value in found.items() if value}


def _name(profiler: Profiler, role: int, number: int) -> str:
    if role == at.THREAD:
        return str(number)
    return at.ROLE_NAMES[role] if role in (at.IDLE, at.OVERFLOW) else profiler.strings[number]


def _measures(profiler: Profiler, closed: Ints, role: Ints, exclusive: Ints) -> Measures:
    """Return the measures. `closed`: the numbers as if all that is open ended now."""
    g = profiler.tables.g
    now, workers_ns = int(g[at.NEWEST]), int(closed[at.THREAD_TIME])
    idle_ns, delay_ns = int(closed[at.IDLE_TIME]), int(closed[at.READY_IDLE])
    by_role = [int(exclusive[role == each].sum()) for each in range(len(at.ROLE_NAMES))]
    work, creation, management = sum(by_role[: at.CREATION]), by_role[at.CREATION], by_role[at.MANAGEMENT]
    return Measures(
        cpu_s=profiler.cpu_s,
        elapsed_s=(now - int(g[at.FIRST])) * NS if g[at.FIRST] != at.NONE else 0.0,
        workers_s=workers_ns * NS,
        workers=int(g[at.WORKERS]),
        workers_max=int(g[at.WORKERS_MAX]),
        work_s=work * NS,
        creation_s=creation * NS,
        management_s=management * NS,
        waiting_s=sum(by_role[at.TASKWAIT : at.STUB]) * NS,
        delay_s=delay_ns * NS,
        no_work_s=(idle_ns - delay_ns) * NS,
        unaccounted_s=(workers_ns - work - creation - management - idle_ns) * NS,
        span_s=int(closed[at.SPAN]) * NS,
        burdened_span_s=int(closed[at.SPAN_BURDENED]) * NS,
        ready=int(g[at.READY]),
        active=int(g[at.ACTIVE_ALL]),
        active_max=int(g[at.ACTIVE_ALL_MAX]),
        creates=int(g[at.CREATES]),
        begins=int(g[at.BEGINS]),
        ends=int(g[at.ENDS]),
        cancels=int(g[at.CANCELS]),
        fragments=int(g[at.FRAGMENTS_ALL]),
        dependences=int(g[at.DEPENDENCES]),
        at_once=int(g[at.RAN_AT_ONCE]),
        in_order=int(g[at.RAN_IN_ORDER]),
        summed=int(g[at.SUMMED]),
    )
