"""First rows borrow from siblings, and nothing else does: laws of what they borrow."""

from __future__ import annotations

import numpy as np
import pytest

from advisor import Advisor, replay_answer
from advisor.domain.answers import Prediction
from advisor.engine.siblings import MEMBERS_LEAST, bound_of, groups_of
from advisor.models.siblings import YIELDED

COUNTS = [1, 2, 4, 8, 16]
SLOPE = -0.9  # of ln t in ln p: all siblings have it, and the belief without them is -0.5


def observe_family(advisor: Advisor, prefix: str, members: int, slope: float = SLOPE) -> None:
    """Let components learn times x p**slope on all counts."""
    for number in range(members):
        for cores in COUNTS:
            for x in (1.0, 3.0, 9.0):
                advisor.observe(f"{prefix}{number}", predictor=x, cores=cores, elapsed_s=x * cores**slope)


def observe_first(advisor: Advisor, name: str, rows: int) -> None:
    for row in range(rows):
        advisor.observe(name, predictor=2.0 + row, cores=2, elapsed_s=(2.0 + row) * 2**SLOPE)


def ask(advisor: Advisor, name: str) -> Prediction:
    return advisor.predict(name, predictor=3.0, cores=COUNTS)


def same(one: Prediction, other: Prediction) -> bool:
    return all(np.array_equal(getattr(one, key), getattr(other, key)) for key in ("elapsed_s", "low_s", "high_s"))


@pytest.mark.parametrize("rows", range(1, YIELDED + 2))
def test_siblings_are_borrowed_from_up_to_the_fifth_row_and_no_bit_remains(rows: int) -> None:
    among, alone = Advisor(), Advisor()
    observe_family(among, "g/", 6)
    for advisor in (among, alone):
        observe_first(advisor, "g/new", rows)
    one, other = ask(among, "g/new"), ask(alone, "g/new")
    assert same(one, other) == (rows >= YIELDED)
    named = "how time depends on predictor and cores: as of 6 other components named g/…"
    assert (named in one.notes) == (rows < YIELDED)
    assert among.extract(["g/new"], ()) == alone.extract(["g/new"], ())  # never learned from


def test_the_first_row_takes_the_slopes_of_siblings() -> None:
    among, alone = Advisor(), Advisor()
    observe_family(among, "g/", 6)
    true = np.array([3.0 * cores**SLOPE for cores in COUNTS])
    errors = list[float]()
    for advisor in (among, alone):
        observe_first(advisor, "g/new", 1)
        errors.append(float(np.abs(np.log(ask(advisor, "g/new").elapsed_s / true)).max()))
    assert errors[0] < 0.25 * errors[1]


def test_the_nearest_group_counts_most() -> None:
    found = list[float]()
    for name in ("g/new", "h/new"):
        advisor = Advisor()
        observe_family(advisor, "g/", 6)
        for number in range(6):
            for cores in COUNTS:
                advisor.observe(f"h/{number}", predictor=1.0 + number, cores=cores, elapsed_s=1.0 + number)
        observe_first(advisor, name, 1)
        found.append(float(ask(advisor, name).elapsed_s[-1]))
    assert found[0] < 0.5 * found[1]


def test_merged_parts_restored_states_and_copies_lend_as_the_whole_does() -> None:
    whole = Advisor()
    observe_family(whole, "g/", 9)
    observe_first(whole, "g/new", 2)
    names = [f"g/{number}" for number in range(9)]
    parts = [whole.extract(some, ()) for some in (names[5:], ["g/new"], names[:5])]
    merged = Advisor()
    for part in parts:
        merged.merge(Advisor.from_bytes(part))
    asked = ask(whole, "g/new")
    assert same(ask(merged, "g/new"), asked)
    assert same(ask(Advisor.from_bytes(whole.to_bytes()), "g/new"), asked)


def test_a_removed_sibling_lends_nothing_and_a_new_name_in_its_place_stands_in_its_own_group() -> None:
    advisor, alone = Advisor(), Advisor()
    observe_family(advisor, "g/", 6)
    for one in (advisor, alone):
        observe_first(one, "g/new", 1)
    assert not same(ask(advisor, "g/new"), ask(alone, "g/new"))
    advisor.remove_components([f"g/{number}" for number in range(6)])
    assert same(ask(advisor, "g/new"), ask(alone, "g/new"))
    observe_family(advisor, "h/", 6)  # in the freed slots
    observe_first(advisor, "h/new", 1)
    assert ask(advisor, "h/new").notes == (
        "how time depends on predictor and cores: as of 6 other components named h/…",
    )


