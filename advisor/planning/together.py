"""Several networks on one machine: by weights within a priority, and by priorities one after the other."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from advisor.domain import limits
from advisor.domain.answers import Allocation, Reason
from advisor.domain.curves import TabulatedCurves
from advisor.domain.rows import is_whole
from advisor.domain.sharing import Part, Together
from advisor.errors import CallerError, InvalidValue, TooLarge, Unsupported
from advisor.planning.combining import Share, combined, key_of, own, weights_of
from advisor.planning.plans import plan
from advisor.planning.reasons import amount, plural, reason
from advisor.planning.requests import (
    CORES,
    COST,
    NEVER,
    OBJECTIVES,
    PERIOD,
    allowed_of,
    least_allowed,
    limits_of,
    number,
    pins_of,
    scales_of,
    whole,
)
from advisor.planning.stability import Look, Question, reconsider
from advisor.planning.sweeping import EVALUATED, evaluate
from advisor.planning.visits import visits_of

SHARED = tuple(name for name, one in OBJECTIVES.items() if not one.front and one.measure != COST)  # of several networks
WEIGHT_MIN, WEIGHT_MAX = 1e-9, 1e9  # wider than any two networks differ, far from what a double loses
PRIORITY_MAX = 1000  # either side of 0: ranks for far more than NETWORKS_TOGETHER_MAX networks
NAMES_TOLD = 8  # networks named in one reason
# Reasons of the plan of all together that read the same for several networks; rates of theirs are sums.
TOLD = (
    "maximum", "minimum", "pinned", "unvisited", "skew", "curve_end", "contention", "level", "work", "gap", "nodes",
)  # fmt: skip
STEP = 1e-9  # of a rate: a smaller gain is none


@dataclass(frozen=True, slots=True)
class _Group:
    """What networks of one priority get: by their keys together, ``name:key``."""

    shares: Sequence[Share]
    cores: Mapping[str, int]
    instances: Mapping[str, int]
    whole: Allocation

    def used(self, share: Share) -> int:
        """Return the cores that a network has."""
        return sum(self.cores[name] * self.instances[name] for name in (key_of(share, k) for k in share.network.keys))

    def taking(self, share: Share, found: Allocation) -> _Group:
        """Return the same with another allocation of one network."""
        cores = {key_of(share, key): n for key, n in found.cores.items()}
        instances = {key_of(share, key): n for key, n in found.instances.items()}
        return replace(self, cores={**self.cores, **cores}, instances={**self.instances, **instances})


def plan_together(shares: Sequence[Share], cores: int, objective: str = "throughput") -> Together:
    """Return allocations of one machine's cores to several networks.

    Parameters
    ----------
    shares : sequence of Share
    cores : int
        Of the machine: at least the minima of all networks in sum.
    objective : str
        ``throughput``, ``latency``, or ``fewest_cores``: then each request has that objective, too, and a target of its own.

    Returns
    -------
    Together
        Of each priority the largest X with w_i X records per second for network i, by its weight w_i; what then is left
        of the cores goes to networks that rise together above it while others cannot, and after them to the next
        priority (with `nodes` or `memory_bytes` it stays spare). For ``latency`` the least mean by weight. Where rates of
        arrivals are given they are the weights. For ``fewest_cores`` each network gets the fewest cores that reach its own
        target, those of higher priorities first; weights count for nothing, and contention between networks is not planned.

    Raises
    ------
    InvalidValue, TooLarge
        When there are no networks or too many, values are out of bounds, or the minima do not fit. `field` begins with
        ``networks[i]``.
    MissingShares, ImpossibleTarget
        As `plan`.
    Unsupported
        For nodes or memory with several priorities: what one has of them is not told to the next.

    Notes
    -----
    Contention is planned with within a priority. Cost: that of `plan` for all together, and, where cores are left, for
    each network once for each that falls out of their sharing.
    """
    total = whole("cores", cores, limits.ALLOCATE_CORES_MAX)
    if objective not in SHARED:
        raise InvalidValue("objective", objective, " or ".join(SHARED), "of several networks")
    shares, least = _checked(shares)
    _check_targets(shares, objective)
    if sum(least) > total:
        raise InvalidValue("cores", total, f"at least {sum(least)}, the minima of all networks")
    if OBJECTIVES[objective].measure == CORES:
        return _fewest(shares, least, total)
    found: dict[str, Part] = {}
    left, gaps, groups = total, list[float | None](), list[_Group]()
    for priority in sorted({share.priority for share in shares}, reverse=True):
        kept = sum(least[order] for order, share in enumerate(shares) if share.priority < priority)
        mine = [share for share in shares if share.priority == priority]
        if len(shares) == 1:
            return _only(mine[0], total, objective)
        group = _planned(mine, left - kept, objective)
        groups.append(group)
        gaps.append(group.whole.gap)
        for share, weight in zip(group.shares, weights_of(group.shares), strict=True):
            left -= group.used(share)
            found[share.name] = Part(
                share.name, share.request.arrival_per_s or share.weight, priority, group.whole.throughput_per_s * weight,
                _alone(share, group),
            )  # fmt: skip
    known = [gap for gap in gaps if gap is not None]
    return Together(
        tuple(found[share.name] for share in shares), left, max(known) if len(known) == len(gaps) else None,
        tuple(_split(group, key) for group in groups for key in group.whole.bottleneck),
        tuple(_reasons(groups, found, left, total)),
    )  # fmt: skip


def reconsider_together(shares: Sequence[Share], cores: int, objective: str, question: Question) -> Look:
    """Return what a watch of several networks finds, by keys ``name:key``: as `reconsider`, of all as one network.

    Raises
    ------
    InvalidValue, TooLarge, MissingShares, ImpossibleTarget
        As `plan_together`.
    Unsupported
        For several priorities.
    """
    shares, _ = _checked(shares)
    _check_targets(shares, objective)
    if len({share.priority for share in shares}) > 1:
        raise Unsupported(
            "networks of several priorities are not watched together", field="priority", hint="use weights"
        )
    return reconsider(*combined(shares, whole("cores", cores, limits.ALLOCATE_CORES_MAX), objective), question)


def _only(share: Share, cores: int, objective: str) -> Together:
    """Return the allocation of the machine to one network alone: its components may take turns."""
    found = plan(share.network, share.curves, replace(share.request, cores=cores, objective=objective), share.flow)
    weight = share.request.arrival_per_s or share.weight
    part = Part(share.name, weight, share.priority, found.throughput_per_s, replace(found, spare=0, gap=None))
    told = tuple(some for some in found.why if some.code in ("bottleneck", "spare"))
    return Together((part,), found.spare, found.gap, tuple((share.name, key) for key in found.bottleneck), told)


def _check_targets(shares: Sequence[Share], objective: str) -> None:
    """Raise InvalidValue unless all networks have targets, or none, as the objective wants it."""
    for place, share in enumerate(shares):
        with about(place, share.name):
            if OBJECTIVES[objective].measure == CORES:
                if share.request.objective != objective:
                    raise InvalidValue("target", None, "given for each network: throughput_per_s or latency_s")
                if share.request.nodes is not None or share.request.memory_bytes is not None:
                    raise Unsupported(
                        "nodes and memory are planned for the objectives throughput and latency", field="nodes",
                        value=share.request.nodes, hint="ask for the highest throughput",
                    )  # fmt: skip
            elif share.request.target is not None:
                raise InvalidValue(
                    "target", share.request.target, f"absent for {objective}", "ask for the fewest cores"
                )


def _fewest(shares: Sequence[Share], least: Sequence[int], total: int) -> Together:
    """Return the fewest cores for each network's own target: one plan a network, of what those before it leave."""
    left, kept = total, sum(least)
    parts: dict[str, Part] = {}
    gaps: list[float | None] = []
    for place in sorted(range(len(shares)), key=lambda place: -shares[place].priority):
        share = shares[place]
        kept -= least[place]
        with about(place, share.name):
            asked = replace(share.request, cores=left - kept, turns=NEVER)
            found = plan(share.network, share.curves, asked, share.flow)
        left -= found.cores_used
        gaps.append(found.gap)
        alone = replace(found, spare=0)
        weight = share.request.arrival_per_s or share.weight
        parts[share.name] = Part(share.name, weight, share.priority, found.throughput_per_s, alone)
    known = [gap for gap in gaps if gap is not None]
    takes = {share.name: parts[share.name].used for share in shares[:NAMES_TOLD]}
    why = [reason("network_takes", name, float(n), cores=plural(n, "core")) for name, n in takes.items()]
    if len(shares) > 1 and any(_contended(share) for share in shares):
        why.append(reason("network_alone"))
    if left > 0:
        because = "the targets are reached without them"
        why.append(reason("spare", None, float(left), spare=left, cores=plural(total, "core"), because=because))
    return Together(
        tuple(parts[share.name] for share in shares), left, max(known) if len(known) == len(gaps) else None,
        tuple((share.name, key) for share in shares for key in parts[share.name].allocation.bottleneck[:1]), tuple(why),
    )  # fmt: skip


