"""The best grouping for a question.

Without coupling the period comes from programs over subsets (or balancing, where there are many components), the latency of a
record alone from one group of all. What couples groups - contention, joins, queues, costs - is judged grouping by grouping:
all of them where they are few, else from the groupings that the programs give, by descent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from advisor.errors import ImpossibleTarget, Unsupported
from advisor.planning.asked.demand import TIE, Floats
from advisor.planning.asked.shape_demand import ShapeDemand
from advisor.planning.closed_forms.partitions import Partitions, few_enough
from advisor.planning.closed_forms.reasons import plural
from advisor.planning.closed_forms.sharing import PROVED, best_grouping, fewest_grouping, fewest_one_group, one_group
from advisor.planning.closed_forms.tables import gap_of
from advisor.planning.closed_forms.turns import Grouping, grouping, period_bound
from advisor.planning.in_turns.asking import Asked
from advisor.planning.in_turns.descent import Descent
from advisor.planning.in_turns.figures import Figures, figures_of, lone_bound
from advisor.planning.in_turns.rooms import placeable, rooms_of
from advisor.planning.solving.objectives import quantile_of

SHRINKS = (1.0, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)  # of the cores shared out where groups do not fit on nodes
COUNTS_MAX, COUNTS_FEW = 24, 8  # numbers of cores tried for a cost, spread over all; few where each takes long
SHARP_MAX = 2_000  # components times numbers of cores up to which a cost's bound takes the sharp bound of each
HELD_MAX = 8  # times that turns are planned with the contention of the plan before


@dataclass(frozen=True, slots=True)
class Solved:
    """A grouping, and how far from the best it can be: 0 where it is proved, None where nothing is known."""

    found: Grouping
    gap: float | None
    steps: int = 0


def solved(asked: Asked) -> Solved:
    """Return the best grouping.

    Raises
    ------
    ImpossibleTarget
        When no grouping reaches the target, sustains the arrivals or fits the machine.
    Unsupported
        When that was neither reached nor proved impossible.
    """
    found = SOLVERS[asked.request.objective, asked.target[0]](asked)
    return replace(found, gap=None) if asked.capped else found


def latency_of(asked: Asked, figures: Figures) -> float:
    """Return the latency that the question is about: the mean or its quantile."""
    level = asked.request.quantile
    if level is None or not np.isfinite(figures.latency_s):
        return figures.latency_s
    return float(quantile_of(np.array([figures.latency_s]), np.array([figures.latency_variance]), level)[0])


def cost_of(asked: Asked, figures: Figures, used: int) -> float:
    """Return the cost per second: core_s cores + latency_s X L - record X, X being the arrivals or the throughput."""
    weights = asked.request.weights or {}
    core, late, worth = (float(weights.get(name, 0.0)) for name in ("core_s", "latency_s", "record"))
    rate = asked.request.arrival_per_s or 1 / figures.period_s
    if not np.isfinite(figures.latency_s):
        return np.inf
    return core * used + late * rate * figures.latency_s - worth * rate


# --- throughput -------------------------------------------------------------------------------------------------------


def best_on(asked: Asked, cores: int, demand: ShapeDemand | None = None) -> Grouping | None:
    """Return the grouping of the shortest period on so many cores, without contention; None where none was placed."""
    rooms, given = rooms_of(asked), demand or asked.demand
    if rooms is None:
        return best_grouping(given, cores)
    if few_enough(len(given), rooms.full_size):
        subsets = Partitions(given, asked.cores, rooms)
        period = subsets.best_period(cores)
        found = subsets.fewest(period) if np.isfinite(period) else None
        return found if found is None or placeable(asked, found) else _placed(asked, cores, given)
    return _placed(asked, cores, given)


def _placed(asked: Asked, cores: int, demand: object) -> Grouping | None:
    """Return a grouping that fits on the nodes, of ever fewer cores."""
    assert isinstance(demand, ShapeDemand)
    for shrink in SHRINKS:
        count = max(int(cores * shrink), int(demand.low.max()))
        found = best_grouping(demand, count)
        if placeable(asked, found):
            return replace(found, exact=found.period_s <= period_bound(demand, cores) * (1 + PROVED))
    return None


def _throughput(asked: Asked) -> Solved:
    found = best_on(asked, asked.cores)
    if found is None:
        raise _unplaced(asked)
    if asked.curves is not None and asked.curves.contention.any():
        return _contended(asked, found)
    return Solved(found, _period_gap(asked, found))


def _period_gap(asked: Asked, found: Grouping) -> float:
    if found.exact:
        return 0.0
    return gap_of(found.period_s, period_bound(asked.demand, asked.cores), of_throughput=True)


def _contended(asked: Asked, found: Grouping) -> Solved:
    """Return the best grouping under contention: what nobody slows down bounds it."""
    bound = found.period_s * (1 - _period_gap(asked, found))

    def period(figures: Figures, _used: int) -> float:
        return figures.period_s

    descent = Descent(asked, period)
    best = descent.run(_held(asked, found)) or found
    gap = 0.0 if descent.every else gap_of(figures_of(asked, best).period_s, bound, of_throughput=True)
    return Solved(best, gap, descent.steps)


def _held(asked: Asked, found: Grouping) -> Iterator[Grouping]:
    """Give groupings that are best with the slowing of the one before."""
    demand = asked.demand
    assert isinstance(demand, ShapeDemand)
    for _ in range(HELD_MAX):
        yield found
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(found.turns_s > 0, figures_of(asked, found).turns_s / found.turns_s, 1.0)
        again = best_on(asked, asked.cores, replace(demand, turn_s=demand.turn_s * factor[:, None]))
        if again is None or (np.array_equal(again.group, found.group) and np.array_equal(again.sizes, found.sizes)):
            return
        # The demand is as it was: only who shares, and on how many cores, is of the slowed one.
        found = grouping(demand, again.group, again.sizes, exact=False)


def _cores_for_throughput(asked: Asked) -> Solved:
    demand, (name, period) = asked.demand, asked.target
    contended = asked.curves is not None and bool(asked.curves.contention.any())
    if contended or rooms_of(asked) is not None:
        return _fewest(asked, lambda figures: figures.period_s <= period * (1 + TIE))
    bound = period_bound(demand, asked.cores)
    found, reached = fewest_grouping(demand, asked.cores, period)
    if reached:
        return Solved(found, 0.0 if found.exact else None)
    row, best = int(found.slowest_members()[0]), 1 / found.period_s
    if found.exact or bound > period * (1 + TIE):
        most = best if found.exact else 1 / bound
        raise impossible(
            asked, row, most,
            f"{len(demand)} components in turn on {plural(asked.cores, 'core')} reach at most {most:.6g}"
            f" records/s; {asked.network.keys[row]} is in the slowest group",
        )  # fmt: skip
    raise Unsupported(
        f"target {name} {1 / period:.6g} is not decided: the best sharing found reaches {best:.6g}"
        f" records/s, the bound is {1 / bound:.6g}", field="target", value=1 / period, bound=best,
        hint="give more cores, or a target that is reached",
    )  # fmt: skip


# --- latency ----------------------------------------------------------------------------------------------------------


def _latency(asked: Asked) -> Solved:
    return _lowest(asked, asked.cores)


def _coupled(asked: Asked) -> bool:
    """Return whether the latency is more than a sum of stays on the machine's cores."""
    return bool(asked.structure.joins) or asked.request.arrival_per_s is not None or rooms_of(asked) is not None


