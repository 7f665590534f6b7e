"""Curves of pieces, T_c(p) = level + fall / p from each knot to the next: the fewest cores for some seconds, and the
shortest period of components with cores of their own, exactly.

Kernels: `advisor.kernels` says what they may do. `curves` is (level, fall, knots): (n, m), (n, m) and (m,) from 1. `limits` is
(low, high, fewest, most, rules, lists, firsts, heaviest): fewest and most cores of one instance and instances, (n,) each;
`rules` (n, 3) says which counts are allowed: multiples of its first number, where that is -1 those in `lists` between the
two others; `heaviest` has from `firsts` on, where that is no less than 0, the share of the busiest
instance of 1, 2, ... instances.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, sqrt
from typing import Any

import numpy as np

from advisor import kernels
from advisor.models.logarithm import exp2_of, log2_of

# Relative differences below this are rounding: the planner treats them as ties, so that a last bit buys no core.
TIE = 1e-12
NEAR = 1e-9  # of a period: nearer, one turn after the other is undercut; a hundred thousand turns lie 1e-5 apart
DOUBLINGS_MAX = 1000.0  # of a time: a double has no more
PATIENCE = 8  # interpreted calls: each is a plan


def pieces_of(knots, elapsed, upper, least, most, price, level, fall):
    """Fill `level` and `fall` (n, m) with the pieces of what lies `price` times log(upper / elapsed) above, in log time.

    Beyond the counts that were seen, `least` to `most` (n,), it lies no further above than anywhere among them: there the curve
    goes on as it is expected to, else what was never tried never would be. It falls nowhere below what fewer cores have where a
    run is expected to take longer than on these: so no plan trades what is expected for a bound that is better known.
    """
    n, m = elapsed.shape
    for row in range(n):
        furthest, among = 1.0, False
        shortest, lowest = inf, inf
        for j in range(m):
            if least[row] <= knots[j] <= most[row]:
                furthest, among = max(furthest, upper[row, j] / elapsed[row, j]), True
        for j in range(m):
            level[row, j], fall[row, j] = elapsed[row, j], 0.0
            if price != 0.0:
                ratio = max(upper[row, j] / elapsed[row, j], 1.0)
                doublings = price * log2_of(min(ratio, furthest) if among else ratio)
                level[row, j] = elapsed[row, j] * exp2_of(min(doublings, DOUBLINGS_MAX))
                if elapsed[row, j] > shortest:
                    level[row, j] = max(level[row, j], lowest)
                shortest, lowest = min(shortest, elapsed[row, j]), min(lowest, level[row, j])
        for j in range(m - 1):
            here, after, step = level[row, j], level[row, j + 1], knots[j + 1] - knots[j]
            fall[row, j] = (here - after) * (knots[j] * knots[j + 1] / step)
            level[row, j] = (after * knots[j + 1] - here * knots[j]) / step


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


def all_seconds(level, fall, knots, cores, seconds):
    """Fill `seconds` (K, n) with T_c(p) of K allocations of cores."""
    for k in range(len(cores)):
        for row in range(len(level)):
            seconds[k, row] = seconds_of(level, fall, knots, row, cores[k, row])


def fewest_of(level, fall, knots, row, low, high, seconds):
    """Return the fewest cores in [low, high] with T_c <= seconds; 0 where none."""
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
            return 0
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


def allowed_from(rules, lists, row, count, high):
    """Return the fewest allowed cores from `count` on; more than `high` where there are none."""
    rule = rules[row, 0]
    if rule > 0:
        return -(-count // rule) * rule
    for place in range(rules[row, 1], rules[row, 2]):
        if lists[place] >= count:
            return lists[place]
    return high + 1


def cores_within(curves, limits, row, seconds):
    """Return the fewest allowed cores of an instance with T_c <= seconds; 0 where none."""
    level, fall, knots = curves
    start, high = limits[0][row], limits[1][row]
    if limits[4][row, 0] == 1:
        return fewest_of(level, fall, knots, row, start, high, seconds)
    while True:
        start = allowed_from(limits[4], limits[5], row, start, high)
        if start > high:
            return 0
        found = fewest_of(level, fall, knots, row, start, high, seconds)
        if found in (0, start):
            return found
        start = found


def share_of(limits, row, instances):
    """Return the share of a component's records that the busiest of its instances serves."""
    first = limits[6][row]
    return 1.0 / instances if first < 0 else limits[7][first + instances - 1]


