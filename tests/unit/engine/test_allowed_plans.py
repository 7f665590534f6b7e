"""Plans keep to the counts that a request and each component itself allow: exact, for one network and for several."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from advisor import Advisor
from advisor.domain.allowed_cores import parse_allowed
from advisor.errors import InvalidValue, TooLarge, UnknownKey

CORES = 12
SETS: Sequence[Any] = (
    [1, 3, 4], {"min": 2, "max": 12, "multiple_of": 2}, {"max": 8, "power_of": 2}, [2, 5, 7], {"min": 3, "max": 6}
)  # fmt: skip


def learned(rng: np.random.Generator, names: Sequence[str]) -> Advisor:
    """Components seen on every count, without noise."""
    advisor = Advisor()
    for name in names:
        scale, a = rng.uniform(0.05, 1.0), rng.uniform(0.5, 0.99)
        for p in [*range(1, CORES + 1)] * 4:
            advisor.observe(name, predictor=1.0, cores=p, elapsed_s=scale * (1 - a + a / p))
    return advisor


def times_of(advisor: Advisor, names: Sequence[str]) -> dict[str, list[float]]:
    """What plans expect (`level` 0.5) of each count, from plans in which nothing is left to choose."""
    return {
        name: [
            1 / advisor.allocate(name, cores=p, pinned={name: p}, level=0.5).throughput_per_s
            for p in range(1, CORES + 1)
        ]
        for name in names
    }


def legal(given: dict[str, Any], names: Sequence[str]) -> list[tuple[int, ...]]:
    """All allocations with cores of one's own that the sets allow."""
    counts = [
        [p for p in range(1, CORES + 1) if all(p in parse_allowed("allowed", one) for one in given.get(name, ()))]
        for name in names
    ]
    return [some for some in itertools.product(*counts) if sum(some) <= CORES]


@pytest.mark.parametrize("seed", range(6))
def test_sets_hold_exactly_against_exhaustive_search(seed: int) -> None:
    rng, names = np.random.default_rng(seed), ["a", "b", "c"][: 2 + seed % 2]
    network, advisor = " .. ".join(names), learned(rng, names)
    times = times_of(advisor, names)
    own = {name: SETS[int(rng.integers(len(SETS)))] for name in names if rng.random() < 0.7}
    asked = {name: SETS[int(rng.integers(3))] for name in names if name not in own or rng.random() < 0.3}
    for name, allowed in own.items():
        advisor.set_allowed(name, allowed)
    sets = {name: [given[name] for given in (own, asked) if name in given] for name in names}
    every = legal(sets, names)
    options: dict[str, Any] = {"turns": "never", "level": 0.5, "allowed": asked}
    if not every:
        with pytest.raises(InvalidValue, match="allowed"):
            advisor.allocate(network, cores=CORES, **options)
        return
    seconds = np.array([[times[name][p - 1] for name, p in zip(names, some, strict=True)] for some in every])
    best, least = seconds.max(axis=1).min(), seconds.sum(axis=1).min()
    fast = advisor.allocate(network, cores=CORES, **options)
    assert tuple(fast.cores.values()) in every
    assert fast.throughput_per_s == pytest.approx(1 / best, rel=1e-9)
    short = advisor.allocate(network, cores=CORES, objective="latency", **options)
    assert tuple(short.cores.values()) in every
    assert short.latency_s == pytest.approx(least, rel=1e-9)
    target = 0.7 / best
    few = advisor.allocate(
        network, cores=CORES, objective="fewest_cores", target={"throughput_per_s": target}, **options
    )
    assert tuple(few.cores.values()) in every
    enough = seconds.max(axis=1) <= 1 / target * (1 + 1e-12)
    assert few.cores_used == min(sum(some) for some, fits in zip(every, enough, strict=True) if fits)
    several = advisor.allocate_together(
        [{"network": name, **({"allowed": {name: asked[name]}} if name in asked else {})} for name in names],
        cores=CORES, level=0.5,
    )  # fmt: skip
    counts = tuple(next(iter(part.allocation.cores.values())) for part in several.networks)
    assert counts in every
    assert min(part.guaranteed_per_s for part in several.networks) == pytest.approx(1 / best, rel=1e-9)


def test_turns_keep_to_the_sets_of_components() -> None:
    advisor = learned(np.random.default_rng(1), "abcd")
    advisor.set_allowed("a", [2, 3])
    advisor.set_allowed("b", {"max": 8, "power_of": 2})
    for objective, cores in itertools.product(("throughput", "latency"), (3, 4, 8)):
        plan = advisor.allocate("a .. b .. c .. d", cores=cores, objective=objective)
        assert plan.cores["a"] in (2, 3)
        assert plan.cores["b"] in (1, 2, 4, 8)


def test_a_set_that_leaves_nothing_is_refused_by_name() -> None:
    advisor = learned(np.random.default_rng(2), "ab")
    advisor.set_allowed("a", [16, 32])
    with pytest.raises(InvalidValue) as caught:
        advisor.allocate("a .. b", cores=8)
    assert caught.value.field == "allowed.a"
    advisor.set_allowed("a", [2, 4])
    with pytest.raises(InvalidValue, match=r"a set with a count that component 'a' allows: 2, 4") as caught:
        advisor.allocate("a .. b", cores=8, allowed={"a": [3]})
    assert caught.value.field == "allowed.a"
    with pytest.raises(InvalidValue) as caught:
        advisor.allocate("a .. b", cores=8, pinned={"a": 3})
    assert caught.value.field == "allowed.a"
    with pytest.raises(InvalidValue) as caught:
        advisor.allocate("a .. b", cores=8, turns="never", allowed={"b": [7, 8]})
    assert (caught.value.field, caught.value.value) == ("allowed", 9)
    advisor.set_allowed("a", None)
    assert advisor.allocate("a .. b", cores=8, pinned={"a": 3}).cores["a"] == 3, "a plan is made anew"


def test_a_map_is_one_set_or_sets_by_key() -> None:
    advisor = learned(np.random.default_rng(3), ["min", "max"])
    plan = advisor.allocate("min .. max", cores=8, turns="never", allowed={"min": 2, "max": 4, "multiple_of": 2})
    assert set(plan.cores.values()) <= {2, 4}
    plan = advisor.allocate("min .. max", cores=8, turns="never", allowed={"min": [3], "max": {"multiple_of": 5}})
    assert plan.cores == {"min": 3, "max": 5}
    with pytest.raises(TooLarge):
        advisor.allocate("min .. max", cores=8, allowed=list(range(1, 259)))
    with pytest.raises(UnknownKey):
        advisor.allocate("min .. max", cores=8, allowed={"min": {"multiples_of": 2}})
    with pytest.raises(InvalidValue):
        advisor.allocate("min .. max", cores=8, allowed="powers_of_two")  # type: ignore[arg-type]


def test_sets_hold_where_sizes_are_thinned() -> None:
    """A machine of 2**20 cores is looked at sizes apart: listed counts and multiples between them are met."""
    advisor = learned(np.random.default_rng(4), "abc")
    sets = {"a": [1021, 99_991], "b": {"min": 7, "max": 70_007, "multiple_of": 7}}
    plan = advisor.allocate(
        "a .. b .. c", cores=2**20, objective="latency", turns="never", arrival_per_s=0.1, allowed=sets
    )
    assert plan.cores["a"] in sets["a"]
    assert plan.cores["b"] % 7 == 0
