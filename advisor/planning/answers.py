"""From a plan to the answer: its figures; why it is as it is, when that is read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import structs

from advisor.domain import elementary
from advisor.domain.allocations import Allocation, Details, Evidence
from advisor.planning.exact import Plan
from advisor.planning.judge import latency_of
from advisor.planning.reasons import reasons_of
from advisor.planning.search import nodes_of

EVIDENCE_MAX = 64  # components of which is reported what their curves rest on


def answer(found: Plan) -> Allocation:
    """Return the allocation. Reasons are made when read."""
    demand, judged, placed, group = found.demand, found.judged, found.placed, found.placed.group
    promised = found.promised
    request, keys, used = demand.request, demand.keys, int(placed.used[0])
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
        nodes = nodes_of(demand, placed, 0) or []
        placement = {key: tuple(some) for key, some in zip(keys, nodes, strict=True)}
    return Allocation(
        cores=cores,
        instances=dict(zip(keys, placed.instances[0].tolist(), strict=True)),
        spare=0 if request.cores is None else request.cores - used,
        throughput_per_s=1 / promised.period_s,
        latency_s=float(promised.judged.unloaded_s[0]),
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
        details=partial(_details, found),
    )


def _details(found: Plan, whole: Allocation) -> Details:
    """Return why an allocation is as it is."""
    known = Details(evidence=evidence_of(found), expected_per_s=1 / found.expected.period_s)
    return structs.replace(known, why=reasons_of(found, replace(whole, details=known)))


def evidence_of(found: Plan) -> dict[str, Evidence]:
    """Return what the curves rest on: those that bound the answer first, then the farthest beyond what was seen."""
    curves, keys = found.demand.curves, found.demand.keys
    if curves.seen is None:
        return {}
    models, runs, least, most, _ = curves.seen
    cores = found.placed.cores[0]
    beyond = np.maximum(elementary.log2(np.maximum(cores / most, least / cores)), 0.0)
    rows = dict.fromkeys([*found.slowest.tolist(), *np.argsort(-beyond, kind="stable").tolist()])
    return {
        keys[row]: Evidence(str(models[row]), int(runs[row]), float(beyond[row]), (float(least[row]), float(most[row])))
        for row in list(rows)[:EVIDENCE_MAX]
    }
