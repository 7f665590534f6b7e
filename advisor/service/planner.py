"""Networks to allocations for the service: small ones here, large ones in a worker process; every answer is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from advisor.domain import limits
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.engine import Advisor
from advisor.errors import InvalidValue
from advisor.planning import Request
from advisor.planning.fares import LEVEL
from advisor.planning.stability import Look, Question, reconsider
from advisor.service.answers import Answers
from advisor.service.heavy import Curves, Heavy, Spec
from advisor.service.tables import tables_of

# A text of this size is read and planned within 2 ms; larger ones go to a worker process.
INLINE_TEXT_BYTES_MAX = 1024
INLINE_NODES_MAX = 64


class Shape(NamedTuple):
    """What the service needs to know of a network: its keys and the box name of each, in text order."""

    keys: tuple[str, ...]
    components: tuple[str, ...]


class Planner:
    """Puts a network, what is known of its components and a request together.

    Parameters
    ----------
    advisor : Advisor
        Whose curves are asked for.
    heavy : Heavy
        The worker processes.
    answers : Answers
        Where answers are kept.
    """

    def __init__(self, advisor: Advisor, heavy: Heavy, answers: Answers) -> None:
        self._advisor = advisor
        self._heavy = heavy
        self.answers = answers

    async def read(self, network: Spec) -> Shape:
        """Return the keys and components of a network; raises as `Heavy.shape_of`."""
        if not small(network):
            return Shape(*await self._heavy.shape_of(network))
        read = self._here(network)
        return Shape(read.keys, read.components)

    async def reconsider(
        self, network: Spec, request: Mapping[str, Any], question: Question
    ) -> tuple[Look, TabulatedCurves]:
        """Return what a watch finds when it looks again, and the curves that it looked at.

        Raises
        ------
        UnknownComponent, NotEnoughData, ImpossibleTarget, MissingShares, InvalidValue, TooLarge, Unsupported
        Unavailable, WorkFailed
            As `Heavy`.
        """
        shape = await self.read(network)
        names, load, rest = _split(request, shape.components)
        cores_max = request.get("cores") or limits.ALLOCATE_CORES_MAX
        level = request.get("level") or LEVEL
        curves = await tables_of(self._advisor, shape.components, names, load, cores_max, level)
        if small(network):
            return reconsider(self._here(network), curves, Request(**rest), question), curves
        return await self._heavy.reconsider(network, curves, rest, question), curves

    def keep(self, network: Spec, request: Mapping[str, Any], curves: Curves, allocation: Mapping[str, Any]) -> str:
        """Keep an answer; return its id."""
        return self.answers.keep(network, request, curves, allocation, [])

    def _here(self, network: Spec) -> Network:
        return self._advisor.network(network) if isinstance(network, str) else network_from_nodes(network)


def small(network: Spec) -> bool:
    """Return whether a network is read and planned within 2 ms."""
    return len(network) <= (INLINE_TEXT_BYTES_MAX if isinstance(network, str) else INLINE_NODES_MAX)


def _split(request: Mapping[str, Any], boxes: Sequence[str]) -> tuple[dict[str, str], dict[str, float], dict[str, Any]]:
    """Return which component each box runs, the load of each, and what is left for the planner."""
    rest = dict(request)
    names, load = rest.pop("components", {}), rest.pop("load", {})
    unknown = sorted((set(names) | set(load)) - set(boxes))
    if unknown:
        raise InvalidValue("components" if unknown[0] in names else "load", unknown[0], "a box of the network")
    return names, load, rest
