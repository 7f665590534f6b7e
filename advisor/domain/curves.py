"""How long a component takes as a function of its cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class AmdahlCurves:
    """Curves T_c(p) = serial_s + parallel_s / p of n components, in seconds per run, at their observed load.

    Attributes
    ----------
    serial_s, parallel_s : float64 arrays (n,)
        Finite, not negative, their sum positive: every curve is positive, convex and falls with p.
    """

    serial_s: NDArray[np.float64]
    parallel_s: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.serial_s.shape != self.parallel_s.shape or self.serial_s.ndim != 1:
            raise InvalidValue("curves", self.parallel_s.shape, f"two vectors of one length, {self.serial_s.shape}")
        both = np.concatenate([self.serial_s, self.parallel_s])
        if not (np.isfinite(both).all() and (both >= 0).all() and (self.serial_s + self.parallel_s > 0).all()):
            raise InvalidValue("curves", float(both.min(initial=0.0)), "finite, not negative, with a positive sum")

    def __len__(self) -> int:
        return len(self.serial_s)

    def elapsed_s(self, cores: ArrayLike) -> NDArray[np.float64]:
        """Return T_c(cores_c) for each component; `cores` is a scalar or (n,), positive. Cost O(n)."""
        return self.serial_s + self.parallel_s / np.asarray(cores, np.float64)


@dataclass(frozen=True, slots=True)
class TabulatedCurves:
    """Curves T_c(p) of n components at whole core counts, between them linear in log T over log p. They may rise.

    Attributes
    ----------
    cores : int64 array (m,)
        The counts, rising strictly from 1.
    elapsed_s : float64 array (n, m)
        Expected time of a run at the component's observed load, seconds.
    upper_s : float64 array (n, m)
        Upper bound of that expectation at the level asked for, at least `elapsed_s`: what a cautious plan uses.
    variation : float64 array (n,)
        Squared coefficient of variation of a run's time under the load, Var[T] / E[T]^2: from the inputs and the noise.
    contention : float64 array (n,)
        kappa_c >= 0: with a active cores on the machine, T_c(p, a) = T_c(p) (1 + kappa_c max(a - p, 0)).
    peak_bytes : float64 array (n,)
        Upper bound of one instance's memory; 0 where it is not learned.
    """

    cores: NDArray[np.int64]
    elapsed_s: NDArray[np.float64]
    upper_s: NDArray[np.float64]
    variation: NDArray[np.float64]
    contention: NDArray[np.float64]
    peak_bytes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.elapsed_s)
