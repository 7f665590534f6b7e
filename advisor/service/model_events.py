"""What happened to components' models, into the log: each event with its reason, and no more of them than one can read."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from advisor.engine.components import ModelEvent
from advisor.engine.rows import SEPARATOR
from advisor.service.logs import event

EVENTS_A_SECOND = 10  # a burst that a person can still read
EVENTS_A_MINUTE = 60  # a machine whose 100,000 components all change is one event, not 100,000 lines
SECOND_S, MINUTE_S = 1.0, 60.0
NAMES = {
    "change": "model changed",
    "pin": "model pinned",
    "set_allowed": "allowed cores set",
    "forget": "component forgotten",
    "forget_program": "program forgotten",
    "forget_profile": "profile forgotten",
}
OF_WHAT = {"forget_program": "program", "forget_profile": "producer"}  # the others are of components


class ModelEvents:
    """Drains the engine's events into the log, and counts those that are too many for it.

    `events`: deque of Event, the engine's; bounded, so that of a burst between two drains only the latest are seen. Its
    counters miss none.
    """

    def __init__(self, events: deque[ModelEvent], clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._untold: Counter[str] = Counter()
        self._second, self._minute = Window(EVENTS_A_SECOND, SECOND_S), Window(EVENTS_A_MINUTE, MINUTE_S)

    def drain(self) -> None:
        """Log what happened since the last drain. Cost O(events), and next to nothing where there are none."""
        if not self._events:
            return
        now = self._clock()
        while self._events:
            happened = self._events.popleft()
            if not (self._second.room(now) and self._minute.room(now)):
                self._untold[happened.kind] += 1
                continue
            self._second.spend_one()
            self._minute.spend_one()
            self._tell_untold()
            component, _, measure = happened.component.partition(SEPARATOR)
            named: dict[str, Any] = {OF_WHAT.get(happened.kind, "component"): component}
            named |= {"measure": measure} if measure else {}
            event(
                logging.INFO, NAMES.get(happened.kind, happened.kind), **named, rows=happened.rows, reason=happened.reason,
            )  # fmt: skip

    def sweep(self) -> None:
        """Drain, and tell what was too much once there is room for it: called every few seconds."""
        self.drain()
        now = self._clock()
        if self._untold and self._second.room(now) and self._minute.room(now):
            self._tell_untold()

    def close(self) -> None:
        """Drain, and tell what was too much, room or not."""
        self.drain()
        self._tell_untold()

    def _tell_untold(self) -> None:
        if self._untold:
            by_kind: dict[str, Any] = dict(self._untold)
            event(logging.INFO, "more model events", events=self._untold.total(), **by_kind)
            self._untold.clear()


class Window:
    """So many in each span of time, counted from the first."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._began = -float("inf")
        self._taken = 0

    def room(self, now: float) -> bool:
        """Return whether one more may be taken now."""
        if now - self._began >= self._seconds:
            self._began, self._taken = now, 0
        return self._taken < self._most

    def spend_one(self) -> None:
        """Take one."""
        self._taken += 1
