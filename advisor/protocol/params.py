"""The parameters of each method, typed. What a check says of them is in `messages`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PROTOCOL_VERSION = 1
NO_INCARNATION = bytes(16)  # of a client that keeps its numbers itself
TIME = "elapsed_s"  # what is predicted where no measure is asked for


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks, and where it stands."""

    protocol: int = PROTOCOL_VERSION
    token: str | None = None
    producer: str | None = None
    incarnation: bytes = NO_INCARNATION
    resume_at: int | None = None
    retire: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """Numbers for names, on this connection: `names[i]` is number `first_id` + i."""

    first_id: int
    names: list[str]


@dataclass(frozen=True, slots=True)
class Observe:
    """One row, at most once."""

    component: str
    predictor: float | list[float] | None
    cores: float
    elapsed_s: float
    optional: dict[str, Any] | None = None

    @property
    def row(self) -> list[Any]:
        """The observation as a row of `rows`."""
        row = [self.component, self.predictor, self.cores, self.elapsed_s]
        return row if self.optional is None else [*row, self.optional]


@dataclass(frozen=True, slots=True)
class ObserveRows:
    """A batch of rows `[component, predictor, cores, elapsed_s, {optional}]`, not checked one by one yet."""

    rows: list[Any]
    producer: str | None = None
    incarnation: bytes = NO_INCARNATION
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class ObserveColumns:
    """A batch in columns: each `bin` holds little-endian values, one a row; `labels` are named by number."""

    index: bytes
    cores: bytes
    elapsed_s: bytes
    predictor: bytes | None = None
    components: list[str] | None = None
    producer: str | None = None
    incarnation: bytes = NO_INCARNATION
    sequence: int | None = None
    dimensions: int = 1
    count: bytes | None = None
    ok: bytes | None = None
    running: bytes | None = None
    network: bytes | None = None
    record: bytes | None = None
    entered: bytes | None = None
    replica: bytes | None = None
    machine: bytes | None = None
    active_cores: bytes | None = None
    at_risk_s: bytes | None = None
    measures: dict[str, bytes] | None = None
    labels: list[str] | None = None


@dataclass(frozen=True, slots=True)
class TaskEvents:
    """Task events: binary records, new strings, and what their times mean."""

    records: bytes
    strings: list[str] | None = None
    clock: dict[str, Any] | None = None
    fields: list[str] | None = None
    dropped: int = 0
    sums: bytes = b""
    ended: bool = False
    producer: str | None = None
    incarnation: bytes = NO_INCARNATION
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """The profile of a producer's run asked for: of its newest one unless `incarnation` says which."""

    producer: str | None = None
    incarnation: bytes | None = None
    diagnosis: bool = True
    nodes: bool = True
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Predict:
    """The elapsed time, or a measure, asked for.

    `predictor` and `cores` may be lists, of one length, or one a list. With `dimensions` d above 1 `predictor` is a list of
    points, d values each, row-major; a single point goes with each of the `cores`.
    """

    component: str
    predictor: float | list[float] | None = None
    cores: float | list[float] = 1
    level: float = 0.9
    model: str | None = None
    dimensions: int = 1
    machine: str | None = None
    measure: str = TIME
    active_cores: float | None = None
    prior: bool = False

    @property
    def asked(self) -> float | list[float] | list[list[float]]:
        """The predictor as the engine takes it: 1 where there is none, a single point, or points as rows."""
        x, d = self.predictor, self.dimensions
        if not isinstance(x, list) or d == 1:
            return 1.0 if x is None else x
        return x if len(x) == d else [x[start : start + d] for start in range(0, len(x), d)]

    @property
    def points(self) -> int | None:
        """How many predictors are asked for; None where it is one, to go with any number of cores."""
        if not isinstance(self.predictor, list):
            return None
        points = len(self.predictor) // self.dimensions
        return None if points == 1 and self.dimensions > 1 else points


@dataclass(frozen=True, slots=True)
class ChooseCores:
    """The cores for one invocation asked for."""

    component: str
    cores_max: int
    predictor: float | list[float] | None = None
    tolerance: float = 0.05
    level: float = 0.9
    risk: float = 0.0
    explore: float = 0.0
    machine: str | None = None
    free_now: int | None = None
    wait_s: float | None = None
    prior: bool = False


@dataclass(frozen=True, slots=True)
class Suggest:
    """What to run next asked for: where `predictor` and `cores` are given, to know that point better."""

    component: str
    predictor: float | list[float] | None = None
    cores: float | None = None
    cores_max: int = 64
    candidates: list[list[Any]] | None = None
    limit: int = 3


