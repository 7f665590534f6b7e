"""Whether a better allocation is worth telling: its gain, the chance that it is one, and the time that repays the change.

An allocation that is best by a hair under today's estimates is not worth a change: the hair is noise, and a change costs. A
better one is told when, together,

- its gain is at least `Policy.gain_min`;
- the chance that it is no gain at all, the curves being as uncertain as they are, is below the k-th share of `Policy.risk` at the
  k-th look: risk / (k (k + 1)), shares that sum to `risk` however often one looks;
- the change is repaid within `Policy.horizon_s`.

Components' times are taken as independent and log-normal about their curves. Where an allocation gives a component the cores
that it has, both sides share its error; where not, the errors are taken as independent, which overstates them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.limits import CORES_MAX, CORES_MIN
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue, Unsupported
from advisor.planning.demand import TIE, Floats, Ints
from advisor.planning.plans import plan
from advisor.planning.requests import BOOLEANS, Request, by_key, number
from advisor.planning.visits import visits_of

Bools = NDArray[np.bool_]

GAIN_MIN = 0.05  # a runtime that moves cores for less than that is busy moving cores
RISK = 0.05  # of ever telling a change, between two real ones, that gains nothing: one watch in twenty
HORIZON_S = 600.0  # a change that takes longer to repay itself may well be overtaken by the next
# What the curves' own intervals cannot know of: a form that does not fit. The base tier is off by some per cent on its own forms.
SPREAD_MIN = 0.02
LEAST_ROWS = 8  # of the network between two looks: the drift test takes 5 rows of a component at the least
GROWTH = 4  # a look comes when a quarter more rows have come since the last change: their errors then are 11 % smaller
GRID = 4001  # points of the integral over the longest time
REACH = 8.0  # standard deviations of a normal beyond which nothing is left to add
RUNS_MIN = 16  # of each component whose time decides, before a change is judged by what it did
COSTS_KEPT = 8  # measured costs of change: what a change took a week ago says little


@dataclass(frozen=True, slots=True)
class Policy:
    """What a watch asks of an advice; see the module."""

    gain_min: float = GAIN_MIN
    risk: float = RISK
    horizon_s: float = HORIZON_S


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
    def given(cls, field_name: str, value: object, network: Network) -> Standing:
        """Return the standing that a caller names: key -> cores, or ``{"cores": p, "instances": k}``.

        Raises
        ------
        InvalidValue
            When a key is missing, unknown, or its value is none of these.
        """
        cores: dict[str, float] = {}
        instances: dict[str, int] = {}
        for row, (name, entry) in by_key(field_name, value, network).items():
            key = network.keys[row]
            parts = dict(entry) if isinstance(entry, Mapping) else {"cores": entry}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if not {"cores"} <= parts.keys() <= {"cores", "instances"}:
                raise InvalidValue(name, sorted(map(str, parts)), "a number of cores, or a map of cores and instances")
            cores[key] = number(f"{name}.cores", parts["cores"])
            count = parts.get("instances", 1)
            if isinstance(count, BOOLEANS) or not isinstance(count, int) or count < 1:
                raise InvalidValue(f"{name}.instances", count, "a whole number from 1")
            instances[key] = count
            if not CORES_MIN <= cores[key] <= CORES_MAX:
                raise InvalidValue(f"{name}.cores", cores[key], f"a number from {CORES_MIN:g} to {CORES_MAX:g}")
        for key in network.keys:
            if key not in cores:
                raise InvalidValue(
                    field_name, key, "every key of the network", "leave it out and rows tell the cores in use"
                )
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
    elapsed, upper = at_cores(curves, curves.elapsed_s, cores), at_cores(curves, curves.upper_s, cores)
    latency = visits * elapsed
    spread = np.maximum(np.log(upper / elapsed) / normal_quantile(level), SPREAD_MIN)
    group = np.arange(len(keys))
    used = int(round(float((cores * instances).sum())))
    if standing.groups:
        place = {key: row for row, key in enumerate(keys)}
        sizes = 0
        for number_, members in enumerate(standing.groups):
            rows = [place[key] for key in members]
            group[rows] = number_
            sizes += int((cores[rows] * instances[rows]).max())
        used = sizes
    return Fare(latency / instances, latency, spread, cores.astype(np.float64), instances, group, used)


def at_cores(curves: TabulatedCurves, values: Floats, cores: Floats) -> Floats:
    """Return each component's value at its own cores, linear in log T over log p, constant beyond the ends. Cost O(n log m)."""
    counts = np.log(curves.cores.astype(np.float64))
    p = np.clip(np.log(cores), counts[0], counts[-1])
    right = np.clip(np.searchsorted(counts, p), 1, max(1, len(counts) - 1))
    if len(counts) == 1:
        return values[:, 0].copy()
    rows = np.arange(len(cores))
    share = (p - counts[right - 1]) / (counts[right] - counts[right - 1])
    return np.exp((1.0 - share) * np.log(values[rows, right - 1]) + share * np.log(values[rows, right]))


