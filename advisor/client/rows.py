"""How rows are given to both clients, each way once: one at a time, many, or as columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, Unpack, overload

from advisor.client.session import BATCH_ROWS
from advisor.domain.rows import ColumnsGiven, Point, RowFields, row_of
from advisor.domain.shapes import plain
from advisor.protocol.encoding import Body, bodies_of_columns, bodies_of_rows

One = TypeVar("One")
Many = TypeVar("Many")


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
        Unavailable
            When the buffer is full and `when_full` is "raise".
        """
        return self._take_row(row_of(component, predictor, cores, elapsed_s, optional))

    def observe_rows(self, rows: Sequence[Sequence[Any]]) -> Many:
        """Take rows `[component, predictor, cores, elapsed_s, {optional}]`; return how many were taken.

        Raises
        ------
        InvalidValue, TooLarge
            When a row has no form on the wire.
        Unavailable
            As `observe`.
        """
        return self._take_batches(bodies_of_rows([plain(row) for row in rows], BATCH_ROWS))

    def observe_columns(self, **columns: Unpack[ColumnsGiven]) -> Many:
        """Take a batch of columns (see `docs/protocol.md`); return how many rows were taken.

        Columns are numpy arrays, array.array, lists, or little-endian bytes: `index`, `predictor`, `cores`,
        `elapsed_s` and the optional ones. `components` are the names that `index` counts in; without it, those that
        `names` numbered.

        Raises
        ------
        InvalidValue, TooLarge
            When a column is none, or of another length than `index`.
        Unavailable
            As `observe`.
        """
        return self._take_batches(bodies_of_columns(columns))
