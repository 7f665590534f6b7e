"""A network, its curves and a request -> an allocation of cores, with reasons: request, demand, judge, search, answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import zip_longest

import numpy as np

from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network
from advisor.domain.vectors import Floats, Ints
from advisor.errors import ImpossibleTarget, InvalidValue, Unsupported
from advisor.planning.answers import answer
from advisor.planning.demand import PLAIN, Demand, Scales, question_of
from advisor.planning.exact import Plan, by_thresholds, has_few_allocations, judged_plan, lowest_sum, one_group
from advisor.planning.judge import Placed
from advisor.planning.options import Options, options_of
from advisor.planning.pieces import TIE
from advisor.planning.placing import SLACK, machine_of
from advisor.planning.reasons import is_far, misses, not_excluded, refused, too_far, unsure
from advisor.planning.requests import BARE, LATE, NEVER, PRICE, RATE, Request, request_about
from advisor.planning.search import WORK_MAX, Search, search_near, search_own
from advisor.planning.sharing import Turns
from advisor.planning.stability import keep_current
from advisor.planning.verifying import verified

DOUBLED = 2  # of the cores searched where as many are asked for as it takes


def plan(
    network: Network,
    curves: TabulatedCurves,
    request: Request,
) -> Allocation:
    """Return the best allocation of cores to the components of a network.

    Raises MissingShares when visits below a choice are needed and neither shares nor visits give them; ImpossibleTarget when
    no allocation reaches the target: proved, the component in ``field`` and the best reachable in ``bound``; TargetNotReached
    when none was found that does, and none is proved impossible; InvalidValue, TooLarge, Unsupported when the request does
    not fit the network.

    Parameters
    ----------
    curves : TabulatedCurves
        T_c(p), one a key, in the order of ``network.keys``.

    Returns
    -------
    Allocation
        Ties: fewest cores, then lower latency, then text order; but of learned curves whoever is nearly the slowest gets
        cores that are left (`Demand.padded`). Components take turns on shared cores wherever that is
        better, unless the request forbids it; of equals each has cores of its own. Exact for throughput (with turns up to
        11 components) and for the latency of a lone record where nothing joins, else where all allocations are few enough
        to be judged; `gap` is 0 there. A component without visits gets its minimum.

    Notes
    -----
    Cost O(n log(P) + n log(n)) for exact answers without turns; else that of the allocations judged. Source: design 4.6.
    """
    return plan_request(request_about(network, request), curves)


def plan_request(request: Request, curves: TabulatedCurves) -> Allocation:
    """Return what `plan` does, of a request about a network."""
    demand = question_of(request, curves, request.price)
    found = vars(demand).get("plan") or _found(demand)
    if found is not None:
        if found.search is None:
            vars(demand)["plan"] = found  # the same is often asked again
        if request.target and misses(found):
            found = _promised_on_seen(found, request.target[RATE])
        return answer(found if request.in_use is None else keep_current(found, request.in_use))
    likely = question_of(request, curves)
    expected = _found(likely) if demand.price and curves.doubtful else None
    if expected is not None:
        raise unsure(demand, expected)
    error = refused(likely, solved)
    if isinstance(error, ImpossibleTarget) and curves.doubtful:
        hopeful = question_of(request, curves.hopeful(PRICE))
        if _found(hopeful) is not None:
            raise not_excluded(error)
    raise error


def _promised_on_seen(found: Plan, target: float) -> Plan:
    """Return a plan that promises a throughput where one of fewer cores than were seen does not, else one near these.

    Components that miss it get so many more that they do by the work of a run, or as many as were seen. Others may share
    it better: nothing is proved. Raises TargetNotReached where none promises it and all are far from what was seen.
    """
    tried = [found]
    while misses(again := tried[-1]):
        share = np.maximum(again.promised.judged.cycle_s[0] * target, 1.0)
        demand = _up_to_seen(again.demand, np.where(share > 1.0 + TIE, again.placed.cores[0] * share, 1.0))
        more = None if (demand.low == again.demand.low).all() else _found(demand)
        if more is None:
            near = next((one for one in tried if not is_far(one)), None)
            if near is None:
                raise too_far(found)
            return near
        tried.append(replace(more, gap=None))
    return again


def _up_to_seen(demand: Demand, wanted: Floats) -> Demand:
    """Return a demand of at least the cores that are wanted, (n,), or of as many as were seen, as far as limits allow."""
    seen, low, rules = demand.curves.seen, demand.low.copy(), dict(demand.rules)
    if seen is not None:
        least = np.ceil(np.minimum(wanted, seen.least)).astype(np.int64)
        low = np.minimum(np.maximum(low, least), np.minimum(demand.high, demand.widest))
    for row, rule in demand.rules.items():
        rules[row] = rule.between(int(low[row]), int(demand.high[row])) or rule
        low[row] = rules[row].least
    return replace(demand, low=low, rules=rules)


def plan_pinned(request: Request, curves: TabulatedCurves, shape: Ints) -> Allocation:
    """Return what cores and instances, (2, n), of components with cores of their own do: figures and reasons.

    Raises as `plan` when they do not fit the machine.
    """
    pins = {key: {"cores": p, "instances": k} for key, p, k in zip(request.keys, *shape.tolist(), strict=True)}
    pinned = replace(
        request, objective=BARE[RATE], target=None, current=None, turns=NEVER,
        cores=request.cores or int(shape.prod(axis=0).sum()), minimum=None, maximum=None, allowed=None, pinned=pins,
    )  # fmt: skip
    return answer(solved(question_of(pinned, replace(curves, allowed=None), request.price)))


def solved(demand: Demand) -> Plan:
    """Return the best allocation; raises as `plan`."""
    found = _found(demand)
    if found is None:
        raise refused(demand, solved)
    return found


def _found(demand: Demand) -> Plan | None:
    """Return the best allocation, None where none was found."""
    request = demand.request
    if not request.coupled and request.for_latency:
        joined = bool(demand.structure.joins) or request.quantile is not None or RATE in (request.target or {})
        if not joined:
            target = (request.target or {}).get(LATE, 0.0)
            return one_group(demand, target) if demand.sharing else _searched(demand, partial(_by_sum, target_s=target))
        return _searched(demand)
    if not request.coupled and not demand.contended:
        return by_thresholds(demand)
    found, target = _searched(demand), (request.target or {}).get(LATE)
    if found is not None or target is None or request.arrival_per_s is None or request.cores is None:
        return found
    lowest = _searched(demand.asking(objective=BARE[LATE], target=None))  # where the formula finds it impossible
    reached = lowest is not None and lowest.latency_s <= target * (1 + TIE)
    return replace(lowest, demand=demand.scaled(lowest.demand.scales)) if lowest is not None and reached else None


def _searched(demand: Demand, search: Callable[[Demand], Plan | None] | None = None) -> Plan | None:
    """Return the best allocation that a search finds; None where none is feasible."""
    search = search or _searched_on
    if demand.request.cores is not None:
        return search(demand)
    cores = 4 * len(demand)
    while True:
        machine = machine_of(min(cores, demand.cores), demand.request.nodes, demand.request.memory_bytes)
        some = replace(demand, machine=machine)
        found = search(some) if some.least <= some.cores else None
        widest = int((demand.fastest(demand.high) * demand.most).clip(max=some.cores).sum())
        if found is not None or cores >= demand.cores or 2 * widest < cores:
            return found
        cores *= DOUBLED


def _by_sum(demand: Demand, target_s: float) -> Plan | None:
    """Return the lowest latency of a lone record, or the fewest cores for one, with cores of one's own."""
    return _searched_on(demand) if has_few_allocations(demand) else lowest_sum(demand, target_s)


