"""The base table: a record of exact sums a component."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.domain.vectors import Floats, Ints
from advisor.models.layout import AT, FIELDS, INTEGERS, LAYOUT
from advisor.models.records import RecordTable


class Table(RecordTable):
    """Words of `size` components; a field is also a view: `table["gram"]` is (21, capacity), `table["rows"]` (capacity,).

    `records` are the words, as the fold wants them, `records_whole` the same memory as int64. It grows by whole pages of 64
    slots, and by 1/16: copies stay O(1) a slot and waste below 7 %.
    """

    STEP, SHARE = 64, 16
    __slots__ = ("records", "records_whole")

    def __init__(self, size: int = 0) -> None:
        super().__init__(FIELDS, LAYOUT, size)

    def _hold(self, words: Floats) -> None:
        self.words = self.records = words
        self.records_whole: Ints = words.view(np.int64)

    def __getitem__(self, field: str) -> Floats:
        """Return the view of one field."""
        at = AT[field]
        source = self.records_whole if field in INTEGERS else self.records
        return source[:, at.start] if at.stop - at.start == 1 else source[:, at].T  # type: ignore[return-value]

    def int_field(self, field: str) -> Ints:
        """Return the view (capacity,) of a field of one int64."""
        return self.records_whole[:, AT[field].start]

    # A fold adds 1 to ``rows`` and nothing else where it can; what else counts rows is an offset to it that changes rarely.

    def runs(self, at: Any = slice(None)) -> Ints:
        """Return the exact number of learned runs: a row with count c is c runs."""
        return self.int_field("rows")[at] + self.int_field("extra_runs")[at]

    def evidence(self, at: Any = slice(None)) -> Floats:
        """Return the rows that the sums still stand for: what the solver takes for n."""
        return self.int_field("rows")[at] - self["forgotten"][at]

    def scored(self, at: Any = slice(None)) -> Ints:
        """Return the rows that the weighting model predicted before they were learned."""
        return self.int_field("rows")[at] - self.int_field("unscored")[at]
