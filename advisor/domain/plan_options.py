"""The options of a plan, each declared once: what the wire, the clients, `Advisor.allocate` and the planner take."""

# No postponed annotations here: `checked_options` and the verbs of the protocol read them.
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.allocations import Allocation
from advisor.domain.allowed_cores import AllowedForm, parse_allowed
from advisor.domain.fields import Further, Name, record, shape_of, unknown_key
from advisor.domain.networks import Network
from advisor.domain.rows import Array
from advisor.domain.shapes import plain

ObjectiveWord = Literal["throughput", "latency", "fewest_cores"]
TogetherWord = Literal["throughput", "latency"]  # of several networks
TurnsWord = Literal["never", "scarce", "better"]
Number = int | float
Count = Annotated[int, Meta(ge=1, le=limits.ALLOCATE_CORES_MAX)]
Instances = Annotated[int, Meta(ge=1, le=limits.INSTANCES_MAX)]
NumbersByKey = Mapping[str, Number]


def allowed_by_key(field: str, value: Any) -> Any:
    """A set of core counts, or sets by key, which the planner reads with the network."""
    if not isinstance(value, Mapping):
        parse_allowed(field, value)
    return cast("Any", value)


if TYPE_CHECKING:  # what a caller gives
    Numbers = Sequence[float] | Array
    Points = Number | Numbers | Sequence[Sequence[float]]
    AllowedByKey = AllowedForm | Mapping[str, Any]
    Current = Mapping[str, Any] | Allocation
    Target = Mapping[str, float]
else:  # what is checked
    Numbers = Annotated[list[Number], Meta(max_length=limits.POINTS_BATCH_MAX, description="a list of numbers")]
    Points = Annotated[Number | Numbers, Meta(title="number, or array", description="a number")]
    ALLOWED_WORDS = "array of counts, `{min, max, multiple_of}` or `{min, max, power_of}`"
    AllowedByKey = Annotated[Any, Further(allowed_by_key), Meta(title=f"{ALLOWED_WORDS}; or a map of such sets by key")]
    Current = Mapping[str, Any]
    Target = record(throughput_per_s=Number, latency_s=Number)
PerPlace = Annotated[Sequence[Points | None], Meta(max_length=limits.NETWORK_COMPONENTS_MAX)]
WorkMax = Annotated[int, Meta(ge=1, le=10**9), "steps of the search, at most"]
Quantile = Annotated[Number, "of the latency, e.g. 0.95, instead of its mean"]
Nodes = Annotated[Count, "cores of one node of the machine: no instance straddles two"]
MemoryBytes = Annotated[Number, "bytes of memory of a node, or of the machine"]


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """What is asked of a machine, whatever runs on it."""

    objective: ObjectiveWord = "throughput"
    level: Annotated[float, Meta(ge=limits.LEVEL_MIN, le=limits.LEVEL_MAX)] | None = None
    nodes: Nodes | None = None
    memory_bytes: MemoryBytes | None = None
    quantile: Quantile | None = None
    work_max: WorkMax | None = None


@dataclass(frozen=True, kw_only=True)
class PlanOptions(MachineOptions):
    """What is asked about one network; `advisor.protocol.verbs.Allocate` says what each option means."""

    target: Target | None = None
    visits: NumbersByKey | None = None
    shares: Annotated[Sequence[Numbers], Meta(max_length=limits.NETWORK_COMPONENTS_MAX)] | None = None
    minimum: Mapping[str, Count] | None = None
    maximum: Mapping[str, Count] | None = None
    instances_max: Annotated[
        Instances | Mapping[str, Instances], Meta(description="an integer, or a map of integers by component")
    ] = 1
    load: NumbersByKey | None = None
    components: Mapping[str, Name] | None = None
    depths: PerPlace | None = None
    fan_outs: PerPlace | None = None
    returns: Annotated[Sequence[Number | None], Meta(max_length=limits.NETWORK_COMPONENTS_MAX)] | None = None
    allowed: AllowedByKey | None = None
    pinned: Mapping[str, Any] | None = None
    arrival_per_s: Number | None = None
    arrival_variation: Number | None = None
    scale: NumbersByKey | None = None
    turns: TurnsWord | None = None
    current: Current | None = None


@dataclass(frozen=True)
class NetworkQuestion(PlanOptions):
    """What `Advisor.allocate` takes."""

    network: str | int | Network | Sequence[Mapping[str, Any]]
    cores: Count | None = None
    evidence: bool = False


# What is of the whole machine, and what of one network, where several share a machine; but for the objective.
OF_MACHINE = tuple(name for name in inspect.get_annotations(MachineOptions) if name != "objective")
OF_NETWORK = tuple(name for name in inspect.get_annotations(PlanOptions) if name not in ("turns", "current", "target"))
# What is of a network among several, but for its options.
OF_SHARE: dict[str, Any] = {"name": Name, "weight": Number}
# Shares are None where nobody knows them: visits may tell, or a flow.
_SHAPES = {
    name: shape_of(of)
    for name, of in {
        "cores": Count | None, **inspect.get_annotations(MachineOptions), **inspect.get_annotations(PlanOptions),
        "shares": Annotated[Sequence[Numbers | None], Meta(max_length=limits.NETWORK_COMPONENTS_MAX)],
    }.items()
}  # fmt: skip


def checked_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, typed; None is absent. Raises UnknownKey, InvalidValue, TooLarge."""
    for name in given:
        if name not in _SHAPES:
            raise unknown_key("allocate", name, _SHAPES, name)
    there = {name: plain(value) for name, value in given.items() if value is not None}
    return {name: _SHAPES[name].check_value(name, value) for name, value in there.items()}
