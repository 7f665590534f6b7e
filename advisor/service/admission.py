"""Which changes a service takes in: numbered ones once, from the connection that speaks for their producer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from advisor.engine import Engine
from advisor.errors import Unavailable, from_dict
from advisor.service.background import Background
from advisor.service.committer import Durability
from advisor.service.connection import Connection
from advisor.service.measures import ServiceMeasures
from advisor.service.producers import Producers

Key = tuple[str, bytes]  # a producer: name, incarnation


@dataclass(eq=False)
class ChangeAdmission:
    """Looks at each change before it is applied."""

    engine: Engine  # whose ledger has the numbers applied
    committer: Durability
    producers: Producers
    measures: ServiceMeasures
    background: Background
    evicted: Callable[[list[Key]], object]  # called with producers that were forgotten

    def replays(self, connection: Connection, key: Key, sequence: int) -> bool:
        """Return whether a numbered request was applied before; refuse it where it cannot be taken."""
        self._room_for(key)
        try:
            self.producers.speak(key, connection)
        except Unavailable:
            self.measures.superseded += 1
            raise
        if sequence > self.committer.sequence(key):
            self.refuse_while_storage_fails()
        return sequence <= self.engine.applied(*key)

    def _room_for(self, key: Key) -> None:
        """Have a new producer remembered: at the limit the one that has been silent for longest gives way."""
        engine = self.engine
        if key in engine.producers or len(engine.producers) < engine.state.ledger.producers_max:
            return
        silent = self.producers.longest_silent()
        if silent is None:
            raise Unavailable(
                "the service remembers as many producers as it may", field="producers", value=len(engine.producers),
                bound=engine.state.ledger.producers_max, hint="close clients when they are done; or raise producers_max",
            )  # fmt: skip
        self.forget_producers([silent])

    def forget_producers(self, keys: list[Key]) -> None:
        """Forget the numbers of producers that are gone."""
        self.engine.state.ledger.evict(keys)
        self.measures.evicted += len(keys)
        self.evicted(keys)

    def refuse_while_storage_fails(self) -> None:
        """Raise what the storage failed with, or that the service is stopping."""
        if self.committer.failure is not None:
            raise from_dict(self.committer.failure.as_dict())  # its own: each raising lengthens a traceback
        if self.background.stopping:
            raise Unavailable("the service is stopping", hint="connect again, and send it again")
