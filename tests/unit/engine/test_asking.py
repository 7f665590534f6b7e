"""Questions that a scheduler asks: of components never seen, with risk, for the observed load."""

from __future__ import annotations

import numpy as np
import pytest

from advisor import Advisor
from advisor.errors import InvalidValue, UnknownComponent


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
        advisor.choose_cores("zzz", cores_max=4)


def test_where_the_caller_permits_the_prior_answers_for_it_and_no_byte_changes() -> None:
    advisor = learned("blur", "sort")
    before = advisor.to_bytes()
    answer = advisor.predict("blurr", predictor=[1.0, 2.0], cores=4, prior=True)
    assert (answer.model, answer.observations, answer.nearest) == ("prior", 0, ("blur",))
    assert np.isinf(answer.extrapolates).all()
    assert "'blurr' was never observed; known names like it: 'blur'" in answer.notes
    choice = advisor.choose_cores("zzz", predictor=(3.0, 4.0), cores_max=8, prior=True)
    assert (choice.cores, choice.model, choice.nearest, choice.extrapolates) == (1, "prior", (), np.inf)
    assert "was never observed" in choice.why
    assert advisor.choose_cores("blur", predictor=300, cores_max=8, prior=True).nearest is None
    assert advisor.to_bytes() == before
    with pytest.raises(InvalidValue):
        advisor.choose_cores("no\nname", cores_max=8, prior=True)


def test_among_very_many_names_those_that_begin_and_end_alike_are_compared() -> None:
    advisor = Advisor()
    names = [f"stage{i:05d}" for i in range(3000)] + ["filter low", "filter high"]
    advisor.observe_columns(components=names, index=np.arange(3002), cores=np.ones(3002), elapsed_s=np.ones(3002))
    assert advisor.components.nearest("filter  high")[0] == "filter high"


def test_with_risk_more_cores_are_taken_only_where_the_gain_is_sure() -> None:
    advisor = Advisor()
    for size in (400.0, 500.0, 600.0):
        advisor.observe("one count", predictor=size, cores=2, elapsed_s=1e-3 * size)
    asked = {"predictor": 500.0, "cores_max": 64, "tolerance": 0.0}
    bold = advisor.choose_cores("one count", **asked)
    assert (bold.cores, round(bold.extrapolates, 9)) == (
        64,
        5.0,
    )  # time is believed to fall with cores, and nobody has tried
    assert "beyond what was seen" in bold.why
    assert advisor.choose_cores("one count", **asked, risk=1.0).cores == 2
    advisor = learned("blur")
    curve = advisor.predict("blur", predictor=500.0, cores=np.arange(1.0, 65.0))
    for risk in (0.25, 1.0):
        choice = advisor.choose_cores("blur", **asked, risk=risk)
        bound = curve.elapsed_s * (curve.high_s / curve.elapsed_s) ** risk
        assert bound[choice.cores - 1] <= bound.min() * (1 + 1e-12)
