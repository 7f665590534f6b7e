"""Cores of one pool for several jobs: what is asked, what is refused, and who waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import Advisor
from advisor.domain.job_pools import OrderWord
from advisor.errors import InvalidValue

POWERS = [1, 2, 4, 8, 16, 32, 64]


def learned(counts: tuple[int, ...] = (1, 2, 4, 8, 16)) -> Advisor:
    """An advisor that knows `wide`, T ~ 1/p, `narrow`, which no core helps, and `mixed`, half of it serial."""
    advisor = Advisor()
    for p in counts:
        for x in (10.0, 20.0, 40.0):
            advisor.observe("wide", predictor=x, cores=p, elapsed_s=x / p)
            advisor.observe("narrow", predictor=x, cores=p, elapsed_s=x)
            advisor.observe("mixed", predictor=x, cores=p, elapsed_s=x * (0.1 + 0.9 / p))
    return advisor


def job(name: Any, component: str = "mixed", **given: Any) -> dict[str, Any]:
    return {"id": name, "component": component, "predictor": 20.0, "allowed": POWERS} | given


def test_more_jobs_behind_one_leave_it_fewer_cores_and_no_byte_changes() -> None:
    advisor = learned()
    before = advisor.to_bytes()
    counts = [advisor.choose_together([job(i) for i in range(n)], 64).cores[0] for n in (1, 4, 16, 64)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    assert advisor.to_bytes() == before


def test_an_answer_has_cores_seconds_and_a_reason_for_each_job() -> None:
    plan = learned().choose_together([job("a", "narrow"), job(2, "wide"), job((3,), "wide", allowed=[64])], 64)
    assert list(plan.cores) == ["a", 2, (3,)]
    assert plan.cores["a"] == 1
    assert plan.cores[(3,)] == 0
    assert plan.why[(3,)].startswith("waits: it needs 64 cores or more")
    assert plan.jobs[0].elapsed_s == pytest.approx(20.0, rel=0.05)
    assert plan.assumed == {}
    assert [each["id"] for each in plan.as_dict()["jobs"]] == ["a", 2, [3]]


def test_a_running_job_keeps_its_cores_where_it_is_not_resizable() -> None:
    advisor = learned()
    jobs = [job(0, cores_now=3, allowed=[1]), job(1, "narrow", cores_now=8), job(2)]
    plan = advisor.choose_together(jobs, 16)
    assert (plan.cores[0], plan.cores[1]) == (3, 8)
    assert plan.cores[2] == 4, "of 5 that are free"
    resized = advisor.choose_together([each | {"resizable": True, "allowed": POWERS} for each in jobs], 16)
    assert resized.cores[1] == 1, "no core helps it"
    assert resized.cores[2] > 4
    assert sum(resized.cores.values()) <= 16


def test_fewer_cores_are_taken_where_they_are_free_and_cost_little_more() -> None:
    advisor = learned()
    taken = [advisor.choose_together([job(0, cores_now=now), job(1)], 32).cores[1] for now in (1, 20, 24, 28, 31)]
    assert taken == [16, 8, 8, 0, 0]


def test_what_was_never_seen_is_tried_up_to_twice_the_most_cores_and_down_to_a_quarter_of_the_fewest() -> None:
    def alone(counts: tuple[int, ...], behind: int = 0) -> int:
        jobs = [job(i, "wide") for i in range(behind + 1)]
        return learned(counts).choose_together(jobs, 64).cores[0]

    assert alone((1,)) == 2
    assert alone((2, 4)) == 8
    assert alone((16,), behind=900) == 4
    assert learned((16,)).choose_together([job(0, allowed=[1, 2])], 64).cores[0] == 2, "the nearest there is"


def test_a_component_without_rows_is_answered_and_the_names_like_it_are_named() -> None:
    advisor = learned()
    plan = advisor.choose_together([job(0, "mixd", allowed=POWERS[:-1]), job(1)], 64)
    assert plan.cores[0] == 16, "nearest 32^(3/4)"
    assert set(plan.assumed) == {"mixd"}
    assert "did you mean 'mixed'?" in plan.assumed["mixd"]
    assert advisor.choose_together([job(i, "new") for i in range(33)], 64).cores[0] == 2, "64 cores for 32 behind it"
    assert Advisor().choose_together([{"id": 0, "component": "new"}], 8).cores[0] == 5
    powers = [{"id": 0, "component": "new", "allowed": {"min": 2, "max": 512, "power_of": 2}}]
    assert Advisor().choose_together(powers, 40).cores[0] == 16, "nearest 2 * 16^(3/4) of those that the pool has"


def test_a_due_time_asks_for_more_cores_and_says_where_it_cannot_be_kept() -> None:
    advisor = learned()
    crowd = [job(i) for i in range(1, 30)]
    plans = [advisor.choose_together([job(0, due_s=due), *crowd], 64) for due in (None, 5.0, 0.1)]
    assert plans[0].cores[0] < plans[1].cores[0] <= 16
    assert plans[1].jobs[0].elapsed_s is not None
    assert plans[1].jobs[0].elapsed_s < 5.0
    assert "due in 5 s" in plans[1].why[0]
    assert "too late" in plans[2].why[0]
    assert plans[0].cores[0] == 4
    shared = [each | {"resizable": True} for each in [job(0, "wide", due_s=2.5, predictor=40.0), *crowd[:7]]]
    assert advisor.choose_together(shared, 64).cores[0] >= 16


def test_the_order_is_the_callers_or_that_of_least_work_with_a_bound_on_waiting() -> None:
    advisor = learned()
    jobs = [
        job(i, "narrow", predictor=x, allowed=[4], waited_s=w) for i, (x, w) in enumerate([(40, 5), (20, 1), (10, 0)])
    ]
    assert [*advisor.choose_together(jobs, 4).cores.values()] == [4, 0, 0]
    assert [*advisor.choose_together(jobs, 4, order="work", wait_max_s=10.0).cores.values()] == [0, 0, 4]
    assert [*advisor.choose_together(jobs, 4, order="work", wait_max_s=5.0).cores.values()] == [4, 0, 0]
    heavy = [*jobs[:2], jobs[2] | {"weight": 0.1}]
    assert [*advisor.choose_together(heavy, 4, order="work", wait_max_s=10.0).cores.values()] == [0, 4, 0]


def test_no_job_starts_before_one_that_has_waited_too_long() -> None:
    advisor = learned()
    jobs = [job(0, cores_now=4), job(1, "wide", allowed=[16], waited_s=9.0), job(2, "narrow")]
    assert [*advisor.choose_together(jobs, 16).cores.values()] == [4, 0, 1]
    held = advisor.choose_together(jobs, 16, wait_max_s=9.0)
    assert [*held.cores.values()] == [4, 0, 0]
    assert "waited for 9 s" in held.why[2]
    jobs[2] = job(2, "wide", cores_now=4, resizable=True)
    assert advisor.choose_together(jobs, 16).cores[2] > 4
    assert [*advisor.choose_together(jobs, 16, wait_max_s=9.0).cores.values()] == [4, 0, 4], "nor does a job grow"


def test_a_job_that_waited_too_long_neither_empties_the_pool_nor_overfills_it() -> None:
    advisor = learned()
    late = job(1, "narrow", allowed=[16], waited_s=9.0)
    never = advisor.choose_together([late, job(2, "narrow")], 8, wait_max_s=9.0)
    assert [*never.cores.values()] == [0, 1], "no cores are kept for a job that the pool can never serve"
    resizable = job(0, "narrow", resizable=True, waited_s=10.0)
    only = advisor.choose_together([resizable, late | {"allowed": [8]}, job(2, "narrow")], 8, wait_max_s=9.0)
    assert [*only.cores.values()] == [1, 0, 0], "what a job before it was left with, it gets"
    jobs = [job(0, "wide", cores_now=4, resizable=True), late | {"allowed": [2]}, late | {"id": 2, "allowed": [4]}]
    full = advisor.choose_together(jobs, 4, wait_max_s=9.0)
    assert [*full.cores.values()] == [2, 2, 0]


def test_cores_that_no_resizable_job_takes_go_to_jobs_behind_them_until_one_has_waited_too_long() -> None:
    advisor = learned()
    jobs = [
        job(0, "narrow", allowed=[64], resizable=True, waited_s=9.0), job(1, "narrow", resizable=True, weight=10.0),
        job(2, "narrow"),
    ]  # fmt: skip
    assert [*advisor.choose_together(jobs, 64).cores.values()] == [0, 1, 1]
    assert [*advisor.choose_together(jobs, 64, wait_max_s=9.0).cores.values()] == [0, 1, 0]


def test_what_no_job_can_use_stays_free() -> None:
    rng, advisor = np.random.default_rng(1), Advisor()
    for p in POWERS * 4:
        advisor.observe("serial", predictor=1.0, cores=p, elapsed_s=100.0 * rng.lognormal(0, 0.03))
    serial = {"id": 0, "component": "serial", "predictor": 1.0, "allowed": POWERS}
    late = [serial | {"due_s": 1.0}, *(job(i) for i in range(1, 4))]
    for jobs in ([serial], late, [serial | {"resizable": True}], [serial | {"resizable": True, "due_s": 1.0}]):
        assert advisor.choose_together(jobs, 64).cores[0] == 1


def test_the_counts_that_a_component_allows_hold_in_any_case() -> None:
    advisor = learned()
    advisor.set_allowed("wide", [1, 3])
    assert advisor.choose_together([job(0, "wide", allowed={"max": 64})], 64).cores[0] == 3
    with pytest.raises(InvalidValue) as caught:
        advisor.choose_together([job(0, "wide", allowed=[2, 4])], 64)
    assert caught.value.field == "jobs[0].allowed"


def test_a_job_that_no_pool_of_this_size_serves_says_so() -> None:
    for resizable in (False, True):
        plan = learned().choose_together([job(0, allowed=[64, 128], resizable=resizable)], 16)
        assert plan.why[0] == "waits: it needs 64 cores or more, the pool has 16"


JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "component": st.sampled_from(["wide", "narrow", "mixed", "new"]),
            "predictor": st.sampled_from([10.0, 20.0, 160.0]),
            "allowed": st.lists(st.sampled_from(POWERS), min_size=1, unique=True),
            "cores_now": st.sampled_from([None, None, 1, 2, 4]),
            "weight": st.sampled_from([0.1, 1.0, 10.0]),
            "due_s": st.sampled_from([None, 0.1, 5.0, 100.0]),
            "resizable": st.booleans(),
            "restart_s": st.sampled_from([0.0, 1.0]),
            "done": st.sampled_from([0.0, 0.9]),
            "waited_s": st.sampled_from([0.0, 100.0]),
        }
    ),
    max_size=12,
)
LEARNED = learned()


@settings(max_examples=150, deadline=None)
@given(JOBS, st.sampled_from([1, 4, 16, 48, 100]), st.sampled_from([("given", None), ("given", 50.0), ("work", 50.0)]))
def test_counts_are_allowed_they_fit_and_no_running_job_is_stopped(
    jobs: list[dict[str, Any]], cores: int, order: tuple[OrderWord, float | None]
) -> None:
    asked = [each | {"id": i} for i, each in enumerate(jobs)]
    cores = max(cores, sum(each["cores_now"] or 0 for each in jobs))
    plan = LEARNED.choose_together(asked, cores, order=order[0], wait_max_s=order[1])
    assert sum(plan.cores.values()) <= cores
    for i, each in enumerate(jobs):
        count, now = plan.cores[i], each["cores_now"] or 0
        assert count in {*each["allowed"], now}
        assert count == now or each["resizable"] or not now
        assert count > 0 or not now
    if any(min(each["allowed"]) <= cores for each in jobs) and not any(each["cores_now"] for each in jobs):
        assert any(plan.cores.values()), "an empty pool starts a job"
