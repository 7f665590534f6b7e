"""What the components of a network ask of the cores: the arrays that every planner works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Relative differences below this are rounding: the planners treat them as ties, so that a last bit buys no core.
TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Demand:
    """Seconds of work per record that enters the network, of n components.

    D_c(p) = v_c T_c(p) = serial_s + parallel_s / p on p cores, where v_c are the visits of a record at component c.

    Attributes
    ----------
    serial_s, parallel_s : float64 arrays (n,)
        Finite and not negative; both 0 for a component without visits.
    low, high : int64 arrays (n,)
        Fewest and most cores of one instance, 1 <= low <= high.
    instances_max : int64 array (n,)
        Instances allowed, at least 1.
    """

    serial_s: Floats
    parallel_s: Floats
    low: Ints
    high: Ints
    instances_max: Ints

    def __len__(self) -> int:
        return len(self.serial_s)

    @property
    def single(self) -> bool:
        """True when no component may have a second instance."""
        return bool(self.instances_max.max(initial=1) == 1)

    def seconds(self, cores: Ints) -> Floats:
        """Return D_c(cores_c), shape (n,). Cost O(n)."""
        return self.serial_s + self.parallel_s / cores

    def period_s(self, cores: Ints, instances: Ints) -> Floats:
        """Return the seconds between records that each component can sustain, D_c / instances_c, shape (n,)."""
        return self.seconds(cores) / instances

    def latency_s(self, cores: Ints) -> float:
        """Return the seconds of a record in the network, without queueing."""
        return float(self.seconds(cores).sum())

    @property
    def visited(self) -> NDArray[np.bool_]:
        """Which components any record visits."""
        return (self.serial_s > 0) | (self.parallel_s > 0)

    def fastest(self, sizes: Ints) -> Ints:
        """Return the cores up to sizes_c, within the limits, on which each component is fastest."""
        return np.clip(sizes, self.low, self.high)

    def useful(self) -> Ints:
        """Return the most cores that gain anything."""
        return np.where(self.parallel_s > 0, self.high, self.low)

    def falling_s(self, component: Ints, cores: Ints) -> Floats:
        """Return the shortest seconds of components on up to so many cores each."""
        return self.serial_s[component] + self.parallel_s[component] / cores

    def gain_s(self, cores: Ints) -> Floats:
        """Return what one core more than cores_c takes off the seconds."""
        return self.parallel_s / (cores * (cores + 1.0))

    def work_s(self, narrowest: Ints | None = None) -> Floats:
        """Return core-seconds of one record, at least, on `narrowest` cores or more: p D(p) rises with p."""
        if narrowest is None:
            return self.serial_s + self.parallel_s
        return self.serial_s * narrowest + self.parallel_s

    def alone_s(self, cores: int) -> Floats:
        """Return a period that no component beats alone on all the cores."""
        fastest = np.minimum(self.high, cores)
        return self.serial_s / np.minimum(self.instances_max, cores) + self.parallel_s / np.minimum(
            cores, fastest * self.instances_max
        )

    def rows(self, chosen: NDArray[np.bool_] | Ints) -> Demand:
        """Return the demand of some of the components."""
        return Demand(
            self.serial_s[chosen],
            self.parallel_s[chosen],
            self.low[chosen],
            self.high[chosen],
            self.instances_max[chosen],
        )
