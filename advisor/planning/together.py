"""Several networks on one machine: by weights within a priority, and by priorities one after the other.

Networks of one priority are planned as one: a choice between them, each record being of network i with the probability of its
weight. The shortest period of the whole is then the largest throughput X with w_i X for every network (weighted max-min
fairness), and its mean latency is the mean of theirs by weight. With arrival rates these are the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

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
from advisor.planning.reasons import amount, plural, spare_words
from advisor.planning.requests import NEVER, OBJECTIVES, Request, request_about
from advisor.planning.shares import Share, about, checked_shares
from advisor.planning.visits import FIELDS, nodes_of_kind

NAMES_REPORTED = 8  # networks named in one reason
BY_KEY = ("visits", "minimum", "maximum", "instances_max", "pinned", "scale", "allowed")
# Reasons of the plan of all together that read the same for several networks; rates of theirs are sums.
REPORTED = (
    "maximum", "unvisited", "contention", "level", "gap", "cost",
)  # fmt: skip
STEP = 1e-9  # of a period: a smaller gain is none


class _Group(NamedTuple):
    """What networks that are planned at once get."""

    parts: tuple[Part, ...]
    bottleneck: tuple[tuple[str, str], ...]
    gap: float | None
    why: tuple[Reason, ...]


def plan_together(shares: Sequence[Share], cores: int, objective: str = "throughput") -> Together:
    """Return allocations of one machine's cores to several networks.

    Raises InvalidValue, TooLarge when there are no networks or too many, values are out of bounds, or the minima do not fit.
    `field` begins with ``networks[i]``; MissingShares, ImpossibleTarget as `plan`; Unsupported for nodes or memory with
    several priorities: the next one does not know what one has of them.

    Parameters
    ----------
    cores : int
        Of the machine: at least the minima of all networks in sum.
    objective : str
        A key of `OBJECTIVES`. For ``fewest_cores`` each request has that objective, too, and a target of its own; for ``cost``
        the first of a priority has its weights.

    Returns
    -------
    Together
        Of each priority the largest X with w_i X records per second for network i, by its weight w_i; what then is left
        of the cores goes to networks that gain, the slowest first, and after them to the next priority (with `nodes`,
        `memory_bytes` or contention it stays spare). For ``latency`` the least mean by weight, for
        ``cost`` the least of all together. Where rates of
        arrivals are given they are the weights. For ``fewest_cores`` each network gets the fewest cores that reach its own
        target, those of higher priorities first; weights count for nothing, and contention between networks is not planned.

    Notes
    -----
    Contention is planned with within a priority. Cost: that of `plan` for all together, and of exact thresholds for each.
    """
    total = whole("cores", cores, 1, limits.ALLOCATE_CORES_MAX)
    shares, least = checked_shares(shares, objective)
    if sum(least) > total:
        raise InvalidValue("cores", total, f"at least {sum(least)}, the minima of all networks")
    apart = OBJECTIVES[objective].fewest
    left, kept, found = total, sum(least), list[_Group]()
    for places in _units(shares, objective):
        kept -= sum(least[place] for place in places)
        mine = [shares[place] for place in places]
        with about(places[0], mine[0].name) if apart else nullcontext():
            alone = apart or len(shares) == 1
            group = _alone(mine[0], left - kept, objective) if alone else _planned(mine, left - kept, objective)
        found.append(group)
        left -= sum(part.cores_used for part in group.parts)
    parts = {part.name: part for group in found for part in group.parts}
    gaps = [group.gap for group in found if group.gap is not None]
    bounds = [pair for group in found for pair in group.bottleneck]
    if apart:
        bounds = [next(pair for pair in bounds if pair[0] == share.name) for share in shares]
    return Together(
        tuple(parts[share.name] for share in shares), left, max(gaps) if len(gaps) == len(found) else None, tuple(bounds),
        tuple(_reasons(found, shares, objective, left, total)),
    )  # fmt: skip


def _units(shares: Sequence[Share], objective: str) -> list[list[int]]:
    """Return the places of networks that are planned at once: of one priority, or each for its target; the first first."""
    ranked, apart = sorted(range(len(shares)), key=lambda place: -shares[place].priority), OBJECTIVES[objective].fewest
    return [list(some) for _, some in groupby(ranked, lambda place: place if apart else shares[place].priority)]


# --- as one -----------------------------------------------------------------------------------------------------------------


def weights_of(shares: Sequence[Share]) -> list[float]:
    """Return the share of all records that are of each network, of sum 1.

    Raises InvalidValue when only some of them have an arrival rate.
    """
    rates = [share.request.arrival_per_s for share in shares]
    if None in rates and any(rates):
        raise InvalidValue("arrival_per_s", None, "given for all networks of a priority, or for none")
    given = [float(share.weight if rate is None else rate) for share, rate in zip(shares, rates, strict=True)]
    return [value / elementary.added(given) for value in given]


def combined(shares: Sequence[Share], cores: int, objective: str) -> tuple[Request, TabulatedCurves]:
    """Return the choice between networks of different names, as it is asked, with its curves; keys are ``name:key``.

    Raises InvalidValue, TooLarge, MissingShares when a request does not fit its network, or all of them are too large
    together.
    """
    weights, first, nodes, roots = weights_of(shares), shares[0].request, list[Node](), list[int]()
    options: dict[str, Any] = {name: getattr(first, name) for name in OF_MACHINE}
    lists: dict[str, list[Any]] = {field: [] for field, _, _ in FIELDS.values()}
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
        for kind, (field, _, _) in FIELDS.items():
            lists[field] += getattr(request, field) or [None] * len(nodes_of_kind(network, kind))
    if len(roots) > 1:
        nodes.append(Node(CHOICE, children=tuple(roots)))
        lists["shares"].insert(0, weights)
    rates = [share.request.arrival_per_s for share in shares]
    variations = [share.request.gap_variation for share in shares]
    options |= lists | {"objective": objective}
    request = Request(
        cores=cores, turns=NEVER, network=Network(tuple(nodes)),
        arrival_per_s=None if rates[0] is None else elementary.added(float(rate or 0.0) for rate in rates),
        arrival_variation=elementary.weighted(weights, variations),  # of many streams (Whitt 1983, asymptotic method)
        target=first.target if len(shares) == 1 else None,  # only one that is planned by itself has one
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


def _alone(share: Share, cores: int, objective: str) -> _Group:
    """Return what one network gets by itself; the only one of a machine may take turns, one of several with a target not."""
    turns = NEVER if OBJECTIVES[objective].fewest else share.request.turns
    found = plan(share.network, share.curves, replace(share.request, cores=cores, objective=objective, turns=turns))
    part = Part(share.name, _weight(share), share.priority, found.throughput_per_s, replace(found, spare=0, gap=None))
    return _Group((part,), tuple((share.name, key) for key in found.bottleneck), found.gap, found.why)


def _planned(shares: Sequence[Share], cores: int, objective: str) -> _Group:
    """Return what networks of one priority get, planned as one."""
    request, curves = combined(shares, cores, objective)
    found = judged = plan_request(request, curves)
    keys = request.keys
    shapes = np.array([[some[key] for key in keys] for some in (found.cores, found.instances)])
    if (
        request.aim.by_rate
        and len(shares) > 1
        and not (request.nodes or request.memory_bytes or curves.contention.any())
    ):
        network = np.repeat(np.arange(len(shares)), [len(share.network.keys) for share in shares])
        filled = _filled(question_of(request, curves, request.price), network, shapes, cores)
        if (filled != shapes).any():
            shapes, judged = filled, plan_pinned(request, curves, filled)
    given = [dict(zip(keys, row, strict=True)) for row in shapes.tolist()]
    parts = [
        Part(
            share.name, _weight(share), share.priority, judged.throughput_per_s * weight, _reported(share, given, found)
        )
        for share, weight in zip(shares, weights_of(shares), strict=True)
    ]
    whose = {share.key_of(key): (share.name, key) for share in shares for key in share.network.keys}
    why = found.why
    if found.cost_per_s is not None:
        what = "earn" if found.cost_per_s < 0 else "cost"
        text = f"together they {what} {amount(abs(found.cost_per_s))} per second, by the weights given"
        why += (Reason("cost", None, found.cost_per_s, text),)
    return _Group(tuple(parts), tuple(whose[key] for key in judged.bottleneck), found.gap, why)


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
    groups: Sequence[_Group], shares: Sequence[Share], objective: str, spare: int, cores: int
) -> Iterator[Reason]:
    apart = OBJECTIVES[objective].fewest
    if len(shares) == 1 and not apart:
        yield from (some for some in groups[0].why if some.code in ("bottleneck", "spare"))
        return
    if apart:
        used = {part.name: part.cores_used for group in groups for part in group.parts}
        for share in shares[:NAMES_REPORTED]:
            taken = used[share.name]
            yield Reason("target", share.name, float(taken), f"{share.name} takes {plural(taken, 'core')}")
        if len(shares) > 1 and any(share.curves.contention.any() for share in shares):
            alone = "each network is planned as if it were alone"
            yield Reason("contention", None, None, f"{alone}: that they slow each other down is not in these figures")
    for group in () if apart else groups:
        of_all = "" if len(groups) == 1 else f" of priority {group.parts[0].priority}"
        rates = [f"{part.name} {amount(part.guaranteed_per_s)}" for part in group.parts[:NAMES_REPORTED]]
        more = ", …" if len(group.parts) > NAMES_REPORTED else ""
        for name, key in group.bottleneck[:1]:
            value = next(part.guaranteed_per_s for part in group.parts if part.name == name)
            reach = f"bounds what the networks{of_all} reach together, in records/s: {', '.join(rates)}{more}"
            yield Reason("bottleneck", f"{name}:{key}", value, f"{name}:{key} {reach}")
        yield from (some for some in group.why if some.code in REPORTED)
    if spare > 0:
        because = "the targets are reached without them" if apart else "no network gains from them"
        yield Reason("spare", None, float(spare), spare_words(spare, cores, because))
