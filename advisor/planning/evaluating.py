"""What a given allocation would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from advisor.domain import limits
from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.flows import Flow
from advisor.domain.networks import Network
from advisor.errors import InvalidValue
from advisor.planning.answers import answer
from advisor.planning.asked import AnyCurves, Asked, asked_of
from advisor.planning.demand import Shapes, price_of
from advisor.planning.exact import Plan
from advisor.planning.judge import PlanModel, own_placed
from advisor.planning.questions import question_of
from advisor.planning.requests import BARE, NEVER, RATE, Ints, Request, by_key, whole
from advisor.planning.search import nodes_of

EVALUATED = BARE[RATE]  # the objective of an allocation that is only judged: nothing is left to choose


def evaluate(
    network: Network,
    curves: AnyCurves,
    request: Request,
    cores: Mapping[str, int],
    instances: Mapping[str, int] | None = None,
    flow: Flow | None = None,
) -> Allocation:
    """Return what a given allocation with cores of one's own does: figures and reasons, with nothing left to choose.

    Raises InvalidValue when a key is missing or unknown, or the allocation does not fit the request's machine.

    `cores`, `instances`: key to cores per instance, every key of the network, and to instances, 1 where absent.
    """
    given, many = by_key("cores", cores, network), by_key("instances", instances or {}, network)
    shape = np.ones((2, len(network.keys)), np.int64)
    for row, key in enumerate(network.keys):
        if row not in given:
            raise InvalidValue("cores", None, f"given for {key}, too: every key of the network")
        shape[0, row] = whole(f"cores.{key}", given[row][1], limits.ALLOCATE_CORES_MAX)
        if row in many:
            shape[1, row] = whole(f"instances.{key}", many[row][1], limits.INSTANCES_MAX)
    used = int((shape[0] * shape[1]).sum())
    base = replace(
        request, cores=request.cores or used, turns=NEVER, pinned=None, minimum=None, maximum=None, allowed=None
    )
    if used > (base.cores or used):
        raise InvalidValue("cores", used, f"at most the {base.cores} cores given in sum")
    return evaluated(asked_of(network, base, flow), curves, shape)


def evaluated(asked: Asked, curves: AnyCurves, shape: Ints) -> Allocation:
    """Return what cores and instances, (2, n), of components with cores of their own do."""
    used = int((shape[0] * shape[1]).sum())
    if isinstance(curves, TabulatedCurves) and curves.allowed:
        curves = replace(curves, allowed=None)  # these counts are given
    request = replace(asked.request, objective=EVALUATED, target=None, weights=None, cores=asked.request.cores or used)
    free = replace(asked, request=request, low=np.ones_like(shape[0]), fewest=shape[1], most=shape[1], pins={}, rules={},
                   high=np.full(len(asked.keys), limits.ALLOCATE_CORES_MAX), replicas=asked.visits.replicas)  # fmt: skip
    demand = question_of(free, curves, price_of(asked, curves))
    placed = own_placed(demand, Shapes(*shape))
    if not nodes_of(demand, placed, 0):
        raise InvalidValue("cores", used, "an allocation that fits the machine's nodes and memory")
    model, judged = PlanModel(demand).executed(placed)
    return answer(Plan(model, placed, judged, None, None, None), brief=True)
