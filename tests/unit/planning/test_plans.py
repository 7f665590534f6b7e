"""Plans: what they promise beyond being optimal, which `tests/oracle` shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdahl import amdahl_curves
from built_networks import series
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import planning
from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, MissingShares, TargetNotReached
from advisor.network import parse
from advisor.planning import plan

CHOICE = parse("a .. (b | c) .. d")
CURVES = amdahl_curves(np.array([0.1, 0.2, 0.1, 0.0]), np.array([1.0, 2.0, 4.0, 3.0]))
SHARES = [[3, 1]]


def Request(**given: Any) -> planning.Request:  # noqa: N802
    """Ask with turns where cores are fewer than components only: what cores of one's own promise is looked at here."""
    return planning.Request(**{"turns": "scarce", **given})


def curves(*pairs: tuple[float, float]) -> TabulatedCurves:
    return amdahl_curves(np.array([s for s, _ in pairs], float), np.array([q for _, q in pairs], float))


def pipeline(n: int) -> Network:
    return series(*(f"c{number}" for number in range(n)))


def codes(answer: Allocation) -> list[str]:
    return [reason.code for reason in answer.why]


def text(answer: Allocation, code: str) -> str:
    return next(reason.text for reason in answer.why if reason.code == code)


class TestVisits:
    def test_shares_are_normalised_and_multiply_down(self) -> None:
        network = parse("a .. (b | (c || d)) .. (e | f)")
        ones = curves(*[(1, 0)] * 6)
        answer = plan(network, ones, Request(cores=6, shares=[[1, 3], [0.5, 0.5], [2, 0]]))
        # 1 + 1/4 + 3/4 (1/2 + 1/2) + 1 + 0, each visit taking one second
        assert answer.latency_s == pytest.approx(3.0)

    def test_a_choice_without_shares_is_named_with_its_place(self) -> None:
        with pytest.raises(MissingShares) as raised:
            plan(parse("a ..\n(b | c)"), curves((1, 0), (1, 0), (1, 0)), Request(cores=4))
        assert "line 2, column 4" in str(raised.value)
        assert (raised.value.field, raised.value.bound) == ("shares[0]", "2:4")

    def test_visits_stand_in_for_shares_where_all_of_them_are_given(self) -> None:
        given = Request(cores=16, visits={"b": 0.75, "c": 0.25})
        assert plan(CHOICE, CURVES, given).cores == plan(CHOICE, CURVES, Request(cores=16, shares=SHARES)).cores
        with pytest.raises(MissingShares):
            plan(CHOICE, CURVES, Request(cores=16, visits={"b": 0.75}))

    def test_no_shares_are_needed_below_a_branch_that_nothing_takes(self) -> None:
        network = parse("a | (b | c)")
        answer = plan(network, curves((1, 1), (1, 1), (1, 1)), Request(cores=9, shares=[[1, 0], None]))  # type: ignore[list-item]
        assert answer.cores["b"] == answer.cores["c"] == 1

    def test_a_component_without_visits_gets_its_minimum(self) -> None:
        answer = plan(
            pipeline(3), curves((0, 9), (0, 9), (0, 9)), Request(cores=12, visits={"c1": 0}, minimum={"c1": 2})
        )
        assert answer.cores == {"c0": 5, "c1": 2, "c2": 5}

    def test_a_box_without_input_runs_once_and_not_once_a_record(self) -> None:
        network = parse("box start (-> (a)); net m connect start .. work;")
        answer = plan(network, curves((100, 100), (0, 6)), Request(cores=7))
        assert answer.cores == {"start": 1, "work": 6}
        assert plan(network, curves((100, 100), (0, 6)), Request(cores=7, visits={"start": 1})).cores["start"] == 6


class TestTies:
    def test_the_last_bit_of_a_double_buys_no_core(self) -> None:
        # 0.1 + 0.2 is a bit above 0.3 = 0.6 / 2: the same period, for which nobody needs a third core.
        answer = plan(pipeline(2), curves((0.1, 0.2), (0, 0.6)), Request(cores=4, maximum={"c1": 2}))
        assert answer.cores == {"c0": 1, "c1": 2}
        assert set(answer.bottleneck) == {"c0", "c1"}

    def test_equal_gains_go_to_the_first_in_text_order(self) -> None:
        answer = plan(pipeline(4), curves(*[(0, 1)] * 4), Request(cores=6, objective="latency"))
        assert list(answer.cores.values()) == [2, 2, 1, 1]
        answer = plan(pipeline(3), curves((0, 0.1 + 0.2), (0, 0.3), (0, 0.3)), Request(cores=4, objective="latency"))
        assert list(answer.cores.values()) == [2, 1, 1]
        answer = plan(pipeline(3), curves((0, 0.3), (0, 0.1 + 0.2), (0, 0.3)), Request(cores=4, objective="latency"))
        assert list(answer.cores.values()) == [2, 1, 1]