def _lowest(asked: Asked, cores: int) -> Solved:
    """Return the grouping of the lowest latency on so many cores."""
    if not _coupled(asked):
        return Solved(one_group(asked.demand, cores), 0.0)
    descent = Descent(asked, lambda figures, _used: latency_of(asked, figures), cores)
    found = descent.run(_starts(asked, cores))
    if found is None:
        raise _overloaded(asked, cores)
    value = latency_of(asked, figures_of(asked, found))
    bound = latency_of(asked, lone_bound(asked, cores))
    return Solved(found, 0.0 if descent.every else gap_of(value, bound, of_throughput=False), descent.steps)


def _starts(asked: Asked, cores: int) -> Iterator[Grouping]:
    """Give groupings to begin with: one group, that of the shortest period, and ever wider ones by balancing."""
    demand = asked.demand
    if rooms_of(asked) is None:
        yield one_group(demand, cores)
    found = best_on(asked, cores)
    if found is not None:
        yield found


def _cores_for_latency(asked: Asked) -> Solved:
    limit = asked.target[1] * (1 + TIE)
    if _coupled(asked) or asked.request.quantile is not None:
        return _fewest(asked, lambda figures: latency_of(asked, figures) <= limit)
    found, reached = fewest_one_group(asked.demand, asked.cores, asked.target[1])
    if reached:
        return Solved(found, 0.0)
    row = int(found.stay_s.argmax())
    raise impossible(
        asked, row, found.latency_s,
        f"all components in turn on {plural(asked.cores, 'core')} take {found.latency_s:.6g} s in sum;"
        f" {asked.network.keys[row]} takes most",
    )  # fmt: skip


