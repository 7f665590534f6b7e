"""Pushes: what connections have subscribed to, each at its own pace and never faster than its peer reads.

A subscription is a function that says what there is to tell now. It is asked when something was learned (`stir`), at most every
`every_s` seconds, and only while the peer has read what it was sent before: a slow one gets fewer, newer pushes and no queue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from math import inf
from typing import Protocol

import anyio

from advisor.errors import Unavailable
from advisor.service.logs import event

SUBSCRIPTIONS_CONNECTION_MAX = 16  # each may cost work at every change


class Subscriber(Protocol):
    """A subscriber: a connection."""

    ended: bool

    @property
    def reads(self) -> bool:
        """True while the peer has room for more."""
        ...

    def push(self, data: bytes) -> None:
        """Send what nobody asked for by a request."""
        ...


News = Callable[[], Awaitable[bytes | None]]  # a whole message to send, or None


@dataclass(slots=True, eq=False)
class Subscription:
    """One subscription of one connection."""

    subscriber: Subscriber
    news: News
    every_s: float
    due: float = -inf


class Subscriptions:
    """All subscriptions of a service. One event loop, no locks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[Subscriber, dict[Hashable, Subscription]] = {}
        self._stirred: anyio.Event | None = None  # made by `run`: an event needs its loop

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(map(len, self._held.values()))

    def add(self, subscriber: Subscriber, key: Hashable, news: News, every_s: float) -> None:
        """Tell a connection of something from now on; a subscription of the same key is replaced.

        Raises Unavailable when the connection has too many, or has ended: what it asked for may come to its turn later.
        """
        if subscriber.ended:
            raise Unavailable("the connection has ended", field="watch")
        own = self._held.setdefault(subscriber, {})
        if key not in own and len(own) >= SUBSCRIPTIONS_CONNECTION_MAX:
            raise Unavailable(
                "too many subscriptions of one connection", field="watch", bound=SUBSCRIPTIONS_CONNECTION_MAX
            )
        own[key] = Subscription(subscriber, news, every_s, self._clock() + every_s)
        self.stir()

    def remove(self, subscriber: Subscriber, key: Hashable) -> bool:
        """End a subscription; False where there was none."""
        own = self._held.get(subscriber, {})
        found = own.pop(key, None) is not None
        if not own:
            self._held.pop(subscriber, None)
        return found

    def leave(self, subscriber: Subscriber) -> None:
        """Forget a connection that is gone."""
        self._held.pop(subscriber, None)

    def stir(self) -> None:
        """Something was learned: ask the subscriptions, soon. Cost O(1)."""
        if self._held and self._stirred is not None:
            self._stirred.set()

    async def run(self) -> None:
        """Push, until cancelled."""
        wait_s = inf
        while True:
            self._stirred = anyio.Event()
            with anyio.move_on_after(wait_s):
                await self._stirred.wait()
            wait_s = await self.push_due()

    async def push_due(self) -> float:
        """Push what is due; return the seconds until a subscription that was not due yet should be asked."""
        later = inf
        for subscription in [each for own in self._held.values() for each in own.values()]:
            now = self._clock()
            if subscription.due > now or not subscription.subscriber.reads:
                later = min(later, max(subscription.due - now, subscription.every_s / 2))
                continue
            subscription.due = now + subscription.every_s
            try:
                data = await subscription.news()
            except Exception as error:  # a defect of ours must not cost the others their pushes
                event(logging.ERROR, "defect in a subscription", error=error)
                self._drop(subscription)
                continue
            if data is not None and self._holds(subscription):
                subscription.subscriber.push(data)
        return later

    def _holds(self, subscription: Subscription) -> bool:
        return any(each is subscription for each in self._held.get(subscription.subscriber, {}).values())

    def _drop(self, subscription: Subscription) -> None:
        for key, each in list(self._held.get(subscription.subscriber, {}).items()):
            if each is subscription:
                self.remove(subscription.subscriber, key)
