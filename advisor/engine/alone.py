"""One call at a time: a second thread that enters an `Advisor` while a first one is inside gets an error, and does nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from advisor.errors import ConcurrentUse

P = ParamSpec("P")
Answer = TypeVar("Answer")


def alone(method: Callable[Concatenate[Any, P], Answer], part: str = "") -> Callable[Concatenate[Any, P], Answer]:
    """Return a method that holds its object's `turn` while it runs: a list of one item, taken out in one atomic step.

    With `part` the object answers by `method` of its attribute of that name, as by `verb`.

    Kernels run without the interpreter's lock, so that two calls at once would mix their sums. No lock is waited for: who
    shares an advisor between threads puts one around each call; else it raises ConcurrentUse. Cost: some tenths of a
    microsecond a call.
    """

    @wraps(method)
    def guarded(this: Any, /, *args: P.args, **given: P.kwargs) -> Answer:
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


def verb(method: Callable[Concatenate[Any, P], Answer], part: str) -> Callable[Concatenate[Any, P], Answer]:
    """Return the method of an object that answers by `method` of its attribute `part`."""

    @wraps(method)
    def asked(this: Any, /, *args: P.args, **given: P.kwargs) -> Answer:
        return method(getattr(this, part), *args, **given)

    return asked