# --- fewest cores and costs -------------------------------------------------------------------------------------------


def _fewest(asked: Asked, reached: Callable[[Figures], bool]) -> Solved:
    """Return a grouping that reaches the target on few cores: bisection over their number, by the best on each.

    Where all groupings were judged for each number tried it is the fewest, for more cores never do worse.
    """
    solve = SOLVERS["latency" if asked.by_stay else "throughput", ""]

    def on(cores: int) -> tuple[Solved | None, bool]:
        try:
            one = solve(_with(asked, cores))
        except (ImpossibleTarget, Unsupported):
            return None, False
        return one, reached(figures_of(asked, one.found))

    most, ok = on(asked.cores)
    if most is None:
        raise _overloaded(asked, asked.cores)
    if not ok:
        raise _unreached(asked, most)
    enough, too_few, proved = int(most.found.sizes.sum()), int(asked.demand.low.max()) - 1, most.gap == 0.0
    best, steps = most, most.steps
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        one, ok = on(middle)
        steps += 0 if one is None else one.steps
        if ok and one is not None:
            best, enough = one, min(middle, int(one.found.sizes.sum()))
        else:
            too_few = middle
            proved &= one is None or one.gap == 0.0
    return Solved(best.found, 0.0 if proved else None, steps)


def _with(asked: Asked, cores: int) -> Asked:
    """Return the question on the first so many cores of the machine."""
    sizes, left = list[int](), cores
    for size in asked.machine.sizes.tolist():
        if left <= 0:
            break
        sizes.append(min(size, left))
        left -= size
    target = "latency" if asked.by_stay else "throughput"
    request = replace(asked.request, objective=target, target=None, cores=cores)
    return replace(asked, machine=replace(asked.machine, sizes=np.array(sizes, np.int64)), request=request)


def _cost(asked: Asked) -> Solved:
    """Return the grouping of the lowest cost: from the best of each number of cores by descent."""

    def value(figures: Figures, used: int) -> float:
        return cost_of(asked, figures, used)

    starts = list(spread(asked))
    descent = Descent(asked, value)
    found = descent.run(starts)
    if found is None:
        raise _overloaded(asked, asked.cores)
    cost = value(figures_of(asked, found), int(found.sizes.sum()))
    bound = _cost_bound(asked)
    gap = (cost - bound) / abs(bound) if bound else None
    return Solved(found, 0.0 if descent.every or cost <= bound + TIE * abs(bound) else gap, descent.steps)


def spread(asked: Asked) -> Iterator[Grouping]:
    """Give groupings of the shortest period, and of one group, on numbers of cores spread over all."""
    least = int(asked.demand.low.max())
    most = COUNTS_MAX if few_enough(len(asked.demand), asked.cores) else COUNTS_FEW
    counts = np.unique(np.linspace(least, asked.cores, min(most, asked.cores - least + 1)).astype(int))
    for count in counts.tolist():
        found = best_on(asked, count)
        if found is not None:
            yield found
        one = one_group(asked.demand, count)
        if placeable(asked, one):
            yield one


