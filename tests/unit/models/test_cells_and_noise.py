"""The noise law of cells, what a cell's runs are carried along, and which cell gives way to one that waits."""

from __future__ import annotations

import numpy as np

from advisor.models.cells import let_wait
from advisor.models.covariance import MIDDLE_PULL, NEAR_PULL, further_at, point_rows
from advisor.models.learner_layout import AT, CELLS, LearnerTable
from advisor.models.noise_law import learn_noise
from advisor.models.process import sum_pulls

TICK, RELATIVE_SD = 0.01, 0.003


def test_a_clocks_ticks_are_never_found_as_relative_noise() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        table = LearnerTable(2, 1)
        r = table.words[0]
        n = r.view(np.int64)
        runs, means = rng.integers(2, 60, 35), np.exp(rng.uniform(np.log(3e-5), np.log(12.0), 35))
        for cell, (count, mean) in enumerate(zip(runs, means, strict=True)):
            ticks = np.floor(mean * rng.lognormal(0.0, RELATIVE_SD, count) / TICK + rng.random(count))
            times = np.maximum(ticks * TICK, 1e-4)
            r[AT["runs"] + cell], r[AT["mean"] + cell] = count, times.mean()
            r[AT["scatter"] + cell] = ((times - times.mean()) ** 2).sum()
        n[AT["cells"]], n[AT["seen"]], r[AT["seen_runs"]] = 35, runs.sum(), runs.sum()
        learn_noise(r, n, np.zeros((3, CELLS)))
        assert r[AT["relative"]] < (0.2 * 0.1) ** 2, seed  # a fifth of what is believed before there are repeats


def test_runs_are_not_carried_along_a_cells_own_near_bump() -> None:
    points, rows = np.zeros((point_rows(2), CELLS + 2)), np.zeros((5, CELLS + 2))
    slopes, bends = np.ones((2, CELLS)), np.ones((2, CELLS))
    points[further_at(2) + NEAR_PULL, 0] = 1.0
    sum_pulls(points, 1, 2, rows, slopes, bends)
    assert (slopes[:, 0] == 0.0).all()
    assert (bends[:, 0] == 0.0).all()
    points[further_at(2) + MIDDLE_PULL, 0] = 1.0
    sum_pulls(points, 1, 2, rows, slopes, bends)
    assert (bends[:, 0] < 0.0).all()


def test_the_latest_unseen_cell_of_one_run_gives_way_to_one_that_waits() -> None:
    table = LearnerTable(2, 1)
    r = table.words[0]
    n = r.view(np.int64)
    n[AT["cells"]], n[AT["seen"]], r[AT["seen_runs"]] = CELLS, 100, 100.0
    for cell in range(CELLS):
        n[AT["key"] + cell] = cell
        r[AT["runs"] + cell], r[AT["mean"] + cell], r[AT["model"] + cell] = 3.0, 1.0 + cell, 0.0
    for cell in (30, 33):
        r[AT["runs"] + cell], r[AT["model"] + cell] = 1.0, np.nan
    coarseness = n[AT["coarseness"] : AT["coarseness"] + 2].copy()
    let_wait(r, n, 2, np.array([9.0, 1.0]), 7.0, 1.0, 0)
    assert n[AT["cells"]] == CELLS - 1
    kept = [1.0 + cell for cell in range(CELLS) if cell != 33]
    assert r[AT["mean"] : AT["mean"] + CELLS].tolist() == [*kept, 7.0]
    assert (n[AT["coarseness"] : AT["coarseness"] + 2] == coarseness).all()