POSITIVE = st.floats(1e-6, 1e3)
PAIRS = st.lists(st.tuples(st.just(0.0) | POSITIVE, POSITIVE), min_size=1, max_size=8)
OWN_OBJECTIVES = st.sampled_from(["throughput", "latency"])


class TestLaws:
    @given(PAIRS, st.integers(0, 3000), OWN_OBJECTIVES, st.sampled_from([0.125, 64.0]), st.sampled_from([1, 4]))
    @settings(max_examples=100, deadline=None)
    def test_the_unit_of_time_does_not_matter(
        self, pairs: Any, extra: int, objective: str, scale: float, instances: int
    ) -> None:
        request = Request(cores=len(pairs) + extra, objective=objective, instances_max=instances)
        network = pipeline(len(pairs))
        one = plan(network, curves(*pairs), request)
        other = plan(network, curves(*[(s * scale, q * scale) for s, q in pairs]), request)
        assert one.cores == other.cores
        assert one.instances == other.instances
        assert other.latency_s == pytest.approx(one.latency_s * scale)

    @given(st.lists(st.tuples(st.just(0.0) | POSITIVE, POSITIVE), min_size=2, max_size=30), st.data())
    @settings(max_examples=60, deadline=None)
    def test_sharing_stays_within_its_bound(self, pairs: Any, data: st.DataObject) -> None:
        cores = data.draw(st.integers(1, len(pairs) - 1))
        answer = plan(pipeline(len(pairs)), curves(*pairs), Request(cores=cores))
        work = sum(s + q for s, q in pairs)
        assert answer.throughput_per_s <= cores / work * (1 + 1e-9)
        assert answer.throughput_per_s >= 1 / work * (1 - 1e-9)  # all on one core is always possible
        assert sum(size for size, _ in answer.groups) + answer.spare == cores
        assert sorted(key for _, keys in answer.groups for key in keys) == sorted(answer.instances)


class TestImpossible:
    def test_a_serial_part_forbids_a_throughput(self) -> None:
        request = Request(objective="fewest_cores", target={"throughput_per_s": 7}, shares=SHARES)
        with pytest.raises(ImpossibleTarget) as raised:
            plan(CHOICE, CURVES, request)
        # a takes 0.1 s at least and b 0.75 * 0.2 s
        assert raised.value.field == "b"
        assert raised.value.bound == pytest.approx(1 / 0.15, rel=1e-4)
        assert raised.value.hint

    @pytest.mark.parametrize(
        ("pairs", "asked", "field", "bound"),
        [
            ([(0, 1), (0, 8)], {"cores": 99, "maximum": {"c1": 4}, "target": {"throughput_per_s": 0.51}}, "c1", 0.5),
            ([(0, 1), (0, 8)], {"cores": 8, "target": {"throughput_per_s": 0.9}}, "c1", 0.875),
            ([(1, 1), (3, 1), (0, 1)], {"target": {"latency_s": 3.9}}, "c1", 4.0),
        ],
        ids=["a maximum", "too few cores", "serial parts"],
    )
    def test_what_forbids_a_target_is_named_with_what_it_allows(
        self, pairs: Any, asked: Any, field: str, bound: float
    ) -> None:
        with pytest.raises(ImpossibleTarget) as raised:
            plan(pipeline(len(pairs)), curves(*pairs), Request(objective="fewest_cores", **asked))
        assert (raised.value.field, raised.value.bound) == (field, pytest.approx(bound, rel=1e-4))
        assert "cores" not in asked or "maximum" in asked or "8 cores" in str(raised.value)

    def test_many_components_that_share_are_impossible_beyond_the_bound_only(self) -> None:
        rng = np.random.default_rng(0)
        network, some = pipeline(40), curves(*zip(rng.lognormal(0, 1, 40), rng.lognormal(0, 1, 40), strict=True))
        best = plan(network, some, Request(cores=7))
        bound = 7 / float((some.elapsed_s[:, 0]).sum())

        def target(rate: float) -> Allocation:
            return plan(network, some, Request(cores=7, objective="fewest_cores", target={"throughput_per_s": rate}))

        assert target(best.throughput_per_s * 0.5).spare >= 3
        assert target(best.throughput_per_s * (1 - 1e-9)).spare >= 0
        with pytest.raises(ImpossibleTarget) as raised:
            target(bound * 1.001)
        assert raised.value.bound == pytest.approx(bound)
        assert best.throughput_per_s < bound * (1 - 1e-6)
        with pytest.raises(TargetNotReached, match="is not found"):
            target(bound * (1 - 1e-9))


