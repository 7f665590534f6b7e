"""The forms' covariances on one component's points: roots, evidence, inverses; in numpy, and in compiled loops for answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from advisor.models import shapes
from advisor.models.posterior import (
    LENGTHS,
    LEVEL_SD,
    MACHINE_SD,
    NEAR,
    SERIAL_SD,
    SHARES,
    SLOPE_SD,
    Frame,
    compiled,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUGGET = 1e-8  # variance of any point's mean at least: a clock is not trusted to a hundredth of a percent
CORNER = 1e100  # of a bordered matrix: beyond every r' C^-1 r
# Of a fitted shape's correction: sd of its level and of what it leaves out, which reaches far. The first shape is as good as
# exact, the second a good guess.
SHAPE_SDS, SHAPE_LENGTH = ((0.02, 0.01), (0.1, 0.05)), 2.5
# A shape's level is a small part of the constant in the first matrix; its slopes go with it, a hundredth as free.
SHAPE_SCALES = np.array(
    [
        ((level / LEVEL_SD) ** 2, 0.0, *(rough**2 if length == SHAPE_LENGTH else 0.0 for length in LENGTHS))
        for level, rough in SHAPE_SDS
    ]
)
NOBODY: Ints = np.zeros(0, np.int64)
NOTHING: Floats = np.zeros(0)


@dataclass(slots=True)
class Stage:
    """Forms of the smooth family under test on the same points.

    Attributes
    ----------
    scales : float64 array (m, BASIS)
    factors : float64 array (m,)
        Of the noise.
    roots : list of m float64 arrays (k, k)
        Cholesky roots of the covariances.
    evidence : float64 array (m,)
        Log marginal likelihoods.
    """

    scales: Floats
    factors: Floats
    roots: list[Floats]
    evidence: Floats


@dataclass(frozen=True, slots=True)
class Bench:
    """What all forms on the same points share."""

    basis: Floats  # (BASIS, k, k)
    machine: Ints | None  # of each point, where any names one
    runs: Floats
    noise: float
    repeats: float
    timer: Floats | float
    wild: Floats  # further variance of points that others contradict

    @classmethod
    def of(cls, frame: Frame, z: Floats, machine: Ints | None, *rest: Any) -> Self:
        """Return the bench of points z (k, axes); `rest` are the fields from `runs` on."""
        return cls(frame.basis(z, z)[0], machine, *rest)

    def _same(self) -> Floats:
        """Return the covariance of a machine's points."""
        machine: Ints = NOBODY if self.machine is None else self.machine
        return MACHINE_SD * MACHINE_SD * (machine[:, None] == machine) * (machine > 0)

    def variances(self, factors: Floats) -> Floats:
        """Return the variances (m, k) of the points' means under factors (m,) of the noise."""
        return (factors[:, None] * self.noise + self.timer) / self.runs + (NUGGET + self.wild)

    def smooth(self, scales: Floats, factors: Floats, residual: Floats) -> Stage:
        """Return the evidence of many covariances for one residual, in one stack.

        The root of [[C, r], [r', corner]] holds that of C and, in its last row, L^-1 r: no second solve.
        """
        k = len(residual)
        bordered = np.empty((len(scales), k + 1, k + 1))
        inner = bordered[:, :k, :k]
        np.copyto(inner, (scales @ self.basis.reshape(len(self.basis), -1)).reshape(-1, k, k))
        if self.machine is not None:
            inner += self._same()
        diagonal = bordered.reshape(len(scales), -1)[:, :: k + 2][:, :k]
        diagonal += self.variances(factors)
        bordered[:, :k, k] = residual
        bordered[:, k, :k] = residual
        bordered[:, k, k] = CORNER
        roots = np.asarray(np.linalg.cholesky(bordered), np.float64)
        logs = np.add.reduce(np.log(roots.reshape(len(scales), -1)[:, :: k + 2][:, :k]), axis=1)
        evidence = -0.5 * np.add.reduce(np.square(roots[:, k, :k]), axis=1) - logs
        return Stage(scales, factors, list(roots[:, :k, :k]), evidence + self.of_repeats(factors))

    def solved(self, root: Floats, residual: Floats) -> tuple[Floats, Floats]:
        """Return C^-1 r and the diagonal of C^-1, of a root of `smooth`."""
        whiten = np.linalg.inv(root)
        return (whiten @ residual) @ whiten, np.add.reduce(np.square(whiten), axis=0)

    def inverses(self, roots: Sequence[Floats]) -> list[Floats]:
        """Return L^-1 of roots of `smooth`."""
        return list(np.linalg.inv(np.array(roots))) if roots else []

    def fitted(self, scale: shapes.Scale, z: Floats, t: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Return the coefficients (shapes, terms) >= 0 of all shapes fitted to times t at points z, and their sums there."""
        return shapes.fitted_at(scale, z, t, weight)

    def shapes(self, factor: float, residuals: Floats) -> tuple[Floats, Floats]:
        """Return L^-1 of the covariances that fitted means share (s, k, k), and the evidence (s, m) for residuals (m, k)."""
        k = residuals.shape[1]
        flat = self.basis.reshape(len(self.basis), -1)
        covariances = np.empty((len(SHAPE_SCALES), k, k))
        for scale, covariance in zip(SHAPE_SCALES, covariances, strict=True):
            covariance[...] = np.dot(scale[None, :], flat).reshape(k, k)
        if self.machine is not None:
            covariances += self._same()
        factors = np.array([factor])
        diagonal = covariances.reshape(len(covariances), -1)[:, :: k + 1]
        diagonal += self.variances(factors)
        roots = np.linalg.cholesky(covariances)
        whiten = np.asarray(np.linalg.inv(roots), np.float64)
        logs = np.log(roots.reshape(len(roots), -1)[:, :: k + 1])
        evidence = np.empty((len(roots), len(residuals)))
        for i, each in enumerate(whiten):
            evidence[i] = -0.5 * np.add.reduce(np.square(residuals @ each.T), axis=1) - float(np.add.reduce(logs[i]))
        return whiten, evidence + self.of_repeats(factors)

    def inverse_of_shapes(self, given: Floats) -> Floats:
        """Return L^-1 of what `shapes` gave: that itself."""
        return given

    def of_repeats(self, factors: Floats) -> Floats:
        """Return what the repeats say of the noise; the belief before them counts as one."""
        return -0.5 * (self.repeats + 1.0) * (np.log(factors) + 1.0 / factors)


class QuickBench(Bench):
    """The same in compiled loops, other digits last: for answers, never for what is stored."""

    __slots__ = ()

    @classmethod
    def of(cls, frame: Frame, z: Floats, machine: Ints | None, *rest: Any) -> Self:
        """Return the bench; of its basis the lower triangles are filled."""
        kernels = compiled()
        straight, bent = kernels.features(z, frame.centre, frame.low, frame.high, SLOPE_SD, SHARES, SERIAL_SD, LEVEL_SD)
        return cls(kernels.basis(z, straight, bent, NEAR), machine, *rest)

    def _roots(self, scales: Floats, factors: Floats, residual: Floats) -> Floats:
        machine, factor = (NOBODY, 0.0) if self.machine is None else (self.machine, MACHINE_SD * MACHINE_SD)
        variances = self.variances(factors)
        stack: Floats = compiled().covariances(self.basis, scales, variances, machine, factor, residual, CORNER)
        return np.asarray(np.linalg.cholesky(stack), np.float64)

    def smooth(self, scales: Floats, factors: Floats, residual: Floats) -> Stage:
        """Return the forms' evidence; their roots are bordered still."""
        roots = self._roots(scales, factors, residual)
        return Stage(scales, factors, list(roots), compiled().evidence(roots) + self.of_repeats(factors))

    def solved(self, root: Floats, residual: Floats) -> tuple[Floats, Floats]:
        """Return C^-1 r and the diagonal of C^-1."""
        return compiled().solved(root, residual)

    def inverses(self, roots: Sequence[Floats]) -> list[Floats]:
        """Return L^-1 of roots of `smooth`."""
        return [compiled().inverse(root, len(root) - 1) for root in roots]

    def shapes(self, factor: float, residuals: Floats) -> tuple[Floats, Floats]:
        """Return roots (s, k, k) instead of their inverses: see `inverse_of_shapes`; and the evidence (s, m)."""
        factors = np.array([factor])
        roots = self._roots(SHAPE_SCALES, np.repeat(factors, len(SHAPE_SCALES)), NOTHING)
        return roots, compiled().shape_evidence(roots, residuals) + self.of_repeats(factors)

    def inverse_of_shapes(self, given: Floats) -> Floats:
        """Return L^-1 of what `shapes` gave."""
        return compiled().inverse(given, len(given))

    def fitted(self, scale: shapes.Scale, z: Floats, t: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Return the coefficients and sums."""
        family = scale.family
        return compiled().fitted(
            *scale.entries(z), family.work, family.cores, family.there, t, weight,
            shapes.RIDGE, shapes.SLACK, shapes.SWAPS, shapes.SINGLE_AFTER,
        )  # fmt: skip
