"""What a client gets without asking again: advice of watches, which begin anew after a cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

import anyio

from advisor.client.session import Session
from advisor.domain.advice import Advice
from advisor.domain.allocations import Allocation
from advisor.domain.shapes import converted
from advisor.errors import AdvisorError
from advisor.protocol import verbs as v
from advisor.protocol.declaring import sent

P = ParamSpec("P")
T = TypeVar("T")
ADVICE_RETAINED = 64  # sent and not fetched: of older ones only what they led to matters


class AsyncWatch:
    """A network that is watched; iterate over it for the `Advice` that comes. `AsyncClient.watch` makes it.

    Attributes
    ----------
    allocation : Allocation or None
        The last that was sent; None while too little is known for one.
    state : dict
        What the service said of the watch when it was last asked.
    renewals : int
        How often it was begun anew after a cut.
    """

    def __init__(self, subscriptions: Followed, asked: v.Watch) -> None:
        self._subscriptions = subscriptions
        self._params = sent(asked)
        self._on_change = asked.on_change
        self._news: deque[Advice] = deque(maxlen=ADVICE_RETAINED)
        self._arrived = anyio.Event()
        self._has: Any = self._params.get("current")  # what the runtime has, as far as it has said
        self.allocation: Allocation | None = None
        self.state: dict[str, Any] = {}
        self.renewals = -1
        self.closed = False

    @property
    def watch_number(self) -> int:
        """The watch's number at the service, another after each cut."""
        return self.state.get("watch", 0)

    async def next(self, timeout_s: float | None = None) -> Advice | None:
        """Return the next advice; None when there was none within `timeout_s`, or when the watch has ended."""
        with anyio.move_on_after(timeout_s):
            while not self._news and not self.closed:
                await self._arrived.wait()
        return self._news.popleft() if self._news else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Advice:
        advice = await self.next()
        if advice is None:
            raise StopAsyncIteration
        return advice

    async def applied(
        self, allocation: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """State what the runtime has: the last allocation, or another (key to cores, or to a map of cores and instances).

        Needed only where the runtime does not apply what was advised: an advice counts as applied.
        """
        self._has = _in_use(self.allocation) if allocation is None else allocation
        return await self.status(current=self._has, timeout_s=timeout_s)

    async def status(self, *, current: Any = None, timeout_s: float | None = None) -> dict[str, Any]:
        """Return what the last look found: the best allocation, and why a change pays or does not."""
        asked = v.Watch(watch=self.watch_number, current=current, timeout_s=timeout_s)
        self.state = await self._subscriptions.ask(asked, dict[str, Any])
        return self.state

    async def close(self, *, timeout_s: float | None = None) -> None:
        """Watch no more."""
        if self.closed:
            return
        self.closed = True
        self._subscriptions.stop_following(self)
        self._notify()
        await self._subscriptions.ask(v.Unwatch(self.watch_number, timeout_s=timeout_s), dict[str, Any])

    # -- what the client does

    def renewal(self) -> list[Any]:
        """Return the parameters to begin anew with: of the runtime's present, not of the past."""
        return [self._params | ({} if self._has is None else {"current": self._has})]

    def renewed(self, error: AdvisorError | None, result: Any) -> None:
        """Take in that it began anew."""
        if error is None:
            self.began(result)

    def began(self, state: Mapping[str, Any]) -> None:
        """Take in the answer to a beginning."""
        self.state = dict(state)
        self.renewals += 1
        found = state.get("allocation")
        if found is not None:
            self.allocation = Allocation.of_wire(found)
            if self._has is None:
                self._has = _in_use(self.allocation)
        if state.get("verdict") == "worth":
            self.receive_advice({**state, "kind": "advice"})

    def receive_advice(self, item: Mapping[str, Any]) -> None:
        """Take in what the service sent."""
        advice = read_advice(item)
        if advice.allocation is not None:
            self.allocation = advice.allocation
            self._has = _in_use(advice.allocation)
        self._news.append(advice)
        self._notify()
        if self._on_change is not None:
            self._on_change(advice)

    def _notify(self) -> None:
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()


def _blocking(method: Callable[Concatenate[AsyncWatch, P], Awaitable[T]]) -> Callable[Concatenate[SyncWatch, P], T]:
    @wraps(method)
    def waits(this: SyncWatch, /, *args: P.args, **given: P.kwargs) -> T:
        return this.run(lambda _: method(this.watch, *args, **given))

    return waits


class SyncWatch:
    """A network that is watched, for programs with threads; iterate over it for the `Advice` that comes."""

    def __init__(self, run: Callable[[Callable[[Any], Any]], Any], watch: AsyncWatch) -> None:
        self.run = run  # in the client's thread
        self.watch = watch

    @property
    def allocation(self) -> Allocation | None:
        """The allocation that was sent last."""
        return self.watch.allocation

    @property
    def state(self) -> dict[str, Any]:
        """What the service said of the watch when it was last asked."""
        return self.watch.state

    next = _blocking(AsyncWatch.next)
    applied = _blocking(AsyncWatch.applied)
    status = _blocking(AsyncWatch.status)
    close = _blocking(AsyncWatch.close)

    def __iter__(self) -> Iterator[Advice]:
        while (advice := self.next()) is not None:
            yield advice


def watched(client: Any, method: Callable[..., Any], args: Any, given: Mapping[str, Any]) -> SyncWatch:
    """Begin a watch in the thread of a `SyncClient`."""
    return SyncWatch(client.run, client.wait_for(method, args, given))


def read_advice(item: Mapping[str, Any]) -> Advice:
    """Return one item of news; what a later service adds is left out. Raises MalformedMessage."""
    found: Any = item.get("allocation")
    error: Mapping[str, Any] = item.get("error") or {}
    read: dict[str, Any] = {
        "allocation": None if found is None else Allocation.of_wire(found),
        "figures": {name: item[name] for name in ("best", "present") if name in item},
        "why": item.get("why") or error.get("message", ""),
    }
    return converted(Advice, {**item, **read})


class Followed:
    """What one client watches, and the news of a watch whose beginning is not answered yet.

    Parameters
    ----------
    session : Session
        Asks it anew at the begin of each connection.
    ask : callable
        (declared question, type of its answer) to the answer.
    """

    def __init__(self, session: Session, ask: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self.ask = ask
        self._session = session
        session.pushed = self.take_push
        self._watches: dict[int, AsyncWatch] = {}  # by the call that begins each anew
        self._early: deque[Mapping[str, Any]] = deque(maxlen=ADVICE_RETAINED)

    async def watch(self, asked: v.Watch) -> AsyncWatch:
        """Begin a watch of a network."""
        watch = AsyncWatch(self, asked)
        watch.began(await self.ask(asked, dict[str, Any]))
        self._watches[self._session.stand("watch", watch.renewal, watch.renewed)] = watch
        early, self._early = self._early, deque[Mapping[str, Any]](maxlen=ADVICE_RETAINED)
        self._advice(list(early))
        return watch

    def stop_following(self, watch: AsyncWatch) -> None:
        """Begin it no more after a cut."""
        for call in [call for call, each in self._watches.items() if each is watch]:
            self._session.abandon(call)
            del self._watches[call]

    def take_push(self, method: str, params: list[Any]) -> None:
        """Hand on what the service sent."""
        if method == "advice" and params:
            self._advice(params[0])

    def _advice(self, items: Any) -> None:
        """Hand advice to the watches that it is about."""
        by_number = {watch.watch_number: watch for watch in self._watches.values()}
        for item in cast("list[Any]", items) if isinstance(items, list) else []:
            if not isinstance(item, Mapping):
                continue
            about = cast("Mapping[str, Any]", item)
            watch = by_number.get(int(about.get("watch") or 0))
            if watch is None:
                self._early.append(about)
            else:
                watch.receive_advice(about)


def _in_use(allocation: Allocation | None) -> dict[str, dict[str, int]] | None:
    if allocation is None:
        return None
    return {key: {"cores": cores, "instances": allocation.instances[key]} for key, cores in allocation.cores.items()}
