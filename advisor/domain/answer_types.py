"""The answers that are maps, as types: a type checker knows their keys. A later version may tell more."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

ChoiceObjectiveWord = Literal["time", "core_seconds"]
MeasureWord = Literal["elapsed_s", "peak_bytes", "energy_j"]


class ComponentStatus(TypedDict):
    """What `status` reports of a component; keys that are not required may be absent."""

    component: str
    rows: int
    runs: int
    failed: int
    unfinished: int
    prediction_error: float | None
    changes: int
    outliers: int
    tier: str
    model_bytes: int
    pinned: str | None
    measures: list[str]
    model: NotRequired[str]
    notes: NotRequired[list[str]]
    parallel_fraction: NotRequired[float | None]
    noise: NotRequired[float]
    bias: NotRequired[float]
    predictor_range: NotRequired[list[float]]
    cores_range: NotRequired[list[float]]
    allowed: NotRequired[list[int] | dict[str, int]]
    elapsed_least_s: NotRequired[float]
    elapsed_most_s: NotRequired[float]
    peak_most_bytes: NotRequired[float]
    peak_killed_bytes: NotRequired[float]
    changed_at: NotRequired[int]
    changed_by: NotRequired[float]
    drifted_at: NotRequired[int]
    drifted_by: NotRequired[float]
    contention: NotRequired[dict[str, Any]]
    cells: NotRequired[int]
    noise_relative: NotRequired[float]
    noise_absolute_s: NotRequired[float]
    predictors: NotRequired[int]
    machines: NotRequired[int]
    scores: NotRequired[int]
    coverage: NotRequired[float | None]
    score_error: NotRequired[float | None]
    score_bias: NotRequired[float | None]


class Status(TypedDict):
    """The answer to `status`; only a service tells `service`."""

    totals: dict[str, int]
    components_known: int
    components_max: int
    state_bytes: int
    model_memory_bytes: int
    model_memory_used_bytes: int
    scores: int
    coverage: float | None
    score_error: float | None
    score_bias: float | None
    programs: list[dict[str, Any]]
    task_types: list[dict[str, Any]]
    offset: int
    components: list[ComponentStatus]
    service: dict[str, Any]


class Exported(TypedDict):
    """The answer to `export`: a part of the state, as `Advisor.from_bytes` opens and `Advisor.merge` adds it."""

    state: bytes
    next: str | None


class Analysis(TypedDict):
    """One analysis of a task graph: a policy on a number of cores; the metrics are those that were asked for."""

    policy: str
    cores: int
    makespan: float
    speedup: NotRequired[float]
    efficiency: NotRequired[float]
    bounds: NotRequired[dict[str, Any]]
    utilization: NotRequired[Any]
    idle: NotRequired[Any]
    critical_path: NotRequired[Any]


class Simulated(TypedDict):
    """The answer to `simulate`, times in the graph's unit."""

    unit: str
    tasks: int
    edges: int
    work: float
    span: float
    results: list[Analysis]
    advice: NotRequired[list[dict[str, Any]]]


class ProfileReport(TypedDict):
    """The answer to `profile`: of one run; or, asked without a producer, only `runs`, those there are."""

    producer: str
    incarnation: bytes
    events: int
    notes: dict[str, int]
    measures: dict[str, Any]
    profile: dict[str, Any]
    diagnosis: list[dict[str, Any]]
    runs: list[dict[str, Any]]
