"""Plain rows on their short way: taken one by one, known to be good, and folded together.

A row is plain where nothing about it can be refused: its component is known and has one predictor, and its three numbers lie
in their domains. So it is answered when it is taken, and nothing of it is looked at again when it is folded: to fold a
hundred together costs little more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.observations import Columns, ComponentNames
from advisor.engine.components import Components
from advisor.engine.rows import SEPARATOR

PLAIN_ROWS_MAX = 1_024  # taken before they are folded; more would save nothing
_X, _P_LOW, _P_HIGH = limits.PREDICTOR_MAX, limits.CORES_MIN, limits.CORES_MAX
_T_LOW, _T_HIGH = limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S
_NUMBERS = frozenset((int, float))


class PlainRows:
    """Rows taken and not folded yet."""

    def __init__(self, components: Components) -> None:
        self.rows: list[tuple[int, float, float, float]] = []  # list of (slot, predictor, cores, elapsed_s)
        self.components = components  # whose slots they are
        self.forget()

    def append_plain_rows(self, rows: Sequence[Any]) -> bool:
        """Take rows ``[component, predictor, cores, elapsed_s]``, all or none; False where one is not plain. Cost O(rows)."""
        if self._renames != self.components.slots.renames:
            self.forget()
        slots, taken = self._slots, self.rows
        before = len(taken)
        try:
            for component, x, p, t in rows:
                slot = slots.get(component)
                if slot is None:
                    slot = self._slot_of(component)
                numbers = type(x) in _NUMBERS and type(p) in _NUMBERS and type(t) in _NUMBERS
                if not (numbers and 0.0 <= x <= _X and _P_LOW <= p <= _P_HIGH and _T_LOW <= t <= _T_HIGH):
                    break
                taken.append((slot, x, p, t))
            else:
                return True
        except (TypeError, ValueError, KeyError):  # no row of four, no name, no such component
            pass
        del taken[before:]
        return False

    def _slot_of(self, component: Any) -> int:
        """Return the slot of a component that has one predictor; KeyError for all else."""
        slot = self.components.slots.by_name[component]
        if SEPARATOR in component or self.components.table.int_field("dimensions")[slot] != 1:
            raise KeyError(component)
        self._slots[component] = slot
        return slot

    def columns(self) -> Columns:
        """Return the rows in their order, and hold none. Cost O(rows)."""
        n = len(self.rows)
        table = np.fromiter(chain.from_iterable(self.rows), np.float64, 4 * n).reshape(n, 4)
        self.rows.clear()
        names, known = self._names, self.components.slots.names
        if len(names) < len(known):
            first = len(names)
            names.names += known[first:]
            names.valid = np.ones(len(known), np.bool_)
            names.owner, names.slots = self.components.slots.generation, np.arange(len(known))
        index, x, p, t = np.ascontiguousarray(table.T)
        return Columns(names, index.astype(np.int64), x, p, t)

    def forget(self) -> None:
        """Look at components anew: one may have got another number of predictors, or another one's slot."""
        self._slots: dict[str, int] = {}  # of components found to have one predictor
        self._names = ComponentNames()  # numbered by their slots
        self._renames = self.components.slots.renames
