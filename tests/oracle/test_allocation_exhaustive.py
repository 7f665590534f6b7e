"""Allocations against exhaustive search in exact arithmetic: every allocation of every small case is looked at.

The oracle shares no code with the planner: fractions instead of floats, enumeration instead of bisection.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from groupings import partitions

from advisor.domain.curves import AmdahlCurves
from advisor.domain.networks import Network, series
from advisor.errors import ImpossibleTarget
from advisor.planning import Request, plan

CASES = 25  # a seed
NAMES = "abcdef"


@dataclass(frozen=True)
class Case:
    serial: list[float]
    parallel: list[float]
    visits: list[float]
    low: list[int]
    high: list[int]
    instances: list[int]
    cores: int
    keys: list[str] = field(default_factory=list)

    @property
    def network(self) -> Network:
        return series(*self.keys)

    def plan(self, **request: Any) -> Any:
        curves = AmdahlCurves(np.array(self.serial), np.array(self.parallel))
        given = {
            "visits": dict(zip(self.keys, self.visits, strict=True)),
            "minimum": dict(zip(self.keys, self.low, strict=True)),
            "maximum": dict(zip(self.keys, self.high, strict=True)),
            "instances_max": dict(zip(self.keys, self.instances, strict=True)),
        }
        own = {"turns": "never"} if self.cores >= len(self.keys) else {}
        return plan(self.network, curves, Request(**{"cores": self.cores, **own, **given, **request}))

    def seconds(self, row: int, cores: int) -> Fraction:
        work = Fraction(self.serial[row]) + Fraction(self.parallel[row]) / cores
        return Fraction(self.visits[row]) * work

    def shapes(self, row: int, cores: int) -> list[tuple[int, int]]:
        """All (cores per instance, instances) on at most `cores` cores."""
        return [
            (p, n)
            for p in range(self.low[row], min(self.high[row], cores) + 1)
            for n in range(1, self.instances[row] + 1)
            if n * p <= cores
        ]

    def allocations(self, cores: int, *, single: bool = False) -> Iterator[list[tuple[int, int]]]:
        """All allocations with own cores, on at most `cores` cores in sum."""

        def extend(chosen: list[tuple[int, int]], left: int) -> Iterator[list[tuple[int, int]]]:
            if len(chosen) == len(self.keys):
                yield list(chosen)
                return
            for p, n in self.shapes(len(chosen), left):
                if not (single and n > 1):
                    yield from extend([*chosen, (p, n)], left - n * p)

        return extend([], cores)

    def period(self, allocation: Sequence[tuple[int, int]]) -> Fraction:
        return max(self.seconds(row, p) / n for row, (p, n) in enumerate(allocation))

    def latency(self, allocation: Sequence[tuple[int, int]]) -> Fraction:
        return sum((self.seconds(row, p) for row, (p, _) in enumerate(allocation)), Fraction(0))


def taken(allocation: Sequence[tuple[int, int]]) -> int:
    return sum(p * n for p, n in allocation)


def draw(rng: np.random.Generator, n: int, cores: int, *, instances: int = 1, bounds: bool = True) -> Case:
    """A random case; half of them with small whole numbers, where exact ties abound."""
    if rng.random() < 0.5:
        serial, parallel = rng.integers(0, 4, n).astype(float), rng.integers(0, 13, n).astype(float)
    else:
        serial, parallel = rng.lognormal(-1, 1, n), rng.lognormal(1, 1, n)
    serial[(serial + parallel) == 0] = 1.0
    visits = rng.choice([0.0, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 3.0], n)
    if not visits.any():
        visits[0] = 1.0
    low = np.where(rng.random(n) < 0.2 * bounds, rng.integers(1, 3, n), 1)
    high = np.where(rng.random(n) < 0.3 * bounds, low + rng.integers(0, 4, n), 2**20)
    return Case(
        serial.tolist(), parallel.tolist(), visits.tolist(), low.tolist(), high.tolist(),
        rng.integers(1, instances + 1, n).tolist(), cores, list(NAMES[:n]),
    )  # fmt: skip


def cases(seed: int, *, instances: int = 1) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    count = 0
    while count < CASES:
        n = int(rng.integers(1, 4 if instances > 1 else 5))
        case = draw(rng, n, int(rng.integers(n, 10)), instances=instances)
        if sum(case.low) <= case.cores:
            count += 1
            yield case


def used(answer: Any) -> int:
    assert sum(answer.cores[key] * answer.instances[key] for key in answer.cores) <= answer.cores_used
    return answer.cores_used


def check_own(case: Case, answer: Any) -> list[tuple[int, int]]:
    """The answer is a legal allocation, and its figures are those of the formulas."""
    allocation = [(answer.runs_on[key], answer.instances[key]) for key in case.keys]
    for row, shape in enumerate(allocation):
        assert shape in case.shapes(row, taken(allocation))
    assert answer.groups == ()
    assert answer.throughput_per_s == pytest.approx(1 / case.period(allocation), rel=1e-9)
    assert answer.latency_s == pytest.approx(float(case.latency(allocation)), rel=1e-9)
    slow = [key for row, key in enumerate(case.keys)
            if case.seconds(row, allocation[row][0]) / allocation[row][1] == case.period(allocation)]  # fmt: skip
    assert set(slow) <= set(answer.bottleneck)
    return allocation


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("instances", [1, 4])
def test_throughput_is_the_best_of_all_allocations(seed: int, instances: int) -> None:
    for case in cases(seed, instances=instances):
        answer = case.plan()
        allocation = check_own(case, answer)
        assert answer.spare == case.cores - taken(allocation) >= 0
        best = min((case.period(other), taken(other), case.latency(other)) for other in case.allocations(case.cores))
        assert (float(case.period(allocation)), taken(allocation)) == (pytest.approx(float(best[0])), best[1]), case
        assert float(case.latency(allocation)) == pytest.approx(float(best[2]), rel=1e-9), case


@pytest.mark.parametrize("seed", range(8))
def test_latency_is_the_lowest_of_all_allocations(seed: int) -> None:
    for case in cases(100 + seed):
        answer = case.plan(objective="latency")
        allocation = check_own(case, answer)
        # Ties: fewest cores, then text order, the first components getting the equal cores.
        best = min(
            (case.latency(other), taken(other), [-p for p, _ in other])
            for other in case.allocations(case.cores, single=True)
        )
        assert [-p for p, _ in allocation] == best[2], case
        assert answer.spare == case.cores - best[1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("instances", [1, 3])
def test_fewest_cores_for_a_throughput(seed: int, instances: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    for case in cases(200 + seed, instances=instances):
        reached = sorted({case.period(other) for other in case.allocations(case.cores)})
        # A period that is just reached, one between two, or one below the best of all.
        period = Fraction(rng.choice([reached[0], reached[len(reached) // 2], reached[-1]])) * Fraction(
            rng.choice([1.0, 1.0, 1.05, 0.8])
        )
        target = {"throughput_per_s": float(1 / period)}
        enough = [
            other for other in case.allocations(case.cores) if case.period(other) <= period * (1 + Fraction(1, 10**12))
        ]
        if not enough:
            with pytest.raises(ImpossibleTarget) as raised:
                case.plan(objective="fewest_cores", target=target)
            assert raised.value.field in case.keys
            assert raised.value.bound >= float(1 / reached[0]) * (1 - 1e-9)
            assert raised.value.bound < target["throughput_per_s"]
            continue
        allocation = check_own(case, case.plan(objective="fewest_cores", target=target))
        best = min((taken(other), case.latency(other)) for other in enough)
        assert taken(allocation) == best[0], case
        assert float(case.latency(allocation)) == pytest.approx(float(best[1]), rel=1e-9), case


@pytest.mark.parametrize("seed", range(8))
def test_fewest_cores_for_a_latency(seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    for case in cases(300 + seed):
        every = list(case.allocations(case.cores, single=True))
        reached = sorted({case.latency(other) for other in every})
        latency = rng.choice([reached[0], reached[len(reached) // 2], reached[-1]]) * Fraction(
            rng.choice([1.0, 1.05, 0.9])
        )
        target = {"latency_s": float(latency)}
        enough = [other for other in every if case.latency(other) <= latency * (1 + Fraction(1, 10**12))]
        if not enough:
            with pytest.raises(ImpossibleTarget) as raised:
                case.plan(objective="fewest_cores", target=target)
            assert raised.value.field in case.keys
            assert target["latency_s"] < raised.value.bound <= float(reached[0]) * (1 + 1e-9)
            continue
        allocation = check_own(case, case.plan(objective="fewest_cores", target=target))
        best = min((taken(other), case.latency(other)) for other in enough)
        assert taken(allocation) == best[0], case
        assert float(case.latency(allocation)) == pytest.approx(float(best[1]), rel=1e-9), case


def sizes(groups: int, cores: int) -> Iterator[tuple[int, ...]]:
    return (some for some in itertools.product(range(1, cores + 1), repeat=groups) if sum(some) <= cores)


def turn(case: Case, row: int, size: int) -> Fraction | None:
    return min((case.seconds(row, p) / n for p, n in case.shapes(row, size)), default=None)


def groupings(case: Case) -> Iterator[tuple[Fraction, int, Fraction]]:
    """(period, cores, latency) of every way to share the cores in groups."""
    for groups in partitions(list(range(len(case.keys)))):
        for some in sizes(len(groups), case.cores):
            turns = [[turn(case, row, size) for row in group] for group, size in zip(groups, some, strict=True)]
            if any(one is None for group in turns for one in group):
                continue
            latency = sum(
                (
                    case.seconds(row, min(size, case.high[row]))
                    for group, size in zip(groups, some, strict=True)
                    for row in group
                ),
                Fraction(0),
            )
            yield (
                max(sum((one for one in group if one is not None), Fraction(0)) for group in turns),
                sum(some),
                latency,
            )


def shared_cases(seed: int, *, instances: int = 1, count: int = CASES) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    while count:
        n = int(rng.integers(2, 6))
        case = draw(rng, n, int(rng.integers(1, n)), instances=instances, bounds=bool(rng.random() < 0.3))
        if max(case.low) <= case.cores:
            count -= 1
            yield case


def check_shared(case: Case, answer: Any) -> None:
    """The groups hold every component once and fit; the figures are those of the groups."""
    assert sorted(key for _, keys in answer.groups for key in keys) == sorted(case.keys)
    cycles = []
    for size, keys in answer.groups:
        assert all(answer.runs_on[key] * answer.instances[key] <= size for key in keys)
        rows = [case.keys.index(key) for key in keys]
        assert all(case.low[row] <= answer.runs_on[case.keys[row]] <= case.high[row] for row in rows)
        cycles.append(
            sum(case.seconds(row, answer.runs_on[case.keys[row]]) / answer.instances[case.keys[row]] for row in rows)
        )
    assert answer.throughput_per_s == pytest.approx(float(1 / max(cycles)), rel=1e-9)
    assert used(answer) <= case.cores
    slowest = {
        key for cycle, (_, keys) in zip(cycles, answer.groups, strict=True) if cycle == max(cycles) for key in keys
    }
    assert slowest <= set(answer.bottleneck)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("instances", [1, 3])
def test_sharing_is_the_best_of_all_groupings(seed: int, instances: int) -> None:
    for case in shared_cases(400 + seed, instances=instances):
        answer = case.plan()
        check_shared(case, answer)
        period, cores, latency = min(groupings(case))
        assert answer.throughput_per_s == pytest.approx(float(1 / period), rel=1e-9), case
        assert used(answer) == cores, case
        if instances == 1:
            assert answer.latency_s == pytest.approx(float(latency), rel=1e-9), case


@pytest.mark.parametrize("seed", range(4))
def test_sharing_for_latency_and_for_targets(seed: int) -> None:
    for case in shared_cases(500 + seed):
        every = list(groupings(case))
        latency, cores = min((latency, cores) for _, cores, latency in every)
        answer = case.plan(objective="latency")
        check_shared(case, answer)
        assert (answer.latency_s, used(answer)) == (pytest.approx(float(latency), rel=1e-9), cores), case
        periods = sorted({period for period, _, _ in every})
        for period in (periods[0], periods[len(periods) // 2]):
            answer = case.plan(objective="fewest_cores", target={"throughput_per_s": float(1 / period)})
            check_shared(case, answer)
            assert used(answer) == min(cores for some, cores, _ in every if some <= period), case
        with pytest.raises(ImpossibleTarget) as raised:
            case.plan(objective="fewest_cores", target={"throughput_per_s": float(1 / periods[0]) * 1.001})
        assert raised.value.bound == pytest.approx(float(1 / periods[0]), rel=1e-9)
        latencies = sorted({some for _, _, some in every})
        middle = latencies[len(latencies) // 2]
        answer = case.plan(objective="fewest_cores", target={"latency_s": float(middle)})
        assert used(answer) == min(cores for _, cores, some in every if some <= middle), case
        with pytest.raises(ImpossibleTarget):
            case.plan(objective="fewest_cores", target={"latency_s": float(latencies[0]) * 0.999})
