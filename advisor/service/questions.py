"""Questions of the wire put to the engine: parameters of the protocol to its arguments, and its answers back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from advisor.domain.answers import Prediction
from advisor.domain.plan_options import OF_MACHINE
from advisor.engine import Advisor, Engine
from advisor.engine.flows import filled
from advisor.engine.sharing import NetworkAsked, asked_of, of_machine
from advisor.errors import InvalidValue, UnknownNetwork
from advisor.planning.shares import about
from advisor.protocol import verbs as m
from advisor.service.exporting import page
from advisor.service.turns import others_first
from advisor.service.worker import Spec

# A text of this size is read within 2 ms; larger ones are read by a worker process.
INLINE_TEXT_BYTES_MAX = 1024
INLINE_NODES_MAX = 64
ALLOCATE_OPTIONS = tuple(key for key in m.Allocate.verb.keys if key not in ("network", "evidence", "fresh"))
STATUS_SLICE = 16  # components reported at a time, within 5 ms where all of them are solved first


def predict(engine: Engine, params: m.Predict) -> Prediction:
    """Raises as `Advisor.predict`."""
    points: Any = params.predictor
    one = isinstance(params.component, str)
    if one and isinstance(points, list) and params.component not in engine.advisor.components.slots.components:
        points = [np.prod(point) for point in cast("list[Any]", points)]
    found = engine.advisor.predict(**params.given(predictor=points))
    if one and np.ndim(found.elapsed_s) > 1:
        raise InvalidValue("predictor", "points of several values", "1 a point, as the component's first row had")
    return found


def suggest(engine: Engine, params: m.Suggest) -> Any:
    """Raises as `Advisor.suggest`."""
    return engine.advisor.suggest(**params.given()).as_wire()


def export(engine: Engine, params: m.Export) -> dict[str, Any]:
    """Raises as `exporting.page`."""
    state, following = page(engine, params.after)
    return {"state": state, "next": following}


def profile(engine: Engine, params: m.ProfileAsked) -> dict[str, Any]:
    """Raises as `Profiles.answer`."""
    return engine.profiles.answer(
        params.producer, params.incarnation, nodes=params.nodes, diagnosis=params.diagnosis, ended=params.ended
    )  # fmt: skip


ANSWERS: dict[str, Callable[[Engine, Any], Any]] = {  # by verb, what answers at once; the first as the advisor does
    **{
        verb: lambda engine, params, verb=verb: getattr(engine.advisor, verb)(**params.given())
        for verb in ("choose_together", "flow", "predict_run")
    },
    **{answer.__name__: answer for answer in (predict, suggest, export, profile)},
}


def allocation_asked(advisor: Advisor, params: m.Allocate) -> tuple[Spec, dict[str, Any]]:
    """Return what network an `allocate` is about, and the request of the planner.

    Of a network that is kept by id, what was learned of its flow stands where the request does not say. Raises
    UnknownNetwork.
    """
    request = {key: value for key in ALLOCATE_OPTIONS if (value := getattr(params, key)) is not None}
    if isinstance(params, m.Watch):
        request.pop("current", None)  # what the runtime has changes with each advice
    network = _spec_of(advisor, cast("Spec | int", params.network))
    if advisor.components.flows.keeps(params.network):
        request = filled(request, advisor.flow(cast("int | str", params.network)))
    return network, request


def together_asked(advisor: Advisor, params: m.AllocateTogether) -> list[NetworkAsked]:
    """Return what an `allocate_together` asks about each network, each by its text or nodes; raises as `asked_of`."""
    found: list[NetworkAsked] = []
    for place, asked in enumerate(asked_of(advisor.components.flows, params.networks)):
        with about(place, asked.name):
            found.append(replace(asked, network=_spec_of(advisor, asked.network)))
    return found


def of_all_asked(params: m.AllocateTogether) -> dict[str, Any]:
    """Return what an `allocate_together` asks of the machine; raises as `of_machine`."""
    return of_machine(params.cores, params.objective, {key: getattr(params, key) for key in OF_MACHINE})


def _spec_of(advisor: Advisor, network: Spec | int) -> Spec:
    """Return what a network was defined by where it is meant by its id."""
    if advisor.components.flows.keeps(network):
        return advisor.components.flows.definition(cast("int | str", network))
    if isinstance(network, int):  # for the checker: every number is an id
        raise UnknownNetwork(network)
    return network


def is_small(network: Spec) -> bool:
    """Return whether a network is read within 2 ms."""
    return len(network) <= (INLINE_TEXT_BYTES_MAX if isinstance(network, str) else INLINE_NODES_MAX)


def status(advisor: Advisor, params: m.StatusAsked) -> dict[str, Any]:
    """Answer `status`, but for what the service adds; raises as `Advisor.status`."""
    chosen = {True: None, False: ()}[params.components] if isinstance(params.components, bool) else params.components
    return {**advisor.status(components=chosen, offset=params.offset, limit=params.limit)}


async def status_in_slices(advisor: Advisor, params: m.StatusAsked) -> dict[str, Any]:
    """As `status`, of many components, letting others have their turn."""
    reported: list[Any] = []
    answer: dict[str, Any] = {}
    for start in range(params.offset, params.offset + params.limit, STATUS_SLICE):
        answer = status(
            advisor, replace(params, offset=start, limit=min(STATUS_SLICE, params.offset + params.limit - start))
        )
        reported += answer["components"]
        if len(answer["components"]) < STATUS_SLICE:
            break
        await others_first()
    return answer | {"offset": params.offset, "components": reported}
