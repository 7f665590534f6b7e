"""Closed queueing networks: exact mean value analysis for one class, Bard and Schweitzer's approximation for several.

Reiser and Lavenberg 1980; Lazowska et al., Quantitative System Performance, 1984, chapters 6 and 7 (algorithms 6.2, 7.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain import elementary
from advisor.errors import NotEnoughData

Floats = NDArray[np.float64]
SHARE_MAX = 1e150  # of an unnormalised probability: beyond, all are scaled down, lest a product overflows
# Of queue lengths relative to the population: where the fixed point of Bard and Schweitzer counts as found.
TOLERANCE = 1e-10
ITERATIONS_MAX = 10_000  # it needs tens to hundreds; near saturation its steps shrink slowly


def exact(demands: Sequence[float], think: float, population: int) -> list[float]:
    """Return the residence times of one class at each queue, exactly. Cost O(N k).

    Parameters
    ----------
    demands : (k,) floats
        D_k, service time that one cycle needs at queue k.
    think : float
        Z, time of a cycle outside of all queues: delays are part of it.
    population : int
        N, requests in the network.

    Notes
    -----
    R_k(n) = D_k (1 + Q_k(n - 1)), from n = 1 to N; throughput n / (Z + sum R_k(n)), Q_k = throughput R_k.
    """
    if len(demands) == 1:  # solved at every event, and mostly of one queue
        demand, time, queue = demands[0], 0.0, 0.0
        for n in range(1, population + 1):
            time = demand * (1.0 + queue)
            queue = n * time / ((think + time) or 1.0)
        return [time]
    times, queued = [0.0] * len(demands), [0.0] * len(demands)
    for n in range(1, population + 1):
        times = [demand * (1.0 + queue) for demand, queue in zip(demands, queued, strict=True)]
        throughput = n / ((think + elementary.added(times)) or 1.0)
        queued = [throughput * time for time in times]
    return times


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