def normal_quantile(level: float) -> float:
    """Return the z that a standard normal stays below with probability (1 + level) / 2."""
    return max(NormalDist().inv_cdf(0.5 * (1.0 + level)), 1e-3)


class Verdict(NamedTuple):
    """What is to be said of one allocation against another. `gain` and `probability` are of the objective."""

    gain: float
    probability: float
    cost_s: float
    break_even_s: float
    changed: tuple[str, ...]
    worth: bool
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class CostOfChange:
    """Seconds that the network stands still for a change: given, measured, or both.

    A given cost counts as one measurement: those that follow correct it by the mean of their ratios. Without one the cost is
    the mean of the measured ones, 0 before the first.

    Attributes
    ----------
    flat_s : float
        Of any change.
    by_key : mapping
        Key -> further seconds where that component's allocation changes: components are changed one after another.
    measured : tuple of (expected, took)
        The latest, `COSTS_KEPT` at most.
    """

    flat_s: float = 0.0
    by_key: Mapping[str, float] = field(default_factory=dict[str, float])
    measured: tuple[tuple[float, float], ...] = ()

    def expected_s(self, changed: Sequence[str]) -> float:
        """Return the seconds to expect of a change of these components. Cost O(changed)."""
        if not changed:
            return 0.0
        given = self.flat_s + sum(self.by_key.get(key, 0.0) for key in changed)
        if not self.measured:
            return given
        if given <= 0.0:
            return sum(took for _, took in self.measured) / len(self.measured)
        ratios = [took / expected for expected, took in self.measured if expected > 0.0]
        return given * (1.0 + sum(ratios)) / (1 + len(ratios))

    def learned(self, changed: Sequence[str], took_s: float) -> CostOfChange:
        """Return the cost after a change of these components took so long."""
        given = self.flat_s + sum(self.by_key.get(key, 0.0) for key in changed)
        return replace(self, measured=(*self.measured, (given, took_s))[-COSTS_KEPT:])


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to look again, in rows of the network's components: spacing grows with the rows since the last change of speed.

    Attributes
    ----------
    rows, changes : int
        At the last look.
    origin : int
        Rows at the last change of a component's speed, or at the beginning.
    looks : int
        Looks since then: the k of `risk / (k (k + 1))`.
    """

    rows: int = 0
    changes: int = 0
    origin: int = 0
    looks: int = 0

    def due(self, rows: int, changes: int, components: int) -> bool:
        """Return whether to look now. A change of speed is looked at at once; a row for each component is waited for otherwise."""
        if changes != self.changes:
            return True
        least = max(LEAST_ROWS, min(components, 64))
        return rows >= self.rows + max(least, (self.rows - self.origin) // GROWTH)

    def looked(self, rows: int, changes: int) -> Schedule:
        """Return the schedule after a look."""
        if changes != self.changes:
            return Schedule(rows, changes, rows, 1)
        return Schedule(rows, changes, self.origin, self.looks + 1)


def risk_at(look: int, policy: Policy) -> float:
    """Return the chance of no gain that is taken at the k-th look: shares of `policy.risk` that sum to it."""
    k = max(1, look)
    return policy.risk / (k * (k + 1.0))


def judge(
    objective: str,
    keys: Sequence[str],
    now: Fare,
    then: Fare,
    cost: CostOfChange,
    policy: Policy,
    look: int = 1,
    *,
    target: Mapping[str, float] | None = None,
    cautious_used: int | None = None,
) -> Verdict:
    """Return whether going from `now` to `then` is worth telling. Cost O(n log n).

    Parameters
    ----------
    objective : str
        ``throughput``, ``latency`` or ``fewest_cores``; the last with `target`.
    look : int
        How often was looked since the last change of speed.
    cautious_used : int, optional
        For ``fewest_cores``: what a plan on the curves' upper bounds would use, so that no cores are given up for a target that
        is met by luck.
    """
    changed = changes(keys, now, then)
    cost_s = cost.expected_s(changed)
    risk = risk_at(look, policy)
    if objective == "fewest_cores" and target:
        gain, probability, break_even = _fewer(now, then, cost_s, target, cautious_used)
    elif objective == "latency":
        saved = now.latency_s - then.latency_s
        gain, probability = saved / now.latency_s, _sooner(now, then)
        # Records that come while all stands still wait for half of it on average; each later one gains `saved`.
        break_even = cost_s + cost_s * cost_s / (2.0 * saved) if saved > 0 else math.inf
    else:
        gain, probability = now.period_s / then.period_s - 1.0, faster(now, then)
        # rate_then (t - cost) = rate_now t
        break_even = cost_s * (1.0 + gain) / gain if gain > 0 else math.inf
    gain = gain if abs(gain) > TIE else 0.0
    code, text = _words(gain, probability, break_even, cost_s, changed, risk, policy)
    return Verdict(gain, probability, cost_s, break_even, changed, code == "worth", code, text)


def changes(keys: Sequence[str], now: Fare, then: Fare) -> tuple[str, ...]:
    """Return the keys whose cores, instances or company differ, in text order."""
    differ = (now.cores != then.cores) | (now.instances != then.instances)
    if len(now.turns) != len(keys) or len(then.turns) != len(keys):
        differ |= _company(now) != _company(then)
    return tuple(keys[row] for row in np.flatnonzero(differ))


def _company(fare: Fare) -> Ints:
    """Return each component's first companion, which names its group whatever its number."""
    first = np.full(int(fare.group.max()) + 1, len(fare.group), np.int64)
    np.minimum.at(first, fare.group, np.arange(len(fare.group)))
    return first[fare.group]


