"""How long a component takes as a function of its cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain import elementary
from advisor.domain.allowed_cores import AllowedCores
from advisor.errors import InvalidValue

VALUES = ("elapsed_s", "upper_s", "variation", "contention", "peak_bytes")  # of curves as tables, by component
UPPER_SLACK = 1e-9  # an upper bound may lie this share below its curve: the rounding of two computations


# The chance with which each component keeps up with a throughput that is promised: the end of an interval of 95 %.
PROMISED = 0.975
DOUBLINGS_MAX = 4  # of cores beyond the most seen that siblings' runs say something of
Growth = tuple[float, ...]  # ln of a time's growth by so many doublings of the cores; NaN where it is not known


class Seen(NamedTuple):
    """What curves rest on, by component, (n,) each: the model's name, its runs, and the fewest and most cores of these.

    `growth` (n, DOUBLINGS_MAX): beyond the most cores, what a promise allows for, see `engine.siblings`.
    """

    models: NDArray[Any]
    runs: NDArray[np.int64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    growth: NDArray[np.float64]


def _are_legal(values: NDArray[np.float64]) -> bool:
    """Return whether all are finite and not negative."""
    return float(values.min(initial=0.0)) >= 0.0 and float(values.max(initial=0.0)) < np.inf


@dataclass(frozen=True)
class TabulatedCurves:
    """Curves T_c(p) of n components at whole core counts, between them linear in 1/p, as Amdahl's is. They may rise."""

    cores: NDArray[np.int64]  # int64 array (m,): the counts, rising strictly from 1
    # float64 array (n, m): expected time of a run at the component's observed load, seconds
    elapsed_s: NDArray[np.float64]
    # float64 array (n, m): upper bound of that expectation at the level asked for, at least `elapsed_s`: what a
    # cautious plan uses
    upper_s: NDArray[np.float64]
    # float64 array (n,): squared coefficient of variation of a run's time under the load, Var[T] / E[T]^2: from the
    # inputs and the noise
    variation: NDArray[np.float64]
    # float64 array (n,): kappa_c >= 0: with a active cores on the machine, T_c(p, a) = T_c(p) (1 + kappa_c max(a - p,
    # 0))
    contention: NDArray[np.float64]
    # float64 array (n,): upper bound of one instance's memory; 0 where it is not learned
    peak_bytes: NDArray[np.float64]
    seen: Seen | None = None  # what they rest on, reported beside an answer: beyond what was seen they are extrapolated
    allowed: tuple[AllowedCores | None, ...] | None = (
        None  # (n,): the counts that a component itself allows; None: every
    )

    def __post_init__(self) -> None:
        n, m = len(self.elapsed_s), len(self.cores)
        if m < 1 or self.cores[0] != 1 or (np.diff(self.cores) <= 0).any():
            raise InvalidValue("curves.cores", self.cores.tolist()[:8], "rising strictly from 1")
        tables: list[NDArray[np.float64]] = [getattr(self, name) for name in VALUES]
        for name, values in zip(VALUES, tables, strict=True):
            shape = (n, m) if name in VALUES[:2] else (n,)
            if values.shape != shape:
                raise InvalidValue(f"curves.{name}", values.shape, f"of shape {shape}")
        if not _are_legal(np.concatenate(tables, axis=None)):  # all at once: this is on the way of every plan
            name, values = next(one for one in zip(VALUES, tables, strict=True) if not _are_legal(one[1]))
            raise InvalidValue(f"curves.{name}", float(values.min()), "finite and not negative")
        if not self.elapsed_s.all():
            raise InvalidValue("curves.elapsed_s", 0.0, "positive")
        if not (self.upper_s >= self.elapsed_s * (1 - UPPER_SLACK)).all():
            raise InvalidValue("curves.upper_s", float((self.upper_s - self.elapsed_s).min()), "at least elapsed_s")

    def __len__(self) -> int:
        return len(self.elapsed_s)

    def hopeful(self, price: float) -> TabulatedCurves:
        """Return the shortest times that what was seen does not exclude, in place of the expected ones.

        Within the counts seen that is so many times `spread` below the expectation; beyond them a run may speed up with
        its cores, T(p) = T(most) most / p. What even these do not reach is impossible.
        """
        least: NDArray[np.float64] = self.elapsed_s * elementary.exp(-price * self.spread)
        if self.seen is not None:
            at = np.maximum(np.searchsorted(self.cores, self.seen.most, side="right") - 1, 0)
            known = least[np.arange(len(self)), at] * self.cores[at]
            beyond = self.cores > self.seen.most[:, None]
            least = np.where(beyond, np.minimum(least, known[:, None] / self.cores), least)
        return replace(self, elapsed_s=least, upper_s=np.maximum(least, self.upper_s))

    @cached_property
    def spread(self) -> NDArray[np.float64]:
        """log(upper / expected), (n, m): how uncertain each curve is."""
        return elementary.log(np.maximum(self.upper_s / self.elapsed_s, 1.0))

    @property
    def doubtful(self) -> bool:
        """Whether times may be others than those expected: what was seen has an end, or is uncertain."""
        return self.seen is not None or self.uncertain

    @cached_property
    def uncertain(self) -> bool:
        """Whether some curve is: its upper bound lies above it."""
        return bool((self.upper_s > self.elapsed_s).any())

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(
        cls,
        cores: ArrayLike,
        elapsed_s: ArrayLike,
        *,
        upper_s: ArrayLike | None = None,
        variation: ArrayLike = 0.0,
        contention: ArrayLike = 0.0,
        peak_bytes: ArrayLike = 0.0,
    ) -> TabulatedCurves:
        """Return curves from anything array-like; what is absent is certain, steady, alone and without size.

        `cores` is (m,), `elapsed_s` and `upper_s` (n, m), the others (n,) or one number for all. Cost O(n m).
        """
        seconds = np.atleast_2d(np.ascontiguousarray(elapsed_s, np.float64))
        upper = seconds if upper_s is None else np.atleast_2d(np.ascontiguousarray(upper_s, np.float64))
        wide: Any = (np.broadcast_to(np.asarray(part, np.float64), (len(seconds),)).copy()
                for part in (variation, contention, peak_bytes))  # fmt: skip
        return cls(np.asarray(cores, np.int64), seconds, upper, *wide)

    def at(self, cores: ArrayLike, *, upper: bool = False) -> NDArray[np.float64]:
        """Return T_c(p) for counts p, shape (n, k) for `cores` (k,): linear in 1/p between the counts.

        Beyond the last count the curve stays at its last value: nobody measured what more cores do. Cost O(n k).
        """
        wanted = np.asarray(cores, np.float64)
        table = self.upper_s if upper else self.elapsed_s
        if np.array_equal(wanted, self.cores):
            return table.copy()
        place = np.clip(np.searchsorted(self.cores, wanted, side="right") - 1, 0, max(len(self.cores) - 2, 0))
        after = np.minimum(place + 1, len(self.cores) - 1)
        left, right = self.cores[place].astype(np.float64), self.cores[after].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(right > left, (1 / left - 1 / wanted) / (1 / left - 1 / right), 0.0)
        share = np.clip(share, 0.0, 1.0)
        between = table[:, place] * (1 - share) + table[:, after] * share
        exact = np.where(share <= 0.0, table[:, place], table[:, after])
        return np.where((share > 0.0) & (share < 1.0), between, exact)


def allowed_by_row(parts: Sequence[TabulatedCurves]) -> tuple[AllowedCores | None, ...] | None:
    """Return the counts that the components of several curves allow, one after another; None where all allow every count."""
    own = [part.allowed or (None,) * len(part) for part in parts]
    found = tuple(one for some in own for one in some)
    return found if any(found) else None