def _cost_bound(asked: Asked) -> float:
    """Return a cost that nothing undercuts: each number of cores at its highest throughput and the lowest latency."""
    weights = asked.request.weights or {}
    core, late, worth = (float(weights.get(name, 0.0)) for name in ("core_s", "latency_s", "record"))
    gain = worth - late * lone_bound(asked, asked.cores).latency_s
    least = int(asked.demand.low.max())
    if asked.request.arrival_per_s is not None:
        # So many cores at least do the work that arrives.
        work = asked.request.arrival_per_s * float(asked.demand.work_s().sum())
        return core * max(least, np.ceil(work * (1 - TIE))) - gain * asked.request.arrival_per_s
    counts = np.arange(least, asked.cores + 1)
    if len(counts) * len(asked.demand) <= SHARP_MAX:
        rates = np.array([1 / period_bound(asked.demand, count) for count in counts.tolist()])
    else:
        work, alone = float(asked.demand.work_s().sum()), float(asked.demand.alone_s(asked.cores).max())
        rates = 1 / np.maximum(work / counts, alone)
    costs: Floats = core * counts - max(gain, 0.0) * rates
    return float(costs.min())


# --- what cannot be ---------------------------------------------------------------------------------------------------


def impossible(asked: Asked, row: int, best: float, because: str) -> ImpossibleTarget:
    """Return the error: the component that forbids the target, and the best that can be reached."""
    name, seconds = asked.target
    value = 1 / seconds if name == "throughput_per_s" else seconds
    return ImpossibleTarget(
        f"target {name} {value:.6g} is impossible: {because}",
        field=asked.network.keys[row], value=value, bound=best, hint="raise cores or maximum, or ask for less",
    )  # fmt: skip


def _unreached(asked: Asked, most: Solved) -> ImpossibleTarget | Unsupported:
    """Return the error of a target that the best grouping on all cores does not reach."""
    figures = figures_of(asked, most.found)
    best = latency_of(asked, figures) if asked.by_stay else 1 / figures.period_s
    unit = "s" if asked.by_stay else "records/s"
    row = int((asked.visits.per_record * figures.waits_s + most.found.stay_s).argmax()) if asked.by_stay else int(
        figures.slowest(most.found)[0]
    )  # fmt: skip
    because = f"the best grouping on {plural(asked.cores, 'core')} reaches {best:.6g} {unit}"
    if most.gap == 0.0:
        return impossible(asked, row, best, because)
    name, seconds = asked.target
    value = 1 / seconds if name == "throughput_per_s" else seconds
    return Unsupported(
        f"target {name} {value:.6g} is not decided: {because.replace('the best grouping', 'the best grouping found')}",
        field="target", value=value, bound=best, hint="give more cores, or a target that is reached",
    )  # fmt: skip


def _overloaded(asked: Asked, cores: int) -> ImpossibleTarget | Unsupported:
    """Return the error where no grouping sustains the arrivals."""
    found = best_on(asked, cores)
    if found is None:
        return _unplaced(asked)
    figures = figures_of(asked, found)
    row = int(figures.slowest(found)[0])
    return ImpossibleTarget(
        f"arrivals of {asked.request.arrival_per_s or 0.0:.6g} records/s are impossible: the best grouping on"
        f" {plural(cores, 'core')} sustains {1 / figures.period_s:.6g}; {asked.network.keys[row]} is in its slowest group",
        field=asked.network.keys[row], value=asked.request.arrival_per_s, bound=1 / figures.period_s,
        hint="raise cores or maximum, or let fewer records in",
    )  # fmt: skip


def _unplaced(asked: Asked) -> ImpossibleTarget | Unsupported:
    row, hint = int(asked.demand.low.argmax()), "larger nodes, more memory, or smaller minima"
    if few_enough(len(asked.demand), int(asked.machine.sizes[0])):
        return ImpossibleTarget(
            "no grouping can be placed on the machine: the nodes, the memory and the minima exclude each other",
            field=asked.network.keys[row], value=asked.request.nodes, bound=asked.cores, hint=hint,
        )  # fmt: skip
    return Unsupported(
        "no placement of groups on the nodes was found", field="nodes", value=asked.request.nodes, hint=hint
    )


# (objective, target) -> how it is solved.
SOLVERS: Mapping[tuple[str, str], Callable[[Asked], Solved]] = {
    ("throughput", ""): _throughput,
    ("pareto", ""): _throughput,
    ("latency", ""): _latency,
    ("cost", ""): _cost,
    ("fewest_cores", "throughput_per_s"): _cores_for_throughput,
    ("fewest_cores", "latency_s"): _cores_for_latency,
}
