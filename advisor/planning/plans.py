"""A network, its curves and a request -> an allocation of cores, with reasons: request, demand, judge, search, answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import comb

import numpy as np

from advisor.domain import limits
from advisor.domain.answers import Allocation, Evidence
from advisor.domain.flows import Flow
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue, Unsupported
from advisor.planning.answers import Solution, answer
from advisor.planning.demand import ALL_INSTANCES, TIE, AnyCurves, Demand, Places, demand_of, places_of
from advisor.planning.groupings import Grouping, Partitions, counts_up_to, cycles, period_bound, shared_sizes_max
from advisor.planning.judge import Model, Placed
from advisor.planning.options import check_possible, options_of
from advisor.planning.placing import SLACK, Machine, machine_of
from advisor.planning.refusals import refused
from advisor.planning.requests import CORES, COST, LATE, NEVER, OBJECTIVES, PERIOD, RATE, Ints, Request
from advisor.planning.search import OWN_MAX, WORK_MAX, Key, Search, Turns, best_grouping, in_turns, search_own
from advisor.planning.structure import Structure, structure_of
from advisor.planning.thresholds import (
    Shapes,
    best_in_places,
    best_period,
    least_shapes,
    lowest_sum,
    shapes_in_places,
    sizes_within,
)
from advisor.planning.visits import Visits, visits_of

TABLES_MAX = 30_000  # components times cores up to which plans are made on tables of all sizes
SHARED_COMPONENTS_MAX = 2_000  # components beyond which turns are for fewer cores than components only: seconds
BOUND_STEP = 1e-3  # of a period, to which its bound is told
GAP_MAX = 0.05  # of the best: a bound that is further away tells nobody what to do
DOUBLED = 2  # of the cores searched where as many are asked for as it takes


def plan(
    network: Network,
    curves: AnyCurves,
    request: Request,
    flow: Flow | None = None,
    evidence: Mapping[str, Evidence] | None = None,
) -> Allocation:
    """Return the best allocation of cores to the components of a network.

    Parameters
    ----------
    network : Network
    curves : AmdahlCurves or TabulatedCurves
        T_c(p), one a key, in the order of ``network.keys``.
    request : Request
    flow : Flow, optional
        The way of records as it was learned; the request's own numbers go first.
    evidence : mapping, optional
        Key to what its curve rests on: told in the answer.

    Returns
    -------
    Allocation
        Ties: fewest cores, then lower latency, then text order. Components take turns on shared cores wherever that is
        better, unless the request forbids it; of equals each has cores of its own. Exact for throughput (with turns up to
        10 components) and for the latency of a lone record where nothing joins, else where all allocations are few enough
        to be judged; `gap` is 0 there. A component without visits gets its minimum.

    Raises
    ------
    MissingShares
        When visits below a choice are needed and neither shares nor visits give them.
    ImpossibleTarget
        When no allocation reaches the target: proved, the component in ``field`` and the best reachable in ``bound``.
    TargetNotReached
        When none was found that does, and none is proved impossible.
    InvalidValue, TooLarge, Unsupported
        When the request does not fit the network.

    Notes
    -----
    Cost O(n log(P) + n log(n)) for exact answers without turns; else that of the allocations judged. Source: design 4.6.
    """
    question = question_of(network, curves, request, visits_of(network, request, flow))
    return answer(solved(question), dict(evidence or {}))


@dataclass(frozen=True)
class Question:
    """A request with all that it is about: what is solved."""

    request: Request
    visits: Visits
    structure: Structure
    demand: Demand
    cores: int
    machine: Machine
    most: int = field(init=False)

    def __post_init__(self) -> None:
        """Note the most cores that any one component can use."""
        widest = min(self.cores, int(self.demand.high.max()) * int(self.demand.most.max()), int(self.machine.sizes.max()))
        object.__setattr__(self, "most", max(widest, int(self.demand.low.max())))

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the network."""
        return self.structure.network.keys

    @cached_property
    def model(self) -> Model:
        """The judge."""
        return Model(self.structure, self.demand, self.request)

    @cached_property
    def shares(self) -> bool:
        """Whether components may take turns."""
        n = len(self.demand)
        return self.request.may_share(n, self.cores) and (n <= SHARED_COMPONENTS_MAX or self.cores < n)

    @property
    def least(self) -> int:
        """The fewest cores with which each component has its own, but for rules."""
        return int((self.demand.low * self.demand.fewest).sum())

    @property
    def tabled(self) -> bool:
        """Whether plans are made on tables of sizes; else by closed forms."""
        demand = self.demand
        return not demand.plain or (len(demand) * self.most <= TABLES_MAX and int(demand.most.max()) <= ALL_INSTANCES)

    def places(self, most: int, *, by_stay: bool = False) -> Places:
        """Return the best shapes on up to `most` cores.

        Raises
        ------
        InvalidValue
            When nothing is left for a component.
        """
        found = places_of(self.demand, min(most, self.most), by_stay=by_stay)
        check_possible(self.keys, self.demand, np.isfinite(found.turn_s), most)
        return found

    def asking(self, **other: object) -> Question:
        """Return the question with other options of its objective: nothing about demand or machine."""
        request = replace(self.request, **other)  # type: ignore[arg-type]
        return Question(request, self.visits, self.structure, self.demand, self.cores, self.machine)


