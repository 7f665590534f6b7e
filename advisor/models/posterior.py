"""What support points say of log time anywhere: a mixture of Gaussians, in arrays and, for one point, in few calls.

Each expert is a mean and a Gaussian process that corrects it. All covariances are sums of the same few matrices
(`Frame.basis`), so those of all experts at a point cost little more than one. Experts with the same covariance share its
root: with C = L L', an expert's correction at z is c(z)' C^-1 r and the variance it takes away |L^-1 c(z)|^2.

All figures below are beliefs about run times in general, in natural log units; none is fitted to a data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models.shapes import Shape

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mean = Callable[[Floats], Floats]  # log time at points (n, axes)

COMPILED: list[Any] = []  # the module of compiled kernels, once `quick.use_compiled` has been called
TRIED: ContextVar[list[Any]] = ContextVar("TRIED", default=COMPILED)  # what one thread tries before all use it


def compiled() -> Any:
    """Return the module of compiled kernels that this thread answers with; None: numpy."""
    found = TRIED.get()
    return found[0] if found else None


LN2 = 0.6931471805599453
ROOT3 = 1.7320508075688772

SLOPE = 0.5  # prior log-slope of time in each predictor, and minus that in cores: between constant and proportional
SLOPE_SD = 0.5
LEVEL_SD = 5.0  # of the level: the mean of the points is a guess that may be wrong by e**5
SERIAL_SHARES = (0.03, 0.3)  # f of Amdahl's saturation: where curves bend, seen from a few and from tens of cores
SERIAL_SD = 0.5
LENGTHS = (0.7, 2.5)  # how far a correction reaches: a factor of 2, a factor of 12
MACHINE_SD = 0.5  # a machine's factor: two thirds lie between 0.6 and 1.65
UNSEEN_MACHINE = -1  # a machine that no point names: its factor is open
REACH = 1.0  # squares go on this many times the seen range beyond it, then stay: they must not explode
BASIS = 2 + len(LENGTHS)  # constant + linear, squares, one Matern a length
NEARNESS = np.array([[ROOT3 / length] for length in LENGTHS])
NEAR, SHARES = np.array([ROOT3 / length for length in LENGTHS]), np.array(SERIAL_SHARES)


@dataclass(frozen=True, slots=True)
class Points:
    """Support points in natural logs.

    Attributes
    ----------
    z : float64 array (k, axes)
    y : float64 array (k,)
        Mean log time, extremes left out where they are wild.
    runs : float64 array (k,)
    spread : float64 array (k,)
        Sum of squared deviations from y.
    machine : int64 array (k,)
        Place of the machine, 0 where none was named.
    inside : float64 array (axes,), optional
        Standard deviation of z inside cells.
    timer : float64 array (k,), optional
        Variance of one run's log time that the timer adds.
    zero : float64 array (axes,)
        Where a predictor of 0 stands; no axis goes below.
    torn : float64 array (k,), optional
        Further variance of means whose two runs contradict each other.
    """

    z: Floats
    y: Floats
    runs: Floats
    spread: Floats
    machine: Ints
    zero: Floats
    torn: Floats | None = None
    inside: Floats | None = None
    timer: Floats | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the smooth family stands: centre, seen range, and the matrices that all covariances are made of."""

    centre: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, z: Floats) -> Frame:
        """Return the frame of points z (k, axes)."""
        low, high = np.minimum.reduce(z, axis=0), np.maximum.reduce(z, axis=0)
        span = REACH * (high - low)
        return cls(np.add.reduce(z, axis=0) / len(z), low - span, high + span)

    def basis(self, z: Floats, others: Floats) -> tuple[Floats, Floats]:
        """Return (BASIS, n, k): constant + linear, squares, Matern; and (BASIS, n): each at a point with itself."""
        a, c = self.features(z), self.bent(z)
        b, d = (a, c) if z is others else (self.features(others), self.bent(others))
        out = np.empty((BASIS, len(z), len(others)))
        np.matmul(a, b.T, out=out[0])
        np.square(c @ d.T, out=out[1])
        # |z - z'|^2 with the differences taken first: no cancellation, and k is small.
        distance = z[:, None, 0] - others[:, 0]
        distance *= distance
        for axis in range(1, z.shape[1]):
            along = z[:, None, axis] - others[:, axis]
            along *= along
            distance += along
        near = np.sqrt(distance) * NEARNESS[:, :, None]
        np.exp(-near, out=out[2:])
        near += 1.0
        out[2:] *= near
        own = np.ones((BASIS, len(z)))
        np.add.reduce(np.square(a), axis=1, out=own[0])
        np.square(np.add.reduce(np.square(c), axis=1), out=own[1])
        return out, own

    def features(self, z: Floats) -> Floats:
        """Return the columns (n, axes + 3) of the constant + linear family: each times a standard normal coefficient."""
        axes = z.shape[1]
        out = np.empty((len(z), axes + len(SERIAL_SHARES) + 1))
        np.subtract(z, self.centre, out=out[:, :axes])
        out[:, :axes] *= SLOPE_SD
        p = np.exp(-z[:, -1])
        for i, f in enumerate(SERIAL_SHARES):
            out[:, axes + i] = np.log(f + (1.0 - f) * p)
        out[:, axes:-1] *= SERIAL_SD
        out[:, -1] = LEVEL_SD
        return out

    def bent(self, z: Floats) -> Floats:
        """Return where squares are taken (n, axes): they stay where the range is left far behind."""
        return np.minimum(np.maximum(z, self.low), self.high) - self.centre

    def prior(self, z: Floats) -> Floats:
        """Return the smooth family's prior log time, up to its level."""
        offset = (z - self.centre) * SLOPE
        return offset[:, :-1].sum(axis=1) - offset[:, -1]


