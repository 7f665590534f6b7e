"""Every way to put things into groups, for oracles that try them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator


def partitions(rows: list[int]) -> Iterator[list[list[int]]]:
    """Yield each partition of some numbers once."""
    if not rows:
        yield []
        return
    first, rest = rows[0], rows[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            for more in partitions([row for row in rest if row not in others]):
                yield [[first, *others], *more]
