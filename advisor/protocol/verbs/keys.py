"""The keys that several verbs have: their types with bounds, what looks further at them, what they mean."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, cast

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.allocations import Allocation
from advisor.domain.allowed_cores import AllowedForm, parse_allowed
from advisor.domain.core_requests import checked_explore
from advisor.domain.fields import Further, Name, record
from advisor.domain.rows import Array
from advisor.errors import InvalidValue, TooLarge

PROTOCOL_VERSION = 2
NUMBERING = ("producer", "incarnation", "sequence")  # of a change that counts exactly once
NO_INCARNATION = bytes(16)  # of a client that keeps its numbers itself
TIME = "elapsed_s"  # what is predicted where no measure is asked for
SEQUENCE_MAX = 2**63 - 1  # kept as int64
PRIORITY_MAX = 1000  # either side of 0, of a network among several: ranks for far more than NETWORKS_TOGETHER_MAX
TOKEN_BYTES_MAX = 4096  # no longer secret is of use
EXPORT_AFTER_BYTES_MAX = 512  # a name of at most 200 bytes, and where it stands
SECONDS_MAX = limits.ELAPSED_MAX_S  # of a horizon, a deadline or a cost
ABSENT_U32 = 2**32 - 1  # in a column of label numbers: this row has none
ABSENT_U64 = 2**64 - 1  # in `record`
MEASURES = tuple(limits.MEASURES)


class Described(Protocol):
    """A network that is no text: `advisor.domain.networks.Network`."""

    def as_nodes(self) -> list[dict[str, Any]]:
        """Return its nodes, children before parents."""
        ...


# -- what looks further at a value ------------------------------------------------------------------------------------------


def within_bytes(bytes_max: int) -> Further:
    """Text of at most `bytes_max` bytes of UTF-8."""

    def refuse_longer(field: str, value: str) -> str:
        if len(value) > bytes_max or len(value.encode()) > bytes_max:
            raise TooLarge(f"bytes of {field}", len(value.encode()), bytes_max)
        return value

    return Further(refuse_longer)


def secret(field: str, value: Any) -> str:
    """A token, which no error repeats."""
    if not isinstance(value, str):
        raise InvalidValue(field, type(value).__name__, "text")
    return within_bytes(TOKEN_BYTES_MAX).check(field, value)


def items_of(item_bytes: int) -> Further:
    """Whole items of so many bytes."""

    def refuse_partial_item(field: str, value: bytes) -> bytes:
        if len(value) % item_bytes:
            raise InvalidValue(field, len(value), f"bin of a multiple of {item_bytes} bytes")
        return value

    return Further(refuse_partial_item)


def one_point(field: str, value: Any) -> Any:
    """One predictor: a number, or the values of one that has several."""
    values: Any = value
    if isinstance(value, list) and not 1 <= len(values) <= limits.DIMENSIONS_MAX:
        raise InvalidValue(field, f"{len(values)} values", f"a number, or a list of 1 to {limits.DIMENSIONS_MAX}")
    return values


def allowed_by_key(field: str, value: Any) -> Any:
    """A set of core counts, or sets by key, which the planner reads with the network."""
    if not isinstance(value, Mapping):
        parse_allowed(field, value)
    return cast("Any", value)


def counted(_: str, pairs: list[tuple[int, int]]) -> dict[int, int]:
    """Runs by their cores, of pairs: a map has only texts as keys."""
    found: dict[int, int] = {}
    for cores, runs in pairs:
        found[cores] = found.get(cores, 0) + runs
    return found


# -- types ------------------------------------------------------------------------------------------------------------------

Number = int | float
Word = Annotated[str, within_bytes(64)]
Processors = Annotated[int, Meta(ge=1, le=limits.SIMULATE_CORES_MAX)]
Count = Annotated[int, Meta(ge=1, le=limits.ALLOCATE_CORES_MAX)]
Seconds = Annotated[float, Meta(ge=0.0, le=SECONDS_MAX, description=f"a number of seconds from 0 to {SECONDS_MAX:g}")]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Whole = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
Bin32 = Annotated[bytes, items_of(4)]
Bin64 = Annotated[bytes, items_of(8)]
Bin128 = Annotated[bytes, Meta(min_length=16, max_length=16)]
Texts = Annotated[Sequence[str], Meta(description="a list of texts")]
BatchNames = Annotated[list[str], Meta(max_length=limits.NAMES_BATCH_MAX, description="a list of texts")]
NumbersByKey = Mapping[str, Number]
NetworkId = Annotated[
    Annotated[int, Meta(ge=0, le=limits.NETWORK_ID_MAX)] | Name,
    Meta(description=f"a whole number from 0 to {limits.NETWORK_ID_MAX}, or a name"),
]
if TYPE_CHECKING:  # what a caller gives
    Numbers = Sequence[float] | Array
    Point = Number | Numbers
    Points = Number | Numbers | Sequence[Sequence[float]]
    Inputs = Points
    Setting = tuple[Any, float]
    NetworkGiven = str | int | Sequence[Mapping[str, Any]] | Described
    NodesGiven = Sequence[Mapping[str, Any]] | Described
    Allowed = AllowedForm
    AllowedByKey = AllowedForm | Mapping[str, Any]
    Current = Mapping[str, Any] | Allocation
    Runs = Mapping[int, int]
    Target = Mapping[str, float]
    One = TypeVar("One")
    OneOrMore = One | Sequence[One]
    Explore = bool | str
    Profile = Clock = Measured = dict[str, Any]
    Graph = Any
else:  # what the wire has
    Numbers = Annotated[list[Number], Meta(max_length=limits.POINTS_BATCH_MAX, description="a list of numbers")]
    Points = Annotated[Number | Numbers, Meta(title="number, or array", description="a number")]
    Inputs = Annotated[
        Number | Annotated[list[Number | Annotated[list[Number], Meta(max_length=limits.DIMENSIONS_MAX)]],
                           Meta(max_length=limits.POINTS_BATCH_MAX)],
        Meta(title="number, or array of numbers or of points", description="a number, or a list of numbers or of points"),
    ]  # fmt: skip
    Point = Annotated[
        Number | Numbers, Meta(title="number, or array of a point's values", description="a number"), Further(one_point),
        "the input, an array where it has several values; nil: a run of the observed load",
    ]  # fmt: skip
    Setting = Annotated[tuple[Point, Number], Meta(description="a pair [predictor, cores]")]
    NodesGiven = Annotated[list[dict[str, Any]], Meta(max_length=limits.NETWORK_NODES_MAX)]
    NetworkGiven = Annotated[
        Annotated[str, within_bytes(limits.NETWORK_TEXT_BYTES_MAX)]
        | Annotated[int, Meta(ge=0, le=limits.NETWORK_ID_MAX)] | NodesGiven,
        Meta(description="S-Net text, a list of nodes, or a network's id"),
    ]  # fmt: skip
    _SET = "array of counts, `{min, max, multiple_of}` or `{min, max, power_of}`"
    Allowed = Annotated[
        Any, Further(parse_allowed), Meta(title=_SET), "counts that may be chosen; a component's own hold, too"
    ]
    AllowedByKey = Annotated[Any, Further(allowed_by_key), Meta(title=f"{_SET}; or a map of such sets by key")]
    Current = Mapping[str, Any]
    Runs = Annotated[
        list[Annotated[tuple[Count, Annotated[int, Meta(ge=0, le=limits.RUNS_AT_ONCE_MAX)]],
                       Meta(description="a pair [cores, runs]")]],
        Meta(max_length=limits.ALLOWED_COUNTS_MAX, description="a list of pairs [cores, runs]"),
        Further(counted),
    ]  # fmt: skip
    Target = record(throughput_per_s=Number, latency_s=Number)
    OneOrMore = list
    Explore = Annotated[Any, Further(checked_explore), Meta(title="boolean, or `freeze`")]
    Profile = record(producer=Name, incarnation=Bin128)
    Clock = record(ticks_per_s=Number, anchors=Annotated[list[Any], Meta(max_length=limits.CLOCK_ANCHORS_MAX)])
    Measured = record(**dict.fromkeys(MEASURES, Bin64))
    Graph = record(
        unit=Annotated[str, within_bytes(8)], times=Bin64, edges=Bin64, names=Texts, types=Texts, type=Bin32, size=Bin64,
        columns=dict[str, Bin64],
    )  # fmt: skip

# -- keys of several verbs --------------------------------------------------------------------------------------------------

Component = Annotated[Name, "the component's name"]
Cores = Annotated[Count, "cores there are"]
Level = Annotated[float, Meta(ge=limits.LEVEL_MIN, le=limits.LEVEL_MAX), "share of runs that the interval should hold"]
Machine = Annotated[
    Name, "the time on that machine; nil: on any. One not seen is answered with a wider interval, and a note"
]
Prior = Annotated[
    bool,
    "a component that was never observed is answered, too, from the others (`nearest` names those most like it); "
    "false: `unknown_component`, whose `hint` and `bound` name the known names most like it",
]
Producer = Annotated[Name, "who numbers what it sends"]
Incarnation = Annotated[Bin128, "one life of the producer"]
Sequenced = Annotated[int, Meta(ge=1, le=SEQUENCE_MAX), "the number of this batch"]
Deadline = Annotated[Seconds, "answer within so many seconds, with the best found"]
Program = Annotated[Name, "the program's name"]
Kept = Annotated[NetworkId, "the id that a network is kept by"]
WorkMax = Annotated[int, Meta(ge=1, le=10**9), "steps of the search, at most"]
Quantile = Annotated[Number, "of the latency, e.g. 0.95, instead of its mean"]
Nodes = Annotated[Count, "cores of one node of the machine: no instance straddles two"]
MemoryBytes = Annotated[Number, "bytes of memory of a node, or of the machine"]
WatchNumber = Annotated[int, Meta(ge=1, le=2**53), "the watch's number"]
Evidence = Annotated[
    bool, "the answer has what it rests on as `basis`: request, curves, versions. `advisor explain` replays it"
]
Fresh = Annotated[bool, "of a service on Ray: answer with all that is acknowledged, not from copies some rows behind"]
