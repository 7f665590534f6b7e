"""What paper 3 sums: the columns of each intermediate model of a whole program, one line a model.

A column is a product of a size term and a worker term, or of two measured numbers and a worker term; logarithms are
natural. Source: Namsraijav and Taura 2016, Eqs. 10-15. A ladder of quarter powers of n stands where Eqs. 11, 13 and 14 have
n, n^2 and n^3 with logarithms ("of course, not exhaustive"): what grows like any power lies between two neighbours. The span
is what the paper names as the feature that its model lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats


@dataclass(frozen=True, slots=True)
class Point:
    """What columns are made of: a size in the program's transformation, the workers, and what intermediate models say there."""

    size: float
    workers: float
    serial_work: float = 0.0
    creates: float = 0.0
    waits: float = 0.0
    span: float = 0.0


def _log(n: float) -> float:
    return elementary.log(n) if n > 0.0 else 0.0


LADDER: Final = tuple(f"n^{quarters}/4" for quarters in range(1, 13))


def _power(quarters: int) -> Callable[[float], float]:
    return lambda n: math.prod([math.sqrt(math.sqrt(n))] * quarters)


SIZE_TERMS: Final[Mapping[str, Callable[[float], float]]] = {
    "1": lambda n: 1.0,
    "n": lambda n: n,
    "n log n": lambda n: n * _log(n),
    "n^2": lambda n: n * n,
    "log n": lambda n: max(_log(n), 0.0),
    "log^2 n": lambda n: _log(n) ** 2,
    "log^3 n": lambda n: max(_log(n), 0.0) ** 3,
    **{name: _power(quarters) for quarters, name in enumerate(LADDER, 1)},
}
WORKER_TERMS: Final[Mapping[str, Callable[[float], float]]] = {
    "1": lambda p: 1.0,
    "p-1": lambda p: p - 1.0,
    "(p-1)/p": lambda p: (p - 1.0) / p,
    "(p-1)^2": lambda p: (p - 1.0) ** 2,
    "(p-1)^2/p": lambda p: (p - 1.0) ** 2 / p,
}
TRANSFORMS: Final[Mapping[str, Callable[[float], float]]] = {
    "n": lambda n: n,
    "2^n": elementary.exp2,  # paper 3: for programs whose work is exponential in their input
    "n^2": lambda n: n * n,
    "n^3": lambda n: n * n * n,
    "sqrt n": math.sqrt,
    "n!": lambda n: math.gamma(n + 1.0),
}


@dataclass(frozen=True, slots=True)
class Intermediate:
    """An intermediate model: sum over k of weight_k * factor_k * size term_k * worker term_k, weights not negative."""

    terms: tuple[tuple[str, str, str], ...]  # (factor, size term, worker term): an attribute of `Point`, or empty for 1
    intercept: bool = False  # a constant is fitted too (b_1 of Eq. 11)

    def columns(self, at: Point) -> Floats:
        """Return the columns (m,) at a point."""
        return np.array(
            [
                (getattr(at, factor) if factor else 1.0) * SIZE_TERMS[size](at.size) * WORKER_TERMS[workers](at.workers)
                for factor, size, workers in self.terms
            ]
        )


def _of_size(*sizes: str, workers: str = "1") -> tuple[tuple[str, str, str], ...]:
    return tuple(("", size, workers) for size in sizes)


_MOVED = tuple((count, "1", workers) for count in ("creates", "waits") for workers in ("1", "p-1", "(p-1)/p"))

INTERMEDIATE: Final[Mapping[str, Intermediate]] = {
    "serial_work": Intermediate(_of_size(*LADDER), True),
    "inflation": Intermediate((("serial_work", "1", "(p-1)/p"), ("serial_work", "1", "p-1"))),  # Eq. 10
    "creates": Intermediate(_of_size(*LADDER)),
    "waits": Intermediate(_of_size(*LADDER)),
    "delay": Intermediate(_MOVED),  # Eq. 12
    "no_work": Intermediate(_of_size("1", "n", "n log n", "n^2", workers="(p-1)^2")),  # Eq. 15
    "span": Intermediate(_of_size("log n", "log^2 n", "log^3 n", *LADDER), True),
    # A greedy schedule leaves at most (p - 1) * span without work (Graham); how much of it is the program's.
    "no_work_span": Intermediate((("span", "1", "p-1"), ("span", "1", "(p-1)^2/p"))),
}
