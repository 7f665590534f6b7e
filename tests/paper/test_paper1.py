"""Paper 1's setting and findings, on generated data: 48 cores, sizes 50 to 2500, ten runs, noise of mean 5 ms.

Each tolerance stands beside what was measured when it was written. The figures of the paper are those of its section 3.
"""

from __future__ import annotations

import numpy as np
import pytest
from paper_setting import CORE_COUNTS, NOISE_S, PIPELINE, SIZES, Component, measurements

from advisor.domain.observations import Columns
from advisor.engine import Advisor

MULTIPLY = PIPELINE[0]  # the paper's component
GRID_X, GRID_P = (
    grid.ravel() for grid in np.meshgrid(np.array(SIZES, float), np.array(CORE_COUNTS, float), indexing="ij")
)
CUBIC = "two_step degree 3"  # the paper takes the degree as known


def learned(columns: Columns, rows: int, memory: int = 2**24) -> Advisor:
    advisor = Advisor(model_memory_bytes=memory)
    advisor.observe_columns(
        components=columns.components.names, index=columns.index[:rows], predictor=columns.predictor[:rows],
        cores=columns.cores[:rows], elapsed_s=columns.elapsed_s[:rows],
    )  # fmt: skip
    return advisor


def median_error(component: Component, rows: int, seed: int, memory: int) -> float:
    """Return the median error over all sizes and core counts after `rows` rows in random order."""
    advisor = learned(measurements([component], seed), rows, memory)
    predicted = advisor.predict(component.name, predictor=GRID_X, cores=GRID_P).elapsed_s
    return float(np.median(np.abs(predicted / component.elapsed_s(GRID_X, GRID_P) - 1.0)))


# -- accuracy of the default ------------------------------------------------------------------------------------------


# Median error after 30 and after 1000 rows: the median over seeds, and the worst seed after 1000; nothing is told about the
# timer. Measured: multiply 2.9 % and 0.4 % (worst of 40 seeds 0.6 %), blocked 4.5 % and 1.3 % (2.7 %), filter 1.7 % and 0.4 %
# (0.6 %), reduce 1.0 % and 0.2 % (0.4 %). At most sizes and core counts `blocked` takes about as long as the noise. The exact
# sums alone, for components without room: 3.4, 10.7, 2.1 and 0.7 % after 30 rows, at worst 2.3 % after 1000.
@pytest.mark.parametrize(
    ("place", "memory", "after_30", "after_1000"),
    [
        (0, 0, 0.05, 0.03), (1, 0, 0.12, 0.03), (2, 0, 0.05, 0.03), (3, 0, 0.05, 0.03),
        (0, 2**24, 0.05, 0.03), (1, 2**24, 0.07, 0.03), (2, 2**24, 0.05, 0.03), (3, 2**24, 0.05, 0.03),
    ],
)  # fmt: skip
def test_the_default_is_accurate_after_30_and_1000_rows(
    place: int, memory: int, after_30: float, after_1000: float
) -> None:
    few = [median_error(PIPELINE[place], 30, seed, memory) for seed in range(15)]
    many = [median_error(PIPELINE[place], 1000, seed, memory) for seed in range(8)]
    assert np.median(few) < after_30, np.round(few, 4)
    assert max(many) < after_1000, np.round(many, 4)


@pytest.mark.parametrize("memory", [0, 2**24])
@pytest.mark.parametrize("fraction", [0.5, 0.9, 0.99])
def test_the_bias_is_below_one_percent_at_thirty_percent_noise(fraction: float, memory: int) -> None:
    biases = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, len(GRID_X), 10_000)
        truth = (0.01 + 1e-9 * GRID_X**3) * (1.0 - fraction + fraction / GRID_P)
        advisor = Advisor(model_memory_bytes=memory)
        advisor.observe_columns(
            components=["c"], index=np.zeros(10_000, int), predictor=GRID_X[rows], cores=GRID_P[rows],
            elapsed_s=truth[rows] * np.exp(0.3 * rng.standard_normal(10_000) - 0.045),
        )  # fmt: skip
        biases.append(float(np.mean(advisor.predict("c", predictor=GRID_X, cores=GRID_P).elapsed_s / truth - 1.0)))
    # Measured: at most 0.76 %, 0.2 % on average; noise alone moves the mean of the fit by about 0.5 %.
    assert max(map(abs, biases)) < 0.01, np.round(biases, 4)


# -- two_step, section 3.2 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1000, 4000])
def test_two_step_is_within_ten_percent_above_500(rows: int) -> None:
    """As Fig. 5: large errors below 500, where the noise is much of the time; then quickly within 10 %."""
    for seed in range(5):
        advisor = learned(measurements([MULTIPLY], seed), rows)
        predicted = advisor.predict(MULTIPLY.name, predictor=GRID_X, cores=GRID_P, model=CUBIC).elapsed_s
        error = np.abs(predicted / MULTIPLY.elapsed_s(GRID_X, GRID_P) - 1)
        above = GRID_X > 500
        per_size = [float(np.median(error[size == GRID_X])) for size in SIZES if size > 500]
        # Measured: the worst size 7.6 % over its core counts; 96 % of combinations within 10 %, all of them above 750;
        # median 0.2 %, below 500 35 %. The 5 ms that no core shortens are a quarter of the time at size 550 on 47 cores.
        assert max(per_size) < 0.10, (seed, max(per_size))
        assert np.mean(error[above] < 0.10) > 0.93, (seed, np.mean(error[above] < 0.10))
        assert error[GRID_X > 800].max() < 0.10, (seed, error[GRID_X > 800].max())
        assert np.median(error[above]) < 0.01
        assert np.median(error[~above]) > 0.10, "the noise below 500 is the finding"


