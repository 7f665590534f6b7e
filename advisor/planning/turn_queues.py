"""Waiting for a turn: a group as one server, its components' visits served first come, first served.

A visit that comes from outside the group finds, in the mean, what is there at any time
(PASTA): W_c = sum_d l_d W_d s_d + R, where l_d = L v_d are the visits a second, s_d = T_d the times and
R = sum_d l_d s_d^2 (1 + c_d^2) / 2 what is left of the visit that is being served. A visit at c that follows one at b of the
same group finds what b had found before it, moved on to where those visits went, and who came from outside since:

    x_cd = sum_e x_be q_ed + l_d^out (W_b + s_b),    W_c = sum_d x_cd s_d,    x_cd = l_d (W_d + s_d) from outside,

q_ed being the share of visits at e that d follows at once. These equations are linear in W, and exact for a pipeline in one
group (Simon 1984, priority queues with feedback, in the case without priorities); where a component has several
predecessors x is their mean. Streams that enter or come from other groups are less or more regular than Poisson: waits go with
the dispersion that Whitt's QNA gives them.

The spread of a wait is that of M/G/1 (Takacs) by the mix of visits, with times as gamma distributions; the waits of one record
in one group go up and down together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.planning.queueing import FULL
from advisor.planning.requests import Floats, Ints
from advisor.planning.successions import Succession

ROUNDS = 60  # of x: a visit that follows a visit that follows …; more than passes that are told apart
SETTLED = 1e-10  # relative change of the waits at which they are solved
LINEAR_MAX = (
    24  # components of a group up to which equations are solved, in a millisecond; beyond, all visits wait alike
)


def waits(
    group: Ints, arrivals: tuple[float, float], visits: Floats, seconds: Floats, variation: Floats, after: Succession
) -> tuple[Floats, Floats]:
    """Return mean and variance of one visit's wait at each component, (n,) each; infinite where a group is overloaded.

    `arrivals` are the records that enter a second and the squared coefficient of variation between them, `visits` those
    of a record, `seconds` and `variation` mean and squared coefficient of variation of a visit's time, (n,) each.
    """
    groups, rates = int(group.max()) + 1, arrivals[0] * visits

    def over(values: Floats) -> Floats:
        return np.bincount(group, weights=values, minlength=groups).astype(np.float64)[group]

    rho, left = over(rates * seconds), over(rates * seconds**2 * (1 + variation)) / 2
    full = rho >= FULL
    rest = np.where(full, 1.0, 1 - rho)
    mean = left / rest
    relative = _relative(over(rates * seconds**2 * seconds * (1 + variation) * (1 + 2 * variation)), mean, rest)
    # Who follows another of the group finds more or less than others do.
    beside = after.follows * (group[:, None] == group[None, :])
    for number in np.unique(group[beside.any(axis=0) & ~full]).tolist():
        rows = np.flatnonzero((group == number) & (rates > 0))
        if len(rows) <= LINEAR_MAX:
            load = _Load(rates[rows], seconds[rows], variation[rows])
            mean[rows] = _waits(load, beside[np.ix_(rows, rows)])
    mean = mean * _dispersion(group, arrivals, _Load(rates, seconds, variation), after)
    mean = np.where(rates > 0, np.where(full, np.inf, mean), 0.0)
    deviation = np.where(np.isfinite(mean), mean, 0.0) * relative
    # The waits of one record in one group go together: variances add up to the square of the sum of deviations.
    spread = deviation * over(visits * deviation)
    return mean, np.where(np.isfinite(mean), spread, np.inf)


def _dispersion(group: Ints, arrivals: tuple[float, float], load: _Load, after: Succession) -> Floats:
    """Return the factor by which streams that are not Poisson make waits longer or shorter, (n,): Whitt's QNA (1983).

    Visits leave group h with c_d^2 - 1 = (1 - rho^2)(c_a^2 - 1) + rho^2 (c_s^2 - 1), those of them that go to g with their
    share of that, and streams meet with their shares; waits go with (c_a^2 + c_s^2) / (1 + c_s^2). Records that enter go to
    the groups likewise.
    """
    groups, (rate, between) = int(group.max()) + 1, arrivals
    if groups == 1 and between == 1:
        return np.ones(len(group))
    rates, seconds, variation = load
    at = np.zeros((groups, len(group)))
    at[group, np.arange(len(group))] = 1.0
    total = elementary.product(at, rates)
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (
            elementary.product(at, part) / total for part in (rates * seconds, rates * seconds**2 * (1 + variation))
        )
        served = np.where(first > 0, second / first**2, 1.0)  # c_s^2 + 1
        moved = elementary.product(
            elementary.product(at, after.follows * rates[None, :]), at.T
        )  # visits from group to group
        outside = total - np.diag(moved)
        np.fill_diagonal(moved, 0.0)
        entered = elementary.product(at, after.enters * rates)
        part = np.where(total > 0, moved / total[:, None], 0.0)
        met = np.where(outside > 0, moved / outside, 0.0)
        fresh = np.where(outside > 0, entered / outside, 0.0) * np.minimum(entered / rate, 1.0) * (between - 1)
    busy = np.minimum(elementary.product(at, rates * seconds), 1.0) ** 2
    # c_a^2 - 1 = fresh + sum_h met_hg part_hg ((1 - rho_h^2)(c_a,h^2 - 1) + rho_h^2 (c_s,h^2 - 1)), linear.
    weight = (met * part).T
    extra = elementary.solved(
        np.eye(groups) - weight * (1 - busy), fresh + elementary.product(weight, busy * (served - 2))
    )
    return np.maximum((served + extra) / served, 0.0)[group]


def _relative(third: Floats, mean: Floats, rest: Floats) -> Floats:
    """Return the deviation of a wait over its mean, by Takacs: E[W^2] = 2 E[W]^2 + L E[s^3] / (3 (1 - rho))."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(mean > 0, np.sqrt(1 + third / (3 * rest) / mean**2), 0.0)


