"""What answers without a learner, what it says of itself, and what it answers outside what was seen.

The base tier is asked alone unless the test says otherwise; what the learner answers to the same rows is checked beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from advisor.engine import Advisor

CORES = np.array([1.0, 2.0, 4.0, 8.0, 16.0])


def learned(f: object, x: object, p: object = CORES, noise: float = 0.0, seed: int = 0, memory: int = 0) -> Advisor:
    rng = np.random.default_rng(seed)
    xs, ps = (grid.ravel() for grid in np.meshgrid(np.asarray(x, float), np.asarray(p, float)))
    order = rng.permutation(len(xs))
    t = f(xs, ps) * np.exp(noise * rng.standard_normal(len(xs)))  # type: ignore[operator]
    advisor = Advisor(model_memory_bytes=memory)
    advisor.observe_columns(
        components=["c"], index=np.zeros(len(xs), int), predictor=xs[order], cores=ps[order], elapsed_s=t[order]
    )
    return advisor


SIZES = np.arange(1.0, 31.0) * 10


TRUTHS: dict[str, Callable[..., Any]] = {
    "of cores alone": lambda x, p: 3.0 * (0.2 + 0.8 / p) + 0.0 * x,
    "linear": lambda x, p: (5.0 + 0.1 * x) * (0.2 + 0.8 / p),
    "square": lambda x, p: (5.0 + 0.002 * x**2) * (0.2 + 0.8 / p),
    "cubic": lambda x, p: (5.0 + 1e-5 * x**3) * (0.2 + 0.8 / p),
    "proportional": lambda x, p: 0.1 * x * (0.2 + 0.8 / p),
    "serial and linear": lambda x, p: 5.0 + 0.1 * x / p,
    "linear and square": lambda x, p: 5.0 + 0.1 * x + 0.01 * x**2 / p,
    "serial and cubic": lambda x, p: 5.0 + 1e-4 * x**3 / p,
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_one_form_answers_every_truth_at_two_percent_noise(truth: object) -> None:
    advisor = learned(truth, SIZES, noise=0.02)
    answer = advisor.predict("c", predictor=155.0, cores=3)
    assert answer.model == "amdahl"
    assert answer.notes == ()
    assert answer.extrapolates == 0.0
    assert answer.elapsed_s == pytest.approx(truth(155.0, 3.0), rel=0.02)  # type: ignore[operator]
    assert answer.low_s < answer.elapsed_s < answer.high_s


@pytest.mark.parametrize("name", sorted(TRUTHS))
def test_the_learner_knows_the_same_truths(name: str) -> None:
    advisor = learned(TRUTHS[name], SIZES, noise=0.02, memory=2**24)
    answer = advisor.predict("c", predictor=155.0, cores=3)
    assert answer.elapsed_s == pytest.approx(TRUTHS[name](155.0, 3.0), rel=0.02)
    assert answer.low_s < answer.elapsed_s < answer.high_s
    assert answer.extrapolates == 0.0
    assert answer.model == "learner"
    held = advisor.predict("c", predictor=155.0, cores=3, model="amdahl")
    assert (held.model, held.notes) == ("amdahl", ())


@pytest.mark.parametrize("cores", [0.1, 0.25, 2.0**-10])
def test_less_than_one_core_keeps_its_form(cores: float) -> None:
    """The time of one core is far below every time seen: that is no reason to drop to the mean."""
    advisor = learned(lambda x, p: (1.0 + 0.1 * x) / p, SIZES, p=[cores], noise=0.01)
    for x in (20.0, 290.0):
        assert advisor.predict("c", predictor=x, cores=cores).elapsed_s == pytest.approx(
            (1.0 + 0.1 * x) / cores, rel=0.03
        )
    both = learned(lambda x, p: (1.0 + 0.1 * x) * (0.1 + 0.9 / p), SIZES, p=[cores, 2 * cores], noise=0.01)
    assert both.predict("c", predictor=100.0, cores=cores).elapsed_s == pytest.approx(
        11.0 * (0.1 + 0.9 / cores), rel=0.03
    )


def test_a_part_that_noise_puts_below_zero_does_not_cost_the_form() -> None:
    """No part of the time is serial, or none parallel: half of all fits have it slightly negative."""
    for truth in (lambda x, p: (5.0 + 0.1 * x**2) / p, lambda x, p: 5.0 + 0.1 * x**2 + 0 * p):
        for seed in range(12):
            advisor = learned(truth, SIZES, noise=0.05, seed=seed)
            at = np.array([30.0, 155.0, 290.0])
            for p in CORES:
                found = advisor.predict("c", predictor=at, cores=p).elapsed_s
                np.testing.assert_allclose(found, truth(at, p), rtol=0.12)


def test_one_core_count_says_so_and_its_interval_holds_every_fraction() -> None:
    advisor = learned(lambda x, p: 1.0 + 0.1 * x + 0 * p, SIZES, p=[4.0], noise=0.01)
    answer = advisor.predict("c", predictor=100.0, cores=16)
    assert any("one core count seen" in note for note in answer.notes)
    assert answer.low_s <= 11.0 / 4 * 1.02
    assert answer.high_s >= 11.0 * 0.98
    assert answer.extrapolates == pytest.approx(2.0, abs=0.01)


def test_one_core_count_leaves_the_learner_as_open() -> None:
    advisor = learned(lambda x, p: 1.0 + 0.1 * x + 0 * p, SIZES, p=[4.0], noise=0.01, memory=2**24)
    answer = advisor.predict("c", predictor=100.0, cores=16)
    assert answer.low_s <= 11.0 / 4 * 1.02
    assert answer.high_s >= 11.0 * 0.98
    assert answer.extrapolates == pytest.approx(2.0, abs=0.01)


def test_one_predictor_value_says_so() -> None:
    advisor = learned(lambda x, p: 2.0 * (0.5 + 0.5 / p) + 0 * x, [7.0], noise=0.01)
    answer = advisor.predict("c", predictor=7.0, cores=2)
    assert any("one predictor value" in note for note in answer.notes)


def test_few_rows_are_answered_with_a_wide_interval() -> None:
    for memory, says, width in ((0, "too few rows", 4.0), (2**24, "one setting seen", 1.5)):
        advisor = Advisor(model_memory_bytes=memory)
        advisor.observe("c", predictor=10, cores=2, elapsed_s=4.0)
        answer = advisor.predict("c", predictor=10, cores=2)
        assert answer.elapsed_s == pytest.approx(4.0, rel=0.01)
        assert answer.high_s / answer.low_s > width
        assert any(says in note for note in answer.notes)
        far = advisor.predict("c", predictor=1000, cores=2)
        assert far.high_s / far.low_s > 10 * width


def test_beyond_the_seen_predictors_the_curve_goes_on_by_its_slope() -> None:
    advisor = learned(lambda x, p: 1e-5 * x**3 * (0.2 + 0.8 / p), SIZES, noise=0.01)
    inside = advisor.predict("c", predictor=300.0, cores=4)
    for factor, log2 in ((2.0, 1.0), (16.0, 4.0)):
        answer = advisor.predict("c", predictor=300.0 * factor, cores=4)
        assert answer.extrapolates == pytest.approx(log2, abs=1e-4)
        assert answer.elapsed_s / inside.elapsed_s == pytest.approx(factor**3, rel=0.25)
        assert answer.high_s / answer.low_s > inside.high_s / inside.low_s
    assert advisor.predict("c", predictor=0.0, cores=4).elapsed_s > 0


def test_extrapolation_in_cores_adds_to_the_distance() -> None:
    advisor = learned(lambda x, p: (1.0 + x) * (0.2 + 0.8 / p), SIZES, noise=0.01)
    answer = advisor.predict("c", predictor=600.0, cores=[16.0, 64.0, 0.5])
    np.testing.assert_allclose(answer.extrapolates, [1.0, 3.0, 2.0], atol=1e-3)


def test_times_that_rise_with_cores_are_learned() -> None:
    advisor = learned(lambda x, p: 0.1 * x * (1.0 - 0.5 / p), SIZES, noise=0.01)
    for p in (1.0, 3.0, 16.0):
        found = advisor.predict("c", predictor=155.0, cores=p).elapsed_s
        assert found == pytest.approx(15.5 * (1.0 - 0.5 / p), rel=0.03)
    choice = advisor.choose_cores("c", predictor=155.0, cores_max=16)
    assert choice.cores == 1
