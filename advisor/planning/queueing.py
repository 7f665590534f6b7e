"""Waiting for a free instance: one component as a queue with several servers.

Formulas, for arrival rate L, mean service time s, n servers, offered load a = L s and utilization rho = a / n:

- Poisson arrivals: Kimura's interpolation (1986) between exact M/M/n (Erlang C) and Cosmetatos' M/D/n (1976):
  W(M/G/n) = (1 + c_s^2) / (2 c_s^2 / W(M/M/n) + (1 - c_s^2) / W(M/D/n)), with
  W(M/D/n) = W(M/M/n)/2 (1 + (1 - rho)(n - 1)(sqrt(4 + 5n) - 2) / (16 n rho)). Exact for n = 1.
- Other arrivals, c_a^2 being the dispersion that the queue feels (`streams`): times (c_a^2 + c_s^2)/(1 + c_s^2), as Allen
  and Cunneen, and below c_a^2 = 1 times the correction of Kraemer and Langenbach-Belz,
  exp(-2 (1 - rho)(1 - c_a^2)^2 / (3 rho (c_a^2 + c_s^2))).
- The wait is 0 with probability 1 - C (Erlang C); else its squared variation is Whitt's (QNA, 1983, eq. 50-53).
"""

from __future__ import annotations

import numpy as np

from advisor.domain import elementary
from advisor.planning.requests import Floats, Ints

SERVERS_EXACT = 256  # beyond, Erlang C is Sakasegawa's closed form: within 2 % there, and O(1) instead of O(n)
FULL = 1 - 1e-9  # utilizations from here on count as unstable: the wait would be all rounding


def erlang_c(servers: Ints, offered: Floats) -> Floats:
    """Return the probability that an arrival of a stable M/M/n waits; 1 where the load is full. Cost O(max n)."""
    servers, offered = np.broadcast_arrays(servers, offered)
    utilization = np.minimum(offered / servers, 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Sakasegawa: W = rho^(sqrt(2(n+1)) - 1) / (n (1 - rho)) service times, which is C / (n (1 - rho)).
        closed = elementary.power(utilization, np.sqrt(2 * (servers + 1.0)) - 1)
    exact = servers <= SERVERS_EXACT
    blocked = np.ones(offered.shape)
    for n in range(1, int(servers.max(where=exact, initial=0)) + 1):
        step = offered * blocked / (n + offered * blocked)
        blocked = np.where(servers >= n, step, blocked)
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = blocked / (1 - utilization * (1 - blocked))
    return np.where(utilization >= FULL, 1.0, np.where(exact, waits, closed))


def waiting(
    arrivals_per_s: Floats, service_s: Floats, variation: Floats, servers: Ints, arrival_variation: Floats
) -> tuple[Floats, Floats]:
    """Return mean and variance of the wait of G/G/n queues, elementwise; infinite where they are not stable.

    Of arrivals a second, mean service time, c_s^2 (`variation`), servers and c_a^2 (`arrival_variation`).
    """
    offered = arrivals_per_s * service_s
    rho = offered / servers
    stable = rho < FULL
    safe = np.clip(np.where(stable, rho, 0.5), 1e-12, FULL)
    chance = erlang_c(servers, np.asarray(safe * servers, np.float64))
    markov = chance * service_s / (servers * (1 - safe))
    n = np.asarray(servers, np.float64)
    # Cosmetatos' correction is for loads above a third or so; below it overshoots, and the wait hardly matters.
    steady = markov / 2 * (1 + np.minimum((1 - safe) * (n - 1) * (np.sqrt(4 + 5 * n) - 2) / (16 * n * safe), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        poisson = (1 + variation) / (2 * variation / markov + (1 - variation) / steady)
        mix = arrival_variation + variation
        calm = elementary.exp(-2 * (1 - safe) * (1 - arrival_variation) ** 2 / (3 * safe * mix))
    calm = np.where(arrival_variation < 1, np.where(mix > 0, calm, 0.0), 1.0)
    mean = np.where(markov > 0, poisson, 0.0) * mix / (1 + variation) * calm
    third = np.where(variation >= 1, 3 * variation * (1 + variation), (2 * variation + 1) * (variation + 1))
    delayed = 2 * safe - 1 + 4 * (1 - safe) * third / (3 * (variation + 1) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = mean**2 * np.maximum((delayed + 1) / chance - 1, 0.0)
    spread = np.where(mean > 0, spread, 0.0)
    idle = arrivals_per_s <= 0
    mean, spread = np.where(idle, 0.0, mean), np.where(idle, 0.0, spread)
    return np.where(stable | idle, mean, np.inf), np.where(stable | idle, spread, np.inf)
