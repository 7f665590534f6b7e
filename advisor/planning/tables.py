"""The tables of an answer with cores of one's own: marginal cores, the knee, runners-up; and the front of all."""

from __future__ import annotations

from itertools import product

import numpy as np

from advisor.domain.allocations import FrontPoint, Knee, Marginal, RunnerUp
from advisor.planning.demand import Demand
from advisor.planning.estimates import chance_of
from advisor.planning.exact import Plan, lowest_sum
from advisor.planning.judge import Placed, judge_placed, latency_of, own_placed
from advisor.planning.pieces import TIE
from advisor.planning.requests import RATE, Floats, Ints, is_allowed

KNEE_SHARE = 0.99
RUNNERS_UP = 3  # that are reported
REPORTED_MAX = 2_000  # components up to which tables are reported
JUDGED_MAX = 300  # the same where each row is judged
CELLS_MAX = 1_000_000  # allocations times components judged at once
POINTS_MAX = 256  # of a front: an answer that people and programs still read


def with_cores(found: Plan, cores: Ints) -> Placed:
    """Return allocations of other cores, (K, n), with the answer's instances."""
    demand, placed = found.demand, found.placed
    many, heaviest = np.repeat(placed.instances, len(cores), axis=0), np.repeat(placed.heaviest, len(cores), axis=0)
    return Placed(cores, many, demand.seconds(cores), heaviest, (cores * many).sum(axis=1))


