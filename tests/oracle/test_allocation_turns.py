"""Turns on shared cores against every grouping of every small case, under every rule that a question may have.

The oracle shares no code with the planner: it draws all partitions, all sizes of groups and all shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from built_networks import series
from groupings import partitions

from advisor.domain.allowed_cores import parse_allowed
from advisor.domain.curves import TabulatedCurves
from advisor.errors import ImpossibleTarget
from advisor.planning import Request, plan

COUNTS = 8  # that tables know
CASES = 30  # a seed
NAMES = "abcde"


@dataclass(frozen=True)
class Case:
    seconds: np.ndarray[Any, Any]  # (n, COUNTS)
    visits: list[float]
    cores: int
    rules: dict[str, Any] = field(default_factory=dict)
    own: dict[str, list[int]] = field(default_factory=dict)  # the counts that components allow themselves

    @property
    def keys(self) -> list[str]:
        return list(NAMES[: len(self.seconds)])

    def plan(self, **request: Any) -> Any:
        curves = TabulatedCurves.from_arrays(np.arange(1, COUNTS + 1), self.seconds)
        own = (self.own.get(key) for key in self.keys)
        curves = replace(curves, allowed=tuple(each and parse_allowed("own", each) for each in own))
        visits = dict(zip(self.keys, self.visits, strict=True))
        return plan(
            series(*self.keys), curves, Request(**{"cores": self.cores, "visits": visits, **self.rules, **request})
        )

    def shapes(self, row: int, size: int) -> list[tuple[int, int]]:
        """All (cores per instance, instances) on at most `size` cores that the rules leave."""
        key, allowed, pinned = self.keys[row], self.rules.get("allowed"), self.rules.get("pinned", {})
        pin = pinned.get(key, {})
        found = []
        for p, n in itertools.product(range(1, COUNTS + 1), range(1, 4)):
            legal = p * n <= size and self.rules.get("minimum", {}).get(key, 1) <= p
            legal &= p <= self.rules.get("maximum", {}).get(key, COUNTS)
            legal &= (allowed is None or p in allowed) and p in self.own.get(key, range(1, COUNTS + 1))
            legal &= pin.get("cores", p) == p
            legal &= (
                n == pin["instances"] if "instances" in pin else n <= self.rules.get("instances_max", {}).get(key, 1)
            )
            if legal:
                found.append((p, n))
        return found

    def turn(self, row: int, size: int) -> float:
        """The shortest turn on `size` cores."""
        return min((self.visits[row] * self.seconds[row, p - 1] / n for p, n in self.shapes(row, size)), default=np.inf)

    def stay(self, row: int, size: int) -> float:
        return min((self.visits[row] * self.seconds[row, p - 1] for p, n in self.shapes(row, size)), default=np.inf)

    def groupings(self, cores: int) -> Iterator[tuple[float, int, float]]:
        """(period, cores, shortest latency) of all partitions on all sizes."""
        turns = [[self.turn(row, size) for size in range(1, cores + 1)] for row in range(len(self.keys))]
        stays = [[self.stay(row, size) for size in range(1, cores + 1)] for row in range(len(self.keys))]
        for groups in partitions(list(range(len(self.keys)))):
            for sizes in itertools.product(range(1, cores + 1), repeat=len(groups)):
                if sum(sizes) > cores:
                    continue
                period = max(
                    sum(turns[row][size - 1] for row in group) for group, size in zip(groups, sizes, strict=True)
                )
                if np.isfinite(period):
                    stay = sum(stays[row][size - 1] for group, size in zip(groups, sizes, strict=True) for row in group)
                    yield period, sum(sizes), stay


def draw(rng: np.random.Generator, n: int, cores: int, *, rules: bool = True) -> Case:
    """A random case: curves that saturate or rise, some with rules."""
    p = np.arange(1, COUNTS + 1)
    work, serial = rng.lognormal(0, 1, (n, 1)), rng.random((n, 1)) * 0.4
    seconds = work * (serial + (1 - serial) / p) + (rng.random((n, 1)) < 0.4) * 0.05 * work * p
    visits = rng.choice([0.5, 1.0, 1.0, 2.0], n).tolist()
    given: dict[str, Any] = {}
    keys = NAMES[:n]
    if rules and rng.random() < 0.5:
        given["allowed"] = [1, 2, 4, 8] if rng.random() < 0.5 else [1, 3, 5]
    elif rules and rng.random() < 0.5:
        given["minimum"] = {keys[0]: int(rng.integers(1, min(cores, 3) + 1))}
        given["maximum"] = {keys[-1]: int(rng.integers(3, 6))}
    elif rules:
        pins: list[dict[str, int]] = [{"cores": min(2, cores)}, {"cores": 1}, {"cores": 1, "instances": min(2, cores)}]
        given["pinned"] = {str(rng.choice(list(keys))): pins[int(rng.integers(3))]}
    if rng.random() < 0.5:
        given["instances_max"] = {str(key): int(rng.integers(1, 4)) for key in keys}
    own = {str(key): [[1, 4], [1, 2, 5], [1, 3]][int(rng.integers(3))] for key in keys if rng.random() < 0.3}
    return Case(
        seconds, visits, cores, given, own if rules and "pinned" not in given and "minimum" not in given else {}
    )


def used(answer: Any) -> int:
    own = answer.cores.keys() - answer.in_turn.keys()
    assert sum(answer.cores[key] * answer.instances[key] for key in own) <= answer.cores_used
    return answer.cores_used


def check(case: Case, answer: Any) -> None:
    """The answer can be carried out, and its figures are those of the formulas."""
    groups = answer.groups or [(answer.cores[key] * answer.instances[key], (key,)) for key in case.keys]
    assert sorted(key for _, keys in groups for key in keys) == case.keys
    cycles = []
    for size, keys in groups:
        rows = [case.keys.index(key) for key in keys]
        for row, key in zip(rows, keys, strict=True):
            assert (answer.cores[key], answer.instances[key]) in case.shapes(row, size), case
        cycles.append(
            sum(
                case.visits[row] * case.seconds[row, answer.cores[key] - 1] / answer.instances[key]
                for row, key in zip(rows, keys, strict=True)
            )
        )
    assert answer.throughput_per_s == pytest.approx(1 / max(cycles), rel=1e-9)
    slowest = {key for cycle, (_, keys) in zip(cycles, groups, strict=True) if cycle == max(cycles) for key in keys}
    assert slowest <= set(answer.bottleneck)
    assert used(answer) <= case.cores


def cases(seed: int, *, more: int = 0) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        n = int(rng.integers(2, 5))
        yield draw(rng, n, int(rng.integers(1, n + more)))


@pytest.mark.parametrize("seed", range(4))
def test_fewer_cores_than_components_under_every_rule(seed: int) -> None:
    for case in cases(seed):
        answer = case.plan()
        check(case, answer)
        period, cores, _ = min(case.groupings(case.cores), key=lambda one: (round(one[0], 12), one[1]))
        assert answer.throughput_per_s == pytest.approx(1 / period, rel=1e-9), case
        assert used(answer) == cores, case
        assert answer.gap == 0.0
        with pytest.raises(ImpossibleTarget) as raised:
            case.plan(objective="fewest_cores", target={"throughput_per_s": 1.001 / period})
        assert raised.value.bound == pytest.approx(1 / period, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_turns_where_they_are_better_are_the_best_of_all_groupings(seed: int) -> None:
    for case in cases(10 + seed, more=3):
        answer = case.plan(turns="better")
        check(case, answer)
        every = list(case.groupings(case.cores))
        assert answer.throughput_per_s == pytest.approx(1 / min(period for period, _, _ in every), rel=1e-9), case
        periods = sorted({period for period, _, _ in every})
        period = periods[len(periods) // 3]
        target = {"throughput_per_s": 1 / period}
        fewest = case.plan(turns="better", objective="fewest_cores", target=target)
        check(case, fewest)
        assert used(fewest) == min(cores for some, cores, _ in every if some <= period * (1 + 1e-12)), case
        lowest = case.plan(turns="better", objective="latency")
        latencies = sorted({latency for _, _, latency in every})
        assert lowest.latency_s == pytest.approx(latencies[0], rel=1e-9), case
        target = {"latency_s": latencies[len(latencies) // 2]}
        fewest = case.plan(turns="better", objective="fewest_cores", target=target)
        assert used(fewest) == min(cores for _, cores, some in every if some <= target["latency_s"] * (1 + 1e-12)), case
        with pytest.raises(ImpossibleTarget):
            case.plan(turns="better", objective="fewest_cores", target={"latency_s": latencies[0] * 0.999})
