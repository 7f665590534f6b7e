"""Answers that are kept for a while, with the slice of state that they were worked out from: to be explained, and replayed."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from advisor.errors import InvalidValue
from advisor.service.worker import Curves, Spec, Wanted

ANSWERS_MAX = 512  # kept at a time: a scheduler that asks once a second can look back for eight minutes
ANSWERS_BYTES_MAX = 32 * 2**20  # of all of them: 80 answers about 1000 components, or one about 100,000
KEY_BYTES = (
    200  # of one component in a kept answer, beside its curve: its name, its cores and its instances as Python objects
)


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """One answer."""

    id: str
    at: float  # when it was given, seconds since the epoch
    network: Spec  # as it was asked about
    request: Mapping[str, Any]  # what was asked, as the planner takes it
    curves: Curves  # what was known of the components, one curve a key: flat arrays, and all that a replay needs
    allocation: Mapping[str, Any]  # the answer

    @property
    def bytes(self) -> int:
        """About what it takes."""
        arrays = sum(getattr(getattr(self.curves, each.name), "nbytes", 0) for each in fields(self.curves))
        text = len(self.network) if isinstance(self.network, str) else KEY_BYTES * len(self.network)
        return arrays + text + KEY_BYTES * len(self.curves)


@dataclass(frozen=True, slots=True)
class KeptTogether:
    """One answer about several networks; `networks` as they were handed to the planner, all else as of `KeptAnswer`."""

    id: str
    at: float
    networks: Sequence[Wanted]
    cores: int
    objective: str
    allocation: Mapping[str, Any]

    @property
    def bytes(self) -> int:
        """About what it takes."""
        return sum(KeptAnswer("", 0.0, one.network, one.request, one.curves, {}).bytes for one in self.networks)


class Answers:
    """The answers of one run of the service, the oldest dropped first. Their ids are of this run alone."""

    def __init__(
        self, answers_max: int = ANSWERS_MAX, bytes_max: int = ANSWERS_BYTES_MAX, clock: Callable[[], float] = time.time
    ) -> None:
        self._answers_max = answers_max
        self._bytes_max = bytes_max
        self._clock = clock
        self._run = secrets.token_hex(2)  # so that an id of before a restart names no answer of after it
        self._given = 0
        self._kept: OrderedDict[str, KeptAnswer | KeptTogether] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(
        self,
        network: Spec,
        request: Mapping[str, Any],
        curves: Curves,
        allocation: Mapping[str, Any],
    ) -> str:
        """Keep an answer and return its id. One that exceeds the bound alone has an id, and is not kept."""
        return self._add(KeptAnswer(self._number(), self._clock(), network, request, curves, allocation))

    def keep_together(
        self, networks: Sequence[Wanted], cores: int, objective: str, allocation: Mapping[str, Any]
    ) -> str:
        """Keep an answer about several networks; as `keep`."""
        return self._add(KeptTogether(self._number(), self._clock(), networks, cores, objective, allocation))

    def _number(self) -> str:
        self._given += 1
        return f"{self._run}-{self._given}"

    def _add(self, kept: KeptAnswer | KeptTogether) -> str:
        self._kept[kept.id] = kept
        self.bytes += kept.bytes
        while len(self._kept) > self._answers_max or self.bytes > self._bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.bytes
        return kept.id

    def newest(self) -> Iterator[KeptAnswer | KeptTogether]:
        """Yield the kept answers, the newest first."""
        return reversed(self._kept.values())

    def find(self, number: str) -> KeptAnswer | KeptTogether:
        """Return a kept answer; raises InvalidValue."""
        found = self._kept.get(number)
        if found is None:
            raise InvalidValue(
                "id",
                number,
                f"of one of the {len(self._kept)} answers kept",
                "the oldest go first; ids end with the service",
            )
        return found
