"""Rising numbers to look at, the same ones whatever the most: all while they are few, then ever wider apart."""

from __future__ import annotations

ALL_INSTANCES = 32  # numbers of instances up to here are never thinned
RATIO = 1.04  # of neighbouring numbers beyond


def spaced(most: int, all_to: int, ratio: float = RATIO) -> list[int]:
    """Return all numbers from 1 up to `all_to`, then each some `ratio` above the last, at most `most`."""
    found, last = list(range(1, min(most, all_to) + 1)), float(all_to)
    while int(last * ratio) <= most:
        last *= ratio
        found.append(int(last))
    return found


def numbers_of(fewest: int, most: int) -> list[int]:
    """Return the numbers of instances to consider, the most among them."""
    return sorted({most, *(number for number in spaced(most, ALL_INSTANCES) if number >= fewest)})
