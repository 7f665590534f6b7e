"""Several networks on one machine, by weights.

They are planned as one: a choice between them, each record being of network i with the probability of its
weight. The shortest period of the whole is then the largest throughput X with w_i X for every network (weighted max-min
fairness), and its mean latency is the mean of theirs by weight. With arrival rates these are the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.domain import elementary, limits
from advisor.domain.allocations import Allocation, Reason
from advisor.domain.curves import VALUES, Seen, TabulatedCurves, allowed_by_row
from advisor.domain.networks import CHOICE, Network, Node
from advisor.domain.plan_options import OF_MACHINE
from advisor.domain.rows import whole
from advisor.domain.sharing import Part, Together
from advisor.domain.vectors import Ints
from advisor.errors import InvalidValue
from advisor.planning.by_key import values_by_key
from advisor.planning.demand import Demand, Shapes, question_of
from advisor.planning.exact import best_period
from advisor.planning.plans import plan, plan_pinned, plan_request
from advisor.planning.reasons import amount, spare_words
from advisor.planning.requests import NEVER, Request, request_about
from advisor.planning.shares import Share, checked_shares
from advisor.planning.visits import FIELDS, nodes_of_kind

NAMES_REPORTED = 8  # networks named in one reason
BY_KEY = ("visits", "minimum", "maximum", "instances_max", "pinned", "scale", "allowed")
# Reasons of the plan of all together that read the same for several networks; rates of theirs are sums.
REPORTED = ("maximum", "contention", "level", "gap")
STEP = 1e-9  # of a period: a smaller gain is none


def plan_together(shares: Sequence[Share], cores: int, objective: str = "throughput") -> Together:
    """Return allocations of one machine's cores to several networks.

    Raises InvalidValue, TooLarge when there are no networks or too many, values are out of bounds, or the minima do not fit.
    `field` begins with ``networks[i]``; MissingShares, ImpossibleTarget as `plan`.

    Parameters
    ----------
    cores : int
        Of the machine: at least the minima of all networks in sum.
    objective : str
        ``throughput`` or ``latency``.

    Returns
    -------
    Together
        The largest X with w_i X records per second for network i, by its weight w_i; what then is left of the cores goes to
        networks that gain, the slowest first (with `nodes`, `memory_bytes` or contention it stays spare). For ``latency`` the
        least mean by weight. Where rates of arrivals are given they are the weights.

    Notes
    -----
    Cost: that of `plan` for all together, and of exact thresholds for each.
    """
    total = whole("cores", cores, 1, limits.ALLOCATE_CORES_MAX)
    shares, least = checked_shares(shares)
    if least > total:
        raise InvalidValue("cores", total, f"at least {least}, the minima of all networks")
    if len(shares) == 1:  # it may take turns
        (share,) = shares
        found = plan(share.network, share.curves, replace(share.request, cores=total, objective=objective))
        part = Part(share.name, _weight(share), found.throughput_per_s, replace(found, spare=0, gap=None))
        why = tuple(some for some in found.why if some.code in ("bottleneck", "spare"))
        return Together((part,), found.spare, found.gap, tuple((share.name, key) for key in found.bottleneck), why)
    return _planned(shares, total, objective)


# --- as one -----------------------------------------------------------------------------------------------------------------


def weights_of(shares: Sequence[Share]) -> list[float]:
    """Return the share of all records that are of each network, of sum 1.

    Raises InvalidValue when only some of them have an arrival rate.
    """
    rates = [share.request.arrival_per_s for share in shares]
    if None in rates and any(rates):
        raise InvalidValue("arrival_per_s", None, "given for all networks, or for none")
    given = [float(share.weight if rate is None else rate) for share, rate in zip(shares, rates, strict=True)]
    return [value / elementary.added(given) for value in given]


def combined(shares: Sequence[Share], cores: int, objective: str) -> tuple[Request, TabulatedCurves]:
    """Return the choice between networks of different names, as it is asked, with its curves; keys are ``name:key``.

    Raises InvalidValue, TooLarge, MissingShares when a request does not fit its network, or all of them are too large
    together.
    """
    weights, first, nodes, roots = weights_of(shares), shares[0].request, list[Node](), list[int]()
    options: dict[str, Any] = {name: getattr(first, name) for name in OF_MACHINE}
    lists: dict[str, list[Any]] = {field: [] for field, *_ in FIELDS.values()}
    for share, weight in zip(shares, weights, strict=True):
        network, request, offset = share.network, share.request, len(nodes)
        named = dict(zip(network.boxes, network.keys, strict=True))
        for index, node in enumerate(network.nodes):
            name = share.key_of(named[index]) if index in named else node.name
            nodes.append(replace(node, name=name, children=tuple(child + offset for child in node.children)))
        roots.append(len(nodes) - 1)
        for name in BY_KEY:
            given = values_by_key(name, getattr(request, name), network)
            scaled = {key: weight * value for key, value in given.items()} if name == "visits" else given
            options[name] = options.get(name, {}) | {share.key_of(key): value for key, value in scaled.items()}
        for kind, (field, *_) in FIELDS.items():
            lists[field] += getattr(request, field) or [None] * len(nodes_of_kind(network, kind))
    nodes.append(Node(CHOICE, children=tuple(roots)))
    lists["shares"].insert(0, weights)
    rates = [share.request.arrival_per_s for share in shares]
    variations = [share.request.gap_variation for share in shares]
    options |= lists | {"objective": objective}
    request = Request(
        cores=cores, turns=NEVER, network=Network(tuple(nodes)),
        arrival_per_s=None if rates[0] is None else elementary.added(float(rate or 0.0) for rate in rates),
        arrival_variation=elementary.weighted(weights, variations),  # of many streams (Whitt 1983, asymptotic method)
        **options,
    )  # fmt: skip
    return request, _tables(shares)


def _tables(shares: Sequence[Share]) -> TabulatedCurves:
    """Return the curves of all networks at the counts of all their tables."""
    tables = [share.curves for share in shares]
    grid = np.unique(np.concatenate([table.cores for table in tables]))
    elapsed, upper = (
        np.ascontiguousarray(np.concatenate([table.at(grid, upper=bound) for table in tables]))
        for bound in (False, True)
    )
    rest = [np.concatenate([getattr(table, name) for table in tables]) for name in VALUES[2:]]
    seen = [table.seen for table in tables if table.seen is not None]
    of_all = Seen(*map(np.concatenate, zip(*seen, strict=True))) if len(seen) == len(tables) else None  # type: ignore[arg-type]
    return TabulatedCurves(
        grid, elapsed, np.maximum(elapsed, upper), *rest, seen=of_all, allowed=allowed_by_row(tables)
    )


def _planned(shares: Sequence[Share], cores: int, objective: str) -> Together:
    """Return what several networks get, planned as one."""
    request, curves = combined(shares, cores, objective)
    found = judged = plan_request(request, curves)
    keys = request.keys
    shapes = np.array([[some[key] for key in keys] for some in (found.cores, found.instances)])
    if request.aim.by_rate and not (request.nodes or request.memory_bytes or curves.contention.any()):
        network = np.repeat(np.arange(len(shares)), [len(share.network.keys) for share in shares])
        filled = _filled(question_of(request, curves, request.price), network, shapes, cores)
        if (filled != shapes).any():
            shapes, judged = filled, plan_pinned(request, curves, filled)
    given = [dict(zip(keys, row, strict=True)) for row in shapes.tolist()]
    parts = tuple(
        Part(share.name, _weight(share), judged.throughput_per_s * weight, _reported(share, given, found))
        for share, weight in zip(shares, weights_of(shares), strict=True)
    )
    spare = cores - sum(part.cores_used for part in parts)
    whose = {share.key_of(key): (share.name, key) for share in shares for key in share.network.keys}
    bounds = tuple(whose[key] for key in judged.bottleneck)
    return Together(parts, spare, found.gap, bounds, tuple(_reasons(parts, bounds[0], found.why, spare, cores)))


def _weight(share: Share) -> float:
    return share.request.arrival_per_s or share.weight


def _filled(demand: Demand, network: Ints, shapes: Ints, cores: int) -> Ints:
    """Return shapes, (2, n), after what is left of the cores was handed out, `network` (n,) being that of each component.

    The slowest network takes first what it gains from. Cost: that of exact thresholds for each network.
    """
    taken = shapes.copy()
    own = [np.flatnonzero(network == place) for place in range(int(network.max()) + 1)]

    def period(rows: Ints) -> float:
        return float(np.max(demand.rows(rows).turns(Shapes(*taken[:, rows]))))

    for rows in sorted(own, key=lambda rows: -period(rows)):
        # Without more cores, too: other shapes of the same may do more than the shared throughput asked for.
        spare = cores - int(taken.prod(axis=0).sum())
        found, other, _, _ = best_period(demand.rows(rows), int(taken[:, rows].prod(axis=0).sum()) + spare)
        if other is not None and found < period(rows) * (1 - STEP):
            taken[:, rows] = other
    return taken


def _reported(share: Share, given: Sequence[Mapping[str, int]], found: Allocation) -> Allocation:
    """Return the answer about one network of a plan of all; where its instances lie is as it is with the others."""
    shape = np.array([list(share.own(some).values()) for some in given])
    request = replace(share.request, cores=int(shape.prod(axis=0).sum()), objective=found.objective, nodes=None,
                      memory_bytes=None, turns=NEVER)  # fmt: skip
    judged = plan_pinned(request_about(share.network, request), share.curves, shape)
    placement = None if found.placement is None else share.own(found.placement)
    return replace(judged, objective=found.objective, placement=placement, gap=None, steps=0, spare=0)


def _reasons(
    parts: Sequence[Part], bounds: tuple[str, str], why: Sequence[Reason], spare: int, cores: int
) -> Iterator[Reason]:
    rates = [f"{part.name} {amount(part.guaranteed_per_s)}" for part in parts[:NAMES_REPORTED]]
    more = ", …" if len(parts) > NAMES_REPORTED else ""
    key, value = ":".join(bounds), next(part.guaranteed_per_s for part in parts if part.name == bounds[0])
    reach = f"bounds what the networks reach together, in records/s: {', '.join(rates)}{more}"
    yield Reason("bottleneck", key, value, f"{key} {reach}")
    yield from (some for some in why if some.code in REPORTED)
    if spare > 0:
        yield Reason("spare", None, float(spare), spare_words(spare, cores, "no network gains from them"))
