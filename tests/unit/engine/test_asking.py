"""Questions that a scheduler asks: of components never seen, with risk, for the observed load."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from c_curves import Curves

from advisor import Advisor
from advisor.engine.asking import PINS
from advisor.errors import AdvisorError, InvalidValue, UnknownComponent


def learned(*names: str, counts: tuple[int, ...] = (1, 2, 4), seed: int = 1) -> Advisor:
    advisor, rng = Advisor(), np.random.default_rng(seed)
    for name in names:
        for x, p in zip(rng.uniform(100, 1000, 60), rng.choice(counts, 60), strict=True):
            advisor.observe(name, predictor=x, cores=p, elapsed_s=1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.05))
    return advisor


def test_an_unknown_component_is_an_error_that_names_those_like_it() -> None:
    advisor = learned("blur", "blur large", "sort")
    with pytest.raises(UnknownComponent) as caught:
        advisor.predict("blurr")
    assert caught.value.hint == "did you mean 'blur' or 'blur large'?"
    assert caught.value.bound == "blur, blur large"
    with pytest.raises(UnknownComponent, match="check the spelling"):
        advisor.predict("zzz")


def test_where_the_caller_permits_the_prior_answers_for_it_and_no_byte_changes() -> None:
    advisor = learned("blur", "sort")
    before = advisor.to_bytes()
    answer = advisor.predict("blurr", predictor=[1.0, 2.0], cores=4, prior=True)
    assert (answer.model, answer.observations, answer.nearest) == ("prior", 0, ("blur",))
    assert np.isinf(answer.extrapolates).all()
    assert "'blurr' was never observed; known names like it: 'blur'" in answer.notes
    assert advisor.to_bytes() == before


def test_among_very_many_names_those_that_begin_and_end_alike_are_compared() -> None:
    advisor = Advisor()
    names = [f"stage{i:05d}" for i in range(3000)] + ["filter low", "filter high"]
    advisor.observe_columns(components=names, index=np.arange(3002), cores=np.ones(3002), elapsed_s=np.ones(3002))
    assert advisor.components.slots.nearest("filter  high")[0] == "filter high"


# -- curves in your own loop -----------------------------------------------------------------------------------------------


def test_the_curves_of_a_bundle_choose_as_the_advisor_does() -> None:
    advisor = learned("blur", "sort")
    state = advisor.to_bytes()
    curves = Curves(advisor.bundle(cores_max=64))
    for predictor in (120.0, 400.0, 900.0):
        for most in (2, 7, 64):
            wanted = advisor.choose_cores("blur", predictor=predictor, cores_max=most)
            taken = curves.choose_cores("blur", predictor, cores_max=most)
            taken_s = advisor.predict("blur", predictor=predictor, cores=taken).elapsed_s
            assert taken_s == pytest.approx(wanted.elapsed_s, rel=0.06)  # the tolerance, and 1 % of the tables
    assert curves.predict("sort", 300.0, 2).elapsed_s == pytest.approx(
        advisor.predict("sort", predictor=300.0, cores=2).elapsed_s, rel=0.02
    )
    assert advisor.to_bytes() == state
    advisor.forget("blur")
    assert not Curves(advisor.bundle()).answers("blur")


# -- the observed load, and several components ------------------------------------------------------------------------------


def test_without_a_predictor_the_answer_is_of_the_observed_load() -> None:
    rng = np.random.default_rng(3)
    advisor, x = Advisor(), rng.choice([100.0, 200.0, 2000.0], 400, p=[0.5, 0.3, 0.2])
    p = rng.choice([1.0, 2.0, 4.0], 400)
    t = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1, 400)
    advisor.observe_columns(components=["c"], index=np.zeros(400, int), predictor=x, cores=p, elapsed_s=t)
    fresh = 1e-3 * rng.choice([100.0, 200.0, 2000.0], 20_000, p=[0.5, 0.3, 0.2]) * rng.lognormal(0, 0.1, 20_000)
    for cores in (1.0, 4.0):
        runs = fresh * (0.1 + 0.9 / cores)
        answer = advisor.predict("c", cores=cores)
        assert answer.elapsed_s == pytest.approx(runs.mean(), rel=0.1)
        assert [answer.low_s, answer.high_s] == pytest.approx(np.quantile(runs, [0.05, 0.95]), rel=0.06)
    many = advisor.predict("c", cores=[1.0, 4.0])
    assert [many.elapsed_s[1], many.low_s[1], many.high_s[1]] == [answer.elapsed_s, answer.low_s, answer.high_s]
    assert "over the observed load" in many.notes[-1]
    assert advisor.choose_cores("c", cores_max=4).cores == 4
    one = Advisor()
    for elapsed_s in (1.0, 1.1, 0.9):
        one.observe("c", elapsed_s=elapsed_s)
    assert one.predict("c") == one.predict("c", predictor=1.0)


@pytest.mark.parametrize("form", PINS)
def test_a_component_pinned_to_any_model_comes_back_from_its_bytes(form: str) -> None:
    advisor = Advisor()
    advisor.observe("z", predictor=2.0, cores=1, elapsed_s=0.5)
    advisor.pin("z", form)
    assert Advisor.from_bytes(advisor.to_bytes()).status(components=["z"])["components"][0]["pinned"] == form


@pytest.mark.parametrize("point", [3.0, (3.0, 2.0)])
def test_what_was_forgotten_is_asked_for_like_what_was_never_seen(point: float | tuple[float, float]) -> None:
    advisor = Advisor()
    for number in range(1, 20):
        x = np.multiply(point, number).tolist()
        advisor.observe("c", predictor=x, cores=2, elapsed_s=0.1 * number, measures={"peak_bytes": 1e6 * number})
    advisor.forget("c")
    questions = (
        lambda: advisor.suggest("c", cores_max=8),
        lambda: advisor.choose_cores("c", cores_max=8),
        lambda: advisor.predict("c", predictor=point, cores=2),
        lambda: advisor.predict("c", cores=2),
        lambda: advisor.predict("c", predictor=point, cores=2, measure="peak_bytes"),
        lambda: advisor.allocate("c", cores=4),
        lambda: advisor.status(components=["c"]),
    )
    for ask in questions:
        with contextlib.suppress(AdvisorError):  # anything else is a defect
            ask()


def test_what_is_suggested_is_on_counts_that_can_be_run() -> None:
    advisor = Advisor()
    for p in (1, 2, 4):
        advisor.observe("c", predictor=1.0, cores=p, elapsed_s=1.0 / p)

    def counts(**asked: Any) -> set[float]:
        return {each.cores for each in advisor.suggest("c", limit=100, **asked)}

    assert counts() == {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0}
    assert counts(cores_max=5) == {1.0, 2.0, 4.0}
    assert counts(allowed=[3, 6, 200]) == {3.0, 6.0, 200.0}
    assert counts(allowed={"min": 3, "max": 48, "multiple_of": 3}, cores_max=20) == {3.0, 9.0, 15.0}
    advisor.set_allowed("c", [1, 6])
    assert counts() == counts(cores_max=8) == {1.0, 6.0}
    with pytest.raises(InvalidValue):
        advisor.suggest("c", allowed=[2, 3])