def instances_within(limits, row, seconds, period):
    """Return the fewest instances whose busiest one serves its share of `seconds` within the period; 0 where none."""
    found, most = limits[2][row], limits[3][row]
    if limits[6][row] < 0 and seconds > found * period:
        found = max(ceil(min(seconds / period, most + 1.0)) - 1, found)  # may be one off
    while found <= most and share_of(limits, row, found) * seconds > period:
        found += 1
    return found if found <= most else 0


def shape_within(curves, limits, visits, row, period):
    """Return cores and instances, fewest in product, for a turn within the period, of these the shortest T_c; 0 where none.

    No shape is cheaper than one of at most root of its product in cores or in instances: both are tried.
    """
    level, fall, knots = curves
    low, high, few, most = limits[0][row], limits[1][row], limits[2][row], limits[3][row]
    if visits == 0.0:
        return allowed_from(limits[4], limits[5], row, low, high), few
    if most == 1:
        return cores_within(curves, limits, row, period / visits), 1
    cores, instances = cores_within(curves, limits, row, period / (visits * share_of(limits, row, most))), most
    if most == few or cores == 0:
        return cores, instances
    seconds, step = seconds_of(level, fall, knots, row, cores), 1
    while step * step <= cores * instances:
        for narrow in range(2):
            if narrow:
                p = allowed_from(limits[4], limits[5], row, max(step, low), high)
                if p > high:
                    continue
                k = instances_within(limits, row, visits * seconds_of(level, fall, knots, row, p), period)
            else:
                k = min(max(step, few), most)
                p = cores_within(curves, limits, row, period / (visits * share_of(limits, row, k)))
            if p == 0 or k == 0 or p * k > cores * instances:
                continue
            some = seconds_of(level, fall, knots, row, p)
            if p * k < cores * instances or some < seconds:
                cores, instances, seconds = p, k, some
        step += 1
    return cores, instances


def turn_of(curves, limits, visits, row, cores, instances):
    """Return the seconds a record of a component's busiest instance."""
    seconds = visits[row] * seconds_of(curves[0], curves[1], curves[2], row, cores)
    return seconds if instances == 1 else seconds * share_of(limits, row, instances)


def shapes_within(curves, limits, visits, period, taken, turns):
    """Fill `taken` (2, n) with cores and instances for turns within `period`, 0 cores where a component has none, and `turns`
    (n,); return their sum, -1 where a component has none, and the longest turn.
    """
    used, longest, all_have = 0, 0.0, True
    for row in range(len(visits)):
        cores, instances = shape_within(curves, limits, visits[row], row, period)
        taken[0, row], taken[1, row] = cores, instances
        if cores == 0:
            all_have = False
            continue
        used += cores * instances
        turns[row] = turn_of(curves, limits, visits, row, cores, instances)
        longest = max(longest, turns[row])
    return (used, longest) if all_have else (-1, 0.0)


def fastest_of(level, fall, knots, row, low, high):
    """Return the least T_c(p) in [low, high]: at one of these, or at a knot between them."""
    least = min(seconds_of(level, fall, knots, row, low), seconds_of(level, fall, knots, row, high))
    for piece in range(len(knots)):
        if low < knots[piece] < high:
            least = min(least, level[row, piece] + fall[row, piece] / knots[piece])
    return least


