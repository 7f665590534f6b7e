"""Several networks on one machine: by weights within a priority, and by priorities one after the other."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from msgspec import structs

from advisor.domain import elementary, limits
from advisor.domain.allocations import Allocation, Details, FrontPoint, Reason
from advisor.domain.curves import TabulatedCurves
from advisor.domain.rows import is_whole
from advisor.domain.sharing import Part, Together
from advisor.errors import CallerError, InvalidValue, TooLarge, Unsupported
from advisor.planning.combining import Share, combined, key_of, own, weights_of
from advisor.planning.demand import AnyCurves, Terms, rules_of, terms_of
from advisor.planning.evaluating import EVALUATED, evaluate, evaluated
from advisor.planning.plans import plan, planned
from advisor.planning.reasons import amount, plural, spare_words
from advisor.planning.requests import NEVER, OBJECTIVES, number, whole
from advisor.planning.stability import Look, WatchQuestion, reconsidered, sure_of
from advisor.planning.visits import visits_of

WEIGHT_MIN, WEIGHT_MAX = 1e-9, 1e9  # wider than any two networks differ, far from what a double loses
PRIORITY_MAX = 1000  # either side of 0: ranks for far more than NETWORKS_TOGETHER_MAX networks
NAMES_TOLD = 8  # networks named in one reason
# Reasons of the plan of all together that read the same for several networks; rates of theirs are sums.
TOLD = (
    "maximum", "minimum", "pinned", "unvisited", "skew", "curve_end", "contention", "level", "work", "gap", "nodes",
    "cost",
)  # fmt: skip
STEP = 1e-9  # of a rate: a smaller gain is none


class _Group(NamedTuple):
    """What networks that are planned at once get."""

    parts: tuple[Part, ...]
    bottleneck: tuple[tuple[str, str], ...]
    gap: float | None
    why: tuple[Reason, ...]
    front: tuple[FrontPoint, ...] = ()


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
        of the cores goes to networks that rise together above it while others cannot, and after them to the next
        priority (with `nodes` or `memory_bytes` it stays spare). For ``latency`` the least mean by weight, for ``cost`` the
        least of all together, for ``pareto`` the front of all together, whose fastest is planned. Where rates of
        arrivals are given they are the weights. For ``fewest_cores`` each network gets the fewest cores that reach its own
        target, those of higher priorities first; weights count for nothing, and contention between networks is not planned.

    Notes
    -----
    Contention is planned with within a priority. Cost: that of `plan` for all together, and, where cores are left, for
    each network once for each that falls out of their sharing.
    """
    total = whole("cores", cores, limits.ALLOCATE_CORES_MAX)
    shares, least = _checked(shares, objective)
    if sum(least) > total:
        raise InvalidValue("cores", total, f"at least {sum(least)}, the minima of all networks")
    apart = _apart(objective)
    left, kept, found = total, sum(least), list[_Group]()
    for places in _units(shares, objective):
        kept -= sum(least[place] for place in places)
        mine = [shares[place] for place in places]
        if apart or len(shares) == 1:
            with about(places[0], mine[0].name) if apart else nullcontext():
                group = _alone_planned(mine[0], left - kept, objective, only=not apart)
        else:
            group = _planned(mine, left - kept, objective)
        found.append(group)
        left -= sum(part.used for part in group.parts)
    parts = {part.name: part for group in found for part in group.parts}
    gaps = [group.gap for group in found]
    known = [gap for gap in gaps if gap is not None]
    bounds = {name: key for group in found for name, key in group.bottleneck[:1]}
    return Together(
        tuple(parts[share.name] for share in shares), left, max(known) if len(known) == len(gaps) else None,
        tuple((share.name, bounds[share.name]) for share in shares) if apart
        else tuple(pair for group in found for pair in group.bottleneck),
        tuple(_reasons(found, shares, objective, left, total)), front=found[0].front,
    )  # fmt: skip


def _apart(objective: str) -> bool:
    """Return whether each network is planned by itself, for a target of its own."""
    return OBJECTIVES[objective].fewest


def _units(shares: Sequence[Share], objective: str) -> list[list[int]]:
    """Return the places of networks that are planned at once: of one priority, or each for its target; the first first."""
    ranked, apart = sorted(range(len(shares)), key=lambda place: -shares[place].priority), _apart(objective)
    units = groupby(ranked, key=lambda place: place if apart else shares[place].priority)
    return [list(some) for _, some in units]


