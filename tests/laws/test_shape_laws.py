"""One suite over every shape: to add a shape is to add its line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from advisor.models import nonnegative, shapes
from advisor.models.shapes import SHAPES, Scale, names_of, terms_of

CASES = [(name, d) for d in (1, 2, 3, 4) for name in names_of(d)]


def scale_of(d, rng, top=0.0):
    return Scale(tuple(rng.uniform(-41.0, 41.0, d).tolist()), tuple(rng.choice([0.5, 1.0, 2.0], d).tolist()), top)


def shape_of(name, scale, coefficients):
    terms = terms_of(name, len(scale.highest))
    return shapes.Shape(scale, terms, np.array(coefficients[: len(terms)]))


def test_every_shape_is_one_of_several_predictors():
    assert set(names_of(2)) == set(SHAPES)
    assert set(names_of(1)) < set(SHAPES)


@pytest.mark.parametrize(("name", "d"), CASES)
def test_finite_everywhere(name, d):
    rng = np.random.default_rng(0)
    shape = shape_of(name, scale_of(d, rng), [1.0] * shapes.TERMS_MAX)
    ends = math.log(2.0) * np.array([-62.0, -60.0, 0.0, 60.0])
    z = np.column_stack([rng.choice(ends, (500, d)), math.log(2.0) * rng.uniform(-10.0, 20.0, 500)])
    z[:4, :-1], z[:2, -1], z[2:4, -1] = ends[[0, 3, 0, 3], None], -10 * math.log(2), 20 * math.log(2)
    values = shape(z)
    assert np.isfinite(values).all()


@pytest.mark.parametrize(("name", "d"), CASES)
def test_each_shape_recovers_its_own_curve(name, d):
    rng = np.random.default_rng(1)
    for _ in range(5):
        x = np.log(10.0) * rng.uniform(0.0, 3.0, (48, d))
        z = np.column_stack([x, np.log(rng.choice([1.0, 2, 4, 8, 16, 32], 48))])
        powers = tuple(rng.choice([0.5, 1.0, 2.0], d).tolist())
        truth = shape_of(
            name, Scale(tuple(x.max(axis=0).tolist()), powers, 0.0), rng.uniform(0.1, 2.0, shapes.TERMS_MAX).tolist()
        )
        y = truth(z)
        top = float(y.max())
        found = shapes.fit(name, Scale(truth.scale.highest, powers, top), z, y, np.full(48, 100.0))
        assert np.abs(np.expm1(found(z) - y)).max() < 0.01


@pytest.mark.parametrize(("name", "d"), CASES)
def test_coefficients_are_not_negative_and_terms_not_too_many(name, d):
    rng = np.random.default_rng(2)
    z = rng.uniform(0.0, 3.0, (30, d + 1))
    y = rng.normal(0.0, 2.0, 30)
    found = shapes.fit(name, Scale((3.0,) * d, (1.0,) * d, float(y.max())), z, y, np.ones(30))
    if found is not None:
        assert (found.coefficients > 0).all()
        assert len(found.terms) == len(found.coefficients) <= shapes.TERMS_MAX


@pytest.mark.parametrize("text", ["v * q", "v, v^7", "v * 1/p * p", "each, each * 1/p, each * p"])
def test_a_line_that_cannot_be_is_refused_by_name(monkeypatch, text):
    monkeypatch.setattr(shapes, "SHAPES", {"mine": text})
    with pytest.raises(ValueError, match="'mine'"):
        terms_of.__wrapped__("mine", 4)


def test_a_new_line_is_all_it_takes(monkeypatch):
    monkeypatch.setattr(shapes, "SHAPES", {**SHAPES, "mine": "v^2 * p, 1"})
    assert names_of(1)[-1] == "mine"
    assert len(terms_of.__wrapped__("mine", 1)) == 2


def test_nonnegative_least_squares_meets_the_conditions_of_an_optimum():
    """c >= 0, gradient >= 0, and one of them 0 for each column (Karush, Kuhn, Tucker); the problem is convex."""
    rng = np.random.default_rng(3)
    for _ in range(500):
        k, n = int(rng.integers(1, 10)), 30
        a = rng.normal(rng.choice([0.0, 1.0]), 1.0, (n, k))
        a /= np.sqrt(np.square(a).sum(axis=0))
        t = rng.normal(0.0, 1.0, n) + 2.0 * a[:, 0]
        c = nonnegative.solve(a, t)
        gradient = a.T @ (a @ c - t)
        size = 1e-6 * (1.0 + np.abs(a.T @ t).max())
        assert (c >= 0).all()
        assert (gradient > -size).all()
        assert np.abs(gradient * c).max() < size
