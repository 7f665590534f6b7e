"""From a plan to the answer: its figures; why it is as it is, when that is read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import structs

from advisor.domain.allocations import Allocation, Details
from advisor.planning.exact import Plan
from advisor.planning.judge import latency_of
from advisor.planning.reasons import evidence_of, reasons_of
from advisor.planning.search import nodes_of


def answer(found: Plan) -> Allocation:
    """Return the allocation. Reasons are made when read."""
    demand, judged, placed = found.demand, found.judged, found.placed
    promised = found.promised
    request, keys = demand.request, demand.keys
    queued = request.arrival_per_s is not None and bool(np.isfinite(judged.latency_s[0]))
    wants_quantile = request.quantile is not None and bool(np.isfinite(judged.latency_s[0]))
    cores = dict(zip(keys, placed.cores[0].tolist(), strict=True))
    groups, in_turn = placed.groups(keys) if found.shared else (), dict[str, int]()
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
        spare=0 if request.cores is None else request.cores - int(placed.used[0]),
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
