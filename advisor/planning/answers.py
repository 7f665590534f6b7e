"""From a solution to the answer: its figures, its tables, and why it is as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import structs

from advisor.domain import elementary
from advisor.domain.allocations import Allocation, Details, Evidence, Reason
from advisor.domain.curves import TabulatedCurves
from advisor.planning.demand import PROMISED, TIE
from advisor.planning.estimates import reaches
from advisor.planning.exact import Solution
from advisor.planning.reasons import amount, beyond, first, plural, reason
from advisor.planning.requests import RATE, SCARCE
from advisor.planning.scores import cost_of, latency_of
from advisor.planning.search import nodes_of
from advisor.planning.tables import KNEE_SHARE, front_of, knee_of, marginals_of, runners_up_of

EVIDENCE_MAX = 64  # components of which is told what their curves rest on
WORTH_SAYING = 1.1  # a bound this many times the throughput is worth a sentence


def answer(found: Solution, *, brief: bool = False) -> Allocation:
    """Return the allocation; when `brief` without tables, knee and runners-up. Reasons and tables are made when read."""
    question, judged, placed, group = found.question, found.judged, found.placed, found.placed.group
    promised = found.promised_figures()
    request, keys, used = question.request, question.keys, int(placed.used[0])
    queued = request.arrival_per_s is not None and bool(np.isfinite(judged.latency_s[0]))
    wants_quantile = request.quantile is not None and bool(np.isfinite(judged.latency_s[0]))
    cores = dict(zip(keys, placed.cores[0].tolist(), strict=True))
    shared = group is not None and int(group.max()) + 1 < group.shape[1]
    groups, in_turn = placed.groups(keys) if shared else (), dict[str, int]()
    for _, members in groups:
        if len(members) > 1:
            in_turn |= {key: cores[key] for key in members}
    placement = None
    if request.nodes is not None:
        nodes = nodes_of(found.model, question.machine, placed, 0) or []
        placement = {key: tuple(some) for key, some in zip(keys, nodes, strict=True)}
    return Allocation(
        cores=cores,
        instances=dict(zip(keys, placed.instances[0].tolist(), strict=True)),
        spare=0 if request.cores is None else request.cores - used,
        throughput_per_s=1 / float(promised.period_s[0]),
        latency_s=float(promised.unloaded_s[0]),
        bottleneck=tuple(map(keys.__getitem__, found.slowest.tolist())),
        groups=groups,
        in_turn=in_turn,
        objective=request.objective,
        latency_queued_s=float(judged.latency_s[0]) if queued else None,
        latency_quantile_s=float(latency_of(judged)[0]) if wants_quantile else None,
        utilization=dict(zip(keys, judged.utilization[0].tolist(), strict=True)),
        active_cores=float(judged.active[0]),
        gap=found.gap,
        steps=0 if found.search is None else found.search.steps,
        placement=placement,
        front=front_of(found) if found.search is not None and found.search.front else (),
        cost_per_s=float(cost_of(request, judged, placed.used)[0]) if request.weights else None,
        details=partial(_details, found, tables=not brief and not groups),
    )


def _details(found: Solution, whole: Allocation, *, tables: bool) -> Details:
    """Return why an allocation is as it is, with tables where each component has its own cores."""
    near = Details((), knee_of(found), marginals_of(found), runners_up_of(found)) if tables else Details()
    near = structs.replace(near, evidence=evidence_of(found), expected_per_s=1 / found.estimate().period_s)
    whole = replace(whole, details=near)
    return structs.replace(near, why=tuple(some for explain in EXPLAIN for some in explain(found, whole)))


def evidence_of(found: Solution) -> dict[str, Evidence]:
    """Return what the curves rest on: those that bound the answer first, then the farthest beyond what was seen."""
    curves, keys = found.question.demand.curves, found.question.keys
    if not isinstance(curves, TabulatedCurves) or curves.seen is None:
        return {}
    models, runs, least, most = curves.seen
    cores = found.placed.cores[0]
    beyond = np.maximum(elementary.log2(np.maximum(cores / most, least / cores)), 0.0)
    rows = dict.fromkeys([*found.slowest.tolist(), *np.argsort(-beyond, kind="stable").tolist()])
    return {
        keys[row]: Evidence(str(models[row]), int(runs[row]), float(beyond[row]), (float(least[row]), float(most[row])))
        for row in list(rows)[:EVIDENCE_MAX]
    }


# --- reasons ---------------------------------------------------------------------------------------------------------------


def _target(found: Solution, whole: Allocation) -> Iterator[Reason]:
    request = found.question.request
    for name, value in (request.target or {}).items():
        by_rate = name == RATE
        reached = whole.throughput_per_s if by_rate else float(latency_of(found.judged)[0])
        unit = "records/s" if by_rate else "s"
        sure = ""
        if by_rate and not found.within_seen:
            sure = f"; {amount(whole.expected_per_s or 0.0)} {unit} are expected, on more cores than were seen"
        elif found.within_seen and found.question.demand.uncertain:
            sure = f", reached with probability {reaches(found.estimate(), name, value):.2f}"
        yield reason("target", None, reached, cores=plural(found.used, "core"), reached=f"{amount(reached)} {unit}",
                     target=f"{amount(value)} {unit}", sure=sure)  # fmt: skip


def _sharing(found: Solution, whole: Allocation) -> Iterator[Reason]:
    if not found.shared:
        return
    groups = len(whole.groups)
    yield reason("sharing", None, float(groups), components=len(found.question.keys), cores=plural(found.used, "core"),
                 groups=plural(groups, "group"))  # fmt: skip


def _bottleneck(found: Solution, whole: Allocation) -> Iterator[Reason]:
    keys, placed, rate = found.question.keys, found.placed, amount(whole.throughput_per_s)
    if found.shared and placed.group is not None and placed.widths is not None:
        row = int(found.slowest[0])
        members = int((placed.group[0] == placed.group[0, row]).sum())
        yield reason("slowest_group", keys[row], whole.throughput_per_s, members=plural(members, "component"), rate=rate,
                     seconds=amount(1 / whole.throughput_per_s), cores=plural(int(placed.widths[0, row]), "core"))  # fmt: skip
        return
    load = found.question.demand.visits * found.judged.seconds_s[0]
    for row, more in first(found.slowest):
        many, cores = int(placed.instances[0, row]), int(placed.cores[0, row])
        on = plural(cores, "core") if many == 1 else f"{many} instances of {plural(cores, 'core')}"
        where = f": {amount(load[row])} s a record on {on}"
        yield reason("bottleneck", keys[row], whole.throughput_per_s, rate=rate, where=where, more=more)


def _remaining(found: Solution, whole: Allocation) -> Iterator[Reason]:
    """Say what throughput remains where the latency of a lone record is lowest."""
    request = found.question.request
    if request.aim.by_latency and request.arrival_per_s is None:
        how = f'; with target {{"{RATE}": x}} more remain' if found.shared and not request.target else ""
        yield reason("remaining", None, whole.throughput_per_s, rate=amount(whole.throughput_per_s), how=how)


def _next_core(found: Solution, whole: Allocation) -> Iterator[Reason]:
    """Say whose next core gains most."""
    request, rows = found.question.request, whole.marginal
    if not rows:
        return
    if request.for_latency:
        now = float(latency_of(found.judged)[0])
        gains = [now - row.next_latency_s if row.next_latency_s is not None else 0.0 for row in rows]
        best = int(np.argmax(gains))
        if gains[best] > TIE * now:
            yield reason("next_core_latency", rows[best].key, gains[best], seconds=amount(gains[best]),
                         gain=amount(100 * gains[best] / now))  # fmt: skip
        return
    slow: list[int] = found.slowest.tolist()
    rate, keys = whole.throughput_per_s, found.question.keys
    if len(slow) == 1 or found.search is not None:
        best = int(np.argmax([row.next_throughput_per_s or 0.0 for row in rows]))
        more, after, whom = 1, rows[best].next_throughput_per_s or 0.0, rows[best].key
    else:  # all that are slowest need one more
        demand, cores = found.question.demand, found.placed.cores[0].copy()
        if (cores[slow] >= demand.high[slow]).any() or not demand.plain or not demand.single:
            return
        cores[slow] += 1
        more, after = len(slow), float(1 / (demand.visits * demand.seconds(cores)).max())
        best, whom = slow[0], f"{keys[slow[0]]} and {len(slow) - 1} more"
    if after > rate * (1 + TIE):
        cores_ = "one more core" if more == 1 else f"{more} more cores"
        yield reason("next_core", keys[best], after, cores=cores_, whom=whom, gain=amount(100 * (after / rate - 1)),
                     what=f"raise the throughput to {amount(after)} records/s")  # fmt: skip


def _limits(found: Solution, _: Allocation) -> Iterator[Reason]:
    """Say which limit a component is at, where it bounds what was asked for."""
    question, cores, instances = found.question, found.placed.cores[0], found.placed.instances[0]
    request, terms, demand = question.request, question.asked.terms, question.demand
    if found.shared:
        return
    keys, latency = terms.keys, request.for_latency
    low, high, most = terms.low, terms.high, terms.most
    pinned = np.zeros(len(keys), np.bool_)
    pinned[list(terms.pins)] = True
    deciding = np.ones(len(keys), np.bool_) if latency else np.isin(np.arange(len(keys)), found.slowest)
    if pinned.any():
        for row, more in first(np.flatnonzero(deciding & pinned)):
            yield reason("pinned", keys[row], float(cores[row]), more=more)
    with np.errstate(invalid="ignore"):
        wider = demand.visits * (demand.seconds(cores) - demand.seconds(cores + 1))
        fewer = demand.visits * demand.seconds(np.maximum(cores - 1, 1))
    gains = np.where((demand.last > cores) | (cores >= high), wider, 0.0) > 0
    if (high < demand.last).any():
        falls = demand.seconds(cores + 1) < demand.seconds(cores)
        at_end = deciding & ~pinned & (cores == high) & (instances == most) & falls
        for row, more in first(np.flatnonzero(at_end)):
            yield reason("maximum", keys[row], float(high[row]), cores=plural(int(high[row]), "core"), more=more)
    if (low > 1).any():
        now = demand.visits * demand.seconds(cores)
        held = (cores == low) & (low > 1) & ~pinned
        last = np.where(gains & (cores < high), wider, 0.0).max(initial=0.0)
        binding = fewer - now < last if latency else fewer / instances <= found.judged.period_s[0]
        for row, more in first(np.flatnonzero(held & binding)):
            yield reason("minimum", keys[row], float(low[row]), cores=plural(int(low[row]), "core"), more=more)
    unknown = deciding & (cores == demand.last) & (demand.last < np.minimum(high, question.cores))
    for row, more in first(np.flatnonzero(unknown)):
        yield reason(
            "curve_end", keys[row], float(demand.last[row]), cores=plural(int(demand.last[row]), "core"), more=more
        )
    slowest: list[int] = found.slowest.tolist()
    for row in [row for row in slowest if row in demand.replicas and int(instances[row]) > 1][:1]:
        share = demand.heaviest(row, int(instances[row]))
        yield reason("skew", keys[row], share, share=amount(100 * share))


def _nodes(found: Solution, whole: Allocation) -> Iterator[Reason]:
    if whole.placement is not None:
        sizes = found.question.machine.sizes
        yield reason(
            "nodes", None, float(len(sizes)), nodes=plural(len(sizes), "node"), cores=plural(int(sizes[0]), "core")
        )


def _knee(found: Solution, whole: Allocation) -> Iterator[Reason]:
    if whole.knee is not None and whole.knee.cores < found.used:
        yield reason("knee", None, float(whole.knee.cores), cores=whole.knee.cores, share=f"{100 * KNEE_SHARE:g}")


def _spare(found: Solution, whole: Allocation) -> Iterator[Reason]:
    question = found.question
    for row, more in first(np.flatnonzero(question.demand.visits == 0)):
        yield reason("unvisited", question.keys[row], 0.0, more=more)
    if found.spare > 0:
        because = "no component gains from them"
        if question.request.aim.fewest:
            because = "the target is reached without them"
        elif not found.shared and not question.request.for_latency:
            because = f"they cannot speed up {whole.bottleneck[0]}, or are too few for the next step"
        yield reason("spare", None, float(found.spare), spare=found.spare, because=because,
                     cores=plural(question.request.cores or 0, "core"))  # fmt: skip


def _others(found: Solution, whole: Allocation) -> Iterator[Reason]:
    """Say what else came near, and what the other use of cores would do."""
    request = found.question.request
    for other in whole.runner_up[:1]:
        sure = "" if other.probability is None else f"; this one is better with probability {other.probability:.2f}"
        figure = (
            f"{amount(other.latency_s)} s" if request.for_latency else f"{amount(other.throughput_per_s)} records/s"
        )
        yield reason("runner_up", None, other.probability, cores=plural(other.used, "core"), figure=figure, sure=sure)
    if found.shared and found.own_value is not None:
        value = 1 / found.own_value if request.aim.by_rate else found.own_value
        what = request.aim.figure.format(amount(value))
        yield reason("turns", None, value, what=what)
    if not found.shared and request.turns == SCARCE and found.search is None and not request.for_latency:
        demand = found.question.demand
        work = float(demand.work_s(demand.low).sum()) / found.used
        bound = 1 / max(work, float((demand.visits * demand.seconds(demand.fastest(demand.high)) / demand.most).max()))
        if bound > WORTH_SAYING * whole.throughput_per_s:
            yield reason("own_cores", None, bound, rate=amount(bound))


def _caveats(found: Solution, whole: Allocation) -> Iterator[Reason]:
    question, judged = found.question, found.judged
    request, demand = question.request, question.demand
    if whole.gap is None:
        yield reason("gap", None, None, text="the best that was found; nothing better is excluded")
    elif whole.gap > 0:
        yield reason("gap", None, whole.gap, text=f"at most {amount(100 * whole.gap)} % from the best, by a bound")
    if found.search is not None and found.search.out_of_work:
        yield reason("work", None, float(whole.steps), steps=f"{whole.steps:,}")
    if found.capped:
        yield reason("memory", None, request.memory_bytes)
    if found.model.contended:
        yield reason("contention", None, whole.active_cores, active=amount(whole.active_cores or 0.0))
    if request.arrival_per_s is not None and whole.latency_queued_s is None:
        yield reason("overload", None, whole.throughput_per_s, rate=amount(request.arrival_per_s))
    elif request.arrival_per_s is not None:
        waits = float((demand.visits * judged.wait_s[0]).sum())
        yield reason("queueing", None, waits, seconds=amount(waits))
    if demand.price and request.level is None and demand.uncertain:
        rate = whole.expected_per_s
        text = (
            f"promised: each component keeps it up with a probability of {PROMISED:g}; {amount(rate or 0.0)} records/s are"
            f" expected{'' if found.within_seen else ', on counts that were not seen'}"
        )
        yield reason("level", None, rate, text=text)
    if request.level is not None:
        text = f"planned for the upper bound of each curve at level {request.level:g}"
        if not demand.uncertain:
            text = f"level {request.level:g} changes nothing: the curves have no upper bounds"
        yield reason("level", None, request.level, text=text)
    yield from beyond(whole.evidence)


EXPLAIN = (
    _target, _sharing, _bottleneck, _remaining, _limits, _nodes, _next_core, _knee, _spare, _others, _caveats,
)  # fmt: skip
