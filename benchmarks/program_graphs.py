"""Task graphs of six programs of the Barcelona OpenMP Tasks Suite, as strands with creations and waits: no program is run.

A task that creates others and waits for them is two strands: what it does before its wait (with the creations) and after it;
a leaf is one. Times in ns are stated here: they are of the order of one core of a machine of 2016, not measured. Every strand's
time varies by NOISE (log-normal, seeded), so that no model of it can be perfect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.domain.task_graphs import TaskGraph, task_graph

NOISE = 0.05


@dataclass
class Strands:
    """A graph as it grows."""

    times: list[float] = field(default_factory=list)
    creates: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)

    def strand(self, ns: float, after: Sequence[int] = (), creates: int = 0, waits: int = 0) -> int:
        """Add a strand; return its number."""
        number = len(self.times)
        self.times.append(ns)
        self.creates.append(creates)
        self.waits.append(waits)
        self.parents += after
        self.children += [number] * len(after)
        return number

    def forked(
        self, before_ns: float, branches: Sequence[Callable[[int], int]], after_ns: float, after: int | None
    ) -> int:
        """Add a task that creates branches, waits for them and ends; each branch adds its strands and returns the last."""
        start = self.strand(before_ns, () if after is None else (after,), len(branches), 1)
        return self.strand(after_ns, [branch(start) for branch in branches])

    def graph(self, seed: int) -> TaskGraph:
        """Return the graph, its times varied."""
        vary = np.exp(NOISE * np.random.default_rng(seed).standard_normal(len(self.times)))
        edges = np.stack([np.array(self.parents, np.int64), np.array(self.children, np.int64)], axis=1)
        columns = {"creates": self.creates, "waits": self.waits}
        return task_graph(np.array(self.times) * vary, edges, unit="ns", columns=columns)


def fib(n: int) -> Strands:
    """fib(n), two tasks a call down to the cut-off; below it, sequential calls."""
    cut, call_ns = 12, 4.0
    calls = [1.0, 1.0]
    while len(calls) <= max(n, cut):
        calls.append(calls[-1] + calls[-2] + 1.0)
    out = Strands()

    def task(m: int, after: int | None) -> int:
        if m <= cut:
            return out.strand(calls[m] * call_ns, () if after is None else (after,))
        return out.forked(20.0, [lambda s: task(m - 1, s), lambda s: task(m - 2, s)], 10.0, after)

    task(n, None)
    return out


def _queens(n: int, row: int, columns: int, left: int, right: int) -> int:
    """Nodes of the search below a partial placement."""
    if row == n:
        return 1
    nodes, free = 1, ~(columns | left | right) & ((1 << n) - 1)
    while free:
        place = free & -free
        free ^= place
        nodes += QUEENS[0](n, row + 1, columns | place, (left | place) << 1, (right | place) >> 1)
    return nodes


QUEENS: list[Callable[..., int]] = [_queens]


def _compiled_queens() -> None:
    """Count with numba where it is there: 100 times as fast."""
    if QUEENS[0] is not _queens:
        return
    try:
        from numba import njit  # noqa: PLC0415 - an extra
    except ImportError:
        return

    @njit("int64(int64, int64, int64, int64, int64)")
    def queens(n: int, row: int, columns: int, left: int, right: int) -> int:
        if row == n:
            return 1
        nodes, free = 1, ~(columns | left | right) & ((1 << n) - 1)
        while free:
            place = free & -free
            free ^= place
            nodes += queens(n, row + 1, columns | place, (left | place) << 1, (right | place) >> 1)
        return nodes

    QUEENS[0] = queens


def nqueens(n: int) -> Strands:
    """All placements of n queens: a task a placement down to depth 4, the counts of nodes below are the real ones."""
    depth, node_ns, copy_ns = 4, 25.0, 40.0
    _compiled_queens()
    out = Strands()

    def task(row: int, columns: int, left: int, right: int, after: int | None) -> int:
        if row == depth:
            return out.strand(QUEENS[0](n, row, columns, left, right) * node_ns, (after,) if after is not None else ())
        branches = []
        free = ~(columns | left | right) & ((1 << n) - 1)
        while free:
            place = free & -free
            free ^= place
            branches.append(
                lambda s, c=columns | place, le=(left | place) << 1, ri=(right | place) >> 1: task(
                    row + 1, c, le, ri, s
                )
            )
        if not branches:
            return out.strand(node_ns * n, () if after is None else (after,))
        return out.forked(n * (node_ns + copy_ns), branches, 5.0 * n, after)

    task(0, 0, 0, 0, None)
    return out


def sort(n: int) -> Strands:
    """Cilksort: four sorts, two merges, a merge; merges split in two by binary search; below 512 in sequence."""
    cut, compare_ns = 512, 3.0
    out = Strands()

    def merge(m: int, after: int) -> int:
        if m <= cut:
            return out.strand(m * 1.5 * compare_ns, (after,))
        half = m // 2
        search = 10.0 * math.log2(m)
        return out.forked(search, [lambda s: merge(half, s), lambda s: merge(m - half, s)], 5.0, after)

    def task(m: int, after: int | None) -> int:
        if m <= cut:
            return out.strand(m * math.log2(max(m, 2)) * compare_ns, () if after is None else (after,))
        quarter = m // 4
        parts = [quarter, quarter, quarter, m - 3 * quarter]
        start = out.strand(30.0, () if after is None else (after,), 4, 1)
        ends = [task(part, start) for part in parts]
        middle = out.strand(20.0, ends, 2, 1)
        ends = [merge(parts[0] + parts[1], middle), merge(parts[2] + parts[3], middle)]
        last = out.strand(20.0, ends)
        return merge(m, last)

    task(n, None)
    return out


def sparselu(n: int) -> Strands:
    """LU of n x n blocks, those of BOTS' pattern empty at first: one thread creates a task a block and phase, and waits."""
    block_ns = {"lu0": 6_000.0, "fwd": 9_000.0, "bdiv": 9_000.0, "bmod": 18_000.0}
    out = Strands()
    full = [[_filled(i, j) for j in range(n)] for i in range(n)]
    main = out.strand(100.0)
    for k in range(n):
        main = out.strand(block_ns["lu0"], (main,))
        right = [j for j in range(k + 1, n) if full[k][j]]
        below = [i for i in range(k + 1, n) if full[i][k]]
        for kinds in (
            [("fwd", j) for j in right] + [("bdiv", i) for i in below],
            [("bmod", (i, j)) for i in below for j in right],
        ):
            ends: list[int] = []
            for kind, block in kinds:
                made = out.strand(15.0, (main,), 1)  # the creator, one strand a creation: tasks start while it goes on
                ends.append(out.strand(block_ns[kind], (made,)))
                main = made
                if kind == "bmod":
                    full[block[0]][block[1]] = True
            main = out.strand(10.0, (main, *ends), 0, 1)
    return out


