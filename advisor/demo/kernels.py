"""The real components of the demo: data-parallel numpy kernels, each runnable on p cores.

A record is a square matrix of side x, the predictor of every component. Its pipeline is
``multiply .. sort .. reduce``: each takes what the one before it made. A kernel splits
its input into p parts that run on p threads; numpy lets go of the interpreter lock within each part, and the inner
threads of the linear algebra library are pinned to one by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Part = Callable[[], Any]


class Workers(ThreadPoolExecutor):
    """Threads to run the parts of one invocation on; the calling thread runs the first part itself.

    With one part no other thread is touched, so a run on one core pays nothing for the others.
    """

    def run(self, parts: Iterable[Part]) -> list[Any]:
        """Run every part, each on a thread of its own, and return their results in order."""
        first, *rest = parts
        others = [self.submit(part) for part in rest]
        return [first(), *(other.result() for other in others)]


def multiply(matrix: Floats, cores: int, workers: Workers) -> Floats:
    """Return matrix @ matrix, scaled to keep its size; rows are split. O(x^3), all of it parallel."""
    out = np.empty_like(matrix)

    def part(rows: slice) -> Part:
        return lambda: np.matmul(matrix[rows], matrix, out=out[rows])

    workers.run(map(part, _shares(len(matrix), cores)))
    out /= len(matrix)
    return out


def sort(matrix: Floats, cores: int, workers: Workers) -> Floats:
    """Return the matrix with its elements in order: parts are sorted, then merged pair by pair. O(x^2 log x).

    Both run in parallel, but the last merge is one part: a serial share that does not shrink with cores.
    """
    flat = matrix.ravel().copy()
    shares = _shares(len(flat), cores)
    workers.run([lambda share=share: flat[share].sort() for share in shares])
    while len(shares) > 1:
        pairs = [slice(low.start, high.stop) for low, high in zip(shares[::2], shares[1::2], strict=False)]
        # The stable sort finds the two sorted runs and merges them: linear.
        workers.run([lambda pair=pair: flat[pair].sort(kind="stable") for pair in pairs])
        shares = pairs + shares[len(pairs) * 2 :]
    return flat.reshape(matrix.shape)


def reduce(matrix: Floats, cores: int, workers: Workers) -> float:
    """Return log Σ exp over the elements; parts are reduced in parallel. O(x^2)."""
    flat = matrix.ravel()
    sums = workers.run([lambda share=share: float(np.exp(flat[share]).sum()) for share in _shares(len(flat), cores)])
    return float(np.log(sum(sums)))


# In the order of the pipeline.
KERNELS: Mapping[str, Callable[[Any, int, Workers], Any]] = {"multiply": multiply, "sort": sort, "reduce": reduce}


def record(side: int, rng: np.random.Generator) -> Floats:
    """Return a record: a matrix of the given side, its elements uniform in [-1, 1)."""
    return rng.uniform(-1.0, 1.0, (side, side))


def _shares(length: int, parts: int) -> list[slice]:
    """Return `length` things cut into at most `parts` near-equal slices, none of them empty."""
    edges = np.linspace(0, length, min(parts, max(1, length)) + 1).astype(int).tolist()
    return [slice(low, high) for low, high in pairwise(edges)]
