"""Laws of turns on shared cores: more cores are never worse where sharing is permitted, and nobody shares who need not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from amdahl import amdahl_curves
from built_networks import series
from drawn_networks import random_operators, rising_seconds

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import AdvisorError, ImpossibleTarget
from advisor.planning import Request, plan

COUNTS = np.array([1, 2, 3, 4, 6, 8, 12])


def drawn(seed: int) -> tuple[Network, TabulatedCurves, dict[str, Any]]:
    """A random network of 2 to 8 boxes and all operators that matter here, its curves, and some rule."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    network, rules = random_operators(rng, n)
    if rng.random() < 0.3:
        rules["allowed"] = {"power_of": 2}
    if rng.random() < 0.3:
        rules["instances_max"] = 2
    if rng.random() < 0.2:
        rules["maximum"] = {"c0": 2}
    serial, work = rng.random(n) * 0.4, rng.lognormal(0, 1, n)
    if rng.random() < 0.5:
        return network, amdahl_curves(work * serial, work * (1 - serial)), rules
    return network, TabulatedCurves.from_arrays(COUNTS, rising_seconds(rng, serial, work, COUNTS)), rules


@pytest.mark.parametrize("seed", range(24))
def test_more_cores_are_never_worse_where_turns_are_permitted(seed: int) -> None:
    network, curves, rules = drawn(seed)
    rates = [
        plan(network, curves, Request(cores=cores, turns="better", **rules)).throughput_per_s
        for cores in range(1, 2 * len(network.keys) + 4)
    ]
    assert all(few <= many * (1 + 1e-9) for few, many in pairwise(rates)), rates


WORK = np.array([10.0, 1.0, 1.0])
BOTH = [amdahl_curves(np.zeros(3), WORK), TabulatedCurves.from_arrays(COUNTS, WORK[:, None] / COUNTS)]


@pytest.mark.parametrize("curves", BOTH)
def test_without_permission_they_may_be_worse_at_the_border(curves: Any) -> None:
    network = series("a", "b", "c")
    few, own, either = (
        plan(network, curves, Request(cores=cores, turns=turns))
        for cores, turns in ((2, "scarce"), (3, "scarce"), (3, "better"))
    )
    assert (few.throughput_per_s, own.throughput_per_s, either.throughput_per_s) == pytest.approx((1 / 6, 0.1, 0.25))
    assert not own.groups
    turns = next(reason for reason in either.why if reason.code == "turns")
    assert turns.value == pytest.approx(0.1)


@pytest.mark.parametrize("seed", range(100, 116))
def test_who_permits_turns_gets_the_better_of_both(seed: int) -> None:
    network, curves, rules = drawn(seed)
    cores = len(network.keys) + seed % 5
    own = plan(network, curves, Request(cores=cores, turns="never", **rules))
    assert own.groups == ()
    assert plan(network, curves, Request(cores=cores, turns="scarce", **rules)).cores == own.cores
    either = plan(network, curves, Request(cores=cores, turns="better", **rules))
    assert either.throughput_per_s >= own.throughput_per_s * (1 - 1e-9)
    assert either.cores_used <= cores
    assert either.spare == cores - either.cores_used
    lowest = [plan(network, curves, Request(cores=cores, objective="latency", turns=some, **rules)).latency_s
              for some in ("never", "better")]  # fmt: skip
    assert lowest[1] <= lowest[0] * (1 + 1e-9)
    with pytest.raises(AdvisorError):
        plan(network, curves, Request(cores=len(network.keys) - 1, turns="never", **rules))


@pytest.mark.parametrize("seed", range(200, 212))
def test_a_target_takes_no_more_cores_than_with_cores_of_ones_own_and_rises_with_the_target(seed: int) -> None:
    network, curves, rules = drawn(seed)
    cores = 2 * len(network.keys)
    best = plan(network, curves, Request(cores=cores, turns="better", **rules)).throughput_per_s
    used: list[int] = []
    for share in (0.3, 0.6, 1.0 - 1e-9):
        target = {"throughput_per_s": share * best}
        asked = Request(cores=cores, objective="fewest_cores", target=target, **rules)
        found = plan(network, curves, Request(
            cores=cores, objective="fewest_cores", target=target, turns="better", **rules))  # fmt: skip
        assert found.throughput_per_s >= share * best * (1 - 1e-9)
        used.append(found.cores_used)
        try:
            assert found.cores_used <= plan(network, curves, asked).cores_used
        except ImpossibleTarget:
            continue  # cores of one's own do not reach it
    assert used == sorted(used)


def test_a_sweep_rises_with_many_components_too() -> None:
    rng = np.random.default_rng(3)
    n = 24
    curves, network = (
        amdahl_curves(rng.lognormal(-2, 1, n), rng.lognormal(0, 1, n)),
        series(*(f"c{k}" for k in range(n))),
    )
    counts = list(range(4, 60, 3))
    found = [plan(network, curves, Request(cores=count, turns="better")) for count in counts]
    assert all(few.throughput_per_s <= many.throughput_per_s for few, many in pairwise(found))
    assert all(answer.cores_used + answer.spare == count for answer, count in zip(found, counts, strict=True))
    assert any(answer.groups for answer, count in zip(found, counts, strict=True) if count >= n)
