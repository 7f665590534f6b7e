"""Rows that grow where they lie: what they hold, where they lie, and what a system without address space to spare gets."""

from __future__ import annotations

import mmap
from typing import Any

import pytest

from advisor.models import room
from advisor.models.room import FROM_BYTES
from advisor.models.table import Table

WIDTH = 128
MANY = FROM_BYTES // (8 * WIDTH)


def test_without_address_space_rows_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(mmap, "mmap", none)
    table = Table(4 * MANY)
    table.records[:] = 3.0
    table.grow(16 * MANY)
    assert (table.records[: 4 * MANY] == 3.0).all()
    assert room._space(MANY, WIDTH) is None
