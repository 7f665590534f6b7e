"""The last answers about networks, for the live page. Nothing else refers to them: an answer carries its own reasons."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from advisor.service.explaining import sentences
from advisor.service.worker import Spec

ANSWERS_MAX = 24  # on the page: what fits on a screen or two; all topics together stay below 150 KB
CHOICES_MAX = 24  # components whose newest choice of cores is shown
SENTENCES_REPORTED = 24  # of one answer
SENTENCE_LETTERS = 240
COMPONENTS_MAX = 1000  # of an answer that is shown: a hundred larger ones would take a hundred MiB


@dataclass(frozen=True)
class RecentAnswer:
    """One answer: `network` as it was asked about, None for several networks."""

    id: str
    at: float  # seconds since the epoch
    network: Spec | None
    request: Mapping[str, Any]
    allocation: Mapping[str, Any]

    @cached_property
    def why(self) -> list[str]:
        """Why it is as it is, in sentences."""
        return [each[:SENTENCE_LETTERS] for each in islice(sentences(self.allocation), SENTENCES_REPORTED)]


class RecentAnswers:
    """The last answers of one run of the service."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._given = 0
        self._answers = deque[RecentAnswer](maxlen=ANSWERS_MAX)
        self._choices: dict[str, tuple[float, Any, Mapping[str, Any]]] = {}  # by component, the newest last

    def append(self, network: Spec | None, request: Mapping[str, Any], allocation: Mapping[str, Any]) -> None:
        """Store an answer; the oldest goes. One about very many components is not stored."""
        parts = allocation.get("networks", (allocation,))
        if sum(len(part["instances"]) for part in parts) <= COMPONENTS_MAX:
            self._given += 1
            self._answers.append(RecentAnswer(str(self._given), self._clock(), network, request, allocation))

    def chose(self, component: str, predictor: Any, choice: Mapping[str, Any]) -> None:
        """Store the newest choice of cores for a component; the one asked for longest ago goes."""
        self._choices.pop(component, None)
        self._choices[component] = self._clock(), predictor, choice
        if len(self._choices) > CHOICES_MAX:
            del self._choices[next(iter(self._choices))]

    def choices(self) -> list[dict[str, Any]]:
        """Return the choices of cores, the newest first."""
        newest = reversed(self._choices.items())
        return [{"component": name, "at": at, "asked": x, **choice} for name, (at, x, choice) in newest]

    def newest(self) -> Iterator[RecentAnswer]:
        """Yield the answers, the newest first."""
        return reversed(self._answers)
