"""The verbs by which a service is greeted and learns; the numbered ones are taken exactly once."""

# No postponed annotations here: `verb` reads them.
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.fields import Further
from advisor.domain.runs import TransformWord
from advisor.errors import InvalidValue
from advisor.protocol.declaring import Params, Question, verb
from advisor.protocol.verbs.keys import *


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedVerb(Question):
    """What is taken exactly once, where it has a number."""

    producer: Producer | None = None
    incarnation: Incarnation = NO_INCARNATION
    sequence: Sequenced | None = None


def _numbered(params: Any) -> None:
    """Producer and sequence come both or neither; an incarnation belongs to a producer."""
    if (params.producer is None) != (params.sequence is None):
        missing, there = ("sequence", "producer") if params.sequence is None else ("producer", "sequence")
        raise InvalidValue(missing, None, f"given where {there} is", "producer and sequence come both or neither")
    if params.producer is None and params.incarnation != NO_INCARNATION:
        raise InvalidValue("producer", None, "given where incarnation is")


def _introduced(params: Any) -> None:
    if params.producer is None and (params.incarnation != NO_INCARNATION or params.retire):
        raise InvalidValue("producer", None, "given where incarnation or retire is")


def _of_run(params: Any) -> None:
    """A profile is a producer's."""
    _numbered(params)
    if params.profile is not None and "producer" not in params.profile:
        raise InvalidValue("profile.producer", None, "given")


def _of_one_thing(params: Any) -> None:
    """A component or a program: one of them."""
    _numbered(params)
    if (params.component is None) == (params.program is None):
        raise InvalidValue("component", params.component, "given, or program, and only one of them")


@verb("hello", "open", rule=_introduced)
class Hello(Question):
    """Who speaks, and where it stands.

    protocol: 2; another version is refused as `unsupported`, with both numbers
    token: needed where the service was given one: until then every request is refused as `unauthorized`, and 64 KiB are taken
        at most. A wrong one is answered late, and ends the connection
    producer: who will send numbered batches
    incarnation: of the producer (section 5); absent means 16 zero bytes
    retire: true: forget the producer's number, for the client has ended
    """

    protocol: Annotated[int, Meta(ge=0, le=2**32 - 1)] = PROTOCOL_VERSION
    token: Annotated[Any, Further(secret), Meta(title="text")] | None = None
    producer: Producer | None = None
    incarnation: Incarnation = NO_INCARNATION
    retire: bool = False


@verb("names", "teach", positional=2, named=False)
class Names(Params):
    """Numbers for names, on this connection: `names[i]` is number `first_id` + i."""

    first_id: Annotated[int, Meta(ge=0, le=limits.NAME_IDS_MAX)]
    names: BatchNames


@verb("observe", "write", positional=5, named=False, notification=True)
class Observe(Params):
    """One row, at most once."""

    component: Component
    predictor: Points | None
    cores: Number
    elapsed_s: Number
    optional: dict[str, Any] | None = None

    @property
    def row(self) -> list[Any]:
        """The observation as a row of `rows`."""
        row = [self.component, self.predictor, self.cores, self.elapsed_s]
        return row if self.optional is None else [*row, self.optional]


@verb("observe_rows", "write", rule=_numbered)
class ObserveRows(NumberedVerb):
    """A batch of rows `[component, predictor, cores, elapsed_s, {optional}]`, not checked one by one yet."""

    rows: Annotated[
        list[Any],
        Meta(max_length=limits.ROWS_BATCH_MAX, description="a list of rows [component, predictor, cores, elapsed_s]"),
    ]


@verb("observe_columns", "write", rule=_numbered)
class ObserveColumns(NumberedVerb):
    """A batch in columns: each `bin` holds little-endian values, one a row; `labels` are named by number."""

    index: Bin32
    cores: Bin64
    elapsed_s: Bin64
    predictor: Bin64 | None = None
    components: BatchNames | None = None
    dimensions: Annotated[int, Meta(ge=1, le=limits.DIMENSIONS_MAX)] = 1
    count: Bin32 | None = None
    ok: bytes | None = None
    running: bytes | None = None
    network: Bin32 | None = None
    entered: bytes | None = None
    replica: Bin64 | None = None
    machine: Bin32 | None = None
    active_cores: Bin64 | None = None
    killed: bytes | None = None
    measures: Measured | None = None
    labels: Texts | None = None


@verb("task_events", "write", rule=_numbered)
class TaskEventsSent(NumberedVerb):
    """Task events: binary records, new strings, and what their times mean.

    records: of 32 bytes
    strings: new strings
    clock: `{ticks_per_s, anchors}`, 1e9 and none by default
    dropped: events that the producer has lost so far
    sums: records of 88 bytes: ended instances whose events are not sent
    ended: true: the run is over, and waiting events are applied
    cpu_s: with `ended`: processor seconds of the program
    """

    records: bytes
    strings: Texts | None = None
    clock: Clock | None = None
    dropped: Whole = 0
    sums: bytes = b""
    ended: bool = False
    cpu_s: Number | None = None


@verb("observe_run", "write", rule=_of_run)
class ObserveRun(NumberedVerb):
    """A run of a whole program; what is not given comes from the profile of a producer's run, where `profile` names it.

    size: of the run's input
    workers: that ran it
    elapsed_s: seconds from its beginning to its end
    work_s: seconds that workers worked, all together
    delay_s: seconds that workers did not work though tasks were ready, or managed tasks
    no_work_s: seconds that workers had no task
    creates: tasks created
    waits: waits for tasks
    serial_work_s: seconds of work of the program in sequence
    span_s: seconds of the longest path
    transform: what work grows with; a program's first run fixes it
    profile: the run whose profile says the rest
    """

    program: Program
    size: Number
    workers: Number | None = None
    elapsed_s: Number | None = None
    work_s: Number | None = None
    delay_s: Number | None = None
    no_work_s: Number | None = None
    creates: Number | None = None
    waits: Number | None = None
    serial_work_s: Number | None = None
    span_s: Number | None = None
    transform: TransformWord | None = None
    profile: Profile | None = None

    @property
    def run(self) -> dict[str, Any]:
        """What is given of the run."""
        return {name: getattr(self, name) for name in self.verb.keys if name not in NUMBERING}


@verb("forget", "admin", rule=_of_one_thing)
class Forget(NumberedVerb):
    """What was learned of a component, or of a program, is forgotten: it begins anew.

    component: or `program`: one of them
    program: forgotten with its transformation
    """

    component: Component | None = None
    program: Program | None = None


@verb("pin", "admin", rule=_numbered)
class Pin(NumberedVerb):
    """A component is held to a model, whatever the evidence says; None lets the evidence choose again.

    model: the model's name
    """

    component: Component
    model: Word | None


@verb("set_allowed", "admin", rule=_numbered)
class SetAllowed(NumberedVerb):
    """Set the core counts that a component itself allows: every question about it keeps to them. nil: every count.

    A merge keeps the counts that both sides allow.

    allowed: the counts
    """

    component: Component
    allowed: Allowed | None
