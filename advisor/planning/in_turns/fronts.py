"""The front of cores, throughput and latency of groupings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from advisor.domain.answers import FrontPoint
from advisor.planning.closed_forms.partitions import Partitions, few_enough
from advisor.planning.closed_forms.turns import Grouping
from advisor.planning.in_turns.asking import Asked
from advisor.planning.in_turns.descent import EVERY_MAX, every_grouping, how_many
from advisor.planning.in_turns.figures import figures_of
from advisor.planning.in_turns.rooms import placeable, rooms_of
from advisor.planning.in_turns.solving import Solved, latency_of, spread
from advisor.planning.solving.front import POINTS_MAX, undominated

PERIODS_MAX = 12  # periods whose lowest latencies are solved, spread over those that groupings may have
PROGRAM_MAX = 24  # cores up to which they are: 3**n P**2 steps each


def front_of(asked: Asked, solved: Solved) -> tuple[FrontPoint, ...]:
    """Return groupings none of which is bettered in cores, throughput and latency at once, by cores.

    Of all groupings where they are few; else of those with the lowest latency at PERIODS_MAX periods, the shortest period and
    one group on each of some numbers of cores.
    """
    points: list[tuple[float, float, float]] = []
    kept: list[Grouping] = []
    for found in _candidates(asked, solved):
        if np.isfinite(found.turns_s).all() and placeable(asked, found):
            figures = figures_of(asked, found)
            points.append((float(found.sizes.sum()), figures.period_s, latency_of(asked, figures)))
            kept.append(found)
    places: list[int] = undominated(np.array(points)).tolist()
    if len(places) > POINTS_MAX:
        places = [
            places[place] for place in np.unique(np.linspace(0, len(places) - 1, POINTS_MAX).astype(int)).tolist()
        ]
    return tuple(_point(asked, kept[place], *points[place][1:]) for place in places)


def merged(one: Sequence[FrontPoint], other: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Return the points of two fronts that none of the other betters; of equals those of the first."""
    every = (*one, *other)
    if not every:
        return ()
    table = np.array([(float(point.used), 1 / point.throughput_per_s, point.latency_s) for point in every])
    places: list[int] = undominated(table).tolist()
    return tuple(every[place] for place in places)


def _candidates(asked: Asked, solved: Solved) -> Iterator[Grouping]:
    n, cores = len(asked.demand), asked.cores
    yield solved.found
    if how_many(n, cores) <= EVERY_MAX:
        yield from every_grouping(asked.demand, cores)
        return
    yield from spread(asked)
    if few_enough(n, cores) and cores <= PROGRAM_MAX and rooms_of(asked) is None:
        subsets = Partitions(asked.demand, cores)
        values = np.unique(subsets.cycle_s[np.isfinite(subsets.cycle_s)])
        values = values[values >= subsets.best_period()]
        for place in np.unique(np.linspace(0, len(values) - 1, PERIODS_MAX).astype(int)).tolist():
            yield from subsets.with_lowest(float(values[place]), range(1, cores + 1))


def _point(asked: Asked, found: Grouping, period_s: float, latency_s: float) -> FrontPoint:
    keys = asked.network.keys
    members: list[list[str]] = [[] for _ in found.sizes]
    for key, number in zip(keys, found.group.tolist(), strict=True):
        members[number].append(key)
    groups = tuple((size, tuple(some)) for size, some in zip(found.sizes.tolist(), members, strict=True))
    return FrontPoint(
        int(found.sizes.sum()), 1 / period_s, latency_s, dict(zip(keys, found.cores.tolist(), strict=True)),
        dict(zip(keys, found.instances.tolist(), strict=True)), groups,
    )  # fmt: skip
