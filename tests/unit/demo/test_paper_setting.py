"""The generated setting is the paper's: counts, sizes, runs, noise and truth, the same for the same seed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.demo.paper_setting import (
    CORE_COUNTS,
    NOISE_S,
    PIPELINE,
    RUNS,
    SIZES,
    equal_shares,
    mean_elapsed_s,
    measurements,
    proportional_shares,
    truth,
)


def test_every_combination_is_run_ten_times() -> None:
    rows = measurements(PIPELINE, 7)
    cells = list(zip(rows.index.tolist(), rows.predictor.tolist(), rows.cores.tolist(), strict=True))
    expected = itertools.product(range(len(PIPELINE)), map(float, SIZES), map(float, CORE_COUNTS))
    assert sorted(cells) == sorted(cell for cell in expected for _ in range(RUNS))


def test_a_seed_gives_one_stream_and_another_seed_another() -> None:
    first, again, other = measurements(PIPELINE, 7), measurements(PIPELINE, 7), measurements(PIPELINE, 8)
    np.testing.assert_array_equal(first.elapsed_s, again.elapsed_s)
    np.testing.assert_array_equal(first.index, again.index)
    assert (first.predictor != other.predictor).any()


def test_the_noise_is_one_sided_with_the_truth_as_its_mean() -> None:
    rows = measurements(PIPELINE, 7)
    noise = rows.elapsed_s - truth(PIPELINE, rows.index, rows.predictor, rows.cores) + NOISE_S
    assert noise.min() > -1e-12
    # 16,000 draws: the mean of an exponential is known to 0.8 %, its standard deviation to 1.6 %; four times that.
    assert noise.mean() == pytest.approx(NOISE_S, rel=0.032)
    assert noise.std() == pytest.approx(NOISE_S, rel=0.064)


def test_the_first_component_is_the_papers() -> None:
    multiply = PIPELINE[0]
    assert 15 < multiply.elapsed_s(2500, 4) < 16
    assert multiply.parallel_fraction > 0.99
    by_hand = 0.999 * 3.9e-9 * 1000**3 / 8 + 0.001 * 3.9e-9 * 1000**3 + NOISE_S
    assert multiply.elapsed_s(1000, 8) == pytest.approx(by_hand, rel=1e-12)


def test_the_mean_over_the_sizes_is_each_components_own() -> None:
    means = mean_elapsed_s(PIPELINE, [1, 2, 4, 8])
    assert means[2] == pytest.approx(np.mean([PIPELINE[2].elapsed_s(size, 4) for size in SIZES]), rel=1e-12)


@given(n=st.integers(1, 40), cores=st.integers(40, 500))
def test_equal_shares_use_every_core_and_differ_by_one(n: int, cores: int) -> None:
    shares = equal_shares(n, cores)
    assert sum(shares) == cores
    assert max(shares) - min(shares) <= 1


@given(weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40), cores=st.integers(40, 500))
def test_proportional_shares_use_every_core_and_leave_nobody_without(weights: list[float], cores: int) -> None:
    shares = proportional_shares(weights, cores)
    assert sum(shares) == cores
    assert min(shares) >= 1
    order = np.argsort(weights, kind="stable")
    assert np.all(np.diff(np.array(shares)[order]) >= -1)  # a larger weight never gets less, but for one rounding
