"""From shapes to turns: the tables of `ShapeDemand`."""

from __future__ import annotations

import numpy as np

from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.asked.options import CELLS_MAX, Options
from advisor.planning.asked.shape_demand import ShapeDemand

ROW_MIN = 64  # cores of a group that tables of any number of components know


def shape_demand(options: Options, visits: Floats, cores: int, *, by_stay: bool = False) -> ShapeDemand:
    """Return the best turn of each component on 1 .. M cores, M being `cores` while tables stay small. Cost O(n M).

    Of equal turns the one of the shortest stay counts, then the one of fewest cores; with `by_stay` stays go first.
    """
    n = len(options.number)
    most = min(cores, max(ROW_MIN, CELLS_MAX // n))
    turn, stay = np.full((n, most), np.inf), np.full((n, most), np.inf)
    shape = np.zeros((n, most), np.int64)
    sizes = np.arange(1, most + 1)
    for row, number in enumerate(options.number.tolist()):
        stays = visits[row] * options.seconds_s[row, :number]
        turns = stays * options.heaviest[row, :number]
        best = _best_so_far(stays, turns) if by_stay else _best_so_far(turns, stays)
        place = np.searchsorted(options.weight[row, :number], sizes, side="right") - 1
        fits = place >= 0
        shape[row, fits] = best[place[fits]]
        turn[row, fits], stay[row, fits] = turns[shape[row, fits]], stays[shape[row, fits]]
    rows = np.arange(n)[:, None]
    low = np.array([int(weight[0]) for weight in options.weight], np.int64)
    return ShapeDemand(turn, stay, options.cores[rows, shape], options.instances[rows, shape], low)


def _best_so_far(first: Floats, second: Floats) -> Ints:
    """Return for each shape the best of it and those before it, by (first, second)."""
    order = np.lexsort((np.arange(len(first)), second, first))
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    best: Ints = order[np.minimum.accumulate(rank)]
    return best
