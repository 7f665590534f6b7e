"""The tables of an answer with cores of one's own: marginal cores, the knee, runners-up; and the front of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.domain.answers import FrontPoint, Knee, Marginal, RunnerUp
from advisor.planning.demand import TIE, Demand
from advisor.planning.estimates import chance_of
from advisor.planning.judge import Placed
from advisor.planning.prices import lowest_sum
from advisor.planning.requests import CORES, COST, RATE, Floats, Ints, is_allowed
from advisor.planning.scores import latency_of

if TYPE_CHECKING:
    from advisor.planning.answers import Solution

KNEE_SHARE = 0.99
RUNNERS_UP = 3  # that are told
TOLD_MAX = 2_000  # components up to which tables are told
JUDGED_MAX = 300  # the same where each row is judged
POINTS_MAX = 256  # of a front: an answer that people and programs still read


def adds_up(found: Solution) -> bool:
    """Return whether period and latency are plain maxima and sums: nothing couples the components."""
    request, model = found.question.request, found.model
    alone = request.arrival_per_s is None and request.quantile is None and not model.contended
    return alone and not model.structure.joins


def with_cores(found: Solution, cores: Ints) -> Placed:
    """Return allocations of other cores, (K, n), with the answer's instances."""
    demand = found.question.demand
    seconds = np.stack([demand.seconds(row) for row in cores])
    many = np.repeat(found.placed.instances, len(cores), axis=0)
    return Placed(
        cores, many, seconds, np.repeat(found.placed.heaviest, len(cores), axis=0), (cores * many).sum(axis=1)
    )


def figures(found: Solution, placed: Placed) -> tuple[Floats, Floats]:
    """Return period and latency of allocations with cores of one's own, (K,) each: as the judge has them."""
    if adds_up(found):
        stays = found.question.demand.visits * placed.seconds_s
        return (stays * placed.heaviest).max(axis=1), stays.sum(axis=1)
    judged = found.model.judge(placed)
    return judged.period_s, latency_of(found.question.request, judged)


def marginals_of(found: Solution) -> tuple[Marginal, ...]:
    """Return what one core more or less for an instance of each component does. Cost O(n), or 2 n judged."""
    demand, cores, instances = found.question.demand, found.placed.cores[0], found.placed.instances[0]
    n, keys = len(demand), found.question.keys
    plain = adds_up(found)
    if n > (TOLD_MAX if plain else JUDGED_MAX):
        return ()
    changed = _next_counts(demand, cores, 1), _next_counts(demand, cores, -1)
    columns: list[list[float | None]] = []
    for some in changed:
        rates, late = _changed_by_one(found, some) if plain else _judged_by_one(found, some)
        for values in (rates, late):
            told = zip(values.tolist(), (some != cores).tolist(), strict=True)
            columns.append([value if fits and np.isfinite(value) else None for value, fits in told])
    return tuple(Marginal(*row) for row in zip(keys, (cores * instances).tolist(), *columns, strict=True))


def _next_counts(demand: Demand, cores: Ints, step: int) -> Ints:
    """Return the next count of each component in one direction that its limits and rules allow, else its own."""
    after = np.clip(cores + step, demand.low, demand.high)
    for row, rule in demand.rules.items():
        stop = int(demand.high[row]) + 1 if step > 0 else int(demand.low[row]) - 1
        counts = np.arange(int(cores[row]) + step, stop, step)
        legal: list[int] = counts[is_allowed(rule, counts)].tolist()
        after[row] = legal[0] if legal else cores[row]
    return after


def _changed_by_one(found: Solution, changed: Ints) -> tuple[Floats, Floats]:
    """Return throughput and latency where one component at a time has other cores, (n,) each: maxima and sums."""
    demand, placed = found.question.demand, found.placed
    now, new = (demand.visits * demand.seconds(some) for some in (placed.cores[0], changed))
    periods, share = now * placed.heaviest[0], placed.heaviest[0]
    order = np.argsort(periods)
    others = np.full(len(periods), periods[order[-1]])
    others[order[-1]] = periods[order[-2]] if len(order) > 1 else 0.0
    with np.errstate(divide="ignore"):
        return 1 / np.maximum(others, new * share), float(now.sum()) - now + new


