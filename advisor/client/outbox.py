"""Rows on their way: collected, packed into batches, numbered, kept until the service has made them durable.

A batch gets its number when it is first sent and is immutable from then on. It is in one of three places: `_waiting`
(no number yet), `_numbered` (by number, without gaps; those before `_next` were sent on this connection), or gone
(acknowledged). Numbers are made durable in order, so the acknowledgement of one is that of all before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from advisor.client.outcomes import Stats
from advisor.domain.rows import bound_text
from advisor.errors import AdvisorError, InvalidValue, TooLarge, shorten
from advisor.protocol.encoding import EMPTY, Body, bodies_of_rows

REASONS_TOLD = 3  # of the first rows that were refused
HISTORY_BATCHES = 4096  # acknowledged batches whose rows are remembered, to tell how many a service lost


@dataclass(slots=True, eq=False)
class NumberedRequest:
    """A request with a number. `call` is who waits for its answer."""

    body: Body
    call: int | None = None
    place: int = 0  # among all batches ever taken
    sequence: int = 0  # 0: not numbered yet
    sent: bool = False  # at some time, on any connection
    durable: bool = False


class Outbox:
    """The rows that one client object has taken and the service not yet acknowledged.

    Parameters
    ----------
    batch_rows : int
        Rows a batch.
    """

    def __init__(self, batch_rows: int) -> None:
        self.stats = Stats()
        self._batch_rows = batch_rows
        self._rows: list[Sequence[Any]] = []  # of the batch that is being filled
        self._taken = 0  # batches, ever
        self._told_refused = False
        self._waiting: deque[NumberedRequest] = deque()
        self._numbered: deque[NumberedRequest] = deque()
        self._next = 0
        self._last_sequence = 0
        self._history: deque[tuple[int, int]] = deque([(0, 0)], HISTORY_BATCHES)  # (sequence, rows up to it)

    @property
    def idle(self) -> bool:
        """True when nothing taken is left."""
        return not (self._rows or self._waiting or self._numbered)

    @property
    def filling(self) -> bool:
        """True when rows wait for their batch to fill, or to be sealed."""
        return bool(self._rows)

    @property
    def acknowledged(self) -> int:
        """The last number known to be durable."""
        return self._last_sequence - len(self._numbered)

    @property
    def last_sequence(self) -> int:
        """The last number given."""
        return self._last_sequence

    # -- in --------------------------------------------------------------------------------------------------------

    def observe(self, row: Sequence[Any]) -> None:
        """Take one row; a full batch of them is sealed."""
        self._rows.append(row)
        self.stats.rows_offered += 1
        self.stats.rows_held += 1
        if len(self._rows) >= self._batch_rows:
            self.seal()

    def seal(self) -> None:
        """Make the rows taken so far sendable. A row that the wire has no form for is rejected alone."""
        rows, self._rows = self._rows, []
        try:
            self._queue(*bodies_of_rows(rows, self._batch_rows))
        except (InvalidValue, TooLarge):
            good: list[Sequence[Any]] = []
            for row in rows:
                try:
                    bodies_of_rows([row], 1)
                except (InvalidValue, TooLarge) as error:
                    self._reject(1, error)
                else:
                    good.append(row)
            self._queue(*bodies_of_rows(good, self._batch_rows))

    def submit(self, body: Body, call: int | None = None) -> None:
        """Take a whole batch; it keeps its place among the rows."""
        self.seal()
        self._queue(body, call=call)
        self.stats.rows_offered += body.rows
        self.stats.rows_held += body.rows

    def _queue(self, *bodies: Body, call: int | None = None) -> None:
        for body in bodies:
            self._taken += 1
            self._waiting.append(NumberedRequest(body, call, self._taken))

    def mark(self) -> int:
        """Make the rows taken so far sendable, and return the place of the last of them, for `sent`."""
        self.seal()
        return self._taken

    def sent(self, mark: int) -> bool:
        """True when every batch up to a place was sent on this connection, or is gone."""
        if self._next < len(self._numbered):
            return self._numbered[self._next].place > mark
        return not self._waiting or self._waiting[0].place > mark

    def drop_new(self, rows: int) -> None:
        """Count rows that were offered and are not taken."""
        self.stats.rows_offered += rows
        self.stats.rows_dropped += rows

    def drop_oldest(self) -> int:
        """Drop the oldest rows that were never sent; return how many. Cost O(calls that wait before them)."""
        dropped = 0
        at = next((at for at, batch in enumerate(self._waiting) if batch.body.rows), None)
        if at is not None:
            dropped = self._waiting[at].body.rows
            del self._waiting[at]
        else:
            dropped = len(self._rows)
            self._rows = []
        self.stats.rows_held -= dropped
        self.stats.rows_dropped += dropped
        return dropped

    # -- out -------------------------------------------------------------------------------------------------------

    def next_batch(self) -> NumberedRequest | None:
        """Return the next batch to send on this connection, numbered; None when there is none."""
        if self._next == len(self._numbered):
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
            self.stats.rows_held -= batch.body.rows

    def count(self, receipt: Any) -> str:
        """Add a receipt to the counts; return what to warn of: the first rows that were refused, and why."""
        answer = cast("dict[str, Any]", receipt if isinstance(receipt, dict) else {})
        if answer.get("replayed"):  # what became of the rows was told before, and lost with its connection
            return ""
        refused: dict[str, Any] = answer.get("refused") or {}
        self.stats.rows_accepted += answer.get("accepted", 0)
        self.stats.rows_refused += refused.get("count", 0)
        self.stats.refused_by_code.update(refused.get("by_code", {}))
        first = [(str(code), value) for _, code, value in refused.get("first", ())]
        self.stats.last_refused.extend(first)
        if not refused.get("count") or self._told_refused:
            return ""
        self._told_refused = True
        told = "; ".join(
            f"{code}: {shorten(value)!r}, must be {bound_text(code)}" for code, value in first[:REASONS_TOLD]
        )
        return f"{refused['count']} of {refused['count'] + answer.get('accepted', 0)} rows were refused ({told})"

    def refuse_for_ever(self, batch: NumberedRequest, error: AdvisorError) -> None:
        """Drop what the service will never take, and put an empty batch in its place: its number must be used."""
        self._reject(batch.body.rows, error)
        batch.body = EMPTY
        batch.call = None

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
        self.stats.rows_held -= rows
        self.stats.last_error = str(error)