def reconsider_together(shares: Sequence[Share], cores: int, objective: str, question: WatchQuestion) -> Look:
    """Return what a watch of several networks finds, by keys ``name:key``: as `reconsider`. Raises as `plan_together`."""
    shares, _ = _checked(shares, objective)
    total = whole("cores", cores, limits.ALLOCATE_CORES_MAX)
    units = [combined([shares[place] for place in places], total, objective) for places in _units(shares, objective)]

    def planned_again(sure: bool) -> Allocation:
        some = [replace(share, curves=sure_of(share.curves) if sure else share.curves) for share in shares]
        return _as_one(plan_together(some, total, objective), objective)

    return reconsidered(units, planned_again, question)


def _as_one(found: Together, objective: str) -> Allocation:
    """Return what several networks get as one allocation, by keys ``name:key``."""
    parts, rates = found.networks, np.array(found.guaranteed_per_s)

    def mean(name: str) -> float | None:
        values = [getattr(part.allocation, name) for part in parts]
        return None if None in values else float(elementary.weighted(rates, values) / rates.sum())

    def every(name: str) -> dict[str, int]:
        return {f"{part.name}:{key}": n for part in parts for key, n in getattr(part.allocation, name).items()}

    return Allocation(
        cores=every("cores"), instances=every("instances"), spare=found.spare, throughput_per_s=float(rates.sum()),
        latency_s=mean("latency_s") or 0.0, bottleneck=tuple(f"{name}:{key}" for name, key in found.bottleneck),
        groups=tuple((cores, tuple(f"{part.name}:{key}" for key in keys)) for part in parts
                     for cores, keys in part.allocation.groups),
        in_turn=every("in_turn"), objective=objective, latency_queued_s=mean("latency_queued_s"),
        latency_quantile_s=mean("latency_quantile_s"), gap=found.gap, front=found.front, details=Details(found.why),
    )  # fmt: skip


@contextmanager
def about(place: int, name: str) -> Generator[None]:
    """Let an error of the caller's tell which network it is about."""
    try:
        yield
    except CallerError as error:
        error.message = f"network {name}: {error.message}"
        error.field = f"networks[{place}]" + (f".{error.field}" if error.field else "")
        raise


def _checked(shares: Sequence[Share], objective: str) -> tuple[list[Share], list[int]]:
    """Return the networks with a name each, and the fewest cores of each, after what can be wrong with one alone."""
    if objective not in tuple(OBJECTIVES):  # a tuple compares what cannot be hashed, too
        raise InvalidValue("objective", objective, f"one of {', '.join(OBJECTIVES)}")
    if not shares:
        raise InvalidValue("networks", 0, "at least one network")
    if len(shares) > limits.NETWORKS_TOGETHER_MAX:
        raise TooLarge("networks", len(shares), limits.NETWORKS_TOGETHER_MAX)
    found, least = list[Share](), list[int]()
    for place, share in enumerate(shares):
        name = share.name or str(place + 1)
        weight, priority = share.weight, share.priority
        with about(place, name):
            if any(name == other.name for other in found):
                raise InvalidValue("name", name, "no other network's", "give each network a name of its own")
            if not WEIGHT_MIN <= number("weight", weight) <= WEIGHT_MAX:
                raise InvalidValue("weight", weight, f"a number from {WEIGHT_MIN:g} to {WEIGHT_MAX:g}")
            if not is_whole(priority) or abs(priority) > PRIORITY_MAX:
                raise InvalidValue("priority", priority, f"a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}")
            if share.request.arrival_per_s is not None and weight != 1.0:
                raise InvalidValue("weight", weight, "absent where arrival_per_s is given", "arrivals are the weights")
            _check_target(share, objective)
            visits = visits_of(share.network, share.request, share.flow)
            least.append(_least(terms_of(share.network, share.request, visits), share.curves))
        found.append(replace(share, name=name))
    _check_machine(found, objective)
    return found, least


def _check_target(share: Share, objective: str) -> None:
    """Raise InvalidValue unless a network has a target where, and only where, the objective wants one of each."""
    request = share.request
    if not _apart(objective):
        if request.target is not None:
            raise InvalidValue("target", request.target, f"absent for {objective}", "ask for the fewest cores")
    elif request.objective != objective:
        raise InvalidValue("target", None, "given for each network: throughput_per_s or latency_s")
    elif request.nodes is not None or request.memory_bytes is not None:
        raise Unsupported(
            "nodes and memory are planned for the objectives throughput and latency", field="nodes",
            value=request.nodes, hint="ask for the highest throughput",
        )  # fmt: skip


