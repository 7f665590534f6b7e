"""`simulate`: task times are predicted here, in slices; the graph is read and analysed in a worker process."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.domain.vectors import Floats
from advisor.engine import Advisor
from advisor.errors import InvalidValue
from advisor.protocol import verbs as m
from advisor.service.heavy import Heavy
from advisor.service.turns import others_first
from advisor.service.worker import simulated
from advisor.simulation.task_times import predicting

OPTIONS = ("cores", "policies", "contention", "measured_alone", "metrics", "seed", "advise")


async def simulated_apart(advisor: Advisor, heavy: Heavy, params: m.SimulateAsked) -> dict[str, Any]:
    """Answer `simulate`.

    Raises InvalidValue, UnknownKey, TooLarge, UnknownComponent, NotEnoughData as `Advisor.simulate`; Unavailable, WorkFailed
    as `Heavy`.
    """
    request = {name: getattr(params, name) for name in OPTIONS if getattr(params, name) is not None}
    graph = dict(params.graph)
    if params.predict_times:
        graph["times"] = (await _predicted(advisor, params, graph)).astype("<f8").tobytes()
    return await heavy.run(simulated, graph, request)


async def _predicted(advisor: Advisor, params: m.SimulateAsked, graph: dict[str, Any]) -> Floats:
    types = graph.get("types", [])
    kinds = np.frombuffer(graph.get("type", b""), "<u4")
    sizes = np.frombuffer(graph["size"], "<f8") if "size" in graph else np.ones(len(kinds))
    given = np.frombuffer(graph["times"], "<f8") if "times" in graph else np.zeros(len(kinds))
    if types and len({len(kinds), len(sizes), len(given)}) != 1:
        raise InvalidValue(
            "graph", [len(kinds), len(sizes), len(given)], "type, size and times of one length, one a task"
        )
    if not (np.isfinite(sizes) & (sizes >= 0)).all():
        raise InvalidValue("graph.size", "outside", "finite and not negative")
    columns: dict[str, bytes] = graph.get("columns") or {}
    parts = np.frombuffer(columns["part"], "<f8") if "part" in columns else None
    if parts is not None and not (len(parts) == len(kinds) and np.isfinite(parts).all() and (parts >= 0).all()):
        raise InvalidValue("graph.columns.part", "outside", "finite and not negative, one a task")
    found = given.copy()
    for _ in predicting(
        advisor.predict, found, unit=graph.get("unit", "s"), types=types, kinds=kinds, sizes=sizes,
        components=params.components or {}, machine=params.machine,
        parts=parts,
    ):  # fmt: skip
        await others_first()
    return found
