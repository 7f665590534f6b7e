"""When components may take turns, and what their turns take under a request."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue, Unsupported
from advisor.planning.asked.demand import Floats
from advisor.planning.asked.options import Curves, curves_for, options_of
from advisor.planning.asked.requests import Request, demand_of, limits_of, pins_of
from advisor.planning.asked.shape_tables import shape_demand
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.asked.visits import Visits
from advisor.planning.in_turns.successions import NOTHING, Succession, successions
from advisor.planning.queues.structure import Structure, structure_of
from advisor.planning.solving.placing import SLACK, Machine, machine_of

NEVER, SCARCE, BETTER = "never", "scarce", "better"
TABLES_MAX = 200_000  # components times counts up to which turns are looked up: making the table takes some 50 ms


@dataclass(frozen=True, slots=True)
class Asked:
    """A question whose answer takes turns.

    Attributes
    ----------
    network, request, visits, structure
    curves : Curves or None
        At the counts that matter; None where plain demands say it all.
    demand : Shareable
    machine : Machine
        A group lies on one of its nodes.
    after : Succession
        Who comes after whom, where records arrive at a rate; else nothing.
    capped : bool
        Fewer instances than allowed were considered, for all must fit into memory: nothing is proved best.
    """

    network: Network
    request: Request
    visits: Visits
    structure: Structure
    curves: Curves | None
    demand: Shareable
    machine: Machine
    after: Succession
    capped: bool = False

    @property
    def cores(self) -> int:
        """Of the machine."""
        return int(self.machine.sizes.sum())

    @property
    def peak_bytes(self) -> Floats:
        """Memory of one instance of each component, (n,); 0 where it does not count."""
        limited = self.curves is not None and np.isfinite(self.machine.memory_bytes)
        return self.curves.peak_bytes if limited and self.curves is not None else np.zeros(len(self.demand))

    @property
    def target(self) -> tuple[str, float]:
        """Name of the target, and the seconds that it asks for: a period or a latency; 0 without."""
        name, value = next(iter(self.request.target.items())) if self.request.target else ("", 0.0)
        return name, 1 / value if name == "throughput_per_s" else value

    @property
    def by_stay(self) -> bool:
        """True when latency is what turns are chosen for."""
        return self.request.objective == "latency" or "latency_s" in (self.request.target or {})


def is_scarce(network: Network, request: Request) -> bool:
    """Return whether there are fewer cores than components.

    Raises
    ------
    InvalidValue
        When there are, and the caller wants cores of one's own for each.
    """
    few = request.cores is not None and request.cores < len(network.keys)
    if few and request.turns == NEVER:
        raise InvalidValue(
            "cores", request.cores, f"at least {len(network.keys)}, one for each component",
            f'with turns "{SCARCE}" components share them',
        )  # fmt: skip
    return few


def asked_of(
    network: Network, curves: AmdahlCurves | TabulatedCurves, request: Request, visits: Visits, cores: int
) -> Asked:
    """Return the question with its turns on up to `cores` cores.

    Raises
    ------
    InvalidValue, ImpossibleTarget
        When limits leave a component nothing.
    """
    structure = structure_of(network, visits)
    if not _needs_shapes(curves, request, structure, cores):
        demand = demand_of(network, curves, visits.per_record, request)
        if int(demand.low.max()) > cores:
            raise InvalidValue("minimum", int(demand.low.max()), f"at most the {cores} cores given")
        return Asked(network, request, visits, structure, None, demand, machine_of(cores, None, None), NOTHING)
    request = _one_at_a_time(network, request)
    widest = min(cores, request.nodes or cores)
    known = curves_for(network, curves, request, widest)
    machine = machine_of(cores, request.nodes, request.memory_bytes)
    capped = False
    if np.isfinite(machine.memory_bytes):
        request, capped = _within_memory(network, request, known, machine)
    options = options_of(network, request, known, visits, widest, keep_instances=False, apart=False)
    latency = request.objective == "latency" or "latency_s" in (request.target or {})
    demand = shape_demand(options, visits.per_record, widest, by_stay=latency)
    after = NOTHING if request.arrival_per_s is None else successions(structure)
    return Asked(network, request, visits, structure, known, demand, machine, after, capped)


def _one_at_a_time(network: Network, request: Request) -> Request:
    """Return the request with one instance of each component where visits queue: a turn is then one visit."""
    if request.arrival_per_s is None:
        return request
    for row, (_, many) in pins_of(network, request).items():
        if many is not None and many > 1:
            raise Unsupported(
                f"{network.keys[row]} is pinned to {many} instances: queues for turns are planned with one of each",
                field=f"pinned.{network.keys[row]}", value=many, bound=1, hint="leave its instances open",
            )  # fmt: skip
    return replace(request, instances_max=1)


def _within_memory(network: Network, request: Request, known: Curves, machine: Machine) -> tuple[Request, bool]:
    """Return the request with instances capped so that all fit into the machine's memory at once, and whether they are.

    Whoever waits for a turn stays in memory.

    Raises
    ------
    ImpossibleTarget
        When not even one instance of each component fits.
    """
    pins = pins_of(network, request)
    pinned = {row: many for row, (_, many) in pins.items() if many is not None}
    rows = range(len(network.keys))
    allowed = np.array([pinned.get(row, most) for row, most in enumerate(limits_of(network, request)[2].tolist())])
    least = np.array([pinned.get(row, 1) for row in rows])
    total = machine.memory_bytes * len(machine.sizes) * (1 + SLACK)
    needs = known.peak_bytes * least
    if needs.sum() > total:
        row = int(needs.argmax())
        raise ImpossibleTarget(
            f"the components need {needs.sum():.6g} bytes together, {needs[row]:.6g} of it {network.keys[row]}; there"
            f" are {total:.6g}: whoever waits for a turn stays in memory",
            field=network.keys[row], value=request.memory_bytes, bound=float(needs.sum()), hint="give more memory",
        )  # fmt: skip
    cap = int(allowed.max())
    while cap > 1 and float((known.peak_bytes * np.maximum(np.minimum(allowed, cap), least)).sum()) > total:
        cap -= 1
    if cap >= allowed.max():
        return request, False
    most = {network.keys[row]: max(1, min(int(allowed[row]), cap)) for row in rows if row not in pinned}
    return replace(request, instances_max=most), True


def _needs_shapes(curves: AmdahlCurves | TabulatedCurves, request: Request, structure: Structure, cores: int) -> bool:
    """Return whether tables of turns are made: where more than limits is asked for, and of curves that are tables anyway."""
    rules = (
        request.allowed, request.pinned, request.nodes, request.memory_bytes, request.arrival_per_s, request.quantile,
    )  # fmt: skip
    if any(rule is not None for rule in rules) or request.objective in ("cost", "pareto"):
        return True
    if isinstance(curves, TabulatedCurves):
        few = len(curves) * min(cores, int(curves.cores[-1])) <= TABLES_MAX
        if few or bool(curves.contention.any()) or not structure.adds_up:
            return True
    keys = structure.network.keys
    return any(request.may_have_instances(keys[row]) for row in structure.visits.replicas)
