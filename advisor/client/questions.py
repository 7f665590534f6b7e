"""The methods of the clients that are made from the declarations of the verbs: one source for wire, signature and help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from types import UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    overload,
)

from advisor.protocol.declaring import Question, called

P = ParamSpec("P")
Asked = TypeVar("Asked", bound=Question)
Answer = TypeVar("Answer")
Returned_co = TypeVar("Returned_co", covariant=True)


class Method(Protocol[P, Returned_co]):
    """A method of a client, as a type checker sees it: the parameters of its declaration, and what it returns."""

    @overload
    def __get__(self, client: None, owner: Any = None, /) -> Method[P, Returned_co]: ...
    @overload
    def __get__(self, client: object, owner: Any = None, /) -> Callable[P, Returned_co]: ...
    def __call__(self, client: Any, /, *args: P.args, **given: P.kwargs) -> Returned_co:
        """Call it on a client."""
        ...


def asks(declared: Callable[P, Asked], read: Callable[[Any], Answer]) -> Method[P, Coroutine[Any, Any, Answer]]:
    """Return the method that asks a declared verb, and reads its answer.

    It raises at once what is wrong with the call: UnknownKey, InvalidValue, TooLarge.
    """
    return asks_by(declared, lambda client, asked: client.ask(asked, read))


def asks_by(
    declared: Callable[P, Asked], ask: Callable[[Any, Asked], Coroutine[Any, Any, Answer]]
) -> Method[P, Coroutine[Any, Any, Answer]]:
    """Return the method that makes of a call what a verb declares, and hands it to `ask`."""

    def method(client: Any, /, *args: Any, **given: Any) -> Coroutine[Any, Any, Answer]:
        return ask(client, cast("Asked", called(cast("type[Question]", declared), args, given)))

    _dressed(method, cast("type[Question]", declared))
    return cast("Any", method)


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Answer]]) -> Method[P, Answer]:
    """Return the method of `SyncClient` that does one of `AsyncClient` in the client's thread, behind its rows, and waits."""

    @wraps(method)
    def waiting(client: Any, /, *args: Any, **given: Any) -> Answer:
        return client.run_behind_rows(method, args, given)

    waiting.__module__, waiting.__qualname__ = "advisor.client.threaded", f"SyncClient.{waiting.__name__}"
    return cast("Any", waiting)


def _dressed(method: Any, declared: type[Question]) -> None:
    """Give a method the name, the help and the signature of its declaration."""
    taken = inspect.signature(declared)
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = declared.verb.name
    method.__module__, method.__qualname__ = "advisor.client.aio", f"AsyncClient.{declared.verb.name}"
    method.__doc__ = declared.__doc__
    method.__signature__ = taken.replace(
        parameters=[client, *map(_bare, taken.parameters.values())], return_annotation=Any
    )


def _bare(told: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter without what its type carries for the wire: the checks, which would bury it."""
    if isinstance(told.annotation, str):
        return told
    parts = [get_args(part)[0] if get_origin(part) is Annotated else part for part in _of_union(told.annotation)]
    return told.replace(annotation=Union[tuple(parts)])  # noqa: UP007 -- of as many as there are


def _of_union(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