def _judged_by_one(found: Solution, changed: Ints) -> tuple[Floats, Floats]:
    """As `_changed_by_one`, by the judge."""
    n = len(changed)
    every = np.tile(found.placed.cores[0], (n, 1))
    every[np.arange(n), np.arange(n)] = changed
    judged = found.model.judge(with_cores(found, every))
    return 1 / judged.period_s, latency_of(found.question.request, judged)


def knee_of(found: Solution) -> Knee | None:
    """Return the fewest cores that reach KNEE_SHARE of the throughput, or 1/KNEE_SHARE of the latency, as far as known."""
    question, request = found.question, found.question.request
    if request.target or request.measure in (CORES, COST) or len(question.demand) > TOLD_MAX:
        return None
    if found.search is not None:
        limit = float(found.search.key.score) / KNEE_SHARE * (1 + TIE)
        reached = [used for used, (value, _) in found.search.by_used.items() if value <= limit]
        some = found.search.by_used[min(reached)][1] if reached else None
    else:
        some = _by_formula(found)
    if some is None:
        return None
    period, latency = figures(found, some)
    return Knee(int(some.used[0]), KNEE_SHARE, float(1 / period[0]), float(latency[0]))


def _by_formula(found: Solution) -> Placed | None:
    """Return the knee of maxima and sums."""
    demand, cores, judged = found.question.demand, found.placed.cores[0], found.judged
    if found.question.request.for_latency:
        limit = float(judged.latency_s[0]) / KNEE_SHARE
        fewer = np.minimum(lowest_sum(demand, found.used, limit)[0], cores)
        placed = with_cores(found, fewer[None])
        return placed if float(figures(found, placed)[1][0]) <= limit * (1 + TIE) else None
    load = demand.visits * found.placed.heaviest[0]
    with np.errstate(divide="ignore"):
        fewer = demand.fewest_within(np.where(load > 0, judged.period_s[0] / KNEE_SHARE / load, np.inf))
    return with_cores(found, (cores if demand.rules else np.minimum(fewer, cores))[None])


def runners_up_of(found: Solution) -> tuple[RunnerUp, ...]:
    """Return the next best allocations that were judged, or else neighbours, with how sure the order is."""
    question = found.question
    n = len(question.demand)
    if n > (TOLD_MAX if adds_up(found) else JUDGED_MAX):
        return ()
    if found.search is not None:
        some = [one for _, one in found.search.kept if one.group is None and not _equal(one, found.placed)]
    else:
        some = _neighbours(found)
    some, keys, told = some[:RUNNERS_UP], question.keys, list[RunnerUp]()
    known, mine, measure = (
        question.demand.spread.any() and not question.request.target,
        found.estimate(),
        question.request.measure,
    )
    for one in some:
        chance = chance_of(found.estimate(one), mine, measure, ties=0.5) if known else None
        period, latency = figures(found, one)
        if any((1 / period[0] if name == RATE else value) < (value if name == RATE else latency[0]) * (1 - TIE)
               for name, value in (question.request.target or {}).items()):  # fmt: skip
            continue  # what misses the target is no other answer
        cores, many = (dict(zip(keys, part[0].tolist(), strict=True)) for part in (one.cores, one.instances))
        told.append(RunnerUp(cores, many, int(one.used[0]), float(1 / period[0]), float(latency[0]), chance))
    return tuple(told)


def _equal(one: Placed, other: Placed) -> bool:
    return np.array_equal(one.cores, other.cores) and np.array_equal(one.instances, other.instances)


