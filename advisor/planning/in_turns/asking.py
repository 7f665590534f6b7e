"""When components may take turns, and what their turns take under a request."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import InvalidValue, Unsupported
from advisor.planning.asked.options import Curves, Options, curves_for, options_of
from advisor.planning.asked.requests import Request, demand_of
from advisor.planning.asked.shape_tables import shape_demand
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.asked.visits import Visits

NEVER, SCARCE, BETTER = "never", "scarce", "better"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question whose answer takes turns.

    Attributes
    ----------
    network, request, visits
    curves : Curves or None
        At the counts that matter, and the shapes of each component; None where plain demands say it all.
    options : Options or None
    demand : Shareable
    cores : int
    """

    network: Network
    request: Request
    visits: Visits
    curves: Curves | None
    options: Options | None
    demand: Shareable
    cores: int

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
    _check(request)
    if not _needs_shapes(network, curves, request, visits):
        demand = demand_of(network, curves, visits.per_record, request)
        if int(demand.low.max()) > cores:
            raise InvalidValue("minimum", int(demand.low.max()), f"at most the {cores} cores given")
        return Asked(network, request, visits, None, None, demand, cores)
    widest = min(cores, request.nodes or cores)
    known = curves_for(network, curves, request, widest)
    options = options_of(network, request, known, visits, widest, keep_instances=False, apart=False)
    latency = request.objective == "latency" or "latency_s" in (request.target or {})
    demand = shape_demand(options, visits.per_record, widest, by_stay=latency)
    return Asked(network, request, visits, known, options, demand, cores)


def _check(request: Request) -> None:
    needs = {
        "nodes": request.nodes, "memory_bytes": request.memory_bytes, "arrival_per_s": request.arrival_per_s,
        "quantile": request.quantile, "weights": request.weights,
        "objective": "pareto" if request.objective == "pareto" else None,
    }  # fmt: skip
    for field, value in needs.items():
        if value is not None:
            raise Unsupported(
                f"{field} is planned only where each component has cores of its own; there are fewer cores than components",
                field=field, value=value, bound=request.cores, hint="give at least as many cores as components",
            )  # fmt: skip


def _needs_shapes(
    network: Network, curves: AmdahlCurves | TabulatedCurves, request: Request, visits: Visits
) -> bool:
    """Return whether more than limits of Amdahl curves or tables is asked for."""
    rules = (request.allowed, request.pinned, request.nodes, request.memory_bytes, request.arrival_per_s, request.quantile)
    if any(rule is not None for rule in rules) or request.objective in ("cost", "pareto"):
        return True
    if isinstance(curves, TabulatedCurves) and bool(curves.contention.any()):
        return True
    return any(request.may_have_instances(network.keys[row]) for row in visits.replicas)