def alphas(columns: Columns, advisor: Advisor) -> np.ndarray:
    """Return the fraction that each row above one core gives by itself: p/(p - 1)·(1 − T/S)."""
    x, p, t = columns.predictor, columns.cores, columns.elapsed_s
    single = advisor.predict("multiply", predictor=x, cores=1, model=CUBIC).elapsed_s
    more = p > 1
    return p[more] / (p[more] - 1) * (1 - t[more] / single[more])


def test_averaged_and_clamped_alphas_lose_to_the_highest_point() -> None:
    """Fig. 4: predictions for 47 cores; the two averages are off by a considerable margin."""
    for seed in range(5):
        columns = measurements([MULTIPLY], seed)
        advisor = learned(columns, len(columns))
        each = alphas(columns, advisor)
        highest = advisor.model("multiply", CUBIC).fraction
        sizes = np.array([s for s in SIZES if s > 500], float)
        single = advisor.predict("multiply", predictor=sizes, cores=1, model=CUBIC).elapsed_s
        truth = MULTIPLY.elapsed_s(sizes, 47)
        error = {
            name: float(np.mean(np.abs(single * (1 - a + a / 47) / truth - 1)))
            for name, a in (("averaged", each.mean()), ("clamped", each.clip(0, 1).mean()), ("highest", highest))
        }
        # Measured: averaged 153 to 213 %, clamped 121 to 145 %, highest 3.8 %.
        assert error["highest"] < 0.05, (seed, error)
        assert error["clamped"] > 5 * error["highest"], (seed, error)
        assert error["averaged"] > 5 * error["highest"], (seed, error)


# -- cache jumps, section 3.3 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("jumps", [(1.2, 1.2), (1.3, 1.2), (1.4, 1.2)])
def test_with_cache_jumps_most_errors_stay_within_twenty_percent(jumps: tuple[float, float]) -> None:
    """Figs. 7 to 10: times jump by 20 to 40 % where a cache overflows, at two sizes; larger sizes than before."""
    sizes = np.arange(100, 4001, 100.0)
    x, p = (grid.ravel() for grid in np.meshgrid(sizes, np.repeat(np.array(CORE_COUNTS, float), 10), indexing="ij"))
    truth = 5e-10 * x**3 * np.where(x > 1200, jumps[0], 1.0) * np.where(x > 2600, jumps[1], 1.0) * (0.005 + 0.995 / p)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(x))
        elapsed = truth[rows] + rng.exponential(NOISE_S, len(x))
        advisor = Advisor()
        advisor.observe_columns(
            components=["blocked"], index=np.zeros(len(x), int), predictor=x[rows], cores=p[rows], elapsed_s=elapsed
        )
        large = x > 500
        predicted = advisor.predict("blocked", predictor=x[large], cores=p[large], model=CUBIC).elapsed_s
        error = np.abs(predicted / (truth[large] + NOISE_S) - 1)
        # Measured: 77 to 79 % within 20 %, 64 to 65 % within 10 %.
        assert np.mean(error < 0.20) > 0.75, (seed, jumps, np.mean(error < 0.20))
        assert np.mean(error < 0.10) > 0.5, (seed, jumps, np.mean(error < 0.10))


# -- streaming, section 3.4 -------------------------------------------------------------------------------------------


def first_fit(columns: Columns) -> int:
    """Return how many rows give a first estimate: four sizes on one core for the cubic, and more cores for the fraction."""
    single = columns.cores == 1
    rows = 4
    while len(set(columns.predictor[:rows][single[:rows]])) < 4 or columns.cores[:rows].max() == 1:
        rows += 1
    return rows


def prequential(columns: Columns, frozen: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return predicted times, measured times and sizes of the rows after the first fit, each predicted before it is learned."""
    first = first_fit(columns)
    advisor = learned(columns, first)
    answers = []
    for start in range(first, 1600, 20):
        block = columns.select_rows(slice(start, start + 20))
        answers.append(advisor.predict("multiply", predictor=block.predictor, cores=block.cores, model=CUBIC).elapsed_s)
        if not frozen:
            advisor.learn_batch(block)
    predicted = np.concatenate(answers)
    seen = slice(first, first + len(predicted))
    return predicted, columns.elapsed_s[seen], columns.predictor[seen]


def test_incremental_beats_frozen_in_mean_error_and_in_outliers() -> None:
    """Figs. 11 to 14: errors in percent of the predicted time and in seconds, their means and their outliers."""
    totals = []
    for frozen in (True, False):
        found = []
        for seed in range(8):
            predicted, measured, size = prequential(measurements([MULTIPLY], seed), frozen)
            off = np.abs(predicted - measured)
            found.append(
                [
                    (off / predicted)[size > 500].mean(),
                    (off / measured).mean(),
                    off.mean(),
                    np.quantile(off, 0.99),
                    off.max(),
                ]
            )
        totals.append(np.mean(found, axis=0))
    percent, of_measured, seconds, outliers, worst = totals[1] / totals[0]
    # Measured, incremental over frozen: 0.83 in percent of the predicted time, 0.65 of the measured; 0.43 in seconds, 0.42 at
    # the 99th percentile, 0.68 at the worst row.
    assert percent < 0.95, percent
    assert of_measured < 0.8, of_measured
    assert seconds < 0.7, seconds
    assert outliers < 0.7, outliers
    assert worst < 0.95, worst
