"""A request with all that it is about: what is solved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from advisor.domain import limits
from advisor.domain.curves import TabulatedCurves
from advisor.domain.flows import Flow
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue
from advisor.planning.demand import (
    AnyCurves,
    Demand,
    Places,
    Terms,
    demand_of,
    numbers_of,
    pieces_at,
    places_of,
    rules_of,
    terms_of,
)
from advisor.planning.judge import PlanModel
from advisor.planning.partitions import exact_sizes
from advisor.planning.placing import SLACK, MachineNodes, machine_of
from advisor.planning.requests import BETTER, NEVER, Ints, Request
from advisor.planning.structure import Structure, structure_of
from advisor.planning.visits import visits_of

TABLES_MAX = 30_000  # components times cores up to which plans are made on tables of all sizes
SHARED_COMPONENTS_MAX = 2_000  # components beyond which turns are for fewer cores than components only: seconds


@dataclass(eq=False, slots=True)
class Asked:
    """A request about a network, read and checked: what is missing are the curves, which change with every row."""

    terms: Terms
    structure: Structure
    machine: MachineNodes
    # the last question by its price: of other times at the same counts only these are put in
    last: dict[float, PlanQuestion] = field(init=False, default_factory=dict[float, "PlanQuestion"], repr=False)
    promises: bool = field(init=False)  # a throughput, where nobody asks for a level
    by_rate: bool = field(init=False)  # nothing but contention couples components to each other

    def __post_init__(self) -> None:
        """Note what decides how it is planned."""
        request = self.terms.request
        self.promises = request.promises and request.level is None
        coupled = (request.nodes, request.memory_bytes, request.arrival_per_s, request.weights) != (None,) * 4
        self.by_rate = not (coupled or request.aim.front or request.for_latency)


def asked_of(network: Network, request: Request, flow: Flow | None = None) -> Asked:
    """Return what a request asks of a network, its records' way as it was learned where the request is silent. Cost O(n).

    Raises InvalidValue, TooLarge, MissingShares when the request does not fit the network.
    """
    visits = visits_of(network, request, flow)
    machine = machine_of(request.cores or limits.ALLOCATE_CORES_MAX, request.nodes, request.memory_bytes)
    return Asked(terms_of(network, request, visits), structure_of(network, visits), machine)


@dataclass(frozen=True)
class PlanQuestion:
    """A request with all that it is about: what is solved."""

    request: Request
    asked: Asked
    demand: Demand
    machine: MachineNodes
    structure: Structure = field(init=False)
    keys: tuple[str, ...] = field(init=False)
    cores: int = field(init=False)
    most: int = field(init=False)

    def __post_init__(self) -> None:
        """Note what is often asked: of the network, the cores of the machine, and the most that any one component can use."""
        object.__setattr__(self, "structure", self.asked.structure)
        object.__setattr__(self, "keys", self.asked.terms.keys)
        object.__setattr__(self, "cores", self.machine.cores)
        widest = min(self.machine.widest, int(self.demand.high.max()) * int(self.demand.most.max()))
        object.__setattr__(self, "most", max(widest, int(self.demand.low.max())))

    @cached_property
    def model(self) -> PlanModel:
        """The judge."""
        return PlanModel(self.structure, self.demand, self.request)

    @cached_property
    def shares(self) -> bool:
        """Whether components may take turns."""
        n, turns = len(self.keys), self.request.turns
        return turns != NEVER and (self.cores < n or (turns == BETTER and n <= SHARED_COMPONENTS_MAX))

    @cached_property
    def least(self) -> int:
        """The fewest cores with which each component has its own, but for rules."""
        return int((self.demand.low * self.demand.fewest).sum())

    @cached_property
    def few(self) -> tuple[Ints, Ints]:
        """Sizes of groups and counts of instances of which all partitions are looked at; none where nothing is shared."""
        most = min(exact_sizes(len(self.keys)), self.cores, self.most) if self.shares else 0
        return np.arange(1, most + 1), np.array(numbers_of(1, max(min(int(self.demand.most.max()), most), 1)))

    def places(self, most: int, *, by_stay: bool = False) -> Places:
        """Return the best shapes on up to `most` cores."""
        return places_of(self.demand, min(most, self.most), by_stay=by_stay)

    def renewed(self, curves: TabulatedCurves) -> PlanQuestion:
        """Return the question on other times at the same counts: its limits stay as they were found."""
        terms, old = self.asked.terms, self.demand
        level, fall = pieces_at(curves, None if terms.request.level is not None else old.price)
        if terms.scale is not None:
            level, fall = level * terms.scale, fall * terms.scale
        demand, found = object.__new__(Demand), object.__new__(PlanQuestion)
        vars(demand).update(vars(old), level=level, fall=fall, variation=curves.variation, contention=curves.contention,
                            peak_bytes=curves.peak_bytes, curves=curves)  # fmt: skip
        vars(found).update(vars(self), demand=demand, model=PlanModel(self.structure, demand, self.request))
        for cached in ("inner", "expected"):
            vars(demand).pop(cached, None)
        vars(found).pop("solution", None)
        return found

    def asking(self, **other: object) -> PlanQuestion:
        """Return the question with other options of its objective: nothing about demand or machine."""
        request = replace(self.request, **other)  # type: ignore[arg-type]
        return PlanQuestion(request, self.asked, self.demand, self.machine)


def question_of(asked: Asked, curves: AnyCurves, price: float = 0.0) -> PlanQuestion:
    """Return what is to be solved, of curves at a price for what is not known: the last one again, as far as it is the same.

    Raises InvalidValue, TooLarge, ImpossibleTarget when limits leave a component nothing, or one instance needs more memory
    than there is.
    """
    last = asked.last.get(price)
    if (
        last is not None
        and isinstance(curves, TabulatedCurves)
        and isinstance(old := last.demand.curves, TabulatedCurves)
    ):
        if old is curves:
            return last
        if old.cores is curves.cores and old.allowed is curves.allowed and not curves.peak_bytes.any():
            last = asked.last[price] = last.renewed(curves)
            return last
    last = asked.last[price] = _first_question(asked, curves, price)
    return last


def _first_question(asked: Asked, curves: AnyCurves, price: float) -> PlanQuestion:
    request, keys, machine = asked.terms.request, asked.terms.keys, asked.machine
    demand = demand_of(asked.terms, curves, price)
    low = int(demand.low.max())
    if low > machine.widest:
        key = keys[int(demand.low.argmax())]
        field = _raised_by(asked.terms, curves, demand)
        raise InvalidValue(f"{field}.{key}", low, f"at most the {machine.widest} cores given")
    peak = float(demand.peak_bytes.max())
    if peak > machine.memory_bytes * (1 + SLACK):
        key = keys[int(demand.peak_bytes.argmax())]
        raise ImpossibleTarget(
            f"one instance of {key} may need {peak:.6g} bytes; there are {machine.memory_bytes:.6g}",
            field=key, value=machine.memory_bytes, bound=peak,
            hint="give a machine with more memory, or a smaller load",
        )  # fmt: skip
    question = PlanQuestion(request, asked, demand, machine)
    if request.turns == NEVER and question.cores < len(keys):
        raise InvalidValue("cores", question.cores, f"at least {len(keys)}, one for each component",
                           "let components take turns on them")  # fmt: skip
    if not question.shares and question.least > question.cores:
        field = _raised_by(asked.terms, curves, demand)
        raise InvalidValue(field, question.least, f"at most the {question.cores} cores given in sum")
    return question


def _raised_by(terms: Terms, curves: AnyCurves, demand: Demand) -> str:
    """Return the field that sets the fewest cores of the components too high: `allowed` where sets of counts raise them."""
    raised = [row for row in rules_of(terms, curves) if row not in terms.pins and demand.low[row] > terms.low[row]]
    return "allowed" if raised else "minimum"
