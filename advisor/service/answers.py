"""The last answers about networks, for the live page. Nothing else refers to them: an answer carries its own reasons."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from advisor.service.explaining import sentences

ANSWERS_MAX = 24  # on the page: what fits on a screen or two; all topics together stay below 150 KB
CHOICES_MAX = 24  # components whose newest choice of cores is shown
NAMES_REPORTED = 4  # of bottlenecks of one answer
SENTENCES_REPORTED = 24  # of one answer
SENTENCE_LETTERS = 240
COMPONENTS_MAX = 1000  # of an answer that is shown: a hundred larger ones would take a hundred MiB


@dataclass(frozen=True)
class RecentAnswer:
    """One answer about a network."""

    id: str
    at: float  # seconds since the epoch
    request: Mapping[str, Any]
    allocation: Mapping[str, Any]

    @cached_property
    def shown(self) -> dict[str, Any]:
        """What the page shows of it."""
        answer = self.allocation
        return {
            "id": self.id, "at": self.at, "boxes": len(answer["instances"]),
            "objective": self.request.get("objective", "throughput"), "cores": self.request.get("cores"),
            "throughput_per_s": answer["throughput_per_s"], "latency_s": answer["latency_s"],
            "bottleneck": list(answer["bottleneck"])[:NAMES_REPORTED],
            "why": [each[:SENTENCE_LETTERS] for each in islice(sentences(answer), SENTENCES_REPORTED)],
        }  # fmt: skip


class RecentAnswers:
    """The last answers of one run of the service."""

    def __init__(self) -> None:
        self._given = 0
        self._answers = deque[RecentAnswer](maxlen=ANSWERS_MAX)
        self._choices: dict[str, tuple[float, Any, Mapping[str, Any]]] = {}  # by component, the newest last

    def append(self, request: Mapping[str, Any], allocation: Mapping[str, Any]) -> None:
        """Store an answer; the oldest goes. One about very many components is not stored."""
        if len(allocation["instances"]) <= COMPONENTS_MAX:
            self._given += 1
            self._answers.append(RecentAnswer(str(self._given), time.time(), request, allocation))

    def chose(self, component: str, predictor: Any, choice: Mapping[str, Any]) -> None:
        """Store the newest choice of cores for a component; the one asked for longest ago goes."""
        self._choices.pop(component, None)
        self._choices[component] = time.time(), predictor, choice
        if len(self._choices) > CHOICES_MAX:
            del self._choices[next(iter(self._choices))]

    def choices(self) -> list[dict[str, Any]]:
        """Return the choices of cores, the newest first."""
        newest = reversed(self._choices.items())
        return [{"component": name, "at": at, "asked": x, **choice} for name, (at, x, choice) in newest]

    def newest(self) -> list[dict[str, Any]]:
        """Return the answers as the page shows them, the newest first."""
        return [each.shown for each in reversed(self._answers)]
