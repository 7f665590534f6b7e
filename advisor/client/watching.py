"""A watch of the client: advice as it comes, what was done about it, and its renewal after a cut."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

import anyio

from advisor.client import requests
from advisor.domain.advice import Advice
from advisor.domain.answers import Allocation

if TYPE_CHECKING:
    from advisor.client.questions import AsyncQuestions
    from advisor.client.threaded_questions import SyncQuestions

ADVICE_KEPT = 64  # told and not fetched: of older ones only what they led to matters


class AsyncWatch:
    """A network that is watched; iterate over it for the `Advice` that comes. `AsyncClient.watch` makes it.

    Attributes
    ----------
    allocation : Allocation or None
        The last that was told; None while too little is known for one.
    state : dict
        What the service said of the watch when it was last asked.
    renewals : int
        How often it was begun anew after a cut.
    """

    def __init__(
        self, client: AsyncQuestions, topic: str, params: Mapping[str, Any], told: Callable[[Advice], None] | None
    ) -> None:
        self._client = client
        self._topic = topic
        self._params = dict(params)
        self._told = told
        self._news: deque[Advice] = deque(maxlen=ADVICE_KEPT)
        self._arrived = anyio.Event()
        self._has: Any = params.get("current")  # what the runtime has, as far as it has said
        self.allocation: Allocation | None = None
        self.state: dict[str, Any] = {}
        self.renewals = -1
        self.closed = False

    @property
    def number(self) -> int:
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
        self,
        allocation: Mapping[str, Any] | None = None,
        *,
        took_s: float | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Say that the last advice was applied, or another `allocation` (key to cores, or to a map of cores and instances).

        `took_s` is what the change cost: from it the service learns what changes cost.
        """
        self._has = allocation if allocation is not None else _standing(self.allocation)
        params = requests.given(watch=self.number, applied=allocation or True, took_s=took_s)
        self.state = await self._client.ask("watch", params, dict, timeout_s)
        return self.state

    async def status(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return where the watch stands: what it would advise and why it does not, regret, what was lost."""
        self.state = await self._client.ask("watch", {"watch": self.number}, dict, timeout_s)
        return self.state

    async def close(self, *, timeout_s: float | None = None) -> None:
        """Watch no more."""
        if self.closed:
            return
        self._end()
        await self._client.ask("unwatch", {"watch": self.number}, dict, timeout_s)

    # -- what the client does

    def renewal(self) -> list[Any]:
        """Return the parameters to begin anew with: of the runtime's present, not of the past."""
        return [self._params | ({} if self._has is None else {"current": self._has})]

    def began(self, state: Mapping[str, Any]) -> None:
        """Take in the answer to a beginning."""
        self.state = dict(state)
        self.renewals += 1
        found = state.get("allocation")
        if found is not None:
            self.allocation = requests.read_allocation(found)
            if self._has is None and not self._params.get("shadow"):
                self._has = _standing(self.allocation)
        if state.get("verdict") == "worth":
            self.tell({**state, "kind": "advice"})

    def tell(self, item: Mapping[str, Any]) -> None:
        """Take in what the service told."""
        advice = read_advice(item)
        if advice.allocation is not None:
            self.allocation = advice.allocation
        if advice.kind == "first" and self._has is None:
            self._has = _standing(advice.allocation)
        self._news.append(advice)
        self._stir()
        if self._told is not None:
            self._told(advice)

    def _end(self) -> None:
        self.closed = True
        self._client.forget_watch(self._topic)
        self._stir()

    def _stir(self) -> None:
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()


class SyncWatch:
    """A network that is watched, for programs with threads; iterate over it for the `Advice` that comes."""

    def __init__(self, client: SyncQuestions, watch: AsyncWatch, news: queue.SimpleQueue[Advice | None]) -> None:
        self._client = client
        self._watch = watch
        self._news = news

    @property
    def allocation(self) -> Allocation | None:
        """The allocation that was told last."""
        return self._watch.allocation

    @property
    def state(self) -> dict[str, Any]:
        """What the service said of the watch when it was last asked."""
        return self._watch.state

    def next(self, timeout_s: float | None = None) -> Advice | None:
        """Return the next advice; None when there was none within `timeout_s`, or when the watch has ended."""
        try:
            return self._news.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def __iter__(self) -> Iterator[Advice]:
        while (advice := self.next()) is not None:
            yield advice

    def applied(
        self,
        allocation: Mapping[str, Any] | None = None,
        *,
        took_s: float | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Say what was applied. As `AsyncWatch.applied`."""
        return self._client.run(lambda _: self._watch.applied(allocation, took_s=took_s, timeout_s=timeout_s))

    def status(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return where the watch stands. As `AsyncWatch.status`."""
        return self._client.run(lambda _: self._watch.status(timeout_s=timeout_s))

    def close(self, *, timeout_s: float | None = None) -> None:
        """Watch no more."""
        self._client.run(lambda _: self._watch.close(timeout_s=timeout_s))
        self._news.put(None)


def read_advice(item: Mapping[str, Any]) -> Advice:
    """Return one thing told; what a later service adds is left out."""
    found = item.get("allocation")
    error: Mapping[str, Any] = item.get("error") or {}
    figures = {name: item[name] for name in ("best", "present", "advised", "actual") if name in item}
    known = {name: item.get(name) for name in ("gain", "probability", "cost_s", "break_even_s", "paid")}
    return Advice(
        kind=str(item.get("kind")),
        allocation=None if found is None else requests.read_allocation(found),
        changed=tuple(item.get("changed") or ()),
        figures=figures,
        why=str(item.get("why") or error.get("message") or ""),
        watch=int(item.get("watch") or 0),
        **known,  # type: ignore[arg-type]
    )


class Watches:
    """The watches of one client, and what was told of those whose beginning is not answered yet."""

    def __init__(self) -> None:
        self._by_topic: dict[str, AsyncWatch] = {}
        self._early: deque[Mapping[str, Any]] = deque(maxlen=ADVICE_KEPT)
        self.begun = 0

    def add(self, watch: AsyncWatch, topic: str) -> None:
        """Take in a watch that the service has begun."""
        self._by_topic[topic] = watch
        early, self._early = self._early, deque[Mapping[str, Any]](maxlen=ADVICE_KEPT)
        self.told(list(early))

    def drop(self, topic: str) -> None:
        """Forget a watch."""
        self._by_topic.pop(topic, None)

    def told(self, items: Any) -> None:
        """Hand what the service told to the watches that it is about."""
        by_number = {watch.number: watch for watch in self._by_topic.values()}
        for item in cast("list[Any]", items) if isinstance(items, list) else []:
            if not isinstance(item, Mapping):
                continue
            about = cast("Mapping[str, Any]", item)
            watch = by_number.get(int(about.get("watch") or 0))
            if watch is None:
                self._early.append(about)
            else:
                watch.tell(about)


def _standing(allocation: Allocation | None) -> dict[str, dict[str, int]] | None:
    if allocation is None:
        return None
    return {key: {"cores": cores, "instances": allocation.instances[key]} for key, cores in allocation.cores.items()}
