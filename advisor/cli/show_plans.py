"""Plans for people: an allocation, what a watch tells of it, why it is so; sweeps, fronts, several networks on one machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from advisor.cli import show
from advisor.cli.tables import notes, put, say, table
from advisor.domain.advice import Advice
from advisor.domain.allocations import Allocation
from advisor.domain.sharing import Together
from advisor.domain.wording import seconds

COMPONENTS_SHOWN = 12  # of one point of a front: a line has no more room
ADVICE_TOLD = ("kind", "gain", "probability", "cost_s", "break_even_s", "figures", "why")


def allocation(objective: str, cores: int | None, found: Allocation, *, as_json: bool) -> None:
    """Show an allocation."""
    if as_json:
        show.put_json({"objective": objective} | found.as_dict())
        return
    replicated = any(n > 1 for n in found.instances.values())
    rows = table("component", "cores", *(["instances"] if replicated else []), "")
    for cores_, keys in found.groups or ((count, (key,)) for key, count in found.cores.items()):
        for place, key in enumerate(keys):
            given = str(cores_ if len(keys) > 1 else found.cores[key]) if place == 0 else '"'
            cells = [escape(key), given, *([str(found.instances[key])] if replicated else [])]
            turn = "in turns" if len(keys) > 1 else ""
            rows.add_row(*cells, ", ".join(filter(None, (turn, "bottleneck" if key in found.bottleneck else ""))))
    put(rows)
    used = found.cores_used
    for count, keys in found.groups:
        say(f"{show.several(count, 'core')} {'shared by' if len(keys) > 1 else 'for'} {', '.join(keys)}")
    of_all = show.several(used, "core") if cores is None else f"{used} of {show.several(cores, 'core')}"
    more = (("with queueing", found.latency_queued_s), ("at the quantile", found.latency_quantile_s))
    late = "".join(f", {seconds(value)} {words}" for words, value in more if value is not None)
    say(f"{show.rate(found.throughput_per_s)} records/s, latency {seconds(found.latency_s)}{late}; {of_all} used")
    notes([reason.text for reason in found.why])


def sweep(
    objective: str, found: Sequence[tuple[int, Allocation]], knee: int | None, plot: Any, *, as_json: bool
) -> None:  # fmt: skip
    """Show allocations by cores, the knee among them."""
    used = [each.cores_used for _, each in found]
    if as_json:
        points = [
            {
                "cores": cores, "spare": each.spare, "throughput_per_s": each.throughput_per_s,
                "expected_per_s": each.expected_per_s,
                "latency_s": each.latency_s, "bottleneck": list(each.bottleneck), "allocation": dict(each.cores),
                "groups": each.as_dict()["groups"],
            }
            for cores, each in found
        ]  # fmt: skip
        show.put_json(
            {"objective": objective, "sweep": points, "knee": knee} | ({} if plot is None else {"plot": str(plot)})
        )
        return
    rows = table("cores", "used", "records/s", "latency", "bottleneck", "", text_columns=0, words=("bottleneck",))
    for (cores, each), taken in zip(found, used, strict=True):
        names = ", ".join(each.bottleneck[:3]) + (", …" if len(each.bottleneck) > 3 else "")
        took = f"{min(taken, cores - each.spare)}"
        mark = "knee" if cores == knee else ""
        rows.add_row(str(cores), took, show.rate(each.throughput_per_s), seconds(each.latency_s), escape(names), mark)
    put(rows)
    if knee is None:
        say(f"no knee among these: only {show.several(found[-1][0], 'core')} reach 99 % of the best", style="dim")
    else:
        say(f"{show.several(knee, 'core')} reach 99 % of the best of these")
    if plot is not None:
        say(f"picture: {plot}")


def watched(state: Mapping[str, Any], found: Allocation | None, cores: int | None, *, as_json: bool) -> None:
    """Show where a watch stands."""
    if as_json:
        print(json.dumps(show.finite(state), ensure_ascii=False))
        return
    if found is not None:
        allocation(str(state.get("objective", "throughput")), cores, found, as_json=False)
    for key, words in (("waiting", "waiting: {}"), ("why", "{}")):
        if state.get(key):
            say(words.format(state[key]))


def advice(found: Advice, cores: int | None, *, as_json: bool) -> None:
    """Show one thing that a watch tells."""
    if as_json:
        plain: dict[str, Any] = {key: getattr(found, key) for key in ("watch", *ADVICE_TOLD)}
        told = None if found.allocation is None else found.allocation.as_dict()
        print(json.dumps(show.finite(plain | {"changed": list(found.changed), "allocation": told}), ensure_ascii=False))
        return
    say(f"{found.kind}: {found.why}", style="bold")
    if found.allocation is not None:
        allocation(found.allocation.objective, cores, found.allocation, as_json=False)


def explained(said: Sequence[str], answer: Mapping[str, Any]) -> None:
    """Show why an answer is as it is; one about several networks in sentences alone."""
    for sentence in said:
        say(sentence)
    rows = table("component", "cores", "one more", "one less", "model", "runs", "extrapolated")
    marginal = {row["key"]: row for row in answer.get("marginal", ())}
    evidence: Mapping[str, Mapping[str, Any]] = answer.get("evidence", {})
    latency = answer.get("objective") == "latency"
    name, told = ("latency_s", seconds) if latency else ("throughput_per_s", show.rate)
    for key, count in answer.get("cores", {}).items():
        row, known = marginal.get(key), evidence.get(key)
        if row is None and known is None:
            continue
        beyond = known and known["extrapolates"]
        rows.add_row(
            escape(key), str(count), *(told(row[f"{side}_{name}"]) if row else "–" for side in ("next", "last")),
            escape(str(known["model"])) if known else "–", f"{known['observations']:,}" if known else "–",
            f"{beyond:.1f} doublings" if beyond else "no" if known else "–",
        )  # fmt: skip
    if rows.row_count:
        say(
            f"{'latency' if latency else 'records/s'} of the network with one core more or less of a component:",
            style="dim",
        )
        put(rows)


def arguments(words: Sequence[str], found: Allocation, *, as_json: bool) -> None:
    """Show the arguments of a runtime that do what an allocation says."""
    if as_json:
        show.put_json({"arguments": list(words)} | found.as_dict())
        return
    print(shlex.join(words))


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
        rows.add_row(str(point.used), show.rate(point.throughput_per_s), seconds(point.latency_s), escape(given))
    if found.front:
        put(rows)
        say(f"{show.several(len(found.front), 'point')}: each is better in one of the three than every other")
    else:
        say("the front is too large to be worked out: ask for throughput and latency on some numbers of cores")
    notes([reason.text for reason in found.why])
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
            turn = "in turns" if key in plan.in_turn else ""
            mark = ", ".join(filter(None, (turn, "bottleneck" if key in plan.bottleneck else "")))
            rows.add_row(escape(part.name) if place == 0 else "", escape(key), str(count), *many, mark)
    put(rows)
    rows = table(
        "network", "weight", "priority", "cores", "records/s beside the others", "at most", "latency",
    )  # fmt: skip
    for part in found.networks:
        plan = part.allocation
        rows.add_row(
            escape(part.name), f"{part.weight:g}", str(part.priority), str(part.used), show.rate(part.guaranteed_per_s),
            show.rate(plan.throughput_per_s), _latency(plan),
        )  # fmt: skip
    put(rows)
    say(f"{cores - found.spare} of {show.several(cores, 'core')} used")
    notes([reason.text for reason in found.why])


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
    return seconds(plan.latency_quantile_s or plan.latency_queued_s or plan.latency_s)
