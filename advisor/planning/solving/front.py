"""The front of cores, throughput and latency."""

from __future__ import annotations

import numpy as np

from advisor.domain.answers import FrontPoint
from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.solving.costs import thresholds
from advisor.planning.solving.general import Solved
from advisor.planning.solving.objectives import latency_of
from advisor.planning.solving.tree_program import PROGRAM_CELLS_MAX, cells, tree_program

PERIODS_MAX = 24  # periods whose latencies are solved, spread over those that allocations may have
COUNTS_MAX = 48  # numbers of cores told, spread over all
POINTS_MAX = 256  # of a front: an answer that people and programs still read


def front_of(solved: Solved) -> tuple[FrontPoint, ...]:
    """Return allocations none of which is bettered in cores, throughput and latency at once, by cores.

    For each of up to PERIODS_MAX periods the lowest latency on every number of cores is solved; where the components'
    periods are fewer the front is complete. Cost: that many programs over the structure.
    """
    problem, request = solved.problem, solved.problem.model.request
    options = problem.options
    if cells(options, problem.cores) > PROGRAM_CELLS_MAX:
        return ()
    others, streams = problem.model.coupling(solved.judged, solved.cores[None])
    periods, stays = problem.model.stays(options, others[0], streams.first())
    limits = thresholds(problem, periods)
    if len(limits) > PERIODS_MAX:
        limits = limits[np.unique(np.linspace(0, len(limits) - 1, PERIODS_MAX).astype(int))]
    found: dict[bytes, Ints] = {}
    for limit in limits.tolist():
        program = tree_program(
            problem.model.structure, options, np.where(periods <= limit * (1 + TIE), stays, np.inf), problem.cores
        )
        counts = program.counts[np.isfinite(program.latency_s)]
        if len(counts) > COUNTS_MAX:
            counts = counts[np.unique(np.linspace(0, len(counts) - 1, COUNTS_MAX).astype(int))]
        for count in counts.tolist():
            shapes = program.chosen(count)
            found.setdefault(shapes.tobytes(), shapes)
    if not found:
        return ()
    every = np.stack(list(found.values()))
    judged = problem.model.judge(options, every)
    used, latency = problem.used(every), latency_of(request, judged)
    kept = undominated(np.stack([used.astype(np.float64), judged.period_s, latency], axis=1))
    kept = kept[[problem.placeable(every[place]) for place in kept.tolist()]]
    if len(kept) > POINTS_MAX:
        kept = kept[np.unique(np.linspace(0, len(kept) - 1, POINTS_MAX).astype(int))]
    keys = problem.model.structure.network.keys
    cores, instances, _, _ = options.pick(every)
    return tuple(
        FrontPoint(int(used[place]), float(1 / judged.period_s[place]), float(latency[place]),
                   dict(zip(keys, cores[place].tolist(), strict=True)),
                   dict(zip(keys, instances[place].tolist(), strict=True)))
        for place in kept.tolist()
    )  # fmt: skip


def undominated(points: Floats) -> Ints:
    """Return the rows of (K, m) that no other is below or equal to in all columns, in order of the columns."""
    order = np.lexsort(tuple(points[:, column] for column in range(points.shape[1] - 1, -1, -1)))
    kept: list[int] = []
    for place in order.tolist():
        if np.isfinite(points[place]).all():
            before = points[kept]
            if not (before <= points[place] * (1 + TIE)).all(axis=1).any():
                kept.append(place)
    return np.array(kept, np.int64)