def _check_machine(shares: Sequence[Share], objective: str) -> None:
    request = shares[0].request
    if len({share.priority for share in shares}) > 1:
        if OBJECTIVES[objective].front:
            raise Unsupported(
                "a front is of networks of one priority", field="objective", value=objective, hint="use weights"
            )
        for field in ("nodes", "memory_bytes"):
            if getattr(request, field) is not None:
                raise Unsupported(
                    f"{field} is planned for networks of one priority", field=field, value=getattr(request, field),
                    hint="use weights",
                )  # fmt: skip
    keys = sum(len(share.network.keys) for share in shares)
    if keys > limits.NETWORK_COMPONENTS_MAX:
        raise TooLarge("network components", keys, limits.NETWORK_COMPONENTS_MAX)


def _least(terms: Terms, curves: AnyCurves) -> int:
    """Return the fewest cores that a network may have."""
    least: list[int] = terms.low.tolist()
    for row, rule in rules_of(terms, curves).items():
        inside = rule.between(least[row], int(terms.high[row]))
        least[row] = least[row] if inside is None else inside.least  # none: the plan says so
    for row, (cores, _) in terms.pins.items():
        least[row] = cores or least[row]
    return int((np.array(least) * terms.fewest).sum())


def _alone_planned(share: Share, cores: int, objective: str, *, only: bool) -> _Group:
    """Return what one network gets by itself; the only one of a machine may take turns."""
    turns = share.request.turns if only else NEVER
    asked = replace(share.request, cores=cores, objective=objective, turns=turns)
    found = plan(share.network, share.curves, asked, share.flow)
    told = replace(found, spare=0, gap=None, front=())
    part = Part(share.name, _weight(share), share.priority, found.throughput_per_s, told)
    front = tuple(
        structs.replace(point, cores={key_of(share, key): n for key, n in point.cores.items()},
                instances={key_of(share, key): n for key, n in point.instances.items()},
                groups=tuple((cores, tuple(key_of(share, key) for key in keys)) for cores, keys in point.groups))
        for point in found.front
    )  # fmt: skip
    return _Group((part,), tuple((share.name, key) for key in found.bottleneck), found.gap, found.why, front)


def _planned(shares: Sequence[Share], cores: int, objective: str) -> _Group:
    """Return what networks of one priority get, planned as one."""
    found = judged = planned(*combined(shares, cores, objective))
    shapes = found.cores, found.instances
    request = shares[0].request
    if OBJECTIVES[objective].by_rate and len(shares) > 1 and not (request.nodes or request.memory_bytes):
        each = _filled(shares, cores, found)
        of_all = [(key_of(share, key), each[share.name], key) for share in shares for key in share.network.keys]
        shapes = (
            {name: one.cores[key] for name, one, key in of_all},
            {name: one.instances[key] for name, one, key in of_all},
        )
        if shapes != (found.cores, found.instances):
            asked, curves = combined(shares, cores, EVALUATED)
            judged = evaluated(asked, curves, np.array([[one[key] for key in asked.terms.keys] for one in shapes]))
    parts = [
        Part(share.name, _weight(share), share.priority, judged.throughput_per_s * weight, _told(share, *shapes, found))
        for share, weight in zip(shares, weights_of(shares), strict=True)
    ]
    whose = {key_of(share, key): (share.name, key) for share in shares for key in share.network.keys}
    why = found.why
    if found.cost_per_s is not None:
        what = "earn" if found.cost_per_s < 0 else "cost"
        text = f"together they {what} {amount(abs(found.cost_per_s))} per second, by the weights given"
        why += (Reason("cost", None, found.cost_per_s, text),)
    return _Group(tuple(parts), tuple(whose[key] for key in judged.bottleneck), found.gap, why, found.front)


def _weight(share: Share) -> float:
    return share.request.arrival_per_s or share.weight


