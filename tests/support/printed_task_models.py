"""Paper 2's models of a task type as printed, over all instances: support points, two clusters, the time of one instance."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from task_mixes import Mix

BELOW, ABOVE = 0.9, 1.1  # of the range of sizes, beyond which an instance becomes a support point


def error_of(mix: Mix, predicted: float) -> float:
    """Return the error of the total, |1 - sum(predicted) / sum(measured)| (Eq. 1)."""
    return abs(1.0 - float(predicted) / float(mix.times.sum()))


def by_support_points(mix: Mix) -> float:
    """Return the total where sizes beyond the range become points, and others are interpolated before they are learned."""
    points: dict[float, float] = {}
    total = 0.0
    known: list[float] = []
    at: list[float] = []
    for size, time in zip(mix.sizes.tolist(), mix.times.tolist(), strict=True):
        if not points or size < BELOW * known[0] or size > ABOVE * known[-1]:
            points[size] = time
            known = sorted(points)
            at = [points[each] for each in known]
        total += float(np.interp(size, known, at))
    return total


def by_clusters(mix: Mix, k: int) -> float:
    """Return the total where the instance nearest to the centroid of its cluster stands for all of it."""
    found = 0.0
    for rows in k_means(mix.sizes, k):
        gaps = np.abs(mix.sizes[rows] - mix.sizes[rows].mean())
        found += len(rows) * float(mix.times[rows[int(gaps.argmin())]])
    return found


def k_means(sizes: np.ndarray, k: int) -> list[np.ndarray]:
    """Return the rows of each of the best k clusters: exact, by every border between the different sizes."""
    different, inverse = np.unique(sizes, return_inverse=True)
    n = np.concatenate([[0.0], np.cumsum(np.bincount(inverse))])
    sums, squares = (np.concatenate([[0.0], np.cumsum(np.bincount(inverse) * different**p)]) for p in (1, 2))

    def best(first: int, parts: int) -> tuple[float, list[int]]:
        ends = np.arange(first + 1, len(different) + 1)
        inside = squares[ends] - squares[first] - (sums[ends] - sums[first]) ** 2 / (n[ends] - n[first])
        if parts == 1:
            return float(inside[-1]), [len(different)]
        if parts == 2:
            starts = ends[:-1]
            beyond = squares[-1] - squares[starts] - (sums[-1] - sums[starts]) ** 2 / (n[-1] - n[starts])
            border = int((inside[:-1] + beyond).argmin())
            return float((inside[:-1] + beyond)[border]), [int(starts[border]), len(different)]
        return min(
            (float(inside[end - first - 1]) + cost, [end, *rest])
            for end in range(first + 1, len(different) - parts + 2)
            for cost, rest in [best(end, parts - 1)]
        )

    return [
        np.flatnonzero((inverse >= a) & (inverse < b)) for a, b in pairwise([0, *best(0, min(k, len(different)))[1]])
    ]
