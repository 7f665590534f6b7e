"""The time until the last of several is there, and the quantile of a time, by two moments.

A time of mean m and variance v is taken as d + X with X exponential (v <= m^2), or as one of two exponentials with
balanced means (v > m^2). Both have the right mean and variance, and closed integrals of their tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, log
from statistics import NormalDist

import numpy as np

from advisor.domain import elementary
from advisor.planning.requests import Floats

# Panels of a Gauss-Legendre rule, in means of the slowest tail: dense where fast tails bend, out to exp(-40).
EDGES = np.array([0.0, 0.02, 0.1, 0.35, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0])
SMOOTH = 0.35  # of a maximum in a search
SHAPE_SMOOTH = 30.0  # gamma shapes from here on: Wilson and Hilferty's cube root is within 1e-4
SHAPES: Floats = elementary.spaced(1e-2, SHAPE_SMOOTH, 200)  # where the quantile is tabulated between
ABSCISSAS, WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True, slots=True)
class Tails:
    """Distributions of one shape (K, c): shift_s, and two exponential phases of share_1 and the rest."""

    shift_s: Floats
    share: Floats
    first_s: Floats
    second_s: Floats

    def tail(self, x: Floats) -> Floats:
        """Return P(X > x), for x of shape (K, q) -> (K, c, q)."""
        over = np.maximum(x[:, None, :] - self.shift_s[:, :, None], 0.0)
        return np.where(x[:, None, :] < self.shift_s[:, :, None], 1.0, self._phases(over))

    def _phases(self, over: Floats) -> Floats:
        total = np.zeros(over.shape)
        for share, mean in ((self.share, self.first_s), (1 - self.share, self.second_s)):
            if not share.any():
                continue
            wide = np.broadcast_to(mean[:, :, None], over.shape)
            with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
                left = np.where(wide > 0, elementary.exp(-over / wide), 0.0)
            total += share[:, :, None] * left
        return total


def tails_of(mean: Floats, variance: Floats) -> Tails:
    """Return the distributions with these means and variances, both (K, c)."""
    spread = np.minimum(np.sqrt(variance), mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(mean > 0, variance / mean**2, 0.0)
    outlier = square > 1
    root = np.sqrt(np.maximum(square - 1, 0.0) / (square + 1))
    share = np.where(outlier, (1 + root) / 2, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = np.where(outlier, mean / (2 * share), spread), np.where(outlier, mean / (2 * (1 - share)), 0.0)
    return Tails(np.where(outlier, 0.0, mean - spread), share, first, second)


def nearly_latest(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the maximum of independent times nearly, (K, c) -> (K,) each, for a search. Cost O(K c).

    One after the other: E[max] = (m + n + sqrt((m - n)^2 + c (v + w))) / 2 with c = 0.35, by which two M/M/1 of one stream at
    high load are right (1.39 of one, Nelson and Tantawi 1988); the variance is mixed as the means are.
    """
    most, spread = mean[:, 0], variance[:, 0]
    for place in range(1, mean.shape[1]):
        apart = most - mean[:, place]
        root = np.sqrt(apart * apart + SMOOTH * (spread + variance[:, place]))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(root > 0, (1 + apart / root) / 2, 0.5)
        most = (most + mean[:, place] + root) / 2
        spread = share * spread + (1 - share) * variance[:, place]
    return most, spread


def latest(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the maximum of independent times, (K, c) -> (K,) each. Cost O(K c)."""
    tails = tails_of(mean, variance)
    start = tails.shift_s.max(axis=1)
    scale = np.maximum(tails.first_s, tails.second_s).max(axis=1)
    x, weight = _rule(start[:, None] + scale[:, None] * EDGES)
    left = 1 - np.prod(1 - tails.tail(x), axis=1)
    return _moments(start, x, weight, left)


def _rule(edges: Floats) -> tuple[Floats, Floats]:
    """Return points and weights of the panels between the edges, (K, q)."""
    half = np.diff(edges, axis=1) / 2
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    x = middle[:, :, None] + half[:, :, None] * ABSCISSAS
    weight = half[:, :, None] * WEIGHTS
    return x.reshape(len(edges), -1), weight.reshape(len(edges), -1)


def _moments(start: Floats, x: Floats, weight: Floats, left: Floats) -> tuple[Floats, Floats]:
    mean = start + (weight * left).sum(axis=1)
    second = start**2 + (weight * 2 * x * left).sum(axis=1)
    return mean, np.maximum(second - mean**2, 0.0)


def quantile_of(mean: Floats, variance: Floats, level: float) -> Floats:
    """Return the quantile of gamma distributions with these means and variances, elementwise.

    Below SHAPE_SMOOTH from a table over the shape, to 1e-3; above by Wilson and Hilferty's cube root.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.where(variance > 0, mean**2 / variance, np.inf)
    shape = np.where(np.isfinite(mean), shape, np.inf)
    z = NormalDist().inv_cdf(level)
    root = np.maximum(1 - 1 / (9 * shape) + z / (3 * np.sqrt(shape)), 0.0)
    at: Floats = elementary.log(np.clip(shape, SHAPES[0], SHAPES[-1]))
    knots: Floats = elementary.log(SHAPES)
    table = np.interp(at, knots, _table(level))
    return mean * np.where(shape >= SHAPE_SMOOTH, root * root * root, table)


@lru_cache(64)
def _table(level: float) -> Floats:
    """Return the quantile over the mean, by shape."""
    return np.array([_gamma_quantile(float(shape), level) / shape for shape in SHAPES])


def _gamma_quantile(shape: float, level: float) -> float:
    low, high = 0.0, shape + 60.0 + 10 * shape**0.5
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _gamma_below(shape, middle) < level else (low, middle)
    return high


def _gamma_below(shape: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function by its series. Cost O(x)."""
    if x <= 0:
        return 0.0
    term = exp(shape * log(x) - x - lgamma(shape + 1))
    total, n = term, shape
    while term > total * 1e-16 or n < x:
        n += 1
        term *= x / n
        total += term
    return min(total, 1.0)
