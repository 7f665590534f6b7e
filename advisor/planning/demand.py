"""What the components of a network ask of the cores: the one demand on which plans are made.

Every curve is made of pieces T_c(p) = level + fall / p between counts. So seconds, and the fewest cores for some seconds, are
closed forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from advisor.domain.allowed_cores import AllowedCores, intersect_allowed
from advisor.domain.curves import TabulatedCurves
from advisor.domain.vectors import Floats, Ints
from advisor.errors import ImpossibleTarget, InvalidValue
from advisor.planning.by_key import scales_of
from advisor.planning.partitions import exact_sizes
from advisor.planning.pieces import KERNELS
from advisor.planning.placing import SLACK, MachineNodes
from advisor.planning.record_runs import RecordRuns, records_of
from advisor.planning.requests import NEVER, SCARCE, Request
from advisor.planning.structure import Structure
from advisor.planning.thinning import numbers_of
from advisor.planning.visits import heaviest_share

SHARED_COMPONENTS_MAX = 2_000  # components beyond which turns are for fewer cores than components only: seconds
NEAR = 0.9  # of the slowest turn: learned curves are off by several per cent, beyond the counts seen by more


class Shapes(NamedTuple):
    """Cores of an instance, and instances, (n,) each."""

    cores: Ints
    instances: Ints

    @property
    def cores_used(self) -> int:
        """Cores taken."""
        return int((self.cores * self.instances).sum())


class Scales(NamedTuple):
    """What runs found over the formula under arrivals: of each component's waits, (n,), of mean and quantile."""

    waits: Floats | None = None
    mean: float = 1.0
    quantile: float = 1.0


PLAIN = Scales()


