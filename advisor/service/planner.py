"""Networks to allocations for the service: curves are made here, plans in a worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from advisor.domain import limits
from advisor.domain.curves import TabulatedCurves
from advisor.engine import Advisor
from advisor.engine.cache import Cache
from advisor.engine.sharing import NetworkAsked
from advisor.models.prediction import LEVEL
from advisor.planning import Request, plan_request
from advisor.planning.shares import about
from advisor.planning.watches import Look
from advisor.service import worker
from advisor.service.answers import RecentAnswers
from advisor.service.heavy import Heavy
from advisor.service.questions import is_small
from advisor.service.turns import others_first
from advisor.service.worker import Spec, Wanted

# What the loop plans by itself, one plan a turn: all ways to share cores among so many boxes are compared in one kernel call.
HERE_BOXES_MAX, HERE_CORES_MAX = 8, 1_024
AT_ONCE_MAX = 2  # tables that may have to be made for an answer that is given at once, 2 ms each with support points
HERE_KNOWN_MAX = 64  # of these plans that are remembered, some 10 KB each
HERE_KEYS = frozenset(
    ("cores", "objective", "target", "visits", "shares", "minimum", "maximum", "level", "instances_max", "current")
)


class NetworkKeys(NamedTuple):
    """What the service needs to know of a network: its keys and the box name of each, in text order."""

    keys: tuple[str, ...]
    components: tuple[str, ...]


@dataclass(eq=False)
class Planner:
    """Puts a network, what is known of its components and a request together; stores the last answers."""

    advisor: Advisor  # whose curves are asked for
    heavy: Heavy
    answers: RecentAnswers
    # What was planned here: the request as it was read, and the answer with the curves that it rests on.
    known: Cache[tuple[Request, TabulatedCurves, dict[str, Any]]] = field(default_factory=lambda: Cache(HERE_KNOWN_MAX))

    async def read(self, network: Spec) -> NetworkKeys:
        """Return the keys and components of a network; raises as `worker.shape_of` and `Heavy.run`."""
        if not is_small(network):
            return NetworkKeys(*await self.heavy.run(worker.shape_of, network))
        return self._read_small(network)

    def _read_small(self, network: Spec) -> NetworkKeys:
        read = self.advisor.network(network)
        return NetworkKeys(read.keys, read.components)

    def allocate_at_once(self, network: Spec, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the allocation for a network where that takes few steps, else None; raises as `allocate`."""
        if not is_small(network):
            return None
        shape = self._read_small(network)
        boxes, reach, rest = _curves_asked(shape, request)
        tables = self.advisor.curve_tables
        if not _takes_few_steps(shape, rest) or tables.missing(*boxes, **reach) > AT_ONCE_MAX:
            return None
        curves = tables.curves(*boxes, **reach)
        return self._planned_here(network, curves, rest)

    def _planned_here(self, network: Spec, curves: TabulatedCurves, request: dict[str, Any]) -> dict[str, Any]:
        """Return an allocation; the same question is planned again when its curves have changed."""
        question = f"{network}{request}"
        known = self.known.get(question)
        if known is None or known[1] is not curves:
            asked = known[0] if known else Request(network=worker.network_of(network), **request)
            known = self.known.store_value(question, (asked, curves, plan_request(asked, curves).as_dict()))
        return known[2]

    async def allocate(self, network: Spec, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the allocation for a network.

        Raises NetworkSyntax, MissingShares, ImpossibleTarget, UnknownComponent, NotEnoughData, InvalidValue, TooLarge,
        Unsupported as `Advisor.allocate`; Unavailable, WorkFailed as `Heavy`.
        """
        shape = await self.read(network)
        curves, rest = await self._curves(shape, request)
        if _takes_few_steps(shape, rest):
            return self._planned_here(network, curves, rest)
        return await self.heavy.run(worker.plan_one, network, curves, rest)

    async def allocate_together(
        self, asked: Sequence[NetworkAsked], of_all: Mapping[str, Any], objective: str
    ) -> dict[str, Any]:
        """Return the allocation of one machine to several networks.

        Raises as `Advisor.allocate_together` and `Heavy`.

        `asked`: each with the text or the nodes of its network. `of_all`: what the requests of all have alike, their cores
        among it.
        """
        wanted = await self._wanted(asked, of_all)
        return await self.heavy.run(worker.plan_several, wanted, of_all["cores"], objective)

    async def _wanted(self, asked: Sequence[NetworkAsked], of_all: Mapping[str, Any]) -> list[Wanted]:
        """Return several networks with their curves, as a worker takes them."""
        wanted: list[Wanted] = []
        for place, one in enumerate(asked):
            with about(place, one.name):
                request = {**one.options, "components": one.components, "load": one.load, **of_all}
                curves, rest = await self._curves(await self.read(one.network), request)
                wanted.append(Wanted(one.name, one.network, curves, rest, one.weight))
        return wanted

    async def reconsider(self, network: Spec, request: Mapping[str, Any], *question: Any) -> Look:
        """Return what a watch finds when it looks again, see `advisor.planning.watches.reconsider`. Raises as `allocate`."""
        curves, rest = await self._curves(await self.read(network), request)
        return await self.heavy.run(worker.reconsider_one, network, curves, rest, *question)

    async def _curves(self, shape: NetworkKeys, request: Mapping[str, Any]) -> tuple[TabulatedCurves, dict[str, Any]]:
        boxes, reach, rest = _curves_asked(shape, request)
        tables = self.advisor.curve_tables
        if tables.missing(*boxes, **reach) > AT_ONCE_MAX:
            names, load = boxes[1:]
            most = tables.reach(shape.components, names, reach["cores_max"])
            for box in shape.components:  # rows that come meanwhile are in the later ones
                called, loaded = ({box: of[box]} if box in of else {} for of in (names, load))
                tables.curves([box], called, loaded, cores_max=most, level=reach["level"])
                await others_first()
        return tables.curves(*boxes, **reach), rest


def _takes_few_steps(shape: NetworkKeys, request: Mapping[str, Any]) -> bool:
    """Return whether a plan is made by one kernel call, within some 2 ms: by thresholds, of few boxes and plain options."""
    return (
        len(shape.keys) <= HERE_BOXES_MAX
        and (request.get("cores") or HERE_CORES_MAX + 1) <= HERE_CORES_MAX
        and request.get("objective", "throughput") in ("throughput", "fewest_cores")
        and request.get("instances_max", 1) == 1
        and request.keys() <= HERE_KEYS
    )


def _curves_asked(
    shape: NetworkKeys, request: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Return what the curves of a request are asked with, by place and by name, and what is left for the planner."""
    rest = dict(request)
    boxes = shape.components, rest.pop("components", {}), rest.pop("load", {})
    return (
        boxes,
        {"cores_max": rest.get("cores") or limits.ALLOCATE_CORES_MAX, "level": rest.get("level") or LEVEL},
        rest,
    )
