"""From a solution to the answer: its figures; its tables, and why it is as it is, when they are read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import structs

from advisor.domain import elementary, limits
from advisor.domain.allocations import Allocation, Details, Evidence
from advisor.domain.curves import TabulatedCurves
from advisor.errors import InvalidValue
from advisor.planning.asked import Asked
from advisor.planning.demand import Shapes, question_of
from advisor.planning.exact import Plan
from advisor.planning.judge import cost_of, execute_placed, latency_of, own_placed
from advisor.planning.reasons import reasons_of
from advisor.planning.requests import BARE, RATE, Ints
from advisor.planning.search import nodes_of
from advisor.planning.tables import front_of, knee_of, marginals_of, runners_up_of

EVIDENCE_MAX = 64  # components of which is reported what their curves rest on


def answer(found: Plan) -> Allocation:
    """Return the allocation. Reasons and tables are made when read."""
    demand, judged, placed, group = found.demand, found.judged, found.placed, found.placed.group
    promised = found.promised_figures
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
        details=partial(_details, found, tables=found.tables and not groups),
    )


def _details(found: Plan, whole: Allocation, *, tables: bool) -> Details:
    """Return why an allocation is as it is, with tables where each component has its own cores."""
    near = Details((), knee_of(found), marginals_of(found), runners_up_of(found)) if tables else Details()
    near = structs.replace(near, evidence=evidence_of(found), expected_per_s=1 / found.estimate.period_s)
    return structs.replace(near, why=reasons_of(found, replace(whole, details=near)))


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


# ----------------------------------------------------------------------------------------------------------------------------
# What a given allocation would do.


EVALUATED = BARE[RATE]  # the objective of an allocation that is only judged: nothing is left to choose


def evaluate(asked: Asked, curves: TabulatedCurves, shape: Ints) -> Allocation:
    """Return what cores and instances, (2, n), of components with cores of their own do: figures and reasons.

    Raises InvalidValue when they do not fit the machine.
    """
    used = int((shape[0] * shape[1]).sum())
    if curves.allowed:
        curves = replace(curves, allowed=None)  # these counts are given
    request = replace(asked.request, objective=EVALUATED, target=None, weights=None, cores=asked.request.cores or used)
    free = replace(asked, request=request, low=np.ones_like(shape[0]), fewest=shape[1], most=shape[1], pins={}, rules={},
                   high=np.full(len(asked.keys), limits.ALLOCATE_CORES_MAX), replicas=asked.visits.replicas)  # fmt: skip
    demand = question_of(free, curves, asked.price)
    placed = own_placed(demand, Shapes(*shape))
    if not nodes_of(demand, placed, 0):
        raise InvalidValue("cores", used, "an allocation that fits the machine's nodes and memory")
    demand, judged = execute_placed(demand, placed)
    return answer(Plan(demand, placed, judged, None, None, None, tables=False))
