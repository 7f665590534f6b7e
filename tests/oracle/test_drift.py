"""What the test for change must give: changes found soon, none where there is none, and wild rows that move little.

Each limit stands beside what was measured when it was written; see also docs/decisions/0011-drift.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from folds import Changes, fold

from advisor.engine import Advisor
from advisor.models.learner_layout import LearnerTable
from advisor.models.table import Table

Shape = tuple[int, int]
NOISES: dict[str, Callable[[np.random.Generator, float, Shape], np.ndarray]] = {
    "log-normal": lambda rng, sd, shape: np.exp(sd * rng.standard_normal(shape)),
    "Student 3": lambda rng, sd, shape: np.exp(sd * np.clip(rng.standard_t(3, shape) / np.sqrt(3), -40, 40)),
}


def rows(rng: np.random.Generator, order: str, shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, p and true times (rows, components); the form x**1.5 is none of the weighting model's."""
    n, components = shape
    x, p = rng.uniform(10, 1000, shape), rng.choice([1.0, 2.0, 4.0, 8.0, 16.0], shape)
    if order == "sweeps":
        x[64:] = (10 + 990 * (np.arange(n) % 50 / 50))[64:, None]
    if order == "constant":
        x[:], p[:] = 1.0, 1.0
    a = rng.uniform(0, 1, components)
    return x, p, (1e-3 + 1e-6 * x**1.5) * (1 - a + a / p)


def learned(x: np.ndarray, p: np.ndarray, t: np.ndarray, learner: bool) -> tuple[Table, Changes]:
    n, components = x.shape
    table, learners = Table(components), LearnerTable(2, components) if learner else None
    return table, fold(table, learners, np.tile(np.arange(components), n), x.ravel(), p.ravel(), t.ravel())


@pytest.mark.parametrize("learner", [False, True])
@pytest.mark.parametrize("noise", sorted(NOISES))
@pytest.mark.parametrize("order", ["random", "constant", "sweeps"])
def test_at_most_one_false_alarm_in_10_000_rows(noise: str, order: str, learner: bool) -> None:
    """Measured over 100 components: 0 in 10,000 rows each; here 12 of them in each of three settings."""
    for sd in (0.05, 0.15, 0.3):
        rng = np.random.default_rng(11)
        x, p, t = rows(rng, order, (10_000, 12))
        _, changes = learned(x, p, t * NOISES[noise](rng, sd, t.shape), learner)
        assert len(changes.rows) <= 2, (sd, changes)


