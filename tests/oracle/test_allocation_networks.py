"""Allocations of networks of every operator, with constraints and curves that rise again, against all allocations.

The oracle is `drawn_networks.check`: it walks a nested tree of its own and shares no code with the planner.
"""

from __future__ import annotations

import pytest
from drawn_networks import check


@pytest.mark.parametrize("block", range(8))
def test_networks_of_all_operators(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8, 44))
def test_a_thousand_networks_of_all_operators(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check(seed)
