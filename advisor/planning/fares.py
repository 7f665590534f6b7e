"""How an allocation fares on uncertain curves, and the chance that one fares better than another.

Components' times are taken as independent of each other and log-normal about their curves. The error of one component's
curve has two parts: its level, the same on all cores (what is uncertain where the curve is known best), and its shape,
which adds to that elsewhere and is taken as independent from one count of cores to another. So two allocations share a
component's level, and where they give it the same cores its shape, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.limits import CORES_MAX, CORES_MIN, INSTANCES_MAX
from advisor.domain.networks import Network
from advisor.errors import InvalidValue
from advisor.planning.demand import demand_of, heaviest_share, terms_of
from advisor.planning.judge import Model, Placed, together
from advisor.planning.requests import RATE, Floats, Ints, Request, whole, within
from advisor.planning.scores import latency_of
from advisor.planning.structure import structure_of
from advisor.planning.uncertain import normals
from advisor.planning.visits import Visits

Bools = NDArray[np.bool_]

# What the curves' own bounds cannot know of: a form that does not fit. The base tier is off by some per cent on its own forms.
SPREAD_MIN = 0.02
SPREAD_MAX = 1.0  # what is less known is unknown
LEVEL_LEAST = 0.6  # nearer to 0.5 the bound lies on the curve, and says nothing of its error
LEVEL = 0.9  # at which the curves' upper bounds are made where nobody asks for another
GRID = 1001  # points of the integral over the longest time
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
        return cls(allocation.runs_on, allocation.instances, tuple(keys for _, keys in allocation.groups))

    def rows_of_groups(self, keys: Sequence[str]) -> Ints | None:
        """Return the number of each key's group, (n,), or None where each has its own cores."""
        if not self.groups:
            return None
        number = {key: order for order, members in enumerate(self.groups) for key in members}
        return np.array([number[key] for key in keys], np.int64)

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
            parts: Any = entry
            if not isinstance(entry, Mapping):
                parts = {"cores": entry}
            if not {"cores"} <= parts.keys() <= {"cores", "instances"}:
                raise InvalidValue(
                    f"{field}.{key}", cast("object", entry), "a number of cores, or a map of cores and instances"
                )
            cores[key] = within(f"{field}.{key}.cores", parts["cores"], CORES_MIN, CORES_MAX)
            instances[key] = whole(f"{field}.{key}.instances", parts.get("instances", 1), INSTANCES_MAX)
        return cls(cores, instances)


def fare_of(network: Network, curves: TabulatedCurves, request: Request, visits: Visits, standing: Standing) -> Fare:
    """Return how an allocation fares on the curves, contention and queueing included as the planner has them.

    Where components share cores, by the sums of their turns. Cost O(n log m + nodes).
    """
    keys, request = network.keys, replace(request, level=None)
    cores = np.array([standing.cores[key] for key in keys], np.float64)
    instances = np.array([standing.instances[key] for key in keys], np.int64)
    demand = demand_of(terms_of(network, request, visits), curves)
    elapsed = demand.seconds(cores)
    heaviest = 1.0 / instances
    for row, replicas in visits.replicas.items():
        heaviest[row] = heaviest_share(replicas, int(instances[row]))[0]
    group = standing.rows_of_groups(keys)
    used = cores * instances
    if group is not None:
        used = np.array([used[group == number].max() for number in range(int(group.max()) + 1)])
    some = (None if group is None else group[None],) * 2
    placed = Placed(cores[None], instances[None], elapsed[None], heaviest[None], np.zeros(1, np.int64), *some)  # type: ignore[arg-type]
    found = Model(structure_of(network, visits), demand, request).judge(placed)
    seconds = visits.per_record * heaviest * found.seconds_s[0]
    seconds *= float(found.period_s[0]) / float(
        together(placed.group, seconds[None]).max()
    )  # at the highest throughput
    waits = np.where(np.isfinite(found.wait_s[0]), found.wait_s[0], 0.0)
    latency = visits.per_record * (found.seconds_s[0] + waits)
    return Fare(
        seconds, latency, *_errors(curves, request, cores), cores, instances, np.arange(len(keys)) if group is None else group,
        round(float(used.sum())), float(latency_of(request, found)[0]), float((visits.per_record * elapsed).sum()),
    )  # fmt: skip