def _words(
    gain: float,
    probability: float,
    break_even_s: float,
    cost_s: float,
    changed: Sequence[str],
    risk: float,
    policy: Policy,
) -> tuple[str, str]:
    if not changed:
        return "same", "the present allocation is the best one known"
    if gain < policy.gain_min:
        return (
            "small",
            f"the best allocation known would gain {gain:.2%}; less than {policy.gain_min:.2%} is not worth a change",
        )
    if 1.0 - probability > risk:
        return "unsure", (
            f"the best allocation known would gain {gain:.1%}, with probability {probability:.4f}: below {1.0 - risk:.4f} that may"
            " be noise"
        )
    if break_even_s > policy.horizon_s:
        return "unpaid", (
            f"it would gain {gain:.1%}, but the change costs {cost_s:.3g} s and is repaid after {break_even_s:.3g} s only;"
            f" the horizon is {policy.horizon_s:g} s"
        )
    return "worth", (
        f"it gains {gain:.1%}, with probability {probability:.4f}; the change costs {cost_s:.3g} s and is repaid after"
        f" {break_even_s:.3g} s"
    )


def faster(now: Fare, then: Fare, by: float = 0.0) -> float:
    """Return the probability that the period of `then` is below that of `now`, by a factor 1 + `by` at least.

    With S the longest time of the groups that both share, A that of the others in `then` and B that in `now`, the period of
    `then` is shorter exactly when B > max(S, A): an integral over B alone, P = int F_S F_A dF_B of log times, on a grid.
    Cost O(m GRID) for the m groups that can be the slowest.
    """
    (now_mean, now_sd), (then_mean, then_sd) = _groups(now), _groups(then)
    if len(now_mean) == len(then_mean) and np.array_equal(_company(now), _company(then)):
        rows = np.arange(len(now_mean))
        differ = np.zeros(len(now_mean), np.bool_)
        np.logical_or.at(differ, now.group, (now.cores != then.cores) | (now.instances != then.instances))
        # Groups of the same members have the same numbers only where these were given in the same order.
        shared = ~differ if np.array_equal(now.group, then.group) else np.zeros(len(rows), np.bool_)
    else:
        shared = np.zeros(len(now_mean), np.bool_)
    apart = ~shared
    after = then_mean if len(shared) != len(then_mean) else then_mean[apart]
    after_sd = then_sd if len(shared) != len(then_mean) else then_sd[apart]
    if not apart.any():
        return 0.0
    shift = math.log1p(by)
    high = max(float((mean + REACH * sd).max()) for mean, sd in ((now_mean, now_sd), (then_mean, then_sd)))
    low = max(
        float((mean - REACH * sd).max()) for mean, sd in ((now_mean, now_sd), (then_mean, then_sd))
    ) - REACH * max(float(now_sd.max()), float(then_sd.max()))
    x = np.linspace(low - 1e-9, high + 1e-9, GRID)
    below = np.diff(_longest(x, now_mean[apart], now_sd[apart]), prepend=0.0)
    middle = x - 0.5 * (x[1] - x[0]) - shift
    rest = _longest(middle, np.concatenate([now_mean[shared], after]), np.concatenate([now_sd[shared], after_sd]))
    return float(min(1.0, max(0.0, (below * rest).sum())))


