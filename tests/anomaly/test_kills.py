"""Exactly once through kill -9 under several pipelining producers that misbehave; `test_lives.py` has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_harness import Miscounted, harness


async def test_every_acknowledged_row_is_counted_once_through_kills(tmp_path: Path) -> None:
    done = await harness(tmp_path, kills=4, seed=11)
    assert done["kills"] == 4
    assert done["acknowledgements"] > 20


async def test_the_harness_finds_a_service_without_sequence_checks_guilty(tmp_path: Path) -> None:
    with pytest.raises(Miscounted):
        await harness(tmp_path, kills=2, seed=11, numbered=False)


@pytest.mark.slow
async def test_a_hundred_kills(tmp_path: Path) -> None:
    done = await harness(tmp_path, kills=100, seed=12)
    assert done["kills"] == 100
