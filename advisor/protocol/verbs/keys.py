"""The keys that several verbs have: their types with bounds, what looks further at them, what they mean."""

# No postponed annotations here: `verb` reads them.
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.allowed_cores import AllowedForm, parse_allowed
from advisor.domain.core_requests import checked_explore
from advisor.domain.fields import Further, Name, record
from advisor.domain.plan_options import *
from advisor.errors import InvalidValue, TooLarge

PROTOCOL_VERSION = 2
NUMBERING = ("producer", "incarnation", "sequence")  # of a change that counts exactly once
NO_INCARNATION = bytes(16)  # of a client that keeps its numbers itself
TIME = "elapsed_s"  # what is predicted where no measure is asked for
SEQUENCE_MAX = 2**63 - 1  # kept as int64
TOKEN_BYTES_MAX = 4096  # no longer secret is of use
EXPORT_AFTER_BYTES_MAX = 512  # a name of at most 200 bytes, and where it stands
SECONDS_MAX = limits.ELAPSED_MAX_S  # of a horizon or a cost
MEASURES = tuple(limits.MEASURES)

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


def counted(_: str, pairs: list[tuple[int, int]]) -> dict[int, int]:
    """Runs by their cores, of pairs: a map has only texts as keys."""
    found: dict[int, int] = {}
    for cores, runs in pairs:
        found[cores] = found.get(cores, 0) + runs
    return found


# -- types ------------------------------------------------------------------------------------------------------------------

Word = Annotated[str, within_bytes(64)]
Processors = Annotated[int, Meta(ge=1, le=limits.SIMULATE_CORES_MAX)]
Seconds = Annotated[float, Meta(ge=0.0, le=SECONDS_MAX, description=f"a number of seconds from 0 to {SECONDS_MAX:g}")]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Whole = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
Bin32 = Annotated[bytes, items_of(4)]
Bin64 = Annotated[bytes, items_of(8)]
Bin128 = Annotated[bytes, Meta(min_length=16, max_length=16)]
Texts = Annotated[Sequence[str], Meta(description="a list of texts")]
BatchNames = Annotated[list[str], Meta(max_length=limits.NAMES_BATCH_MAX, description="a list of texts")]
NetworkId = Annotated[
    Annotated[int, Meta(ge=0, le=limits.NETWORK_ID_MAX)] | Name,
    Meta(description=f"a whole number from 0 to {limits.NETWORK_ID_MAX}, or a name"),
]
if TYPE_CHECKING:  # what a caller gives
    from advisor.domain.networks import Network

    Point = Number | Numbers
    Inputs = Points
    NetworkGiven = str | int | Sequence[Mapping[str, Any]] | Network
    NodesGiven = Sequence[Mapping[str, Any]] | Network
    Allowed = AllowedForm
    Runs = Mapping[int, int]
    One = TypeVar("One")
    OneOrMore = One | Sequence[One]
    Explore = bool | str
    Profile = Clock = Measured = dict[str, Any]
    Graph = Any
else:  # what the wire has
    Inputs = Annotated[
        Number | Annotated[list[Number | Annotated[list[Number], Meta(max_length=limits.DIMENSIONS_MAX)]],
                           Meta(max_length=limits.POINTS_BATCH_MAX)],
        Meta(title="number, or array of numbers or of points", description="a number, or a list of numbers or of points"),
    ]  # fmt: skip
    Point = Annotated[
        Number | Numbers, Meta(title="number, or array of a point's values", description="a number"), Further(one_point),
        "the input, an array where it has several values; nil: a run of the observed load",
    ]  # fmt: skip
    NodesGiven = Annotated[list[dict[str, Any]], Meta(max_length=limits.NETWORK_NODES_MAX)]
    NetworkGiven = Annotated[
        Annotated[str, within_bytes(limits.NETWORK_TEXT_BYTES_MAX)]
        | Annotated[int, Meta(ge=0, le=limits.NETWORK_ID_MAX)] | NodesGiven,
        Meta(description="S-Net text, a list of nodes, or a network's id"),
    ]  # fmt: skip
    Allowed = Annotated[
        Any, Further(parse_allowed), Meta(title=ALLOWED_WORDS), "counts that may be chosen; a component's own hold, too"
    ]
    Runs = Annotated[
        list[Annotated[tuple[Count, Annotated[int, Meta(ge=0, le=limits.RUNS_AT_ONCE_MAX)]],
                       Meta(description="a pair [cores, runs]")]],
        Meta(max_length=limits.ALLOWED_COUNTS_MAX, description="a list of pairs [cores, runs]"),
        Further(counted),
    ]  # fmt: skip
    OneOrMore = list
    Explore = Annotated[Any, Further(checked_explore), Meta(title="boolean, or `freeze`")]
    Profile = record(producer=Name, incarnation=Bin128)
    Anchor = Annotated[tuple[int, int], Meta(description="a pair [ticks, ns] of whole numbers")]
    Clock = record(ticks_per_s=Number, anchors=Annotated[list[Anchor], Meta(max_length=limits.CLOCK_ANCHORS_MAX)])
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
Program = Annotated[Name, "the program's name"]
StoredId = Annotated[NetworkId, "the id that a network is stored under"]
WatchNumber = Annotated[int, Meta(ge=1, le=2**53), "the watch's number"]
Evidence = Annotated[
    bool, "the answer has what it rests on as `basis`: request, curves, versions. `advisor explain` replays it"
]
Fresh = Annotated[bool, "of a service on Ray: answer with all that is acknowledged, not from copies some rows behind"]
