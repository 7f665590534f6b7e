"""A bound of the mean latency under arrivals: each component's share of it by what it is given, whatever the others are.

With z the means and deviations of stays, F a convex function below the latency (`convex`), x^ a reference and J the
streams,

    L(x) >= F(z^) + g (z(x) - z^),   z_b(x) = z_b(x_b, J_b(x)),

and for any prices p >= 0 on the streams, with d J_b(x) = J_b(x) - J_b(x^) >= sum_j low_bj(x_j) (`influence`),

    g z_b(x_b, J_b) >= min_J { g z_b(x_b, J) - p_b (J - J^_b) } + p_b sum_j low_bj(x_j).

Every term belongs to one component, so a program over the cores finds the least sum. Prices are the slopes at x^: nothing
is lost there, and the more the farther an allocation is from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.asked.options import NOTHING
from advisor.planning.queues.convex import JOINED, SERVED, WHOLE, tangent
from advisor.planning.queues.influence import Influence, Shapes, feels_at_least
from advisor.planning.queues.queueing import FULL
from advisor.planning.queues.returns import NEVER, join_shares
from advisor.planning.queues.streams import BUSY, Felt, edges_of, in_common, renewal
from advisor.planning.solving.objectives import about_latency
from advisor.planning.solving.search import Problem

POINTS = 48  # of a stream's range at which a stay is looked at: between two of them it counts as at the lower
UNSTABLE = 1e100  # seconds of a shape that cannot keep up with the arrivals
CELLS_MAX = 4_000_000  # slopes of every stream in every component that are kept: up to 300 components
SLOPE_STEP = 1e-3  # of dispersion, for a stay's slope


@dataclass(slots=True)
class Loaded:
    """Components under arrivals near a reference, as a bound needs them.

    Attributes
    ----------
    base : float
        F(z^) - g z^.
    slopes
        g: of the latency in means (n,) and in deviations (3, n).
    rho, seconds_s : (n, shapes)
        Of the busiest instance.
    common : (n, shapes)
        As `common_at_most` gives it.
    """

    problem: Problem
    influence: Influence
    base: float
    slopes: tuple[Floats, Floats]
    rho: Floats
    seconds_s: Floats
    common: Floats

    def worth(self, felt: Floats) -> Floats:
        """Return g z of each shape at dispersions felt, (K, shapes, n) -> the same."""
        model = self.problem.model
        count, shapes, n = felt.shape
        wide = (count * shapes, n)
        seconds = np.broadcast_to(self.seconds_s.T, felt.shape).reshape(wide)
        servers = np.broadcast_to(self.problem.options.instances.T, felt.shape).reshape(wide)
        again = np.where(model.curves.variation > 1, self.influence.again.T, 0.0)
        calm = np.broadcast_to(again, felt.shape).reshape(wide)
        wait, spread = model.waits(servers, seconds, Felt(felt.reshape(wide), calm, calm))
        mean, own = np.where(np.isfinite(wait), wait, UNSTABLE) + seconds, seconds**2 * model.curves.variation
        total = self.slopes[0] * mean
        if self.slopes[1].any():
            common = np.broadcast_to(self.common.T, felt.shape).reshape(wide)
            with np.errstate(invalid="ignore"):
                parts = {JOINED: own + (1 - common) * spread, WHOLE: own + spread, SERVED: own}
                for kind, variance in parts.items():
                    total = total + self.slopes[1][kind] * np.minimum(np.sqrt(variance), mean)
        return total.reshape(felt.shape)

    def shares(self) -> Floats:
        """Return what each shape adds to the bound at least, (n, shapes)."""
        problem, influence = self.problem, self.influence
        options = problem.options
        n, shapes = len(options.number), int(options.weight.shape[1])
        felt, ends, at = np.zeros((POINTS + 3, shapes, n)), np.zeros((POINTS + 1, n)), np.zeros(n, np.int64)
        rows = np.arange(n)
        for row in range(n):
            if influence.rates[row] > 0:
                at[row], ends[:, row], felt[:, :, row] = self._felt(row)
        worth = self.worth(felt)
        chosen = worth[-2:, influence.chosen, rows]
        with np.errstate(invalid="ignore"):
            price = np.maximum((chosen[1] - chosen[0]) / SLOPE_STEP, 0.0)
            here = np.array([some.here[place] for some, place in zip(influence.arriving, at.tolist(), strict=True)])
            table = (worth[:POINTS] - price * (ends[1:, None] - here)).min(axis=0).T
        table = table + self._from_streams(price, at)
        unstable = self.rho >= FULL
        return np.where(unstable | (options.weight >= NOTHING), UNSTABLE, table)

    def _felt(self, row: int) -> tuple[int, Floats, Floats]:
        """Return the window in which a box feels its stream, ends of parts of J's range there, and what it feels at least.

        That is (POINTS + 3, shapes): at the ends, at the reference and a step beyond.
        """
        influence, model = self.influence, self.problem.model
        arriving, less = influence.arriving[row], influence.less[row]
        variation, rate = float(model.curves.variation[row]), float(influence.rates[row])
        rho, again = influence.rho[row][:, None], influence.again[row][:, None]
        edges = edges_of(model.windows_s)
        floor, _ = feels_at_least(
            rho, variation, np.maximum(arriving.low - less, influence.calmest), rate, again, *edges
        )
        chosen, calmest = int(influence.chosen[row]), influence.calmest
        here = np.maximum(arriving.here - less[chosen], calmest)[None]
        place = int(feels_at_least(rho[[chosen]], variation, here, rate, again[[chosen]], *edges)[1][0, 0])
        low, high = float(arriving.low[place]), float(arriving.high[place])
        ends: Floats = low + (high - low) * (np.arange(POINTS + 1) / POINTS)
        at = float(arriving.here[place])
        looked: Floats = np.append(ends, [at, at + SLOPE_STEP])
        into = np.maximum(looked[:, None] - less[:, place], calmest).reshape(-1, 1)
        some, _ = feels_at_least(
            np.tile(rho, (len(looked), 1)), variation, into, rate, np.tile(again, (len(looked), 1)),
            *(edge[place : place + 1] for edge in edges),
        )  # fmt: skip
        felt = np.maximum(some.reshape(len(looked), -1), floor)
        # What is felt grows with J: whatever holds for less of it holds for more.
        felt[: POINTS + 1] = np.maximum.accumulate(felt[: POINTS + 1], axis=0)
        return place, ends, felt

    def _from_streams(self, price: Floats, at: Ints) -> Floats:
        """Return what each shape does at least to the streams that the others feel, at their prices, (n, shapes)."""
        influence = self.influence
        each = np.zeros(influence.changes.shape[:2])
        for row in np.flatnonzero(price > 0).tolist():
            moving, place = influence.arriving[row], int(at[row])
            by = influence.changes[:, :, place]
            each += price[row] * np.minimum(moving.least[:, place, None] * by, moving.most[:, place, None] * by)
        total = np.zeros(self.problem.options.weight.shape)
        np.add.at(total, influence.owner, each)
        return total


def common_at_most(problem: Problem, rho: Floats) -> Floats:
    """Return the largest share of a wait's variance that other branches of the join around a box have too, (n, shapes).

    Of what varies in the queue, c_a^2 + c_s^2, the join's own stream brought at most its records' share of its dispersion,
    and that is at most the largest of what enters, of all services and of a Poisson stream, or without bound behind order.
    """
    model = problem.model
    share, variation = join_shares(model.structure), model.curves.variation
    burst = max(1.0, model.request.arrival_variation, float(variation[model.visits > 0].max(initial=1.0)))
    brought = np.where(share > 0, np.inf if model.structure.keeps_order else burst * share, 0.0)
    with np.errstate(invalid="ignore"):
        left = np.where(np.isinf(brought), 1.0, brought / np.maximum(brought + variation, NEVER))
    some = left[:, None]
    return in_common(np.clip(rho, NEVER, BUSY), variation[:, None], share[:, None], some)


def near(problem: Problem, chosen: Ints) -> Loaded:
    """Return what a bound near an allocation needs. Cost O(n nodes W + n shapes W) for W windows of time."""
    model, options = problem.model, problem.options
    rate = float(model.request.arrival_per_s or 0.0)
    valid = np.isfinite(options.seconds_s)
    seconds = np.where(valid, options.seconds_s, 1.0)
    rho = np.clip(rate * model.visits[:, None] * options.heaviest * seconds, 0.0, 1.0)
    entering = renewal(model.windows_s * rate, model.request.arrival_variation)
    influence = Influence(
        model.structure, Shapes(seconds, options.instances, valid & (rho < FULL)), model.curves.variation, chosen, rate,
        entering, model.windows_s,
    )  # fmt: skip
    judged = model.judge(options, chosen[None])
    own = judged.seconds_s**2 * model.curves.variation
    spread = np.maximum(judged.stay_variance - own, 0.0)
    mean = judged.seconds_s + judged.wait_s
    parts = own + (1 - judged.felt.common) * spread, own + spread, own
    deviations = np.minimum(np.sqrt(np.concatenate(parts)), mean)
    overtakes = (np.where(valid, options.instances, NOTHING).min(axis=1) > 1).astype(np.float64)
    base, means, spreads = tangent(model.structure, mean[0], deviations, overtakes, rate)
    return Loaded(problem, influence, base, (means, spreads), rho, seconds, common_at_most(problem, rho))


def is_boundable(problem: Problem) -> bool:
    """Return whether the bound is for this problem: the mean latency, no contention, and not too many components."""
    model = problem.model
    n = len(problem.options.number)
    request = model.request
    asked = request.arrival_per_s is not None and request.quantile is None
    asked = asked and (about_latency(request) or request.objective == "cost")
    return asked and not model.contended and n * n * len(model.windows_s) <= CELLS_MAX
