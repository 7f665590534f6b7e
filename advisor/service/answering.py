"""The handlers of the verbs that ask: at once, or by work in slices or in a worker process, while others have their turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from anyio import to_thread

from advisor.domain.bundle import BundleRecord, pack
from advisor.domain.task_graphs import graph_from_flat
from advisor.domain.vectors import Floats
from advisor.engine import Advisor, Engine
from advisor.engine.evidence import basis_of
from advisor.engine.replay import advisor_of
from advisor.protocol import verbs as m
from advisor.service import questions
from advisor.service.background import Handler
from advisor.service.connection import Connection
from advisor.service.heavy import Heavy
from advisor.service.planner import Planner
from advisor.service.turns import others_first
from advisor.service.watching import Watching
from advisor.service.worker import simulated
from advisor.simulation.task_times import predict_in_slices

BUNDLE_BYTES_MAX = 4 * 2**20  # of one answer: half a message; the rest comes with the next page
SIMULATE_OPTIONS = ("cores", "policies", "contention", "measured_alone", "metrics", "seed", "advise")


def answering(engine: Engine, planner: Planner, watching: Watching) -> Mapping[str, Handler]:
    """Return the handler of each verb that asks; those of `questions.ANSWERS` answer at once."""
    advisor, answers = engine.advisor, planner.answers

    def at_once(answer: Any) -> Handler:
        return lambda _, params, __: answer(engine, params)

    def choose_cores(_: Connection, params: m.ChooseCores, __: int | None) -> dict[str, Any]:
        choice = advisor.choose_cores(**params.given()).as_dict()
        answers.chose(params.component, params.predictor, choice)
        return choice

    def allocate(connection: Connection, params: m.Allocate, _: int | None) -> Any:
        network, request = questions.allocation_asked(advisor, params)
        by, extra = planner, dict[str, Any]()
        if params.evidence:  # planned from the evidence alone, so that a replay gives the same
            basis = basis_of(advisor, "allocate", {"network": network, **request})
            by, extra = replace(planner, advisor=advisor_of(basis)), {"basis": basis.as_dict()}

        def recorded(found: dict[str, Any]) -> dict[str, Any]:
            if connection.number:  # others are of this process
                answers.append(request, found)
            return found | extra

        async def planned() -> dict[str, Any]:
            return recorded(await by.allocate(network, request))

        found = by.allocate_at_once(network, request)
        return planned if found is None else recorded(found)

    def allocate_together(_: Connection, params: m.AllocateTogether, __: int | None) -> Any:
        asked, of_all = questions.together_asked(advisor, params), questions.of_all_asked(params)
        return partial(planner.allocate_together, asked, of_all, params.objective)

    def watch(connection: Connection, params: m.Watch, _: int | None) -> Any:
        known = params.watch is not None
        return watching.apply_current(connection, params) if known else partial(watching.open, connection, params)

    return {
        **{verb: at_once(answer) for verb, answer in questions.ANSWERS.items()},
        "choose_cores": choose_cores,
        "allocate": allocate,
        "allocate_together": allocate_together,
        "watch": watch,
        "unwatch": lambda connection, params, _: watching.close(connection, params.watch),
        "curves": lambda _, params, __: partial(curves, advisor, params),
        "simulate": lambda _, params, __: partial(simulated_apart, advisor, planner.heavy, params),
    }


async def curves(advisor: Advisor, params: m.CurvesAsked) -> dict[str, Any]:
    """Answer `curves`; others have their turn after each record.

    `version` is that of the curves before the first record was made: what changes meanwhile comes again. Raises
    UnknownComponent.
    """
    bundles, slots_of = advisor.bundles, advisor.components.slots.slot_of
    for name in params.components or ():
        slots_of(name)
    version = bundles.version
    slots = sorted(set(bundles.slots(params.components).tolist()))
    if params.since is not None:
        changed = set(bundles.changed(params.since))
        slots = [slot for slot in slots if slot in changed]
    if params.after is not None:
        last = slots_of(params.after)
        slots = [slot for slot in slots if slot > last]
    records: list[BundleRecord] = []
    used = 0
    for slot in slots:
        record = bundles.record(slot, params.level, params.cores_max)
        used += record.words.nbytes + len(record.name.encode())
        if records and used > BUNDLE_BYTES_MAX:
            break
        records.append(record)
        await others_first()
    more = len(slots) - len(records)
    return {
        "version": version, "bundle": pack(records, version, params.level), "more": more,
        "next": records[-1].name if more else None,
    }  # fmt: skip


async def simulated_apart(advisor: Advisor, heavy: Heavy, params: m.SimulateAsked) -> dict[str, Any]:
    """Answer `simulate`.

    Raises InvalidValue, UnknownKey, TooLarge, UnknownComponent, NotEnoughData as `Advisor.simulate`; Unavailable, WorkFailed
    as `Heavy`.
    """
    request = {name: getattr(params, name) for name in SIMULATE_OPTIONS if getattr(params, name) is not None}
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
