"""Clusters of a task type's sizes (paper 2): k-means over its cells, exact in one dimension, with a representative each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.domain.vectors import Floats, Ints
from advisor.models.size_time import SIZE, TIME, N

CLUSTERS_MAX: Final = 4
APART: Final = 0.05  # share of the squares of size that may be left within clusters: even sizes leave 1/16 within four


@dataclass(frozen=True, slots=True)
class Cluster:
    """Instances of like size: how many, their mean size, and what stands for all: the mean time of the cell nearest to it."""

    count: int
    size: float
    representative_s: float


def clustered(cells: Floats, k: int) -> tuple[Cluster, ...]:
    """Return the best k clusters of size: k-means on the cells' means, exact in one dimension. Cost O(k c^2).

    Against k-means on the instances themselves only the border may move, by less than a cell.
    """
    n, x = cells[N], cells[SIZE] / cells[N]
    found: list[Cluster] = []
    for first, last in parts_of(n, x, min(k, len(x)))[0]:
        part = slice(first, last)
        centroid = float(cells[SIZE, part].sum() / n[part].sum())
        cell = first + int(np.abs(x[part] - centroid).argmin())
        found.append(Cluster(round(float(n[part].sum())), centroid, float(cells[TIME, cell] / n[cell])))
    return tuple(found)


def chosen_clusters(cells: Floats) -> tuple[tuple[Cluster, ...], bool]:
    """Return the fewest clusters, up to four, that hold all but a little of the squares of size; whether there are such."""
    n, x = cells[N], cells[SIZE] / cells[N]
    whole = float((n * (x - np.average(x, weights=n)) ** 2).sum())
    for k in range(1, CLUSTERS_MAX + 1):
        if parts_of(n, x, min(k, len(x)))[1] <= APART * whole:
            return clustered(cells, k), True
    return clustered(cells, CLUSTERS_MAX), False


def parts_of(n: Floats, x: Floats, k: int) -> tuple[list[tuple[int, int]], float]:
    """Return how k parts of neighbours leave the least squares within, as (first, behind the last), and these squares."""
    m = len(x)
    x = x - x[0]
    counts, sums, squares = (np.append(0.0, np.cumsum(each)) for each in (n, n * x, n * x * x))
    weight = counts[None, :] - counts[:, None]
    cost = (
        squares[None, :] - squares[:, None] - (sums[None, :] - sums[:, None]) ** 2 / np.where(weight > 0.0, weight, 1.0)
    )
    cost = np.where(weight > 0.0, np.maximum(cost, 0.0), np.inf)
    best: Floats = cost[0].copy()
    cuts: list[Ints] = []
    for _ in range(k - 1):
        through = best[:, None] + cost
        cuts.append(through.argmin(axis=0))
        best = through.min(axis=0)
    last = m
    parts: list[tuple[int, int]] = []
    for cut in reversed(cuts):
        parts.append((int(cut[last]), last))
        last = int(cut[last])
    return [(0, last), *reversed(parts)], float(best[m])
