"""What the verbs of both clients say on the wire, and how their answers are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from advisor.domain.allocations import Allocation, Details, Evidence, FrontPoint, Knee, Marginal, Reason, RunnerUp
from advisor.domain.answers import CoreChoice, Curves, Prediction, Suggestion, TakeOrWait
from advisor.domain.flows import Flow
from advisor.domain.job_pools import PoolChoice, PoolPlan
from advisor.domain.runs import RunPrediction
from advisor.domain.sharing import Part, Together
from advisor.domain.told import Exported, ProfileTold, Simulated, Status
from advisor.errors import MalformedMessage
from advisor.protocol.declaring import plain

Answer = TypeVar("Answer")
TABLES = {"marginal": Marginal, "runner_up": RunnerUp}


def given(**params: Any) -> dict[str, Any]:
    """Return the parameters that are not None, in plain values."""
    return {key: plain(value) for key, value in params.items() if value is not None}


def read_map(result: Any) -> dict[str, Any]:
    """Return an answer that is a map; an empty one where it was lost with its connection."""
    return dict(result or {})


read_status = cast("Callable[[Any], Status]", read_map)
read_exported = cast("Callable[[Any], Exported]", read_map)
read_simulated = cast("Callable[[Any], Simulated]", read_map)
read_profile = cast("Callable[[Any], ProfileTold]", read_map)


def read_prediction(result: Any) -> Prediction:
    """Return the answer to `predict`."""
    answer = _known(Prediction, result)
    answer["notes"] = tuple(answer.get("notes", ()))
    return Prediction(**_near(answer))


def _near(answer: dict[str, Any]) -> dict[str, Any]:
    near: Any = answer.get("nearest")
    return answer if near is None else answer | {"nearest": tuple(near)}


def read_run_prediction(result: Any) -> RunPrediction:
    """Return the answer to `predict_run`."""
    answer: dict[str, Any] = {"notes": [], "observations": 0, "extrapolates": 0.0, "parts": {}}
    answer |= _known(RunPrediction, result)
    answer["notes"] = tuple(answer["notes"])
    return RunPrediction(**answer)


def read_core_choice(result: Any) -> CoreChoice:
    """Return the answer to `choose_cores`."""
    answer = _known(CoreChoice, result)
    if answer.get("take_or_wait") is not None:
        answer["take_or_wait"] = _part(TakeOrWait, answer["take_or_wait"])
    answer["seen"] = tuple((cores, runs) for cores, runs in answer.get("seen", ()))
    answer |= {key: tuple(answer.get(key, ())) for key in ("assumed", "counts")}
    return CoreChoice(**_near(answer))


def read_pool_plan(result: Any) -> PoolPlan:
    """Return the answer to `choose_together`."""
    answer = _known(PoolPlan, result)
    jobs = tuple(PoolChoice(**_known(PoolChoice, each)) for each in cast("list[Any]", answer.get("jobs", [])))
    return PoolPlan(jobs, dict(answer.get("assumed") or {}))


def read_suggestions(result: Any) -> list[Suggestion]:
    """Return the answer to `suggest`."""
    if not isinstance(result, list):
        raise MalformedMessage("an answer that is no list", field=Suggestion.__name__)
    found: list[Suggestion] = []
    for each in cast("list[Any]", result):
        answer: dict[str, Any] = {"narrower": None, "why": ""} | _known(Suggestion, each)
        if isinstance(answer["predictor"], list):
            answer["predictor"] = tuple(cast("list[float]", answer["predictor"]))
        found.append(Suggestion(**answer))
    return found


def read_allocation(result: Any) -> Allocation:
    """Return the answer to `allocate`."""
    answer = _known(Allocation, result)
    told = _part(Details, result)
    answer["bottleneck"] = tuple(answer["bottleneck"])
    reasons = tuple(Reason(**_known(Reason, reason)) for reason in told.why)
    answer["groups"] = tuple((group["cores"], tuple(group["components"])) for group in answer.get("groups", ()))
    tables = (tuple(_part(shape, each) for each in getattr(told, name)) for name, shape in TABLES.items())
    answer["front"] = _front(answer)
    knee = None if told.knee is None else _part(Knee, told.knee)
    known = {key: _part(Evidence, {**each, "cores_range": tuple(each["cores_range"])} if "cores_range" in each else each)
             for key, each in told.evidence.items()}  # fmt: skip
    answer["details"] = Details(reasons, knee, *tables, evidence=known, expected_per_s=told.expected_per_s)
    if answer.get("placement") is not None:
        answer["placement"] = {key: tuple(nodes) for key, nodes in answer["placement"].items()}
    answer.pop("cores_used", None)  # told by the value itself
    return Allocation(**answer)


def read_together(result: Any) -> Together:
    """Return the answer to `allocate_together`."""
    answer = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    if not isinstance(answer.get("networks"), list) or "spare" not in answer:
        raise MalformedMessage("an answer without networks or spare", field=Together.__name__)
    parts: list[Part] = []
    for each in cast("list[Any]", answer["networks"]):
        allocation = read_allocation(each)
        own = {"name": "", "weight": 1.0, "priority": 0, "guaranteed_per_s": allocation.throughput_per_s}
        parts.append(_part(Part, {**own, **each, "allocation": allocation}))
    return Together(
        tuple(parts), answer["spare"], answer.get("gap"),
        tuple((str(network), str(key)) for network, key in answer.get("bottleneck", ())),
        tuple(Reason(**_known(Reason, reason)) for reason in answer.get("why", ())),
        _front(answer),
    )  # fmt: skip


def _front(answer: dict[str, Any]) -> tuple[FrontPoint, ...]:
    return tuple(_part(FrontPoint, each) for each in answer.get("front", ()))


def _part(shape: type[Any], given: Any) -> Any:
    """Return a part of an answer, without what this version does not know."""
    names = {field.name for field in fields(shape)} if is_dataclass(shape) else set(shape._fields)
    return shape(**{key: value for key, value in given.items() if key in names})


def read_curves(result: Any) -> Curves:
    """Return the answer to `curves`."""
    answer = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    if not isinstance(answer.get("bundle"), bytes) or not isinstance(answer.get("version"), int):
        raise MalformedMessage("an answer without version or bundle", field=Curves.__name__)
    return Curves(answer["version"], answer["bundle"], int(answer.get("more") or 0), answer.get("next"))


def read_flow(result: Any) -> Flow:
    """Return the answer to `flow`."""
    answer = _known(Flow, result)
    told: dict[str, Any] = {key: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for key, v in answer.items()}
    return Flow(**told)


def _known(shape: type[Any], result: Any) -> dict[str, Any]:
    """Return the keys that this version knows; a later service may say more.

    Raises MalformedMessage when one is missing that must be there.
    """
    answer = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    names = [field.name for field in fields(shape)]
    missing = [name for name in names[:4] if name not in answer]
    if missing:
        raise MalformedMessage(f"an answer without {', '.join(missing)}", field=shape.__name__)
    return {name: answer[name] for name in names if name in answer}
