"""Rows on their way: collected, packed into batches, numbered, kept until the service has made them durable.

Rows and batches are taken from any thread into `_inbox`; all else is done by the one thread that moves the bytes. There a
batch is packed, and gets its number when it is first sent: it is immutable from then on. It is in one of three places:
`_waiting` (no number yet), `_numbered` (by number, without gaps; those before `_next` were sent on this connection), or gone
(acknowledged). Numbers are made durable in order, so the acknowledgement of one is that of all before it.

Each count has one thread that changes it, or the lock, so that none is lost between threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from advisor.client.outcomes import Stats
from advisor.domain.rows import bound_text
from advisor.errors import AdvisorError, InvalidValue, TooLarge, shorten
from advisor.protocol.encoding import EMPTY, Body, bodies_of_rows

REASONS_REPORTED = 3  # of the first rows that were refused
HISTORY_BATCHES = 4096  # acknowledged batches whose rows are remembered, to tell how many a service lost


Then = Callable[[AdvisorError | None, Any], object]  # takes the answer to a call: its error, or its result


@dataclass(slots=True, eq=False)
class NumberedRequest:
    """A request with a number. `then` takes its answer, where somebody waits for it."""

    body: Body
    then: Then | None = None
    place: int = 0  # of its first row, among all rows and batches ever taken
    sequence: int = 0  # 0: not numbered yet
    sent: bool = False  # at some time, on any connection
    durable: bool = False


class Outbox:
    """The rows that one client object has taken and the service not yet acknowledged.

    Parameters
    ----------
    batch_rows, buffer_rows : int
        Rows a batch; rows held.
    """

    def __init__(self, batch_rows: int, buffer_rows: int) -> None:
        self.stats = Stats()
        self.notify: Callable[[], object] = lambda: None  # called where something may be sent, or begins to wait for it
        self._batch_rows, self._buffer_rows = batch_rows, buffer_rows
        self._lock = threading.RLock()  # a signal's handler may close the client where its thread holds the lock
        self._closed = False
        self._space = buffer_rows  # that there is at least: what was acknowledged since is not counted yet
        self._inbox: deque[Sequence[Any] | NumberedRequest] = deque()
        self._submitted = self._handed = 0  # requests that came into the inbox, and went out of it
        self._out = 0  # rows and requests that went out of it, ever
        self._sealed = 0  # up to here nothing waits for its batch to fill
        self._reported_refused = False
        self._waiting: deque[NumberedRequest] = deque()
        self._numbered: deque[NumberedRequest] = deque()
        self._next = 0
        self._last_sequence = 0
        self._history: deque[tuple[int, int]] = deque([(0, 0)], HISTORY_BATCHES)  # (sequence, rows up to it)

    @property
    def idle(self) -> bool:
        """True when nothing taken is left."""
        return not (self._inbox or self._waiting or self._numbered)

    @property
    def filling(self) -> bool:
        """True when rows wait for their batch to fill, or to be sealed."""
        return len(self._inbox) > 0 and not self._ready

    @property
    def acknowledged(self) -> int:
        """The last number known to be durable."""
        return self._last_sequence - len(self._numbered)

    @property
    def last_sequence(self) -> int:
        """The last number given."""
        return self._last_sequence

    # -- in, from any thread -----------------------------------------------------------------------------------------

    def enqueue(self, item: Sequence[Any] | Body) -> bool:
        """Take a row, or a whole batch; False where there is no space. An empty buffer takes any one batch."""
        body = item if type(item) is Body else None
        rows = 1 if body is None else body.rows
        with self._lock:
            if self._space < rows:
                held = self.stats.rows_held
                self._space = self._buffer_rows - held if held or self._closed else max(self._buffer_rows, rows)
                if self._space < rows:
                    return False
            self._space -= rows
            if body is None:
                self.stats.rows_offered += 1
                self._inbox.append(item)
                waiting = len(self._inbox)
                begins = waiting == 1 or not waiting % self._batch_rows
            else:
                self._submit(NumberedRequest(body))
                begins = True
        if begins:
            self.notify()
        return True

    def close(self) -> None:
        """Take nothing more."""
        with self._lock:
            self._closed, self._buffer_rows, self._space = True, 0, 0

    def submit(self, body: Body, then: Then | None = None) -> NumberedRequest:
        """Take a numbered call, space or not; it keeps its place among the rows."""
        request = NumberedRequest(body, then)
        with self._lock:
            self._submit(request)
        return request

    def _submit(self, request: NumberedRequest) -> None:
        self.stats.rows_offered += request.body.rows
        self._submitted += 1
        self._inbox.append(request)

    def drop_new(self, rows: int) -> None:
        """Count rows that were offered and are not taken."""
        with self._lock:
            self.stats.rows_offered += rows
            self.stats.rows_dropped += rows

    # -- packing -----------------------------------------------------------------------------------------------------

    def seal(self) -> int:
        """Make what was taken so far sendable, and return the place of the last of it, for `sent`."""
        self._sealed = max(self._sealed, self._out + len(self._inbox))
        return self._sealed

    def sent(self, mark: int) -> bool:
        """True when everything up to a place was sent on this connection, or is gone."""
        if self._next < len(self._numbered):
            return self._numbered[self._next].place > mark
        return self._waiting[0].place > mark if self._waiting else self._out >= mark

    @property
    def _ready(self) -> bool:
        """True where what is first in the inbox need not wait for its batch to fill."""
        return (
            self._submitted > self._handed
            or self._out < self._sealed
            or len(self._inbox) >= self._batch_rows
        )  # fmt: skip

    def _pack(self) -> None:
        """Take the next batch out of the inbox."""
        rows: list[Sequence[Any]] = []
        while self._inbox and len(rows) < self._batch_rows:
            item = self._inbox[0]
            if isinstance(item, NumberedRequest):
                break
            rows.append(cast("Sequence[Any]", self._inbox.popleft()))
        place = self._out + 1
        if rows:
            self._waiting += [NumberedRequest(body, place=place) for body in self._packed(rows)]
        elif self._inbox:
            request = cast("NumberedRequest", self._inbox.popleft())
            request.place = place
            self._handed += 1
            self._waiting.append(request)
        self._out += len(rows) or 1

    def _packed(self, rows: list[Sequence[Any]]) -> list[Body]:
        """Return rows as batches. A row that the wire has no form for is rejected alone."""
        try:
            return bodies_of_rows(rows, self._batch_rows)
        except (InvalidValue, TooLarge) as error:
            if len(rows) > 1:
                return bodies_of_rows([row for row in rows if self._packed([row])], self._batch_rows)
            self._reject(1, error)
            return []

    # -- out -------------------------------------------------------------------------------------------------------

    def next_batch(self) -> NumberedRequest | None:
        """Return the next batch to send on this connection, numbered; None when there is none."""
        if self._next == len(self._numbered):
            while not self._waiting and self._inbox and self._ready:
                self._pack()
            if not self._waiting:
                return None
            batch = self._waiting.popleft()
            self._last_sequence += 1
            batch.sequence = self._last_sequence
            self._numbered.append(batch)
        batch = self._numbered[self._next]
        self._next += 1
        self.stats.batches_resent += batch.sent
        batch.sent = True
        return batch

    def rewind(self) -> None:
        """Begin again with the first batch that is not acknowledged."""
        self._next = 0

    def acknowledge(self, durable: int) -> None:
        """Batches up to this number are durable and forgotten."""
        while self._numbered and self._numbered[0].sequence <= durable:
            batch = self._numbered.popleft()
            batch.durable = True
            self._next = max(0, self._next - 1)
            self._history.append((batch.sequence, self._history[-1][1] + batch.body.rows))
            self.stats.batches_acknowledged += 1
            self.stats.rows_acknowledged += batch.body.rows

    def count_receipt(self, receipt: Any) -> str:
        """Add a receipt to the counts; return what to warn of: the first rows that were refused, and why."""
        answer = cast("dict[str, Any]", receipt if isinstance(receipt, dict) else {})
        if answer.get("replayed"):  # what became of the rows was reported before, and lost with its connection
            return ""
        refused: dict[str, Any] = answer.get("refused") or {}
        self.stats.rows_accepted += answer.get("accepted", 0)
        self.stats.rows_refused += refused.get("count", 0)
        self.stats.refused_by_code.update(refused.get("by_code", {}))
        first = [(str(code), value) for _, code, value in refused.get("first", ())]
        self.stats.last_refused.extend(first)
        if not refused.get("count") or self._reported_refused:
            return ""
        self._reported_refused = True
        reported = "; ".join(
            f"{code}: {shorten(value)!r}, must be {bound_text(code)}" for code, value in first[:REASONS_REPORTED]
        )
        return f"{refused['count']} of {refused['count'] + answer.get('accepted', 0)} rows were refused ({reported})"

    def refuse_for_ever(self, batch: NumberedRequest, error: AdvisorError) -> None:
        """Drop what the service will never take, and put an empty batch in its place: its number must be used."""
        self._reject(batch.body.rows, error)
        batch.body = EMPTY

    def renumber(self, durable: int) -> None:
        """The service stands at `durable`, which cannot be: number what is not acknowledged afresh, from 1.

        What was acknowledged beyond `durable` is lost, and counted.
        """
        if durable < self.acknowledged:
            known = [rows for sequence, rows in self._history if sequence <= durable]
            self.stats.batches_lost += self.acknowledged - durable
            self.stats.rows_lost += self._history[-1][1] - (known or [self._history[0][1]])[-1]
        self._history = deque([(0, 0)], HISTORY_BATCHES)
        for sequence, batch in enumerate(self._numbered, 1):
            batch.sequence = sequence
        self._last_sequence = len(self._numbered)
        self._next = 0

    def _reject(self, rows: int, error: AdvisorError) -> None:
        self.stats.rows_rejected += rows
        self.stats.last_error = str(error)
