"""Evidence: what an answer rests on, and the same answer computed again from that alone.

An answer with evidence is computed from it in the first place: from a part of the state that has the components in question,
and nothing else. So a replay gives the same bits, whatever was learned since, by the same version of the program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, Protocol, Self, cast

import msgspec

from advisor.domain.allocations import Allocation
from advisor.domain.answers import Basis, Suggestions
from advisor.domain.names import checked_name
from advisor.domain.networks import Network
from advisor.domain.shapes import plain
from advisor.engine.components import Components
from advisor.engine.flows import filled
from advisor.engine.prior import OTHERS_MAX
from advisor.engine.state_bytes import FORMAT
from advisor.errors import InvalidValue, TooLarge
from advisor.version import VERSION

COMPONENTS_MAX: Final = OTHERS_MAX  # of one evidence, some 1.5 MB: what a component without rows is answered from
ANSWERED: Final = ("allocate", "choose_cores", "choose_together", "predict", "suggest")  # the verbs that give evidence


class Answerer(Protocol):
    """What evidence needs of an `Advisor`, which imports this module."""

    components: Components

    @classmethod
    def from_bytes(cls, data: bytes, /) -> Self: ...
    def extract(self, names: Iterable[str] | None, parts: Collection[str], /) -> bytes: ...
    def network(self, spec: Any, /) -> Network: ...


def answer_with_evidence(
    advisor: Answerer, method: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> Any:
    """Return what a method answers, with its evidence; raises as the method, and TooLarge beyond `COMPONENTS_MAX`."""
    called = inspect.signature(method).bind(None, *args, **given)
    called.apply_defaults()
    options = called.arguments.pop("options", {})
    request = {key: value for key, value in (called.arguments | options).items() if key not in ("self", "evidence")}
    if method.__name__ == "allocate":
        request |= network_of(advisor, request)
    basis = basis_of(advisor, method.__name__, request)
    return with_basis(answer_of(basis, type(advisor).from_bytes(basis.curves)), basis)


def network_of(advisor: Answerer, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request to allocate with the definition of its network, and what was learned of its flow."""
    network, flows = request["network"], advisor.components.flows
    if not flows.keeps(network):
        return {"network": network if isinstance(network, (str, Network)) else list(network)}
    return filled(request, flows.flow(network, None)) | {"network": flows.definition(network)}


def basis_of(advisor: Answerer, verb: str, request: Mapping[str, Any]) -> Basis:
    """Return what the answer to a request rests on. Cost O(components of the request). Raises TooLarge."""
    names = list(dict.fromkeys(_components_of(advisor, verb, request)))
    known, siblings, cores = advisor.components.slots, advisor.components.siblings, inf if verb == "allocate" else 0.0
    slots = [known.find_slot(name) for name in names]
    if not all(slot is not None and bool(advisor.components.table.evidence(slot) > 0) for slot in slots):
        names = list(known.components)  # of a component without rows all others tell something
    else:
        names += [one for name in names for one in siblings.lenders(name, cores)]
        names = list(dict.fromkeys(names))
    if len(names) > COMPONENTS_MAX:
        raise TooLarge("components of the evidence", len(names), COMPONENTS_MAX, "ask without evidence")
    asked = {key: _listed(value) for key, value in request.items() if value is not None}
    return Basis(verb, asked, advisor.extract(names, ()), {"advisor": VERSION, "state": str(FORMAT)})


def answer_of(basis: Basis, advisor: Answerer) -> Any:
    """Return the answer to the request of some evidence by an advisor; raises InvalidValue for another verb's."""
    if basis.verb not in ANSWERED:
        raise InvalidValue("basis.verb", basis.verb, f"one of {', '.join(ANSWERED)}")
    request = dict(basis.request)
    if "under_way" in request:
        request["under_way"] = dict(request["under_way"])
    return getattr(advisor, basis.verb)(**request)


def with_basis(answer: Any, basis: Basis) -> Any:
    """Return an answer with its evidence."""
    if isinstance(answer, Allocation):
        return replace(answer, basis=basis)
    if isinstance(answer, list):
        return Suggestions(cast("list[Any]", answer), basis)
    return msgspec.structs.replace(answer, basis=basis)


def _components_of(advisor: Answerer, verb: str, request: Mapping[str, Any]) -> list[str]:
    """Return the components that a request is about."""
    if verb == "allocate":
        called = cast("Mapping[str, str]", request.get("components") or {})
        return [called.get(box, box) for box in advisor.network(request["network"]).components]
    if verb == "choose_together":
        return [checked_name("component", job.get("component")) for job in request["jobs"]]
    given = request["component"]
    names = cast("Sequence[Any]", given if isinstance(given, (list, tuple)) else [given])
    return [checked_name("component", name) for name in names]


def _listed(value: Any) -> Any:
    """Return a value of a request as JSON has it; a map by numbers is a list of pairs."""
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in cast("Mapping[Any, Any]", value)):
        return [list(pair) for pair in cast("Mapping[Any, Any]", value).items()]
    return plain(value)