def shortest_period(curves, limits, visits, cores, taken, turns):
    """Return the shortest period with cores of one's own, infinity where they do not suffice; `taken` (2, n) gets the fewest
    that reach it.

    The period is halved until it is near, then one turn after the other is undercut: exact. Cost O(n m) a halving or turn.
    """
    level, fall, knots = curves
    lowest, highest, used = 0.0, 0.0, 0
    for row in range(len(visits)):
        low, few = limits[0][row], limits[2][row]
        least = fastest_of(level, fall, knots, row, low, limits[1][row])
        lowest = max(lowest, visits[row] * least * share_of(limits, row, limits[3][row]))
        low = allowed_from(limits[4], limits[5], row, low, limits[1][row])
        used += low * few
        highest = max(highest, turn_of(curves, limits, visits, row, low, few))
    if used > cores:
        return inf
    some, longest = shapes_within(curves, limits, visits, lowest * (1.0 + TIE), taken, turns)
    if 0 <= some <= cores:
        return longest
    while True:
        middle = highest * (1.0 - TIE)
        if highest - lowest > NEAR * highest:
            middle = sqrt(lowest) * sqrt(highest) if highest > 2.0 * lowest else 0.5 * (lowest + highest)
        some, longest = shapes_within(curves, limits, visits, middle, taken, turns)
        if 0 <= some <= cores:
            highest = min(longest, middle)
        elif highest - lowest > NEAR * highest:
            lowest = middle
        else:
            shapes_within(curves, limits, visits, highest * (1.0 + TIE), taken, turns)
            return highest


def last_within(sizes, count):
    """Return the last place of rising sizes that is at most `count`, -1 where none is."""
    low, high = -1, len(sizes)
    while high - low > 1:
        middle = (low + high) // 2
        if sizes[middle] <= count:
            low = middle
        else:
            high = middle
    return low


def best_places(curves, limits, visits, sizes, numbers, by_stay, turns, stays, cores, instances):
    """Fill tables (n, M) with the shapes of the shortest turns on at most sizes_j cores, of equal turns the shortest stay, then
    the fewest cores; `by_stay` swaps. `numbers` are the counts of instances that are looked at.

    Cost O(n M) a number.
    """
    level, fall, knots = curves
    for row in range(len(visits)):
        low, high = limits[0][row], limits[1][row]
        shortest, count = inf, sizes[0]
        for j in range(len(sizes)):
            if low <= sizes[j] <= high and allowed_from(limits[4], limits[5], row, sizes[j], high) == sizes[j]:
                seconds = seconds_of(level, fall, knots, row, sizes[j])
                if seconds < shortest:
                    shortest, count = seconds, sizes[j]
            stays[row, j] = visits[row] * shortest if shortest < inf else inf
            turns[row, j], cores[row, j], instances[row, j] = stays[row, j], count, 1
        if limits[3][row] == 1:
            continue
        for back in range(len(sizes)):  # what fewer cores give to one instance is still in the tables
            j = len(sizes) - 1 - back
            turn, stay, many, number = inf, inf, cores[row, j], 1
            for some in numbers:
                place = last_within(sizes, sizes[j] // some)
                if place < 0 or not limits[2][row] <= some <= limits[3][row]:
                    continue
                first = stays[row, place] * share_of(limits, row, some)
                second = stays[row, place]
                one, two = (second, first) if by_stay else (first, second)
                own, other = (stay, turn) if by_stay else (turn, stay)
                if one < own * (1.0 - TIE) or (one <= own * (1.0 + TIE) and two < other):
                    turn, stay, many, number = first, second, cores[row, place], some
            turns[row, j], stays[row, j], cores[row, j], instances[row, j] = turn, stay, many, number


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    table, some, whole = np.ones((1, 1)), np.ones(1), np.ones(1, np.int64)
    curves, taken = (table, table, some), np.ones((2, 1), np.int64)
    limits = (whole, whole, whole, whole, np.ones((1, 3), np.int64), whole, -whole, some)
    yield "pieces_of", (some, table, table, some, some, 1.0, table, table)
    yield "all_seconds", (table, table, some, table, table)
    yield "best_places", (curves, limits, some, whole, whole, True, table, table, taken, taken)
    yield "shapes_within", (curves, limits, some, 1.0, taken, some)


ENTRIES = (pieces_of, all_seconds, shapes_within, best_places)
KERNELS = kernels.Source(__name__, ENTRIES, _examples, inline=True, patience=PATIENCE)
