"""Several networks as one: a choice between them, each record being of network i with the probability of its weight.

The shortest period of the whole is then the largest throughput X with w_i X for every network (weighted max-min
fairness), and its mean latency is the mean of theirs by weight. With arrival rates these are the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.domain import elementary
from advisor.domain.curves import AmdahlCurves, Seen, TabulatedCurves, allowed_by_row
from advisor.domain.flows import Flow
from advisor.domain.networks import CHOICE, Network, Node
from advisor.errors import InvalidValue
from advisor.planning.demand import AnyCurves, Terms, sizes_of, terms_of
from advisor.planning.placing import machine_of
from advisor.planning.questions import Asked
from advisor.planning.requests import NEVER, Floats, Request
from advisor.planning.routing import Routing
from advisor.planning.structure import structure_of
from advisor.planning.visits import Visits, visits_of

BY_NODE, BY_ROW = ("shares", "depths", "fan_outs", "returns"), ("pins", "rules", "replicas")  # of `Routing` and `Terms`
LIMITS = ("low", "high", "fewest", "most")
OF_MACHINE = ("nodes", "memory_bytes", "level", "quantile", "weights", "work_max")  # the same for all of a priority


@dataclass(frozen=True, slots=True)
class Share:
    """A network that shares the machine."""

    network: Network
    curves: AnyCurves
    request: Request  # its routing and limits; its objective and cores are those of the whole machine
    weight: float = 1.0  # how its throughput (or latency) counts against others of the same priority
    priority: int = 0  # higher ones are planned first, others keep their minimum
    flow: Flow | None = None
    name: str = ""  # what answers and errors call it; empty: its place, from 1


def weights_of(shares: Sequence[Share]) -> list[float]:
    """Return the share of all records that are of each network, of sum 1.

    Raises InvalidValue when only some of them have an arrival rate.
    """
    rates = [share.request.arrival_per_s for share in shares]
    if any(rate is not None for rate in rates):
        if not all(rate is not None for rate in rates):
            raise InvalidValue("arrival_per_s", None, "given for all networks of a priority, or for none")
        given = [float(rate or 0.0) for rate in rates]
    else:
        given = [float(share.weight) for share in shares]
    return [value / elementary.added(given) for value in given]


def key_of(share: Share, key: str) -> str:
    """Return what a network's key is called among those of all."""
    return f"{share.name}:{key}"


def own(share: Share, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is of one network of values by the keys of all."""
    return {key: values[key_of(share, key)] for key in share.network.keys}


def combined(shares: Sequence[Share], cores: int, objective: str) -> tuple[Asked, TabulatedCurves]:
    """Return the choice between networks of different names, as it is asked, with its curves; keys are ``name:key``.

    Raises InvalidValue, TooLarge, MissingShares when a request does not fit its network, or all of them are too large
    together.
    """
    weights, first, nodes, roots = weights_of(shares), shares[0].request, list[Node](), list[int]()
    parts = [terms_of(one.network, one.request, visits_of(one.network, one.request, one.flow)) for one in shares]
    maps: dict[str, dict[int, Any]] = {name: {} for name in (*BY_NODE, *BY_ROW, "visits")}
    rows = 0
    for share, weight, terms in zip(shares, weights, parts, strict=True):
        named, offset, routing = (
            dict(zip(share.network.boxes, terms.keys, strict=True)),
            len(nodes),
            terms.visits.routing,
        )
        for name in BY_NODE:
            maps[name] |= {index + offset: value for index, value in getattr(routing, name).items()}
        for name in BY_ROW:
            maps[name] |= {row + rows: value for row, value in getattr(terms, name).items()}
        maps["visits"] |= {row + rows: weight * value for row, value in routing.visits.items()}
        for index, node in enumerate(share.network.nodes):
            name = key_of(share, named[index]) if index in named else node.name
            nodes.append(replace(node, name=name, children=tuple(child + offset for child in node.children)))
        roots.append(len(nodes) - 1)
        rows += len(terms.keys)
    entries = [weight * terms.visits.entries for weight, terms in zip(weights, parts, strict=True)]
    if len(roots) > 1:
        maps["shares"][len(nodes)] = weights
        nodes.append(Node(CHOICE, children=tuple(roots)))
        entries.append(np.ones(1))
    network, rates = Network(tuple(nodes)), [share.request.arrival_per_s for share in shares]
    per_record = np.concatenate([weight * one.visits.per_record for weight, one in zip(weights, parts, strict=True)])
    visits = Visits(
        per_record, np.concatenate(entries), Routing(**{name: maps[name] for name in (*BY_NODE, "visits")}), maps["replicas"]
    )  # fmt: skip
    request = Request(
        cores=cores, objective=objective, turns=NEVER,
        arrival_per_s=None if rates[0] is None else elementary.added(float(rate or 0.0) for rate in rates),
        # Of streams put together, as of many (Whitt 1983, asymptotic method).
        arrival_variation=elementary.added(
            weight * share.request.arrival_variation for share, weight in zip(shares, weights, strict=True)
        ),
        target=first.target if len(shares) == 1 else None,  # only one that is planned by itself has one
        **{name: getattr(first, name) for name in OF_MACHINE},
    )  # fmt: skip
    ones = [np.ones((len(terms.keys), 1)) for terms in parts]
    scales = [one if terms.scale is None else terms.scale for one, terms in zip(ones, parts, strict=True)]
    scaled: Floats = np.concatenate(scales)
    low, high, fewest, most = (np.concatenate([getattr(terms, name) for terms in parts]) for name in LIMITS)
    found = Terms(
        request, network.keys, visits, low, high, fewest, most, scaled, maps["pins"], maps["rules"], maps["replicas"]
    )
    asked = Asked(found, structure_of(network, visits), machine_of(cores, first.nodes, first.memory_bytes))
    return asked, _tables(shares, cores)


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
    allowed = allowed_by_row([share.curves for share in shares])
    return TabulatedCurves(grid, seconds, np.maximum(seconds, upper), *rest, seen=of_all, allowed=allowed)
