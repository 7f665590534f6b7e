"""Whom `advisor learn` teaches: a state at rest, or a service. Rows are numbered by their producers, so none counts twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from advisor.cli.source import connected, restored, whom
from advisor.client import AsyncClient, SyncClient
from advisor.client.requests import read_map
from advisor.protocol.verbs import NO_INCARNATION, Hello, ObserveRows

if TYPE_CHECKING:
    from advisor.engine import Engine
    from advisor.files.run_files import Row
    from advisor.storage import Store

TOGETHER = 512  # rows on their way to a service at a time: half of what a connection may have unanswered
COMMIT_ROWS = 20_000  # between commits to a state file: what a kill costs is read again within a second or two


class Pupil(Protocol):
    """Who is taught."""

    def known(self, producer: str) -> int:
        """Return the number of the last row of a producer that is durable."""
        ...

    def teach(self, rows: Sequence[Row]) -> Mapping[str, int]:
        """Teach rows in order; return how many were refused, by code."""
        ...

    def define(self, network: str, text: str) -> None:
        """Keep a network by id."""
        ...

    def commit(self) -> None:
        """Let what was taught be seen by others."""
        ...


@contextmanager
def taught(options: Mapping[str, Any]) -> Generator[Pupil]:
    """Yield whom --state, --socket or --tcp names."""
    key, value = whom(options, "state")
    if key == "state":
        with stored_pupil(Path(value)) as pupil:
            yield pupil
    else:
        with connected(options, value) as client:
            yield ServicePupil(client)


@contextmanager
def stored_pupil(path: Path) -> Generator[StatePupil]:
    """Yield a state file that is made where there is none; what was taught is committed at the end, whatever ends it."""
    from advisor.engine import Engine
    from advisor.storage import Store

    with Store.open(path) as store:
        pupil = StatePupil(restored(store) or Engine(), store)
        try:
            yield pupil
        finally:
            pupil.commit()


class StatePupil:
    """A state file."""

    def __init__(self, engine: Engine, store: Store) -> None:
        self._engine, self._store = engine, store
        self._rows = 0

    def known(self, producer: str) -> int:
        """Return as `Pupil`."""
        return self._engine.applied(producer, NO_INCARNATION)

    def define(self, network: str, text: str) -> None:
        """Keep as `Pupil`."""
        from advisor.engine.events import NetworkDefined

        self._engine.apply(None, None, NetworkDefined(text, network))

    def teach(self, rows: Sequence[Row]) -> Mapping[str, int]:
        """Teach as `Pupil`."""
        from advisor.protocol.rows import NameBook, columns_of_rows

        # All rows at once, then their numbers: nothing is durable between. One by one they cost many times as much.
        for row in {row.producer: row for row in reversed(rows)}.values():
            self._engine.state.ledger.replays((row.producer, NO_INCARNATION), row.sequence)
        answer = self._engine.apply(None, None, columns_of_rows([row.plain() for row in rows], NameBook()))
        for producer, number in {row.producer: row.sequence for row in rows}.items():
            self._engine.advance((producer, NO_INCARNATION), number)
        self._rows += len(rows)
        if self._rows >= COMMIT_ROWS:
            self.commit()
        return answer["refused"]["by_code"]

    def commit(self) -> None:
        """Make it durable."""
        self._engine.flush()
        snapshot = self._engine.commits.snapshot()
        self._store.commit(snapshot)
        self._rows = 0


class ServicePupil:
    """A running service."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client

    def known(self, producer: str) -> int:
        """Return as `Pupil`."""
        answer = self._client.run(lambda client: client.ask(Hello(producer=producer), read_map))
        return int(answer["sequence"])

    def define(self, network: str, text: str) -> None:
        """Keep as `Pupil`."""
        self._client.define_network(text, id=network)

    def commit(self) -> None:
        """Commit as `Pupil`: a service has done it."""

    def teach(self, rows: Sequence[Row]) -> Mapping[str, int]:
        """Teach as `Pupil`: as many at a time as a connection may have unanswered, in order."""
        refused = Counter[str]()
        for start in range(0, len(rows), TOGETHER):
            part = rows[start : start + TOGETHER]
            batches = [ObserveRows([row.plain()], producer=row.producer, sequence=row.sequence) for row in part]

            async def all_of(client: AsyncClient, batches: list[ObserveRows] = batches) -> list[dict[str, Any]]:
                return await asyncio.gather(*(client.ask(batch, read_map) for batch in batches))

            for answer in self._client.run(all_of):
                refused.update(answer["refused"]["by_code"])
        return refused