def _errors(curves: TabulatedCurves, request: Request, cores: Floats) -> tuple[Floats, Floats]:
    """Return the relative standard errors of the level and of the shape of T_c(p_c), (n,) each."""
    counts, place = np.unique(cores, return_inverse=True)
    rows = np.arange(len(cores))
    elapsed, upper = curves.at(counts)[rows, place], curves.at(counts, upper=True)[rows, place]
    z = normal_quantile(request.level or LEVEL)
    everywhere = np.log(np.maximum(curves.upper_s / curves.elapsed_s, 1.0)).min(axis=1) / z
    here = np.log(np.maximum(upper / elapsed, 1.0)) / z
    beyond = np.sqrt(np.maximum(np.square(here) - np.square(everywhere), 0.0))
    return np.minimum(everywhere, SPREAD_MAX), np.clip(beyond, SPREAD_MIN, SPREAD_MAX)


def normal_quantile(level: float) -> float:
    """Return the z that a standard normal stays below with probability `level`, at least that of `LEVEL_LEAST`."""
    return NormalDist().inv_cdf(max(level, LEVEL_LEAST))


@dataclass(frozen=True, slots=True)
class Fare:
    """How an allocation fares.

    Attributes
    ----------
    seconds : float64 array (n,)
        Seconds a record of each component's busiest instance, visits included.
    latency : float64 array (n,)
        What each component adds to a record's time, waiting included.
    common, shape : float64 arrays (n,)
        Relative standard errors of each component's time: of its level and of its shape.
    cores : float64 array (n,)
    instances : int64 array (n,)
    group : int64 array (n,)
        Components of one group take turns on the same cores; each its own where none are shared.
    used : int
        Cores taken.
    latency_s : float
        Of a record in the network: joined, queued, or its quantile, as the request has it.
    work_s : float
        Seconds of a record in all components, one after the other and alone.
    """

    seconds: Floats
    latency: Floats
    common: Floats
    shape: Floats
    cores: Floats
    instances: Ints
    group: Ints
    used: int
    latency_s: float
    work_s: float

    @property
    def turns(self) -> Floats:
        """Seconds a record of each group, (groups,)."""
        return np.bincount(self.group, weights=self.seconds).astype(np.float64, copy=False)

    @property
    def period_s(self) -> float:
        """Seconds between records that the slowest group sustains."""
        return float(self.turns.max())

    @property
    def variance(self) -> Floats:
        """Relative variance of each component's time."""
        return np.square(self.common) + np.square(self.shape)


def faster(now: Fare, then: Fare) -> float:
    """Return the probability that the period of `then` is below that of `now`.

    With X_g and Y_g the log times of the groups in `now` and in `then`, the period is shorter exactly when the X_g that is the
    longest exceeds Y_g and all others:

        P = sum_g int P(Y_g < v | X_g = v) prod_(h != g) P(X_h < v, Y_h < v) dF_g(v)

    over the groups g that change, with one probability P(X_h < v, Y_h < v) for each other one. Cost O(m GRID) for m groups.
    """
    x, y, covariance, same = _groups(now, then)
    if same.all() and len(same):
        return 0.0
    v = _grid(x, y)
    middle = v - 0.5 * (v[1] - v[0])
    below_x = _log_below(middle, *x)
    below_y = below_x if len(same) == len(y[0]) and same.all() else _log_below(middle, *y)
    if not len(same):  # the groups are others: nothing is shared
        rest = np.exp(below_x.sum(axis=0) + below_y.sum(axis=0) - below_x)
        conditional = np.ones_like(below_x)
        own = np.zeros_like(below_x)
        chosen = np.arange(len(x[0]))
    else:
        own = np.where(same[:, None], below_x, _log_both(below_x, below_y, covariance / (x[1] * y[1])))
        chosen = np.flatnonzero(~same)
        rest = np.exp(own.sum(axis=0) - own[chosen])
        slope = covariance[chosen] / np.square(x[1][chosen])
        left = np.sqrt(np.maximum(np.square(y[1][chosen]) - slope * covariance[chosen], SPREAD_LEAST**2))
        expected = y[0][chosen][:, None] + slope[:, None] * (middle - x[0][chosen][:, None])
        conditional = normal_below((middle - expected) / left[:, None])
    mass = np.diff(np.exp(_log_below(v, x[0][chosen], x[1][chosen])), axis=1, prepend=0.0)
    return float(np.clip((mass * conditional * rest).sum(), 0.0, 1.0))


