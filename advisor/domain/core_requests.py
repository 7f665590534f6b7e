"""What a caller asks when cores are chosen for runs of a component, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, cast

from advisor.domain.allowed_cores import AllowedCores, allowed_in_all
from advisor.domain.limits import ALLOCATE_CORES_MAX, RUNS_AT_ONCE_MAX
from advisor.domain.rows import is_number, number, whole
from advisor.errors import InvalidValue, not_one_of

TIME, CORE_SECONDS = "time", "core_seconds"
REQUESTS_CACHED = 256  # a scheduler asks the same way of all its jobs


@dataclass(frozen=True, slots=True)
class CoreRequest:
    """What a caller asks: which counts are allowed, what is minimised, what may be tried; see `Advisor.choose_cores`."""

    allowed: AllowedCores
    usual: int | None = None
    tolerance: float = 0.05
    objective: str = TIME
    explore: bool | Literal["freeze"] = False
    count: int = 1
    under_way: Mapping[int, int] = field(default_factory=dict[int, int])
    risk: float = 0.0


def plain_request(cores_max: Any, *asked: Any) -> CoreRequest:
    """Return the request of a question without sets and runs under way, checked once; `asked` as in `core_request`."""
    try:
        return _plain_request(cores_max, *asked)
    except TypeError:  # a value that has no hash is none that is legal: say so
        return _plain_request.__wrapped__(cores_max, *asked)


@lru_cache(maxsize=REQUESTS_CACHED, typed=True)
def _plain_request(cores_max: Any, *asked: Any) -> CoreRequest:
    return core_request(allowed_in_all("", cores_max, None, None), *asked)


def core_request(
    allowed: AllowedCores, usual: Any, tolerance: Any, objective: Any, explore: Any, count: Any, risk: Any,
    under_way: Any = None,
) -> CoreRequest:  # fmt: skip
    """Return a request of checked values; raises InvalidValue."""
    tolerance = number("tolerance", tolerance, 0.0, 1.0, "0.05 is 5 %")
    risk = number("risk", risk, 0.0, 1.0, "0: expected times; 1: upper ends of the intervals")
    if objective not in (TIME, CORE_SECONDS):
        raise not_one_of("objective", objective, (TIME, CORE_SECONDS))
    if under_way is not None and not isinstance(under_way, Mapping):
        raise InvalidValue("under_way", under_way, "a map of core counts to runs")
    begun = {
        whole("a key of under_way", cores, 1, ALLOCATE_CORES_MAX): whole(
            f"under_way[{cores}]", runs, 0, RUNS_AT_ONCE_MAX
        )
        for cores, runs in cast("Mapping[Any, Any]", under_way or {}).items()
    }
    return CoreRequest(
        allowed, None if usual is None else whole("usual", usual, 1, ALLOCATE_CORES_MAX), tolerance, objective,
        checked_explore("explore", explore), whole("count", count, 1, RUNS_AT_ONCE_MAX), begun, risk,
    )  # fmt: skip


def checked_explore(field: str, value: Any) -> bool | Literal["freeze"]:
    """Return what may be tried; raises InvalidValue."""
    if value is True or value is False or (isinstance(value, str) and value == "freeze"):
        return cast("Any", value)
    hint = (
        "there is no budget in seconds: a trial is made where runs seen make up for its loss"
        if is_number(value)
        else ""
    )
    raise InvalidValue(field, value, "true, false or 'freeze'", hint)