def _groups(fare: Fare) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the log of each group's time."""
    turns = fare.turns
    variance = np.bincount(fare.group, weights=np.square(fare.seconds * fare.spread))
    there = turns > 0
    safe = np.where(there, turns, 1.0)
    mean = np.where(there, np.log(safe), -np.inf)
    return np.maximum(mean, -700.0), np.maximum(np.sqrt(variance) / safe, 1e-12)


def _longest(x: Floats, mean: Floats, sd: Floats) -> Floats:
    """Return P(all of independent normals <= x) at each point of a rising grid. Cost O(m GRID)."""
    alive = mean + REACH * sd > x[0]
    total = np.zeros_like(x)
    for centre, deviation in zip(mean[alive].tolist(), sd[alive].tolist(), strict=True):
        total += np.log(normal_below((x - centre) / deviation))
    return np.exp(total)


_TABLE_X = np.linspace(-REACH, REACH, GRID)
_TABLE = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in _TABLE_X.tolist()])
_TINY = 1e-300  # so that its logarithm is a number


def normal_below(z: Floats) -> Floats:
    """Return the standard normal's distribution function, to 5e-7. Cost O(n)."""
    return np.maximum(np.interp(z, _TABLE_X, _TABLE), _TINY)


def _sooner(now: Fare, then: Fare) -> float:
    """Return the probability that the latency of `then` is below that of `now`: a difference of sums, nearly normal."""
    same = (now.cores == then.cores) & (now.instances == then.instances)
    here, there = now.latency * now.spread, then.latency * then.spread
    variance = np.where(same, np.square(here - there), np.square(here) + np.square(there)).sum()
    saved = now.latency_s - then.latency_s
    if variance <= 0.0:
        return float(saved > 0.0)
    return float(normal_below(np.array([saved / math.sqrt(float(variance))]))[0])


def _fewer(
    now: Fare, then: Fare, cost_s: float, target: Mapping[str, float], cautious_used: int | None
) -> tuple[float, float, float]:
    """Return gain, probability and break-even of reaching a target again, or of reaching it with fewer cores."""
    ((name, value),) = target.items()
    bound = 1.0 / value if name == "throughput_per_s" else value
    has = now.period_s if name == "throughput_per_s" else now.latency_s
    if has > bound * (1.0 + TIE):
        would = then.period_s if name == "throughput_per_s" else then.latency_s
        missed = 1.0 - _reaches(now, name, bound)
        return has / max(would, bound) - 1.0, missed, 0.0
    saved = now.used - then.used
    if saved <= 0:
        return 0.0, 0.0, math.inf
    sure = cautious_used is not None and cautious_used < now.used
    if sure and cautious_used is not None:
        saved = min(saved, now.used - cautious_used)
    # All cores stand still for the cost; afterwards those saved do other work.
    return saved / now.used, 1.0 if sure else 0.5, cost_s * now.used / saved


def _reaches(fare: Fare, name: str, bound: float) -> float:
    """Return the probability that an allocation reaches its target."""
    if name == "throughput_per_s":
        return float(_longest(np.array([math.log(bound)]), *_groups_above(fare, bound))[0])
    deviation = math.sqrt(float(np.square(fare.latency * fare.spread).sum()))
    return float(normal_below(np.array([(bound - fare.latency_s) / max(deviation, 1e-300)]))[0])


def _groups_above(fare: Fare, bound: float) -> tuple[Floats, Floats]:
    mean, sd = _groups(fare)
    near = mean + REACH * sd > math.log(bound)
    return mean[near], sd[near]


class Outcome(NamedTuple):
    """What a change did: measured against what was promised."""

    paid: bool
    before: float
    promised: float
    measured: float
    text: str


