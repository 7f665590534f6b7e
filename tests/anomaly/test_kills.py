"""Exactly once through kill -9: the short form of the harness, its long form, and the proof that it can fail; and the bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kill_harness import Miscounted, harness
from killed_lives import LIVES_A_STATE, killed_and_compared
from nursery import Nursery


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


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as begun:
        yield begun


@pytest.mark.parametrize("entries_max", [2**15, 4])
def test_what_a_killed_service_leaves_equals_a_twin_that_was_never_killed(
    nursery: Nursery, tmp_path: Path, entries_max: int
) -> None:
    ends = killed_and_compared(nursery, tmp_path, entries_max, 8, JOURNAL_ENTRIES_MAX=entries_max, SLICE_BYTES=1)
    assert ends.total() == 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000 // LIVES_A_STATE))
def test_a_thousand_kills_under_all_verbs(nursery: Nursery, tmp_path: Path, seed: int) -> None:
    killed_and_compared(nursery, tmp_path, seed)
