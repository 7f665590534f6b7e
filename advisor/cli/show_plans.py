"""Plans: an allocation, what a watch reports of it, why it is so; sweeps, fronts, several networks on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.cli import tables
from advisor.cli.tables import Column, Note, Printed, bold, rate, seconds, several, table
from advisor.domain.advice import Advice
from advisor.domain.allocations import Allocation, FrontPoint
from advisor.domain.sharing import Together

COMPONENTS_SHOWN = 12  # of one point of a front: a line has no more room
NAMES_SHOWN = 3  # of the bottlenecks of one point of a sweep
RECORDS = Column("records/s", "throughput_per_s", rate)
LATENCY = Column("latency", "latency_s", seconds)


def allocation(cores: int | None, found: Allocation) -> Iterator[Printed]:
    """Yield an allocation."""
    yield _boxes([("", found)])
    for count, keys in found.groups:
        yield f"{several(count, 'core')} {'shared by' if len(keys) > 1 else 'for'} {', '.join(keys)}"
    used = found.cores_used
    of_all = several(used, "core") if cores is None else f"{used} of {several(cores, 'core')}"
    more = (("with queueing", found.latency_queued_s), ("at the quantile", found.latency_quantile_s))
    late = "".join(f", {seconds(value)} {words}" for words, value in more if value is not None)
    yield f"{rate(found.throughput_per_s)} records/s, latency {seconds(found.latency_s)}{late}; {of_all} used"
    yield from (Note(reason.text) for reason in found.why)
    if found.cost_per_s is not None:
        what = "earns" if found.cost_per_s < 0 else "costs"
        yield f"{what} {rate(abs(found.cost_per_s))} a second, by the weights given"


def _boxes(plans: Sequence[tuple[str, Allocation]]) -> tables.Table:
    """Return the table of the components of plans; of one plan, those that share cores have their number once."""
    several_plans = len(plans) > 1 or bool(plans[0][0])
    rows: list[dict[str, Any]] = []
    for name, plan in plans:
        groups = [(count, (key,)) for key, count in plan.runs_on.items()] if several_plans else plan.groups
        shared = {key for _, keys in plan.groups if len(keys) > 1 for key in keys} | set(plan.in_turn)
        for cores, keys in groups or ((count, (key,)) for key, count in plan.cores.items()):
            for place, key in enumerate(keys):
                given = str(cores if several_plans or len(keys) > 1 else plan.cores[key]) if place == 0 else '"'
                marks = ("in turns" if key in shared else "", "bottleneck" if key in plan.bottleneck else "")
                mark = ", ".join(filter(None, marks))
                first = {"name": name if not rows or rows[-1]["plan"] is not plan else "", "plan": plan}
                rows.append({"key": key, "cores": given, "instances": plan.instances[key], "mark": mark, **first})
    replicated = any(row["instances"] > 1 for row in rows)
    return table(
        [
            Column("network", "name") if several_plans else None, Column("component", "key"), Column("cores", "cores", str),
            Column("instances", "instances", str) if replicated else None, Column("", "mark"),
        ],
        rows,
    )  # fmt: skip


def sweep(found: Sequence[tuple[int, Allocation]]) -> Iterator[Printed]:
    """Yield allocations by cores."""
    yield table(
        [
            Column("cores", lambda row: row[0], str),
            Column("used", lambda row: min(row[1].cores_used, row[0] - row[1].spare), str),
            Column("records/s", lambda row: row[1].throughput_per_s, rate),
            Column("latency", lambda row: row[1].latency_s, seconds),
            Column("bottleneck", lambda row: _few(row[1].bottleneck, NAMES_SHOWN)),
        ],
        found,
    )


def sweep_plain(objective: str, found: Sequence[tuple[int, Allocation]]) -> dict[str, Any]:
    """Return allocations by cores as JSON has them."""
    keys = ("spare", "throughput_per_s", "expected_per_s", "latency_s", "bottleneck", "groups")
    points = [
        {"cores": cores, **{key: plan.get(key) for key in keys}, "allocation": plan["cores"]}
        for cores, plan in ((cores, each.as_dict()) for cores, each in found)
    ]
    return {"objective": objective, "sweep": points}


def watched(state: Mapping[str, Any], found: Allocation | None, cores: int | None) -> Iterator[Printed]:
    """Yield where a watch stands."""
    if found is not None:
        yield from allocation(cores, found)
    for key, words in (("waiting", "waiting: {}"), ("why", "{}")):
        if state.get(key):
            yield words.format(state[key])


def advice(found: Advice, cores: int | None) -> Iterator[Printed]:
    """Yield what a watch reports."""
    yield bold(f"{found.kind}: {found.why}")
    if found.allocation is not None:
        yield from allocation(cores, found.allocation)


def front(found: Allocation | Together, request: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield the front of cores, throughput and latency, one line a point."""
    quantile = f" at {request['quantile']:g}" if "quantile" in request else ""
    queued = " with queueing" if "arrival_per_s" in request else ""
    if found.front:
        yield table(
            [Column("cores", "used", str), RECORDS, Column(f"latency{quantile}{queued}", "latency_s", seconds),
             Column("allocation", _given)],
            found.front,
        )  # fmt: skip
        yield f"{several(len(found.front), 'point')}: each is better in one of the three than every other"
    else:
        yield "the front is too large to be worked out: ask for throughput and latency on some numbers of cores"
    yield from (Note(reason.text) for reason in found.why)


def _given(point: FrontPoint) -> str:
    if point.groups:
        shared = (f"{', '.join(keys[:COMPONENTS_SHOWN])} on {cores}" for cores, keys in point.groups)
        return f"in turns: {'; '.join(shared)}"
    counts = [
        f"{key} {count}" if point.instances[key] == 1 else f"{key} {point.instances[key]} x {count}"
        for key, count in point.cores.items()
    ]
    return _few(counts, COMPONENTS_SHOWN)


def _few(names: Sequence[str], most: int) -> str:
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def together(found: Together, cores: int) -> Iterator[Printed]:
    """Yield what each of several networks gets."""
    yield _boxes([(share.name, share.allocation) for share in found.networks])
    yield table(
        [
            Column("network", "name"), Column("weight", "weight", tables.format_number), Column("priority", "priority", str),
            Column("cores", "cores_used", str), Column("records/s beside the others", "guaranteed_per_s", rate),
            Column("at most", lambda part: part.allocation.throughput_per_s, rate),
            Column("latency", lambda part: _latency(part.allocation), seconds),
        ],
        found.networks,
    )  # fmt: skip
    yield f"{cores - found.spare} of {several(cores, 'core')} used"
    yield from (Note(reason.text) for reason in found.why)


def _latency(plan: Allocation) -> float:
    """Return what was asked for, of the latency that queues have a part in."""
    return plan.latency_quantile_s or plan.latency_queued_s or plan.latency_s
