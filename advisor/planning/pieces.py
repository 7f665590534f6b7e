"""Curves of pieces, T_c(p) = level + fall / p from each knot to the next: the fewest cores for some seconds, and the
shortest period of components with cores of their own, exactly.

Kernels: `advisor.kernels` says what they may do. `level` and `fall` are (n, m), `knots` (m,) from 1, `low`, `high` and
`visits` (n,).
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, sqrt
from typing import Any

import numpy as np

from advisor import kernels

# Relative differences below this are rounding: the planner treats them as ties, so that a last bit buys no core.
TIE = 1e-12
STEPS_FEW = 64  # cores left to give at which giving them one by one is cheaper than halving the period again
PATIENCE = 8  # interpreted calls: each is a plan


def seconds_of(level, fall, knots, row, cores):
    """Return T_c(p) of a component."""
    low, high = 0, len(knots)
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= cores:
            low = middle
        else:
            high = middle
    return level[row, low] + fall[row, low] / cores


def fewest_of(level, fall, knots, row, low, high, seconds):
    """Return the fewest cores in [low, high] with T_c <= seconds; `high` where none."""
    if seconds_of(level, fall, knots, row, low) <= seconds:
        return low
    piece, last = 0, len(knots) - 1
    while piece < last and knots[piece + 1] <= low:
        piece += 1
    while True:
        end = high
        if piece < last and knots[piece + 1] < high:
            end = int(knots[piece + 1])
        at_end = seconds_of(level, fall, knots, row, end)
        if at_end <= seconds:
            break
        if end == high:
            return high
        piece += 1
    start = max(low, int(knots[piece]))
    here, falls = level[row, piece], fall[row, piece]
    found = end
    if falls > 0.0 and seconds > here:
        guess = falls / (seconds - here)
        if guess < end:
            found = max(ceil(guess), start)
    # The guess may be one off: up while it does not fit, then down while one fewer does.
    if found < end and here + falls / found > seconds:
        found += 1
    if found - 1 >= start and here + falls / (found - 1) <= seconds:
        found -= 1
    return found


def fewest_within(level, fall, knots, low, high, seconds, taken):
    """Fill `taken` (n,) with the fewest cores in [low_c, high_c] with T_c <= seconds_c; high_c where none."""
    for row in range(len(low)):
        taken[row] = fewest_of(level, fall, knots, row, low[row], high[row], seconds[row])


def within(level, fall, knots, low, high, visits, period, taken):
    """Fill `taken` with the fewest cores for turns of at most `period`; return their sum and the longest turn."""
    used, longest = 0, 0.0
    for row in range(len(low)):
        taken[row] = low[row]
        if visits[row] > 0.0:
            taken[row] = fewest_of(level, fall, knots, row, low[row], high[row], period / visits[row])
            longest = max(longest, visits[row] * seconds_of(level, fall, knots, row, taken[row]))
        used += taken[row]
    return used, longest


def fastest_of(level, fall, knots, row, low, high):
    """Return the least T_c(p) in [low, high]: at one of these, or at a knot between them."""
    least = min(seconds_of(level, fall, knots, row, low), seconds_of(level, fall, knots, row, high))
    for piece in range(len(knots)):
        if low < knots[piece] < high:
            least = min(least, level[row, piece] + fall[row, piece] / knots[piece])
    return least


def shortest_period(level, fall, knots, low, high, visits, cores, taken, other):
    """Return the shortest period max v_c T_c(p_c) with sum p_c <= cores; `taken` (n,) gets the fewest cores that reach it.

    sum low_c <= cores. The period is halved until few cores are left, which then go to whoever is slowest, one step after the
    other: exact. Cost O(n m) a halving, O(n) a step.
    """
    lowest = 0.0
    for row in range(len(low)):
        lowest = max(lowest, visits[row] * fastest_of(level, fall, knots, row, low[row], high[row]))
    used, longest = within(level, fall, knots, low, high, visits, lowest * (1.0 + TIE), taken)
    if used <= cores:
        return longest
    used, highest = within(level, fall, knots, low, low, visits, lowest, taken)
    while cores - used > STEPS_FEW and highest - lowest > TIE * highest:
        middle = sqrt(lowest) * sqrt(highest) if highest > 2.0 * lowest else 0.5 * (lowest + highest)
        some, longest = within(level, fall, knots, low, high, visits, middle, other)
        if some <= cores:
            used, highest = some, min(longest, middle)
            for row in range(len(low)):
                taken[row] = other[row]
        else:
            lowest = middle
    while True:
        slowest, longest = -1, 0.0
        for row in range(len(low)):
            now = visits[row] * seconds_of(level, fall, knots, row, taken[row])
            if now > longest:
                slowest, longest = row, now
        if slowest < 0:
            return longest
        enough = longest * (1.0 - TIE) / visits[slowest]
        more = fewest_of(level, fall, knots, slowest, low[slowest], high[slowest], enough)
        used += more - taken[slowest]
        if used > cores or seconds_of(level, fall, knots, slowest, more) > enough:
            within(
                level, fall, knots, low, high, visits, longest * (1.0 + TIE), taken
            )  # equals may have got more in vain
            return longest
        taken[slowest] = more


def least_work(level, fall, knots, low, high, visits, most, period):
    """Return core-seconds of one record, at least, where the turns of up to most_c instances are within the period.

    p T(p) is least at ends of pieces.
    """
    total = 0.0
    for row in range(len(low)):
        if visits[row] > 0.0:
            start = fewest_of(level, fall, knots, row, low[row], high[row], most[row] * period / visits[row])
            least = min(start * seconds_of(level, fall, knots, row, start),
                        high[row] * seconds_of(level, fall, knots, row, high[row]))  # fmt: skip
            for piece in range(len(knots)):
                if start < knots[piece] < high[row]:
                    least = min(least, knots[piece] * level[row, piece] + fall[row, piece])
            total += visits[row] * least
    return total


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    table, some, whole = np.ones((1, 1)), np.ones(1), np.ones(1, np.int64)
    yield "fewest_within", (table, table, some, whole, whole, some, whole)
    yield "least_work", (table, table, some, whole, whole, some, whole, 1.0)
    yield "shortest_period", (table, table, some, whole, whole, some, 1, whole, whole)


KERNELS = kernels.Source(__name__, (fewest_within, shortest_period, least_work), _examples, patience=PATIENCE)
