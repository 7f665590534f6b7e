"""Many components that take turns on the cores of groups: packed by a greedy rule, then improved by exchanges.

For a period each component goes, the widest first, where the least time is left after it. Then other orders and wider groups
are tried, as long as no more cores are taken, until the cores suffice or the steps are over. The period is halved between
what has fitted and what has not. Kernels: `advisor.kernels` says what they may do.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from math import inf, sqrt
from typing import Any

import numpy as np

from advisor import kernels
from advisor.domain.vectors import Floats, Ints
from advisor.planning.pieces import PATIENCE, TIE, last_within

STEP = 0.01  # beyond the bound of the period, where packing begins
ROUNDS_MAX = 12  # periods that are tried with exchanges
OPEN_MAX = 256  # groups into which a component may go: the fullest is closed where there are more
NEAR = 1e-3  # of a period: once the bracket is as narrow, only the period that was found is bettered
BOUND_STEP = 1e-4  # of a period, to which its bound is reported
GAIN = 1e-9  # of a period: a smaller gain is rounding
STEPS_MIN, STEPS_MAX = 200, 600  # exchanges for one period
WORK_MAX = 90_000  # pairs of components that are compared for one period: some milliseconds
WIDER, MASK = 3, 2**32 - 1  # sizes that a group may have more, and one; bits of random numbers
NOTHING = 2.0**40  # cores that no machine has
EXCHANGED_MAX = 50  # components up to which there are exchanges


def first_within(values, m, limit):
    """Return the first of the first m places of falling values that is at most `limit`; m where none is."""
    low, high = -1, m
    while high - low > 1:
        middle = (low + high) // 2
        if values[middle] <= limit:
            high = middle
        else:
            low = middle
    return high


def put_in_groups(turns, sizes, m, order, wider, period, most, group, at, left):
    """Fill `group` with a packing whose cycles are within the period; return its cores, some number above `most` where they
    are more, -1 where a component has no shape for the period. `at` and `left` get the groups' sizes and free times.

    A group is `wider`, by some sizes, than the component that opens it needs.
    """
    opened = np.zeros(OPEN_MAX, np.int64)
    for number in range(len(at)):
        at[number] = -1
    used, count, groups = 0, 0, 0
    for row in order:
        least, place = inf, -1
        for some in range(count):
            rest = left[opened[some]] - turns[row, at[opened[some]]]
            if 0.0 <= rest < least:
                least, place = rest, some
        if place < 0:
            column = first_within(turns[row], m, period)
            if column == m:
                return -1
            column = min(column + wider[row], m - 1)
            used += sizes[column]
            if used > most:
                return used
            place = fullest(opened, count, left) if count == OPEN_MAX else count
            count = max(count, place + 1)
            opened[place], at[groups], left[groups] = groups, column, period
            groups += 1
        group[row] = opened[place]
        left[group[row]] -= turns[row, at[group[row]]]
    return used


def fullest(opened, count, left):
    """Return the place of the open group with the least time left."""
    found = 0
    for some in range(1, count):
        if left[opened[some]] < left[opened[found]]:
            found = some
    return found


def copy(given, into):
    """Copy numbers."""
    for row in range(len(given)):
        into[row] = given[row]


def next_number(state, n):
    """Return the next number below n of a generator (Knuth and Lewis)."""
    state[0] = (state[0] * 1664525 + 1013904223) & MASK
    return (state[0] >> 8) % n


def exchange(turns, sizes, m, cores, period, order, wider, group, at, left, tries):
    """Pack in other orders and wider groups, as long as no more cores are taken; return whether `cores` suffice.

    One try exchanges two components of `order`, or changes by how many sizes the group that a component opens is `wider`.
    """
    state, n = np.ones(1, np.int64), len(order)
    best = put_in_groups(turns, sizes, m, order, wider, period, NOTHING, group, at, left)
    for step in range(tries):
        if best <= cores:
            break
        one, other = next_number(state, n), next_number(state, n)
        before = wider[one]
        if step % 2:
            order[one], order[other] = order[other], order[one]
        else:
            wider[one] = next_number(state, WIDER)
        used = put_in_groups(turns, sizes, m, order, wider, period, best, group, at, left)
        if 0 <= used <= best:
            best = used
            continue
        wider[one] = before
        if step % 2:
            order[one], order[other] = order[other], order[one]
    put_in_groups(turns, sizes, m, order, wider, period, NOTHING, group, at, left)
    return 0 <= best <= cores


def shortest_of(turns, sizes, m, cores, period, group, at, cycle):
    """Return the shortest period of groups that take at most `cores` cores at `period`; `at` gets their sizes, -1 for none.

    The slowest group gets more cores as long as there are some.
    """
    used, n = 0, len(group)
    for number in range(n):
        at[number] = -1
        for j in range(m):
            cycle[number, j] = 0.0
    for row in range(n):
        at[group[row]] = 0
        for j in range(m):
            cycle[group[row], j] += turns[row, j]
    for number in range(n):
        if at[number] == 0:
            at[number] = first_within(cycle[number], m, period)
            used += sizes[at[number]]
    while True:
        slowest, longest = -1, 0.0
        for number in range(n):
            if at[number] >= 0 and cycle[number, at[number]] > longest:
                slowest, longest = number, cycle[number, at[number]]
        if slowest < 0:
            return 0.0
        wider = first_within(cycle[slowest], m, longest * (1.0 - TIE))
        if wider == m or used + sizes[wider] - sizes[at[slowest]] > cores:
            break
        used += sizes[wider] - sizes[at[slowest]]
        at[slowest] = wider
    for number in range(n):
        if at[number] >= 0:
            at[number] = first_within(cycle[number], m, longest * (1.0 + TIE))
    return longest


def least_period(turns, sizes, m, cores, shortest, longest):
    """Return a period that nothing on `cores` cores beats, from `shortest` to `longest`, by the work of turns; to BOUND_STEP.

    A group's cores times its cycle are at least the sum over its turns of the least size times turn that is within the period.
    """
    n = len(turns)
    work = np.zeros((n, m))
    for row in range(n):
        least = inf
        for back in range(m):
            least = min(least, sizes[m - 1 - back] * turns[row, m - 1 - back])
            work[row, m - 1 - back] = least
    low, high = shortest, longest
    middle = low
    while low < high:
        total = 0.0
        for row in range(n):
            total += work[row, first_within(turns[row], m, middle)]
        if total <= middle * cores * (1.0 + TIE):
            high = middle
        else:
            low = middle
        if high - low <= BOUND_STEP * high:
            break
        middle = sqrt(low) * sqrt(high)
    return low


def longest_cycle(turns, group, at, cycle):
    """Return the longest cycle of groups on their sizes; `cycle` gets those of all."""
    longest = 0.0
    for number in range(len(group)):
        cycle[number] = 0.0
    for row in range(len(group)):
        cycle[group[row]] += turns[row, at[group[row]]]
        longest = max(longest, cycle[group[row]])
    return longest


def shortest_packing(turns, sizes, order, cores, steps, enough, group, at):
    """Return the shortest period that is found; `group` gets who is with whom, `at` each group's place of `sizes`, or -1.

    It is infinite where nothing on so many cores is below `enough`. `steps` bounds the exchanges for one period; 0: there are
    none.
    """
    n, m = len(group), last_within(sizes, cores) + 1
    high, low = 0.0, 0.0
    for row in range(n):  # one group
        group[row], at[row] = 0, -1
        high += turns[row, m - 1]
        low = max(low, turns[row, m - 1])
    at[0] = m - 1
    least = least_period(turns, sizes, m, cores, low, high) if high < inf else inf
    if least >= enough * (1.0 - TIE):
        return inf
    some, other, left, cycles = (
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n),
        np.zeros((n if steps else 0, m)),
    )
    own, wider = np.zeros(n, np.int64), np.zeros(n, np.int64)
    copy(order, own)
    low, middle, further, exchanges, rounds = least, least * (1.0 + TIE), STEP, False, 0
    while rounds < ROUNDS_MAX and high > least * (1.0 + GAIN):
        if exchanges:
            fits = exchange(turns, sizes, m, cores, middle, own, wider, some, other, left, steps)
        else:
            fits = 0 <= put_in_groups(turns, sizes, m, own, wider, middle, cores, some, other, left) <= cores
        rounds += exchanges
        if fits:
            copy(some, group)
            copy(other, at)
            high = min(middle, shortest_of(turns, sizes, m, cores, middle, group, at, cycles)) if exchanges else middle
        elif middle >= high * (1.0 - GAIN):
            break
        else:
            low = middle
        if not exchanges and high - low <= NEAR * high:
            exchanges, low, rounds = True, least, 0 if steps else ROUNDS_MAX
        middle = high * (1.0 - GAIN) if high - low <= NEAR * high else sqrt(low) * sqrt(high)
        if not exchanges and low * (1.0 + further) < middle:  # most packings come near the bound
            middle, further = low * (1.0 + further), 2.0 * further
    if steps > 0:
        shortest_of(turns, sizes, m, cores, high * (1.0 + TIE), group, at, cycles)
    return longest_cycle(turns, group, at, left)


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    whole = np.zeros(1, np.int64)
    yield "shortest_packing", (np.ones((1, 1)), whole + 1, whole, 1, 1, 0.5, whole, whole)


KERNELS = kernels.Source(__name__, (shortest_packing,), _examples, patience=PATIENCE)


def shortest_packing_of(
    turn_s: Floats, sizes: Ints, cores: int, enough_s: float = np.inf
) -> tuple[float, Ints, Ints] | None:
    """Return a short period on at most `cores` cores, each component's group, (n,), and each group's cores, 0 for none.

    `turn_s` (n, M): seconds of a turn on each of `sizes`, falling, infinite where no shape fits. What is found does not depend
    on other numbers of cores. None where nothing is below `enough_s`, which is proved then. Cost O(n^2) a halving, O(n^2 M)
    with exchanges.
    """
    n = len(turn_s)
    order = np.argsort(-turn_s[np.arange(n), np.isfinite(turn_s).argmax(axis=1)], kind="stable")
    steps = 0 if n > EXCHANGED_MAX else min(max(WORK_MAX // (n * n), STEPS_MIN), STEPS_MAX)
    group, at = np.empty((2, n), np.int64)
    period = float(
        KERNELS.shortest_packing(np.ascontiguousarray(turn_s), sizes, order, cores, steps, enough_s, group, at)
    )
    return (period, group, np.where(at < 0, 0, sizes[at])) if period < np.inf else None
