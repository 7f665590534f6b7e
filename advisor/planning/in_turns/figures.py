"""What a grouping does: throughput, latency through the structure with waiting, contention, utilization.

While a component takes its turn it has its group for itself, so that only other groups are busy beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.requests import Request
from advisor.planning.asked.shape_demand import ShapeDemand
from advisor.planning.closed_forms.turns import Grouping, cycles, grouping
from advisor.planning.in_turns.asking import Asked
from advisor.planning.in_turns.journeys import journey
from advisor.planning.in_turns.queues import waits
from advisor.planning.in_turns.successions import Succession
from advisor.planning.queues.structure import Structure, through

ROUNDS_MAX = 200  # of the fixed point: each halves the distance where it does not settle at once
SETTLED = 1e-12  # relative change at which it is reached


@dataclass(frozen=True, slots=True)
class Figures:
    """What a grouping does.

    Attributes
    ----------
    turns_s, cycles_s : float64 arrays (n,), (k,)
        As in `Grouping`, contention at the highest throughput included.
    period_s : float
        Seconds between records that the network can sustain.
    unloaded_s : float
        Of a record alone in the network.
    latency_s, latency_variance : float
        The same, or with waiting where records arrive at a rate; infinite where they arrive faster than they leave.
    waits_s : float64 array (n,)
        Of a visit; 0 without arrivals.
    utilization : float64 array (n,)
        Share of its group's time that each component takes, at the arrival rate or else at the highest throughput.
    active : float
        Expected busy cores then.
    """

    turns_s: Floats
    cycles_s: Floats
    period_s: float
    unloaded_s: float
    latency_s: float
    latency_variance: float
    waits_s: Floats
    utilization: Floats
    active: float

    def slowest(self, found: Grouping) -> Ints:
        """Return the components of the groups whose cycle is the period."""
        return np.flatnonzero((self.cycles_s >= self.period_s * (1 - TIE))[found.group])


@dataclass(frozen=True, slots=True)
class Load:
    """What records ask of groups: one visit's time at each component, (n,) each, as it is without others.

    `heaviest` is the share of a component's records that its busiest instance serves; `after` is of `successions`, and needed
    where records arrive at a rate only; with `spread_asked` the variance of the latency is wanted, too.
    """

    structure: Structure
    seconds: Floats
    heaviest: Floats
    variation: Floats
    contention: Floats
    arrivals: tuple[float, float] | None
    after: Succession
    spread_asked: bool = False

    @property
    def visits(self) -> Floats:
        """Per record, (n,)."""
        return self.structure.visits.per_record


@dataclass(frozen=True, slots=True)
class Places:
    """Where components take their turns: group, cores and instances of each, (n,); cores may be means of what was seen."""

    group: Ints
    cores: Floats | Ints
    instances: Ints

    @property
    def groups(self) -> int:
        """How many."""
        return int(self.group.max()) + 1


def figures_of(asked: Asked, found: Grouping) -> Figures:
    """Return what a grouping does. Cost O(nodes), with joins and arrivals more."""
    return judged(_load(asked, found), Places(found.group, found.cores, found.instances))


def judged(load: Load, places: Places) -> Figures:
    """Return what components at their places do. Cost O(nodes), with joins and arrivals more."""
    visits, arrivals = load.visits, load.arrivals
    turn = visits * load.heaviest * load.seconds * _slowing(load, places, None)
    cycle = cycles(places.group, turn, places.groups)
    period = float(cycle.max())
    waited = np.zeros(len(turn))
    unloaded, spread = _through(load, places, load.seconds, waited, load.seconds**2 * load.variation, 0.0)
    latency, variance = unloaded, spread
    if arrivals is not None:
        arrival = arrivals[0]
        busy = load.seconds * _slowing(load, places, arrival)
        waited, wide = waits(places.group, arrivals, visits, busy, load.variation, load.after)
        latency = variance = np.inf
        if np.isfinite(waited).all():
            latency, variance = _through(load, places, busy, waited, wide + busy**2 * load.variation, arrival)
        work, rate = visits * busy, arrival
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            work, rate = np.where(visits > 0, turn / load.heaviest, 0.0), 1 / period
    share = np.minimum(rate * work * load.heaviest, 1.0)
    active = float((rate * work * places.cores).sum())
    return Figures(turn, cycle, period, unloaded, latency, variance, waited, share, active)


def arrivals_of(request: Request) -> tuple[float, float] | None:
    """Return the rate of arrivals and their squared coefficient of variation, or None."""
    return None if request.arrival_per_s is None else (request.arrival_per_s, request.arrival_variation)


def _load(asked: Asked, found: Grouping) -> Load:
    """Return the times of a grouping's shapes."""
    visits, curves = asked.visits.per_record, asked.curves
    with np.errstate(divide="ignore", invalid="ignore"):
        heaviest = np.where(found.stay_s > 0, found.turns_s / found.stay_s, 1.0)
        seconds = np.where(visits > 0, found.stay_s / visits, 0.0)
    none, wide = np.zeros(len(visits)), asked.request.quantile is not None
    if curves is None:
        return Load(asked.structure, seconds, heaviest, none, none, arrivals_of(asked.request), asked.after, wide)
    seconds = curves.seconds_s[np.arange(len(visits)), np.searchsorted(curves.counts, found.cores)]
    return Load(
        asked.structure, seconds, heaviest, curves.variation, curves.contention, arrivals_of(asked.request),
        asked.after, wide,
    )  # fmt: skip


