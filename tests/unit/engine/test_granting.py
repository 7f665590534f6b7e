"""Who has which cores: the recorded dialogue, grants by gain, hysteresis, answers that do not come."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.advice import GAIN_LEAST
from advisor.engine.granting import TURN_S, Granting, best_split, shared_by_demand, value_of
from advisor.errors import InvalidValue


def settled(granting: Granting, now: float = 0.0) -> dict[object, int]:
    """Let honest, prompt clients answer everything; return how many cores each has."""
    while orders := granting.balance(now):
        for app, verb, cores in orders:
            if verb == "grant":
                granting.accept(app, cores, now)
            else:
                granting.give_back(app, cores)
    granting.check_cores_lent_once()
    return {app: granting.has(app)["accepted"] for app in granting.targets()}


def asking(granting: Granting, **apps: tuple[str | None, int]) -> None:
    for app, (network, local) in apps.items():
        granting.add_app(app, network)
        granting.access(app, may_use=True)
        granting.local(app, local)


def test_each_application_has_its_turn_where_there_are_fewer_cores() -> None:
    granting, apps = Granting([0, 1, 2]), [f"app{n}" for n in range(7)]
    asking(granting, **dict.fromkeys(apps, (None, 2)))
    had: dict[object, list[float]] = {}
    for step in range(60):
        now = step * TURN_S / 2
        had_now = [app for app, cores in settled(granting, now).items() if cores]
        assert len(had_now) == 3
        for app in had_now:
            had.setdefault(app, []).append(now)
    assert had.keys() == set(apps)
    longest = max(b - a for times in had.values() for a, b in pairwise(times))
    assert longest <= len(apps) / 3 * TURN_S + TURN_S  # nobody waits longer than all others' turns take
    shares = [len(times) for times in had.values()]
    assert max(shares) <= 1.5 * min(shares)


def test_grants_follow_who_gains_most_and_move_when_that_changes() -> None:
    granting = Granting(range(8))
    slow, fast = [float(n) for n in range(9)], [3.0 * n for n in range(9)]
    asking(granting, a=("a", 8), b=("b", 8))
    assert settled(granting) == {"a": 4, "b": 4}  # nothing is learned: by what each could use
    granting.learned({"a": fast, "b": slow})
    assert settled(granting) == {"a": 7, "b": 1}
    granting.learned({"a": slow, "b": fast})
    assert settled(granting) == {"a": 1, "b": 7}
    granting.learned({"a": slow})
    assert settled(granting) == {"a": 4, "b": 4}


def test_cores_go_on_to_the_other_where_a_curve_bends() -> None:
    granting = Granting(range(8))
    asking(granting, bent=("bent", 8), straight=("straight", 8), shy=(None, 1))
    granting.learned({"bent": [0, 9, 18, 18.1, 18.2], "straight": [0, 2, 4, 6, 8, 10, 12, 14, 16]})
    assert settled(granting) == {"bent": 2, "straight": 5, "shy": 1}


def test_a_gain_within_what_curves_are_off_moves_nothing() -> None:
    granting = Granting(range(4))
    asking(granting, a=("a", 4), b=("b", 4))
    granting.learned({"a": [0, 1, 2, 3, 3], "b": [0, 1, 1, 1, 1]})
    assert settled(granting) == {"a": 3, "b": 1}
    better = 1 + GAIN_LEAST
    granting.learned({"a": [0, 1, 2, 3, 3], "b": [0, 1, 2.9 * better - 0.9, 3, 3]})
    before = granting.counts["granted"]
    assert settled(granting) == {"a": 3, "b": 1}
    assert granting.counts["granted"] == before
    granting.learned({"a": [0, 1, 2, 3, 3], "b": [0, 1, 4, 4, 4]})
    assert settled(granting) == {"a": 2, "b": 2}


def test_there_must_be_cores_to_lend() -> None:
    with pytest.raises(InvalidValue, match="at least one core"):
        Granting([])


# -- shares -----------------------------------------------------------------------------------------------------------------


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
    split = best_split(values, most, cores, near)
    legal = [each for each in product(*(range(1, high + 1) for high in most)) if sum(each) == cores]
    assert tuple(split) in legal
    assert value_of(values, split) == pytest.approx(max(value_of(values, each) for each in legal), rel=1e-8)


def test_where_nothing_is_gained_the_split_stays_as_it_was() -> None:
    assert best_split([[0, 5, 5, 5], [0, 5, 5, 5]], [3, 3], 4, [1, 3]) == [1, 3]
