"""Turns with what couples groups - contention, nodes and memory, joins, queues - against every grouping.

The oracle shares no code with the planner: its own fixed point, its own packing of nodes, its own equations of queues.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from built_networks import series
from groupings import partitions

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import ImpossibleTarget, TargetNotReached
from advisor.planning import Request, plan

COUNTS = 6  # that tables know
CASES = 12  # a seed
NAMES = "abcd"


@dataclass(frozen=True)
class Grouping:
    """A partition with sizes, and the cores of each component: on which it is fastest within its group."""

    groups: list[list[int]]
    sizes: tuple[int, ...]
    of: list[int]
    cores: list[int]


@dataclass(frozen=True)
class Case:
    seconds: Any  # (n, COUNTS)
    cores: int
    variation: float = 0.0
    contention: float = 0.0
    peak_bytes: Any = 0.0

    @property
    def keys(self) -> list[str]:
        return list(NAMES[: len(self.seconds)])

    def plan(self, network: Network | None = None, **request: Any) -> Any:
        curves = TabulatedCurves.from_arrays(
            np.arange(1, COUNTS + 1), self.seconds, variation=self.variation, contention=self.contention,
            peak_bytes=self.peak_bytes,
        )  # fmt: skip
        return plan(network or series(*self.keys), curves, Request(**{"cores": self.cores, **request}))

    def groupings(self, cores: int | None = None, widest: int | None = None) -> Iterator[Grouping]:
        given = cores or self.cores
        for groups in partitions(list(range(len(self.keys)))):
            for sizes in itertools.product(range(1, min(given, widest or given) + 1), repeat=len(groups)):
                if sum(sizes) <= given:
                    of = [next(g for g, rows in enumerate(groups) if row in rows) for row in range(len(self.keys))]
                    best = [1 + int(np.argmin(self.seconds[row, : sizes[g]])) for row, g in enumerate(of)]
                    yield Grouping(groups, sizes, of, best)

    def shapes(self) -> Iterator[tuple[int, ...]]:
        """All counts of the components."""
        return itertools.product(range(1, COUNTS + 1), repeat=len(self.seconds))

    def slower(self, some: Grouping) -> Iterator[Grouping]:
        """The grouping with every count of each component within its group."""
        for cores in itertools.product(*(range(1, min(some.sizes[g], COUNTS) + 1) for g in some.of)):
            yield replace(some, cores=list(cores))

    def times(self, some: Grouping) -> list[float]:
        return [float(self.seconds[row, p - 1]) for row, p in enumerate(some.cores)]

    def period(self, some: Grouping) -> float:
        times = self.times(some)
        return max(sum(times[row] for row in rows) for rows in some.groups)

    def contended(self, some: Grouping) -> float:
        """The period where others slow each component down: by iteration from above and below alike."""
        alone = np.array(self.times(some))
        times = alone.copy()
        for _ in range(60):
            period = max(sum(times[row] for row in rows) for rows in some.groups)
            active = [sum(times[row] * some.cores[row] for row in rows) / period for rows in some.groups]
            others = np.array([sum(active) - active[g] for g in some.of])
            times = 0.5 * times + 0.5 * alone * (1 + self.contention * others)
        return max(sum(times[row] for row in rows) for rows in some.groups)


def cases(seed: int, least: int = 2, most: int = 4, **given: Any) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    p = np.arange(1, COUNTS + 1)
    for _ in range(CASES):
        n = int(rng.integers(least, most + 1))
        work, serial = rng.lognormal(0, 0.8, (n, 1)), rng.random((n, 1)) * 0.4
        seconds = work * (serial + (1 - serial) / p) + (rng.random((n, 1)) < 0.3) * 0.05 * work * p
        yield Case(seconds, int(rng.integers(1, n + 2)), **given)


def used(answer: Any) -> int:
    return answer.cores_used


@pytest.mark.parametrize("seed", range(2))
def test_contention_is_between_groups_only(seed: int) -> None:
    for case in cases(seed, most=3, contention=0.3):
        answer = case.plan(turns="better")
        best = min(case.contended(some) for some in case.groupings())
        assert answer.throughput_per_s == pytest.approx(1 / best, rel=1e-6), case
        target = 0.6 / best
        fewest = case.plan(turns="better", objective="fewest_cores", target={"throughput_per_s": target})
        wanted = min(sum(some.sizes) for some in case.groupings() if case.contended(some) * target <= 1)
        assert used(fewest) == wanted, case
        # On fewer cores than it is fastest on, a component slows the others less: only what all of those miss is impossible.
        least = min(case.contended(other) for some in case.groupings() for other in case.slower(some))
        with pytest.raises(TargetNotReached if least < best * (1 - 1e-9) else (TargetNotReached, ImpossibleTarget)):
            case.plan(turns="better", objective="fewest_cores", target={"throughput_per_s": 1.001 / best})
        work = min(sum(case.seconds[row, p - 1] * p for row, p in enumerate(cores)) for cores in case.shapes())
        target = {
            "throughput_per_s": 1.001 * case.cores / work
        }  # more than what there is to do allows, slowed by nobody
        with pytest.raises(ImpossibleTarget):
            case.plan(turns="better", objective="fewest_cores", target=target)


def fits(case: Case, some: Grouping, nodes: int, memory: float) -> bool:
    """Whether the groups can be put on the nodes, by trying all ways."""
    sizes = [nodes] * (case.cores // nodes) + ([case.cores % nodes] if case.cores % nodes else [])
    peaks = np.broadcast_to(case.peak_bytes, len(case.keys))
    for where in itertools.product(range(len(sizes)), repeat=len(some.sizes)):
        cores = [
            sum(size for size, at in zip(some.sizes, where, strict=True) if at == node) for node in range(len(sizes))
        ]
        needs = [
            sum(peaks[row] for rows, at in zip(some.groups, where, strict=True) if at == node for row in rows)
            for node in range(len(sizes))
        ]
        if all(c <= s for c, s in zip(cores, sizes, strict=True)) and max(needs) <= memory:
            return True
    return False


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", [2, 3])
def test_groups_lie_on_nodes_with_their_memory(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(50 + seed)
    checked = 0
    for plain in cases(20 + seed, least=3):
        case = Case(plain.seconds, max(plain.cores, 3), peak_bytes=rng.choice([1.0, 2.0], len(plain.seconds)) * 1e9)
        memory = 4e9
        possible = [some for some in case.groupings(widest=nodes) if fits(case, some, nodes, memory)]
        given = {"nodes": nodes, "memory_bytes": memory, "turns": "better"}
        if not possible:
            with pytest.raises(ImpossibleTarget):
                case.plan(**given)
            continue
        checked += 1
        answer = case.plan(**given)
        best = min(case.period(some) for some in possible)
        assert answer.throughput_per_s == pytest.approx(1 / best, rel=1e-9), case
        if answer.groups:  # cores of one's own are preferred, even if they are more
            assert used(answer) == min(sum(some.sizes) for some in possible if case.period(some) <= best * (1 + 1e-12))
        for cores, keys in answer.groups:
            assert len({answer.placement[key] for key in keys}) == 1
            assert cores <= nodes
    assert checked >= 4


def joined() -> Network:
    """a, then b and c at the same time, then d."""
    boxes = [{"kind": "box", "name": name} for name in NAMES]
    return network_from_nodes([*boxes, {"kind": "join", "children": [1, 2]}, {"kind": "series", "children": [0, 4, 3]}])


@pytest.mark.parametrize("seed", range(3))
def test_branches_of_a_join_that_share_cores_go_one_after_the_other(seed: int) -> None:
    for case in cases(30 + seed, least=4):

        def latency(some: Grouping, case: Case = case) -> float:
            a, b, c, d = case.times(some)
            return a + d + (b + c if some.of[1] == some.of[2] else max(b, c))

        answer = case.plan(joined(), objective="latency", turns="better")
        assert answer.latency_s == pytest.approx(min(map(latency, case.groupings())), rel=1e-9), case


JUDGED: list[tuple[dict[str, Any], Callable[[Any], float]]] = [
    ({"objective": "latency", "arrival_per_s": 0.0}, lambda answer: answer.latency_queued_s),
    ({"objective": "throughput"}, lambda answer: -answer.throughput_per_s),
]


@pytest.mark.parametrize(("asked", "value"), JUDGED)
def test_a_descent_tells_how_far_from_the_best_it_may_be(asked: dict[str, Any], value: Callable[[Any], float]) -> None:
    gaps = []
    for drawn in cases(80, least=3):
        case = Case(drawn.seconds, 2, contention=0.1, variation=0.2)
        if "arrival_per_s" in asked:
            asked = {**asked, "arrival_per_s": 0.5 * case.plan().throughput_per_s}
        best, found = case.plan(**asked), case.plan(**asked, work_max=12)
        better, worse = value(best), value(found)
        assert worse >= better - 1e-9 * abs(better)
        assert found.steps <= 40
        if found.gap is not None and asked["objective"] == "latency":
            assert worse <= better * (1 + found.gap) * (1 + 1e-9)
            gaps.append(worse / better - 1)
        if found.gap is not None and asked["objective"] == "throughput":
            assert -better <= -worse / (1 - found.gap) * (1 + 1e-9)
    assert not gaps or np.median(gaps) < 0.05