def outcome(
    before: float, promised: float, seconds: Floats, spread: Floats, runs: Ints, *, objective: str, policy: Policy
) -> Outcome | None:
    """Return whether a change paid, once it can be told; None before. Cost O(n).

    Parameters
    ----------
    before, promised : float
        Seconds, of the period or of the latency, without the change and with it, as they were estimated when it was advised.
    seconds, spread : float64 arrays (n,)
        Measured since the change: each component's mean time a record, visits and instances included, and its relative standard
        error.
    runs : int64 array (n,)
        Runs measured since the change.

    Notes
    -----
    Which components decide: for the period those that can be the slowest, for the latency all. Paid: what was measured is below
    the middle, in log, between `before` and `promised`, and surely so; not paid: surely above it. Surely is 1 - risk.
    """
    log_seconds, sd = np.log(np.maximum(seconds, 1e-300)), np.maximum(spread, 1e-9)
    if objective == "latency":
        deciding = seconds > 0
        measured = float(seconds.sum())
        error = math.sqrt(float(np.square(seconds * sd).sum())) / max(measured, 1e-300)
    else:
        deciding = log_seconds + 3.0 * sd >= (log_seconds - 3.0 * sd).max()
        slowest = int(seconds.argmax())
        measured, error = float(seconds[slowest]), float(sd[slowest])
    if (runs[deciding] < RUNS_MIN).any() or measured <= 0.0:
        return None
    middle = math.sqrt(before * promised)
    z = math.log(middle / measured) / error
    chance = float(normal_below(np.array([z]))[0])
    if policy.risk < chance < 1.0 - policy.risk:
        return None
    paid = chance > 0.5
    noun = "latency" if objective == "latency" else "time a record"
    text = (
        f"the change {'paid' if paid else 'did not pay'}: the {noun} was {before:.4g} s, {promised:.4g} s were promised,"
        f" {measured:.4g} s were measured"
    )
    return Outcome(paid, before, promised, measured, text)


@dataclass(frozen=True, slots=True)
class Question:
    """What a watch asks when it looks again.

    Attributes
    ----------
    standing : Standing or None
        What the runtime has; None where nobody has told and no row has shown it.
    advised : Standing or None
        What it was last advised and has not applied: an advice is not repeated, and is taken back when it has become wrong.
    cost : CostOfChange
    policy : Policy
    look : int
    """

    standing: Standing | None
    advised: Standing | None
    cost: CostOfChange
    policy: Policy
    look: int


class Look(NamedTuple):
    """What a look found: the best allocation, how all fare, and what is to be told.

    `kind` is ``first`` (nothing stands yet), ``advice``, ``withdrawn`` or empty; `values` are the objective's figures, best first
    in name: of ``best``, and of ``present`` and ``advised`` where there are such.
    """

    kind: str
    allocation: Allocation
    verdict: Verdict | None
    values: dict[str, dict[str, float]]


def reconsider(network: Network, curves: TabulatedCurves, request: Request, question: Question) -> Look:
    """Return the best allocation of the moment, and whether it is worth telling. Raises and costs as `plan`."""
    best = plan(network, curves, request)
    visits = visits_of(network, request)
    level = request.level

    def fares(standing: Standing) -> Fare:
        return fare_of(network, curves, visits, level, standing)

    then = fares(Standing.of(best))
    values = {"best": _figures(then)}
    if question.standing is None:
        return Look("first", best, None, values)
    now = fares(question.standing)
    values["present"] = _figures(now)
    cautious = _cautious(network, curves, request) if request.objective == "fewest_cores" else None

    def judged(of: Fare, against: Fare, policy: Policy) -> Verdict:
        return judge(
            request.objective, network.keys, against, of, question.cost, policy, question.look,
            target=request.target, cautious_used=cautious,
        )  # fmt: skip

    verdict = judged(then, now, question.policy)
    if question.advised is None:
        return Look("advice" if verdict.worth else "", best, verdict, values)
    before = fares(question.advised)
    values["advised"] = _figures(before)
    # Of two that are both good enough the one that was told stays: the new one must be worth a change from that, too.
    if verdict.worth and judged(then, before, question.policy).worth:
        return Look("advice", best, verdict, values)
    still = judged(before, now, replace(question.policy, gain_min=0.0, risk=1.0))
    gone = still.gain <= 0.0 or still.probability < 0.5
    return Look("withdrawn" if gone else "", best, verdict, values)


def _figures(fare: Fare) -> dict[str, float]:
    return {"throughput_per_s": 1.0 / fare.period_s, "latency_s": fare.latency_s, "cores": float(fare.used)}


def _cautious(network: Network, curves: TabulatedCurves, request: Request) -> int | None:
    """Return the cores that the target takes when every curve is at its upper bound; None where it is then out of reach."""
    try:
        sure = plan(network, replace(curves, elapsed_s=curves.upper_s), request)
    except (ImpossibleTarget, Unsupported):
        return None
    return sum(count * sure.instances[key] for key, count in sure.cores.items())
