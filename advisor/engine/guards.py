"""Guards of a call: one thread at a time inside an `Advisor`, and the values of a question within their domain."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from advisor.domain import limits
from advisor.domain.rows import BOUNDS, bound_text, is_number, is_truth, whole
from advisor.errors import ConcurrentUse, InvalidValue, TooLarge

P = ParamSpec("P")
Answer = TypeVar("Answer")


def alone(
    method: Callable[Concatenate[Any, P], Answer], part: str = "", evidence: Callable[..., Any] | None = None
) -> Callable[Concatenate[Any, P], Answer]:
    """Return a method that holds its object's `turn` while it runs: a list of one item, taken out in one atomic step.

    With `part` the object answers by `method` of its attribute of that name. With `evidence` that answers where the argument of
    that name is true.

    Kernels run without the interpreter's lock, so that two calls at once would mix their sums. No lock is waited for: who
    shares an advisor between threads puts one around each call; else it raises ConcurrentUse. Cost: some tenths of a
    microsecond a call.
    """

    @wraps(method)
    def guarded(this: Any, /, *args: P.args, **given: P.kwargs) -> Answer:
        if evidence is not None and "evidence" in given:
            if not is_truth(asked := given.pop("evidence")):
                raise InvalidValue("evidence", asked, "true or false")
            if asked:
                return evidence(this, method, args, given)
        turn: list[None] = this.turn
        try:
            turn.pop()
        except IndexError:
            raise ConcurrentUse(
                f"{method.__name__} was called while another thread is inside this advisor, and did nothing",
                hint="one thread at a time: put one lock around each call",
            ) from None
        try:
            return method(getattr(this, part) if part else this, *args, **given)
        finally:
            turn.append(None)

    return guarded


def taking(question: Callable[P, object]) -> Callable[[Callable[..., Answer]], Callable[Concatenate[Any, P], Answer]]:
    """Return a decorator that gives a method the parameters of a question, for type checkers."""
    return lambda method: method


def checked_level(level: Any) -> float:
    """Return the level of an interval; raises InvalidValue."""
    if not (type(level) is float or is_number(level)) or not limits.LEVEL_MIN <= level <= limits.LEVEL_MAX:
        raise InvalidValue("level", level, f"a number from {limits.LEVEL_MIN} to {limits.LEVEL_MAX}")
    return float(level)


def checked_cores(field: str, value: Any) -> int:
    """Return a whole number of cores; raises InvalidValue."""
    return whole(field, value, 1, limits.ALLOCATE_CORES_MAX)


def check_together(x: Any, p: Any) -> None:
    """Refuse predictors and cores that do not broadcast, or do so to more points than one question may ask for.

    Raises InvalidValue, TooLarge.
    """
    try:
        shape = np.broadcast_shapes(np.shape(x), np.shape(p))
    except ValueError as error:
        bound = f"of a shape that broadcasts with predictor's, {np.shape(x)}"
        raise InvalidValue("cores", str(np.shape(p)), bound) from error
    if prod(shape) > limits.PREDICT_POINTS_MAX:
        raise TooLarge("predictor", prod(shape), limits.PREDICT_POINTS_MAX, "ask in parts")


def checked(field: str, value: Any, code: str) -> Any:
    """Return a float, or a float64 array, within the domain of `code` in `BOUNDS`; raises InvalidValue, TooLarge."""
    _, low, high = BOUNDS[code]
    if type(value) is float or is_number(value):
        if not low <= value <= high:
            raise InvalidValue(field, value, bound_text(code))
        return float(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidValue(field, value, "a number or an array of numbers") from error
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise InvalidValue(field, value, "a number or an array of numbers")
    if array.size > limits.PREDICT_POINTS_MAX:
        raise TooLarge(field, array.size, limits.PREDICT_POINTS_MAX, "ask in parts")
    array = array.astype(np.float64)
    if not (array.min() >= low and array.max() <= high):
        bad = array[~((array >= low) & (array <= high))]
        raise InvalidValue(field, float(bad.flat[0]), bound_text(code))
    return array
