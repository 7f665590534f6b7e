"""Laws of plans at default options, over random networks, objectives and constraints: more cores are never worse.

The fewest cores for a target are the least number on which it is reached, whatever the machine; nobody who sums what an
answer gives exceeds the machine; an answer does not depend on earlier questions.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from amdahl import amdahl_curves
from drawn_networks import random_operators, rising_seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import Advisor
from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import AdvisorError, TargetNotReached
from advisor.planning import Request, plan, request_about
from advisor.planning.plans import plan_pinned

COUNTS = np.array([1, 2, 3, 4, 6, 8, 12])
CORES = range(1, 11)
EXECUTED = 0.01  # of a latency under arrivals: what one run may be from another


@st.composite
def networks(draw: st.DrawFn) -> tuple[Network, TabulatedCurves, dict[str, Any]]:
    """A network of 2 to 4 boxes, its curves, convex or not, and some constraint."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, 4))
    network, given = random_operators(rng, n)
    given |= draw(
        st.sampled_from(
            [{}, {}, {"instances_max": 2}, {"allowed": {"power_of": 2}}, {"maximum": {"c0": 2}}, {"turns": "never"}]
        )
    )
    serial, work = rng.random(n) * 0.4, rng.lognormal(0, 1, n)
    if draw(st.booleans()):
        return network, amdahl_curves(work * serial, work * (1 - serial)), given
    seconds = rising_seconds(rng, serial, work, COUNTS)
    contention = 0.05 if draw(st.integers(0, 3)) == 0 else 0.0
    upper = seconds * np.exp(draw(st.sampled_from([0.0, 0.0, 0.2])) * rng.random(seconds.shape))  # what is not known
    return (
        network,
        TabulatedCurves.from_arrays(COUNTS, seconds, upper_s=upper, variation=0.3, contention=contention),
        given,
    )


def answered(network: Network, curves: Any, **asked: Any) -> Allocation | None:
    try:
        return plan(network, curves, Request(**asked))
    except AdvisorError:
        return None


def value(answer: Allocation | None, objective: str) -> float:
    """What grows with the cores."""
    if answer is None:
        return 0.0
    return answer.throughput_per_s if objective == "throughput" else 1 / answer.latency_s


