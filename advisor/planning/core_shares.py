"""How the cores of a machine are shared by applications that each can keep so many of them busy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TIE = 1e-9  # of the largest value: differences below are none, and the split nearest to `near` is taken


def shared_by_demand(most: Sequence[int], cores: int) -> list[int]:
    """Return cores for applications in proportion to how many each could use, at least one each as far as there are cores.

    `most` are the cores that each could use, in the order of their coming: where there are fewer cores, the first get
    one. The answer is at most `most`, in sum ``min(cores, sum(most))``; fractions go to the largest, then to who came
    first. Cost O(n cores).
    """
    shares = [0] * len(most)
    for order, wanted in enumerate(most):
        shares[order] = int(wanted > 0 and sum(shares) < cores)
    left = min(cores, sum(most)) - sum(shares)
    total = sum(most)
    for _ in range(left):
        # Whose due by proportion is furthest from what it has.
        open_ = [order for order, wanted in enumerate(most) if shares[order] < wanted]
        best = max(open_, key=lambda order: (cores * most[order] / total - shares[order], -order))
        shares[best] += 1
    return shares


def best_split(
    values: Sequence[Sequence[float]], least: Sequence[int], most: Sequence[int], cores: int, near: Sequence[int]
) -> tuple[list[int], float]:
    """Return the split of all `cores` with the largest sum of values, and that sum.

    ``values[i][n]`` is what application i is worth on n cores, beyond the end as at the end; ``sum(least) <= cores <=
    sum(most)``. Among splits of the same value the one nearest to `near` is taken. Exact, for values of any shape:
    dynamic programming over applications, O(n cores^2).
    """
    scale = (
        max((abs(value) for row in values for value in row), default=0.0) * TIE / max(1, cores * cores * len(values))
    )
    best = np.full(cores + 1, -np.inf)
    best[0] = 0.0
    taken: list[list[int]] = []
    for row, low, high, at in zip(values, least, most, near, strict=True):
        found, choice = np.full(cores + 1, -np.inf), [0] * (cores + 1)
        for n in range(low, min(high, cores) + 1):
            worth = row[min(n, len(row) - 1)] - scale * (n - at) ** 2
            reached = np.full(cores + 1, -np.inf)
            reached[n:] = best[: cores + 1 - n] + worth
            better = reached > found
            found[better] = reached[better]
            for place in np.flatnonzero(better).tolist():
                choice[place] = n
        best = found
        taken.append(choice)
    split: list[int] = []
    left = cores
    for choice in reversed(taken):
        split.append(choice[left])
        left -= choice[left]
    split.reverse()
    return split, value_of(values, split)


def value_of(values: Sequence[Sequence[float]], split: Sequence[int]) -> float:
    """Return the sum of the values of a split."""
    return float(sum(row[min(n, len(row) - 1)] for row, n in zip(values, split, strict=True)))
