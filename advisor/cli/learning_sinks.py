"""Whom `advisor learn` teaches: a state at rest, or a service. Rows are numbered by their producers, so none counts twice.

A service gets `BLOCK_ROWS` rows a message as long as there are so many, and what is left one by one: a run that grows may
stop anywhere. Blocks are numbered apart from single rows, and each is durable before what follows it is sent: so many rows
of a producer are known as its two numbers tell, whenever either side was killed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.cli.source import connected, restored, whom
from advisor.client import AsyncClient, SyncClient
from advisor.protocol.verbs import NO_INCARNATION, Hello, ObserveRows

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.engine import Engine
    from advisor.files.run_files import Row
    from advisor.protocol.declaring import Question
    from advisor.storage import Store

TOGETHER = 512  # single rows on their way to a service at a time: half of what a connection may have unanswered
BLOCK_ROWS = 512  # rows of a block: what states know of files taught before rests on it, so it never changes
BLOCKS = b"blocks of 512   "  # the incarnation under which a producer's blocks are numbered
KINDS = (NO_INCARNATION, BLOCKS)
COMMIT_ROWS = 20_000  # between commits to a state file: what a kill costs is read again within a second or two


@contextmanager
def taught(options: Mapping[str, Any]) -> Generator[Sink]:
    """Yield whom --state, --socket or --tcp names: both sinks have the same verbs."""
    key, value = whom(options, "state")
    if key == "state":
        with stored_sink(Path(value)) as sink:
            yield sink
    else:
        with connected(options, value) as client:
            yield ServiceSink(client)


@contextmanager
def stored_sink(path: Path) -> Generator[StateSink]:
    """Yield a state file that is made where there is none; what was taught is committed at the end, whatever ends it."""
    from advisor.engine import Engine
    from advisor.storage import Store

    with Store.open(path) as store:
        sink = StateSink(restored(store.load()) or Engine(), store)
        try:
            yield sink
        finally:
            sink.commit()


class StateSink:
    """A state file."""

    def __init__(self, engine: Engine, store: Store) -> None:
        self._engine, self._store = engine, store
        engine.journal.keep()
        self._rows = 0

    @property
    def advisor(self) -> Advisor:
        """What answers with what was taught."""
        return self._engine.advisor

    def known_rows(self, producers: Iterable[str]) -> dict[str, int]:
        """Return the number of the last row of each producer that is known."""
        return {each: self._engine.applied(each, NO_INCARNATION) + self._in_blocks(each) for each in producers}

    def _in_blocks(self, producer: str) -> int:
        return BLOCK_ROWS * self._engine.applied(producer, BLOCKS)

    def define(self, network: str, text: str) -> None:
        """Keep a network by id."""
        from advisor.engine.events import NetworkDefined

        self._engine.apply_event(None, None, NetworkDefined(text, network))

    def allow(self, component: str, counts: Sequence[int]) -> None:
        """Set the core counts that a component allows."""
        from advisor.engine.events import AllowedSet

        self._engine.apply_event(None, None, AllowedSet(component, counts))

    def teach(self, rows: Sequence[Row]) -> Mapping[str, int]:
        """Teach rows in order, perhaps not all of them yet; return how many were refused, by code."""
        from advisor.protocol.rows import NameBook, columns_of_rows

        # All rows at once, then their numbers: nothing is durable between. One by one they cost many times as much.
        for row in {row.producer: row for row in reversed(rows)}.values():
            number = row.sequence - self._in_blocks(row.producer)
            self._engine.ledger.replays((row.producer, NO_INCARNATION), number)
        answer = self._engine.apply_event(None, None, columns_of_rows([row.plain() for row in rows], NameBook()))
        for producer, number in {row.producer: row.sequence for row in rows}.items():
            self._engine.ledger.set_record((producer, NO_INCARNATION), number - self._in_blocks(producer))
        self._rows += len(rows)
        if self._rows >= COMMIT_ROWS:
            self.commit()
        return answer["refused"]["by_code"]

    def rest(self) -> Mapping[str, int]:
        """Teach what waits for more, here nothing; return as `teach`."""
        return {}

    def commit(self) -> None:
        """Make it durable."""
        if (entry := self._engine.take_entry()) is None or self._store.image_due:
            self._store.save(self._engine.take_image())
        else:
            self._store.append(entry.encode())
        self._rows = 0


class ServiceSink:
    """A running service."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._numbers: dict[tuple[str, bytes], int] = {}  # of each producer's single rows and blocks
        self._waiting: dict[str, list[Row]] = {}  # by producer: fewer than a block

    @property
    def advisor(self) -> SyncClient:
        """What answers with what was taught."""
        return self._client

    def known_rows(self, producers: Iterable[str]) -> dict[str, int]:
        """Return the number of the last row of each producer that is known.

        A service knows what is durable; what a killed client had sent may be applied, and not durable yet. So `hello` comes
        first, which ends what is still on its way; an empty batch is answered when all before it is durable; then it is asked.
        """
        hellos = {(name, kind): Hello(producer=name, incarnation=kind) for name in producers for kind in KINDS}
        self._asked([*hellos.values(), ObserveRows([])])
        answers = self._asked([*hellos.values()])
        self._numbers |= {key: int(answer["sequence"]) for key, answer in zip(hellos, answers, strict=True)}
        return {
            name: self._numbers[name, NO_INCARNATION] + BLOCK_ROWS * self._numbers[name, BLOCKS] for name in producers
        }

    def define(self, network: str, text: str) -> None:
        """Keep a network by id."""
        self._client.define_network(text, id=network)

    def allow(self, component: str, counts: Sequence[int]) -> None:
        """Set the core counts that a component allows; raises Unauthorized without the scope admin."""
        self._client.set_allowed(component, list(counts))

    def teach(self, rows: Sequence[Row]) -> Mapping[str, int]:
        """Teach rows that follow what is `known`: whole blocks of each producer; what is left waits for more."""
        for row in rows:
            self._waiting.setdefault(row.producer, []).append(row)
        blocks: list[ObserveRows] = []
        for part in self._waiting.values():
            whole = len(part) // BLOCK_ROWS * BLOCK_ROWS
            blocks += [self._batch(part[at : at + BLOCK_ROWS], BLOCKS) for at in range(0, whole, BLOCK_ROWS)]
            del part[:whole]
        return self._refused(blocks)

    def rest(self) -> Mapping[str, int]:
        """Teach what waits: one by one, as many at a time as a connection may have unanswered."""
        singles = [self._batch([row], NO_INCARNATION) for part in self._waiting.values() for row in part]
        self._waiting.clear()
        refused = Counter[str]()
        for start in range(0, len(singles), TOGETHER):
            refused.update(self._refused(singles[start : start + TOGETHER]))
        return refused

    def _refused(self, batches: Sequence[ObserveRows]) -> Counter[str]:
        refused = Counter[str]()
        for answer in self._asked(batches):
            refused.update(answer["refused"]["by_code"])
        return refused

    def _batch(self, rows: Sequence[Row], kind: bytes) -> ObserveRows:
        key = rows[0].producer, kind
        self._numbers[key] += 1
        return ObserveRows(
            [row.plain() for row in rows], producer=key[0], incarnation=kind, sequence=self._numbers[key]
        )

    def _asked(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Send all, in order, and return their answers."""

        async def all_of(client: AsyncClient) -> list[dict[str, Any]]:
            return await asyncio.gather(*(client.ask(question, dict[str, Any]) for question in questions))

        return self._client.run(all_of)


Sink = StateSink | ServiceSink