Normal = tuple[Floats, Floats]  # means and standard deviations


def _groups(now: Fare, then: Fare) -> tuple[Normal, Normal, Floats, Bools]:
    """Return the log times of the groups of both that can be the longest, their covariances, and which are the same in both.

    Where the groups have other members the last two are empty.
    """
    found: list[tuple[Floats, Floats]] = []
    for fare in (now, then):
        turns = np.maximum(fare.turns, _TINY)  # of components that no record visits
        variance = np.bincount(fare.group, weights=np.square(fare.seconds) * fare.variance) / np.square(turns)
        found.append((np.log(turns), np.maximum(np.sqrt(variance), SPREAD_LEAST)))
    (mean_x, sd_x), (mean_y, sd_y) = found
    least = min(float((mean - REACH * sd).max()) for mean, sd in found)
    if not np.array_equal(now.group, then.group):
        keep_x, keep_y = (mean + REACH * sd > least for mean, sd in found)
        none = np.zeros(0)
        return (mean_x[keep_x], sd_x[keep_x]), (mean_y[keep_y], sd_y[keep_y]), none, none.astype(np.bool_)
    keep = (mean_x + REACH * sd_x > least) | (mean_y + REACH * sd_y > least)
    weight = now.seconds * then.seconds * np.square(now.common)
    covariance = np.bincount(now.group, weights=weight) / np.exp(mean_x + mean_y)
    differ = np.zeros(len(mean_x), np.bool_)
    np.logical_or.at(differ, now.group, (now.cores != then.cores) | (now.instances != then.instances))
    return (mean_x[keep], sd_x[keep]), (mean_y[keep], sd_y[keep]), covariance[keep], ~differ[keep]


def _grid(x: Normal, y: Normal) -> Floats:
    """Return the log times from where nothing can be the longest to where all is below."""
    low = min(float((mean - REACH * sd).max()) for mean, sd in (x, y))
    high = max(float((mean + REACH * sd).max()) for mean, sd in (x, y))
    return np.linspace(low - 1e-6, high + 1e-6, GRID)


def _log_below(v: Floats, mean: Floats, sd: Floats) -> Floats:
    """Return the log of P(X_g <= v), (m, GRID)."""
    return np.log(normal_below((v - mean[:, None]) / sd[:, None]))


def _log_both(below_x: Floats, below_y: Floats, correlation: Floats) -> Floats:
    """Return the log of P(X < v, Y < v) of normals that are correlated, (m, GRID).

    Between independence and the least of both, by 2 asin(r) / pi: exact at r = 0, at r = 1, and where both are at their medians
    (Sheppard 1899).
    """
    weight = 2.0 / math.pi * np.arcsin(np.clip(correlation, 0.0, 1.0))
    apart = np.exp(below_x + below_y)
    return np.log(np.maximum(apart + weight[:, None] * (np.exp(np.minimum(below_x, below_y)) - apart), _TINY))


_TABLE_X = np.linspace(-REACH, REACH, 4001)
_TABLE = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in _TABLE_X.tolist()])


def normal_below(z: Floats) -> Floats:
    """Return the standard normal's distribution function, to 5e-7. Cost O(n)."""
    return np.maximum(np.interp(z, _TABLE_X, _TABLE), _TINY)


