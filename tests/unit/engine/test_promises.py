"""Plans by the expectation, promises by the bound: what was never seen is not promised, and what is impossible is proved."""

from __future__ import annotations

import re

import numpy as np
import pytest

from advisor import Advisor
from advisor.errors import ImpossibleTarget, TargetNotReached

NET = "a .. b"


def learned(counts: list[int], parallel: float = 0.95, noise: float = 0.0, seed: int = 1) -> Advisor:
    """Return an engine that saw both components on these counts, by Amdahl's law."""
    advisor, rng = Advisor(), np.random.default_rng(seed)
    for component, seconds in (("a", 1.0), ("b", 0.4)):
        for cores in counts * 10:
            time = seconds * (1 - parallel + parallel / cores) * rng.lognormal(0.0, noise)
            advisor.observe(component, predictor=1.0, cores=cores, elapsed_s=float(time))
    return advisor


def test_beyond_the_cores_seen_no_gain_is_promised_and_the_expectation_stands_beside_it() -> None:
    plan = learned([1, 2]).allocate(NET, cores=16, turns="never")
    assert max(plan.cores.values()) > 2  # the plan follows the expectation
    assert plan.expected_per_s is not None
    longest = 1.0 * (0.05 + 0.95 / 2)  # of `a` on the most cores seen
    assert plan.throughput_per_s <= 1 / longest
    assert plan.throughput_per_s >= 1 / (longest * 1.1**3 * 1.1)  # 16 cores are three doublings: a margin of 10 % each
    assert plan.expected_per_s > 1.5 * plan.throughput_per_s
    level = next(each for each in plan.why if each.code == "level")
    assert "promised: each component keeps it up with a probability of 0.975" in level.text
    assert "on counts that were not seen" in level.text
    assert plan.as_dict()["expected_per_s"] == plan.expected_per_s


def test_what_bounds_a_promise_beyond_the_cores_seen_takes_as_long_as_it_says() -> None:
    plan = learned([1, 2]).allocate(NET, cores=16, turns="never")
    (bound,) = (each for each in plan.why if each.code == "bottleneck")
    rate, load = (float(word) for word in re.findall(r"(\S+) (?:records/s|s a record)", bound.text))
    assert rate * load == pytest.approx(1.0, rel=2e-3)


def test_within_the_cores_seen_the_promise_is_near_the_expectation() -> None:
    advisor = learned([1, 2, 4, 8, 16], noise=0.05)
    before, expected = 0.0, 0.0
    for cores in range(2, 17):
        plan = advisor.allocate(NET, cores=cores, turns="never")
        assert plan.expected_per_s is not None
        assert 0.8 * plan.expected_per_s <= plan.throughput_per_s <= plan.expected_per_s
        assert plan.throughput_per_s >= before * (1 - 1e-9), "more cores are worse"
        assert plan.expected_per_s >= expected * (1 - 1e-9), "more cores are expected to be worse"
        before, expected = plan.throughput_per_s, plan.expected_per_s


def test_fewest_cores_far_beyond_what_was_seen_are_refused_with_what_is_promised() -> None:
    advisor = learned([1, 2])
    with pytest.raises(TargetNotReached) as caught:
        advisor.allocate(NET, cores=64, objective="fewest_cores", target={"throughput_per_s": 4.0}, turns="never")
    assert caught.value.value == 4.0
    assert caught.value.bound == pytest.approx(1 / (0.05 + 0.95 / 2), rel=0.02)  # of `a` on 2 cores
    assert "a on " in str(caught.value)
    assert "it was seen on 2 at most" in str(caught.value)
    reached = advisor.allocate(NET, cores=64, objective="fewest_cores", target={"throughput_per_s": 1.5}, turns="never")
    assert reached.throughput_per_s >= 1.5


@pytest.mark.parametrize("target", [22.0, 600.0])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_more_than_any_number_of_cores_can_reach_is_refused_with_what_no_core_took_away(
    target: float, noise: float
) -> None:
    with pytest.raises(
        TargetNotReached, match=r"on any number of cores: up to 8 cores a run of a kept 0\.05"
    ) as caught:
        learned([1, 2, 4, 8], noise=noise).allocate(
            NET, objective="fewest_cores", target={"throughput_per_s": target}, turns="never"
        )
    assert caught.value.bound == pytest.approx(20.0, rel=0.15)  # 1 / 0.05
    assert "expected to reach" not in str(caught.value)


def test_one_core_is_expected_to_reach_a_target() -> None:
    advisor, rng = Advisor(), np.random.default_rng(1)
    for seconds in rng.lognormal(0.0, 0.2, 4).tolist():
        advisor.observe("a", cores=1, elapsed_s=seconds)
    fastest = advisor.allocate("a", cores=1).expected_per_s
    assert fastest is not None
    with pytest.raises(TargetNotReached, match="1 core is expected to reach it"):
        advisor.allocate("a", cores=1, objective="fewest_cores", target={"throughput_per_s": 0.999 * fastest})