def figures(found: Plan, placed: Placed) -> tuple[Floats, Floats]:
    """Return the period that is promised and the latency of allocations with cores of one's own, (K,) each."""
    placed = found.promised(placed)
    size = max(1, CELLS_MAX // placed.cores.shape[1])
    parts = [judge_placed(found.demand, placed.taken(np.arange(start, min(start + size, len(placed.used)))))
             for start in range(0, len(placed.used), size)]  # fmt: skip
    latencies = [latency_of(part) for part in parts]
    return np.concatenate([part.period_s for part in parts]), np.concatenate(latencies)


def _reported(found: Plan) -> bool:
    """Return whether there are few enough components for what needs one judgement or two of each."""
    coupled = (
        found.demand.request.arrival_per_s is not None or bool(found.demand.structure.joins) or found.demand.contended
    )
    return len(found.demand) <= (JUDGED_MAX if coupled else REPORTED_MAX)


def marginals_of(found: Plan) -> tuple[Marginal, ...]:
    """Return what one core more or less for an instance of each component does. Cost: 2 n judged."""
    demand, cores, instances = found.demand, found.placed.cores[0], found.placed.instances[0]
    if not _reported(found):
        return ()
    n, both = len(cores), [_next_counts(demand, cores, step) for step in (1, -1)]
    every = np.concatenate([np.where(np.eye(n, dtype=np.bool_), some, cores) for some in both])
    period, late = figures(found, with_cores(found, every))
    fits = (np.concatenate(both) != np.tile(cores, 2)).tolist()
    rates, lates = ([value if fit and np.isfinite(value) else None for value, fit in zip(values.tolist(), fits, strict=True)]
                    for values in (1 / period, late))  # fmt: skip
    used: list[int] = (cores * instances).tolist()
    return tuple(Marginal(key, used[row], rates[row], lates[row], rates[n + row], lates[n + row])
                 for row, key in enumerate(demand.keys))  # fmt: skip


def _next_counts(demand: Demand, cores: Ints, step: int) -> Ints:
    """Return the next count of each component in one direction that its limits and rules allow, else its own."""
    after = np.clip(cores + step, demand.low, demand.high)
    for row, rule in demand.rules.items():
        stop = int(demand.high[row]) + 1 if step > 0 else int(demand.low[row]) - 1
        counts = np.arange(int(cores[row]) + step, stop, step)
        legal: list[int] = counts[is_allowed(rule, counts)].tolist()
        after[row] = legal[0] if legal else cores[row]
    return after


def knee_of(found: Plan) -> Knee | None:
    """Return the fewest cores that reach KNEE_SHARE of the throughput, or 1/KNEE_SHARE of the latency, as far as known."""
    demand, request = found.demand, found.demand.request
    if request.target or request.weights or len(demand) > REPORTED_MAX:
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


def _by_formula(found: Plan) -> Placed | None:
    """Return the knee where closed forms have answered."""
    demand, judged = found.demand, found.judged
    if found.demand.request.for_latency:
        limit = float(judged.latency_s[0]) / KNEE_SHARE
        placed = with_cores(
            found, np.minimum(lowest_sum(demand, found.cores_used, limit)[0], found.placed.cores[0])[None]
        )
        return placed if float(figures(found, placed)[1][0]) <= limit * (1 + TIE) else None
    shapes = demand.shapes_within(float(judged.period_s[0]) / KNEE_SHARE)
    return None if shapes is None else own_placed(demand, shapes)


def runners_up_of(found: Plan) -> tuple[RunnerUp, ...]:
    """Return the next best allocations that were judged, or else neighbours, with how sure the order is."""
    demand = found.demand
    if not _reported(found):
        return ()
    if found.search is not None:
        some = [one for _, one in found.search.kept if one.group is None and not _equal(one, found.placed)]
    else:
        some = _neighbours(found)
    keys, reported, aim = demand.keys, list[RunnerUp](), demand.request.aim
    known = demand.curves.uncertain and not demand.request.target
    if not some:
        return ()
    every = Placed(*map(np.concatenate, list(zip(*some[:RUNNERS_UP], strict=True))[:5]))
    periods, latencies = figures(found, every)
    for row, (period, latency) in enumerate(zip(periods.tolist(), latencies.tolist(), strict=True)):
        chance = 1 - chance_of(found.estimate, found.estimate_of(some[row]), aim.measure, ties=0.5) if known else None
        if any((1 / period if name == RATE else value) < (value if name == RATE else latency) * (1 - TIE)
               for name, value in (demand.request.target or {}).items()):  # fmt: skip
            continue  # what misses the target is no other answer
        cores, many = (dict(zip(keys, part[row].tolist(), strict=True)) for part in (every.cores, every.instances))
        reported.append(RunnerUp(cores, many, int(every.used[row]), 1 / period, latency, chance))
    return tuple(reported)


def _equal(one: Placed, other: Placed) -> bool:
    return np.array_equal(one.cores, other.cores) and np.array_equal(one.instances, other.instances)


def _neighbours(found: Plan) -> list[Placed]:
    """Return allocations next to one: a core from one component to another, or a core less; best first."""
    demand, cores = found.demand, found.placed.cores[0]
    if not demand.single:
        return []
    latency, more, fewer = found.demand.request.for_latency, *(_next_counts(demand, cores, step) for step in (1, -1))
    now, up, down = demand.visits * demand.seconds(np.stack([cores, more, fewer]))
    after = np.where(fewer != cores, down - now if latency else down, np.inf)
    before = np.where(more != cores, now - up if latency else now, -np.inf)
    givers = [row for row in np.argsort(after, kind="stable")[: RUNNERS_UP + 1].tolist() if fewer[row] != cores[row]]
    takers = [row for row in np.argsort(-before, kind="stable")[:RUNNERS_UP].tolist() if more[row] != cores[row]]
    near: list[Ints] = []
    for giver, taker in product(givers, [-1, *takers]):
        other = cores.copy()
        other[giver] = fewer[giver]
        if taker >= 0:
            other[taker] = more[taker]
        if giver != taker and int(other.sum()) <= max(int(cores.sum()), demand.request.cores or 0):
            near.append(other)
    if not near:
        return []
    every = with_cores(found, np.stack(near))
    stays = demand.visits * every.seconds_s
    values = stays.sum(axis=1) if latency else stays.max(axis=1)
    return [every.row_of(row) for row in np.lexsort((every.used, values))[:RUNNERS_UP].tolist()]


def front_of(found: Plan) -> tuple[FrontPoint, ...]:
    """Return the allocations judged none of which is bettered in cores, throughput and latency at once, by cores."""
    search, request = found.search, found.demand.request
    if search is None:
        return ()
    scale = (
        found.demand.scales.mean if request.quantile is None else found.demand.scales.quantile
    )  # the formula of a search, where records queue
    figures = [
        np.stack([placed.used.astype(np.float64), judged.period_s, latency_of(judged) * scale], axis=1)
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


def _point(found: Plan, placed: Placed, row: int, figures: Floats) -> FrontPoint:
    keys = found.demand.keys
    groups = placed.groups(keys, row)
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