def _neighbours(found: Solution) -> list[Placed]:
    """Return allocations next to one: a core from one component to another, or a core less; best first."""
    demand, cores = found.question.demand, found.placed.cores[0]
    if not demand.single:
        return []
    latency, seconds = found.question.request.for_latency, demand.visits * demand.seconds(cores)
    more, fewer = _next_counts(demand, cores, 1), _next_counts(demand, cores, -1)
    with np.errstate(invalid="ignore"):
        gain = np.where(more != cores, seconds - demand.visits * demand.seconds(more), -np.inf)
        loss = np.where(fewer != cores, demand.visits * demand.seconds(fewer) - seconds, np.inf)
    after = loss if latency else seconds + loss
    givers = [row for row in np.argsort(after, kind="stable")[: RUNNERS_UP + 1].tolist() if np.isfinite(loss[row])]
    takers = [row for row in np.argsort(-(gain if latency else seconds), kind="stable")[:RUNNERS_UP].tolist()
              if np.isfinite(gain[row])]  # fmt: skip
    near: list[Ints] = []
    for giver in givers:
        for taker in [-1, *takers]:
            if taker != giver:
                other = cores.copy()
                other[giver] = fewer[giver]
                if taker >= 0:
                    other[taker] = more[taker]
                if int(other.sum()) <= max(int(cores.sum()), found.question.request.cores or 0):
                    near.append(other)
    if not near:
        return []
    every = with_cores(found, np.stack(near))
    stays = demand.visits * every.seconds_s
    values = stays.sum(axis=1) if latency else stays.max(axis=1)
    return [every.of(row) for row in np.lexsort((every.used, values))[:RUNNERS_UP].tolist()]


def front_of(found: Solution) -> tuple[FrontPoint, ...]:
    """Return the allocations judged none of which is bettered in cores, throughput and latency at once, by cores."""
    search, request = found.search, found.question.request
    if search is None:
        return ()
    figures = [
        np.stack([placed.used.astype(np.float64), judged.period_s, latency_of(request, judged)], axis=1)
        for placed, judged in search.points
    ]
    every = np.concatenate(figures)
    ends = np.cumsum([len(some) for some in figures])
    kept: list[tuple[int, int]] = []
    for at in undominated(every):
        batch = int(np.searchsorted(ends, at, side="right"))
        row = int(at - (ends[batch] - len(figures[batch])))
        if search.placeable(search.points[batch][0], row):
            kept.append((batch, row))
    if len(kept) > POINTS_MAX:
        kept = [kept[place] for place in np.unique(np.linspace(0, len(kept) - 1, POINTS_MAX).astype(int)).tolist()]
    return tuple(_point(found, search.points[batch][0], row, figures[batch][row]) for batch, row in kept)


def _point(found: Solution, placed: Placed, row: int, figures: Floats) -> FrontPoint:
    from advisor.planning.answers import groups_of  # noqa: PLC0415 - the answer holds the front

    keys = found.question.keys
    groups = groups_of(keys, placed, row)
    groups = groups if len(groups) < len(keys) else ()
    shared = {key for _, some in groups if len(some) > 1 for key in some}
    cores = dict(zip(keys, placed.cores[row].tolist(), strict=True))
    return FrontPoint(
        int(figures[0]), float(1 / figures[1]), float(figures[2]), {k: v for k, v in cores.items() if k not in shared},
        dict(zip(keys, placed.instances[row].tolist(), strict=True)), groups,
    )  # fmt: skip


def undominated(points: Floats) -> list[int]:
    """Return the rows of (K, m) that no other is below or equal to in all columns, in order of the columns."""
    order = np.lexsort(tuple(points[:, column] for column in range(points.shape[1] - 1, -1, -1)))
    kept: list[int] = []
    front = np.zeros((0, points.shape[1]))
    for place in order.tolist():
        if np.isfinite(points[place]).all() and not (front <= points[place] * (1 + TIE)).all(axis=1).any():
            kept.append(place)
            front = points[kept]
    return kept
