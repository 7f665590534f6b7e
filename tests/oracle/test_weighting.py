"""What the weighting model must give: unbiased predictions under any noise, from any share of parallel work, in any order.

The base tier alone answers here: the weighting model is its. Each limit is two to three times what was measured when it was
written; the figure stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from advisor.engine import Advisor

NOISES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "log-normal 30 %": lambda rng, n: np.exp(0.3 * rng.standard_normal(n) - 0.045),
    "log-normal, sd 1": lambda rng, n: np.exp(rng.standard_normal(n) - 0.5),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "one in ten a hundredth": lambda rng, n: np.where(rng.random(n) < 0.1, 0.01, 1.0) / 0.901,
}
GRID = np.meshgrid(np.arange(1, 51) * 50.0, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def truth(x: np.ndarray, p: np.ndarray, a: float) -> np.ndarray:
    return (1e-3 + 1e-9 * x**3) * (1.0 - a + a / p)


def learned(a: float, noise: str, n: int, seed: int, order: str = "random") -> Advisor:
    rng = np.random.default_rng(seed)
    x, p = rng.integers(1, 51, n) * 50.0, rng.choice(GRID[1][:, 0], n)
    t = truth(x, p, a) * NOISES[noise](rng, n)
    key = {"random": np.arange(n), "rising": x, "falling": -x, "cores rising": p, "cores falling": -p}[order]
    rows = np.argsort(key, kind="stable")
    advisor = Advisor(model_memory_bytes=0)
    advisor.observe_columns(
        components=["c"], index=np.zeros(n, int), predictor=x[rows], cores=p[rows], elapsed_s=np.maximum(t[rows], 1e-9)
    )
    return advisor


def errors(advisor: Advisor, a: float) -> np.ndarray:
    """Return the relative errors of the predictions over all sizes and core counts."""
    return (advisor.predict("c", predictor=GRID[0], cores=GRID[1]).elapsed_s / truth(*GRID, a) - 1.0).ravel()


# Noise: bias of the mean over seeds and fractions after 10,000 rows, worst bias of one, worst median error of one. Measured:
# -0.1, 0.4, 0.6 %; -0.9, 1.7, 2.9 %; -0.3, 0.9, 1.8 %; -0.2, 0.8, 1.1 %. (Weighed by its own time: -16 to -99 %.)
LIMITS = {
    "log-normal 30 %": (0.003, 0.01, 0.013),
    "log-normal, sd 1": (0.025, 0.04, 0.06),
    "exponential": (0.01, 0.025, 0.04),
    "one in ten a hundredth": (0.006, 0.02, 0.025),
}


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_predictions_are_unbiased_whatever_the_noise_and_the_parallel_fraction(noise: str) -> None:
    found = {a: [errors(learned(a, noise, 10_000, seed), a) for seed in range(3)] for a in (0.0, 0.5, 0.99, 1.0)}
    biases = [float(e.mean()) for runs in found.values() for e in runs]
    medians = [float(np.median(np.abs(e))) for runs in found.values() for e in runs]
    mean, worst, median = LIMITS[noise]
    assert abs(np.mean(biases)) < mean, f"bias {np.mean(biases):+.4f}"
    assert max(map(abs, biases)) < worst, f"worst bias {max(biases, key=abs):+.4f}"
    assert max(medians) < median, f"worst median error {max(medians):.4f}"


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_a_component_without_predictor_is_predicted_by_its_mean(noise: str) -> None:
    """Its times vary for reasons nobody tells: the answer must be what a run takes on average."""
    biases = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        t = np.maximum(0.05 * NOISES[noise](rng, 3000), 1e-9)
        advisor = Advisor(model_memory_bytes=0)
        advisor.observe_columns(components=["c"], index=np.zeros(3000, int), cores=np.ones(3000), elapsed_s=t)
        biases.append(advisor.predict("c").elapsed_s / t.mean() - 1.0)
    # Measured: -0.1 to -0.4 %, the worst of one seed 1.5 %.
    assert abs(np.mean(biases)) < 0.01
    assert max(map(abs, biases)) < 0.03


# Order of the rows: median error after 3000 rows at 30 % noise. Measured: 0.8 to 1.0 %, the worst of one seed 1.6 %.
@pytest.mark.parametrize("order", ["rising", "falling", "cores rising", "cores falling"])
def test_the_order_of_the_rows_costs_little(order: str) -> None:
    medians = [
        float(np.median(np.abs(errors(learned(a, "log-normal 30 %", 3000, seed, order), a))))
        for a in (0.0, 0.5, 0.99)
        for seed in range(3)
    ]
    assert np.median(medians) < 0.02, medians
    assert max(medians) < 0.04, medians


def test_a_row_of_many_runs_weighs_as_many_rows() -> None:
    rng = np.random.default_rng(4)
    n = 300
    x, p, count = rng.random(n) * 100, rng.choice([1.0, 4.0], n), rng.integers(1, 200, n)
    t = (1e-2 + 1e-3 * x) * (0.2 + 0.8 / p)
    answers = []
    for each in (count, None):
        # In a random order: 199 equal rows in a row tell a model of two sizes that the component changed.
        rows = np.arange(n) if each is not None else rng.permutation(np.repeat(np.arange(n), count))
        advisor = Advisor(model_memory_bytes=0)
        advisor.observe_columns(
            components=["c"],
            index=np.zeros(len(rows), int),
            predictor=x[rows],
            cores=p[rows],
            elapsed_s=t[rows],
            count=each,
        )
        answers.append(advisor.predict("c", predictor=np.array([3.0, 50.0, 99.0]), cores=2))
    np.testing.assert_allclose(answers[0].elapsed_s, answers[1].elapsed_s, rtol=1e-6)
    assert answers[0].observations == answers[1].observations == count.sum()
