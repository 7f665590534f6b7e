"""What a caller asks of a plan of a network, read and checked: what is missing are the curves, which change with every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from advisor.domain import limits
from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.curves import PROMISED
from advisor.domain.networks import Network
from advisor.domain.plan_options import PlanOptions, checked_options
from advisor.domain.vectors import Ints
from advisor.errors import InvalidValue
from advisor.models.prediction import LEVEL
from advisor.planning.by_key import allowed_of, limits_of, pins_of, within
from advisor.planning.placing import MachineNodes, machine_of
from advisor.planning.present import InUse, in_use_of
from advisor.planning.structure import Structure, structure_of
from advisor.planning.visits import visits_of

PERIOD, LATENCY, CORES = "period", "latency", "cores"  # what an objective minimises
RATE, LATE = "throughput_per_s", "latency_s"  # what a target names


class Objective(NamedTuple):
    """What an objective minimises, the targets that it takes, a figure of it in words, and what it seeks.

    With `fewest` cores are sought for a target: the first allocation on a way of rising cores that reaches it is best.
    """

    measure: str
    targets: tuple[str, ...]
    figure: str
    by_rate: bool = False
    by_latency: bool = False
    fewest: bool = False


REACH = "it would reach {} records/s"
OBJECTIVES: Mapping[str, Objective] = {
    "throughput": Objective(PERIOD, (), REACH, by_rate=True),
    "latency": Objective(LATENCY, (RATE,), "a record would take {} s", by_latency=True),
    "fewest_cores": Objective(CORES, (RATE, LATE), "it would take {} cores", fewest=True),
}
MEASURES: Mapping[str, str] = {RATE: PERIOD, LATE: LATENCY}  # what a target names -> the figure that reaches it
# What a target names -> the objective without a target whose best says what is possible.
BARE: Mapping[str, str] = {RATE: "throughput", LATE: "latency"}
# Of a target: wider than ELAPSED_MIN_S and ELAPSED_MAX_S with any visits and instances, and far from overflow.
TARGET_MIN, TARGET_MAX = 1e-30, 1e30
ARRIVAL_VARIATION_MAX = 1e4  # squared coefficient of variation between arrivals: burstier is no stationary stream
QUANTILE_MAX = 0.9999  # of the latency: beyond, the tail of a fit by two moments tells nothing
# What is a number, from what to what.
WITHIN: Mapping[str, tuple[float, float]] = {
    "quantile": (limits.LEVEL_MIN, QUANTILE_MAX),
    "memory_bytes": (1.0, limits.MEASURES["peak_bytes"][1] * limits.CORES_MAX),
    "arrival_per_s": (TARGET_MIN, TARGET_MAX), "arrival_variation": (0.0, ARRIVAL_VARIATION_MAX),
}  # fmt: skip
# Whether components may take turns on shared cores: not at all, where there are fewer cores than components, or wherever
# that does better than a core of one's own for each.
NEVER, SCARCE = "never", "scarce"
PRICE = NormalDist().inv_cdf(PROMISED) / NormalDist().inv_cdf(LEVEL)  # of `PROMISED`, in units of the curves' bounds


class Bounds(NamedTuple):
    """What a request lets each component have, whatever its curve."""

    # (n,): fewest and most cores of one instance, and instances
    low: Ints
    high: Ints
    fewest: Ints
    most: Ints
    pins: Mapping[int, tuple[int | None, int | None]]  # row -> (cores, instances), None where one of them is open
    # row -> shares of the records of the replicas of splits around it, heaviest first
    replicas: Mapping[int, Sequence[float]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Request(PlanOptions):
    """What to plan for: options that are typed; raises InvalidValue when values exclude each other, whatever the network.

    `cores` are whole cores to hand out; None is allowed where they are what is sought: as many as it takes. With `network`
    the options are applied to it, once: raises InvalidValue, TooLarge, MissingShares when they do not fit. Cost O(n).
    """

    cores: int | None = None
    network: Network | None = None
    # the last demand by its price: of other times at the same counts only these are put in
    last: dict[float, Any] = field(init=False, default_factory=dict[float, Any], repr=False)

    def __post_init__(self) -> None:
        if self.cores is None and not self.aim.fewest:
            raise InvalidValue("cores", None, f"given: {self.objective} is planned for a number of cores")
        self._check_target()
        for name, bounds in WITHIN.items():
            if getattr(self, name) is not None:
                within(name, getattr(self, name), *bounds)
        if self.network is not None:  # what is wrong with the options is said before there are curves
            _ = self.structure, self.machine, self.bounds, self.rules, self.in_use

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of the network."""
        return self._of.keys

    @property
    def _of(self) -> Network:
        if self.network is None:
            raise InvalidValue("network", None, "given")
        return self.network

    @cached_property
    def structure(self) -> Structure:
        """The network with the visits of its records."""
        return structure_of(self._of, visits_of(self._of, self))

    @cached_property
    def machine(self) -> MachineNodes:
        """The machine that is asked for."""
        return machine_of(self.cores or limits.ALLOCATE_CORES_MAX, self.nodes, self.memory_bytes)

    @cached_property
    def bounds(self) -> Bounds:
        """What the components may have."""
        low, high, most = limits_of(self._of, self)
        fewest, pins = np.ones(len(low), np.int64), pins_of(self._of, self)
        for row, (_, instances) in pins.items():
            if instances is not None:
                fewest[row] = most[row] = instances
        replicas = {row: some for row, some in self.structure.visits.replicas.items() if most[row] > 1}
        for row, shares in replicas.items():
            most[row] = max(min(int(most[row]), len(shares)), int(fewest[row]))
        return Bounds(low, high, fewest, most, pins, replicas)

    @cached_property
    def rules(self) -> dict[int, AllowedCores]:
        """Row -> the counts that are allowed, where not all are."""
        return allowed_of(self._of, self)

    @cached_property
    def in_use(self) -> InUse | None:
        """What the runtime has now."""
        return None if self.current is None else in_use_of("current", self.current, self.keys)

    @cached_property
    def price(self) -> float:
        """Where to plan, in units of the curves' bounds: a throughput is promised at `PROMISED`, all else expected.

        One price for the highest throughput and for the fewest cores for one: the latter are the least on which the former
        reaches it.
        """
        return PRICE if self.promises and self.level is None else 0.0

    @cached_property
    def coupled(self) -> bool:
        """Whether more than contention couples components to each other."""
        return (self.nodes, self.memory_bytes, self.arrival_per_s) != (None,) * 3

    @cached_property
    def aim(self) -> Objective:
        """What is sought."""
        return OBJECTIVES[self.objective]

    @property
    def gap_variation(self) -> float:
        """Squared coefficient of variation of the time between arrivals: of a Poisson stream, where none is given."""
        return 1.0 if self.arrival_variation is None else self.arrival_variation

    @cached_property
    def for_latency(self) -> bool:
        """Whether latency is what is planned for."""
        return self.aim.by_latency or LATE in (self.target or {})

    @property
    def promises(self) -> bool:
        """Whether the answer promises a throughput."""
        return RATE in (self.target or {}) if self.aim.fewest else self.aim.by_rate

    def _check_target(self) -> None:
        targets, needed = self.aim.targets, self.aim.fewest
        given = self.target
        if given is None and not needed:
            return
        if not targets:
            raise InvalidValue("target", given, f"absent for {self.objective}", "ask for the fewest cores")
        if given is None or len(given) != 1 or not given.keys() <= set(targets):
            raise InvalidValue("target", given, f"a map with one of {', '.join(targets)}")
        for name, value in given.items():
            within(f"target.{name}", value, TARGET_MIN, TARGET_MAX)


def request_about(network: Network, request: Request) -> Request:
    """Return a request as it is about a network. Raises InvalidValue, TooLarge, MissingShares."""
    return replace(request, network=network)


def request_of(options: Mapping[str, Any]) -> Request:
    """Return the request of options by name. Raises UnknownKey for a name that no request has, InvalidValue, TooLarge."""
    return Request(**checked_options(options))
