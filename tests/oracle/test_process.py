"""The mixture of forms against a plain Gaussian process, written out; its bounds and its trust in single runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from advisor.models import posterior, process, support_fold
from advisor.models.process import LN2, SMOOTH, Points, solve
from advisor.models.support import SupportTable
from advisor.models.support_fold import ZERO_Z, Credit


def table_of(x, p, t, machine=None):
    """Points of rows with predictors x (n, d), cores and times."""
    x = np.reshape(np.asarray(x, float), (len(p), -1))
    z = np.column_stack([np.where(x > 0, np.log2(np.where(x > 0, x, 1.0)), ZERO_Z), np.log2(p)])
    table = SupportTable(z.shape[1], 1)
    slots = np.zeros(len(p), np.int64)
    support_fold.fold(
        table,
        slots,
        lambda rows: (z[rows], np.log2(t)[rows]),
        None,
        machine,
        Credit(rows=-(10**9)),
        lambda *_: (0.0, 1.0),
    )
    return process.points_of(table, 0)


def amdahl(rng, n, noise=0.05, cores=(1, 2, 4, 8, 16)):
    x, p = rng.uniform(100, 1000, n), rng.choice(np.array(cores, float), n)
    return x, p, x * (0.1 + 0.9 / p) * rng.lognormal(0, noise, n)


def dense(points, name, z, factor_machine):
    """Return (mean, variance) of the posterior of one form, by loops over the covariance functions of its experts."""
    post = solve(points, only=name)
    assert set(post.names) == {name}
    found = [dense_expert(post, points, i, z, factor_machine) for i in range(len(post.names))]
    mean = sum(share * middle for share, (middle, _) in zip(post.share, found, strict=True))
    spread = ((share, middle - mean, variance) for share, (middle, variance) in zip(post.share, found, strict=True))
    return mean, sum(share * (variance + off * off) for share, off, variance in spread), post


def dense_expert(post, points, place, z, factor_machine):
    """Return (mean, variance) of one expert of the posterior."""
    lengths, k = posterior.LENGTHS, len(points.y)
    frame, mean_of = post.frame, post._means[place]
    scale = post._scale[post._home[place]]
    factor = post.noise[place] / ((process.RUN_SD**2 + points.spread.sum()) / post.freedom)

    def covariance(a, b, same):
        linear = posterior.LEVEL_SD**2 + sum(
            posterior.SLOPE_SD**2 * (u - c) * (v - c) for u, v, c in zip(a, b, frame.centre, strict=True)
        )
        for f in posterior.SERIAL_SHARES:
            one, two = (math.log(f + (1 - f) * math.exp(-q[-1])) for q in (a, b))
            linear += posterior.SERIAL_SD**2 * one * two
        bent = sum(
            (min(max(u, lo), hi) - c) * (min(max(v, lo), hi) - c)
            for u, v, c, lo, hi in zip(a, b, frame.centre, frame.low, frame.high, strict=True)
        )
        far = math.dist(a, b)
        total = scale[0] * linear + scale[1] * bent**2
        for share, length in zip(scale[2:], lengths, strict=True):
            total += share * (1 + math.sqrt(3) * far / length) * math.exp(-math.sqrt(3) * far / length)
        return total + (posterior.MACHINE_SD**2 if same else 0.0)

    seen, machine = points.z.tolist(), points.machine.tolist()
    gram = np.array(
        [[covariance(a, b, i == j > 0) for b, j in zip(seen, machine, strict=True)] for a, i in zip(seen, machine, strict=True)]
    )  # fmt: skip
    noise = (process.RUN_SD**2 + points.spread.sum()) / post.freedom * factor
    gram += np.diag(noise / points.runs + process.NUGGET)
    residual = points.y - mean_of(points.z)
    cross = np.array([covariance(z, b, j == factor_machine > 0) for b, j in zip(seen, machine, strict=True)])
    assert len(cross) == k
    solved = np.linalg.solve(gram, np.column_stack([residual, cross]))
    own = covariance(z, z, any(machine))
    return float(mean_of(np.array([z]))[0] + cross @ solved[:, 0]), float(own - cross @ solved[:, 1])


@pytest.mark.parametrize("name", ["linear amdahl", "ernest", "constant"])
@pytest.mark.parametrize("machine", [0, 2])
def test_a_forced_form_is_a_plain_gaussian_process(name, machine):
    rng = np.random.default_rng(1)
    x, p, t = amdahl(rng, 25)
    machines = rng.integers(0, 3, 25) if machine else None
    points = table_of(x, p, t, machines)
    for z in ([math.log(300.0), math.log(3.0)], [math.log(5000.0), math.log(64.0)]):
        mean, variance, post = dense(points, name, z, machine)
        got = post.at(np.array([z]), machine)
        assert got[0][0] == pytest.approx(mean, abs=1e-8)
        assert got[1][0] == pytest.approx(variance, abs=1e-8)


@pytest.mark.parametrize("n", [1, 2, 4, 12, 60])
@pytest.mark.parametrize("predictors", [1, 2, 4])
def test_one_point_is_the_array_of_points(n, predictors):
    rng = np.random.default_rng(n)
    x = rng.uniform(1, 100, (n, predictors))
    p = rng.choice([1.0, 2.0, 8.0], n)
    points = table_of(x, p, x.prod(axis=1) / p * rng.lognormal(0, 0.1, n), rng.integers(-1, 2, n))
    post = solve(points, [("own", lambda z: 0.5 * z.sum(axis=1), 2)])
    z = rng.uniform(-5, 9, (40, predictors + 1))
    z[::5] = -45.0
    for machine in (0, 1, 5):
        mean, variance, noise = post.at(z, machine)
        for i, row in enumerate(z.tolist()):
            one = post.one(tuple(row), machine)
            assert one[0] == pytest.approx(mean[i], rel=1e-9, abs=1e-9)
            assert one[1] == pytest.approx(variance[i], rel=1e-9, abs=1e-9)
            assert one[2] == pytest.approx(noise[i], rel=1e-12)


def test_weights_sum_to_one_and_the_heaviest_comes_first():
    post = solve(table_of(*amdahl(np.random.default_rng(2), 40)))
    assert post.share.sum() == pytest.approx(1.0)
    assert (np.diff(post.share) <= 0).all()
    assert len(post.names) == len(post.share) <= process.EXPERTS


def test_the_form_of_the_truth_gets_the_weight():
    points = table_of(*amdahl(np.random.default_rng(3), 300, 0.02))
    assert SMOOTH not in solve(points).names
    mean, _, _ = solve(points).at(np.log([[450.0, 16.0], [450.0, 1.0]]))
    np.testing.assert_allclose(np.exp(mean), [450 * (0.1 + 0.9 / 16), 450.0], rtol=0.02)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_answer_with_an_honest_spread(n):
    x, p, t = amdahl(np.random.default_rng(4), n)
    post = solve(table_of(x, p, t))
    mean, variance, noise = post.at(np.log(np.array([[x[0], p[0]], [100 * x[0], 64 * p[0]]])))
    assert abs(mean[0] - np.log(t[0])) < 0.5
    assert math.sqrt(variance[1]) > 1.0  # a factor of e, far away
    assert variance[0] + noise[0] < 0.2


def test_all_predictors_zero_is_answered():
    n = 12
    points = table_of(np.zeros(n), np.tile([1.0, 2.0, 4.0], 4), np.tile([4.0, 2.0, 1.0], 4))
    post = solve(points)
    mean, variance, _ = post.at(np.array([[ZERO_Z * LN2, 0.0], [ZERO_Z * LN2, math.log(4.0)], [3.0, 0.0]]))
    np.testing.assert_allclose(np.exp(mean[:2]), [4.0, 1.0], rtol=0.1)
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()


def test_rows_that_repeat_without_noise_are_solved():
    n = 20_000
    post = solve(table_of(np.tile([100.0, 101.0, 103.0], n), np.tile([1.0, 1.0, 1.0], n), np.tile([1.0, 1.0, 1.0], n)))
    mean, variance, noise = post.at(np.log([[100.0, 1.0]]))
    assert np.exp(mean[0]) == pytest.approx(1.0, rel=1e-3)
    assert 0 <= variance[0] < 1e-3
    assert noise[0] < 1e-3


@pytest.mark.parametrize("seed", range(40))
def test_far_outside_nothing_explodes(seed):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 5, 10, 20, 60]))
    x = np.exp(rng.uniform(0, rng.choice([0.1, 1, 3, 8]), (n, d)))
    p = rng.choice([1.0, 2, 4, 8, 16, 32], n)
    t = (
        (x ** rng.uniform(0, 2.5, d)).prod(axis=1)
        * p ** rng.uniform(-1, 0.3)
        * rng.lognormal(0, rng.choice([0.01, 0.3]), n)
    )
    points = table_of(x, p, t)
    post = solve(points)
    for axis in range(d):
        for sign in (1.0, -1.0):
            away = np.linspace(0.0, 41.0, 83)
            z = np.tile(points.z.mean(axis=0), (83, 1))
            z[:, axis] = (
                points.z[:, axis].max() + 2 * np.ptp(points.z[:, axis]) if sign > 0 else points.z[:, axis].min()
            ) + sign * away
            mean, variance, _ = post.at(z)
            slope = sign * np.diff(mean) / np.diff(away)
            assert np.isfinite(variance).all()
            assert slope.min() >= -1.0
            assert slope.max() <= 4.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [8, 10, 14, 20, 50])
@pytest.mark.parametrize("kind", ["continuous", "settings"])
@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_one_wild_run_moves_little(seed, n, kind, factor):
    rng = np.random.default_rng(seed)
    x, p, t = amdahl(rng, n)
    if kind == "settings":
        x = rng.choice([100.0, 300.0, 1000.0], n)
        t = x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.05, n)
    at = np.log([(a, b) for a in (120, 300, 700) for b in (1, 3, 8, 16)])
    for wild in (0, n // 2, n - 1):
        poisoned, rest = t.copy(), np.arange(n) != wild
        poisoned[wild] *= factor
        without = solve(table_of(x[rest], p[rest], t[rest])).at(at)[0]
        moved = np.abs(np.exp(solve(table_of(x, p, poisoned)).at(at)[0] - without) - 1.0)
        assert np.median(moved) < 0.15


def test_a_first_poisoned_row_is_outvoted():
    """After the poison, six good rows of the same setting."""
    for factor in (1000.0, 0.001):
        t = np.array([factor, 1.02, 0.97, 1.0, 1.03, 0.99, 1.01])
        mean = solve(table_of(np.full(7, 100.0), np.full(7, 4.0), t)).at(np.log([[100.0, 4.0]]))[0]
        assert np.exp(mean[0]) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("kind", ["product", "sum"])
def test_products_and_sums_of_predictors_are_found(d, kind):
    inside, outside = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)

        def truth(x, p, kind=kind):
            return (
                x.prod(axis=1) / p
                if kind == "product"
                else 5.0 + (x @ (3.0 ** np.arange(x.shape[1]))) * (0.1 + 0.9 / p)
            )

        x, p = np.exp(rng.uniform(np.log(10), np.log(1000), (60, d))), rng.choice([1.0, 2, 4, 8], 60)
        post = solve(table_of(x, p, truth(x, p) * rng.lognormal(0, 0.05, 60)))
        for errors, low, high in ((inside, 10.0, 1000.0), (outside, 1500.0, 2000.0)):
            x, p = np.exp(rng.uniform(np.log(low), np.log(high), (200, d))), rng.choice([1.0, 2, 4, 8], 200)
            mean = post.at(np.log(np.column_stack([x, p])))[0]
            errors.append(np.median(np.abs(np.exp(mean) / truth(x, p) - 1.0)))
    assert np.median(inside) < 0.08
    assert np.median(outside) < 0.25


def test_a_machine_shifts_the_level_and_shares_the_shape():
    rng = np.random.default_rng(5)
    x, p, t = amdahl(rng, 60)
    machine = np.repeat([0, 1], [54, 6])
    t = np.where(machine == 1, 2.0 * t, t)
    post = solve(table_of(x, p, t, machine))
    z = np.log([[500.0, 4.0]])
    ratio = np.exp(post.at(z, 2)[0][0] - post.at(z, 1)[0][0])
    assert ratio == pytest.approx(2.0, rel=0.15)
    assert post.at(z, 7)[1][0] > post.at(z, 1)[1][0]  # a machine never seen is less certain


def test_solving_changes_no_input():
    points = table_of(*amdahl(np.random.default_rng(6), 30))
    before = [np.copy(a) for a in (points.z, points.y, points.runs, points.spread)]
    solve(points).at(points.z)
    for old, new in zip(before, (points.z, points.y, points.runs, points.spread), strict=True):
        np.testing.assert_array_equal(old, new)


def test_only_names_the_form_and_an_unknown_one_is_no_constraint():
    points = table_of(*amdahl(np.random.default_rng(7), 30))
    assert solve(points, only=SMOOTH).names[0] == SMOOTH
    assert set(solve(points, only="roots").names) == {"roots"}
    assert solve(points, only="no such form").names == solve(points).names


def test_points_stand_at_the_means_of_their_rows():
    points = table_of([100.0, 100.0, 200.0], np.array([2.0, 2.0, 2.0]), np.array([3.0, 3.3, 5.0]))
    assert isinstance(points, Points)
    np.testing.assert_allclose(points.z, np.log([[100.0, 2.0], [200.0, 2.0]]))
    np.testing.assert_allclose(points.y, [np.log([3.0, 3.3]).mean(), np.log(5.0)])
    np.testing.assert_allclose(points.runs, [2.0, 1.0])
