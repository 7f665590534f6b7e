"""Waiting for a free instance, by a formula cheap enough for a search: runs (`record_runs`) then verify what it finds.

For arrival rate L, mean service time s, n servers and utilization rho = L s / n: W = C s / (n (1 - rho)) (c_a^2 + c_s^2) / 2, C
the probability of waiting in M/M/n (Erlang C): Allen and Cunneen (1990), exact for Poisson arrivals at one server. The wait is
0 with probability 1 - C, else taken as exponential.
"""

from __future__ import annotations

import numpy as np

from advisor.planning.requests import Floats, Ints

SERVERS_MAX = (
    256  # more servers are taken as so many of the same utilization: their waits are a small part of a service
)
FULL = 1 - 1e-9  # utilizations from here on count as unstable: the wait would be all rounding


def erlang_c(servers: Ints, utilization: Floats) -> Floats:
    """Return the probability that an arrival of a stable M/M/n waits, elementwise. Cost O(max n)."""
    if int(servers.max(initial=1)) == 1:
        return utilization
    blocked, offered = np.ones(utilization.shape), utilization * servers
    for n in range(1, int(servers.max()) + 1):
        step = offered * blocked / (n + offered * blocked)
        blocked = np.where(servers >= n, step, blocked)
    return blocked / (1 - utilization * (1 - blocked))


def waiting(
    arrivals_per_s: Floats, service_s: Floats, variation: Floats, servers: Ints, arrival_variation: float | Floats
) -> tuple[Floats, Floats]:
    """Return mean and variance of the wait of G/G/n queues, elementwise; infinite where they are not stable.

    Of arrivals a second, mean service time, c_s^2 (`variation`), servers and c_a^2 (`arrival_variation`).
    """
    rho = arrivals_per_s * service_s / servers
    stable = rho < FULL
    safe = np.where(stable, np.maximum(rho, 1e-12), 0.5)
    chance = erlang_c(np.minimum(servers, SERVERS_MAX), safe)
    mean = chance * service_s / (servers * (1 - safe)) * (arrival_variation + variation) / 2
    mean = np.where(arrivals_per_s > 0, mean, 0.0)
    unstable = ~stable & (arrivals_per_s > 0)
    return np.where(unstable, np.inf, mean), np.where(unstable, np.inf, mean * mean * (2 / chance - 1))
