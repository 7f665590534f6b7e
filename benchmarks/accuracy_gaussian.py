"""A full Gaussian process over all rows of a component, as a peer: a length for each dimension, chosen by the evidence.

    ln t = level + slopes + f(ln x, ln p) + noise,    f with Matérn's covariance of smoothness 5/2

Amplitude, noise and both lengths maximise the marginal likelihood, from two starts, again at 15 % more rows; between, each row
is learned. Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, eq. 2.25, 4.17, 5.8 and 5.9.
"""

from __future__ import annotations

import math

import numpy as np
from accuracy_protocol import Array

ROWS_MAX = 200  # rows that are learned: their cube is the cost of one step of the search
REFIT = 1.15  # growth of the rows between two choices
BROAD = 25.0  # variance of the level, and of the slopes
START = np.log([1.0, 1.0, 1.0, 0.01])  # amplitude (a variance), two lengths, noise (a variance)
BOUNDS = ((-9.0, 5.0), (-3.0, 5.0), (-3.0, 5.0), (-16.0, 2.0))
TINY = 1e-9  # a predictor of 0
JITTER = 1e-8


class GaussianProcess:
    """One component's rows, its hyperparameters and what solves for its rows."""

    def __init__(self) -> None:
        self.points = np.empty((ROWS_MAX, 2))
        self.logs = np.empty(ROWS_MAX)
        self.count = self.chosen_at = 0
        self.chosen = START

    def learn(self, x: float, p: float, t: float) -> None:
        if self.count < ROWS_MAX:
            self.points[self.count] = math.log(max(x, TINY)), math.log(p)
            self.logs[self.count] = math.log(t)
            self.count += 1

    def predict(self, x: float, p: float) -> float:
        z, y = self.points[: self.count], self.logs[: self.count]
        mean = float(y.mean())
        if self.count < 3:
            return math.exp(mean)
        if self.count >= self.chosen_at * REFIT:
            self.choose(z, y - mean)
        at = np.array([[math.log(max(x, TINY)), math.log(p)]])
        middle = z.mean(axis=0)
        weights = np.linalg.solve(self.covariance(z, middle), y - mean)
        straight = BROAD * (1.0 + (at - middle) @ (z - middle).T)
        found = mean + float(((straight + matern(self.chosen, squares(at, z))[0]) @ weights)[0])
        return math.exp(min(max(found, -50.0), 50.0))

    def covariance(self, z: Array, middle: Array) -> Array:
        straight = BROAD * (1.0 + (z - middle) @ (z - middle).T)
        noise = math.exp(self.chosen[3]) + JITTER
        return straight + matern(self.chosen, squares(z, z))[0] + noise * np.eye(len(z))

    def choose(self, z: Array, y: Array) -> None:
        """Maximise the marginal likelihood, from the last choice and from `START`."""
        from scipy.optimize import minimize  # noqa: PLC0415 -- each peer's package is optional

        straight, apart = BROAD * (1.0 + (z - z.mean(axis=0)) @ (z - z.mean(axis=0)).T), squares(z, z)
        found = [
            minimize(loss, start, (straight, apart, y), "L-BFGS-B", jac=True, bounds=BOUNDS, options={"maxiter": 60})
            for start in (self.chosen, START)
        ]
        self.chosen, self.chosen_at = min(found, key=lambda one: one.fun).x, len(y)

    def state_bytes(self) -> int:
        return 24 * self.count


def squares(one: Array, two: Array) -> Array:
    """Return the squared differences (2, n, m) of points in each dimension."""
    return np.square(one.T[:, :, None] - two.T[:, None, :])


def matern(chosen: Array, apart: Array) -> tuple[Array, Array]:
    """Return the covariance, and its derivatives (2, n, m) by the logarithms of both lengths."""
    scaled = apart / np.exp(2.0 * chosen[1:3])[:, None, None]
    r = np.sqrt(5.0 * scaled.sum(axis=0))
    decay = np.exp(chosen[0] - r)
    return (1.0 + r + r * r / 3.0) * decay, 5.0 / 3.0 * scaled * (1.0 + r) * decay


def loss(chosen: Array, straight: Array, apart: Array, y: Array) -> tuple[float, Array]:
    """Return the negative log marginal likelihood, less its constant, and its gradient."""
    curved, by_length = matern(chosen, apart)
    noise = math.exp(chosen[3])
    matrix = straight + curved + (noise + JITTER) * np.eye(len(y))
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return 1e10, np.zeros(4)
    inverse = np.linalg.inv(matrix)
    weights = inverse @ y
    pull = inverse - np.outer(weights, weights)
    gradient = [(pull * curved).sum(), *(pull * by_length).sum(axis=(1, 2)), noise * np.trace(pull)]
    return float(0.5 * y @ weights + np.log(np.diag(root)).sum()), 0.5 * np.array(gradient)
