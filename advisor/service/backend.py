"""Where a service's state is: in this process, or in others. The hub knows a backend, and nothing of where it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from advisor.service.background import Handler
from advisor.service.committer import Durability
from advisor.service.connection import RowLearner
from advisor.service.learning import ChangeAdmission

Gather = Callable[[], Awaitable[object]]  # brings here what a question is about


class StateSize(NamedTuple):
    """What a service knows: components, those there may be, bytes of tables and of learners, and how predictions did."""

    components: int
    components_max: int
    state_bytes: int
    model_bytes: int
    model_bytes_max: int
    ledger: Mapping[str, float]


class Intake(RowLearner, Protocol):
    """What takes rows and events in, see `advisor.service.learning`."""

    @property
    def verbs(self) -> Mapping[str, Handler]: ...
    @property
    def admission(self) -> ChangeAdmission: ...


class Backend(Protocol):
    """What keeps the state of a service, see `advisor.service.local_backend`."""

    @property
    def learning(self) -> Intake: ...
    @property
    def verbs(self) -> Mapping[str, Handler]: ...  # of verbs that depend on where the state is
    @property
    def committer(self) -> Durability: ...
    def fetch_needed(self, method: str, params: Any) -> Gather | None: ...
    def held(self) -> StateSize: ...
    def health(self) -> dict[str, Any]: ...