def _contended(share: Share) -> bool:
    return isinstance(share.curves, TabulatedCurves) and bool(share.curves.contention.any())


@contextmanager
def about(place: int, name: str) -> Generator[None]:
    """Let an error of the caller's tell which network it is about."""
    try:
        yield
    except CallerError as error:
        error.message = f"network {name}: {error.message}"
        error.field = f"networks[{place}]" + (f".{error.field}" if error.field else "")
        raise


def _checked(shares: Sequence[Share]) -> tuple[list[Share], list[int]]:
    """Return the networks with a name each, and the fewest cores of each, after what can be wrong with one alone."""
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
            visits_of(share.network, share.request, share.flow)
            scales_of(share.network, share.request)
            least.append(_least(share))
        found.append(replace(share, name=name))
    _check_machine(found)
    return found, least


def _check_machine(shares: Sequence[Share]) -> None:
    request = shares[0].request
    if len({share.priority for share in shares}) > 1:
        for field in ("nodes", "memory_bytes"):
            if getattr(request, field) is not None:
                raise Unsupported(
                    f"{field} is planned for networks of one priority", field=field, value=getattr(request, field),
                    hint="use weights",
                )  # fmt: skip
    keys = sum(len(share.network.keys) for share in shares)
    if keys > limits.NETWORK_COMPONENTS_MAX:
        raise TooLarge("network components", keys, limits.NETWORK_COMPONENTS_MAX)


