"""`simulate`: task times are predicted here, in slices; the graph is read and analysed in a worker process."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from advisor.domain.task_graphs import graph_from_flat
from advisor.domain.vectors import Floats
from advisor.engine import Advisor
from advisor.protocol import verbs as m
from advisor.service.heavy import Heavy
from advisor.service.turns import others_first
from advisor.service.worker import simulated
from advisor.simulation.task_times import predict_in_slices

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
    """Return the times of a flat graph's tasks, which need none of their own; it is read in a thread."""
    untimed = {"times": bytes(2 * len(graph.get("type", b"")))}  # a type has 4 bytes a task, a time 8
    read = await to_thread.run_sync(graph_from_flat, untimed | graph)
    times = read.times.copy()
    for _ in predict_in_slices(advisor.predict, read, times, params.components or {}, params.machine):
        await others_first()
    return times
