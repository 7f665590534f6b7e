"""Rows that `Advisor.observe` took one by one, waiting to be folded together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any

import numpy as np

from advisor.domain.observations import Columns, ComponentNames

PENDING_ROWS_MAX = 1_024  # a fold of a thousand rows costs little more than a fold of one


class Pending:
    """A bounded list of checked rows."""

    __slots__ = ("_carried", "_number", "_rows")

    def __init__(self) -> None:
        self._rows: list[tuple[int, float, float, float, int, bool, bool]] = []
        self._number: dict[str, int] = {}
        self._carried: Counter[str] = Counter()

    def add(
        self, component: str, x: float, p: float, t: float, count: int, ok: bool, running: bool, carried: dict[str, Any]
    ) -> bool:
        """Take a row; True when it is time to fold."""
        self._rows.append((self._number.setdefault(component, len(self._number)), x, p, t, count, ok, running))
        if carried:
            self._carried.update(carried.keys())
        return len(self._rows) >= PENDING_ROWS_MAX

    def new_names(self, known: Container[str]) -> list[str]:
        """Return the waiting names that are not in `known`."""
        return [name for name in self._number if name not in known]

    def take(self) -> Columns | None:
        """Return the waiting rows in order, and wait for none."""
        if not self._rows:
            return None
        index, x, p, t, count, ok, running = zip(*self._rows, strict=True)
        columns = Columns(
            ComponentNames(list(self._number)),
            np.array(index, np.int64),
            np.array(x),
            np.array(p),
            np.array(t),
            count=None if count.count(1) == len(count) else np.array(count, np.int64),
            ok=None if all(ok) else np.array(ok, np.bool_),
            running=np.array(running, np.bool_) if any(running) else None,
            carried=dict(self._carried),
        )
        self.__init__()
        return columns
