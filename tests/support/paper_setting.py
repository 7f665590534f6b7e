"""Paper 1's setting, generated: pure and seeded.

48 cores; core counts 1, 2, 4, 8, 16, 32, 40 and 47; sizes 50 to 2500 in steps of 50; ten runs of each. A run measures
T_p(x) = a·S(x)/p + (1 − a)·S(x) and an exponential of mean 5 ms on top, so its expected time, the truth, is
T_p(x) + 5 ms. The pipeline joins the paper's component with three that scale worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain.observations import Columns, ComponentNames, columns_of

Floats = NDArray[np.float64]

CORE_COUNTS = (1, 2, 4, 8, 16, 32, 40, 47)
SIZES = tuple(range(50, 2501, 50))
RUNS = 10
NOISE_S = 5e-3  # mean of the exponential


@dataclass(frozen=True, slots=True)
class Component:
    """A component whose true times are known."""

    name: str
    coefficients: tuple[float, ...]  # of S(x) = Σ c_j x^j in seconds, lowest first
    parallel_fraction: float  # the paper's alpha

    def elapsed_s(self, predictor: ArrayLike, cores: ArrayLike) -> Floats:
        """Return the expected time of a run, T_p(x) + 5 ms."""
        sequential = np.polynomial.polynomial.polyval(np.asarray(predictor, np.float64), self.coefficients)
        share = self.parallel_fraction / np.asarray(cores, np.float64) + (1.0 - self.parallel_fraction)
        return sequential * share + NOISE_S


# `multiply` is the paper's: on 4 cores at size 2500 it takes a little over 15 s, "well over 15 seconds" there. (The
# paper's 60 ms at size 400 are not on the same cubic: this one has 0.25 s.) The others need less work and scale less.
PIPELINE = (
    Component("multiply", (0.0, 0.0, 0.0, 3.9e-9), 0.999),
    Component("blocked", (0.005, 0.0, 1e-7, 5e-10), 0.99),
    Component("filter", (0.01, 0.0, 1.2e-6), 0.95),
    Component("reduce", (0.01, 5e-4), 0.7),
)


def measurements(components: Sequence[Component], seed: int) -> Columns:
    """Return every run of every component as one batch, in random order."""
    rng = np.random.default_rng(seed)
    index, predictor, cores = (
        grid.ravel() for grid in np.meshgrid(range(len(components)), SIZES, np.repeat(CORE_COUNTS, RUNS), indexing="ij")
    )
    order = rng.permutation(len(index))
    index, predictor, cores = index[order], predictor[order], cores[order]
    # The noise has mean NOISE_S and no negative values, so the truth is what a run takes on average.
    elapsed = truth(components, index, predictor, cores) - NOISE_S + rng.exponential(NOISE_S, len(index))
    return columns_of(ComponentNames([c.name for c in components]), index, predictor, cores, elapsed)


def truth(components: Sequence[Component], index: ArrayLike, predictor: ArrayLike, cores: ArrayLike) -> Floats:
    """Return the expected time of each row, in seconds."""
    rows = np.asarray(index)
    return np.choose(rows, [component.elapsed_s(predictor, cores) for component in components])
