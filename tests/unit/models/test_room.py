"""Rows that grow where they lie: what they hold, where they lie, and what a system without address space to spare gets."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

from advisor.models import room
from advisor.models.room import FROM_BYTES, RowRoom
from advisor.models.table import Table

WIDTH = 128
MANY = FROM_BYTES // (8 * WIDTH)


def test_rows_move_once_and_keep_what_they_hold() -> None:
    kept, rows, places = RowRoom(), np.empty((0, WIDTH)), set[int]()
    for capacity in range(0, 8 * MANY, 64):
        used = len(rows)
        rows = kept.grown(rows, used, capacity)
        rows[used:] = np.arange(used, capacity)[:, None]
        places.add(rows.ctypes.data) if capacity >= MANY else None
        assert rows.flags.c_contiguous
        assert rows.shape == (capacity, WIDTH)
    assert (rows[:, 0] == np.arange(len(rows))).all()
    assert len(places) == 1


def test_rows_of_another_place_are_copied() -> None:
    kept = RowRoom()
    kept.grown(np.zeros((0, WIDTH)), 0, MANY)[:] = 1.0
    assert (kept.grown(np.full((MANY, WIDTH), 2.0), MANY, MANY + 1)[:MANY] == 2.0).all()


def test_without_address_space_rows_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(mmap, "mmap", none)
    table = Table(4 * MANY)
    table.records[:] = 3.0
    table.grow(16 * MANY)
    assert (table.records[: 4 * MANY] == 3.0).all()
    assert room._space(MANY, WIDTH) is None
