"""What an allocation costs, and the chance that one costs less than another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from advisor.planning.asked.demand import Floats
from advisor.planning.asked.requests import Request
from advisor.planning.fares import Fare, normal_below
from advisor.planning.solving.uncertain import normals


@dataclass(frozen=True, slots=True)
class Price:
    """Of a core for a second, of a record's second in the network, and a record's worth.

    Per second an allocation costs core_s cores + latency_s X L - record X, X being the arrivals or the highest throughput.
    """

    core_s: float
    latency_s: float
    record: float
    arrival_per_s: float | None

    @classmethod
    def of_request(cls, request: Request) -> Price:
        """Return the prices of a request for the lowest cost."""
        weights = request.weights or {}
        core, late, worth = (float(weights.get(name, 0.0)) for name in ("core_s", "latency_s", "record"))
        return cls(core, late, worth, request.arrival_per_s)

    def of(self, fare: Fare) -> float:
        """Return the cost per second; infinite where records arrive faster than they leave."""
        return self._of(fare.used, fare.period_s, fare.latency_s, -1.0)

    def turnover(self, fare: Fare) -> float:
        """Return all that flows per second, costs and worth: what a saving is a share of, even where the cost is 0."""
        return max(self._of(fare.used, fare.period_s, fare.latency_s, 1.0), 1e-300)

    def _of(self, used: int, period_s: float, latency_s: float, sign: float) -> float:
        rate = 1.0 / period_s if self.arrival_per_s is None else self.arrival_per_s
        if not math.isfinite(latency_s):
            return math.inf
        return self.core_s * used + self.latency_s * rate * latency_s + sign * self.record * rate

    def drawn(self, fare: Fare, errors: Floats) -> Floats:
        """Return the cost for drawn log errors of the components' times, (K, n)."""
        factors = np.exp(errors)
        groups = np.zeros((len(errors), int(fare.group.max()) + 1))
        for row, number in enumerate(fare.group.tolist()):
            groups[:, number] += fare.seconds[row] * factors[:, row]
        period = groups.max(axis=1)
        rate = 1.0 / period if self.arrival_per_s is None else np.full(len(period), self.arrival_per_s)
        # What waits goes with the times, in proportion: without arrivals nothing does.
        latency = fare.latency_s * (factors @ fare.latency) / max(float(fare.latency.sum()), 1e-300)
        return np.asarray(self.core_s * fare.used + (self.latency_s * latency - self.record) * rate, np.float64)


def cheaper(now: Fare, then: Fare, price: Price) -> float:
    """Return the probability that `then` costs less than `now`: a difference of costs, taken as normal.

    Its deviation comes from drawn errors of the curves: a component's level is common to both, its shape
    where both give it the same cores. Cost O(n) a draw.
    """
    if not math.isfinite(price.of(then)):
        return 0.0
    if not math.isfinite(price.of(now)):
        return 1.0
    n = len(now.cores)
    level, here, there = np.split(normals(3 * n), 3, axis=1)
    same = (now.cores == then.cores) & (now.instances == then.instances)
    there = np.where(same, here, there)
    saved = price.drawn(now, level * now.common + here * now.shape) - price.drawn(
        then, level * then.common + there * then.shape
    )
    deviation = float(saved.std())
    certain = price.of(now) - price.of(then)
    if deviation <= 0.0:
        return float(certain > 0.0)
    return float(normal_below(np.array([certain / deviation]))[0])
