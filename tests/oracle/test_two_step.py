"""Paper 1's two-step model against a direct fit of the rows and the formula, evaluated as printed (misprint mended)."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.engine import Advisor
from advisor.models.forms import FRACTION_UNKNOWN, parallel_fraction


def paper_rows(seed: int, counts: list[float], n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, p = rng.integers(1, 51, n) * 50.0, rng.choice(counts, n)
    t = (0.02 + 1e-9 * x**3) * (0.03 + 0.97 / p) * np.exp(0.05 * rng.standard_normal(n))
    return x, p, t


@pytest.mark.parametrize("degree", range(4))
@pytest.mark.parametrize("counts", [[1.0, 2.0, 8.0, 47.0], [2.0, 4.0, 16.0], [0.5, 1.0, 6.0]])
def test_two_step_equals_a_fit_of_the_rows_and_the_formula(counts: list[float], degree: int) -> None:
    x, p, t = paper_rows(degree, counts)
    advisor = Advisor()
    advisor.observe_columns(components=["c"], index=np.zeros(len(x), int), predictor=x, cores=p, elapsed_s=t)
    least, most = p == p.min(), p == p.max()
    s = np.polynomial.Polynomial.fit(x[least], t[least], degree)
    top = most & (x == x[most].max())
    r, p0, p1 = float(t[top].mean() / s(x[most].max())), p.min(), p.max()
    a = float(np.clip((1 - r) / ((1 - 1 / p1) - r * (1 - 1 / p0)), 0, 1)) if p0 / p1 < r < 1 else float(r <= p0 / p1)
    model = advisor.model("c", f"two_step degree {degree}")
    assert model.fraction == pytest.approx(a, rel=1e-9)
    at = np.arange(50.0, 2501.0, 350.0)
    for cores in (p0, 3.0, p1):
        expected = s(at) * (1 - a + a / cores) / (1 - a + a / p0)
        found = advisor.predict("c", predictor=at, cores=cores, model=f"two_step degree {degree}").elapsed_s
        positive = expected > 1e-3
        np.testing.assert_allclose(found[positive], expected[positive], rtol=1e-8)


def test_at_one_core_the_formula_is_the_papers_with_its_misprint_mended() -> None:
    for r in np.linspace(0.03, 0.99, 20).tolist():
        assert parallel_fraction(r, 47.0, 1.0) == pytest.approx(47 / 46 * (1 - r), rel=1e-12)


def test_the_fraction_solves_the_model_for_any_two_core_counts() -> None:
    rng = np.random.default_rng(1)
    a, p0 = rng.random(500), 2.0 ** rng.uniform(-6, 6, 500)
    p1 = p0 * 2.0 ** rng.uniform(0.1, 6, 500)
    r = (1 - a + a / p1) / (1 - a + a / p0)
    found = [parallel_fraction(*each) for each in zip(r.tolist(), p1.tolist(), p0.tolist(), strict=True)]
    np.testing.assert_allclose(found, a, rtol=1e-9)


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.0, 0.0), (1.7, 0.0), (np.inf, 0.0), (2 / 16, 1.0), (0.01, 1.0), (0.0, 1.0)]
)
def test_beyond_the_pole_the_fraction_is_clamped(ratio: float, expected: float) -> None:
    assert parallel_fraction(ratio, 16.0, 2.0) == expected


def test_one_core_count_tells_no_fraction() -> None:
    assert parallel_fraction(0.5, 4.0, 4.0) == FRACTION_UNKNOWN


def test_fewer_cores_restart_the_sequential_fit_and_higher_ones_the_average() -> None:
    advisor = Advisor()
    for x in (1.0, 2.0, 3.0, 4.0):
        advisor.observe("c", predictor=x, cores=4, elapsed_s=100.0 * x)  # what fewer cores must make forgotten
    for x in (1.0, 2.0, 3.0, 4.0):
        advisor.observe("c", predictor=x, cores=1, elapsed_s=10.0 * x)
    for elapsed_s in (9.0, 11.0):
        advisor.observe("c", predictor=2.0, cores=8, elapsed_s=elapsed_s)
    # r = 10 / 20 at (8, 2): a = 8/7 (1 - 1/2)
    assert advisor.model("c", "two_step degree 1").fraction == pytest.approx(8 / 7 * 0.5)
    advisor.observe("c", predictor=4.0, cores=8, elapsed_s=10.0)  # a higher predictor: only it counts
    advisor.observe("c", predictor=3.0, cores=8, elapsed_s=1.0)  # a lower one does not
    advisor.observe("c", predictor=9.0, cores=7, elapsed_s=1.0)  # nor fewer cores
    assert advisor.model("c", "two_step degree 1").fraction == pytest.approx(8 / 7 * 0.75)
    assert advisor.predict("c", predictor=3.0, cores=1, model="two_step degree 1").elapsed_s == pytest.approx(30.0)