@dataclass(frozen=True, slots=True)
class Prior:
    """The smooth family's mean."""

    frame: Frame
    level: float

    def __call__(self, z: Floats) -> Floats:
        """Return log times at points z (n, axes)."""
        return self.frame.prior(z) + self.level


@dataclass(slots=True)
class _Single:
    """What `Posterior.one` works with: constants in plain numbers, and room for its few arrays."""

    zero: list[float]
    centre: list[float]
    low: list[float]
    high: list[float]
    left: Floats  # block diagonal (features + axes, 2 k): a point's features and bent values to two rows of the basis
    across: Floats  # (axes, k) the points, transposed
    rows: Floats  # (BASIS, k)
    gap: Floats  # (axes, k)
    distance: Floats  # (k,)
    near: Floats  # (2, k)
    ones: Floats  # (axes,)
    shares: list[float]
    scale: list[list[float]]
    noise: float


@dataclass(frozen=True, slots=True)
class _Quick:
    """What the compiled `Posterior.one` works with."""

    zero: list[float]
    centre: list[float]
    constants: tuple[Any, ...]  # of a kernel's arguments, those between the point and the machine
    shares: list[float]
    noise: float


@dataclass(slots=True)
class Posterior:
    """What the points say of log time anywhere: a mixture of Gaussians.

    Attributes
    ----------
    names : tuple of str
        Form of each expert, heaviest first.
    share : float64 array (e,)
        Weights, summing to 1.
    noise : float64 array (e,)
        Variance of one run.
    freedom : float
        Degrees of freedom of the noise.
    machines : bool
        Whether any point names its machine.
    """

    points: Points
    frame: Frame
    names: tuple[str, ...]
    share: Floats
    noise: Floats
    freedom: float
    machines: bool
    _means: list[Mean]
    _home: list[int]  # of each expert, its place among the covariances
    _scale: Floats  # (c, BASIS)
    _whiten: Floats  # (c, k, k)
    _alpha: Floats  # (e, k)
    _single: _Single | _Quick | None = field(default=None)

    def at(self, z: Floats, machine: int = 0) -> tuple[Floats, Floats, Floats]:
        """Return mean and variance of log time at points (n, axes), and the variance of one run (n,) there.

        Where no machine is named, on any of those seen, as often as they were. Cost O(n k^2) a covariance.
        """
        if self.machines and not machine:
            return self._anywhere(z)
        z = np.maximum(z, self.points.zero)
        basis, own = self.frame.basis(z, self.points.z)
        cross = np.tensordot(self._scale, basis, 1)  # (c, n, k)
        total = self._scale @ own
        if self.machines:
            factor = MACHINE_SD * MACHINE_SD
            if machine:
                cross += factor * (self.points.machine == machine)
            total += factor
        taken = np.square(cross @ self._whiten.transpose(0, 2, 1)).sum(axis=2)
        variance = np.maximum(total - taken, 0.0)[self._home]
        middle = np.empty((len(self._home), len(z)))
        entries: tuple[Floats, Floats] | None = None
        for i, (home, mean) in enumerate(zip(self._home, self._means, strict=True)):
            middle[i] = cross[home] @ self._alpha[i]
            if isinstance(mean, Shape):
                entries = mean.scale.entries(z) if entries is None else entries
                middle[i] += mean.values(entries)
            else:
                middle[i] += mean(z)
        share = self.share[:, None]
        together = (share * middle).sum(axis=0)
        return (
            together,
            (share * (variance + np.square(middle - together))).sum(axis=0),
            np.full(len(z), float(self.share @ self.noise)),
        )

    def _anywhere(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        places = np.unique(self.points.machine)
        runs = np.array([self.points.runs[self.points.machine == place].sum() for place in places])
        share = (runs / runs.sum())[:, None]
        # Place 0, runs that named no machine, has no factor of its own: any machine never seen stands for it.
        found = [self.at(z, int(place) or UNSEEN_MACHINE) for place in places]
        middle, variance, noise = (np.array(values) for values in zip(*found, strict=True))
        mean = (share * middle).sum(axis=0)
        return mean, (share * (variance + np.square(middle - mean))).sum(axis=0), noise[0]

    def covariance(self, z: Floats, others: Floats) -> Floats:
        """Return the covariances (n, m) of log time at points (n, axes) with those (m, axes): the experts' mean ones."""
        z, others = np.maximum(z, self.points.zero), np.maximum(others, self.points.zero)
        left, right = (self.frame.basis(at, self.points.z)[0] for at in (z, others))
        between, _ = self.frame.basis(z, others)
        found = np.zeros((len(z), len(others)))
        for i, (scale, whiten) in enumerate(zip(self._scale, self._whiten, strict=True)):
            share = sum(s for s, home in zip(self.share.tolist(), self._home, strict=True) if home == i)
            one, two = (np.tensordot(scale, side, 1) @ whiten.T for side in (left, right))
            found += share * (np.tensordot(scale, between, 1) - one @ two.T)
        return found

    def one(self, z: Sequence[float], machine: int = 0) -> tuple[float, float, float]:
        """Return what `at` gives for one point, to 1e-9, in about twenty numpy calls."""
        if self.machines and not machine:
            mean, variance, noise = self._anywhere(np.array([z]))
            return float(mean[0]), float(variance[0]), float(noise[0])
        s = self._single
        if s is None:
            s = self._single = self._quick() if compiled() is not None else self._singled()
        z = [max(value, low) for value, low in zip(z, s.zero, strict=True)]
        left, pulled = self._pulled_quickly(s, z, machine) if isinstance(s, _Quick) else self._pulled(s, z, machine)
        entries: tuple[list[float], list[float]] | None = None
        middle: list[float] = []
        for i, mean in enumerate(self._means):
            if isinstance(mean, Shape):
                if entries is None:
                    entries = mean.scale.entries_of(z)
                at = mean.of(entries)
            elif isinstance(mean, Prior):
                offset = [value - centre for value, centre in zip(z, s.centre, strict=True)]
                at = mean.level + SLOPE * (sum(offset) - 2.0 * offset[-1])
            else:
                single = getattr(mean, "one", None)  # a mean fitted elsewhere may know a quicker way for one point
                at = float(mean(np.array([z]))[0]) if single is None else single(z)
            middle.append(at + pulled[i])
        together = sum(share * value for share, value in zip(s.shares, middle, strict=True))
        variance = 0.0
        for share, value, home in zip(s.shares, middle, self._home, strict=True):
            variance += share * (left[home] + (value - together) ** 2)
        return together, variance, s.noise

    def _pulled(self, s: _Single, z: list[float], machine: int) -> tuple[list[float], list[float]]:
        """Return the variances left (c,) at one point, and what the points pull each expert's mean by (e,)."""
        cross = self._cross(s, z)
        added = 0.0
        if self.machines:
            added = MACHINE_SD * MACHINE_SD
            if machine:
                cross += added * (self.points.machine == machine)
        own = self._own(s, z)
        left: list[float] = []
        for i, scale in enumerate(s.scale):
            white = self._whiten[i].dot(cross[i])
            total = added + sum(a * b for a, b in zip(scale, own, strict=True))
            left.append(max(total - float(white.dot(white)), 0.0))
        pulled = self._alpha.dot(cross.T).tolist()
        return left, [pulls[home] for pulls, home in zip(pulled, self._home, strict=True)]

    def _pulled_quickly(self, s: _Quick, z: list[float], machine: int) -> tuple[list[float], list[float]]:
        """Return `_pulled`, compiled."""
        added = MACHINE_SD * MACHINE_SD if self.machines else 0.0
        found = compiled().one_point(np.array([z]), *s.constants, self.points.machine, machine, added).tolist()
        covariances = len(self._scale)
        return found[:covariances], found[covariances:]

    def _quick(self) -> _Quick:
        frame = self.frame
        beliefs = (frame.centre, frame.low, frame.high, SLOPE_SD, SHARES, SERIAL_SD, LEVEL_SD)
        straight, bent = compiled().features(self.points.z, *beliefs)
        return _Quick(
            self.points.zero.tolist(), frame.centre.tolist(),
            (self.points.z, straight, bent, *beliefs, NEAR, self._scale, self._whiten, self._alpha, np.array(self._home)),
            self.share.tolist(), float(self.share @ self.noise),
        )  # fmt: skip

    def _cross(self, s: _Single, z: list[float]) -> Floats:
        """Return the covariances (c, k) of one point with the points."""
        axes = len(z)
        inverse = math.exp(-z[-1])
        row = [(value - centre) * SLOPE_SD for value, centre in zip(z, s.centre, strict=True)]
        row += [SERIAL_SD * math.log(f + (1.0 - f) * inverse) for f in SERIAL_SHARES]
        row.append(LEVEL_SD)
        for value, low, high, centre in zip(z, s.low, s.high, s.centre, strict=True):
            row.append(min(max(value, low), high) - centre)
        rows = s.rows
        np.dot(np.array(row), s.left, out=rows[:2].reshape(-1))
        np.multiply(rows[1], rows[1], out=rows[1])
        np.subtract(s.across, np.array(z).reshape(axes, 1), out=s.gap)
        np.multiply(s.gap, s.gap, out=s.gap)
        np.dot(s.ones, s.gap, out=s.distance)
        np.sqrt(s.distance, out=s.distance)
        near = np.multiply(NEARNESS, s.distance, out=s.near)
        far = rows[2:]
        np.negative(near, out=far)
        np.exp(far, out=far)
        near += 1.0
        far *= near
        return self._scale.dot(rows)

    @staticmethod
    def _own(s: _Single, z: list[float]) -> tuple[float, ...]:
        """Return the matrices of the basis at one point with itself."""
        inverse = math.exp(-z[-1])
        linear, bent = LEVEL_SD * LEVEL_SD, 0.0
        for value, low, high, centre in zip(z, s.low, s.high, s.centre, strict=True):
            linear += (SLOPE_SD * (value - centre)) ** 2
            bent += (min(max(value, low), high) - centre) ** 2
        for f in SERIAL_SHARES:
            linear += (SERIAL_SD * math.log(f + (1.0 - f) * inverse)) ** 2
        return (linear, bent * bent, *(1.0 for _ in LENGTHS))

    def _singled(self) -> _Single:
        z, frame = self.points.z, self.frame
        k, axes = len(z), len(self.points.zero)
        a = frame.features(z)
        width = a.shape[1]
        left = np.zeros((width + axes, 2 * k))
        left[:width, :k] = a.T
        left[width:, k:] = frame.bent(z).T
        return _Single(
            self.points.zero.tolist(), frame.centre.tolist(), frame.low.tolist(), frame.high.tolist(), left,
            np.ascontiguousarray(z.T), np.empty((BASIS, k)), np.empty((axes, k)), np.empty(k), np.empty((len(LENGTHS), k)),
            np.ones(axes), self.share.tolist(), self._scale.tolist(), float(self.share @ self.noise),
        )  # fmt: skip
