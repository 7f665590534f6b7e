"""Whom `advisor learn` teaches: a state at rest, or a service. Rows are numbered by their producers, so none counts twice.

They come `BLOCK_ROWS` rows a batch as long as there are so many, and what is left one by one: a run that grows may stop
anywhere. Blocks are numbered apart from single rows, and each is applied before what follows it: so many rows of a producer
are known as its two numbers tell, whenever either side was killed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.cli.source import connected, restored, whom
from advisor.client import AsyncClient, SyncClient
from advisor.protocol.verbs import NO_INCARNATION, DefineNetwork, Hello, ObserveRows, SetAllowed

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


Answers = list[dict[str, Any]]


@contextmanager
def taught(options: Mapping[str, Any]) -> Generator[Sink]:
    """Yield a sink of whom --state, --socket or --tcp names."""
    key, value = whom(options, "state")
    if key == "state":
        with _stored(Path(value)) as sink:
            yield sink
    else:
        with connected(options, value) as client:
            yield Sink(client, partial(_asked, client))


@contextmanager
def _stored(path: Path) -> Generator[Sink]:
    """Yield a state file that is made where there is none; what was taught is committed at the end, whatever ends it."""
    from advisor.engine import Engine
    from advisor.storage import Store

    with Store.open(path) as store:
        state = _State(restored(store.load()) or Engine(), store)
        try:
            yield Sink(state.engine.advisor, state.apply)
        finally:
            state.commit()


class Sink:
    """What is taught: `advisor` answers with it, `ask` sends questions in order and returns their answers."""

    def __init__(self, advisor: Advisor | SyncClient, ask: Callable[[Sequence[Question]], Answers]) -> None:
        self.advisor, self.ask = advisor, ask
        self._numbers: dict[tuple[str, bytes], int] = {}  # of each producer's single rows and blocks
        self._waiting: dict[str, list[Row]] = {}  # by producer: fewer than a block

    def known_rows(self, producers: Iterable[str]) -> dict[str, int]:
        """Return the number of the last row of each producer that is known.

        A service knows what is durable; what a killed client had sent may be applied, and not durable yet. So `hello` comes
        first, which ends what is still on its way; an empty batch is answered when all before it is durable; then it is asked.
        """
        hellos = {(name, kind): Hello(producer=name, incarnation=kind) for name in producers for kind in KINDS}
        self.ask([*hellos.values(), ObserveRows([])])
        answers = self.ask([*hellos.values()])
        self._numbers |= {key: int(answer["sequence"]) for key, answer in zip(hellos, answers, strict=True)}
        return {
            name: self._numbers[name, NO_INCARNATION] + BLOCK_ROWS * self._numbers[name, BLOCKS] for name in producers
        }

    def teach(self, rows: Sequence[Row]) -> Mapping[str, int]:
        """Teach rows that follow what is `known`, whole blocks of each producer; return how many were refused, by code."""
        for row in rows:
            self._waiting.setdefault(row.producer, []).append(row)
        blocks: list[ObserveRows] = []
        for part in self._waiting.values():
            whole = len(part) // BLOCK_ROWS * BLOCK_ROWS
            blocks += [self._batch(part[at : at + BLOCK_ROWS], BLOCKS) for at in range(0, whole, BLOCK_ROWS)]
            del part[:whole]
        return self._refused(blocks)

    def rest(self) -> Mapping[str, int]:
        """Teach what waits, one by one, as many at a time as a connection may have unanswered; return as `teach`."""
        singles = [self._batch([row], NO_INCARNATION) for part in self._waiting.values() for row in part]
        self._waiting.clear()
        refused = Counter[str]()
        for start in range(0, len(singles), TOGETHER):
            refused.update(self._refused(singles[start : start + TOGETHER]))
        return refused

    def _refused(self, batches: Sequence[ObserveRows]) -> Counter[str]:
        refused = Counter[str]()
        for answer in self.ask(batches):
            refused.update(answer["refused"]["by_code"])
        return refused

    def _batch(self, rows: Sequence[Row], kind: bytes) -> ObserveRows:
        key = rows[0].producer, kind
        self._numbers[key] += 1
        return ObserveRows(
            [row.plain() for row in rows], producer=key[0], incarnation=kind, sequence=self._numbers[key]
        )


def _asked(client: SyncClient, questions: Sequence[Question]) -> Answers:
    """Ask a service, all at once."""

    async def all_of(client: AsyncClient) -> Answers:
        return await asyncio.gather(*(client.ask(question, dict[str, Any]) for question in questions))

    return client.run(all_of)


class _State:
    """A state file, which answers what a service does."""

    def __init__(self, engine: Engine, store: Store) -> None:
        self.engine, self._store, self._rows = engine, store, 0
        engine.journal.keep()

    def apply(self, questions: Sequence[Question]) -> Answers:
        """Apply changes, and return the answers."""
        answers = list(map(self._answer, questions))
        if self._rows >= COMMIT_ROWS:
            self.commit()
        return answers

    def _answer(self, question: Any) -> dict[str, Any]:
        from advisor.engine.events import AllowedSet, NetworkDefined
        from advisor.protocol.rows import NameBook, columns_of_rows

        if isinstance(question, Hello):
            return {"sequence": self.engine.applied(question.producer or "", question.incarnation)}
        if isinstance(question, DefineNetwork):
            return self.engine.apply_event(None, None, NetworkDefined(question.text, question.id))
        if isinstance(question, SetAllowed):
            return self.engine.apply_event(None, None, AllowedSet(question.component, question.allowed))
        self._rows += len(question.rows)
        key = question.producer and (question.producer, question.incarnation)
        return self.engine.apply_event(key, question.sequence, columns_of_rows(question.rows, NameBook()))

    def commit(self) -> None:
        """Make it durable."""
        if (entry := self.engine.take_entry()) is None or self._store.image_due:
            self._store.save(self.engine.take_image())
        else:
            self._store.append(entry.encode())
        self._rows = 0