def question_of(network: Network, curves: AnyCurves, request: Request, visits: Visits) -> Question:
    """Return what is to be solved.

    Raises
    ------
    InvalidValue, TooLarge, ImpossibleTarget
        When limits leave a component nothing, or one instance needs more memory than there is.
    """
    demand = demand_of(network, curves, request, visits)
    cores = request.cores or limits.ALLOCATE_CORES_MAX
    machine = machine_of(cores, request.nodes, request.memory_bytes)
    low, key = int(demand.low.max()), network.keys[int(demand.low.argmax())]
    if low > int(machine.sizes.max()):
        raise InvalidValue(f"minimum.{key}", low, f"at most the {int(machine.sizes.max())} cores given")
    peak, at = float(demand.peak_bytes.max()), int(demand.peak_bytes.argmax())
    if peak > machine.memory_bytes * (1 + SLACK):
        raise ImpossibleTarget(
            f"one instance of {network.keys[at]} may need {peak:.6g} bytes; there are {machine.memory_bytes:.6g}",
            field=network.keys[at], value=machine.memory_bytes, bound=peak,
            hint="give a machine with more memory, or a smaller load",
        )  # fmt: skip
    question = Question(request, visits, structure_of(network, visits), demand, cores, machine)
    if request.turns == NEVER and cores < len(network.keys):
        raise InvalidValue("cores", cores, f"at least {len(network.keys)}, one for each component",
                           "let components take turns on them")  # fmt: skip
    if not question.shares and question.least > cores:
        raise InvalidValue("minimum", question.least, f"at most the {cores} cores given in sum")
    return question


def solved(question: Question) -> Solution:
    """Return the best allocation; raises as `plan`."""
    request = question.request
    coupled = request.nodes is not None or request.memory_bytes is not None or request.arrival_per_s is not None
    coupled = coupled or request.measure == COST or OBJECTIVES[request.objective].front
    if not coupled and request.for_latency:
        coupled = bool(question.structure.joins) or request.quantile is not None or RATE in (request.target or {})
        found = _searched(question) if coupled else _by_sums(question)
    elif not coupled and not question.demand.contention.any():
        found = _by_thresholds(question)
    else:
        found = _searched(question)
    if found is None:
        raise refused(question, solved)
    return found


# --- throughput: exact thresholds ---------------------------------------------------------------------------------------


def _by_thresholds(question: Question) -> Solution | None:
    """Return the shortest period, or the fewest cores for one, of what nothing couples; None where none reaches it."""
    request, cores = question.request, question.cores
    target = 1 / request.target[RATE] if request.target else 0.0
    places = question.places(question.most) if question.tabled else None
    own = None if question.least > cores else _own_shapes(question, places, target)
    if own is not None and own[1].used > cores:
        own = None
    if not question.shares:
        return None if own is None else _with_own(question, *own, 0.0, own[0])
    if request.measure == CORES:
        most = cores if own is None else own[1].used - 1
        shared, proved = _fewest_shared(question, places, target, most)
        if shared is None:
            return None if own is None else _with_own(question, *own, 0.0 if proved else None, own[0])
        return _with_groups(question, *shared, 0.0 if proved else None, own and own[0])
    longest = np.inf if own is None else own[0]
    table, found, proved = _best_shared(question, places, longest * (1 - TIE))
    if found is not None and table is not None:
        gap = 0.0 if proved else _near(float(cycles(table, found).max()), period_bound(table, cores))
        return _with_groups(question, table, found, gap, own and own[0])
    if own is None:
        return None
    return _with_own(question, *own, 0.0 if proved else _near(own[0], _work_bound(question, own[0])), own[0])


