"""Several networks on one machine: by weights within a priority, and by priorities one after the other.

Networks of one priority are planned as one: their records are those of a choice between the networks, network i taking
the share w_i. Then the shortest period of the whole is the largest throughput X with w_i X for every network (weighted
max-min fairness), and its mean latency is the mean of theirs by weight. With arrival rates these are the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.answers import Allocation
from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.flows import Flow
from advisor.domain.networks import CHOICE, Network, Node
from advisor.errors import InvalidValue
from advisor.planning.options import counts_of
from advisor.planning.plans import plan
from advisor.planning.requests import Request, by_key, limits_of, number, pins_of, whole
from advisor.planning.sweeping import evaluate
from advisor.planning.visits import visits_of

WEIGHT_MIN, WEIGHT_MAX = 1e-9, 1e9
BY_KEY = ("minimum", "maximum", "scale", "pinned")
OF_MACHINE = ("nodes", "memory_bytes", "level", "quantile", "arrival_variation", "work_max")


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
    """

    network: Network
    curves: AmdahlCurves | TabulatedCurves
    request: Request
    weight: float = 1.0
    priority: int = 0
    flow: Flow | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """What each network gets.

    Attributes
    ----------
    allocations : tuple of Allocation
        In the order given: what each could do alone on its cores.
    guaranteed_per_s : tuple of float
        Throughput of each when all of one priority run in proportion to their weights.
    spare : int
    gap : float or None
        The largest of the priorities' gaps.
    """

    allocations: tuple[Allocation, ...]
    guaranteed_per_s: tuple[float, ...]
    spare: int
    gap: float | None


def plan_together(shares: Sequence[Share], cores: int, objective: str = "throughput") -> Together:
    """Return allocations of one machine's cores to several networks.

    Parameters
    ----------
    shares : sequence of Share
    cores : int
        Of the machine: at least the minima of all networks in sum.
    objective : str
        ``throughput`` or ``latency``.

    Raises
    ------
    InvalidValue
        When there are no networks, weights are out of bounds, or the minima do not fit.
    MissingShares, ImpossibleTarget
        As `plan`.
    """
    total = whole("cores", cores, limits.ALLOCATE_CORES_MAX)
    if not shares:
        raise InvalidValue("shares", 0, "at least one network")
    if objective not in ("throughput", "latency"):
        raise InvalidValue("objective", objective, "throughput or latency")
    for order, share in enumerate(shares):
        if not WEIGHT_MIN <= number(f"shares[{order}].weight", share.weight) <= WEIGHT_MAX:
            raise InvalidValue(f"shares[{order}].weight", share.weight, f"from {WEIGHT_MIN:g} to {WEIGHT_MAX:g}")
    least = [_least(share) for share in shares]
    if sum(least) > total:
        raise InvalidValue("cores", total, f"at least {sum(least)}, the minima of all networks")
    found: dict[int, tuple[Allocation, float]] = {}
    left, gaps = total, list[float | None]()
    for priority in sorted({share.priority for share in shares}, reverse=True):
        group = [order for order, share in enumerate(shares) if share.priority == priority]
        kept = sum(least[order] for order, share in enumerate(shares) if share.priority < priority)
        some = [shares[order] for order in group]
        whole_answer = _planned(some, left - kept, objective)
        gaps.append(whole_answer.gap)
        left -= sum(whole_answer.cores[key] * whole_answer.instances[key] for key in whole_answer.cores)
        weights = _weights(some)
        for place, order in enumerate(group):
            own, many = (
                _parts(some[place], place, whole_answer.cores),
                _parts(some[place], place, whole_answer.instances),
            )
            alone = replace(some[place].request, cores=None, objective="fewest_cores", target={"latency_s": 1e30})
            judged = evaluate(some[place].network, some[place].curves, alone, own, many, some[place].flow)
            found[order] = judged, whole_answer.throughput_per_s * weights[place]
    known = [gap for gap in gaps if gap is not None]
    return Together(
        tuple(found[order][0] for order in range(len(shares))), tuple(found[order][1] for order in range(len(shares))),
        left, max(known) if len(known) == len(gaps) else None,
    )  # fmt: skip


def _least(share: Share) -> int:
    low, _, _ = limits_of(share.network, share.request)
    least = low.copy()
    for row, (cores, instances) in pins_of(share.network, share.request).items():
        least[row] = (cores or low[row]) * (instances or 1)
    return int(least.sum())