def test_answers_follow_siblings_though_the_component_has_no_new_row() -> None:
    advisor = Advisor()
    observe_first(advisor, "g/new", 1)
    before = ask(advisor, "g/new")
    observe_family(advisor, "g/", 6)
    again = Advisor()
    observe_family(again, "g/", 6)
    observe_first(again, "g/new", 1)
    assert not same(ask(advisor, "g/new"), before)
    assert same(ask(advisor, "g/new"), ask(again, "g/new"))


def test_groups_are_prefixes_up_to_a_separator_and_of_one_kind() -> None:
    assert groups_of("a/b.c") == ["", "a/", "a/b."]
    assert groups_of("a/b\x1fpeak_bytes") == ["\x1fpeak_bytes", "a/\x1fpeak_bytes"]
    assert groups_of("plain") == [""]


@pytest.mark.parametrize("n", [MEMBERS_LEAST, 38, 39, 64])
def test_the_bound_of_siblings_holds_for_the_next_one_as_often_as_it_says(n: int) -> None:
    rng = np.random.default_rng(n)
    for draw in (rng.normal, rng.uniform, rng.logistic):
        kept = [draw() <= bound_of(np.sort(draw(size=n))) for _ in range(4000)]
        assert np.mean(kept) > 0.975 - 4 * (0.975 * 0.025 / 4000) ** 0.5 - (0.01 if n < 39 else 0.0)


def test_choices_and_pools_name_the_siblings_that_they_rest_on() -> None:
    advisor = Advisor()
    observe_family(advisor, "g/", 6)
    observe_first(advisor, "g/new", 1)
    named = "how time depends on predictor and cores: as of 6 other components named g/…"
    assert named in advisor.choose_cores("g/new", predictor=2.0, cores_max=8).assumed
    jobs = [{"id": name, "component": name, "predictor": 2.0} for name in ("g/new", "g/1")]
    assert advisor.choose_together(jobs, 8).assumed == {"g/new": named}


def promised(advisor: Advisor, cores: int = 8) -> float:
    """Return the throughput promised of a box that ran on one core, with all cores for itself."""
    plan = advisor.allocate("work", cores=cores, turns="never", minimum={"work": cores}, components={"work": "g/new"})
    return plan.throughput_per_s


def observe_one_core(advisor: Advisor) -> None:
    for row in range(1, 9):
        advisor.observe("g/new", predictor=float(row), cores=1, elapsed_s=float(row))


@pytest.mark.parametrize("members", [MEMBERS_LEAST - 1, MEMBERS_LEAST, 40])
def test_promises_beyond_the_cores_seen_follow_twenty_siblings_and_no_fewer(members: int) -> None:
    advisor, alone = Advisor(), Advisor()
    for one in (alone, advisor):
        observe_one_core(one)
    observe_family(
        advisor, "g/", members, slope=-0.3
    )  # less than what is expected of a component: a promise is never more
    gained = promised(advisor) / promised(alone)
    assert gained == (pytest.approx(1.1**3 * 8**0.3, rel=0.05) if members >= MEMBERS_LEAST else 1.0)


def test_promises_do_not_follow_the_few_that_ran_on_more_cores() -> None:
    advisor, alone = Advisor(), Advisor()
    for one in (alone, advisor):
        observe_one_core(one)
    observe_family(advisor, "g/", MEMBERS_LEAST)
    for number in range(MEMBERS_LEAST + 1):
        for row in range(1, 9):
            advisor.observe(f"g/serial{number}", predictor=float(row), cores=1, elapsed_s=float(row))
    assert promised(advisor) == promised(alone)


def test_plans_follow_siblings_though_no_box_has_a_new_row() -> None:
    advisor, again = Advisor(), Advisor()
    observe_one_core(advisor)
    observe_family(advisor, "g/", MEMBERS_LEAST)
    before = promised(advisor)
    for number in range(4):
        for one in range(8):
            advisor.observe(f"g/{number}", predictor=1.0 + one, cores=8, elapsed_s=1.0 + one)
    after = promised(advisor)
    again.merge(Advisor.from_bytes(advisor.to_bytes()))
    assert after < 0.8 * before
    assert after == promised(again)


def test_evidence_of_first_rows_has_the_siblings() -> None:
    advisor = Advisor()
    observe_family(advisor, "g/", 6)
    observe_first(advisor, "g/new", 1)
    answer = advisor.predict("g/new", predictor=3.0, cores=8.0, evidence=True)
    assert answer.elapsed_s == advisor.predict("g/new", predictor=3.0, cores=8.0).elapsed_s
    assert answer.basis is not None
    assert replay_answer(answer.basis).elapsed_s == answer.elapsed_s
