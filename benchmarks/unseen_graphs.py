"""Task graphs of six programs that nobody looked at while the models of whole programs were made; see `program_graphs`.

They were written down, with their times and sizes, before the first prediction, and left so.
"""

from __future__ import annotations

import math

import numpy as np
from program_graphs import Case, Strands

PAIR_NS, LENGTHS = 2.0, (100, 300)  # of an alignment: a cell of its table, and how long sequences are


def alignment(n: int) -> Strands:
    """Protein alignment: one thread creates a task a pair of n sequences, and waits once."""
    lengths = np.random.default_rng(n).integers(*LENGTHS, n)
    out = Strands()
    main, ends = out.strand(200.0), list[int]()
    for i in range(n):
        for j in range(i):
            main = out.strand(20.0, (main,), 1)
            ends.append(out.strand(float(lengths[i] * lengths[j]) * PAIR_NS, (main,)))
    out.strand(10.0, (main, *ends), 0, 1)
    return out


def cholesky(n: int) -> Strands:
    """Cholesky of n x n blocks by phases: the diagonal, its column, then all blocks right of it; a wait after each."""
    out = Strands()
    main = out.strand(100.0)
    for k in range(n):
        main = out.strand(5_000.0, (main,))
        column = range(k + 1, n)
        for times in (
            [8_000.0 for _ in column],
            [9_000.0 if i == j else 16_000.0 for i in column for j in range(k + 1, i + 1)],
        ):
            ends: list[int] = []
            for ns in times:
                main = out.strand(15.0, (main,), 1)
                ends.append(out.strand(ns, (main,)))
            main = out.strand(10.0, (main, *ends), 0, 1)
    return out


def matmul(n: int) -> Strands:
    """Matrices by eight products of halves, four and, after a wait, four more that add to them; below 64 in sequence."""
    cut, flop_ns = 64, 0.5
    out = Strands()

    def task(m: int, after: int | None) -> int:
        if m <= cut:
            return out.strand(2.0 * m**3 * flop_ns, () if after is None else (after,))
        first = out.strand(20.0, () if after is None else (after,), 4, 1)
        second = out.strand(20.0, [task(m // 2, first) for _ in range(4)], 4, 1)
        return out.strand(5.0, [task(m // 2, second) for _ in range(4)])

    task(n, None)
    return out


def mergesort(n: int) -> Strands:
    """Two sorts of halves, and a merge in sequence; below 512 in sequence."""
    cut, compare_ns = 512, 3.0
    out = Strands()

    def task(m: int, after: int | None) -> int:
        if m <= cut:
            return out.strand(m * math.log2(max(m, 2)) * compare_ns, () if after is None else (after,))
        halves = [lambda s: task(m // 2, s), lambda s: task(m - m // 2, s)]
        return out.forked(20.0, halves, m * compare_ns, after)

    task(n, None)
    return out


def unbalanced(n: int) -> Strands:
    """Unbalanced tree search to depth n: one tree, its nodes with 2 children on average, geometrically distributed."""
    node_ns, children_mean = 400.0, 2.0
    out = Strands()
    draw = np.random.default_rng(1)

    def task(depth: int, seed: int, after: int | None) -> int:
        own = np.random.default_rng(seed)  # of the node, so that a deeper tree has the shallower one at its top
        children = int(own.geometric(1.0 / (1.0 + children_mean))) - 1 if depth else 4
        if depth == n or not children:
            return out.strand(node_ns, () if after is None else (after,))
        seeds = own.integers(0, 2**62, children).tolist()
        return out.forked(node_ns, [lambda s, of=of: task(depth + 1, of, s) for of in seeds], 5.0, after)

    task(0, int(draw.integers(2**62)), None)
    return out


def wavefront(n: int) -> Strands:
    """Dynamic programming over n x n blocks: each after its left and its upper one; one thread creates all, and waits once."""
    out = Strands()
    main, above = out.strand(100.0), list[int]()
    for _ in range(n):
        row: list[int] = []
        for j in range(n):
            main = out.strand(40.0, (main,), 1)
            row.append(out.strand(20_000.0, (main, *above[j : j + 1], *row[-1:])))
        above = row
    out.strand(10.0, (main, above[-1]), 0, 1)
    return out


UNSEEN: dict[str, Case] = {
    "alignment": Case(alignment, "n", tuple(range(20, 201, 20)), (280, 350, 440)),
    "cholesky": Case(cholesky, "n", tuple(range(8, 41, 4)), (50, 60, 70)),
    "matmul": Case(matmul, "n", (2**7, 2**8, 2**9, 2**10), (2**11, 2**12)),
    "mergesort": Case(mergesort, "n", tuple(2**k for k in range(12, 20)), (2**20, 2**21, 2**22)),
    "unbalanced": Case(unbalanced, "2^n", tuple(range(5, 15)), (16, 17, 18)),
    "wavefront": Case(wavefront, "n", tuple(range(10, 101, 10)), (150, 200, 250)),
}