def _weights(shares: Sequence[Share]) -> list[float]:
    """Return the share of all records that are of each network, of sum 1."""
    rates = [share.request.arrival_per_s for share in shares]
    if any(rate is not None for rate in rates):
        if not all(rate is not None for rate in rates):
            raise InvalidValue("arrival_per_s", None, "given for all networks of a priority, or for none")
        given = [float(rate or 0.0) for rate in rates]
    else:
        given = [float(share.weight) for share in shares]
    return [value / sum(given) for value in given]


def _name(place: int, key: str) -> str:
    return f"{place}:{key}"


def _parts(share: Share, place: int, values: Mapping[str, int]) -> dict[str, int]:
    return {key: values[_name(place, key)] for key in share.network.keys}


def _planned(shares: Sequence[Share], cores: int, objective: str) -> Allocation:
    network, curves, request = _combined(shares, cores, objective)
    return plan(network, curves, request)


def _combined(shares: Sequence[Share], cores: int, objective: str) -> tuple[Network, TabulatedCurves, Request]:
    """Return the choice between the networks, with curves and request; keys are ``i:key``."""
    nodes: list[Node] = []
    roots: list[int] = []
    visits: dict[str, float] = {}
    for place, share in enumerate(shares):
        offset = len(nodes)
        order = {index: row for row, index in enumerate(share.network.boxes)}
        for index, node in enumerate(share.network.nodes):
            name = _name(place, share.network.keys[order[index]]) if index in order else node.name
            nodes.append(replace(node, name=name, children=tuple(child + offset for child in node.children)))
        roots.append(len(nodes) - 1)
    weights = _weights(shares)
    root = [Node(CHOICE, children=tuple(roots))] if len(roots) > 1 else []
    network = Network((*nodes, *root))
    given: dict[str, Any] = {name: {} for name in BY_KEY}
    lists: dict[str, list[Any]] = {"shares": [weights] if root else [], "depths": [], "fan_outs": [], "returns": []}
    instances: dict[str, int] = {}
    for place, share in enumerate(shares):
        known = visits_of(share.network, share.request, share.flow)
        for name, kind in (
            ("shares", "choices"),
            ("depths", "replications"),
            ("fan_outs", "splits"),
            ("returns", "feedbacks"),
        ):
            lists[name] += [getattr(known.routing, name).get(index) for index in getattr(share.network, kind)]
        for row in known.routing.visits:
            visits[_name(place, share.network.keys[row])] = weights[place] * float(known.per_record[row])
        for name in BY_KEY:
            for row, (_, value) in by_key(name, getattr(share.request, name), share.network).items():
                given[name][_name(place, share.network.keys[row])] = value
        _, _, most = limits_of(share.network, share.request)
        instances |= {_name(place, key): int(n) for key, n in zip(share.network.keys, most, strict=True)}
        if share.request.allowed is not None:
            allowed = given.setdefault("allowed", {})
            whole_rule = not isinstance(share.request.allowed, dict) or set(share.request.allowed) == {"multiples_of"}
            for key in share.network.keys:
                rule = share.request.allowed if whole_rule else share.request.allowed.get(key)  # type: ignore[union-attr]
                if rule is not None:
                    allowed[_name(place, key)] = rule
    rates = [share.request.arrival_per_s for share in shares]
    first = shares[0].request
    single = all(n == 1 for n in instances.values())
    request = Request(
        cores=cores, objective=objective, visits=visits or None,
        arrival_per_s=None if rates[0] is None else sum(float(rate or 0.0) for rate in rates),
        instances_max=1 if single else instances,
        **{name: value or None for name, value in given.items()}, **{name: some or None for name, some in lists.items()},
        **{name: getattr(first, name) for name in OF_MACHINE},
    )  # fmt: skip
    return network, _tables(shares, cores), request


def _tables(shares: Sequence[Share], cores: int) -> TabulatedCurves:
    """Return the curves of all networks at the counts of all their tables; Amdahl's at every count that matters."""
    ends = [int(share.curves.cores[-1]) for share in shares if isinstance(share.curves, TabulatedCurves)]
    knots = [share.curves.cores for share in shares if isinstance(share.curves, TabulatedCurves)]
    rows = sum(len(share.curves) for share in shares)
    if len(ends) < len(shares):
        knots.append(counts_of(cores, rows, np.zeros(0, np.int64))[0])
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
    joined = [np.concatenate([part[column] for part in parts]) for column in range(5)]
    return TabulatedCurves(grid, joined[0], np.maximum(joined[0], joined[1]), *joined[2:])
