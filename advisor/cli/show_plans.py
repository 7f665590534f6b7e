"""Plans: an allocation, what a watch reports of it, why it is so; sweeps, several networks on one machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from advisor.cli import tables
from advisor.cli.tables import Column, Note, Printed, bold, rate, seconds, several, table
from advisor.domain.allocations import Allocation

NAMES_SHOWN = 3  # of the bottlenecks of one point of a sweep
RECORDS = Column("records/s", "throughput_per_s", rate)
LATENCY = Column("latency", "latency_s", seconds)
LATENCIES = (("with queueing", "latency_queued_s"), ("at the quantile", "latency_quantile_s"))
Plan = Mapping[str, Any]


def allocation(found: Plan) -> Iterator[Printed]:
    """Yield an allocation."""
    yield _boxes([("", found)])
    for group in found["groups"]:
        keys = group["components"]
        yield f"{several(group['cores'], 'core')} {'shared by' if len(keys) > 1 else 'for'} {', '.join(keys)}"
    used, late = found["cores_used"], [(words, found[key]) for words, key in LATENCIES if key in found]
    bounded = found["spare"] or found["objective"] != "fewest_cores"
    of_all = f"{used} of {several(used + found['spare'], 'core')}" if bounded else several(used, "core")
    more = "".join(f", {seconds(value)} {words}" for words, value in late)
    yield f"{rate(found['throughput_per_s'])} records/s, latency {seconds(found['latency_s'])}{more}; {of_all} used"
    yield from _reasons(found)


def _reasons(found: Plan) -> Iterator[Note]:
    return (Note(reason["text"]) for reason in found["why"])


def _boxes(plans: Sequence[tuple[str, Plan]]) -> Table:
    """Return the table of the components of plans."""
    rows: list[dict[str, Any]] = [
        {"name": "" if place else name, "key": key, "cores": plan["cores"][key], "instances": plan["instances"][key],
         "mark": ", ".join(word for word, keys in _marks(plan) if key in keys)}
        for name, plan in plans for place, key in enumerate(plan["instances"])
    ]  # fmt: skip
    replicated = any(row["instances"] > 1 for row in rows)
    return table(
        [
            Column("network", "name") if plans[0][0] else None, Column("component", "key"), Column("cores", "cores", str),
            Column("instances", "instances", str) if replicated else None, Column("", "mark"),
        ],
        rows,
    )  # fmt: skip


def _marks(plan: Plan) -> tuple[tuple[str, Collection[str]], ...]:
    return ("in turns", plan.get("in_turn", ())), ("bottleneck", plan["bottleneck"])


SWEPT = ("spare", "throughput_per_s", "expected_per_s", "latency_s", "bottleneck", "groups")  # of each point of a sweep


def point_of(cores: int, found: Allocation) -> dict[str, Any]:
    """Return an allocation as a point of a sweep."""
    plan = found.as_dict()
    used = min(plan["cores_used"], cores - plan["spare"])
    return {"cores": cores, "used": used} | {key: plan.get(key) for key in SWEPT} | {"allocation": plan["cores"]}


def sweep(found: Sequence[Plan]) -> Table:
    """Return the table of allocations by cores."""
    bottleneck = Column("bottleneck", lambda point: _few(point["bottleneck"], NAMES_SHOWN))
    return table([Column("cores", "cores", str), Column("used", "used", str), RECORDS, LATENCY, bottleneck], found)


def watched(found: Plan) -> Iterator[Printed]:
    """Yield where a watch stands, or what it reports."""
    if "kind" in found:
        yield bold(f"{found['kind']}: {found['why']}")
    if found.get("allocation"):
        yield from allocation(found["allocation"])
    if found.get("waiting"):
        yield f"waiting: {found['waiting']}"
    if found.get("why") and "kind" not in found:
        yield found["why"]


def _few(names: Sequence[str], most: int) -> str:
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def together(found: Plan) -> Iterator[Printed]:
    """Yield what each of several networks gets."""
    yield _boxes([(share["name"], share) for share in found["networks"]])
    yield table(
        [
            Column("network", "name"), Column("weight", "weight", tables.format_number),
            Column("cores", "cores_used", str), Column("records/s beside the others", "guaranteed_per_s", rate),
            Column("at most", "throughput_per_s", rate), Column("latency", _latency, seconds),
        ],
        found["networks"],
    )  # fmt: skip
    yield f"{found['cores'] - found['spare']} of {several(found['cores'], 'core')} used"
    yield from _reasons(found)


def _latency(plan: Plan) -> float:
    """Return what was asked for, of the latency that queues have a part in."""
    return next(plan[key] for key in ("latency_quantile_s", "latency_queued_s", "latency_s") if plan.get(key))