@dataclass(frozen=True)
class Demand:
    """What a request asks of the curves of n components."""

    visits: Floats  # (n,): v_c, per record that enters the network
    knots: Floats  # (m,): counts at which pieces begin, from 1
    # (n, m): T_c(p) = level + fall / p seconds a visit from each knot to the next: what is planned with, the upper bound
    # where a level was asked for
    level: Floats
    fall: Floats
    # (n,): Fewest and most cores of one instance: limits and pins, and what the curve knows
    low: Ints
    high: Ints
    # (n,): instances
    fewest: Ints
    most: Ints
    rules: Mapping[int, AllowedCores]  # row -> its counts from `low` to `high`, where these are not all
    # row -> shares of the records of the replicas of splits around it, heaviest first
    replicas: Mapping[int, Sequence[float]]
    # (n,): as in `TabulatedCurves`
    variation: Floats
    contention: Floats
    peak_bytes: Floats
    last: Ints  # (n,): counts beyond were not measured
    curves: TabulatedCurves  # what it was made of
    scale: Floats | float  # (n, 1): factor on the times
    request: Request
    machine: MachineNodes
    price: float = 0.0  # in units of the curves' bounds: at what is planned
    scales: Scales = PLAIN

    def __len__(self) -> int:
        return self.visits.shape[0]

    @property
    def structure(self) -> Structure:
        """The network as the latency sees it."""
        return self.request.structure

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the components."""
        return self.request.keys

    @property
    def cores(self) -> int:
        """Cores of the machine."""
        return self.machine.cores

    @cached_property
    def widest(self) -> int:
        """The most cores that any one component can use."""
        widest = min(self.machine.widest, int(self.high.max()) * int(self.most.max()))
        return max(widest, int(self.low.max()))

    @cached_property
    def sharing(self) -> bool:
        """Whether components may take turns."""
        n, turns = len(self), self.request.turns
        return turns != NEVER and (self.cores < n or (turns != SCARCE and n <= SHARED_COMPONENTS_MAX))

    @cached_property
    def contended(self) -> bool:
        """Whether some components slow down with others busy."""
        return bool(self.contention.any())

    @cached_property
    def least(self) -> int:
        """The fewest cores with which each component has its own, but for rules."""
        return int((self.low * self.fewest).sum())

    @cached_property
    def few(self) -> tuple[Ints, Ints]:
        """Sizes of groups and counts of instances of which all partitions are looked at; none where nothing is shared."""
        most = min(exact_sizes(len(self)), self.cores, self.widest) if self.sharing else 0
        return np.arange(1, most + 1), np.array(numbers_of(1, max(min(int(self.most.max()), most), 1)))

    def scaled(self, scales: Scales) -> Demand:
        """Return the demand with a formula of latency under arrivals that is scaled to what a run has found."""
        return self if self.scales is scales else replace(self, scales=scales)

    @property
    def queued(self) -> bool:
        """Whether records arrive at a rate."""
        return self.request.arrival_per_s is not None

    @cached_property
    def runs(self) -> RecordRuns | None:
        """The runs of this network under its arrivals, None where there are none or it is too large."""
        rate = self.request.arrival_per_s
        if rate is None or not records_of(self.visits):
            return None
        return RecordRuns(self.structure, self.variation, rate, self.request.gap_variation)

    def asking(self, **other: object) -> Demand:
        """Return the demand with other options of its objective."""
        return replace(self, request=replace(self.request, **other))  # type: ignore[arg-type]

    @cached_property
    def single(self) -> bool:
        """True when no component may have a second instance."""
        return bool(self.most.max() == 1)

    @cached_property
    def plain(self) -> bool:
        """True when nothing but fewest and most cores and most instances limits the shapes."""
        return not self.rules and bool(self.fewest.max() == 1) and (self.single or not self.replicas)

    def seconds(self, cores: Ints | Floats) -> Floats:
        """Return T_c(cores_c), of the shape of `cores`: (n,), or (K, n) for K allocations. Cost O(K n log m)."""
        found, n = np.empty(cores.shape), self.visits.shape[0]
        each = (-1, n)
        counts = cores.astype(np.float64).reshape(each)
        KERNELS.all_seconds(self.level, self.fall, self.knots, counts, found.reshape(each))
        return found

    def at(self, counts: Ints) -> Floats:
        """Return T_c(p) for all of some counts p, (n, k)."""
        place = np.searchsorted(self.knots, counts, side="right") - 1
        return self.level[:, place] + self.fall[:, place] / counts

    @cached_property
    def expected(self) -> Demand:
        """The same at the expected times."""
        level, fall = (part * self.scale for part in pieces_at(self.curves, 0.0))
        return replace(self, level=level, fall=fall)

    def within_seen(self, cores: Ints) -> bool:
        """Return whether all counts of allocations, (n,) or (K, n), were seen or lie between such, or nothing is promised."""
        seen = self.curves.seen
        return seen is None or not self.price or bool(((cores <= seen.most) & (cores >= seen.least)).all())

    def rows(self, chosen: Ints) -> Demand:
        """Return the demand of some of the components."""
        arrays = ("visits", "level", "fall", "low", "high", "fewest", "most")
        every = chosen.tolist() if self.rules or self.replicas else ()
        rules = {row: self.rules[old] for row, old in enumerate(every) if old in self.rules}
        replicas = {row: self.replicas[old] for row, old in enumerate(every) if old in self.replicas}
        return replace(self, rules=rules, replicas=replicas, **{name: getattr(self, name)[chosen] for name in arrays})

    def heaviest(self, row: int, instances: int) -> float:
        """Return the share of a component's records that its busiest instance serves: more than an equal one under splits."""
        return heaviest_share(self.replicas[row], instances)[0] if row in self.replicas else 1 / instances

    def busiest(self, instances: Ints) -> Floats:
        """Return `heaviest` of all components, (n,)."""
        shares = 1 / instances
        for row in self.replicas:
            shares[row] = self.heaviest(row, int(instances[row]))
        return shares

    def turns(self, shapes: Shapes) -> Floats:
        """Return the seconds a record of the busiest instance of each component, (n,)."""
        return self.visits * self.seconds(shapes.cores) * self.busiest(shapes.instances)

    @cached_property
    def inner(self) -> Floats:
        """T_c at the knots, infinite outside [low_c, high_c], (n, m)."""
        outside = (self.knots < self.low[:, None]) | (self.knots > self.high[:, None])
        return np.where(outside, np.inf, self.level + self.fall / self.knots)

    def fastest(self, sizes: Ints) -> Ints:
        """Return the cores up to sizes_c, within the limits, on which each component is fastest: fewest of equals."""
        end = np.clip(sizes, self.low, self.high)
        inner = np.where(self.knots > end[:, None], np.inf, self.inner)
        place = inner.argmin(axis=1)
        best, cores = inner[np.arange(len(self)), place], self.knots[place].astype(np.int64)
        for edge in (end, self.low):
            seconds = self.seconds(edge)
            better = (seconds < best) | ((seconds == best) & (edge < cores))
            best, cores = np.where(better, seconds, best), np.where(better, edge, cores)
        return cores

    @cached_property
    def limits(self) -> tuple[Ints | Floats, ...]:
        """Which shapes each component may have, as kernels take it: see `advisor.planning.pieces`."""
        if not self.rules and not self.replicas:
            return (self.low, self.high, self.fewest, self.most, *_unlimited(len(self)))
        rules, firsts = np.ones((len(self), 3), np.int64), np.full(len(self), -1, np.int64)
        lists, heaviest = list[int](), list[float]()
        for row, rule in self.rules.items():
            members = rule.listed
            rules[row] = (-1, len(lists), len(lists) + len(members)) if members else (rule.multiple_of, 0, 0)
            lists += members
        for row in self.replicas:
            numbers, firsts[row] = numbers_of(1, int(self.most[row])), len(heaviest)
            for number, after in zip(numbers, [*numbers[1:], numbers[-1] + 1], strict=True):
                heaviest += [self.heaviest(row, number)] * (after - number)
        return (self.low, self.high, self.fewest, self.most, rules, np.array(lists or [0], np.int64), firsts,
                np.array(heaviest or [1.0]))  # fmt: skip

    def padded(self, shapes: Shapes, period_s: float, cores: int) -> Shapes:
        """Return shapes with cores that are left given to whose turns are within NEAR of the period, the slowest first.

        Curves err: whoever is nearly the slowest may be it. The period by these curves stays as it is.
        """
        wanted, turns = np.empty((2, len(self)), np.int64), np.empty(len(self))
        KERNELS.shapes_within(
            (self.level, self.fall, self.knots), self.limits, self.visits, NEAR * period_s, wanted, turns
        )
        taken, left = np.array(shapes), cores - shapes.cores_used
        extra = wanted.prod(axis=0) - taken.prod(axis=0)
        for row in np.argsort(-self.visits * self.seconds(shapes.cores) / shapes.instances, kind="stable").tolist():
            if 0 < extra[row] <= left:
                taken[:, row] = wanted[:, row]
                left -= int(extra[row])
        return Shapes(*taken)