def sooner(now: Fare, then: Fare) -> float:
    """Return the probability that the latency of `then` is below that of `now`: a difference of sums, nearly normal."""
    if not math.isfinite(now.latency_s) or not math.isfinite(then.latency_s):
        # Records come faster than they leave: what counts is the period.
        return faster(now, then) if math.isfinite(then.latency_s) else 0.0
    same = (now.cores == then.cores) & (now.instances == then.instances)
    here = now.latency * (now.latency_s / float(now.latency.sum()))
    there = then.latency * (then.latency_s / float(then.latency.sum()))
    apart = np.square(here - there)
    shapes = np.where(same, apart * np.square(now.shape), np.square(here * now.shape) + np.square(there * then.shape))
    variance = (apart * np.square(now.common) + shapes).sum()
    saved = now.latency_s - then.latency_s
    if variance <= 0.0:
        return float(saved > 0.0)
    return float(normal_below(np.array([saved / math.sqrt(float(variance))]))[0])


def reaches(fare: Fare, name: str, bound: float) -> float:
    """Return the probability that an allocation reaches its target."""
    if name == RATE:
        (mean, sd), _, _, _ = _groups(fare, fare)
        return float(np.exp(_log_below(np.array([math.log(bound)]), mean, sd).sum()))
    if not math.isfinite(fare.latency_s):
        return 0.0
    # A sum of log-normals is nearly one, of the same mean and variance (Fenton 1960).
    means = fare.latency * (fare.latency_s / float(fare.latency.sum())) * np.exp(0.5 * fare.variance)
    mean = float(means.sum())
    variance = math.log1p(float((np.square(means) * np.expm1(fare.variance)).sum()) / mean**2)
    z = (math.log(bound / mean) + 0.5 * variance) / math.sqrt(max(variance, _TINY))
    return float(normal_below(np.array([z]))[0])


def company(fare: Fare) -> Ints:
    """Return each component's first companion, which names its group whatever its number."""
    first = np.full(int(fare.group.max()) + 1, len(fare.group), np.int64)
    np.minimum.at(first, fare.group, np.arange(len(fare.group)))
    return first[fare.group]


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

    def of(self, fare: Fare, sign: float = -1.0) -> float:
        """Return the cost per second; infinite where records arrive faster than they leave."""
        rate = 1.0 / fare.period_s if self.arrival_per_s is None else self.arrival_per_s
        if not math.isfinite(fare.latency_s):
            return math.inf
        return self.core_s * fare.used + self.latency_s * rate * fare.latency_s + sign * self.record * rate

    def turnover(self, fare: Fare) -> float:
        """Return all that flows per second, costs and worth: what a saving is a share of, even where the cost is 0."""
        return max(self.of(fare, 1.0), 1e-300)

    def drawn(self, fare: Fare, errors: Floats) -> Floats:
        """Return the cost for drawn log errors of the components' times, (K, n)."""
        factors = np.exp(errors)
        period = together(np.broadcast_to(fare.group, factors.shape), fare.seconds * factors).max(axis=1)
        rate = 1.0 / period if self.arrival_per_s is None else np.full(len(period), self.arrival_per_s)
        # What waits goes with the times, in proportion: without arrivals nothing does.
        latency = fare.latency_s * (factors @ fare.latency) / max(float(fare.latency.sum()), 1e-300)
        return np.asarray(self.core_s * fare.used + (self.latency_s * latency - self.record) * rate, np.float64)


def cheaper(now: Fare, then: Fare, price: Price) -> float:
    """Return the probability that `then` costs less than `now`: a difference of costs, taken as normal.

    Its deviation comes from drawn errors of the curves: a component's level is common to both, its shape where both give it
    the same cores. Cost O(n) a draw.
    """
    if not math.isfinite(price.of(then)):
        return 0.0
    if not math.isfinite(price.of(now)):
        return 1.0
    level, here, there = np.split(normals(3 * len(now.cores)), 3, axis=1)
    there = np.where((now.cores == then.cores) & (now.instances == then.instances), here, there)
    saved = price.drawn(now, level * now.common + here * now.shape) - price.drawn(
        then, level * then.common + there * then.shape
    )
    certain, deviation = price.of(now) - price.of(then), float(saved.std())
    return float(normal_below(np.array([certain / deviation]))[0]) if deviation > 0.0 else float(certain > 0.0)
