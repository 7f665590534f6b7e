"""Ways to give cores to boxes that others use: equal shares, shares of work, and linear-rate autoscalers.

The autoscaler is that of DS2 (Kalavri et al., OSDI 2018, "Three steps is all you need") and of Flink's Kubernetes
operator: each operator's *true processing rate*, records per second of useful time, is measured at its present
parallelism p and taken to be linear in p, so that the parallelism for a rate l is ceil(p l v T(p)); this is done again
until nothing changes. Flink's can learn one coefficient of scaling per operator from its history (`observed`, off by
default: least squares of rate = baseline p coefficient, within [0.5, 1]).

They are treated kindly: rates are measured without error, a restart costs nothing, utilisation is aimed at 1, and where
they are asked for the most throughput, the load is at each step the highest one for which their own model fits the cores,
and the best of all their steps counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from random_networks import Case

STEPS_MAX = 30  # of an autoscaler that does not settle
COEFFICIENT_MIN = 0.5  # Flink's observed-scalability.coefficient.min
OBSERVATIONS_MIN = 3  # Flink's observed-scalability.min-observations

Cores = dict[str, int]


@dataclass(frozen=True, slots=True)
class Steps:
    """What an autoscaler went through.

    Attributes
    ----------
    settings : list of mapping
        Cores by key, from the start to the last; a setting that comes again ends the list.
    settled : bool
        False when it went round in circles, or did not stop.
    """

    settings: list[Cores]
    settled: bool

    @property
    def changes(self) -> int:
        """Return how often cores were moved."""
        return len(self.settings) - 1


def equal_shares(case: Case) -> Cores:
    """Return the same cores for each; the rest, one each, from the first on."""
    each, rest = divmod(case.cores, len(case.network.keys))
    return {key: each + (row < rest) for row, key in enumerate(case.network.keys)}


def shares_of_work(case: Case) -> Cores:
    """Return cores in proportion to visits and time on one core, at least one each, by largest remainders."""
    visits = case.visits()
    return _fitting(case, {key: visits[key] * float(case.curves[key].seconds(1)) for key in case.network.keys})


def _fitting(case: Case, needs: Mapping[str, float]) -> Cores:
    """Return the cores of the highest rate l with sum max(1, ceil(l needs)) <= cores; one by one what is left."""
    low, high = 0.0, case.cores / max(needs.values())
    for _ in range(60):
        middle = (low + high) / 2
        fits = sum(_ceil(middle * need) for need in needs.values()) <= case.cores
        low, high = (middle, high) if fits else (low, middle)
    given = {key: _ceil(low * need) for key, need in needs.items()}
    for _ in range(case.cores - sum(given.values())):
        key = max(needs, key=lambda key: needs[key] / given[key])
        given[key] += 1
    return given


def _ceil(cores: float) -> int:
    return max(1, math.ceil(cores * (1 - 1e-9)))


def autoscaled(case: Case, rate_per_s: float | None, *, observed: bool = False, utilization: float = 1.0) -> Steps:
    """Return the steps of a linear-rate autoscaler from one core each.

    Parameters
    ----------
    rate_per_s : float or None
        The load; None: at each step the highest one that fits the cores by its own model.
    observed : bool
        With Flink's coefficient of scaling.
    utilization : float
        The share of its capacity at which each box should run; Flink's default is 0.7.
    """
    visits = case.visits()
    now = dict.fromkeys(case.network.keys, 1)
    steps = [now]
    history: dict[str, list[tuple[int, float]]] = {key: [] for key in now}
    while len(steps) <= STEPS_MAX:
        needs: dict[str, float] = {}
        for key, cores in now.items():
            seconds = float(case.curves[key].seconds(cores))
            history[key].append((cores, 1 / seconds))
            factor = _coefficient(history[key]) if observed else 1.0
            # cores for one record per second: p v T(p), and what scaling loses on the way there
            linear = cores * visits[key] * seconds / utilization
            needs[key] = linear / factor
        if rate_per_s is None:
            following = _fitting(case, needs)
        else:
            following = {key: min(_ceil(rate_per_s * need), case.cores) for key, need in needs.items()}
        if following == now:
            return Steps(steps, settled=True)
        if following in steps:
            return Steps(steps, settled=False)
        steps.append(following)
        now = following
    return Steps(steps, settled=False)


def _coefficient(history: Sequence[tuple[int, float]]) -> float:
    """Return sum(p r) / (sum(p^2) baseline): how far rates grow with cores, the baseline being that of the fewest."""
    if len(history) < OBSERVATIONS_MIN:
        return 1.0
    cores, rates = np.array(history, np.float64).T
    first = int(cores.argmin())
    baseline = rates[first] / cores[first]
    found = float((cores * rates).sum() / ((cores**2).sum() * baseline))
    return min(1.0, max(COEFFICIENT_MIN, math.ceil(found * 100) / 100))


def best_possible(case: Case) -> Cores:
    """Return the optimum on the true curves, by exhaustion over the periods: each box the fewest cores that keep it."""
    visits = case.visits()
    tables = {key: visits[key] * case.curves[key].seconds(np.arange(1.0, case.cores + 1)) for key in case.network.keys}
    periods = np.unique(np.concatenate(list(tables.values())))
    low, high = 0, len(periods) - 1

    def fewest(period: float) -> Cores | None:
        found: Cores = {}
        for key, table in tables.items():
            fits = np.flatnonzero(table <= period * (1 + 1e-12))
            if not len(fits):
                return None
            found[key] = int(fits[0]) + 1
        return found if sum(found.values()) <= case.cores else None

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fewest(periods[middle]) else (middle + 1, high)
    found = fewest(periods[low])
    assert found is not None
    return found