def _near(period_s: float, bound_s: float) -> float | None:
    """Return the share of a throughput that a bound leaves open, where it is little."""
    gap = 1 - bound_s / period_s
    return max(gap, 0.0) if gap <= GAP_MAX else None


def _work_bound(question: Question, period_s: float) -> float:
    """Return a period that nothing beats, of the period reached with cores of one's own: by bisection over its work."""
    short, long = period_s * (1 - 2 * GAP_MAX), period_s
    if _may_reach(question, short, question.cores):
        return 0.0
    while long - short > BOUND_STEP * period_s:
        middle = (short + long) / 2
        short, long = (short, middle) if _may_reach(question, middle, question.cores) else (middle, long)
    return short


def _own_shapes(question: Question, places: Places | None, target_s: float) -> tuple[float, Shapes] | None:
    """Return the period of cores of one's own and the fewest shapes for it, for the target where one is given."""
    demand, cores = question.demand, question.cores
    if places is not None:
        if target_s:
            sizes = sizes_within(places, target_s * (1 + TIE))
            found = None if sizes is None else (target_s, sizes)
        else:
            found = best_in_places(places, cores)
        return None if found is None else (found[0], shapes_in_places(demand, places, found[1], found[0]))
    if not target_s:
        period = best_period(demand, cores)
        return period, least_shapes(demand, period * (1 + TIE), ties=True)
    lowest = float((demand.visits * demand.seconds(demand.fastest(demand.high)) / demand.most).max())
    return None if lowest > target_s * (1 + TIE) else (target_s, least_shapes(demand, target_s * (1 + TIE), ties=True))


