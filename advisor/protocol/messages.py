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
    ChooseCores,
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
)

SEQUENCE_MAX = 2**63 - 1  # kept as int64
RUN_NUMBERS = (
    "size", "workers", "elapsed_s", "work_s", "delay_s", "no_work_s", "creates", "waits", "serial_work_s", "span_s",
)  # fmt: skip
TOKEN_BYTES_MAX = 4096  # no longer secret is of use
OBJECTIVES = ("throughput", "latency", "fewest_cores")
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


def _introduced(params: Hello) -> None:
    if params.producer is None and (params.incarnation != NO_INCARNATION or params.resume_at is not None):
        raise InvalidValue("producer", None, "given where incarnation or resume_at is")
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


def _keep(field: str, value: Any) -> float:
    if type(value) not in f.NUMBER_TYPES or not 0.0 <= value < 1.0:
        raise InvalidValue(field, value, "a number from 0 to below 1")
    return float(value)


def _level(field: str, value: Any) -> float:
    if type(value) not in f.NUMBER_TYPES or not limits.LEVEL_MIN <= value <= limits.LEVEL_MAX:
        raise InvalidValue(field, value, f"a number from {limits.LEVEL_MIN} to {limits.LEVEL_MAX}")
    return float(value)


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
_U8, _U32, _U64, _F64 = f.binary(), f.binary(item_bytes=4), f.binary(item_bytes=8), f.binary(item_bytes=8)
_CORES_BY_KEY = f.map_of(f.integer(1, limits.ALLOCATE_CORES_MAX))
_NODES = f.list_of(f.map_of(f.anything), limits.NETWORK_NODES_MAX)  # what a node may hold is the planner's to check

METHODS: Mapping[str, Method] = {
    "hello": Method(
        Hello,
        {
            "protocol": f.integer(0, 2**32 - 1),
            "token": f.text(TOKEN_BYTES_MAX),
            "producer": f.name,
            "incarnation": f.binary(16),
            "resume_at": f.integer(0, SEQUENCE_MAX),
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
            "machine": _U32,
            "active_cores": _F64,
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
            "machine": f.name,
        },
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
    "allocate": Method(
        Allocate,
        {
            "network": f.either(
                "S-Net text, a list of nodes, or a network's id",
                str=f.text(limits.NETWORK_TEXT_BYTES_MAX), list=_NODES, int=f.integer(0, 2**63 - 1),
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
                int=f.integer(1, limits.INSTANCES_MAX), dict=f.map_of(f.integer(1, limits.INSTANCES_MAX)),
            ),
            "load": f.map_of(f.number),
            "components": f.map_of(f.name),
            "level": _level,
        },
    ),
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
    "forget": Method(Forget, {**_SEQUENCE, "component": f.name, "keep": _keep}, rule=_numbered),
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
            "profile": f.record_of(producer=f.name, incarnation=f.binary(16)),
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
    "watch", "unwatch", "curves", "define_network", "explain", "merge", "export",
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