def _filled(shares: Sequence[Share], cores: int, found: Allocation) -> dict[str, Allocation]:
    """Hand out what is left of the cores: all rise together as far as they can, then who can least stays and the others go on.

    `found` is the plan of all together; what all reach in it stays. Cost: that of a plan of each, and of the rest together,
    for each network.
    """
    weights = dict(zip((share.name for share in shares), weights_of(shares), strict=True))
    got = dict[str, Allocation]()
    rising: list[Share] = list(shares)

    def better(share: Share, mine: Allocation, count: int) -> Allocation:
        asked = replace(share.request, cores=count, objective=EVALUATED, arrival_per_s=None, quantile=None, turns=NEVER)
        other = plan(share.network, share.curves, asked, share.flow)
        return other if other.throughput_per_s > mine.throughput_per_s * (1 + STEP) else mine

    def left() -> int:
        return cores - sum(one.cores_used for one in got.values())

    while rising:
        mine = {share.name: _judged(share, found.cores, found.instances, EVALUATED) for share in rising}
        spare = left() - sum(one.cores_used for one in mine.values())
        further = {share.name: better(share, mine[share.name], mine[share.name].cores_used + spare) for share in rising}
        if spare <= 0 or len(rising) == 1 or sum(one.cores_used for one in further.values()) <= left():
            got |= further
            break
        stays: Share = min(
            reversed(rising), key=lambda share: further[share.name].throughput_per_s / weights[share.name]
        )
        got[stays.name] = mine[stays.name]
        rising = [share for share in rising if share is not stays]
        found = planned(*combined(rising, left(), EVALUATED))
    for share in sorted(shares, key=lambda share: got[share.name].throughput_per_s / weights[share.name]):
        # Without more cores, too: other shapes of the same may do more than the shared throughput asked for.
        got[share.name] = better(share, got[share.name], got[share.name].cores_used + left())
    return got


def _judged(share: Share, cores: Mapping[str, int], instances: Mapping[str, int], objective: str) -> Allocation:
    """Return what a network does alone on its own of the shapes of all, ``name:key``."""
    given = own(share, cores), own(share, instances)
    used = sum(n * given[1][key] for key, n in given[0].items())
    asked = replace(share.request, cores=used, objective=objective, nodes=None, memory_bytes=None)
    return evaluate(share.network, share.curves, asked, *given, share.flow)


def _told(share: Share, cores: Mapping[str, int], instances: Mapping[str, int], found: Allocation) -> Allocation:
    """Return the answer about one network of a plan of all; where its instances lie is as it is with the others."""
    judged = _judged(share, cores, instances, found.objective)
    placement = None if found.placement is None else own(share, found.placement)
    told = structs.replace(judged.told, why=tuple(some for some in judged.why if some.code != "gap"))
    return replace(judged, objective=found.objective, placement=placement, details=told, gap=None, steps=0, spare=0)


def _reasons(
    groups: Sequence[_Group], shares: Sequence[Share], objective: str, spare: int, cores: int
) -> Iterator[Reason]:
    if len(shares) == 1 and not _apart(objective):
        yield from (some for some in groups[0].why if some.code in ("bottleneck", "spare"))
        return
    if _apart(objective):
        used = {part.name: part.used for group in groups for part in group.parts}
        for share in shares[:NAMES_TOLD]:
            taken = used[share.name]
            yield Reason("target", share.name, float(taken), f"{share.name} takes {plural(taken, 'core')}")
        tables = [share.curves for share in shares if isinstance(share.curves, TabulatedCurves)]
        if len(shares) > 1 and any(curves.contention.any() for curves in tables):
            alone = "each network is planned as if it were alone"
            yield Reason("contention", None, None, f"{alone}: that they slow each other down is not in these figures")
    for group in () if _apart(objective) else groups:
        of_all = "" if len(groups) == 1 else f" of priority {group.parts[0].priority}"
        rates = [f"{part.name} {amount(part.guaranteed_per_s)}" for part in group.parts[:NAMES_TOLD]]
        more = ", …" if len(group.parts) > NAMES_TOLD else ""
        for name, key in group.bottleneck[:1]:
            value = next(part.guaranteed_per_s for part in group.parts if part.name == name)
            reach = f"bounds what the networks{of_all} reach together, in records/s: {', '.join(rates)}{more}"
            yield Reason("bottleneck", f"{name}:{key}", value, f"{name}:{key} {reach}")
        yield from (some for some in group.why if some.code in TOLD)
    if spare > 0:
        because = "the targets are reached without them" if _apart(objective) else "no network gains from them"
        yield Reason("spare", None, float(spare), spare_words(spare, cores, because))