def _best_shared(
    question: Question, places: Places | None, longest_s: float
) -> tuple[Places | None, Grouping | None, bool]:
    """Return tables and the grouping of a shorter period than that given, or none, and whether none is shorter."""
    n, exact = len(question.demand), shared_sizes_max(len(question.demand))
    if exact:
        most = min(question.most, exact)
        table = places if places is not None and places.sizes[-1] <= exact else question.places(most)
        return table, best_grouping(table, min(question.cores, exact), longest_s), question.most <= exact
    if np.isfinite(longest_s) and not any(
        _may_reach(question, longest_s, count) for count in counts_up_to(question.cores)[-1:]
    ):
        return None, None, not _may_reach(question, longest_s, question.cores)
    table = places if places is not None else question.places(max(64, TABLES_MAX * 32 // n))
    return table, best_grouping(table, question.cores, longest_s), False


def _may_reach(question: Question, period_s: float, cores: int) -> bool:
    """Return whether the work of turns within a period fits so many cores: not a proof that it does."""
    demand = question.demand
    if not demand.plain:
        return True
    with np.errstate(divide="ignore"):
        seconds = np.where(demand.visits > 0, demand.most * period_s / demand.visits, np.inf)
    return float(demand.work_s(demand.fewest_within(seconds)).sum()) <= period_s * cores * (1 + TIE)


def _fewest_shared(
    question: Question, places: Places | None, target_s: float, most: int
) -> tuple[tuple[Places, Grouping] | None, bool]:
    """Return tables and the grouping of the fewest cores, at most so many, for a period; and whether fewer are impossible."""
    n, exact = len(question.demand), shared_sizes_max(len(question.demand))
    most = min(most, question.cores)
    if most < int(question.demand.low.max()):
        return None, True
    if exact:
        widest = min(most, exact, question.most)
        table = places if places is not None and places.sizes[-1] >= widest else question.places(widest)
        widest = min(widest, int(table.sizes[-1]))
        subsets = Partitions(table, widest)
        needed = subsets.needed(target_s * (1 + TIE))
        return ((table, subsets.fewest(target_s)) if needed <= min(most, exact) else None), most <= exact
    if most > SHARED_COMPONENTS_MAX * 8 and not _may_reach(question, target_s, most):
        return None, True
    table = question.places(min(most, max(64, TABLES_MAX * 32 // n)))
    for count in counts_up_to(most):
        if period_bound(table, count) <= target_s * (1 + TIE):
            found = best_grouping(table, count)
            if found is not None and float(cycles(table, found).max()) <= target_s * (1 + TIE):
                return (table, found), False
    return None, period_bound(table, most) > target_s * (1 + TIE)


def _with_own(
    question: Question, _period: float, shapes: Shapes, bound: float | None, own_s: float | None
) -> Solution:
    """Return the solution with cores of one's own."""
    demand = question.demand
    heaviest = 1 / shapes.instances
    for row in demand.replicas:
        heaviest[row] = demand.heaviest(row, int(shapes.instances[row]))
    placed = Placed(shapes.cores[None], shapes.instances[None], demand.seconds(shapes.cores)[None], heaviest[None],
                    np.array([shapes.used]))  # fmt: skip
    return _solution(question, placed, bound, own_s)


def _with_groups(
    question: Question, places: Places, found: Grouping, bound: float | None, own_s: float | None
) -> Solution:
    """Return the solution in turns."""
    return _solution(question, in_turns(question.model, places, [found]), bound, own_s)


def _solution(question: Question, placed: Placed, gap: float | None, own_s: float | None) -> Solution:
    model = question.model
    return Solution(question, model, placed, model.judge(placed), gap, own_s, None)


# --- the latency of a lone record: sums -----------------------------------------------------------------------------------


def _by_sums(question: Question) -> Solution | None:
    """Return the lowest latency of what only adds up, or the fewest cores for one; None where none reaches it.

    Taking turns on one group of all cores no record is slower than anywhere else: that is proved best. Cores of one's own
    are preferred where they do as well.
    """
    target = (question.request.target or {}).get(LATE, 0.0)
    own = _own_sum(question, target) if question.least <= question.cores else None
    if not question.shares:
        return own
    one = _one_group(question, target)
    if one is None or own is None:
        return own if one is None else one
    mine, theirs = (float(some.placed.used[0]) if target else float(some.judged.latency_s[0]) for some in (own, one))
    if mine <= theirs * (1 + TIE):
        return own._replace(gap=0.0)
    return one._replace(own_value=mine)


def _own_sum(question: Question, target_s: float) -> Solution | None:
    """Return the lowest sum with cores of one's own: near it where one group does at least as well anyway."""
    demand, cores = question.demand, question.cores
    free, n = cores - question.least, len(demand)
    few = free < OWN_MAX and n < SHARED_COMPONENTS_MAX and comb(free + n, n) <= OWN_MAX
    if not demand.plain or (few and not question.shares):
        return _searched(question, shared=False)
    taken, bound = lowest_sum(demand, cores, target_s)
    found = _with_own(question, 0.0, Shapes(taken, np.ones_like(taken)), None, None)
    latency = float(found.judged.latency_s[0])
    if target_s:
        return found if latency <= target_s * (1 + TIE) and found.placed.used[0] <= cores else None
    gap = latency / bound - 1 if bound > 0 else np.inf
    return found._replace(gap=max(gap, 0.0) if gap <= GAP_MAX else None)


def _one_group(question: Question, target_s: float) -> Solution | None:
    """Return one group of every core that gains something, or of the fewest for a latency; None where it is not reached."""
    demand, cores, n = question.demand, question.cores, len(question.demand)
    if question.tabled:
        places = question.places(question.most, by_stay=True)
        stays = places.stay_s.sum(axis=0)
        limit = target_s if target_s else float(stays[-1])
        fits = stays <= limit * (1 + TIE)
        if not fits.any():
            return None
        size = int(places.sizes[int(fits.argmax())])
        return _with_groups(question, places, Grouping(np.zeros(n, np.int64), np.array([size])), 0.0, None)

    def shapes(size: int) -> Ints:
        return demand.fastest(np.full(n, size))

    def latency(size: int) -> float:
        return float((demand.visits * demand.seconds(shapes(size))).sum())

    low, high = int(demand.low.max()) - 1, int(shapes(cores).max())
    if target_s and latency(high) > target_s * (1 + TIE):
        return None
    while target_s and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if latency(middle) <= target_s * (1 + TIE) else (middle, high)
    taken = shapes(high)
    zero, ones = np.zeros((1, n), np.int64), np.ones((1, n))
    placed = Placed(taken[None], ones.astype(np.int64), demand.seconds(taken)[None], ones, np.array([high]), zero, zero + high)
    return _solution(question, placed, 0.0, None)


# --- everything else: the search ------------------------------------------------------------------------------------------


def _searched(question: Question, *, shared: bool = True) -> Solution | None:
    """Return the best allocation that the search finds; None where none is feasible."""
    if question.request.cores is not None:
        return _searched_on(question, shared=shared)
    cores = 4 * len(question.demand)
    while True:
        machine = machine_of(min(cores, question.cores), question.request.nodes, question.request.memory_bytes)
        some = Question(question.request, question.visits, question.structure, question.demand,
                        int(machine.sizes.sum()), machine)  # fmt: skip
        found = _searched_on(some, shared=shared) if some.least <= some.cores else None
        widest = int((question.demand.fastest(question.demand.high) * question.demand.most).clip(max=some.cores).sum())
        if found is not None or cores >= question.cores or 2 * widest < cores:
            return found
        cores *= DOUBLED


def _searched_on(question: Question, *, shared: bool) -> Solution | None:
    request = question.request
    search = Search(question.model, question.machine, question.cores, request.work_max or WORK_MAX,
                    front=OBJECTIVES[request.objective].front)  # fmt: skip
    own: tuple[Placed | None, Key] = None, search.key
    if question.least <= question.cores:
        try:
            options = options_of(question.keys, request, question.demand, question.cores)
            search_own(search, options)
        except InvalidValue:
            if not (shared and question.shares):
                raise
        own = search.best, search.key
    capped = False
    if shared and question.shares:
        demand, capped = _one_at_a_time(question)
        if demand is not None:
            search.model = Model(question.structure, demand, request)
            Turns(search, _most_shared(question)).run()
            search.model = question.model
        if own[0] is not None and own[1].score <= search.key.score + TIE * abs(search.key.score):
            search.best, search.key = own
    if search.best is None:
        return None
    exact = search.exact and not capped
    found = Solution(question, search.model, search.best, search.model.judge(search.best), 0.0 if exact else None,
                     own[1].score if own[0] is not None else None, search, capped)  # fmt: skip
    return found if exact else found._replace(gap=_gap(question, found))


def _most_shared(question: Question) -> int:
    """Return the most cores on which groupings are searched: where each has its own core and more, turns gain little."""
    return min(question.cores, max(2 * len(question.demand) + 8, 16))


def _one_at_a_time(question: Question) -> tuple[Demand | None, bool]:
    """Return the demand of turns: one instance where visits queue, as many as fit into memory; and whether memory caps them.

    None where cores of one's own must do.

    Raises
    ------
    Unsupported, ImpossibleTarget
        When there are fewer cores than components, and instances are pinned where visits queue, or too large together.
    """
    demand, request, scarce = question.demand, question.request, question.cores < len(question.demand)
    if request.arrival_per_s is not None:
        pinned = np.flatnonzero(demand.fewest > 1)
        if len(pinned) and not scarce:
            return None, False
        if len(pinned):
            key = question.keys[int(pinned[0])]
            raise Unsupported(
                f"{key} is pinned to {demand.fewest[pinned[0]]} instances: queues for turns are planned with one of each",
                field=f"pinned.{key}", value=int(demand.fewest[pinned[0]]), bound=1, hint="leave its instances open",
            )  # fmt: skip
        demand = replace(demand, most=np.ones_like(demand.most), replicas={})
    total = question.machine.memory_bytes * len(question.machine.sizes) * (1 + SLACK)
    needs = demand.peak_bytes * demand.fewest
    if needs.sum() > total:
        if not scarce:
            return None, False
        row = int(needs.argmax())
        raise ImpossibleTarget(
            f"the components need {needs.sum():.6g} bytes together, {needs[row]:.6g} of it {question.keys[row]}; there"
            f" are {total:.6g}: whoever waits for a turn stays in memory",
            field=question.keys[row], value=request.memory_bytes, bound=float(needs.sum()), hint="give more memory",
        )  # fmt: skip
    cap = top = int(demand.most.max())
    while cap > 1 and float((demand.peak_bytes * np.clip(demand.most, demand.fewest, cap)).sum()) > total:
        cap -= 1
    most = np.maximum(np.minimum(demand.most, cap), demand.fewest)
    return replace(demand, most=most), cap < top


def _gap(question: Question, found: Solution) -> float | None:
    """Return how far from the best an answer may be, where a bound proves that it is little: of a throughput only."""
    request = question.request
    if request.measure != PERIOD or len(question.demand) > SHARED_COMPONENTS_MAX:
        return None
    places = question.places(min(question.most, max(64, TABLES_MAX // len(question.demand))))
    gap = 1 - period_bound(places, question.cores) / float(found.judged.period_s[0])
    return max(gap, 0.0) if gap <= GAP_MAX and int(places.sizes[-1]) >= question.most else None
