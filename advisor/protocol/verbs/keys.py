"""The keys that several verbs have: their types, their checks, what they mean."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, cast, get_args

from advisor.domain import limits
from advisor.domain.allowed_cores import AllowedCores, parse_allowed
from advisor.domain.rows import Array
from advisor.domain.shapes import plain
from advisor.domain.told import ObjectiveWord, TurnsWord
from advisor.errors import InvalidValue
from advisor.protocol import fields as f
from advisor.protocol.declaring import Key

PROTOCOL_VERSION = 1
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

TURNS: tuple[str, ...] = get_args(TurnsWord)
OBJECTIVES: tuple[str, ...] = get_args(ObjectiveWord)


class Described(Protocol):
    """A network that is no text: `advisor.domain.networks.Network`."""

    def as_nodes(self) -> list[dict[str, Any]]:
        """Return its nodes, children before parents."""
        ...


Number = int | float
Numbers = Sequence[float] | Array
NetworkGiven = str | int | Sequence[Mapping[str, Any]] | Described

WORD = f.text(64)
LEVEL = f.within(limits.LEVEL_MIN, limits.LEVEL_MAX)
SECONDS = f.within(0.0, SECONDS_MAX, "seconds")
CORES = f.integer(1, limits.ALLOCATE_CORES_MAX)
U8, U32, U64, F64 = f.binary(), f.binary(item_bytes=4), f.binary(item_bytes=8), f.binary(item_bytes=8)
CORES_BY_KEY = f.map_of(CORES)
NODES = f.list_of(f.map_of(f.anything), limits.NETWORK_NODES_MAX)  # what a node may hold is the planner's to check
PER_PLACE = f.list_of(f.or_nil(f.number_or_list), limits.NETWORK_COMPONENTS_MAX)
BY_KEY = f.map_of(f.anything)
TEXTS = f.texts(limits.ARRAY_ITEMS_MAX)
CLOCK = f.record_of(ticks_per_s=f.number, anchors=f.list_of(f.anything, limits.CLOCK_ANCHORS_MAX))
GRAPH = f.record_of(
    unit=f.text(8), times=F64, edges=f.binary(item_bytes=8), names=TEXTS, types=TEXTS, type=U32, size=F64,
    columns=f.map_of(F64),
)  # fmt: skip
RUN = f.record_of(producer=f.name, incarnation=f.binary(16))
NETWORK_ID = f.either(
    f"a whole number from 0 to {limits.NETWORK_ID_MAX}, or a name", int=f.integer(0, limits.NETWORK_ID_MAX), str=f.name
)
NETWORK = f.either(
    "S-Net text, a list of nodes, or a network's id",
    str=f.text(limits.NETWORK_TEXT_BYTES_MAX), list=NODES, int=f.integer(0, limits.NETWORK_ID_MAX),
)  # fmt: skip


def listed(value: Any) -> Any:
    """One of several, as a list."""
    return [value] if isinstance(value, (str, int, Mapping)) else plain(value)


def allowed_sent(value: Any) -> Any:
    """A set of core counts as the wire has it."""
    return plain(
        value.as_wire() if isinstance(value, AllowedCores) else list(value) if isinstance(value, range) else value
    )


def sets_sent(value: Any) -> Any:
    """A set of core counts, or a map of such sets, as the wire has it."""
    if not isinstance(value, Mapping):
        return allowed_sent(value)
    return {key: allowed_sent(one) for key, one in cast("Mapping[Any, Any]", value).items()}


@f.takes("array of counts, `{min, max, multiple_of}` or `{min, max, power_of}`; or a map of such sets by key")
def allowed_by_key(field: str, value: Any) -> Any:
    """A set of core counts, or sets by key, which the planner reads with the network."""
    if not isinstance(value, Mapping):
        parse_allowed(field, value)
    return cast("Any", value)


def pairs_sent(value: Any) -> Any:
    """A map with numbers as keys, as a list of pairs."""
    return plain(list(cast("Mapping[Any, Any]", value).items()) if isinstance(value, Mapping) else value)


def flat_graph(graph: Any) -> Any:
    if isinstance(graph, Mapping):
        return cast("Any", graph)
    from advisor.domain.task_graphs import graph_as_flat  # noqa: PLC0415 - numpy comes with the caller's graph

    return graph_as_flat(graph)


@f.takes("map with `producer`, and perhaps `incarnation`")
def profile_named(field: str, value: Any) -> dict[str, Any]:
    """Whose profile, and perhaps of which of its runs."""
    named = RUN(field, value)
    if "producer" not in named:
        raise InvalidValue(f"{field}.producer", None, "given")
    return named


@f.takes("number, 0 to below 1")
def share_kept(field: str, value: Any) -> float:
    if type(value) not in f.NUMBER_TYPES or not 0.0 <= value < 1.0:
        raise InvalidValue(field, value, "a number from 0 to below 1")
    return float(value)


# Keys of several verbs.
Component = Annotated[str, Key(f.name, "the component's name")]
Point = Annotated[
    Number | Numbers,
    Key(f.point, "the input, an array where it has several values; nil: a run of the observed load"),
]
Cores = Annotated[int, Key(CORES, "cores there are")]
Level = Annotated[float, Key(LEVEL, "share of runs that the interval should hold")]
Machine = Annotated[
    str,
    Key(f.name, "the time on that machine; nil: on any. One not seen is answered with a wider interval, and a note"),
]
Prior = Annotated[
    bool,
    Key(
        f.boolean,
        "a component that was never observed is answered, too, from the others (`nearest` names those most like it); "
        "false: `unknown_component`, whose `hint` and `bound` name the known names most like it",
    ),
]
Allowed = Annotated[
    AllowedCores | Sequence[int] | Mapping[str, int],
    Key(f.allowed_cores, "counts that may be chosen; a component's own hold, too", allowed_sent),
]
Producer = Annotated[str, Key(f.name, "who numbers what it sends")]
Incarnation = Annotated[bytes, Key(f.binary(16), "one life of the producer")]
Sequenced = Annotated[int, Key(f.integer(1, SEQUENCE_MAX), "the number of this batch")]
Deadline = Annotated[Number, Key(SECONDS, "answer within so many seconds, with the best found")]
Program = Annotated[str, Key(f.name, "the program's name")]
NetworkId = Annotated[int | str, Key(NETWORK_ID, "the id that a network is kept by")]
Quantity = Annotated[Number, Key(f.number)]
WorkMax = Annotated[int, Key(f.integer(1, 10**9), "steps of the search, at most")]
Quantile = Annotated[Number, Key(f.number, "of the latency, e.g. 0.95, instead of its mean")]
Nodes = Annotated[int, Key(CORES, "cores of one node of the machine: no instance straddles two")]
MemoryBytes = Annotated[Number, Key(f.number, "bytes of memory of a node, or of the machine")]
Texts = Annotated[Sequence[str], Key(TEXTS)]
BatchNames = Annotated[list[str], Key(f.texts(limits.NAMES_BATCH_MAX))]
WatchNumber = Annotated[int, Key(f.integer(1, 2**53), "the watch's number")]
Bin8 = Annotated[bytes, Key(U8)]
Bin32 = Annotated[bytes, Key(U32)]
Bin64 = Annotated[bytes, Key(F64)]
Fresh = Annotated[
    bool,
    Key(f.boolean, "of a service on Ray: answer with all that is acknowledged, not from copies some rows behind"),
]
Switch = Annotated[bool, Key(f.boolean)]