def _searched_on(demand: Demand) -> Plan | None:
    """Return the better of what is found with cores of one's own and in turns; under arrivals by executed records."""
    options = cache(partial(options_of, demand))  # a formula that is scaled changes none of them
    if demand.request.arrival_per_s is not None:
        return verified(
            demand,
            lambda own, turns: _searched_by(demand, options, own, turns),
            lambda scaled, placed: _searched_near(scaled, options(), placed),
        )
    found = _searched_by(demand, options, PLAIN, PLAIN)
    return found and found[0]


def _searched_by(
    demand: Demand, options: Callable[[], Options], own_scales: Scales, turns_scales: Scales
) -> tuple[Plan, list[Placed]] | None:
    """Return the better of what is found each way, of equals with cores of one's own; and the best few of each, in turns."""
    request, scaled = demand.request, demand.scaled(own_scales)
    work = request.work_max or WORK_MAX
    own = Search(scaled, work)
    capped = False
    if demand.least <= demand.cores:
        try:
            search_own(own, options())
        except InvalidValue:
            if not demand.sharing:
                raise
    own_value, few = None if own.best is None else own.key.score, [own.candidates]
    if demand.sharing:
        one, capped = _one_at_a_time(demand)
        if one is not None:
            turns = Search(replace(one, scales=turns_scales), work)
            Turns(turns).run()
            # Of a group's shapes only the fastest are judged: others may slow their neighbours less, or serve more at once.
            turns.exact = turns.exact and one.single and not demand.contended
            own.merge_search(turns)
            few.append(turns.candidates)
    if own.best is None:
        return None
    exact = own.exact and not capped and not (request.arrival_per_s and not request.aim.by_rate)
    found = judged_plan(scaled, own.best, 0.0 if exact else None, own_value, own)
    return found, [some for pair in zip_longest(*few) for some in pair if some is not None]


def _searched_near(demand: Demand, options: Options, placed: Placed) -> list[Placed]:
    """Return allocations near one, from the best on by the formula that is scaled to what is near."""
    search = Search(demand, demand.request.work_max or WORK_MAX)
    search_near(search, options, placed)
    return search.candidates


def _one_at_a_time(demand: Demand) -> tuple[Demand | None, bool]:
    """Return the demand of turns: one instance where visits queue, as many as fit into memory; and whether memory caps them.

    None where cores of one's own must do. Raises Unsupported when there are fewer cores than components, and instances are
    pinned where visits queue.
    """
    request, scarce = demand.request, demand.cores < len(demand)
    if request.arrival_per_s is not None:
        pinned = np.flatnonzero(demand.fewest > 1)
        if len(pinned) and not scarce:
            return None, False
        if len(pinned):
            key = demand.keys[int(pinned[0])]
            raise Unsupported(
                f"{key} is pinned to {demand.fewest[pinned[0]]} instances: queues for turns are planned with one of each",
                field=f"pinned.{key}", value=int(demand.fewest[pinned[0]]), bound=1, hint="leave its instances open",
            )  # fmt: skip
        demand = replace(demand, most=np.ones_like(demand.most), replicas={})
    total = demand.machine.memory_bytes * len(demand.machine.sizes) * (1 + SLACK)
    cap = top = int(demand.most.max())
    while cap > 1 and float((demand.peak_bytes * np.clip(demand.most, demand.fewest, cap)).sum()) > total:
        cap -= 1
    most = np.maximum(np.minimum(demand.most, cap), demand.fewest)
    return replace(demand, most=most), cap < top
