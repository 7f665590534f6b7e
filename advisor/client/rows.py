"""How rows are given to both clients, each way once: one at a time, many, or as columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

from advisor.client.session import BATCH_ROWS
from advisor.domain.rows import ColumnsGiven, Point, RowFields, row_of
from advisor.domain.shapes import plain
from advisor.errors import InvalidValue
from advisor.protocol.encoding import Body, bodies_of_columns, bodies_of_rows

One = TypeVar("One")
Many = TypeVar("Many")
Count = TypeVar("Count", bound=int)
Item = Sequence[Any] | Body  # a row, or a batch
WhenFull = Literal["drop_newest", "block"]  # what becomes of rows beyond a client's buffer


def rows_of(item: Item) -> int:
    """Return how many rows an item of a buffer is."""
    return item.rows if isinstance(item, Body) else 1


class Taken(Generic[Count]):
    """How many rows were taken. Awaiting it gives that, of one row whether it was; it waits only for space in a full buffer.

    With ``when_full="block"`` and a full buffer the rows that found no space are taken when this is awaited. Where nobody
    awaits it they are dropped, and counted.

    Attributes
    ----------
    value : int
        The rows taken so far.
    """

    __slots__ = ("_drop", "_kind", "_left", "_take", "value")

    def __init__(
        self, kind: Callable[[int], Count], value: int, left: Iterable[Item] = (),
        take: Callable[[Item], Awaitable[bool]] | None = None, drop: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self._kind, self.value, self._left, self._take, self._drop = kind, value, deque(left), take, drop

    def __await__(self) -> Generator[Any, Any, Count]:
        while self._left and self._take is not None:
            if (yield from self._take(self._left[0]).__await__()):
                self.value += rows_of(self._left[0])
            self._left.popleft()
        return self._kind(self.value)

    def __bool__(self) -> bool:
        return self.value > 0

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"Taken({self.value!r}{', await it for the rest' if self._left else ''})"

    def __del__(self) -> None:
        if self._drop is not None and self._left:
            self._drop(sum(map(rows_of, self._left)))


class TakesRows(ABC, Generic[One, Many]):
    """A client that is given rows; how it answers for one, and for many, is its own.

    A row is taken when `observe` returns, also of an `AsyncClient`: a callback need not await it. Awaiting waits for nothing,
    unless `when_full` is "block" and the buffer is full: then the row is taken when there is room, and only where it is
    awaited.
    """

    @abstractmethod
    def _take_row(self, row: list[Any]) -> One: ...

    @abstractmethod
    def _take_batches(self, bodies: Sequence[Body]) -> Many: ...

    @overload
    def observe(
        self, component: str, predictor: Point, cores: float, elapsed_s: float, **optional: Unpack[RowFields]
    ) -> One: ...
    @overload
    def observe(
        self,
        component: str,
        predictor: Point = ...,
        cores: float = ...,
        *,
        elapsed_s: float,
        **optional: Unpack[RowFields],
    ) -> One: ...
    def observe(
        self, component: str, predictor: Point = None, cores: float = 1, elapsed_s: Any = None,
        **optional: Unpack[RowFields],
    ) -> One:  # fmt: skip
        """Take one row, of which `elapsed_s` must be given; the answer is true where it was taken.

        Raises
        ------
        InvalidValue, UnknownKey
            As `Advisor.observe`.
        """
        return self._take_row(row_of(component, predictor, cores, elapsed_s, optional))

    def observe_rows(self, rows: Sequence[Sequence[Any]]) -> Many:
        """Take rows `[component, predictor, cores, elapsed_s, {optional}]`; return how many were taken.

        Raises
        ------
        InvalidValue, TooLarge
            When a row has no form on the wire.
        """
        return self._take_batches(bodies_of_rows([plain(row) for row in rows], BATCH_ROWS))

    def observe_columns(self, **columns: Unpack[ColumnsGiven]) -> Many:
        """Take a batch of columns (see `docs/protocol.md`); return how many rows were taken.

        Columns are numpy arrays, array.array, lists, or little-endian bytes: `index`, `predictor`, `cores`,
        `elapsed_s` and the optional ones. `components` are the names that `index` counts in.

        Raises
        ------
        InvalidValue, TooLarge
            When a column is none, or of another length than `index`.
        """
        if columns.get("components") is None:
            raise InvalidValue("components", None, "given: the names that index counts in")
        return self._take_batches(bodies_of_columns(columns))