def test_no_limit_is_said_below_what_is_promised_on_counts_that_were_seen() -> None:
    """A line through both ends misses what the times between them gained: the refusal contradicted itself."""
    advisor = Advisor()
    for cores, seconds in [(1, 0.727), (2, 0.543), (4, 0.45), (8, 0.6)] * 6:
        advisor.observe("a", cores=cores, elapsed_s=seconds)
    with pytest.raises(TargetNotReached, match="on counts that were seen 2") as caught:
        advisor.allocate("a", objective="fewest_cores", target={"throughput_per_s": 3.06}, turns="never")
    assert "on any number of cores" not in str(caught.value)


def test_impossible_is_said_only_within_what_was_seen() -> None:
    known = learned([1, 2, 4, 8])
    ask = {"objective": "fewest_cores", "target": {"throughput_per_s": 30.0}, "turns": "never"}
    with pytest.raises(ImpossibleTarget):
        known.allocate(NET, cores=8, **ask)  # all counts of 8 cores were seen: nothing reaches it
    with pytest.raises(TargetNotReached):
        known.allocate(NET, cores=512, **ask)  # what more cores do was never seen


@pytest.mark.parametrize("fastest", [2.0, 3.0, 5.0])
def test_a_cost_of_each_core_that_what_was_seen_allows_is_promised_to_go_on(fastest: float) -> None:
    advisor = Advisor()
    for cores in (1, 2, 1, 2, 1, 2):
        advisor.observe("a", cores=cores, elapsed_s=1 / cores + cores / fastest**2)
    for cores in (4, 8, 16):
        plan = advisor.allocate("a", cores=cores, pinned={"a": cores})
        true = 1 / (1 / cores + cores / fastest**2)
        assert plan.throughput_per_s <= true * 1.001
        assert plan.expected_per_s is not None
        assert plan.expected_per_s >= plan.throughput_per_s


def test_the_latency_of_a_plan_is_of_the_times_that_its_throughput_is_promised_by() -> None:
    advisor = learned([1, 2], noise=0.05)
    for cores in (4, 16):
        plan = advisor.allocate("a", cores=cores, pinned={"a": cores})
        assert plan.latency_s == pytest.approx(1 / plan.throughput_per_s)
    lowest = advisor.allocate(NET, cores=2, objective="latency", turns="never")
    assert lowest.throughput_per_s == lowest.expected_per_s


def test_a_promise_on_fewer_cores_than_were_seen_does_not_depend_on_the_cores_that_are_asked_about() -> None:
    advisor = learned([4, 16], noise=0.2)
    pinned = {"a": 1, "b": 1}
    few, many = (advisor.allocate(NET, cores=cores, pinned=pinned, turns="never") for cores in (2, 20))
    assert few.throughput_per_s == pytest.approx(many.throughput_per_s, rel=1e-9)
    assert few.expected_per_s == pytest.approx(many.expected_per_s, rel=1e-9)


def test_fewest_cores_are_counts_that_were_seen_where_fewer_are_expected_to_do_and_promise_less() -> None:
    advisor = learned([4, 16], parallel=0.3)
    asked = {"objective": "fewest_cores", "target": {"throughput_per_s": 0.9}, "turns": "never"}
    plan = advisor.allocate(NET, cores=32, **asked)
    assert plan.cores == {"a": 4, "b": 2}
    assert plan.throughput_per_s >= 0.9
    few = advisor.allocate(NET, cores=32, **{**asked, "target": {"throughput_per_s": 0.5}})
    assert few.cores == {"a": 2, "b": 1}
    assert few.gap is None
    assert advisor.allocate(NET, cores=32, allowed={"a": [1, 2, 16]}, **asked).cores["a"] == 16
    with pytest.raises(TargetNotReached, match="a on 1 though it was seen on 4 at least") as caught:
        advisor.allocate(NET, cores=2, **asked)
    assert caught.value.hint == "observe a on fewer cores, or ask for less"


def test_a_count_that_was_seen_but_that_the_machine_has_not_is_not_planned() -> None:
    """The search for a promise on counts that were seen once raised a component above the machine: its time was infinite."""
    advisor = Advisor()
    for _ in range(6):
        advisor.observe("narrow", cores=4, elapsed_s=0.013)
        advisor.observe("wide", cores=1, elapsed_s=0.0125)
        advisor.observe("wide", cores=16, elapsed_s=0.001)
    target = {"throughput_per_s": 20.0}
    with pytest.raises(TargetNotReached, match="narrow on 1 though it was seen on 4"):
        advisor.allocate("narrow .. wide", cores=1, objective="fewest_cores", nodes=2, target=target)


def test_within_one_doubling_of_what_was_seen_a_count_that_promises_the_target_is_taken_where_there_is_one() -> None:
    advisor = learned([2, 4], parallel=0.3)
    asked = {"objective": "fewest_cores", "target": {"throughput_per_s": 0.8}, "turns": "never"}
    plan = advisor.allocate(NET, cores=32, **asked)
    assert plan.cores == {"a": 2, "b": 1}
    assert plan.throughput_per_s >= 0.8
    few = advisor.allocate(NET, cores=2, **asked)  # as near as there are cores: it is expected to do
    assert few.cores == {"a": 1, "b": 1}
    assert few.throughput_per_s < 0.8 < (few.expected_per_s or 0.0)
