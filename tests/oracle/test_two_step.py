"""Paper 1's two-step model up to degree 3, against a direct fit of the rows and the formula as printed (misprint mended)."""

from __future__ import annotations

import numpy as np
import pytest
from c_curves import Curves
from numpy.polynomial import Polynomial

from advisor import Advisor
from advisor.errors import InvalidValue
from advisor.models import prediction, sums
from advisor.models.forms import FRACTION_UNKNOWN, parallel_fraction
from advisor.models.layout import AT, COEFFICIENTS
from advisor.models.table import Table


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


# -- any degree -------------------------------------------------------------------------------------------------------------


RANGES = ((1.0, 100.0), (1e3, 1e6), (5e5, 6e5), (0.0, 10.0), (1e8, 3e8))
DEGREES = range(COEFFICIENTS)


def summed(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the words of a component after these runs on one core."""
    table = Table(1)
    words, whole = table.records[0], table.records_whole[0]
    for at, time in zip(x.tolist(), t.tolist(), strict=True):
        sums.hold(words, at)
        u = (at - words[AT["origin"].start]) / words[AT["scale"].start]
        sums.add_sums(words, u, 1.0, time, 1.0)
        sums.two_step(words, at, 1.0, time, u, 1.0)
        for name, least in (("x_low", at), ("t_low", time)):
            words[AT[name].start] = min(words[AT[name].start], least)
        words[AT["x_high"].start] = max(words[AT["x_high"].start], at)
        whole[AT["rows"].start] += 1
    return words


@pytest.mark.parametrize("order", ["as they come", "rising", "falling"])
@pytest.mark.parametrize("span", RANGES)
def test_it_is_numpys_least_squares_to_rounding(span: tuple[float, float], order: str) -> None:
    """The sums are of powers, from a lower bound: measured on 8 streams each, off by 1e-11 at most."""
    low, high = span
    rng = np.random.default_rng(1)
    x = rng.uniform(low, high, 400)
    x = {"as they come": x, "rising": np.sort(x), "falling": np.sort(x)[::-1]}[order]
    v = (x - low) / (high - low)
    t = sum(c * v**j for j, c in enumerate(rng.uniform(0.1, 2.0, 7))) * rng.lognormal(0, 0.05, 400)
    words, asked = summed(x, t), np.linspace(x.min(), x.max(), 200)
    for degree in DEGREES:
        model = prediction.model_of(words, f"two_step degree {degree}")
        found, expected = prediction.values(model, asked, 1.0), Polynomial.fit(x, t, degree)(asked)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert model.name == f"two_step degree {degree}"


def truth(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return (1.0 + x / 50.0 + (x / 50.0 - 1.0) ** 3) * (0.2 + 0.8 / p)


def test_a_pinned_degree_answers_and_its_interval_holds_the_curve() -> None:
    rng, advisor = np.random.default_rng(2), Advisor()
    x, p = rng.uniform(1.0, 100.0, 600), rng.choice([1.0, 2.0, 8.0], 600)
    t = truth(x, p) * rng.lognormal(0, 0.05, 600)
    advisor.observe_columns(components=["c"], index=np.zeros(600, int), predictor=x, cores=p, elapsed_s=t)
    advisor.pin("c", "two_step degree 3")
    asked = np.linspace(5.0, 95.0, 19)
    answer = advisor.predict("c", predictor=asked, cores=8.0)
    assert answer.model == "two_step degree 3"
    assert np.abs(answer.elapsed_s / truth(asked, np.array(8.0)) - 1.0).max() < 0.1
    fresh = truth(x, p) * rng.lognormal(0, 0.05, 600)
    held = advisor.predict("c", predictor=x, cores=p)
    assert 0.8 < np.mean((held.low_s <= fresh) & (fresh <= held.high_s)) <= 1.0
    assert (held.high_s / held.low_s).max() < 4.0
    again = Advisor.from_bytes(advisor.to_bytes()).predict("c", predictor=asked, cores=8.0)
    assert again.elapsed_s.tolist() == answer.elapsed_s.tolist()
    bundle = Curves(advisor.bundle(cores_max=16))  # a curve of so many coefficients is carried as a table
    assert [bundle.predict("c", at, 8.0).elapsed_s for at in asked] == pytest.approx(answer.elapsed_s, rel=0.03)
    with pytest.raises(InvalidValue, match="degree 3"):
        advisor.pin("c", "two_step degree 4")
