"""The demand of tabulated curves: between two counts of the table a power of p, so that closed forms hold there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.domain.curves import TabulatedCurves
from advisor.planning.asked.demand import Demand, Floats, Ints
from advisor.planning.asked.shape_demand import ShapeDemand

FEW = 1e-9  # steps of log p that a guess may miss by rounding: it is tried on both sides


@dataclass(frozen=True, slots=True)
class TableDemand:
    """Seconds of work per record that enters the network, D_c(p) = times_c T_c(p), T_c tabulated.

    Attributes
    ----------
    times : float64 array (n,)
        Visits, and the factor of a what-if.
    knots : float64 array (m,)
        Counts of the table, from 1.
    table_s : float64 array (n, m)
        T_c at them; between them log-log linear.
    slope : float64 array (n, m)
        d log T / d log p from each knot to the next; 0 from the last one on.
    low, high, instances_max : int64 arrays (n,)
        As in `Demand`; high is at most the last knot.
    """

    times: Floats
    knots: Floats
    table_s: Floats
    slope: Floats
    low: Ints
    high: Ints
    instances_max: Ints

    def __len__(self) -> int:
        return len(self.times)

    @property
    def single(self) -> bool:
        """True when no component may have a second instance."""
        return bool(self.instances_max.max(initial=1) == 1)

    @property
    def visited(self) -> NDArray[np.bool_]:
        """Which components any record visits."""
        return self.times > 0

    def rows(self, chosen: NDArray[np.bool_] | Ints) -> TableDemand:
        """Return the demand of some of the components."""
        parts = {name: getattr(self, name)[chosen] for name in self.__slots__ if name != "knots"}
        return replace(self, **parts)

    def seconds(self, cores: Ints) -> Floats:
        """Return D_c(cores_c), shape (n,). Cost O(n log m)."""
        return self._at(np.arange(len(self)), cores)

    def _at(self, component: Ints, cores: Ints | Floats) -> Floats:
        place = np.searchsorted(self.knots, cores, side="right") - 1
        ratio = cores / self.knots[place]
        return self.times[component] * self.table_s[component, place] * ratio ** self.slope[component, place]

    def period_s(self, cores: Ints, instances: Ints) -> Floats:
        """Return the seconds between records that each component can sustain, D_c / instances_c, shape (n,)."""
        return self.seconds(cores) / instances

    def latency_s(self, cores: Ints) -> float:
        """Return the seconds of a record in the network, without queueing."""
        return float(self.seconds(cores).sum())

    def _inner(self, low: Ints, high: Ints) -> Floats:
        """Return D_c at the knots, infinite outside [low_c, high_c], (n, m)."""
        outside = (self.knots < low[:, None]) | (self.knots > high[:, None])
        return np.where(outside, np.inf, self.times[:, None] * self.table_s)

    def fastest(self, sizes: Ints) -> Ints:
        """Return the cores up to sizes_c, within the limits, on which each component is fastest: fewest of equals."""
        end = np.clip(sizes, self.low, self.high)
        inner = self._inner(self.low, end)
        place = inner.argmin(axis=1)
        best, cores = inner[np.arange(len(self)), place], self.knots[place].astype(np.int64)
        for edge in (end, self.low):
            seconds = self.seconds(edge)
            better = (seconds < best) | ((seconds == best) & (edge < cores))
            best, cores = np.where(better, seconds, best), np.where(better, edge, cores)
        return cores

    def useful(self) -> Ints:
        """Return the most cores that gain anything."""
        return self.fastest(self.high)

    def falling_s(self, component: Ints, cores: Ints) -> Floats:
        """Return the shortest seconds of components on up to so many cores each."""
        chosen = self.rows(component)
        return chosen.seconds(chosen.fastest(cores))

    def gain_s(self, cores: Ints) -> Floats:
        """Return what one core more than cores_c takes off the seconds; negative where curves rise."""
        return self.seconds(cores) - self.seconds(cores + 1)

    def work_s(self, narrowest: Ints | None = None) -> Floats:
        """Return core-seconds of one record, at least, on `narrowest` cores or more: p D(p) is least at ends of segments."""
        start = self.low if narrowest is None else np.clip(narrowest, self.low, self.high)
        inner = self._inner(start, self.high)
        ends = np.minimum(start * self.seconds(start), self.high * self.seconds(self.high))
        with np.errstate(invalid="ignore"):
            return np.minimum(ends, np.where(np.isfinite(inner), self.knots * inner, np.inf).min(axis=1))

    def alone_s(self, cores: int) -> Floats:
        """Return a period that no component beats alone on all the cores."""
        fastest = self.fastest(np.full(len(self), cores))
        return self.seconds(fastest) / np.minimum(self.instances_max, cores)

    def fewest_within(self, seconds: Floats) -> Ints:
        """Return the fewest cores p_c in [low_c, high_c] with D_c(p_c) <= seconds_c; else high_c. Cost O(n m)."""
        rows = np.arange(len(self))
        with np.errstate(divide="ignore", invalid="ignore"):
            wanted = np.where(self.times > 0, seconds / self.times, np.inf)
        fits = self._inner(self.low, self.high) <= np.where(self.times > 0, seconds, np.inf)[:, None]
        at_knot = fits.any(axis=1)
        after = np.where(at_knot, fits.argmax(axis=1), np.searchsorted(self.knots, self.high, side="left"))
        after = np.minimum(after, len(self.knots) - 1)
        before = np.maximum(after - 1, 0)
        start, slope = self.table_s[rows, before], self.slope[rows, before]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            guess = self.knots[before] * (wanted / start) ** (1 / slope)
        last = np.where(at_knot, self.knots[after], self.high)
        falls = (slope < 0) & np.isfinite(guess)
        guess = np.where(falls, np.clip(np.ceil(guess * (1 - FEW)), self.knots[before] + (after > before), last), last)
        cores = np.clip(guess, self.low, self.high).astype(np.int64)
        # The guess may be one off: go up while it does not fit, then down while one fewer does.
        up = (self.seconds(cores) > seconds) & (cores < last)
        cores = cores + up
        fewer = np.maximum(cores - 1, self.low)
        down = (fewer < cores) & (self.seconds(fewer) <= seconds)
        cores = np.where(down, fewer, cores)
        return np.where(self.seconds(self.low) <= seconds, self.low, cores)


AnyDemand = Demand | TableDemand
Shareable = Demand | TableDemand | ShapeDemand  # what turns are taken with


def table_demand(
    curves: TabulatedCurves, times: Floats, bounds: tuple[Ints, Ints, Ints], *, upper: bool
) -> TableDemand:
    """Return the demand of tabulated curves; nobody gets more cores than the table knows, but for its minimum."""
    low, high, instances_max = bounds
    table = curves.upper_s if upper else curves.elapsed_s
    knots = curves.cores.astype(np.float64)
    slope = np.zeros_like(table)
    slope[:, :-1] = np.diff(np.log(table), axis=1) / np.diff(np.log(knots))
    high = np.maximum(np.minimum(high, int(curves.cores[-1])), low)
    return TableDemand(times, knots, table, slope, low, high, instances_max)
