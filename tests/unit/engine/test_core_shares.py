"""Cores shared by demand and by value, against every split there is."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.engine.granting import best_split, shared_by_demand, value_of


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(1, 16))
def test_by_demand_nobody_gets_more_than_it_can_use_nor_nothing_while_there_are_cores(
    most: list[int], cores: int
) -> None:
    shares = shared_by_demand(most, cores)
    assert all(0 <= share <= wanted for share, wanted in zip(shares, most, strict=True))
    assert sum(shares) == min(cores, sum(most))
    asking = [share for share, wanted in zip(shares, most, strict=True) if wanted]
    assert sum(share > 0 for share in asking) == min(cores, len(asking))
    for one, more in ((a, b) for a in range(len(most)) for b in range(len(most))):
        if most[one] < most[more] and shares[more]:
            assert shares[one] <= shares[more]


@pytest.mark.parametrize(
    ("most", "cores", "shares"),
    [([2, 1], 2, [1, 1]), ([6, 2], 4, [3, 1]), ([9, 9, 9], 2, [1, 1, 0]), ([4, 4], 16, [4, 4]), ([100, 1], 8, [7, 1])],
)
def test_by_demand_in_proportion(most: list[int], cores: int, shares: list[int]) -> None:
    assert shared_by_demand(most, cores) == shares


@given(st.data())
def test_the_split_by_value_is_the_best_of_all(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 3))
    values = data.draw(
        st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=7), min_size=n, max_size=n), label="values"
    )
    most = data.draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
    cores = data.draw(st.integers(n, sum(most)))
    near = shared_by_demand(most, cores)
    split, reached = best_split(values, [1] * n, most, cores, near)
    legal = [each for each in product(*(range(1, high + 1) for high in most)) if sum(each) == cores]
    assert tuple(split) in legal
    assert reached == value_of(values, split)
    assert reached == pytest.approx(max(value_of(values, each) for each in legal), rel=1e-8)


def test_where_nothing_is_gained_the_split_stays_as_it_was() -> None:
    assert best_split([[0, 5, 5, 5], [0, 5, 5, 5]], [1, 1], [3, 3], 4, [1, 3])[0] == [1, 3]
