"""The verbs that ask what takes long: they are answered in slices, or from a worker process, while others have their turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from advisor.engine import Engine
from advisor.engine.evidence import basis_of
from advisor.engine.replay import advisor_of
from advisor.protocol import verbs as m
from advisor.service import curves, questions
from advisor.service.background import Background, Handler
from advisor.service.connection import Connection
from advisor.service.heavy import Heavy
from advisor.service.planner import Planner
from advisor.service.simulating import simulated_apart
from advisor.service.watching import Watching


@dataclass(eq=False)
class Answering:
    """Answers questions."""

    engine: Engine
    planner: Planner
    heavy: Heavy
    watching: Watching
    background: Background

    def __post_init__(self) -> None:
        # the handler of each verb; those of `questions.ANSWERS`, which answer at once, among them
        self.verbs: dict[str, Handler] = {
            **{verb: self._at_once(answer) for verb, answer in questions.ANSWERS.items()},
            "choose_cores": self._choose_cores,
            "allocate": self._allocate,
            "allocate_together": self._allocate_together,
            "watch": self._watch,
            "unwatch": lambda connection, params, _: self.watching.close(connection, params.watch),
            "curves": self._curves,
            "simulate": self._simulate,
        }

    def _at_once(self, answer: Any) -> Handler:
        return lambda _, params, __: answer(self.engine, params)

    def _choose_cores(self, _: Connection, params: m.ChooseCores, __: int | None) -> dict[str, Any]:
        choice = questions.choose_cores(self.engine, params)
        self.planner.answers.chose(params.component, params.predictor, choice)
        return choice

    def _allocate(self, connection: Connection, params: m.Allocate, msgid: int | None) -> dict[str, Any] | None:
        network, request = questions.allocation_asked(self.engine.advisor, params)
        planner, extra = self.planner, dict[str, Any]()
        if params.evidence:  # planned from the evidence alone, so that a replay gives the same
            basis = basis_of(self.engine.advisor, "allocate", {"network": network, **request})
            planner, extra = replace(planner, advisor=advisor_of(basis)), {"basis": basis.as_dict()}

        def recorded(found: dict[str, Any]) -> dict[str, Any]:
            if connection.recorded:
                self.planner.answers.append(network, request, found)
            return found | extra

        async def planned() -> dict[str, Any]:
            return recorded(await planner.allocate(network, request))

        found = planner.allocate_at_once(network, request)
        return self.background.later("allocate", connection, msgid, planned) if found is None else recorded(found)

    def _allocate_together(self, connection: Connection, params: m.AllocateTogether, msgid: int | None) -> None:
        asked, of_all = questions.together_asked(self.engine.advisor, params), questions.of_all_asked(params)

        async def planned() -> dict[str, Any]:
            found = await self.planner.allocate_together(asked, of_all, params.objective)
            self.planner.answers.append(None, {"cores": of_all["cores"], "objective": params.objective}, found)
            return found

        self.background.later("allocate_together", connection, msgid, planned)

    def _watch(self, connection: Connection, params: m.Watch, msgid: int | None) -> dict[str, Any] | None:
        if params.watch is not None:
            return self.watching.apply_current(connection, params)
        return self.background.later("watch", connection, msgid, self.watching.open, connection, params)

    def _simulate(self, connection: Connection, params: m.SimulateAsked, msgid: int | None) -> None:
        self.background.later(
            "simulate", connection, msgid, simulated_apart, self.engine.advisor, self.heavy, params
        )  # fmt: skip

    def _curves(self, connection: Connection, params: m.CurvesAsked, msgid: int | None) -> None:
        self.background.later("curves", connection, msgid, curves.curves, self.engine.advisor, params)
