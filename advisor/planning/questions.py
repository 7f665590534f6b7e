"""A request with all that it is about: what is solved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from advisor.domain import limits
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue
from advisor.planning.demand import ALL_INSTANCES, AnyCurves, Demand, Places, demand_of, places_of
from advisor.planning.judge import Model
from advisor.planning.options import check_possible
from advisor.planning.placing import SLACK, Machine, machine_of
from advisor.planning.requests import NEVER, Request
from advisor.planning.structure import Structure, structure_of
from advisor.planning.visits import Visits

TABLES_MAX = 30_000  # components times cores up to which plans are made on tables of all sizes
SHARED_COMPONENTS_MAX = 2_000  # components beyond which turns are for fewer cores than components only: seconds


@dataclass(frozen=True)
class Question:
    """A request with all that it is about: what is solved."""

    request: Request
    visits: Visits
    structure: Structure
    demand: Demand
    cores: int
    machine: Machine
    most: int = field(init=False)

    def __post_init__(self) -> None:
        """Note the most cores that any one component can use."""
        widest = min(
            self.cores, int(self.demand.high.max()) * int(self.demand.most.max()), int(self.machine.sizes.max())
        )
        object.__setattr__(self, "most", max(widest, int(self.demand.low.max())))

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the network."""
        return self.structure.network.keys

    @cached_property
    def model(self) -> Model:
        """The judge."""
        return Model(self.structure, self.demand, self.request)

    @cached_property
    def shares(self) -> bool:
        """Whether components may take turns."""
        n = len(self.demand)
        return self.request.may_share(n, self.cores) and (n <= SHARED_COMPONENTS_MAX or self.cores < n)

    @property
    def least(self) -> int:
        """The fewest cores with which each component has its own, but for rules."""
        return int((self.demand.low * self.demand.fewest).sum())

    @property
    def tabled(self) -> bool:
        """Whether plans are made on tables of sizes; else by closed forms."""
        demand = self.demand
        return not demand.plain or (len(demand) * self.most <= TABLES_MAX and int(demand.most.max()) <= ALL_INSTANCES)

    def places(self, most: int, *, by_stay: bool = False) -> Places:
        """Return the best shapes on up to `most` cores.

        Raises
        ------
        InvalidValue
            When nothing is left for a component.
        """
        found = places_of(self.demand, min(most, self.most), by_stay=by_stay)
        check_possible(self.keys, self.demand, np.isfinite(found.turn_s), most)
        return found

    def asking(self, **other: object) -> Question:
        """Return the question with other options of its objective: nothing about demand or machine."""
        request = replace(self.request, **other)  # type: ignore[arg-type]
        return Question(request, self.visits, self.structure, self.demand, self.cores, self.machine)


def question_of(network: Network, curves: AnyCurves, request: Request, visits: Visits) -> Question:
    """Return what is to be solved.

    Raises
    ------
    InvalidValue, TooLarge, ImpossibleTarget
        When limits leave a component nothing, or one instance needs more memory than there is.
    """
    demand = demand_of(network, curves, request, visits)
    cores = request.cores or limits.ALLOCATE_CORES_MAX
    machine = machine_of(cores, request.nodes, request.memory_bytes)
    low, key = int(demand.low.max()), network.keys[int(demand.low.argmax())]
    if low > int(machine.sizes.max()):
        raise InvalidValue(f"minimum.{key}", low, f"at most the {int(machine.sizes.max())} cores given")
    peak, at = float(demand.peak_bytes.max()), int(demand.peak_bytes.argmax())
    if peak > machine.memory_bytes * (1 + SLACK):
        raise ImpossibleTarget(
            f"one instance of {network.keys[at]} may need {peak:.6g} bytes; there are {machine.memory_bytes:.6g}",
            field=network.keys[at], value=machine.memory_bytes, bound=peak,
            hint="give a machine with more memory, or a smaller load",
        )  # fmt: skip
    question = Question(request, visits, structure_of(network, visits), demand, cores, machine)
    if request.turns == NEVER and cores < len(network.keys):
        raise InvalidValue("cores", cores, f"at least {len(network.keys)}, one for each component",
                           "let components take turns on them")  # fmt: skip
    if not question.shares and question.least > cores:
        raise InvalidValue("minimum", question.least, f"at most the {cores} cores given in sum")
    return question
