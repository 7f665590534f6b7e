"""The state of a service in its own process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.errors import Unsupported
from advisor.protocol import verbs as m
from advisor.service import questions
from advisor.service.backend import Gather, StateSize
from advisor.service.background import Handler
from advisor.service.committer import Committer
from advisor.service.connection import Connection
from advisor.service.hub import Hub
from advisor.service.learning import Learning
from advisor.storage import Store


class LocalBackend:
    """The state in this process."""

    def __init__(self, store: Store | None, hub: Hub) -> None:
        self._hub, self._engine = hub, hub.engine
        self.committer = committer = Committer(hub.engine, store, hub.measures)
        self.learning = Learning(
            hub.engine, committer, hub.producers, hub.heavy, hub.measures, hub.background, hub.watching.notify
        )  # fmt: skip
        self.verbs: Mapping[str, Handler] = {"status": self._status, "shards": _refuse_shards}

    def fetch_needed(self, method: str, params: Any) -> Gather | None:
        """Return what must be done before a question is answered; None: nothing, all is here."""

    def held(self) -> StateSize:
        """Return what is known, and how much memory it takes."""
        advisor, components = self._engine.advisor, self._engine.advisor.components
        learners = components.learners
        return StateSize(
            len(components.slots.components), components.slots.components_max, components.bytes,
            learners.used_bytes, learners.memory_bytes, advisor.ledger(),
        )  # fmt: skip

    def health(self) -> dict[str, Any]:
        """Return what `status` adds about the backend."""
        return {}

    def _status(self, _: Connection, params: m.StatusAsked, __: int | None) -> Any:
        hub, advisor = self._hub, self._engine.advisor
        if params.components is False or params.limit <= questions.STATUS_SLICE:
            return questions.status(advisor, params) | {"service": hub.health()}

        async def status() -> dict[str, Any]:
            return await questions.status_in_slices(advisor, params) | {"service": hub.health()}

        return status


def _refuse_shards(_: Connection, __: m.Shards, ___: int | None) -> dict[str, Any]:
    raise Unsupported(
        "this service is one process", field="method", value="shards", hint="advisor serve --engine ray has shards"
    )