def _filled(i: int, j: int) -> bool:
    """BOTS' genmat: which blocks hold something."""
    empty = (i < j and i % 3 != 0) or (i > j and j % 3 != 0) or i % 2 == 1 or j % 2 == 1
    return not empty or i == j or i - 1 == j or i == j - 1


def strassen(n: int) -> Strands:
    """Seven products a level down to 64 x 64; sums before and after each."""
    cut, flop_ns, add_ns = 64, 0.5, 0.7
    out = Strands()

    def task(m: int, after: int | None) -> int:
        if m <= cut:
            return out.strand(2.0 * m**3 * flop_ns, () if after is None else (after,))
        half = (m // 2) ** 2 * add_ns
        return out.forked(10 * half, [lambda s: task(m // 2, s)] * 7, 8 * half, after)

    task(n, None)
    return out


def fft(n: int) -> Strands:
    """Cooley-Tukey: a transform of each half, then twiddles in parallel, split in two down to 128 points."""
    cut, point_ns = 128, 6.0
    out = Strands()

    def twiddle(m: int, after: int) -> int:
        if m <= cut:
            return out.strand(m * point_ns, (after,))
        return out.forked(8.0, [lambda s: twiddle(m // 2, s), lambda s: twiddle(m - m // 2, s)], 4.0, after)

    def task(m: int, after: int | None) -> int:
        if m <= cut:
            return out.strand(m * math.log2(max(m, 2)) * point_ns, () if after is None else (after,))
        joined = out.forked(m * 0.5, [lambda s: task(m // 2, s), lambda s: task(m // 2, s)], 10.0, after)
        return twiddle(m, joined)

    task(n, None)
    return out


@dataclass(frozen=True)
class Case:
    """A program, its transformation (paper 3: 2^n for fib and nqueens), and sizes as the paper spreads them."""

    build: Callable[[int], Strands]
    transform: str
    train: tuple[int, ...]
    test: tuple[int, ...]


def _spread(low: float, high: float, count: int) -> tuple[int, ...]:
    return tuple(sorted({round(2**each) for each in np.linspace(low, high, count)}))


CASES: dict[str, Case] = {
    "fft": Case(fft, "n", tuple(2**k for k in range(9, 18)), (2**18, 2**19)),
    "fib": Case(fib, "2^n", tuple(range(14, 33)), (34, 35, 36)),
    "nqueens": Case(nqueens, "2^n", tuple(range(6, 12)), (12, 13, 14)),
    "sort": Case(sort, "n", _spread(12, 19, 15), _spread(20, 22, 5)),
    "sparselu": Case(sparselu, "n", tuple(range(10, 61, 5)), (70, 80, 90, 100)),
    "strassen": Case(strassen, "n", (2**7, 2**8, 2**9, 2**10, 2**11), (2**12, 2**13)),
}
