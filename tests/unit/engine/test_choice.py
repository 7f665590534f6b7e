"""The one rule of `choose_cores`: first runs, counts near those seen, what stays, trials, arrays, allowed sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import Advisor
from advisor.errors import InvalidValue, Mismatch, UnknownComponent, UnknownKey

AMDAHL = {p: 0.1 + 0.9 / p for p in range(1, 257)}


def taught(counts: list[int], times: Any = AMDAHL.__getitem__, runs: int = 8, noise: float = 0.01) -> Advisor:
    """Return an advisor that has seen runs of "c" on these counts, in this order, `runs` on each."""
    advisor, rng = Advisor(), np.random.default_rng(1)
    for p in counts:
        for _ in range(runs):
            advisor.observe("c", predictor=1.0, cores=p, elapsed_s=float(times(p) * rng.lognormal(0, noise)))
    return advisor


# -- first runs -------------------------------------------------------------------------------------------------------------


def test_a_first_run_is_on_the_usual_count_or_between_the_ends() -> None:
    advisor = Advisor()
    assert advisor.choose_cores("new", cores_max=16).cores == 8  # 16**(3/4)
    assert advisor.choose_cores("new", cores_max=16, objective="core_seconds").cores == 4
    assert advisor.choose_cores("new", cores_max=64, usual=10).cores == 10
    assert advisor.choose_cores("new", allowed=[32, 64, 128, 512], usual=10).cores == 32
    assert advisor.choose_cores("new", allowed={"min": 32, "max": 512, "power_of": 2}).cores == 256
    assert advisor.choose_cores("new", allowed=[1, 64], cores_max=8).cores == 1


def test_an_unknown_component_is_answered_and_says_what_is_assumed() -> None:
    advisor = taught([1])
    advisor.observe("blur", elapsed_s=1.0)
    before = advisor.to_bytes()
    choice = advisor.choose_cores("blurr", predictor=(3.0, 4.0), cores_max=16)
    assert (choice.cores, choice.model, choice.seen, choice.trial, choice.counts) == (8, "prior", (), False, (8,))
    assert choice.assumed[0] == "component 'blurr' was never observed: did you mean 'blur'?"
    assert choice.why == "first run on 8 cores: between 1 and 16; nothing was seen"
    advisor.observe("failed", cores=4, elapsed_s=1.0, ok=False)
    assert advisor.choose_cores("failed", cores_max=16).assumed[0] == "no run of 'failed' was learned"
    advisor.forget("c")
    assert advisor.choose_cores("c", predictor=1.0, cores_max=16).cores == 8
    assert before != advisor.to_bytes()
    with pytest.raises(InvalidValue):
        advisor.choose_cores("no\nname", cores_max=8)


def test_runs_that_begin_at_once_unknown_are_spread_over_a_few_counts() -> None:
    advisor = Advisor()
    asked = {"cores_max": 16}
    assert advisor.choose_cores("c", **asked, count=3).counts == (8, 8, 8)
    assert sorted(advisor.choose_cores("c", **asked, count=4).counts) == [2, 4, 8, 16]
    many = advisor.choose_cores("c", **asked, count=1000)
    assert (many.cores, len(many.counts), many.trial) == (8, 1000, False)
    assert {p: many.counts.count(p) for p in sorted(set(many.counts))} == {2: 8, 4: 8, 8: 976, 16: 8}
    under_way: dict[int, int] = {}
    for _ in range(1000):  # one by one it comes to the same
        p = advisor.choose_cores("c", **asked, under_way=under_way).cores
        under_way[p] = under_way.get(p, 0) + 1
    assert under_way == {2: 8, 4: 8, 8: 976, 16: 8}


# -- later runs -------------------------------------------------------------------------------------------------------------


def test_later_runs_stay_within_twice_of_what_was_seen() -> None:
    advisor = taught([4])
    for asked in (
        {"cores_max": 64},
        {"cores_max": 64, "tolerance": 0.0},
        {"cores_max": 64, "objective": "core_seconds"},
    ):
        assert 2 <= advisor.choose_cores("c", predictor=1.0, **asked).cores <= 8
    choice = advisor.choose_cores("c", predictor=1.0, cores_max=64, tolerance=0.0)
    assert (choice.cores, choice.seen) == (8, ((4.0, 8),))
    assert choice.assumed == ("8 cores as predicted: not tried",)
    assert choice.why.endswith("seen on 4 cores, 8 runs")
    assert (
        advisor.choose_cores("c", predictor=1.0, allowed=[16, 32]).cores == 16
    )  # none is near: the nearest to the last
    assert advisor.choose_cores("c", predictor=1.0, allowed=[1, 32]).cores == 1
    assert taught([1], runs=200).choose_cores("c", predictor=1.0, cores_max=64).why.endswith("seen on 1 core, 200 runs")


@pytest.mark.parametrize("allowed", [{"min": 1, "max": 64, "power_of": 4}, [1, 3, 9, 27], [1, 4, 16, 64]])
def test_while_exploring_the_next_of_counts_far_apart_are_near(allowed: Any) -> None:
    """Twice and half of what was seen may hold no other count: a serial job stays on its first one, unless trials are asked."""
    advisor, tried = Advisor(), list[int]()
    for _ in range(12):
        assert advisor.choose_cores("serial", predictor=1.0, allowed=allowed).cores <= 2 * max(tried, default=64)
        tried.append(advisor.choose_cores("serial", predictor=1.0, allowed=allowed, explore=True).cores)
        advisor.observe("serial", predictor=1.0, cores=tried[-1], elapsed_s=1.0)
    assert tried[-1] == 1
    one = taught([1], lambda _: 1.0, runs=50)
    assert one.choose_cores("c", predictor=1.0, allowed=[1, 64], explore=True).cores == 1, "further is too far"


def test_the_fewest_within_the_tolerance_of_the_best_are_chosen() -> None:
    advisor = taught([1, 2, 4, 8, 16, 32, 1], noise=1e-4, runs=20)
    for tolerance in (0.05, 0.2, 0.5):
        wanted = next(p for p in range(1, 65) if AMDAHL[p] <= AMDAHL[64] * (1 + tolerance))
        chosen = advisor.choose_cores("c", predictor=1.0, cores_max=64, tolerance=tolerance).cores
        assert AMDAHL[chosen] == pytest.approx(AMDAHL[wanted], rel=0.03)
    assert advisor.choose_cores("c", predictor=1.0, cores_max=64, objective="core_seconds").cores == 1


def test_the_last_count_stays_while_it_is_nearly_as_good_and_not_a_third_too_many() -> None:
    flat = {1: 1.0, 2: 0.9, 4: 0.52, 6: 0.50, 8: 0.50, 16: 0.52}
    advisor = taught([1, 2, 4, 8, 16, 6], flat.__getitem__, noise=1e-3, runs=20)
    asked = {"predictor": 1.0, "allowed": list(flat)}
    assert advisor.choose_cores("c", **asked).cores == 4  # within 5 %; six would be a half more
    assert advisor.choose_cores("c", **asked, tolerance=0.03).cores == 6
    four = taught([1, 2, 8, 16, 6, 4], flat.__getitem__, noise=1e-3, runs=20)
    held = four.choose_cores("c", **asked, tolerance=0.03)  # 4 % slower than the best: within 1.5 tolerances
    assert held.cores == 4
    assert held.why.startswith("stays on 4 cores")
    assert four.choose_cores("c", **asked, tolerance=0.02).cores == 6


@pytest.mark.parametrize(
    ("noise", "risk"), [(0.03, 0.0), (0.05, 0.25), (0.1, 0.0), (0.3, 0.0), (0.3, 0.25), (0.3, 1.0), (0.6, 0.0)]
)
def test_a_job_that_cannot_use_cores_comes_down_to_few_of_them_whatever_the_noise(noise: float, risk: float) -> None:
    """One unlucky run on fewer cores is not believed for ever."""
    given: list[int] = []
    for seed in range(40):
        advisor, rng, cores = Advisor(), np.random.default_rng((8, seed)), 64
        for run in range(120):
            cores = advisor.choose_cores("serial", predictor=1.0, cores_max=64, risk=risk).cores
            advisor.observe("serial", predictor=1.0, cores=cores, elapsed_s=rng.lognormal(-(noise**2) / 2, noise))
            given += [cores] if run >= 100 else []
    assert np.mean(given) <= 2.0


def test_what_noise_leaves_open_is_said_and_fewer_cores_are_taken() -> None:
    advisor, rng = Advisor(), np.random.default_rng(3)
    for p, runs, slower in ((16, 30, 1.0), (8, 2, 1.25)):
        for sign in [1, -1] * (runs // 2):
            advisor.observe("c", predictor=1.0, cores=p, elapsed_s=slower * (1.0 + 0.4 * sign))
    choice = advisor.choose_cores("c", predictor=1.0, allowed=[8, 16])
    assert (choice.cores, choice.fastest_cores) == (8, 16)
    assert "of the best and not shown to be worse" in choice.why
    for _ in range(60):
        advisor.observe("c", predictor=1.0, cores=8, elapsed_s=1.25 * float(rng.choice([0.6, 1.4])))
    for _ in range(60):
        advisor.observe("c", predictor=1.0, cores=16, elapsed_s=float(rng.choice([0.6, 1.4])))
    assert advisor.choose_cores("c", predictor=1.0, allowed=[8, 16]).cores == 16  # now it is


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(1, 64), min_size=1, max_size=12),
    times=st.lists(st.floats(1e-3, 10.0), min_size=12, max_size=12),
    cores_max=st.integers(1, 128),
    objective=st.sampled_from(["time", "core_seconds"]),
)
def test_a_larger_risk_never_gives_more_cores(
    counts: list[int], times: list[float], cores_max: int, objective: str
) -> None:
    advisor = Advisor()
    for p, t in zip(counts, times, strict=False):
        advisor.observe("c", predictor=1.0, cores=p, elapsed_s=t)
    before = advisor.to_bytes()
    risks = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
    asked: Any = {"predictor": 1.0, "cores_max": cores_max, "objective": objective}
    found = [advisor.choose_cores("c", **asked, risk=risk).cores for risk in risks]
    assert found == sorted(found, reverse=True)
    assert advisor.to_bytes() == before
    assert all(1 <= cores <= cores_max for cores in found)


def test_a_larger_risk_leads_to_no_best_count_that_few_runs_were_on() -> None:
    advisor = Advisor()
    for p, t in ((2, 1.17), (2, 1.546), (2, 1.2), (4, 0.704), (8, 0.965)):
        advisor.observe("c", predictor=1.0, cores=p, elapsed_s=t)
    risks = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
    found = [advisor.choose_cores("c", predictor=1.0, cores_max=64, risk=risk).cores for risk in risks]
    assert found == sorted(found, reverse=True)


# -- trials -----------------------------------------------------------------------------------------------------------------


def test_nothing_is_tried_unless_asked_and_freeze_keeps_to_what_was_seen() -> None:
    valley = lambda p: (p / 8 + 8 / p) / 2  # noqa: E731
    advisor = taught([32], valley, runs=5)
    frozen = advisor.choose_cores("c", predictor=1.0, cores_max=64, explore="freeze")
    assert (frozen.cores, frozen.trial) == (32, False)
    assert not advisor.choose_cores("c", predictor=1.0, cores_max=64).trial
    tried, rng = 0, np.random.default_rng(2)
    for _ in range(40):
        choice = advisor.choose_cores("c", predictor=1.0, cores_max=64, explore=True)
        tried += choice.trial
        if choice.trial:
            assert "trial" in choice.why
        advisor.observe(
            "c", predictor=1.0, cores=choice.cores, elapsed_s=float(valley(choice.cores) * rng.lognormal(0, 0.05))
        )
    assert tried < 20
    assert 6 <= advisor.choose_cores("c", predictor=1.0, cores_max=64).cores <= 11


def test_a_trial_is_on_a_count_that_is_less_known_than_the_chosen_one() -> None:
    advisor = Advisor()
    for p in (8, 16, 16, 11):  # flat: four cores are expected to do, and were never seen
        advisor.observe("c", predictor=1.0, cores=p, elapsed_s=0.002)
    choice = advisor.choose_cores("c", predictor=1.0, allowed={"min": 1, "max": 16}, explore=True)
    assert (choice.cores, choice.trial) == (4, False)
    assert choice.assumed == ("4 cores as predicted: not tried",)


def with_a_trial() -> tuple[Advisor, dict[str, Any]]:
    """Return an advisor, and a question whose answer is a trial."""
    for seed in range(200):
        rng, advisor = np.random.default_rng(seed), Advisor()
        for p in (8, 8, 8, 8, 12, 12):
            advisor.observe("c", predictor=1.0, cores=p, elapsed_s=float(rng.lognormal(0, 0.2)))
        asked: dict[str, Any] = {"component": "c", "predictor": 1.0, "cores_max": 64, "explore": True}
        if advisor.choose_cores(**asked).trial:
            return advisor, asked
    raise AssertionError("no seed gave a trial")


def test_of_runs_that_begin_at_once_two_percent_are_trials_and_one_waits_for_another() -> None:
    advisor, asked = with_a_trial()
    one = advisor.choose_cores(**asked)
    assert advisor.choose_cores(**asked) == one
    chosen = advisor.choose_cores(**(asked | {"explore": False})).cores
    assert chosen != one.cores
    assert advisor.choose_cores(**asked, under_way={chosen: 9}).trial
    assert advisor.choose_cores(**asked, under_way={one.cores: 1}).cores == chosen
    many = advisor.choose_cores(**asked, count=200)
    assert (many.cores, many.trial) == (chosen, True)
    assert many.counts == (one.cores,) * 4 + (chosen,) * 196
    assert advisor.choose_cores(**asked, count=49).counts == (chosen,) * 49


# -- a component's own counts -----------------------------------------------------------------------------------------------


def test_a_component_keeps_to_its_own_counts_and_a_merge_to_those_of_both() -> None:
    advisor = taught([1, 2, 4, 8])
    answer = advisor.set_allowed("c", {"min": 2, "max": 64, "power_of": 2})
    assert answer == {"component": "c", "allowed": [2, 4, 8, 16, 32, 64]}
    assert advisor.choose_cores("c", predictor=1.0, tolerance=0.0).cores == 16
    assert advisor.choose_cores("c", predictor=1.0, allowed=[3, 4, 5]).cores == 4
    with pytest.raises(
        InvalidValue, match=r"allowed is '3, 5', must be a set with a count that component 'c' allows: 2, 4, 8"
    ):
        advisor.choose_cores("c", allowed=[3, 5])
    copy = Advisor.from_bytes(advisor.to_bytes())
    assert copy.to_bytes() == advisor.to_bytes()
    copy.set_allowed("c", [4, 6, 8])
    copy.merge(advisor)
    assert copy.choose_cores("c", predictor=1.0, cores_max=64, tolerance=0.0).cores == 8
    part = Advisor.from_bytes(copy.extract(["c"]))
    assert part.choose_cores("c", predictor=1.0, tolerance=0.0).cores == 8
    part.set_allowed("c", [16])
    before = part.to_bytes()
    with pytest.raises(Mismatch, match="component 'c' is allowed 16 cores here, and 4, 8 there"):
        part.merge(copy)
    assert part.to_bytes() == before
    part.set_allowed("c", None)
    with pytest.raises(InvalidValue, match="say which core counts there are"):
        part.choose_cores("c")
    with pytest.raises(UnknownComponent):
        advisor.set_allowed("nobody", [1])
    with pytest.raises(UnknownKey):
        advisor.set_allowed("c", {"most": 1})


def test_counts_seen_are_merged_forgotten_and_bounded() -> None:
    advisor = taught([1, 4], runs=10)
    other = taught([4, 16], runs=20)
    other.merge(advisor)
    assert other.choose_cores("c", cores_max=64).seen == ((1.0, 10), (4.0, 30), (16.0, 20))
    other.forget("c")
    assert other.choose_cores("c", cores_max=64).seen == ()
    many = taught([*range(1, 200, 3), 0.5], lambda p: 1.0 / p, runs=1)  # type: ignore[list-item]
    seen = many.choose_cores("c", cores_max=64).seen
    assert len(seen) <= 16
    assert sum(runs for _, runs in seen) == 68
    assert seen[0][0] == 0.5


# -- stored choices ---------------------------------------------------------------------------------------------------------


def taught_names(rows: int = 64, names: tuple[str, ...] = ("a", "b", "c")) -> Advisor:
    advisor = Advisor()
    for name in names:
        teach(advisor, name, rows)
    return advisor


def teach(advisor: Advisor, name: str, rows: int, factor: float = 1.0, **more: Any) -> None:
    for k in range(rows):
        p = 1 << k % 4
        advisor.observe(name, predictor=float(k % 7 + 1), cores=p, elapsed_s=factor * 0.01 * (k % 7 + 1) / p, **more)
    advisor.flush()


def test_a_choice_is_kept_until_rows_come_and_serves_every_tolerance() -> None:
    advisor = taught_names()
    first = advisor.choose_cores("a", predictor=3.0, cores_max=8)
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8) == first
    for most in (1, 3, 8, 15, 16, 300):
        for tolerance in (0.0, 0.1, 1.0):
            kept = advisor.choose_cores("a", predictor=3.0, cores_max=most, tolerance=tolerance)
            fresh = Advisor.from_bytes(advisor.to_bytes()).choose_cores(
                "a", predictor=3.0, cores_max=most, tolerance=tolerance
            )
            assert kept == fresh
            assert kept.cores <= most
    teach(advisor, "a", 200, factor=4.0)
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8).elapsed_s > 1.2 * first.elapsed_s
    advisor.pin("a", "amdahl")
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8).model == "amdahl"
    advisor.forget("a")
    assert advisor.choose_cores("a", predictor=3.0, cores_max=8).model == "prior"
