"""Networks of every operator, with constraints and curves that rise again, against all their allocations."""

from __future__ import annotations

import pytest
from drawn_networks import check


@pytest.mark.parametrize("block", range(40))
def test_a_thousand_networks_of_all_operators(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check(seed)


@pytest.mark.slow
def test_ten_thousand_more() -> None:
    for seed in range(10_000, 20_000):
        check(seed)