@lru_cache(64)
def _unlimited(n: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Return the last four of `limits` where every count is allowed, and instances get equal shares."""
    return np.ones((n, 3), np.int64), np.zeros(1, np.int64), np.full(n, -1, np.int64), np.ones(1)


def demand_of(request: Request, curves: TabulatedCurves, price: float = 0.0) -> Demand:
    """Return the demand that a request makes on the curves, one curve a key. Cost O(n), with tables O(n m) once.

    With a level it lies on the curves' upper bound, else at `price`. Raises InvalidValue when there are more or fewer curves
    than keys, or a pin lies beyond its curve.
    """
    keys, bounds = request.keys, request.bounds
    n, low, high = len(keys), bounds.low, bounds.high
    if len(curves) != n:
        raise InvalidValue("curves", len(curves), f"one curve a key, {n}")
    knots, last = curves.cores.astype(np.float64), np.full(n, int(curves.cores[-1]), np.int64)
    pieces = pieces_at(curves, None if request.level is not None else price)
    rest = curves.variation, curves.contention, curves.peak_bytes
    high = np.maximum(np.minimum(high, last), low)
    scale: Floats | float = 1.0
    if request.scale:
        scale = scales_of(request.structure.network, request)[:, None]
        pieces = pieces[0] * scale, pieces[1] * scale
    rules = rules_of(request, curves)
    if bounds.pins or rules:
        low, high = low.copy(), high.copy()
    for row, (cores, _) in bounds.pins.items():
        if cores is not None:
            if not low[row] <= cores <= high[row]:
                raise InvalidValue(f"minimum.{keys[row]}", cores, f"a count from {low[row]} to {high[row]}",
                                   "no count is left for it")  # fmt: skip
            low[row] = high[row] = cores
    for row, rule in tuple(rules.items()):
        found = rule.between(int(low[row]), int(high[row]))
        if found is None:
            raise InvalidValue(f"allowed.{keys[row]}", str(rule),
                               f"a set with a count from {low[row]} to {high[row]}", "no count is left for it")  # fmt: skip
        low[row], high[row] = found.least, found.most
        if len(found) == found.most - found.least + 1:
            del rules[row]
        else:
            rules[row] = found
    return Demand(request.structure.visits.per_record, knots, *pieces, low, high, bounds.fewest, bounds.most, rules,
                  bounds.replicas, *rest, last, curves, scale, request, request.machine, price)  # fmt: skip


def rules_of(request: Request, curves: TabulatedCurves) -> dict[int, AllowedCores]:
    """Return row -> the counts that the request and the component itself allow; raises InvalidValue where these are none."""
    rules = dict(request.rules)
    for row, mine in enumerate(curves.allowed or ()):
        if mine is not None:
            field, whose = f"allowed.{request.keys[row]}", f"component {request.keys[row]!r}"
            rules[row] = mine if row not in rules else intersect_allowed(field, rules[row], mine, whose)
    return rules


def pieces_at(curves: TabulatedCurves, price: float | None) -> tuple[Floats, Floats]:
    """Return level and fall of curves at a price, or of their upper bounds where None is given, (n, m) each. Cost O(n m)."""
    upper, seen, n = curves.upper_s, curves.seen, curves.elapsed_s.shape[0]
    elapsed = curves.elapsed_s if price is not None else np.maximum(upper, curves.elapsed_s)
    least, most = (np.zeros(n), np.full(n, np.inf)) if seen is None else (seen.least, seen.most)
    level, fall = np.empty(elapsed.shape), np.empty(elapsed.shape)
    KERNELS.pieces_of(curves.cores.astype(np.float64), elapsed, upper, least, most, price or 0.0, level, fall)
    return level, fall


# --- the demand of the moment: the last one again, as far as it is the same --------------------------------------------------


def question_of(request: Request, curves: TabulatedCurves, price: float = 0.0) -> Demand:
    """Return what is to be solved, of curves at a price for what is not known: the last one again, as far as it is the same.

    Raises InvalidValue, TooLarge, ImpossibleTarget when limits leave a component nothing, or one instance needs more memory
    than there is.
    """
    last = request.last.get(price)
    if last is not None:
        old = last.curves
        if old is curves:
            return last
        if old.cores is curves.cores and old.allowed is curves.allowed and not curves.peak_bytes.any():
            last = request.last[price] = _renewed(last, curves)
            return last
    last = request.last[price] = _first_question(request, curves, price)
    return last


def _renewed(old: Demand, curves: TabulatedCurves) -> Demand:
    """Return the demand at other times of the same counts: its limits stay as they were found."""
    level, fall = pieces_at(curves, None if old.request.level is not None else old.price)
    found = object.__new__(Demand)
    vars(found).update(vars(old), level=level * old.scale, fall=fall * old.scale, variation=curves.variation,
                       contention=curves.contention, peak_bytes=curves.peak_bytes, curves=curves)  # fmt: skip
    for cached in ("inner", "expected", "contended", "plan", "runs"):
        vars(found).pop(cached, None)
    return found


def _first_question(request: Request, curves: TabulatedCurves, price: float) -> Demand:
    keys, machine = request.keys, request.machine
    demand = demand_of(request, curves, price)
    low = int(demand.low.max())
    if low > machine.widest:
        key = keys[int(demand.low.argmax())]
        field = _raised_by(demand)
        raise InvalidValue(f"{field}.{key}", low, f"at most {machine.widest}, the cores given")
    peak = float(demand.peak_bytes.max())
    if peak > machine.memory_bytes * (1 + SLACK):
        key = keys[int(demand.peak_bytes.argmax())]
        raise ImpossibleTarget(
            f"one instance of {key} may need {peak:.6g} bytes; there are {machine.memory_bytes:.6g}",
            field=key, value=machine.memory_bytes, bound=peak,
            hint="give a machine with more memory, or a smaller load",
        )  # fmt: skip
    if request.turns == NEVER and demand.cores < len(keys):
        raise InvalidValue("cores", demand.cores, f"at least {len(keys)}, one for each component",
                           "let components take turns on them")  # fmt: skip
    if not demand.sharing and demand.least > demand.cores:
        field = _raised_by(demand)
        raise InvalidValue(field, demand.least, f"at most {demand.cores}, the cores given, in sum")
    return demand


def _raised_by(demand: Demand) -> str:
    """Return the field that sets the fewest cores of the components too high: `allowed` where sets of counts raise them."""
    low, pins = demand.request.bounds.low, demand.request.bounds.pins
    raised = [row for row in rules_of(demand.request, demand.curves) if row not in pins and demand.low[row] > low[row]]
    return "allowed" if raised else "minimum"
