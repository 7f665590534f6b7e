"""Closed queueing networks: exact mean value analysis for one class, Bard and Schweitzer's approximation for several.

Reiser and Lavenberg 1980; Lazowska et al., Quantitative System Performance, 1984, chapters 6, 7 and 8 (algorithms 6.2, 7.2,
8.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain import elementary
from advisor.errors import InvalidValue, NotEnoughData

Floats = NDArray[np.float64]
SHARE_MAX = 1e150  # of an unnormalised probability: beyond, all are scaled down, lest a product overflows
# Of queue lengths relative to the population: where the fixed point of Bard and Schweitzer counts as found.
TOLERANCE = 1e-10
ITERATIONS_MAX = 10_000  # it needs tens to hundreds; near saturation its steps shrink slowly


@dataclass(frozen=True, slots=True)
class Centre:
    """One resource that requests visit."""

    # time of service that one request needs there, in the graph's unit; a string names the graph's column that has it
    demand: float | str
    # `queue`: one server, requests wait for each other. `delay`: no waiting. `flow`: a flow-equivalent centre, whose
    # service is `rates[j - 1]` times as fast with j requests there as with one.
    kind: Literal["queue", "delay", "flow"] = "queue"
    rates: tuple[float, ...] = ()  # of a `flow` centre: rates[0] = 1; beyond the last one the rate stays

    def __post_init__(self) -> None:
        if self.kind not in ("queue", "delay", "flow"):
            raise InvalidValue("kind", self.kind, "queue, delay or flow")
        if isinstance(self.demand, (int, float)) and not (np.isfinite(self.demand) and self.demand >= 0):
            raise InvalidValue("demand", self.demand, "finite and not negative")
        if (self.kind == "flow") != bool(self.rates) or not all(np.isfinite(rate) and rate > 0 for rate in self.rates):
            raise InvalidValue("rates", self.rates, "positive numbers, of a flow centre and of no other")


def exact(
    demands: Sequence[float],
    think: float,
    population: int,
    kinds: Sequence[str] = (),
    rates: Sequence[Sequence[float]] = (),
) -> list[list[float]]:
    """Return the residence times of one class at each centre, for every population from 1 to `population`.

    Parameters
    ----------
    demands : (k,) floats
        D_k, service time that one cycle needs at centre k.
    think : float
        Z, time of a cycle outside of all centres.
    population : int
        N, requests in the network.
    kinds : (k,) str
        As `Centre.kind`; absent: all queues.
    rates : (k,) sequences
        As `Centre.rates`, empty for other kinds.

    Returns
    -------
    list of N lists (k,)
        R_k(n). Throughput is n / (Z + sum R_k(n)), queue length throughput * R_k(n).

    Notes
    -----
    R_k(n) = D_k (1 + Q_k(n - 1)) at queues, D_k at delays; at flow-equivalent centres sum_j j D_k / a_k(j) p_k(j - 1 | n - 1).
    Cost O(N k), and O(N^2) for each flow centre.
    """
    kinds = kinds or ["queue"] * len(demands)
    queued = [0.0] * len(demands)
    shares = {place: [1.0] for place, kind in enumerate(kinds) if kind == "flow"}
    found: list[list[float]] = []
    for n in range(1, population + 1):
        times = [
            demand * (1.0 + queue) if kind == "queue" else demand
            for demand, queue, kind in zip(demands, queued, kinds, strict=True)
        ]
        for place, share in shares.items():
            times[place] = elementary.added(
                j * demands[place] / _rate(rates[place], j) * share[j - 1] for j in range(1, n + 1)
            )
        cycle = think + elementary.added(times)
        throughput = n / cycle if cycle > 0 else 0.0
        queued = [throughput * time for time in times]
        for place, share in shares.items():
            tail = [throughput * demands[place] / _rate(rates[place], j) * share[j - 1] for j in range(1, n + 1)]
            shares[place] = [max(0.0, 1.0 - elementary.added(tail)), *tail]
        found.append(times)
    return found


def _rate(rates: Sequence[float], requests: int) -> float:
    return rates[min(requests, len(rates)) - 1]


def bard_schweitzer(
    demands: ArrayLike, think: ArrayLike, population: ArrayLike, delays: ArrayLike | None = None
) -> Floats:
    """Return the residence times (c, k) of several classes at each centre, approximately.

    Raises NotEnoughData when the fixed point is not found within `ITERATIONS_MAX` steps.

    Parameters
    ----------
    demands : array (c, k)
        D_ck.
    think : array (c,)
        Z_c.
    population : array (c,)
        N_c; a class may have none.
    delays : bool array (k,)
        Centres without waiting.

    Notes
    -----
    R_ck = D_ck (1 + sum_j Q_jk - Q_ck / N_c): an arriving request of class c sees the queues without its own share. The
    cycle time is within 2 % of the exact one while the busiest queue's offered load, sum N_c D_ck / (Z_c + D_c), is at most
    1/2, and up to 13 % too high near saturation (1 to 3 classes and queues, 1 to 8 requests a class).
    """
    needed = np.asarray(demands, np.float64)
    zs, counts = np.asarray(think, np.float64), np.asarray(population, np.float64)
    waits = np.ones(needed.shape[1], bool) if delays is None else ~np.asarray(delays, bool)
    if needed.shape[1] == 0:
        return needed.copy()
    present = counts > 0
    per_request = np.where(present, 1.0 / np.maximum(counts, 1.0), 0.0)[:, None]
    queued = np.where(needed > 0, counts[:, None] / needed.shape[1], 0.0)
    for _ in range(ITERATIONS_MAX):
        times = needed * (1.0 + waits * (queued.sum(axis=0) - queued * per_request))
        cycle = zs + times.sum(axis=1)
        following = np.divide(counts, cycle, out=np.zeros_like(cycle), where=cycle > 0)[:, None] * times
        if np.abs(following - queued).max() <= TOLERANCE * max(1.0, float(counts.sum())):
            return needed * (1.0 + waits * (following.sum(axis=0) - following * per_request))
        queued = following
    raise NotEnoughData("the queueing network's fixed point was not found", field="contention", bound=ITERATIONS_MAX)


def finite_source_wait(servers: int, sources: int, think: float, service: float) -> float:
    """Return the mean wait for a server of the M/M/servers//sources queue, without the service. Cost O(sources).

    p_j ~ C(n, j) a^j for j <= c, and p_j = p_(j-1) (n - j + 1) a / c beyond, a = service / think (Gross and Harris, 2.6).
    """
    if sources <= servers or service <= 0:
        return 0.0
    if think <= 0:
        return service * (sources - servers) / servers  # all sources are always there
    load = service / think
    share, thinking, waiting = 1.0, float(sources), 0.0
    for j in range(1, servers + 1):
        share *= (sources - j + 1) * load / j
        thinking += (sources - j) * share
    load /= servers
    for j in range(servers + 1, sources + 1):
        if share > SHARE_MAX:
            thinking, waiting, share = thinking / share, waiting / share, 1.0
        share *= (sources - j + 1) * load
        thinking += (sources - j) * share
        waiting += (j - servers) * share
    return waiting / thinking * think  # Little: mean number waiting over the arrival rate, thinking / think