@dataclass(frozen=True, slots=True)
class Allocate:
    """Cores for each component of a network asked for."""

    network: str | list[dict[str, Any]] | int
    cores: int | None = None
    objective: str = "throughput"
    target: dict[str, float] | None = None
    visits: dict[str, float] | None = None
    shares: list[list[float]] | None = None
    minimum: dict[str, int] | None = None
    maximum: dict[str, int] | None = None
    instances_max: int | dict[str, int] = 1
    load: dict[str, float] | None = None
    components: dict[str, str] | None = None
    level: float | None = None
    depths: list[Any] | None = None
    fan_outs: list[Any] | None = None
    returns: list[float | None] | None = None
    allowed: str | list[int] | dict[str, Any] | None = None
    pinned: dict[str, Any] | None = None
    nodes: int | None = None
    memory_bytes: float | None = None
    arrival_per_s: float | None = None
    arrival_variation: float | None = None
    quantile: float | None = None
    weights: dict[str, float] | None = None
    scale: dict[str, float] | None = None
    work_max: int | None = None
    turns: str | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class AllocateTogether:
    """Cores of one machine for several networks asked for; each of `networks` has some of the keys of `Allocate`."""

    networks: list[dict[str, Any]]
    cores: int
    objective: str = "throughput"
    level: float | None = None
    nodes: int | None = None
    memory_bytes: float | None = None
    quantile: float | None = None
    work_max: int | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Watch(Allocate):
    """To be told of better allocations of a network, or, with `watch`, what was done about them."""

    network: str | list[dict[str, Any]] | int | None = None  # type: ignore[assignment]
    watch: int | None = None
    current: dict[str, Any] | None = None
    change_cost_s: float | dict[str, float] | None = None
    horizon_s: float | None = None
    gain_min: float | None = None
    shadow: bool = False
    applied: bool | dict[str, Any] | None = None
    took_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unwatch:
    """Not to be told any more."""

    watch: int


@dataclass(frozen=True, slots=True)
class Explain:
    """Why an answer was as it was; with `replay` it is worked out again from what was kept of it."""

    id: str
    replay: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves as a bundle asked for: of these components (None: all), changed since a version; `watch` asks for pushes, too."""

    components: list[str] | None = None
    since: int | None = None
    watch: bool | None = None
    level: float = 0.9
    cores_max: int = 256


@dataclass(frozen=True, slots=True)
class DefineNetwork:
    """A network to be kept by id, as text or as nodes."""

    id: int | str | None = None
    text: str | None = None
    nodes: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class FlowAsked:
    """What was learned of the flow of a network that is kept by id asked for."""

    network: int | str


@dataclass(frozen=True, slots=True)
class Status:
    """Totals and, page by page, components asked for: all in order of name (True), these (a list), none (False)."""

    components: bool | list[str] = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Forget:
    """What was learned of a component is weakened: its sums are multiplied by `keep`. A whole program, or the profiles of a
    producer's runs (`profile`: producer and perhaps incarnation), are forgotten as a whole."""

    component: str | None = None
    keep: float = 0.0
    program: str | None = None
    profile: dict[str, Any] | None = None
    producer: str | None = None
    incarnation: bytes = NO_INCARNATION
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """A component is held to a model, whatever the evidence says; None lets the evidence choose again."""

    component: str
    model: str | None
    producer: str | None = None
    incarnation: bytes = NO_INCARNATION
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Simulate:
    """What executing a task graph would take asked for; `graph` is in the flat form of `advisor.domain.task_graphs`."""

    graph: dict[str, Any]
    cores: list[int]
    policies: list[str] | None = None
    contention: list[dict[str, Any]] | None = None
    measured_alone: bool = False
    speeds: list[float] | None = None
    metrics: list[str] | None = None
    seed: int = 0
    burden_ns: float = 0.0
    advise: bool = False
    predict_times: bool = False
    components: dict[str, str] | None = None
    level: float = 0.9
    machine: str | None = None
    draws: int = 64
    shared: float = 1.0


@dataclass(frozen=True, slots=True)
class ObserveRun:
    """A run of a whole program; what is not given comes from the profile of a producer's run, where `profile` names it."""

    program: str
    size: float
    workers: float | None = None
    elapsed_s: float | None = None
    work_s: float | None = None
    delay_s: float | None = None
    no_work_s: float | None = None
    creates: float | None = None
    waits: float | None = None
    serial_work_s: float | None = None
    span_s: float | None = None
    transform: str | None = None
    profile: dict[str, Any] | None = None
    producer: str | None = None
    incarnation: bytes = NO_INCARNATION
    sequence: int | None = None

    @property
    def run(self) -> dict[str, Any]:
        """What is given of the run."""
        numbering = ("producer", "incarnation", "sequence")
        return {name: getattr(self, name) for name in self.__slots__ if name not in numbering}


@dataclass(frozen=True, slots=True)
class PredictRun:
    """What a run of a program would take asked for; `size` and `workers` may be lists, of one length, or one a list."""

    program: str
    size: float | list[float]
    workers: float | list[float]
    level: float = 0.9
    model: str | None = None
