"""From a solution to the answer: its figures and its front; why it is as it is, when that is read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import structs

from advisor.domain import elementary, limits
from advisor.domain.allocations import Allocation, Details, Evidence, FrontPoint
from advisor.domain.curves import TabulatedCurves
from advisor.errors import InvalidValue
from advisor.planning.asked import Asked
from advisor.planning.demand import Shapes, question_of
from advisor.planning.exact import Plan
from advisor.planning.judge import Placed, cost_of, execute_placed, latency_of, own_placed
from advisor.planning.pieces import TIE
from advisor.planning.reasons import reasons_of
from advisor.planning.requests import BARE, RATE, Floats, Ints
from advisor.planning.search import nodes_of

EVIDENCE_MAX = 64  # components of which is reported what their curves rest on
POINTS_MAX = 256  # of a front: an answer that people and programs still read


def answer(found: Plan) -> Allocation:
    """Return the allocation. Reasons are made when read."""
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
        details=partial(_details, found),
    )


def _details(found: Plan, whole: Allocation) -> Details:
    """Return why an allocation is as it is."""
    known = Details(evidence=evidence_of(found), expected_per_s=1 / found.estimate.period_s)
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


def front_of(found: Plan) -> tuple[FrontPoint, ...]:
    """Return the allocations judged none of which is bettered in cores, throughput and latency at once, by cores."""
    search, request = found.search, found.demand.request
    if search is None:
        return ()
    scale = (
        found.demand.scales.mean if request.quantile is None else found.demand.scales.quantile
    )  # the formula of a search, where records queue
    figures = [
        np.stack([placed.used.astype(np.float64), judged.period_s, latency_of(judged) * scale], axis=1)
        for placed, judged in search.points
    ]
    every = np.concatenate(figures)
    ends = np.cumsum([len(some) for some in figures])
    kept: list[tuple[int, int]] = []
    for at in undominated(every):
        batch = int(np.searchsorted(ends, at, side="right"))
        row = int(at - (ends[batch] - len(figures[batch])))
        if search.placeable(search.points[batch][0], row):
            kept.append((batch, row))
    if len(kept) > POINTS_MAX:
        kept = [kept[place] for place in np.unique(np.linspace(0, len(kept) - 1, POINTS_MAX).astype(int)).tolist()]
    return tuple(_point(found, search.points[batch][0], row, figures[batch][row]) for batch, row in kept)


def _point(found: Plan, placed: Placed, row: int, figures: Floats) -> FrontPoint:
    keys = found.demand.keys
    groups = placed.groups(keys, row)
    groups = groups if len(groups) < len(keys) else ()
    shared = {key for _, some in groups if len(some) > 1 for key in some}
    cores = dict(zip(keys, placed.cores[row].tolist(), strict=True))
    return FrontPoint(
        int(figures[0]), float(1 / figures[1]), float(figures[2]), {k: v for k, v in cores.items() if k not in shared},
        dict(zip(keys, placed.instances[row].tolist(), strict=True)), groups,
    )  # fmt: skip


def undominated(points: Floats) -> list[int]:
    """Return the rows of (K, m) that no other is below or equal to in all columns, in order of the columns."""
    order = np.lexsort(tuple(points[:, column] for column in range(points.shape[1] - 1, -1, -1)))
    kept: list[int] = []
    front = np.zeros((0, points.shape[1]))
    for place in order.tolist():
        if np.isfinite(points[place]).all() and not (front <= points[place] * (1 + TIE)).all(axis=1).any():
            kept.append(place)
            front = points[kept]
    return kept


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
    return answer(Plan(demand, placed, judged, None, None, None, given=True))
