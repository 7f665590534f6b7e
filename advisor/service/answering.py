"""The handlers of the verbs that ask: at once, or by work in slices or in a worker process, while others have their turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from advisor.engine import Engine
from advisor.engine.evidence import basis_of
from advisor.engine.replay import advisor_of
from advisor.protocol import verbs as m
from advisor.service import curves, questions
from advisor.service.background import Handler
from advisor.service.connection import Connection
from advisor.service.planner import Planner
from advisor.service.simulating import simulated_apart
from advisor.service.watching import Watching


def answering(engine: Engine, planner: Planner, watching: Watching) -> Mapping[str, Handler]:
    """Return the handler of each verb that asks; those of `questions.ANSWERS` answer at once."""
    advisor, answers = engine.advisor, planner.answers

    def at_once(answer: Any) -> Handler:
        return lambda _, params, __: answer(engine, params)

    def choose_cores(_: Connection, params: m.ChooseCores, __: int | None) -> dict[str, Any]:
        choice = questions.choose_cores(engine, params)
        answers.chose(params.component, params.predictor, choice)
        return choice

    def allocate(connection: Connection, params: m.Allocate, _: int | None) -> Any:
        network, request = questions.allocation_asked(advisor, params)
        by, extra = planner, dict[str, Any]()
        if params.evidence:  # planned from the evidence alone, so that a replay gives the same
            basis = basis_of(advisor, "allocate", {"network": network, **request})
            by, extra = replace(planner, advisor=advisor_of(basis)), {"basis": basis.as_dict()}

        def recorded(found: dict[str, Any]) -> dict[str, Any]:
            if connection.recorded:
                answers.append(network, request, found)
            return found | extra

        async def planned() -> dict[str, Any]:
            return recorded(await by.allocate(network, request))

        found = by.allocate_at_once(network, request)
        return planned if found is None else recorded(found)

    def allocate_together(_: Connection, params: m.AllocateTogether, __: int | None) -> Any:
        asked, of_all = questions.together_asked(advisor, params), questions.of_all_asked(params)

        async def planned() -> dict[str, Any]:
            found = await planner.allocate_together(asked, of_all, params.objective)
            answers.append(None, {"cores": of_all["cores"], "objective": params.objective}, found)
            return found

        return planned

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
        "curves": lambda _, params, __: partial(curves.curves, advisor, params),
        "simulate": lambda _, params, __: partial(simulated_apart, advisor, planner.heavy, params),
    }
