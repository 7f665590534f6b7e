"""The last answers about networks, for the live page. Nothing else refers to them: an answer carries its own reasons."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.errors import InvalidValue
from advisor.service.worker import Spec

ANSWERS_MAX = 100  # on the page: a reader looks at the newest
COMPONENTS_MAX = 1000  # of an answer that is shown: a hundred larger ones would take a hundred MiB


@dataclass(frozen=True, slots=True)
class RecentAnswer:
    """One answer: `network` as it was asked about, None for several networks."""

    id: str
    at: float  # seconds since the epoch
    network: Spec | None
    request: Mapping[str, Any]
    allocation: Mapping[str, Any]


class RecentAnswers:
    """The last answers of one run of the service."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._given = 0
        self._answers = deque[RecentAnswer](maxlen=ANSWERS_MAX)

    def __len__(self) -> int:
        return len(self._answers)

    def append(self, network: Spec | None, request: Mapping[str, Any], allocation: Mapping[str, Any]) -> None:
        """Store an answer; the oldest goes. One about very many components is not stored."""
        parts = allocation.get("networks", (allocation,))
        if sum(len(part["instances"]) for part in parts) <= COMPONENTS_MAX:
            self._given += 1
            self._answers.append(RecentAnswer(str(self._given), self._clock(), network, request, allocation))

    def newest(self) -> Iterator[RecentAnswer]:
        """Yield the answers, the newest first."""
        return reversed(self._answers)

    def find(self, number: str) -> RecentAnswer:
        """Return an answer by its number on the page. Raises InvalidValue."""
        for answer in self._answers:
            if answer.id == number:
                return answer
        raise InvalidValue("id", number, f"one of the last {len(self)} answers", "reload the page")
