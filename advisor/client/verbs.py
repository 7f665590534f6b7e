"""The verbs of both clients, each once: `AsyncClient` awaits an answer, `SyncClient` waits for it.

Parameters and help of a question are those of its declaration in `advisor.protocol.verbs`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)  # fmt: skip

from advisor.client.watching import watched
from advisor.domain.allocations import Allocation
from advisor.domain.answer_types import Exported, ProfileReport, Simulated, Status
from advisor.domain.answers import CoreChoice, Curves, Prediction, Suggestions
from advisor.domain.flows import Flow
from advisor.domain.job_pools import PoolPlan
from advisor.domain.runs import RunPrediction
from advisor.domain.sharing import Together
from advisor.protocol import verbs as v
from advisor.protocol.declaring import Question, called, sent
from advisor.protocol.encoding import body_of, body_of_events

P = ParamSpec("P")
Asked = TypeVar("Asked", bound=Question)
Answer = TypeVar("Answer")
Waited = TypeVar("Waited")
Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, Answer]]


class Both(Generic[P, Answer, Waited]):
    """A method of both clients: of the asynchronous one as it is; of the other `wait` calls it, and waits for its answer."""

    def __init__(self, method: Method[P, Answer], wait: Callable[[Any, Method[..., Answer], Any, Any], Waited]) -> None:
        @wraps(method)
        def waiting(client: Blocks, /, *args: Any, **given: Any) -> Waited:
            return wait(client, method, args, given)

        method.__module__, method.__qualname__ = "advisor.client.aio", f"AsyncClient.{method.__name__}"
        waiting.__module__, waiting.__qualname__ = "advisor.client.threaded", f"SyncClient.{method.__name__}"
        self._method, self._waiting = method, waiting

    def __call__(self, client: Any, /, *args: P.args, **given: P.kwargs) -> Coroutine[Any, Any, Answer]:
        """Call it on an asynchronous client."""
        return self._method(client, *args, **given)

    @overload
    def __get__(self, client: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, client: Awaits, owner: Any = None) -> Callable[P, Coroutine[Any, Any, Answer]]: ...
    @overload
    def __get__(self, client: Blocks, owner: Any = None) -> Callable[P, Waited]: ...
    def __get__(self, client: Any, owner: Any = None) -> Any:
        method = self._waiting if issubclass(owner or type(client), Blocks) else self._method
        return method if client is None else MethodType(method, client)


def both(method: Method[P, Answer]) -> Both[P, Answer, Answer]:
    """Make a method of both clients of an asynchronous one."""
    return Both(method, lambda client, method, args, given: client.wait_for(method, args, given))


def asks(declared: Callable[P, Asked], answer: type[Answer]) -> Both[P, Answer, Answer]:
    """Return the methods that ask a declared verb; `answer` is the type of what they return.

    A change is numbered, in its place among the rows. They raise at once what is wrong with the call: UnknownKey, InvalidValue,
    TooLarge.
    """

    def ask(client: Any, asked: Asked) -> Coroutine[Any, Any, Answer]:
        if isinstance(asked, v.NumberedVerb):
            return client.change(body_of(asked.verb.name, sent(asked)), asked.timeout_s)
        return client.ask(asked, answer)

    return both(_asking(declared, ask))


def _asking(
    declared: Callable[P, Asked], ask: Callable[[Any, Asked], Coroutine[Any, Any, Answer]]
) -> Method[P, Answer]:
    """Return the method that makes of a call what a verb declares, and hands it to `ask`."""
    question = cast("type[Question]", declared)

    def method(client: Any, /, *args: Any, **given: Any) -> Coroutine[Any, Any, Answer]:
        return ask(client, cast("Asked", called(question, args, given)))

    taken, types = inspect.signature(question), get_type_hints(question)  # without the bounds
    asked = [each for name, each in taken.parameters.items() if name not in v.NUMBERING]
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = question.verb.name
    method.__doc__ = question.__doc__
    method.__signature__ = taken.replace(  # pyright: ignore[reportFunctionMemberAccess]
        parameters=[client, *(each.replace(annotation=types[each.name]) for each in asked)],
        return_annotation=Any,
    )
    return cast("Any", method)


class Verbs:
    """What both clients ask, and tell.

    What changes what is learned is done in its place among the rows, exactly once. Its answer is empty when it was lost with
    its connection; the change was made all the same.
    """

    predict = asks(v.Predict, Prediction)
    choose_cores = asks(v.ChooseCores, CoreChoice)
    choose_together = asks(v.ChooseTogether, PoolPlan)
    suggest = asks(v.Suggest, Suggestions)
    allocate = asks(v.Allocate, Allocation)
    allocate_together = asks(v.AllocateTogether, Together)
    flow = asks(v.FlowAsked, Flow)
    simulate = asks(v.SimulateAsked, Simulated)
    status = asks(v.StatusAsked, Status)
    export = asks(v.Export, Exported)
    shards = asks(v.Shards, dict[str, Any])
    profile = asks(v.ProfileAsked, ProfileReport)
    predict_run = asks(v.PredictRun, RunPrediction)
    curves = asks(v.CurvesAsked, Curves)
    observe_run = asks(v.ObserveRun, dict[str, Any])
    forget = asks(v.Forget, dict[str, Any])
    pin = asks(v.Pin, dict[str, Any])
    set_allowed = asks(v.SetAllowed, dict[str, Any])
    watch = Both(_asking(v.Watch, lambda client, asked: client.subscriptions.watch(asked)), watched)

    @both
    async def hello(self: Any, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the service's version, limits and features."""
        return await self.ask(v.Hello(timeout_s=timeout_s), dict[str, Any])

    @both
    async def define_network(
        self: Any,
        network: v.NetworkGiven,
        *,
        id: int | str,  # noqa: A002
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Keep a network (S-Net text, a network, or its nodes) by id, for rows (``network=id``), `allocate` and `flow`.

        The answer, `{id, keys, components, choices, …}`, comes when it is durable. The same again changes nothing.
        """
        form: Any = {"text" if isinstance(network, str) else "nodes": network}
        return await self.ask(v.DefineNetwork(id, timeout_s=timeout_s, **form), dict[str, Any])

    @both
    async def task_events(self: Any, records: Any, *, timeout_s: float | None = None, **header: Any) -> dict[str, Any]:
        """Send task events; return what became of them.

        `records` are bytes or an array of the records of `domain.task_events`; `header` is `strings` (new ones), `clock`,
        `dropped`, `sums` (as bytes) and `ended`: the run is over.
        """
        return await self.change(body_of_events(records, **header), timeout_s)


class Awaits(Verbs):
    """A client whose verbs are awaited: it has `ask`, `change` and `subscriptions`, see `AsyncClient`."""


class Blocks(Verbs, ABC):
    """A client whose verbs wait for their answers."""

    def wait_for(self, method: Method[..., Answer], args: Any, given: Any) -> Answer:
        """Call a method of `AsyncClient`, and return its answer."""
        return self.run(lambda client: method(client, *args, **given))

    @abstractmethod
    def run(self, work: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """Do `work` with the asynchronous client, in its thread, and return its answer."""
