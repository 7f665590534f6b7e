"""Plans of more than one allocation, for people: the front of one network, several networks on one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from advisor.cli import show
from advisor.cli.tables import notes, put, say, table
from advisor.domain.answers import Allocation
from advisor.domain.sharing import Together

COMPONENTS_SHOWN = 12  # of one point of a front: a line has no more room


def front(found: Allocation | Together, request: Mapping[str, Any], plot: Path | None = None) -> None:
    """Show the front of cores, throughput and latency, one line a point."""
    quantile = f" at {request['quantile']:g}" if "quantile" in request else ""
    queued = " with queueing" if "arrival_per_s" in request else ""
    rows = table(
        "cores", "records/s", f"latency{quantile}{queued}", "allocation", text_columns=0, words=("allocation",)
    )
    for point in found.front:
        given = _given(point.cores, point.instances)
        if point.groups:
            shared = "; ".join(f"{', '.join(keys[:COMPONENTS_SHOWN])} on {cores}" for cores, keys in point.groups)
            given = f"in turns: {shared}"
        rows.add_row(str(point.used), show.rate(point.throughput_per_s), show.seconds(point.latency_s), escape(given))
    if found.front:
        put(rows)
        say(f"{show.several(len(found.front), 'point')}: each is better in one of the three than every other")
    else:
        say("the front is too large to be worked out: ask for throughput and latency on some numbers of cores")
    notes([*(reason.text for reason in found.why), *([f"answer {found.id}"] if found.id else [])])
    if plot is not None:
        say(f"picture: {plot}")


def cost(found: Allocation) -> None:
    """Show what an allocation costs."""
    if found.cost_per_s is not None:
        what = "earns" if found.cost_per_s < 0 else "costs"
        say(f"{what} {show.rate(abs(found.cost_per_s))} a second, by the weights given")


def together(found: Together, cores: int, *, as_json: bool) -> None:
    """Show what each of several networks gets."""
    if as_json:
        show.put_json({"cores": cores} | found.as_dict())
        return
    replicated = any(n > 1 for part in found.networks for n in part.allocation.instances.values())
    rows = table("network", "component", "cores", *(["instances"] if replicated else []), "", text_columns=2)
    for part in found.networks:
        plan = part.allocation
        for place, (key, count) in enumerate(plan.runs_on.items()):
            many = [str(plan.instances[key])] if replicated else []
            turn = "" if key in plan.cores else "in turns"
            mark = ", ".join(filter(None, (turn, "bottleneck" if key in plan.bottleneck else "")))
            rows.add_row(escape(part.name) if place == 0 else "", escape(key), str(count), *many, mark)
    put(rows)
    rows = table(
        "network", "weight", "priority", "cores", "records/s beside the others", "at most", "latency",
        least=("priority", "weight"),
    )  # fmt: skip
    for part in found.networks:
        plan = part.allocation
        rows.add_row(
            escape(part.name), f"{part.weight:g}", str(part.priority), str(part.used), show.rate(part.guaranteed_per_s),
            show.rate(plan.throughput_per_s), _latency(plan),
        )  # fmt: skip
    put(rows)
    say(f"{cores - found.spare} of {show.several(cores, 'core')} used")
    notes([*(reason.text for reason in found.why), *([f"answer {found.id}"] if found.id else [])])


def swept(found: Sequence[tuple[int, Together]], *, as_json: bool) -> None:
    """Show what each of several networks reaches by cores."""
    if as_json:
        points = [{"cores": cores} | each.as_dict() for cores, each in found]
        show.put_json({"sweep": points})
        return
    rows = table("cores", "spare", "network", "cores of it", "records/s beside the others", "latency")
    for cores, each in found:
        for place, part in enumerate(each.networks):
            whole = (str(cores), str(each.spare)) if place == 0 else ("", "")
            rows.add_row(
                *whole, escape(part.name), str(part.used), show.rate(part.guaranteed_per_s), _latency(part.allocation)
            )
    put(rows)


def _given(cores: Mapping[str, int], instances: Mapping[str, int]) -> str:
    shown = [
        f"{key} {count}" if instances[key] == 1 else f"{key} {instances[key]} x {count}"
        for key, count in list(cores.items())[:COMPONENTS_SHOWN]
    ]
    return ", ".join([*shown, "…"] if len(cores) > COMPONENTS_SHOWN else shown)


def _latency(plan: Allocation) -> str:
    """Return what was asked for, of the latency that queues have a part in."""
    return show.seconds(plan.latency_quantile_s or plan.latency_queued_s or plan.latency_s)
