"""How an allocation fares on uncertain curves, and the chance that one fares better than another.

Components' times are taken as independent and log-normal about their curves. Where two allocations give a component the same
cores, both share its error; where not, the errors are taken as independent, which overstates them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.limits import CORES_MAX, CORES_MIN, INSTANCES_MAX
from advisor.domain.networks import Network
from advisor.errors import InvalidValue
from advisor.planning.demand import Floats, Ints
from advisor.planning.requests import whole, within

Bools = NDArray[np.bool_]

# What the curves' own bounds cannot know of: a form that does not fit. The base tier is off by some per cent on its own forms.
SPREAD_MIN = 0.02
LEVEL = 0.9  # at which the curves' upper bounds are made where nobody asks for another
GRID = 4001  # points of the integral over the longest time
REACH = 8.0  # standard deviations of a normal beyond which nothing is left to add
_TINY = 1e-300  # so that what is 0 has a logarithm
SPREAD_LEAST = 1e-4  # of a group of many components: below the grid's step nothing is told apart


@dataclass(frozen=True, slots=True)
class Standing:
    """What a runtime has given its components: key -> cores of an instance (whole, or a mean of what was seen) and instances.

    `groups` are the keys that take turns on the same cores; empty where each has its own.
    """

    cores: Mapping[str, float]
    instances: Mapping[str, int]
    groups: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, allocation: Allocation) -> Standing:
        """Return the standing of a runtime that does what it was told."""
        return cls(allocation.cores, allocation.instances, tuple(keys for _, keys in allocation.groups))

    @classmethod
    def given(cls, field: str, value: Mapping[str, Any], keys: Sequence[str]) -> Standing:
        """Return the standing that a caller names: key -> cores, or ``{"cores": p, "instances": k}``.

        Raises
        ------
        InvalidValue
            When a key is missing or unknown, or its value is none of these.
        """
        known = set(keys)
        unknown = next((key for key in value if key not in known), None)
        if unknown is not None:
            raise InvalidValue(field, unknown, f"a key of the network: {', '.join(keys[:8])}")
        missing = next((key for key in keys if key not in value), None)
        if missing is not None:
            raise InvalidValue(
                field, missing, "every key of the network", "leave it out, and rows tell the cores in use"
            )
        cores, instances = dict[str, float](), dict[str, int]()
        for key in keys:
            entry: Any = value[key]
            parts: Mapping[str, Any] = (
                cast("Mapping[str, Any]", entry) if isinstance(entry, Mapping) else {"cores": entry}
            )
            if not {"cores"} <= parts.keys() <= {"cores", "instances"}:
                raise InvalidValue(f"{field}.{key}", entry, "a number of cores, or a map of cores and instances")
            cores[key] = within(f"{field}.{key}.cores", parts["cores"], CORES_MIN, CORES_MAX)
            instances[key] = whole(f"{field}.{key}.instances", parts.get("instances", 1), INSTANCES_MAX)
        return cls(cores, instances)


def fare_of(network: Network, curves: TabulatedCurves, visits: Floats, level: float, standing: Standing) -> Fare:
    """Return how an allocation fares on the curves. Cost O(n log m).

    Parameters
    ----------
    visits : float64 array (n,)
        Of a record that enters the network.
    level : float
        At which `upper_s` of the curves bounds their expectation.
    """
    keys = network.keys
    cores = np.array([standing.cores[key] for key in keys], np.float64)
    instances = np.array([standing.instances[key] for key in keys], np.int64)
    elapsed, upper = at_cores(curves, cores)
    latency = visits * elapsed
    spread = np.maximum(np.log(np.maximum(upper / elapsed, 1.0)) / normal_quantile(level), SPREAD_MIN)
    group = np.arange(len(keys))
    used = round(float((cores * instances).sum()))
    if standing.groups:
        place = {key: row for row, key in enumerate(keys)}
        sizes = 0
        for number_, members in enumerate(standing.groups):
            rows = [place[key] for key in members]
            group[rows] = number_
            sizes += int((cores[rows] * instances[rows]).max())
        used = sizes
    return Fare(latency / instances, latency, spread, cores.astype(np.float64), instances, group, used)


def at_cores(curves: TabulatedCurves, cores: Floats) -> tuple[Floats, Floats]:
    """Return T_c(p_c) and its upper bound, each (n,), for one count of cores (n,) a component. Cost O(n d), d counts."""
    counts, place = np.unique(cores, return_inverse=True)
    rows = np.arange(len(cores))
    return curves.at(counts)[rows, place], curves.at(counts, upper=True)[rows, place]


def normal_quantile(level: float) -> float:
    """Return the z that a standard normal stays below with probability (1 + level) / 2."""
    return max(NormalDist().inv_cdf(0.5 * (1.0 + level)), 1e-3)


@dataclass(frozen=True, slots=True)
class Fare:
    """How an allocation fares.

    Attributes
    ----------
    seconds : float64 array (n,)
        D_c / instances_c: seconds a record of each component, visits included, one instance of many counted as a share.
    latency : float64 array (n,)
        D_c: what each component adds to a record's time.
    spread : float64 array (n,)
        Relative standard error of each component's time.
    cores : float64 array (n,)
    instances : int64 array (n,)
    group : int64 array (n,)
        Components of one group take turns on the same cores; each its own where none are shared.
    used : int
        Cores taken.
    """

    seconds: Floats
    latency: Floats
    spread: Floats
    cores: Floats
    instances: Ints
    group: Ints
    used: int

    @property
    def turns(self) -> Floats:
        """Seconds a record of each group, (groups,)."""
        return np.bincount(self.group, weights=self.seconds)

    @property
    def period_s(self) -> float:
        """Seconds between records that the slowest group sustains."""
        return float(self.turns.max())

    @property
    def latency_s(self) -> float:
        """Seconds of a record in all components."""
        return float(self.latency.sum())


def faster(now: Fare, then: Fare, by: float = 0.0) -> float:
    """Return the probability that the period of `then` is below that of `now`, by a factor 1 + `by` at least.

    With S the longest time of the groups that both share, A that of the others in `then` and B that in `now`, the period of
    `then` is shorter exactly when B > max(S, A): an integral over B alone, P = int F_S F_A dF_B of log times, on a grid.
    Cost O(m GRID) for the m groups that can be the slowest.
    """
    (mean_now, sd_now), (mean_then, sd_then) = _groups(now), _groups(then)
    only_now, only_then = np.ones(len(mean_now), np.bool_), np.ones(len(mean_then), np.bool_)
    if np.array_equal(now.group, then.group):
        only_now = np.zeros(len(mean_now), np.bool_)
        np.logical_or.at(only_now, now.group, (now.cores != then.cores) | (now.instances != then.instances))
        only_then = only_now
    if not only_now.any():
        return 0.0
    widest = REACH * max(float(sd_now.max()), float(sd_then.max()))
    longest = max(float(mean_now.max()), float(mean_then.max()))
    x = np.linspace(min(float(mean_now.max()), float(mean_then.max())) - 2.0 * widest, longest + 2.0 * widest, GRID)
    mass = np.diff(_longest(x, mean_now[only_now], sd_now[only_now]), prepend=0.0)
    rest = _longest(
        x - 0.5 * (x[1] - x[0]) - math.log1p(by),
        np.concatenate([mean_now[~only_now], mean_then[only_then]]),
        np.concatenate([sd_now[~only_now], sd_then[only_then]]),
    )
    return float(min(1.0, max(0.0, (mass * rest).sum())))


def _groups(fare: Fare) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the log of each group's time."""
    turns = fare.turns
    variance = np.bincount(fare.group, weights=np.square(fare.seconds * fare.spread))
    turns = np.maximum(turns, _TINY)  # of components that no record visits
    return np.log(turns), np.maximum(np.sqrt(variance) / turns, SPREAD_LEAST)


