"""The methods of the protocol, as one table, and their parameters, checked and typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from dataclasses import fields as fields_of
from typing import Any

from advisor.domain import limits
from advisor.domain.runs import TRANSFORMS, VARIANTS
from advisor.errors import InvalidValue, UnknownKey, UnknownMethod, Unsupported
from advisor.protocol import fields as f
from advisor.protocol.params import (
    NO_INCARNATION,
    TIME,
    Allocate,
    AllocateTogether,
    ChooseCores,
    Curves,
    DefineNetwork,
    Explain,
    FlowAsked,
    Forget,
    Hello,
    Names,
    Observe,
    ObserveColumns,
    ObserveRows,
    ObserveRun,
    Pin,
    Predict,
    PredictRun,
    Profile,
    Simulate,
    Status,
    Suggest,
    TaskEvents,
    Unwatch,
    Watch,
)

SEQUENCE_MAX = 2**63 - 1  # kept as int64
RUN_NUMBERS = (
    "size", "workers", "elapsed_s", "work_s", "delay_s", "no_work_s", "creates", "waits", "serial_work_s", "span_s",
)  # fmt: skip
PRIORITY_MAX = 1000  # either side of 0, of a network among several: ranks for far more than NETWORKS_TOGETHER_MAX
TOKEN_BYTES_MAX = 4096  # no longer secret is of use
ANSWER_ID_BYTES_MAX = 64  # of the id of a kept answer: ours have 12
ALLOWED_COUNTS_MAX = (
    4096  # core counts that one component may be held to: powers of two, multiples, a machine's every count
)
SECONDS_MAX = limits.ELAPSED_MAX_S  # of a horizon, a deadline or a cost
TURNS = ("never", "scarce", "better")  # whether components may take turns on shared cores
OBJECTIVES = ("throughput", "latency", "fewest_cores", "pareto", "cost")
MEASURES = tuple(limits.MEASURES)
ABSENT_U32 = 2**32 - 1  # in a column of label numbers: this row has none
ABSENT_U64 = 2**64 - 1  # in `record`

Params = (
    Hello
    | Names
    | Observe
    | ObserveRows
    | ObserveColumns
    | Predict
    | ChooseCores
    | Suggest
    | Allocate
    | AllocateTogether
    | Watch
    | Unwatch
    | Explain
    | Curves
    | DefineNetwork
    | FlowAsked
    | Simulate
    | Status
    | Forget
    | Pin
    | TaskEvents
    | Profile
    | ObserveRun
    | PredictRun
)


def _numbered(params: Any) -> None:
    """Producer and sequence come both or neither; an incarnation belongs to a producer."""
    if (params.producer is None) != (params.sequence is None):
        missing, there = ("sequence", "producer") if params.sequence is None else ("producer", "sequence")
        raise InvalidValue(missing, None, f"given where {there} is", "producer and sequence come both or neither")
    if params.producer is None and params.incarnation != NO_INCARNATION:
        raise InvalidValue("producer", None, "given where incarnation is")


def _of_one_thing(params: Forget) -> None:
    """A component, a program or profiles: one of them; only a component keeps a share."""
    _numbered(params)
    if sum(each is not None for each in (params.component, params.program, params.profile)) != 1:
        raise InvalidValue("component", params.component, "given, or program, or profile, and only one of them")
    if params.keep and params.component is None:
        raise InvalidValue("keep", params.keep, "0: programs and profiles are forgotten as a whole")


def _introduced(params: Hello) -> None:
    if params.producer is None and (
        params.incarnation != NO_INCARNATION or params.resume_at is not None or params.retire
    ):
        raise InvalidValue("producer", None, "given where incarnation, resume_at or retire is")
    if params.retire and params.resume_at is not None:
        raise InvalidValue("retire", True, "absent where resume_at is given")
    if params.resume_at is not None and params.incarnation != NO_INCARNATION:
        raise InvalidValue(
            "resume_at", params.resume_at, "absent where incarnation is given",
            "a client ahead of the durable number takes a new incarnation",
        )  # fmt: skip


def _one_length(params: Predict) -> None:
    x, p, d = params.predictor, params.cores, params.dimensions
    if d > 1 and (not isinstance(x, list) or not x or len(x) % d):
        told = len(x) if isinstance(x, list) else x
        raise InvalidValue("predictor", told, f"a list of {d} values a point, as dimensions says")
    if isinstance(p, list) and params.points not in (None, len(p)):
        raise InvalidValue("cores", len(p), f"a number, or a list of {params.points}, as predictor has")


def _for_a_point(params: Suggest) -> None:
    if params.cores is not None and params.predictor is None:
        raise InvalidValue("predictor", None, "given where cores is", "leave both out to know the whole load better")


def _one_form(params: DefineNetwork) -> None:
    if (params.text is None) == (params.nodes is None):
        raise InvalidValue("text", params.text, "given, or nodes, and not both")


def _keep(field: str, value: Any) -> float:
    if type(value) not in f.NUMBER_TYPES or not 0.0 <= value < 1.0:
        raise InvalidValue(field, value, "a number from 0 to below 1")
    return float(value)


def _level(field: str, value: Any) -> float:
    if type(value) not in f.NUMBER_TYPES or not limits.LEVEL_MIN <= value <= limits.LEVEL_MAX:
        raise InvalidValue(field, value, f"a number from {limits.LEVEL_MIN} to {limits.LEVEL_MAX}")
    return float(value)


def _profile(field: str, value: Any) -> dict[str, Any]:
    """Whose profile, and perhaps of which of its runs."""
    named = _OF_A_RUN(field, value)
    if "producer" not in named:
        raise InvalidValue(f"{field}.producer", None, "given")
    return named


def _seconds(field: str, value: Any) -> float:
    if type(value) not in f.NUMBER_TYPES or not 0.0 <= value <= SECONDS_MAX:
        raise InvalidValue(field, value, f"a number of seconds from 0 to {SECONDS_MAX:g}")
    return float(value)


def _share(field: str, value: Any) -> float:
    if type(value) not in f.NUMBER_TYPES or not 0.0 <= value <= 1.0:
        raise InvalidValue(field, value, "a number from 0 to 1")
    return float(value)


def _watchable(params: Watch) -> None:
    """A new watch names a network; what is told of one that stands is what was applied, and no new question."""
    if (params.network is None) == (params.watch is None):
        raise InvalidValue(
            "network" if params.watch is None else "watch", None if params.watch is None else params.watch,
            "one of network (a new watch) and watch (one that stands)",
        )  # fmt: skip
    if params.watch is None:
        for name in ("applied", "took_s"):
            if getattr(params, name) is not None:
                raise InvalidValue(name, getattr(params, name), "absent for a new watch", "say in current what it has")
    elif params != Watch(watch=params.watch, applied=params.applied, took_s=params.took_s):
        raise InvalidValue("watch", params.watch, "alone, or with applied and took_s", "unwatch it, and watch anew")


def _chosen_later(params: ChooseCores) -> None:
    """Of now and later both are told, or none."""
    if (params.free_now is None) != (params.wait_s is None):
        missing, there = ("wait_s", "free_now") if params.wait_s is None else ("free_now", "wait_s")
        raise InvalidValue(
            missing, None, f"given where {there} is", "free_now cores at once, or cores_max after wait_s"
        )
    if params.free_now is not None and params.free_now > params.cores_max:
        raise InvalidValue("free_now", params.free_now, f"at most cores_max, {params.cores_max}")


@dataclass(frozen=True, slots=True)
class Method:
    """One line of the table: what a method takes.

    Attributes
    ----------
    into : type
        The dataclass of its parameters; a field without default is required, in the order of a positional call.
    keys : mapping of str to check
        Its parameters. One that need not be given may be nil, which is the same as absent.
    positional : int
        Parameters may be an array of values, the first so many keys in order; 0: they are one map.
    named : bool
        Parameters may be one map.
    notification : bool
        It may come without msgid.
    rule : callable, optional
        What must hold between parameters.
    """

    into: type[Any]
    keys: Mapping[str, f.Check]
    positional: int = 0
    named: bool = True
    notification: bool = False
    rule: Callable[[Any], None] | None = None

    required: tuple[str, ...] = field(init=False)  # the keys that must be given

    def __post_init__(self) -> None:
        needed = tuple(each.name for each in fields_of(self.into) if each.default is MISSING)
        object.__setattr__(self, "required", needed)


_WORD = f.text(64)
_SEQUENCE: Mapping[str, f.Check] = {
    "producer": f.name,
    "incarnation": f.binary(16),
    "sequence": f.integer(1, SEQUENCE_MAX),
}
_OF_A_RUN = f.record_of(producer=f.name, incarnation=f.binary(16))
_U8, _U32, _U64, _F64 = f.binary(), f.binary(item_bytes=4), f.binary(item_bytes=8), f.binary(item_bytes=8)
_CORES_BY_KEY = f.map_of(f.integer(1, limits.ALLOCATE_CORES_MAX))
_NODES = f.list_of(f.map_of(f.anything), limits.NETWORK_NODES_MAX)  # what a node may hold is the planner's to check

_NETWORK_ID = f.either(
    f"a whole number from 0 to {limits.NETWORK_ID_MAX}, or a name", int=f.integer(0, limits.NETWORK_ID_MAX), str=f.name
)
_PLAN: Mapping[str, f.Check] = {
    "network": f.either(
        "S-Net text, a list of nodes, or a network's id",
        str=f.text(limits.NETWORK_TEXT_BYTES_MAX),
        list=_NODES,
        int=f.integer(0, limits.NETWORK_ID_MAX),
    ),
    "cores": f.integer(1, limits.ALLOCATE_CORES_MAX),
    "objective": f.one_of(*OBJECTIVES),
    "target": f.record_of(throughput_per_s=f.number, latency_s=f.number),
    "visits": f.map_of(f.number),
    "shares": f.list_of(f.numbers, limits.NETWORK_COMPONENTS_MAX),
    "minimum": _CORES_BY_KEY,
    "maximum": _CORES_BY_KEY,
    "instances_max": f.either(
        "an integer, or a map of integers by component",
        int=f.integer(1, limits.INSTANCES_MAX),
        dict=f.map_of(f.integer(1, limits.INSTANCES_MAX)),
    ),
    "load": f.map_of(f.number),
    "components": f.map_of(f.name),
    "level": _level,
    "depths": f.list_of(f.or_nil(f.number_or_list), limits.NETWORK_COMPONENTS_MAX),
    "fan_outs": f.list_of(f.or_nil(f.number_or_list), limits.NETWORK_COMPONENTS_MAX),
    "returns": f.list_of(f.or_nil(f.number), limits.NETWORK_COMPONENTS_MAX),
    "allowed": f.either(
        "a rule, or a map of rules by key",
        str=_WORD,
        list=f.list_of(f.integer(1, limits.ALLOCATE_CORES_MAX), ALLOWED_COUNTS_MAX),
        dict=f.map_of(f.anything),
    ),
    "pinned": f.map_of(f.anything),
    "nodes": f.integer(1, limits.ALLOCATE_CORES_MAX),
    "memory_bytes": f.number,
    "arrival_per_s": f.number,
    "arrival_variation": f.number,
    "quantile": f.number,
    "weights": f.map_of(f.number),
    "scale": f.map_of(f.number),
    "work_max": f.integer(1, 10**9),
    "turns": f.one_of(*TURNS),
    "deadline_s": _seconds,
}
# Of a plan, what is of the whole machine where several networks share it.
_OF_MACHINE = ("cores", "level", "nodes", "memory_bytes", "quantile", "work_max", "deadline_s")
_OF_ONE: Mapping[str, f.Check] = {
    key: f.or_nil(check) for key, check in _PLAN.items() if key not in (*_OF_MACHINE, "objective", "weights", "turns")
} | {
    "name": f.or_nil(f.name),
    "weight": f.or_nil(f.number),
    "priority": f.or_nil(f.integer(-PRIORITY_MAX, PRIORITY_MAX)),
}  # fmt: skip

METHODS: Mapping[str, Method] = {
    "hello": Method(
        Hello,
        {
            "protocol": f.integer(0, 2**32 - 1),
            "token": f.text(TOKEN_BYTES_MAX),
            "producer": f.name,
            "incarnation": f.binary(16),
            "resume_at": f.integer(0, SEQUENCE_MAX),
            "retire": f.boolean,
        },
        rule=_introduced,
    ),
    "names": Method(
        Names,
        {"first_id": f.integer(0, limits.NAME_IDS_MAX), "names": f.texts(limits.ARRAY_ITEMS_MAX)},
        positional=2, named=False,
    ),
    "observe": Method(
        Observe,
        {
            "component": f.name,
            "predictor": f.or_nil(f.number_or_list),
            "cores": f.number,
            "elapsed_s": f.number,
            "optional": f.map_of(f.anything),
        },
        positional=5, named=False, notification=True,
    ),
    "observe_rows": Method(ObserveRows, {**_SEQUENCE, "rows": f.rows}, rule=_numbered),
    "observe_columns": Method(
        ObserveColumns,
        {
            **_SEQUENCE,
            "components": f.texts(limits.ARRAY_ITEMS_MAX),
            "index": _U32,
            "predictor": _F64,
            "cores": _F64,
            "elapsed_s": _F64,
            "dimensions": f.integer(1, limits.DIMENSIONS_MAX),
            "count": _U32,
            "ok": _U8,
            "running": _U8,
            "network": _U32,
            "record": _U64,
            "entered": _U8,
            "replica": _U64,
            "machine": _U32,
            "active_cores": _F64,
            "at_risk_s": _F64,
            "measures": f.record_of(**dict.fromkeys(MEASURES, f.binary(item_bytes=8))),
            "labels": f.texts(limits.ARRAY_ITEMS_MAX),
        },
        rule=_numbered,
    ),
    "predict": Method(
        Predict,
        {
            "component": f.name,
            "predictor": f.number_or_list,
            "cores": f.number_or_list,
            "level": _level,
            "model": _WORD,
            "dimensions": f.integer(1, limits.DIMENSIONS_MAX),
            "machine": f.name,
            "measure": f.one_of(TIME, *MEASURES),
            "active_cores": f.number,
            "prior": f.boolean,
        },
        positional=3, rule=_one_length,
    ),
    "choose_cores": Method(
        ChooseCores,
        {
            "component": f.name,
            "predictor": f.point,
            "cores_max": f.integer(1, limits.ALLOCATE_CORES_MAX),
            "tolerance": f.number,
            "level": _level,
            "risk": _share,
            "explore": _seconds,
            "machine": f.name,
            "free_now": f.integer(0, limits.ALLOCATE_CORES_MAX),
            "wait_s": _seconds,
            "prior": f.boolean,
        },
        rule=_chosen_later,
    ),
    "suggest": Method(
        Suggest,
        {
            "component": f.name,
            "predictor": f.point,
            "cores": f.number,
            "cores_max": f.integer(1, limits.ALLOCATE_CORES_MAX),
            "candidates": f.list_of(f.setting, limits.CANDIDATES_MAX),
            "limit": f.integer(1, limits.CANDIDATES_MAX),
        },
        rule=_for_a_point,
    ),
    "allocate": Method(Allocate, _PLAN),
    "allocate_together": Method(
        AllocateTogether,
        {
            "networks": f.list_of(f.record_of(**_OF_ONE), limits.NETWORKS_TOGETHER_MAX),
            "objective": f.one_of("throughput", "latency", "fewest_cores"),
            **{key: _PLAN[key] for key in _OF_MACHINE},
        },
    ),
    "watch": Method(
        Watch,
        {
            **_PLAN,
            "watch": f.integer(1, 2**53),
            "current": f.map_of(f.anything),
            "change_cost_s": f.either(
                "seconds, or a map of seconds by key", int=_seconds, float=_seconds, dict=f.map_of(_seconds)
            ),
            "horizon_s": _seconds,
            "gain_min": _share,
            "shadow": f.boolean,
            "applied": f.either("true, or a map by key", bool=f.boolean, dict=f.map_of(f.anything)),
            "took_s": _seconds,
        },
        rule=_watchable,
    ),
    "unwatch": Method(Unwatch, {"watch": f.integer(1, 2**53)}),
    "explain": Method(Explain, {"id": f.text(ANSWER_ID_BYTES_MAX), "replay": f.boolean}),
    "curves": Method(
        Curves,
        {
            "components": f.list_of(f.name, limits.ARRAY_ITEMS_MAX),
            "since": f.integer(0, SEQUENCE_MAX),
            "watch": f.boolean,
            "level": _level,
            "cores_max": f.integer(1, limits.ALLOCATE_CORES_MAX),
        },
    ),
    "define_network": Method(
        DefineNetwork,
        {"id": _NETWORK_ID, "text": f.text(limits.NETWORK_TEXT_BYTES_MAX), "nodes": _NODES},
        rule=_one_form,
    ),
    "flow": Method(FlowAsked, {"network": _NETWORK_ID}),
    "simulate": Method(
        Simulate,
        {
            "graph": f.record_of(
                unit=f.text(8), times=_F64, edges=f.binary(item_bytes=8), names=f.texts(limits.ARRAY_ITEMS_MAX),
                types=f.texts(limits.ARRAY_ITEMS_MAX), type=_U32, size=_F64, columns=f.map_of(_F64),
            ),
            "cores": f.list_of(f.integer(1, limits.SIMULATE_CORES_MAX), limits.SIMULATE_RUNS_MAX),
            "policies": f.list_of(_WORD, limits.SIMULATE_RUNS_MAX),
            "contention": f.list_of(f.map_of(f.anything), 2),
            "measured_alone": f.boolean,
            "speeds": f.numbers,
            "metrics": f.list_of(_WORD, 64),
            "seed": f.integer(0, 2**63 - 1),
            "burden_ns": f.number,
            "advise": f.boolean,
            "predict_times": f.boolean,
            "components": f.map_of(f.name),
            "level": _level,
            "machine": f.name,
            "draws": f.integer(1, limits.SIMULATE_RUNS_MAX),
            "shared": f.number,
        },
    ),
    "status": Method(
        Status,
        {
            "components": f.either(
                "true, false, or a list of names", bool=f.boolean, list=f.list_of(f.name, limits.STATUS_PAGE_MAX)
            ),
            "offset": f.integer(0, 2**63 - 1),
            "limit": f.integer(0, limits.STATUS_PAGE_MAX),
        },
    ),
    "forget": Method(
        Forget,
        {**_SEQUENCE, "component": f.name, "keep": _keep, "program": f.name, "profile": _profile},
        rule=_of_one_thing,
    ),
    "task_events": Method(
        TaskEvents,
        {
            **_SEQUENCE,
            "records": f.binary(),
            "strings": f.texts(limits.ARRAY_ITEMS_MAX),
            "clock": f.record_of(ticks_per_s=f.number, anchors=f.list_of(f.anything, limits.CLOCK_ANCHORS_MAX)),
            "fields": f.texts(limits.EVENT_FIELDS_MAX),
            "dropped": f.integer(0, 2**63 - 1),
            "sums": f.binary(),
            "ended": f.boolean,
        },
        rule=_numbered,
    ),
    "profile": Method(
        Profile,
        {"producer": f.name, "incarnation": f.binary(16), "diagnosis": f.boolean, "nodes": f.boolean, "ended": f.boolean},
    ),
    "observe_run": Method(
        ObserveRun,
        {
            **_SEQUENCE,
            "program": f.name,
            **dict.fromkeys(RUN_NUMBERS, f.number),
            "transform": f.one_of(*TRANSFORMS),
            "profile": _profile,
        },
        rule=_numbered,
    ),
    "predict_run": Method(
        PredictRun,
        {
            "program": f.name, "size": f.number_or_list, "workers": f.number_or_list, "level": _level,
            "model": f.one_of(*VARIANTS),
        },
    ),
    "pin": Method(Pin, {**_SEQUENCE, "component": f.name, "model": f.or_nil(_WORD)}, rule=_numbered),
}  # fmt: skip

RESERVED = frozenset((
    "merge", "export",
))  # fmt: skip


def check_params(method: str, params: Sequence[Any], *, notification: bool = False) -> Params:
    """Return the parameters of a call in their typed form. Cost O(size of `params`), rows left out.

    Raises
    ------
    UnknownMethod, Unsupported
        No such method; a method reserved for a later version.
    UnknownKey, InvalidValue, TooLarge
        Naming the key, its value and its bound. A notification of any method but `observe` is an InvalidValue.
    """
    spec = METHODS.get(method)
    if spec is None:
        if method in RESERVED:
            raise Unsupported(f"{method} is reserved for a later version", field="method", value=method)
        raise UnknownMethod(
            f"no method {method[:40]!r}", field="method", value=method, bound=", ".join(METHODS),
            hint=f.closest(method, tuple(METHODS)),
        )  # fmt: skip
    if notification and not spec.notification:
        raise InvalidValue("msgid", None, f"given: {method} is a request", "only observe may be a notification")
    given = _by_key(method, spec, params)
    if not given.keys() <= spec.keys.keys():
        key = next(key for key in given if key not in spec.keys)
        raise UnknownKey(
            f"{method} has no key {str(key)[:40]!r}", field="params", value=key, bound=", ".join(spec.keys),
            hint=f.closest(str(key), tuple(spec.keys)),
        )  # fmt: skip
    for key in spec.required:
        if key not in given:
            raise InvalidValue(key, None, "given", f"{method} needs {', '.join(spec.required)}")
    there = {key: value for key, value in given.items() if value is not None or key in spec.required}
    checked = spec.into(**{key: spec.keys[key](key, value) for key, value in there.items()})
    if spec.rule is not None:
        spec.rule(checked)
    return checked


def _by_key(method: str, spec: Method, params: Sequence[Any]) -> dict[Any, Any]:
    """Return the parameters of a call by their keys."""
    if spec.named and len(params) <= 1 and all(isinstance(only, dict) for only in params):
        return params[0] if params else {}
    if spec.positional:
        if len(params) > spec.positional:
            names = ", ".join(list(spec.keys)[: spec.positional])
            raise InvalidValue("params", f"{len(params)} values", f"at most {spec.positional}: {names}")
        return dict(zip(spec.keys, params, strict=False))
    raise InvalidValue("params", f"{len(params)} values", f"one map, [{{…}}], for {method}")