class TestReasons:
    def test_the_bottlenecks_and_the_spare_core(self) -> None:
        answer = plan(CHOICE, CURVES, Request(cores=16, shares=SHARES))
        assert answer.bottleneck == ("b", "c")
        assert [reason.component for reason in answer.why if reason.code == "bottleneck"] == ["b", "c"]
        more = plan(CHOICE, CURVES, Request(cores=17, shares=SHARES))
        assert more.throughput_per_s == pytest.approx(2.0)
        assert "1 of 16 cores stay free" in text(answer, "spare")

    def test_limits_that_bind_are_named(self) -> None:
        request = {"cores": 12, "maximum": {"c0": 2}, "minimum": {"c1": 5}}
        for objective in ("throughput", "latency"):
            answer = plan(pipeline(3), curves((0, 9), (0, 1), (0, 9)), Request(**request, objective=objective))
            named = {(reason.code, reason.component) for reason in answer.why}
            assert ("maximum", "c0") in named
        free = plan(pipeline(3), curves((0, 9), (0, 1), (0, 9)), Request(cores=12))
        assert "maximum" not in codes(free)

    def test_a_target_that_is_met(self) -> None:
        answer = plan(CHOICE, CURVES, Request(
            cores=20, shares=SHARES, objective="fewest_cores", target={"throughput_per_s": 1.5}))  # fmt: skip
        assert text(answer, "target") == "12 cores reach 1.538 records/s; the target is 1.5 records/s"
        assert answer.spare == 8

    def test_sharing_and_its_gap(self) -> None:
        small = plan(CHOICE, CURVES, Request(cores=3, shares=SHARES))
        assert "4 components share 3 cores in 2 groups" in text(small, "sharing")
        assert text(small, "sharing").endswith("there are fewer cores than components")
        assert "gap" not in codes(small)

    def test_reasons_stay_few_for_many_components(self) -> None:
        answer = plan(pipeline(500), curves(*[(1, 1)] * 500), Request(cores=700))
        assert len(answer.why) < 20
        assert "(and 497 more alike)" in answer.why[2].text
        assert all(isinstance(reason.text, str) and reason.text for reason in answer.why)


class TestExtremes:
    """Robust where curves are flat, equal, huge or tiny, and where there is a great deal of everything."""

    @pytest.mark.parametrize("objective", ["throughput", "latency"])
    @pytest.mark.parametrize(
        "pairs",
        [
            [(0.0, 1.0)] * 3,
            [(1.0, 0.0)] * 3,
            [(1.0, 1e-12)] * 3,
            [(1e-9, 0), (1e9, 1e9), (0, 1e-9)],
            [(1e9, 1e-9)] * 2 + [(0, 1e9)],
            [(0, 1e-300), (1, 1), (0, 1e-299)],
        ],
    )
    def test_curves_at_the_edge(self, pairs: Any, objective: str) -> None:
        for cores in (3, 4, 1000, 2**20):
            answer = plan(pipeline(3), curves(*pairs), Request(cores=cores, objective=objective))
            assert sum(answer.cores.values()) + answer.spare == cores
            assert 0 < answer.latency_s < float("inf")
            assert 0 < answer.throughput_per_s < float("inf")

    @pytest.mark.parametrize(("equal", "n"), [(True, 20_000), (False, 100_000)])
    def test_a_hundred_thousand_components(self, equal: bool, n: int) -> None:
        rng = np.random.default_rng(0)
        some = (
            amdahl_curves(np.full(n, 1.0), np.full(n, 1e-9))
            if equal
            else amdahl_curves(rng.lognormal(0, 1, n) * 1e-2, rng.lognormal(0, 1, n))
        )
        network = pipeline(n)
        for request in (
            {"cores": 10**6},
            {"cores": 2**20, "objective": "latency"},
            {"cores": 10**6, "instances_max": 4},
        ):
            answer = plan(network, some, Request(**request))
            total = sum(cores * answer.instances[key] for key, cores in answer.cores.items())
            assert total + answer.spare == request["cores"]

    def test_instances_without_end(self) -> None:
        answer = plan(pipeline(3), curves((1, 1), (2, 0), (0, 5)), Request(cores=10_000, instances_max=2**20))
        # 9 core-seconds a record when every instance has one core
        assert answer.throughput_per_s == pytest.approx(10_000 / 9, rel=1e-3)
        answer = plan(pipeline(3), curves((1, 1), (2, 0), (0, 5)), Request(cores=2, instances_max=2**20))
        assert answer.throughput_per_s == pytest.approx(2 / 9)


def test_no_cores_buy_a_surer_bound_of_a_longer_time() -> None:
    learned = TabulatedCurves.from_arrays([1, 2, 4], [[1.0, 0.5, 0.55]], upper_s=[[1.2, 0.8, 0.6]])
    answer = plan(parse("a"), learned, Request(cores=4))
    assert (answer.cores, answer.expected_per_s) == ({"a": 2}, pytest.approx(2.0))


@pytest.mark.parametrize("seconds", [[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
def test_the_lowest_latency_may_be_that_of_one_core(seconds: list[float]) -> None:
    table = TabulatedCurves.from_arrays([1, 2, 3], [seconds])
    answer = plan(pipeline(1), table, Request(cores=3, objective="latency"))
    assert list(answer.cores.values()) == [1]
    assert "spare" in codes(answer)