def _least(share: Share) -> int:
    """Return the fewest cores that a network may have."""
    network, request = share.network, share.request
    low, _, _ = limits_of(network, request)
    least = low.copy()
    for row, rule in allowed_of(network, request).items():
        least[row] = least_allowed(rule, int(low[row]))
    for row, (cores, instances) in pins_of(network, request).items():
        least[row] = (cores or least[row]) * (instances or 1)
    return int(least.sum())


def _planned(shares: Sequence[Share], cores: int, objective: str) -> _Group:
    found = plan(*combined(shares, cores, objective))
    group = _Group(shares, found.cores, found.instances, found)
    request = shares[0].request
    if OBJECTIVES[objective].measure == PERIOD and len(shares) > 1 and not (request.nodes or request.memory_bytes):
        return _filled(group, cores)
    return group


def _filled(group: _Group, cores: int) -> _Group:
    """Hand out what is left of the cores to networks that gain from it; X stays as it is."""
    got = _risen(group, cores)
    for share in sorted(group.shares, key=lambda share: _alone(share, got).throughput_per_s / share.weight):
        # Without more cores, too: other shapes of the same may do more than the shared throughput asked for.
        spare = cores - sum(got.used(each) for each in group.shares)
        found, _ = _alone_on(share, got.used(share) + spare)
        if found.throughput_per_s > _alone(share, got).throughput_per_s * (1 + STEP):
            got = got.taking(share, found)
    if got is group:
        return group
    judged = evaluate(*combined(group.shares, cores, EVALUATED), got.cores, got.instances)
    return replace(got, whole=replace(judged, gap=group.whole.gap, details=judged.told._replace(why=group.whole.why)))


