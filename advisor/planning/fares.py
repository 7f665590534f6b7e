"""How an allocation fares on uncertain curves, and the chance that one fares better than another.

Components' times are taken as independent of each other and log-normal about their curves. The error of one component's
curve has two parts: its level, the same on all cores (what is uncertain where the curve is known best), and its shape,
which adds to that elsewhere and is taken as independent from one count of cores to another. So two allocations share a
component's level, and where they give it the same cores its shape, too.
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
from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.asked.options import curves_for, heaviest_share
from advisor.planning.asked.requests import Request, scales_of, whole, within
from advisor.planning.asked.visits import Visits
from advisor.planning.in_turns.figures import Load, Places, arrivals_of, judged
from advisor.planning.in_turns.successions import NOTHING, successions
from advisor.planning.queues.model import Model
from advisor.planning.queues.structure import structure_of
from advisor.planning.solving.objectives import latency_of, quantile_of

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
        return cls(allocation.cores, allocation.instances, tuple(keys for _, keys in allocation.groups))

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
    keys = network.keys
    cores = np.array([standing.cores[key] for key in keys], np.float64)
    instances = np.array([standing.instances[key] for key in keys], np.int64)
    elapsed, common, shape = _known(curves, request, cores)
    elapsed = elapsed * scales_of(network, request)
    heaviest = 1.0 / instances
    for row, replicas in visits.replicas.items():
        heaviest[row] = heaviest_share(replicas, int(instances[row]))[0]
    work = visits.per_record * elapsed
    parts = (common, shape, cores, instances)
    if standing.groups:
        group, used = _turns_of(keys, standing, cores, instances)
        structure, arrivals = structure_of(network, visits), arrivals_of(request)
        after = NOTHING if arrivals is None else successions(structure)
        load = Load(
            structure,
            elapsed,
            heaviest,
            curves.variation,
            curves.contention,
            arrivals,
            after,
            request.quantile is not None,
        )
        figures = judged(load, Places(group, cores, instances))
        latency = visits.per_record * (elapsed + np.where(np.isfinite(figures.waits_s), figures.waits_s, 0.0))
        total = figures.latency_s
        if request.quantile is not None and math.isfinite(total):
            level = request.quantile
            total = float(quantile_of(np.array([total]), np.array([figures.latency_variance]), level)[0])
        return Fare(figures.turns_s, latency, *parts, group, used, total, float(work.sum()))
    model = Model(structure_of(network, visits), curves_for(network, curves, request, 1), request)
    found = model.judge_shapes(cast("Ints", cores[None]), instances[None], elapsed[None], heaviest[None])
    seconds = visits.per_record * heaviest * found.seconds_s[0]
    latency = visits.per_record * (found.seconds_s[0] + found.wait_s[0])
    # At the arrival rate less is busy than at the highest throughput, which the period is about.
    seconds *= float(found.period_s[0]) / float(seconds.max())
    used = round(float((cores * instances).sum()))
    total = float(latency_of(request, found)[0])
    return Fare(seconds, latency, *parts, np.arange(len(keys)), used, total, float(work.sum()))


def _known(curves: TabulatedCurves, request: Request, cores: Floats) -> tuple[Floats, Floats, Floats]:
    """Return T_c(p_c), and the relative standard errors of its level and of its shape, (n,) each."""
    elapsed, upper = at_cores(curves, cores)
    z = normal_quantile(request.level or LEVEL)
    everywhere = np.log(np.maximum(curves.upper_s / curves.elapsed_s, 1.0)).min(axis=1) / z
    here = np.log(np.maximum(upper / elapsed, 1.0)) / z
    beyond = np.sqrt(np.maximum(np.square(here) - np.square(everywhere), 0.0))
    return elapsed, np.minimum(everywhere, SPREAD_MAX), np.clip(beyond, SPREAD_MIN, SPREAD_MAX)


def _turns_of(keys: Sequence[str], standing: Standing, cores: Floats, instances: Ints) -> tuple[Ints, int]:
    """Return the group of each component, and the cores of all groups."""
    place = {key: row for row, key in enumerate(keys)}
    group, used = np.zeros(len(keys), np.int64), 0.0
    for order, members in enumerate(standing.groups):
        rows = [place[key] for key in members]
        group[rows] = order
        used += float((cores[rows] * instances[rows]).max())
    return group, round(used)


def at_cores(curves: TabulatedCurves, cores: Floats) -> tuple[Floats, Floats]:
    """Return T_c(p_c) and its upper bound, each (n,), for one count of cores (n,) a component. Cost O(n d), d counts."""
    counts, place = np.unique(cores, return_inverse=True)
    rows = np.arange(len(cores))
    return curves.at(counts)[rows, place], curves.at(counts, upper=True)[rows, place]


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
    if name == "throughput_per_s":
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