@given(networks(), st.sampled_from(["throughput", "latency"]))
@settings(max_examples=30, deadline=None)
def test_more_cores_are_never_worse_and_the_fewest_do_not_depend_on_the_machine(case: Any, objective: str) -> None:
    network, curves, given_ = case
    answers = [answered(network, curves, cores=cores, objective=objective, **given_) for cores in CORES]
    values = [value(answer, objective) for answer in answers]
    assert all(few <= many * (1 + 1e-9) for few, many in pairwise(values)), values
    for cores, answer in zip(CORES, answers, strict=True):
        if answer is not None:
            assert list(answer.cores) == list(answer.instances) == list(network.keys)
            own = sum(n * answer.instances[key] for key, n in answer.cores.items() if key not in answer.in_turn)
            assert own <= answer.cores_used <= cores
            if answer.groups:
                assert sum(size for size, _ in answer.groups) == answer.cores_used
                assert sorted(key for _, keys in answer.groups for key in keys) == sorted(network.keys)
    reached = values[len(values) // 2] * (1 - 1e-9)
    if reached <= 0:
        return
    target = {"throughput_per_s": reached} if objective == "throughput" else {"latency_s": 1 / reached}
    least = next(cores for cores, some in zip(CORES, values, strict=True) if some >= reached)
    for cores in (least - 1, least, least + 3, CORES[-1], None):
        found = (
            answered(network, curves, cores=cores, objective="fewest_cores", target=target, **given_)
            if cores != 0
            else None
        )
        assert (None if found is None else found.cores_used) == (least if cores is None or cores >= least else None)


@given(networks(), st.integers(2, 8), st.sampled_from([0.4, 0.8]))
@settings(max_examples=15, deadline=None)
def test_under_arrivals_more_cores_are_never_worse(case: Any, cores: int, load: float) -> None:
    network, curves, given_ = case
    base = answered(network, curves, cores=cores, **given_)
    if base is None:
        return
    rate = load * base.throughput_per_s
    answers = [
        answered(network, curves, cores=count, objective="latency", arrival_per_s=rate, **given_)
        for count in range(cores, cores + 4)
    ]
    latencies = [np.inf if one is None or one.latency_queued_s is None else one.latency_queued_s for one in answers]
    # The latencies are those of executed records: two allocations nearer than that cannot be told apart.
    assert all(many <= few * (1 + EXECUTED) for few, many in pairwise(latencies)), latencies


@given(networks(), st.integers(2, 12))
@settings(max_examples=15, deadline=None)
def test_the_lowest_latency_at_a_throughput_keeps_it_and_an_answer_forgets_earlier_questions(
    case: Any, cores: int
) -> None:
    network, curves, given_ = case
    first = answered(network, curves, cores=cores, **given_)
    if first is None:
        return
    target = {"throughput_per_s": 0.7 * first.throughput_per_s}
    lowest = answered(network, curves, cores=cores, objective="latency", target=target, **given_)
    assert lowest is not None
    assert lowest.throughput_per_s >= target["throughput_per_s"] * (1 - 1e-9)
    assert lowest.latency_s <= first.latency_s * (1 + 1e-9)
    free = answered(network, curves, cores=cores, objective="latency", **given_)
    assert free is not None
    assert free.latency_s <= lowest.latency_s * (1 + 1e-9)
    assert answered(network, curves, cores=cores, **given_) == first


QUESTIONS: list[dict[str, Any]] = [
    {"cores": 9}, {"cores": 9, "objective": "latency"}, {"cores": 16}, {"cores": 9, "load": {"b": 700.0}},
    {"cores": 12, "objective": "fewest_cores", "target": {"throughput_per_s": 20.0}}, {"cores": 9, "level": 0.95},
    {"cores": 9, "minimum": {"a": 2}, "scale": {"c": 0.5}}, {"cores": 9, "components": {"b": "c"}},
]  # fmt: skip
NETWORK = "a .. (b | c)"


@given(
    st.integers(0, 2**32 - 1), st.lists(st.sampled_from(["row", "rows", "ask", "pin", "forget", "define"]), max_size=12)
)
@settings(max_examples=25, deadline=None)
def test_an_advisor_answers_as_one_that_was_never_asked(seed: int, doings: list[str]) -> None:
    rng, advisor = np.random.default_rng(seed), Advisor()

    def learn(count: int) -> None:
        for _ in range(count):
            x, p = float(rng.uniform(100, 1000)), int(rng.choice([1, 2, 4, 8]))
            name = "abc"[rng.integers(3)]
            advisor.observe(
                name, predictor=x, cores=p, elapsed_s=1e-4 * x * (0.2 + 0.8 / p) * float(rng.lognormal(0, 0.1))
            )

    def asked(of: Advisor, question: dict[str, Any], network: Any = NETWORK) -> Any:
        try:
            return of.allocate(network, shares=[[0.3, 0.7]], **question).as_dict()
        except AdvisorError as error:
            return error.as_dict()

    learn(60)
    held = advisor.allocate(NETWORK, shares=[[0.3, 0.7]], cores=9)  # read only after rows have come
    reported = Advisor.from_bytes(advisor.to_bytes()).allocate(NETWORK, shares=[[0.3, 0.7]], cores=9).as_dict()
    for doing in doings:
        if doing in ("row", "rows"):
            learn(1 if doing == "row" else 20)
        elif doing == "pin":
            advisor.pin("b", "two_step" if rng.random() < 0.5 else None)
        elif doing == "forget":
            advisor.forget("c")
            learn(20)
        elif doing == "define":
            advisor.define_network(NETWORK if rng.random() < 0.5 else "b .. (a | c)", id=7)
            assert asked(advisor, QUESTIONS[0], 7) == asked(Advisor.from_bytes(advisor.to_bytes()), QUESTIONS[0], 7)
        question = QUESTIONS[rng.integers(len(QUESTIONS))]
        assert asked(advisor, question) == asked(Advisor.from_bytes(advisor.to_bytes()), question)
    assert held.as_dict() == reported


def test_a_curve_beyond_what_was_seen_is_told_where_it_is_read() -> None:
    advisor = Advisor()
    for cores in (1, 2, 1, 2):
        advisor.observe("a", cores=cores, elapsed_s=0.1 + 0.9 / cores)
    answer = advisor.allocate("a", cores=16)
    beyond = np.log2(answer.cores["a"] / 2)
    assert answer.evidence["a"].extrapolates == beyond > 0
    assert [some.value for some in answer.why if some.code == "extrapolates"] == [beyond]
    assert any("a is asked beyond what was seen" in some.text for some in answer.why)


@given(networks(), st.floats(0.005, 0.1))
@settings(max_examples=20, deadline=None)
def test_a_throughput_is_promised_by_the_curves_that_the_fewest_cores_for_it_are_planned_on(
    case: Any, error: float
) -> None:
    network, curves, given_ = case
    if not isinstance(curves, TabulatedCurves):
        return
    curves, unsure = (replace(curves, upper_s=curves.elapsed_s * np.exp(known)) for known in (0.0, error))
    promised, expected = (answered(network, some, cores=10, **given_) for some in (unsure, curves))
    if promised is None or expected is None:
        assert promised is expected
        return
    if expected.gap != 0.0:
        return  # what a search finds on one curve it may miss on another
    assert promised.throughput_per_s < expected.throughput_per_s
    reported = next(some.value for some in promised.why if some.code == "level")
    assert promised.throughput_per_s < reported <= expected.throughput_per_s * (1 + 1e-9)
    if not promised.groups:
        shape = np.array([list(some.values()) for some in (promised.cores, promised.instances)])
        again = plan_pinned(request_about(network, Request(cores=10, **given_)), unsure, shape)
        assert again.throughput_per_s == pytest.approx(promised.throughput_per_s, rel=1e-12)
    asked = {"cores": 10, "objective": "fewest_cores"} | given_
    for share in (0.5, 1.0):
        target = {"throughput_per_s": share * promised.throughput_per_s}
        sure, fewest = (answered(network, some, target=target, **asked) for some in (unsure, curves))
        assert fewest is not None
        assert sure is not None
        assert sure.cores_used >= fewest.cores_used
        chance = next(float(some.text.rsplit(" ", 1)[1]) for some in sure.why if some.code == "target")
        assert chance >= 0.85
    between = {"throughput_per_s": (promised.throughput_per_s * expected.throughput_per_s) ** 0.5}
    with pytest.raises(TargetNotReached, match="not promised"):  # what is only expected is no promise, nor impossible
        plan(network, unsure, Request(target=between, **asked))


# -- promises on learned curves ---------------------------------------------------------------------------------------------


@st.composite
def learned(draw: st.DrawFn) -> tuple[Advisor, list[str]]:
    """An engine that saw two or three components, some of which slow down with cores, and their names."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    advisor, names = Advisor(), list("abc"[: draw(st.integers(2, 3))])
    most = draw(st.sampled_from([1, 2, 4, 8, 16]))
    for name in names:
        work, serial, cost = rng.uniform(0.05, 1.0), rng.uniform(0.0, 0.5), rng.choice([0.0, 0.0, 0.02])
        for cores in rng.integers(1, most + 1, int(rng.integers(2, 60))).tolist():
            time = work * (serial + (1 - serial) / cores + cost * cores) * rng.lognormal(0.0, 0.1)
            advisor.observe(name, cores=cores, elapsed_s=float(time))
    return advisor, names


def was_seen(plan: Allocation) -> bool:
    """Return whether no component is asked beyond its counts."""
    return all(known.extrapolates == 0 for known in plan.evidence.values())


@given(learned(), st.sampled_from(["better", "never"]))
@settings(max_examples=20, deadline=None)
def test_more_cores_promise_no_less_where_all_was_seen_and_give_what_fewer_promise(
    case: tuple[Advisor, list[str]], turns: str
) -> None:
    advisor, names = case
    promised_seen = promised = 0.0
    for cores in range(len(names), 21):
        plan = advisor.allocate(" .. ".join(names), cores=cores, turns=turns)
        assert plan.expected_per_s is not None
        assert plan.expected_per_s >= plan.throughput_per_s * (1 - 1e-9)
        assert plan.expected_per_s >= promised * (1 - 1e-9)
        promised = max(promised, plan.throughput_per_s)
        if was_seen(plan):
            assert plan.throughput_per_s >= promised_seen * (1 - 1e-9)
            promised_seen = plan.throughput_per_s