def _risen(group: _Group, cores: int) -> _Group:
    """Let networks rise together above X by what is left, as long as some can; those that cannot stay behind."""
    weights = dict(zip((share.name for share in group.shares), weights_of(group.shares), strict=True))
    got, sharing, level = group, list(group.shares), group.whole.throughput_per_s
    while sharing:
        spare = cores - sum(got.used(share) for share in group.shares)
        if spare <= 0:
            break
        alone = {share.name: _alone_on(share, got.used(share) + spare) for share in sharing}
        room = sum(got.used(share) for share in sharing) + spare
        if sum(used for _, used in alone.values()) <= room:  # enough for whatever each can use
            for share in sharing:
                got = got.taking(share, alone[share.name][0])
            break
        further = {name: found.throughput_per_s / weights[name] for name, (found, _) in alone.items()}
        stays = [share for share in sharing if further[share.name] > level * (1 + STEP)]
        if len(stays) == len(sharing):  # each could come further, not all: the one that would come least far does not
            stays.remove(min(reversed(stays), key=lambda share: further[share.name]))
        sharing = stays
        if not sharing:
            break
        found = plan(*combined(sharing, sum(got.used(share) for share in sharing) + spare, EVALUATED))
        reached = found.throughput_per_s / sum(weights[share.name] for share in sharing)
        if reached > level * (1 + STEP):
            level = reached
            got = replace(got, cores={**got.cores, **found.cores}, instances={**got.instances, **found.instances})
    return got


def _alone_on(share: Share, cores: int) -> tuple[Allocation, int]:
    """Return the allocation of a network that had so many cores for itself, and how many of them it takes."""
    asked = replace(share.request, cores=cores, objective=EVALUATED, arrival_per_s=None, quantile=None, turns=NEVER)
    found = plan(share.network, share.curves, asked, share.flow)
    return found, cores - found.spare


def _alone(share: Share, group: _Group) -> Allocation:
    """Return what a network does alone on its cores; where its instances lie is as it is with the others."""
    asked = replace(
        share.request, cores=group.used(share), objective=group.whole.objective, nodes=None, memory_bytes=None
    )
    given = own(share, group.cores), own(share, group.instances)
    judged = evaluate(share.network, share.curves, asked, *given, share.flow)
    placement = None if group.whole.placement is None else own(share, group.whole.placement)
    told = judged.told._replace(why=tuple(some for some in judged.why if some.code != "gap"))
    return replace(judged, objective=group.whole.objective, placement=placement, details=told, gap=None, steps=0)


def _split(group: _Group, key: str) -> tuple[str, str]:
    """Return the network and its own key of one of ``name:key``."""
    return next(
        (share.name, key.removeprefix(f"{share.name}:"))
        for share in group.shares
        if key in (key_of(share, each) for each in share.network.keys)
    )


def _reasons(groups: Sequence[_Group], parts: Mapping[str, Part], spare: int, cores: int) -> Iterator[Reason]:
    for group in groups:
        of_all = "" if len(groups) == 1 else f" of priority {group.shares[0].priority}"
        rates = [f"{share.name} {amount(parts[share.name].guaranteed_per_s)}" for share in group.shares[:NAMES_TOLD]]
        more = ", …" if len(group.shares) > NAMES_TOLD else ""
        for key in group.whole.bottleneck[:1]:
            value = parts[_split(group, key)[0]].guaranteed_per_s
            yield reason("networks_bound", key, value, of_all=of_all, rates=f"{', '.join(rates)}{more}")
        yield from (some for some in group.whole.why if some.code in TOLD)
    if spare > 0:
        because = "no network gains from them"
        yield reason("spare", None, float(spare), spare=spare, cores=plural(cores, "core"), because=because)
