"""The methods of the clients that are made from the declarations of the verbs: one source for wire, signature and help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

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

    return cast("Any", waiting)


def _dressed(method: Any, declared: type[Question]) -> None:
    """Give a method the name, the help and the signature of its declaration."""
    taken = inspect.signature(declared)
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = method.__qualname__ = declared.verb.name
    method.__doc__ = declared.__doc__
    method.__signature__ = taken.replace(parameters=[client, *taken.parameters.values()], return_annotation=Any)