def _longest(x: Floats, mean: Floats, sd: Floats) -> Floats:
    """Return P(all of independent normals <= x) at each point of a rising grid. Cost O(m GRID)."""
    alive = mean + REACH * sd > x[0]
    total = np.zeros_like(x)
    for centre, deviation in zip(mean[alive].tolist(), sd[alive].tolist(), strict=True):
        total += np.log(normal_below((x - centre) / deviation))
    return np.exp(total)


_TABLE_X = np.linspace(-REACH, REACH, GRID)
_TABLE = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in _TABLE_X.tolist()])


def normal_below(z: Floats) -> Floats:
    """Return the standard normal's distribution function, to 5e-7. Cost O(n)."""
    return np.maximum(np.interp(z, _TABLE_X, _TABLE), _TINY)


def sooner(now: Fare, then: Fare) -> float:
    """Return the probability that the latency of `then` is below that of `now`: a difference of sums, nearly normal."""
    same = (now.cores == then.cores) & (now.instances == then.instances)
    here, there = now.latency * now.spread, then.latency * then.spread
    variance = np.where(same, np.square(here - there), np.square(here) + np.square(there)).sum()
    saved = now.latency_s - then.latency_s
    if variance <= 0.0:
        return float(saved > 0.0)
    return float(normal_below(np.array([saved / math.sqrt(float(variance))]))[0])


def reaches(fare: Fare, name: str, bound: float) -> float:
    """Return the probability that an allocation reaches its target."""
    if name == "throughput_per_s":
        return float(_longest(np.array([math.log(bound)]), *_groups_above(fare, bound))[0])
    deviation = math.sqrt(float(np.square(fare.latency * fare.spread).sum()))
    return float(normal_below(np.array([(bound - fare.latency_s) / max(deviation, 1e-300)]))[0])


def _groups_above(fare: Fare, bound: float) -> tuple[Floats, Floats]:
    mean, sd = _groups(fare)
    near = mean + REACH * sd > math.log(bound)
    return mean[near], sd[near]


def company(fare: Fare) -> Ints:
    """Return each component's first companion, which names its group whatever its number."""
    first = np.full(int(fare.group.max()) + 1, len(fare.group), np.int64)
    np.minimum.at(first, fare.group, np.arange(len(fare.group)))
    return first[fare.group]