@pytest.mark.parametrize("learner", [False, True])
@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize(("at", "sd", "median", "most"), [(64, 0.05, 6, 8), (64, 0.3, 12, 24), (500, 0.3, 10, 14)])
def test_a_step_of_two_is_found_within_some_ten_rows(
    factor: float, at: int, sd: float, median: int, most: int, learner: bool
) -> None:
    """Measured: medians 5, 9 to 10 and 8, nine in ten within 6, 15 to 19 and 11 rows."""
    rng = np.random.default_rng(12)
    components = 100
    x, p, t = rows(rng, "random", (at + 40, components))
    t[at:] *= factor
    _, changes = learned(x, p, t * NOISES["log-normal"](rng, sd, t.shape), learner)
    delay = np.full(components, np.inf)
    for slot, row in zip(changes.slots[::-1], changes.rows[::-1] // components, strict=True):
        if row >= at:
            delay[slot] = row - at + 1
    assert np.median(delay) <= median
    assert np.quantile(delay, 0.9) <= most
    ratios = changes.log2_ratio[changes.rows // components >= at]
    assert np.median(ratios) == pytest.approx(np.log2(factor), abs=0.15)


@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize("sd", [0.05, 0.15, 0.3])
@pytest.mark.parametrize("before", [64, 1000])
def test_after_a_step_of_two_the_error_is_back_within_40_rows(factor: float, sd: float, before: int) -> None:
    """Median over seeds of the error against fresh measurements, over that before the step. Measured: 0.99 to 1.18."""
    ratios = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        x, p, t = (column[:, 0] for column in rows(rng, "random", (before + 40 + 200, 1)))
        t = t * NOISES["log-normal"](rng, sd, (len(t), 1))[:, 0]
        advisor, errors = Advisor(), []
        fresh = slice(before + 40, None)
        for part, level in ((slice(0, before), 1.0), (slice(before, before + 40), factor)):
            index = np.zeros(len(x[part]), int)
            advisor.observe_columns(
                components=["c"], index=index, predictor=x[part], cores=p[part], elapsed_s=level * t[part]
            )
            answer = advisor.predict("c", predictor=x[fresh], cores=p[fresh])
            errors.append(np.mean(np.abs(answer.elapsed_s / (level * t[fresh]) - 1.0)))
        ratios.append(errors[1] / errors[0])
    assert np.median(ratios) <= 1.5, ratios


@pytest.mark.parametrize("outlier", [1e3, 1e-3])
@pytest.mark.parametrize("sd", [0.05, 0.3])
def test_one_wild_measurement_moves_the_model_little(outlier: float, sd: float) -> None:
    """Learned as it is, a row 1000 times too long would move the mean of 300 rows by 330 %."""
    rng = np.random.default_rng(14)
    x, p, t = (column[:, 0] for column in rows(rng, "random", (300, 1)))
    t = t * NOISES["log-normal"](rng, sd, (300, 1))[:, 0]
    answers = []
    for last in (t[-1], outlier * t[-1]):
        advisor = Advisor()
        advisor.observe_columns(
            components=["c"], index=np.zeros(300, int), predictor=x, cores=p, elapsed_s=np.append(t[:-1], last)
        )
        assert advisor.components.table["outliers"][0] == (last != t[-1])
        answers.append(advisor.predict("c", predictor=np.linspace(50, 950, 10), cores=2).elapsed_s)
    moved = np.abs(answers[1] / answers[0] - 1.0)
    assert np.mean(moved) < 0.05


AT = {"predictor": np.linspace(50, 950, 10)[:, None], "cores": np.array([1.0, 2.0, 8.0, 16.0])}


def taught(advisor: Advisor, x: np.ndarray, p: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Give an advisor rows of its component; return its answers thereafter."""
    advisor.observe_columns(components=["c"], index=np.zeros(len(x), int), predictor=x, cores=p, elapsed_s=t)
    return np.asarray(advisor.predict("c", **AT).elapsed_s)


@pytest.mark.parametrize("outlier", [1e2, 1e3, 1e9, 1e-2, 1e-3, 1e-9])
@pytest.mark.parametrize("order", ["random", "constant"])
@pytest.mark.parametrize("sd", [0.05, 0.3])
def test_a_burst_of_20_wild_rows_moves_no_prediction_by_more_than_15_percent(
    outlier: float, order: str, sd: float
) -> None:
    """Whatever they are: after 300 good rows, and 100 good ones later by no more than 5 %."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, p, t = (column[:, 0] for column in rows(rng, order, (420, 1)))
        t = t * NOISES["log-normal"](rng, sd, (420, 1))[:, 0]
        good, burst, later = slice(0, 300), slice(300, 320), slice(320, 420)
        again = rng.integers(0, 300, 20)  # at settings that were seen: of others nobody can tell what is wild
        x[burst], p[burst], t[burst] = x[again], p[again], t[again]
        advisor, calm = Advisor(), Advisor()
        before = taught(advisor, x[good], p[good], t[good])
        after = taught(advisor, x[burst], p[burst], np.clip(outlier * t[burst], 1e-9, 1e9))
        assert advisor.components.table["changes"][0] == 0
        assert np.abs(after / before - 1.0).max() <= 0.15, (seed, np.abs(after / before - 1.0).max())
        recovered = taught(advisor, x[later], p[later], t[later])
        # What the later rows say by themselves is no effect of the burst.
        taught(calm, x[good], p[good], t[good])
        expected = taught(calm, x[later], p[later], t[later])
        assert np.abs(recovered / expected - 1.0).max() <= 0.05, (seed, np.abs(recovered / expected - 1.0).max())


FAR: dict[str, Callable[[np.random.Generator, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "any predictor": lambda rng, x, p: (10.0 ** rng.uniform(-6, 17, x.shape), p),
    "large predictors": lambda rng, x, p: (10.0 ** rng.uniform(4, 8, x.shape), p),
    "many cores": lambda rng, x, p: (x, 2.0 ** rng.integers(7, 20, x.shape)),
}


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("where", sorted(FAR))
def test_20_wild_rows_far_from_all_others_move_no_prediction_by_more_than_15_percent(where: str, alike: bool) -> None:
    """Wild in place and time, after 300 good ones, also where they agree; a median of 0.6, 17 at worst before."""
    lasting = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x, p, t = (column[:, 0] for column in rows(rng, "random", (420, 1)))
        t = t * rng.lognormal(0, 0.1, 420)
        burst = slice(300, 320)
        advisor, calm = Advisor(), Advisor()
        before = taught(advisor, x[:300], p[:300], t[:300])
        taught(calm, x[:300], p[:300], t[:300])
        far_x, far_p = FAR[where](rng, x[burst], p[burst])
        factor = 10.0 ** (rng.uniform(2, 6, 20) * rng.choice([-1, 1], 20))
        times = t[burst] * factor
        if alike:
            far_x, far_p, times = (np.full(20, column[0]) for column in (far_x, far_p, times))
            times = times * rng.lognormal(0, 0.1, 20)
        after = taught(advisor, far_x, far_p, np.clip(times, 1e-9, 1e9))
        assert np.abs(after / before - 1.0).max() <= 0.15, seed
        later, expected = (taught(each, x[320:], p[320:], t[320:]) for each in (advisor, calm))
        lasting.append(np.abs(later / expected - 1.0).max())
    # 100 good rows later. Of 24 seeds at most a quarter are beyond 5 %, of rows that their places made likely.
    assert np.median(lasting) <= 0.05, lasting
    assert max(lasting) <= 0.15, lasting


@pytest.mark.parametrize("factor", [1.6, 2.2, 3.0])
def test_a_row_far_from_a_wild_cell_and_from_the_model_is_not_learned(factor: float) -> None:
    """A cell that the model leaves out was open to any time: of 36 streams with 20 wild rows one moved by 63 %, now none."""
    rng = np.random.default_rng(0)
    x, p = rng.choice(2.0 ** np.arange(6, 12), 200), rng.choice([1.0, 2.0, 4.0, 8.0], 200)
    t = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0.0, 0.05, 200)
    x[10], p[10], t[10] = 300.0, 3.0, factor * 1e-3 * 300.0 * 0.4
    advisor = Advisor()
    taught(advisor, x, p, t)
    found = advisor.components.learners.find_record(0)
    assert found is not None
    table, place = found
    longest = table.cells(place).mean.max()
    for _ in range(3):
        advisor.observe("c", predictor=300.0, cores=3.0, elapsed_s=1e6)
    assert table.cells(place).mean.max() == longest


@pytest.mark.parametrize(("cliff", "runs"), [(8.0, 2), (300.0, 24)])
def test_what_runs_far_from_all_others_agree_on_is_learned(cliff: float, runs: int) -> None:
    """Two say what is unexpected; what contradicts all else is learned when more say so than a burst of wild rows has."""
    rng = np.random.default_rng(1)
    x, p, t = (column[:, 0] for column in rows(rng, "random", (300, 1)))
    advisor = Advisor()
    taught(advisor, x, p, t * rng.lognormal(0, 0.05, 300))
    at = {"predictor": 1e5, "cores": 4.0}
    expected = advisor.predict("c", **at).elapsed_s
    for _ in range(runs - 1):
        advisor.observe("c", elapsed_s=cliff * expected * rng.lognormal(0, 0.02), **at)
    assert advisor.predict("c", **at).elapsed_s < 2 * expected
    advisor.observe("c", elapsed_s=cliff * expected, **at)
    assert advisor.predict("c", **at).elapsed_s == pytest.approx(cliff * expected, rel=0.5)


@pytest.mark.parametrize(("power", "decades"), [(0.0, (4.0, 8.0)), (1.0, (4.0, 8.0)), (2.0, (2.0, 5.0))])
@pytest.mark.parametrize("counts", [4, 6])
def test_sizes_far_from_those_of_the_first_runs_are_learned_wherever_they_lie(
    power: float, decades: tuple[float, float], counts: int
) -> None:
    """100 runs of one small size, then sizes over decades: no two near each other agree, and all say what the law is.

    They waited for ever, and predictions stayed off by up to 10 ** 5.
    """

    def law(x: np.ndarray, p: np.ndarray | float) -> np.ndarray:
        return 1e-3 * x**power * (0.1 + 0.9 / p)

    sizes = np.geomspace(10.0 ** decades[0], 10.0 ** decades[1], 9)
    for seed in range(4):
        rng, advisor = np.random.default_rng(seed), Advisor()
        p = 2.0 ** rng.integers(0, counts, 300)
        x = np.where(np.arange(300) < 100, 1.0, 10.0 ** rng.uniform(*decades, 300))
        taught(advisor, x, p, law(x, p) * rng.lognormal(0, 0.05, 300))
        off = np.log(advisor.predict("c", predictor=sizes, cores=1).elapsed_s / law(sizes, 1.0))
        assert np.abs(off).max() <= np.log(2.0), (seed, off)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_sizes_far_from_nearly_all_runs_are_learned_of_one_run_in_forty(power: float) -> None:
    """The few large jobs among many small ones of one size: two decades of them on six counts of cores."""
    sizes = np.geomspace(1e3, 1e5, 5)
    for seed in range(3):
        rng, advisor = np.random.default_rng(seed), Advisor()
        p = 2.0 ** rng.integers(0, 6, 1400)
        x = np.where((np.arange(1400) % 40 == 39) & (np.arange(1400) > 100), 10.0 ** rng.uniform(3, 5, 1400), 1.0)
        taught(advisor, x, p, 1e-3 * x**power * (0.1 + 0.9 / p) * rng.lognormal(0, 0.05, 1400))
        reported = np.asarray(advisor.predict("c", predictor=sizes, cores=4).elapsed_s)
        assert np.abs(np.log(reported / (1e-3 * sizes**power * 0.325))).max() <= np.log(2.5), seed


@pytest.mark.parametrize(("factor", "within"), [(2.0, 40), (0.5, 40), (1000.0, 100), (0.001, 100)])
@pytest.mark.parametrize("order", ["random", "constant"])
@pytest.mark.parametrize("before", [64, 300, 2000])
def test_a_change_of_speed_is_believed(factor: float, within: int, order: str, before: int) -> None:
    """So many rows later predictions are those of the new speed, to 25 % on the mean; at 10 % noise."""
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n = before + within
        x, p, t = (column[:, 0] for column in rows(rng, order, (n, 1)))
        reported = t * NOISES["log-normal"](rng, 0.1, (n, 1))[:, 0]
        reported[before:] *= factor
        advisor = Advisor()
        taught(advisor, x, p, reported)
        assert advisor.components.table["changes"][0] >= 1
        new = slice(before, None)
        answer = advisor.predict("c", predictor=x[new], cores=p[new]).elapsed_s
        errors.append(np.mean(np.abs(answer / (factor * t[new]) - 1.0)))
    assert np.median(errors) <= 0.25, errors


@pytest.mark.parametrize(("decades", "power", "sd"), [((4.0, 8.0), 1.2, 0.1), ((4.0, 7.0), 0.9, 0.6)])
def test_runs_without_a_size_beside_runs_with_one_are_no_change_of_speed(
    decades: tuple[float, float], power: float, sd: float
) -> None:
    """What scatters over decades at one place, the model leaves out: how far off it is there says nothing of the others.

    Within a factor of 3.5 in 60 streams each; it was 10 ** 17 in 2 of them while such runs counted as a change.
    """
    sizes = np.geomspace(10.0 ** decades[0], 10.0 ** decades[1], 17)
    for seed in range(60):
        rng, advisor, rows = np.random.default_rng(seed), Advisor(), 0
        for _ in range(8):
            x = 10.0 ** rng.uniform(*decades, int(rng.integers(1, 40)))
            t = 1e-8 * x**power * rng.lognormal(0.0, sd, len(x))
            one = {"components": ["sort"], "index": np.zeros(len(x), int), "cores": np.ones(len(x)), "elapsed_s": t}
            advisor.observe_columns(predictor=x, **one)
            advisor.observe_columns(**one)
            rows += 2 * len(x)
            if rows > 120:
                reported = advisor.predict("sort", predictor=sizes, cores=1).elapsed_s
                assert np.abs(np.log(reported / (1e-8 * sizes**power))).max() < np.log(10.0), (seed, rows)


@pytest.mark.parametrize(("seconds", "sd"), [(0.0, 0.1), (5e-3, 0.0)])
def test_a_level_that_stands_still_is_never_moved(seconds: float, sd: float) -> None:
    rng = np.random.default_rng(3)
    x, p, t = (column[:, 0] for column in rows(rng, "random", (10_000, 1)))
    advisor = Advisor()
    taught(advisor, x, p, t * rng.lognormal(0.0, sd, 10_000) + rng.exponential(seconds, 10_000))
    assert "drifted_at" not in advisor.status(components=True)["components"][0]


@pytest.mark.parametrize("growth", [1e-4, -1e-4])
def test_a_slow_drift_is_followed_and_shown(growth: float) -> None:
    """Measured over 4 seeds: -2.6 % in the mean, -3.6 % at worst; -13.5 % where it was not followed."""
    rng = np.random.default_rng(3)
    x, p, t = (column[:, 0] for column in rows(rng, "random", (3_000, 1)))
    level = (1.0 + growth) ** np.arange(3_000)
    advisor = Advisor()
    taught(advisor, x, p, t * level * rng.lognormal(-0.005, 0.1, 3_000))
    found = np.asarray(advisor.predict("c", predictor=x[:300], cores=p[:300]).elapsed_s)
    assert abs(float(np.mean(found / (t[:300] * level[-1]))) - 1.0) < 0.04
    status = advisor.status(components=True)["components"][0]
    assert status["changes"] == 0
    assert status.get("drifted_at", 0) > 2_000
    assert 0.3 < status.get("drifted_by", 0.0) / np.log2(level[-1]) < 1.1  # means follow the rest by themselves
