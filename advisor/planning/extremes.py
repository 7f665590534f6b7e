"""The time until the last of several is there, and the time until it is a record's turn, by two moments each.

A time of mean m and variance v is taken as d + X with X exponential (v <= m^2), or as one of two exponentials with
balanced means (v > m^2). Both have the right mean and variance, and closed integrals of their tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.domain import elementary
from advisor.planning.requests import Floats

# Panels of a Gauss-Legendre rule, in means of the slowest tail: dense where fast tails bend, out to exp(-40).
EDGES = np.array([0.0, 0.02, 0.1, 0.35, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0])
ABSCISSAS, WEIGHTS = np.polynomial.legendre.leggauss(8)
LAGUERRE, LAGUERRE_WEIGHTS = np.polynomial.laguerre.laggauss(4)  # means over an exponential: smooth ones need few
TINY = 1e-12  # shares nearer to 0 or 1 are taken as this
BREAKS_MAX = 12  # shifts of tails that get panels of their own


@dataclass(frozen=True, slots=True)
class Held:
    """Batches in which records leave that wait for order, (K,) each."""

    behind: Floats  # records that leave at once with a record, and behind it, on average
    lasts_s: Floats  # mean wait of those who wait


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
        return np.where(x[:, None, :] < self.shift_s[:, :, None], 1.0, self._phases(over, integrated=False))

    def beyond(self, x: Floats) -> Floats:
        """Return the integral of the tail from x on, (K, c, q)."""
        under = np.maximum(self.shift_s[:, :, None] - x[:, None, :], 0.0)
        over = np.maximum(x[:, None, :] - self.shift_s[:, :, None], 0.0)
        return under + self._phases(over, integrated=True)

    def residual(self, x: Floats, rates: Floats) -> Floats:
        """Return E[1 - exp(-L (X - x)+)], L of shape (c,): that an arrival finds the one before it still inside at x."""
        rate = rates[None, :, None]
        under = np.maximum(self.shift_s[:, :, None] - x[:, None, :], 0.0)
        over = np.maximum(x[:, None, :] - self.shift_s[:, :, None], 0.0)
        total = np.zeros(over.shape)
        for share, mean in ((self.share, self.first_s), (1 - self.share, self.second_s)):
            wide = np.broadcast_to(mean[:, :, None], over.shape)
            with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
                left = np.where(wide > 0, elementary.exp(-over / wide), 0.0)
            total += share[:, :, None] * left * rate * wide / (1 + rate * wide)
        waits = elementary.exp(-rate * under)
        return 1 - waits + waits * total

    def _phases(self, over: Floats, *, integrated: bool) -> Floats:
        total = np.zeros(over.shape)
        for share, mean in ((self.share, self.first_s), (1 - self.share, self.second_s)):
            if not share.any():
                continue
            wide = np.broadcast_to(mean[:, :, None], over.shape)
            with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
                left = np.where(wide > 0, elementary.exp(-over / wide), 0.0)
            total += share[:, :, None] * left * (wide if integrated else 1.0)
        return total


def tails_of(mean: Floats, variance: Floats) -> Tails:
    """Return the distributions with these means and variances, both (K, c)."""
    spread = np.minimum(np.sqrt(variance), mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(mean > 0, variance / mean**2, 0.0)
    wild = square > 1
    root = np.sqrt(np.maximum(square - 1, 0.0) / (square + 1))
    share = np.where(wild, (1 + root) / 2, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = np.where(wild, mean / (2 * share), spread), np.where(wild, mean / (2 * (1 - share)), 0.0)
    return Tails(np.where(wild, 0.0, mean - spread), share, first, second)


def latest(mean: Floats, variance: Floats, common: Floats | None = None) -> tuple[Floats, Floats]:
    """Return mean and variance of the maximum of times, (K, c) -> (K,) each.

    `common` is the part of each variance, (K, c), that all have in common: it moves them together, by the same multiple
    of an exponential variable; the rest is independent. Cost O(K c).
    """
    if common is None or not common.any():
        return _latest(tails_of(mean, variance))
    own, scale = tails_of(mean, np.maximum(variance - common, 0.0)), np.sqrt(np.minimum(common, variance))
    sizes = len(LAGUERRE)
    shifts = own.shift_s + (LAGUERRE[:, None, None] - 1) * scale
    others = (np.tile(some, (sizes, 1)) for some in (own.share, own.first_s, own.second_s))
    some, spread = (part.reshape(sizes, -1) for part in _latest(Tails(shifts.reshape(-1, mean.shape[1]), *others)))
    first, second = (elementary.weighted(LAGUERRE_WEIGHTS, each) for each in (some, spread + some**2))
    return first, np.maximum(second - first**2, 0.0)


def _latest(tails: Tails) -> tuple[Floats, Floats]:
    start = tails.shift_s.max(axis=1)
    scale = np.maximum(tails.first_s, tails.second_s).max(axis=1)
    x, weight = _rule(start[:, None] + scale[:, None] * EDGES)
    left = 1 - np.prod(1 - tails.tail(x), axis=1)
    return _moments(start, x, weight, left)


def overtaken(mean: Floats, variance: Floats, rate: float, shares: Floats) -> tuple[Floats, Floats, Held]:
    """Return mean and variance of the time until all earlier records of a stream that overtake have left, (K,), and `Held`.

    `mean`, `variance` (K, c) are of a record's time in each of c cases with their `shares`, the variance without what
    neighbours have in common: records overtake only by that; `rate` records a second, Poisson. Earlier records still
    inside at time x are Poisson with mean L times the integral of the tail from x on, as in an M/G/inf queue: P(left by
    x) = F(x) exp(-L integral). A batch begins with each record that does not wait, so that batches are 1 / (1 - p) on
    average where p wait; taken as geometric, a record has p / (1 - p) others of its batch behind it: for M/M/inf within
    17 %. They last as long as those who wait do. Cost O(K c).
    """
    tails = tails_of(mean, variance)
    x, weight = _rule(_edges(tails))
    done = 1 - elementary.weighted(shares, tails.tail(x).swapaxes(0, 1))
    gone = elementary.exp(-rate * elementary.weighted(shares, tails.beyond(x).swapaxes(0, 1)))
    first, spread = _moments(np.zeros(len(mean)), x, weight, 1 - done * gone)
    waits = np.clip(1 - _at_ends(done, gone), TINY, 1 - TINY)
    return (
        first,
        spread,
        Held(waits / (1 - waits), np.maximum(first - elementary.weighted(shares, mean.T), 0.0) / waits),
    )


def in_order(mean: Floats, variance: Floats, rates: Floats, shares: Floats) -> tuple[Floats, Floats, Held]:
    """Return mean and variance of the time until a record leaves after all that entered other branches before it, and `Held`.

    `mean`, `variance` (K, c) are of a record's time in each of c branches that keep order, which `rates` (c,) records a
    second enter, Poisson, with `shares` of sum 1. Of such a branch only the last earlier record matters. Its age is
    exponential and independent of its time T_j, so all of branch j are gone by x with probability E[exp(-L_j (T_j -
    x)+)]; a record of branch i has left by x with probability F_i(x) times those of the other branches. Exact for the
    distributions taken. Cost O(K c^2).
    """
    tails = tails_of(mean, variance)
    x, weight = _rule(_edges(tails))
    gone, here = 1 - tails.residual(x, rates), 1 - tails.tail(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of those who come to a branch within x, the share that is done by then.
        by_then = np.where(x[:, None] > 0, 1 - (mean[:, :, None] - tails.beyond(x)) / x[:, None], 0.0)
    left, leading, followed, squared = np.ones(x.shape), *np.zeros((3, len(mean)))
    for branch, share in enumerate(shares.tolist()):
        others = np.prod(np.delete(gone, branch, axis=1), axis=1)
        left -= share * here[:, branch] * others
        done = elementary.weighted(np.delete(shares, branch), np.delete(by_then, branch, axis=1).swapaxes(0, 1))
        done = np.clip(done, 0.0, 1 - TINY)
        behind = done / (1 - done) * -elementary.expm1(-rates.sum() * (1 - done) * x)
        leading += share * _at_ends(here[:, branch], others)
        followed += share * _at_ends(here[:, branch], others * behind)
        squared += share * _at_ends(here[:, branch], others * behind**2)
    first, spread = _moments(np.zeros(len(mean)), x, weight, left)
    waits = np.clip(1 - leading, TINY, 1 - TINY)
    scale = waits / np.maximum(followed, TINY)
    return (
        first,
        spread,
        Held(waits + scale**2 * squared, np.maximum(first - elementary.weighted(shares, mean.T), 0.0) / waits),
    )


def _at_ends(done: Floats, gone: Floats) -> Floats:
    """Return the integral of `gone` over the distribution `done`, both (K, q) at the same points."""
    between = (np.diff(done, axis=1) * (gone[:, 1:] + gone[:, :-1]) / 2).sum(axis=1)
    return between + done[:, 0] * gone[:, 0] + (1 - done[:, -1])


def _edges(tails: Tails) -> Floats:
    """Return the edges of panels that follow all shifts and reach out to the slowest tail, (K, e)."""
    shifts = np.sort(tails.shift_s, axis=1)
    ends = np.linspace(0, float(shifts.shape[1] - 1), BREAKS_MAX)
    places = np.unique(ends.astype(np.int64))
    breaks = shifts[:, places]
    scale = np.maximum(tails.first_s, tails.second_s).max(axis=1) + tails.shift_s.max(axis=1) / 8
    far = shifts[:, -1:] + scale[:, None] * EDGES
    return np.sort(np.concatenate([np.zeros((len(shifts), 1)), breaks, far], axis=1))


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