class _Load(NamedTuple):
    """What a group is asked to do: visits per second, their times, and how these vary, (n,) each."""

    rates: Floats
    seconds: Floats
    variation: Floats

    @property
    def rho(self) -> float:
        """Share of its time."""
        return float((self.rates * self.seconds).sum())

    @property
    def left_s(self) -> float:
        """What is left of the visit that is being served when another comes, 0 where none is: R."""
        return float((self.rates * self.seconds**2 * (1 + self.variation)).sum()) / 2

    @property
    def mixed_s(self) -> float:
        """The mean wait of M/G/1 with all visits from outside."""
        return self.left_s / (1 - self.rho)


def _waits(load: _Load, inside: Floats) -> Floats:
    """Return the waits within a group: `inside` (from, to) is the share of the visits at `to`."""
    rates, seconds, n = load.rates, load.seconds, len(load.rates)
    mixed = np.full(n, load.mixed_s)
    # Of the visits at `from`, the share that `to` follows at once.
    onward = inside * rates[None, :] / rates[:, None]
    outside = np.maximum(1 - inside.sum(axis=0), 0.0)
    # x[c, d, :] are the coefficients of W, and the constant, of the visits at d that one at c finds before it.
    start = np.zeros((n, n + 1))
    start[np.arange(n), np.arange(n)] = rates
    start[:, n] = rates * seconds
    since = np.zeros((n, n, n + 1))  # who comes from outside while b waits and is served
    for before in range(n):
        since[before, :, before] = rates * outside
        since[before, :, n] = rates * outside * seconds[before]
    found: Floats = np.broadcast_to(start, (n, n, n + 1)).copy()
    for _ in range(min(ROUNDS, 4 * n)):
        new = _moved(found, onward, since, inside) + outside[:, None, None] * start
        settled = float(np.abs(new - found).max()) <= SETTLED * float(np.abs(new).max())
        found = new
        if settled:
            break
    matrix: Floats = (_moved(found, onward, since, inside) * seconds[:, None]).sum(axis=1)
    matrix[:, :n] += outside[:, None] * (rates * seconds)[None, :]
    matrix[:, n] += outside * load.left_s
    try:
        solution: Floats = elementary.solved(np.eye(n) - matrix[:, :n], matrix[:, n])
    except ZeroDivisionError:
        return mixed
    # Beyond what the equations describe (returns that are all but sure) they may have no meaning.
    sound = bool(np.isfinite(solution).all()) and float(solution.min()) >= 0
    return solution if sound else mixed


def _moved(found: Floats, onward: Floats, since: Floats, inside: Floats) -> Floats:
    """Return what visits that follow others find, by what these had found, (n, n, n + 1)."""
    gone = np.einsum("cd,bck->bdk", onward, found) + since
    return elementary.product(inside.T, gone)
