"""Waiting for a free instance, by a formula cheap enough for a search: runs (`record_runs`) then verify what it finds.

For arrival rate L, mean service time s, n servers and utilization rho = L s / n: W = C s / (n (1 - rho)) (c_a^2 + c_s^2) / 2, C
the probability of waiting in M/M/n (Erlang C): Allen and Cunneen (1990), exact for Poisson arrivals at one server. The wait is
0 with probability 1 - C, else taken as exponential.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from math import inf

import numpy as np

SERVERS_MAX = (
    256  # more servers are taken as so many of the same utilization: their waits are a small part of a service
)
FULL = 1 - 1e-9  # utilizations from here on count as unstable: the wait would be all rounding
IDLE = 1e-12  # utilizations below are taken for it: a chance to wait is divided by


def erlang_c(servers, utilization):
    """Return the probability that an arrival of a stable M/M/n waits. Cost O(n)."""
    if servers == 1:
        return utilization
    blocked, offered = 1.0, utilization * servers
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return blocked / (1.0 - utilization * (1.0 - blocked))


def queue_wait(rate, service_s, variation, servers, gaps):
    """Return mean and variance of the wait of a G/G/n queue; infinite where it is not stable.

    Of arrivals a second, mean service time, c_s^2 (`variation`), servers and c_a^2 (`gaps`).
    """
    if rate <= 0.0:
        return 0.0, 0.0
    rho = max(rate * service_s / servers, IDLE)
    if rho >= FULL:
        return inf, inf
    chance = erlang_c(min(servers, SERVERS_MAX), rho)
    mean = chance * service_s / (servers * (1.0 - rho)) * (gaps + variation) / 2.0
    return mean, mean * mean * (2.0 / chance - 1.0)


def queue_waits(rates, seconds, variation, servers, gaps, group, wait, spread):
    """Fill in mean and variance of the waits of K allocations, (K, n), as if all streams were those that enter.

    Instances have one queue. Components of a group are one queue of one server: the mean service of all visits, and its
    moments; `group` (0, 0) says that each has its own.
    """
    n = len(rates)
    total, work, square = np.zeros(n), np.zeros(n), np.zeros(n)
    for k in range(len(seconds)):
        if len(group) == 0:
            for c in range(n):
                wait[k, c], spread[k, c] = queue_wait(rates[c], seconds[k, c], variation[c], servers[k, c], gaps)
            continue
        for c in range(n):
            total[c], work[c], square[c] = 0.0, 0.0, 0.0
        for c in range(n):
            load, here = rates[c] * seconds[k, c], group[k, c]
            total[here] += rates[c]
            work[here] += load
            square[here] += load * seconds[k, c] * (1.0 + variation[c])
        for c in range(n):
            here, service, mixed = group[k, c], 0.0, 0.0
            if work[here] > 0.0:
                service = work[here] / total[here]
                mixed = max(square[here] * total[here] / (work[here] * work[here]) - 1.0, 0.0)
            wait[k, c], spread[k, c] = queue_wait(total[here], service, mixed, 1, gaps)