def _slowing(load: Load, places: Places, rate: float | None) -> Floats:
    """Return the factor by which others slow each component, (n,), at a rate or at the highest throughput.

    1 + kappa_c (sum of the active cores of all other groups + those of its siblings), a fixed point with the rate.
    """
    factor = np.ones(len(load.seconds))
    if not load.contention.any():
        return factor
    siblings = (places.instances - 1) * places.cores
    for _ in range(ROUNDS_MAX):
        slowed = load.visits * load.seconds * factor
        most = 1 / float(cycles(places.group, load.heaviest * slowed, places.groups).max())
        flow = most if rate is None else min(rate, most)
        active = cycles(places.group, flow * slowed * places.cores, places.groups)
        others = np.maximum(active.sum() - active[places.group], 0.0) + siblings
        new = 1 + load.contention * others
        if (np.abs(new - factor) <= SETTLED * factor).all():
            return new
        factor = (new + factor) / 2
    return factor


def _through(
    load: Load, places: Places, service: Floats, wait: Floats, variance: Floats, arrival: float
) -> tuple[float, float]:
    """Return mean and variance of a record's time in the network; no variance where nobody asks and it costs much."""
    structure = load.structure
    if structure.joins:
        return journey(structure, places.group, service, wait, variance)
    if not load.spread_asked and not (arrival > 0 and structure.keeps_order):
        return float((load.visits * (service + wait)).sum()), 0.0
    ones = np.ones((1, len(service)), np.int64)
    whole, spread = through(structure, (service + wait)[None], variance[None], ones, arrival)
    return float(whole[0]), float(spread[0])


def lone_bound(asked: Asked, cores: int) -> Figures:
    """Return figures whose latency no grouping on so many cores undercuts: all at once on all cores, nobody in the way."""
    demand = asked.demand
    sizes = np.full(len(demand), cores, np.int64)
    if isinstance(demand, ShapeDemand):  # the shape of the shortest turn may have a longer stay on more cores
        sizes = demand.stay_s[:, :cores].argmin(axis=1) + 1
    alone = grouping(demand, np.arange(len(demand)), sizes, exact=False)
    load, none = _load(asked, alone), np.zeros(len(demand))
    places = Places(alone.group, alone.cores, alone.instances)
    latency, variance = _through(load, places, load.seconds, none, load.seconds**2 * load.variation, 0.0)
    return Figures(none, none, 0.0, latency, latency, variance, none, none, 0.0)
