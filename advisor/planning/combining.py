"""Several networks as one: a choice between them, each record being of network i with the probability of its weight.

The shortest period of the whole is then the largest throughput X with w_i X for every network (weighted max-min
fairness), and its mean latency is the mean of theirs by weight. With arrival rates these are the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.domain.curves import AmdahlCurves, Seen, TabulatedCurves
from advisor.domain.flows import Flow
from advisor.domain.networks import CHOICE, Network, Node
from advisor.errors import InvalidValue
from advisor.planning.demand import AnyCurves, sizes_of
from advisor.planning.requests import NEVER, Request, allowed_of, by_key, limits_of
from advisor.planning.visits import visits_of

AS_GIVEN = ("minimum", "maximum", "scale", "pinned")  # by key, handed on as they are
# Options with an entry a node -> which nodes of a network these are.
OF_NODES = {"shares": "choices", "depths": "replications", "fan_outs": "splits", "returns": "feedbacks"}
OF_MACHINE = ("nodes", "memory_bytes", "level", "quantile", "work_max")  # the same for all of a priority


@dataclass(frozen=True, slots=True)
class Share:
    """A network that shares the machine.

    Attributes
    ----------
    network : Network
    curves : AmdahlCurves or TabulatedCurves
    request : Request
        Its routing and limits; its objective and cores are those of the whole machine.
    weight : float
        How its throughput (or latency) counts against others of the same priority.
    priority : int
        Higher ones are planned first, others keep their minimum.
    flow : Flow, optional
    name : str
        What answers and errors call it; empty: its place, from 1.
    """

    network: Network
    curves: AnyCurves
    request: Request
    weight: float = 1.0
    priority: int = 0
    flow: Flow | None = None
    name: str = ""


def weights_of(shares: Sequence[Share]) -> list[float]:
    """Return the share of all records that are of each network, of sum 1.

    Raises
    ------
    InvalidValue
        When only some of them have an arrival rate.
    """
    rates = [share.request.arrival_per_s for share in shares]
    if any(rate is not None for rate in rates):
        if not all(rate is not None for rate in rates):
            raise InvalidValue("arrival_per_s", None, "given for all networks of a priority, or for none")
        given = [float(rate or 0.0) for rate in rates]
    else:
        given = [float(share.weight) for share in shares]
    return [value / sum(given) for value in given]


def key_of(share: Share, key: str) -> str:
    """Return what a network's key is called among those of all."""
    return f"{share.name}:{key}"


def own(share: Share, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is of one network of values by the keys of all."""
    return {key: values[key_of(share, key)] for key in share.network.keys}


def combined(shares: Sequence[Share], cores: int, objective: str) -> tuple[Network, TabulatedCurves, Request]:
    """Return the choice between networks of different names, with curves and request; keys are ``name:key``.

    Raises
    ------
    InvalidValue, TooLarge, MissingShares
        When a request does not fit its network, or all of them are too large together.
    """
    nodes: list[Node] = []
    roots: list[int] = []
    for share in shares:
        offset = len(nodes)
        order = {index: row for row, index in enumerate(share.network.boxes)}
        for index, node in enumerate(share.network.nodes):
            name = key_of(share, share.network.keys[order[index]]) if index in order else node.name
            nodes.append(replace(node, name=name, children=tuple(child + offset for child in node.children)))
        roots.append(len(nodes) - 1)
    weights = weights_of(shares)
    root = [Node(CHOICE, children=tuple(roots))] if len(roots) > 1 else []
    network = Network((*nodes, *root))
    given: dict[str, dict[str, Any]] = {name: {} for name in (*AS_GIVEN, "allowed", "instances_max", "visits")}
    lists: dict[str, list[Any]] = {name: [] for name in OF_NODES}
    lists["shares"] += [weights] if root else []
    for share, weight in zip(shares, weights, strict=True):
        known = visits_of(share.network, share.request, share.flow)
        for name, kind in OF_NODES.items():
            lists[name] += [getattr(known.routing, name).get(index) for index in getattr(share.network, kind)]
        visited = {row: weight * float(known.per_record[row]) for row in known.routing.visits}
        for name, values in {"visits": visited, **_by_row(share)}.items():
            given[name] |= {key_of(share, share.network.keys[row]): value for row, value in values.items()}
    if all(n == 1 for n in given["instances_max"].values()):
        del given["instances_max"]
    first = shares[0].request
    rates = [share.request.arrival_per_s for share in shares]
    request = Request(
        cores=cores, objective=objective, turns=NEVER,
        arrival_per_s=None if rates[0] is None else sum(float(rate or 0.0) for rate in rates),
        # Of streams put together, as of many (Whitt 1983, asymptotic method).
        arrival_variation=sum(
            weight * share.request.arrival_variation for share, weight in zip(shares, weights, strict=True)
        ),
        **{name: values for name, values in {**given, **lists}.items() if values},
        **{name: getattr(first, name) for name in OF_MACHINE},
    )  # fmt: skip
    return network, _tables(shares, cores), request


def _by_row(share: Share) -> dict[str, dict[int, Any]]:
    """Return a network's options by key, each row -> value."""
    request, network = share.request, share.network
    found: dict[str, dict[int, Any]] = {
        name: {row: value for row, (_, value) in by_key(name, getattr(request, name), network).items()}
        for name in AS_GIVEN
    }
    _, _, most = limits_of(network, request)
    found["instances_max"] = {row: int(n) for row, n in enumerate(most)}
    found["allowed"] = {row: _written(rule) for row, rule in allowed_of(network, request).items()}
    return found


def _written(rule: tuple[str, Any]) -> Any:
    name, argument = rule
    return {"multiples_of": argument} if name == "multiples_of" else name if argument is None else argument.tolist()


def _tables(shares: Sequence[Share], cores: int) -> TabulatedCurves:
    """Return the curves of all networks at the counts of all their tables; Amdahl's at every count that matters."""
    ends = [int(share.curves.cores[-1]) for share in shares if isinstance(share.curves, TabulatedCurves)]
    knots = [share.curves.cores for share in shares if isinstance(share.curves, TabulatedCurves)]
    rows = sum(len(share.curves) for share in shares)
    if len(ends) < len(shares):
        knots.append(sizes_of(cores, rows))
    grid = np.unique(np.concatenate(knots))
    parts: list[tuple[Any, ...]] = []
    for share in shares:
        curves = share.curves
        if isinstance(curves, AmdahlCurves):
            seconds = curves.serial_s[:, None] + curves.parallel_s[:, None] / grid
            zero = np.zeros(len(curves))
            parts.append((seconds, seconds, zero, zero, zero))
        else:
            parts.append(
                (curves.at(grid), curves.at(grid, upper=True), curves.variation, curves.contention, curves.peak_bytes)
            )
    seen = [share.curves.seen for share in shares if isinstance(share.curves, TabulatedCurves)]
    told = [some for some in seen if some is not None]
    of_all = Seen(*map(np.concatenate, zip(*told, strict=True))) if len(told) == len(shares) else None  # type: ignore[arg-type]
    joined = [np.concatenate([part[column] for part in parts]) for column in range(5)]
    seconds, upper, *rest = joined
    return TabulatedCurves(grid, seconds, np.maximum(seconds, upper), *rest, seen=of_all)
