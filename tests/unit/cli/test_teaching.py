"""Whom `advisor learn` teaches, either side killed at any message: each row counts once after the last of any tries."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cli import learning, teaching
from advisor.cli.teaching import ServiceSink
from advisor.errors import SequenceGap
from advisor.files.run_files import Row
from advisor.protocol.verbs import Hello, ObserveRows

PRODUCERS = ("snet:a", "snet:b")


class Killed(Exception):
    """The learner is no more."""


class Service:
    """What the protocol promises, and no more: numbers are taken in order; what is told, or answered, is durable."""

    def __init__(self) -> None:
        self.applied: dict[tuple[str, bytes], int] = {}
        self.taught: list[float] = []
        self.messages: list[int] = []  # rows of each
        self._durable = dict(self.applied), list(self.taught)

    def commit(self) -> None:
        self._durable = dict(self.applied), list(self.taught)

    def killed(self) -> None:
        self.applied, self.taught = dict(self._durable[0]), list(self._durable[1])

    def take(self, question: Hello | ObserveRows) -> dict[str, Any]:
        key = (str(question.producer), question.incarnation)
        if isinstance(question, Hello):
            return {"sequence": self._durable[0].get(key, 0)}
        self.messages.append(len(question.rows))
        number, before = question.sequence or 0, self.applied.get(key, 0)
        if question.producer is None:
            assert not question.rows
        elif number == before + 1:
            self.applied[key] = number
            self.taught += [row[1] for row in question.rows]
        elif number > before:
            raise SequenceGap(number, before + 1)
        return {"refused": {"by_code": {}}}


class Client:
    """A client of it whose learner is killed when it has sent so many messages."""

    def __init__(self, service: Service, messages: float) -> None:
        self._service, self._left = service, messages

    async def ask(self, question: Hello | ObserveRows, read: object) -> dict[str, Any]:
        if self._left <= 0:
            raise Killed
        self._left -= 1
        return self._service.take(question)

    def run(self, work: Callable[[Client], Awaitable[Any]]) -> Any:
        answers = asyncio.run(work(self))  # type: ignore[arg-type]
        self._service.commit()  # else they had not come
        return answers


def rows_of(sizes: tuple[int, int]) -> Iterator[list[Row]]:
    """Yield the rows of two files that have grown so far, in pieces as they are read."""
    rows = [
        Row(producer, number, "box", float(2 * number + place), 1.0, 1.0, {})
        for place, (producer, size) in enumerate(zip(PRODUCERS, sizes, strict=True))
        for number in range(1, size + 1)
    ]
    rows.sort(key=lambda row: row.sequence)
    for start in range(0, len(rows), 20):
        yield rows[start : start + 20]


def learn(client: Any, sizes: tuple[int, int]) -> None:
    sink = ServiceSink(client)
    for rows in rows_of(sizes):
        sink.teach(learning._new(rows, sink, Counter()))
    sink.rest()


TRIES = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 9), st.integers(0, 30)),  # rows by which the files have grown by then
        st.integers(0, 25),  # messages until the learner is killed
        st.sampled_from(["learner", "learner, and all was committed", "both"]),
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(TRIES)
def test_each_row_counts_once_whoever_is_killed_and_when(tries: list[tuple[tuple[int, int], int, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teaching, "BLOCK_ROWS", 4)
        service, grown = Service(), (0, 0)
        for sizes, messages, killed in tries:
            grown = grown[0] + sizes[0], grown[1] + sizes[1]
            try:
                learn(Client(service, messages), grown)
            except Killed:
                if killed == "both":
                    service.killed()
                elif "committed" in killed:
                    service.commit()
        learn(Client(service, float("inf")), grown)
        assert sorted(service.taught) == sorted(row.predictor for rows in rows_of(grown) for row in rows)
        again = len(service.taught)
        learn(Client(service, float("inf")), grown)
        assert len(service.taught) == again


def test_rows_go_in_blocks_as_long_as_there_are_so_many() -> None:
    service = Service()
    learn(Client(service, float("inf")), (3000, 700))
    rows = Counter(service.messages)
    assert rows[teaching.BLOCK_ROWS] == 3000 // 512 + 700 // 512
    assert rows[1] == 3000 % 512 + 700 % 512
    assert set(rows) == {0, 1, 512}  # 0: asks for what is durable
