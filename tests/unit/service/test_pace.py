"""The pace of commits: a share of the processor when there is always something to commit, and never a long pause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.service.pace import GATHER_S, PAUSE_MAX_S, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("took", [0.0002, 0.01, 0.08])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.9])
def test_commits_take_their_share_when_there_is_always_something_to_commit(took: float, share: float) -> None:
    clock = Clock()
    pace, spent = Pace(share, clock), 0.0
    while clock.now < 60.0:
        clock.now += pace.pause_s() + took
        spent += took
        pace.ended(took)
    least = max(GATHER_S, min(took * (1 - share) / share, PAUSE_MAX_S))
    assert spent / clock.now == pytest.approx(took / (took + least), rel=0.02)


def test_waiting_for_the_disk_counts_as_rest() -> None:
    clock = Clock()
    pace = Pace(0.25, clock)
    clock.now += 1.0
    assert pace.pause_s() == GATHER_S
    clock.now += 0.08  # a commit that worked for a tenth of a millisecond of it
    pace.ended(0.0001)
    assert pace.pause_s() == GATHER_S


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), max_size=50), st.floats(0.01, 1))
def test_no_pause_is_longer_than_its_bound(history: list[tuple[float, float]], share: float) -> None:
    clock = Clock()
    pace = Pace(share, clock)
    for idle, took in history:
        clock.now += idle + took
        pace.ended(took)
        assert GATHER_S <= pace.pause_s() <= PAUSE_MAX_S + 1e-9
