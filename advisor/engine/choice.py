"""The one rule by which core counts are chosen for runs of a component.

First run: the caller's usual count, else the allowed count nearest to least (most / least)**share. Then, among the allowed
counts from half the least to twice the largest seen, or while exploring the next ones within a factor of four, the fewest
within the tolerance of the best. The last count stays while it is within 1.5 tolerances of the best and is not a third too
many. Fewer cores count as good until runs have shown them to be worse, see `advisor.models.core_rule`. Nothing is random, and
nothing is tried unless asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import erf, inf, log2, nextafter, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.answers import CoreChoice, Prediction
from advisor.domain.core_requests import CORE_SECONDS, TIME, CoreRequest
from advisor.domain.elementary import exp, log, log1p
from advisor.domain.vectors import Floats, Ints
from advisor.domain.wording import seconds
from advisor.engine.learners import Solved
from advisor.models.core_rule import EQUAL, HIGHS, SCORES, TIMES
from advisor.models.cores_seen import CoresSeen
from advisor.models.fold import KERNELS
from advisor.models.logarithm import exp2_of, log2_of
from advisor.models.table import Table

FIRST_SHARE = {TIME: 0.75, CORE_SECONDS: 0.5}  # of the way from the least to the most, on a log scale, by objective
BEYOND = 2.0  # times the largest count seen, and the share of the least: an extrapolation that one run mends
NEXT = (
    4.0  # of these, while exploring, the bound of the next allowed count on either side, for where counts are far apart
)
SPREAD = (0, -1, 1, -2)  # doublings from the first count: what runs that begin at once, all unknown, are spread over
SPREAD_RUNS = 8  # on each count but the first: enough to compare means, whatever the array's length
CHANCE_LEAST = 0.4  # that a trial beats the present count by the tolerance
TRIALS_EVERY = 50  # runs that begin at once, for each trial among them: 2 %
PER_DOUBLING = 4  # of the counts that a trial may be on: their covariances cost the square of their number
COUNTS_CACHED = 1024  # sets of counts that are compared, some 1 KB each


def first_count(request: CoreRequest) -> int:
    """Return the count of a first run: the allowed one nearest to the usual, else to least (most / least)**share."""
    allowed = request.allowed
    if request.usual is not None:
        return allowed.nearest(request.usual)
    share = FIRST_SHARE[request.objective]
    return allowed.nearest(
        exp2_of((1.0 - share) * log2_of(float(allowed.least)) + share * log2_of(float(allowed.most)))
    )


def first_counts(request: CoreRequest, runs: int) -> list[int]:
    """Return a count for each of some runs that begin while nothing is known: most on the first, a few on its neighbours."""
    first = first_count(request)
    counts = dict.fromkeys(request.allowed.nearest(first * 2.0**doublings) for doublings in SPREAD)
    each = min(SPREAD_RUNS, runs // len(SPREAD))
    others = [count for count in counts if count != first for _ in range(each)]
    return [*[first] * (runs - len(others)), *others]


class Chosen(NamedTuple):
    """What the rule gives: places among counts (n,) of the chosen one, of the fewest that are good enough, and of the best."""

    place: int
    fewest: int
    best: int
    counts: Floats
    columns: Floats  # of `advisor.models.core_rule`
    answer: Prediction  # of one run on the chosen count

    @property
    def cores(self) -> int:
        """The chosen count."""
        return int(self.counts[self.place])

    @property
    def scores(self) -> Floats:
        """What was compared (n,): times, or core-seconds."""
        return self.columns[SCORES]

    def why(self, tolerance: float) -> str:
        """Return the choice in words."""
        scores, best = self.scores, int(self.counts[self.best])
        fastest = f"{_cores(best)} at {seconds(float(self.columns[TIMES, self.best]))}"
        if self.place == self.best == self.fewest:
            return f"{fastest}: the best of {_span(self.counts)}"
        loss = float(scores[self.place] / scores[self.best]) - 1.0
        given = f"{_cores(self.cores)}, within {max(loss, 0.0):.1%} of the best"
        if self.place != self.fewest:
            return f"stays on {given}"
        if loss > max(tolerance, EQUAL):
            return f"{given} and not shown to be worse, {fastest} (tolerance {tolerance:.1%})"
        return f"{given}, {fastest} (tolerance {tolerance:.1%})"


def counts_within(request: CoreRequest, seen: CoresSeen) -> Floats:
    """Return the counts (n,) that are compared, ascending: allowed ones near those seen; where only seen ones may run, these.

    At least one: where none is allowed there, the allowed one nearest to the last.
    """
    if request.explore == "freeze":
        found = {int(cores) for cores, _ in seen.counts if cores % 1.0 == 0.0 and int(cores) in request.allowed}
        return np.array(sorted(found or {request.allowed.nearest(seen.last or seen.most)}), np.float64)
    return _counts_near(request.allowed, seen.least, seen.most, seen.last, request.explore)


@lru_cache(maxsize=COUNTS_CACHED)
def _counts_near(allowed: AllowedCores, least: float, most: float, last: float, explore: bool) -> Floats:
    low, high = least / BEYOND, most * BEYOND
    if explore:
        fewer = allowed.between(least / NEXT, nextafter(least, 0.0))
        more = allowed.between(nextafter(most, inf), most * NEXT)
        low, high = min(low, fewer.most if fewer else low), max(high, more.least if more else high)
    part = allowed.between(low, high)
    found = set(part.compared) if part is not None else set[int]()
    found |= {int(last)} if last in allowed else set()
    return np.array(sorted(found or {allowed.nearest(last or most)}), np.float64)  # kernels take none that is read-only


def choose(base: Table, slot: int, request: CoreRequest, counts: Floats, answer: Prediction, noise: float) -> Chosen:
    """Return what the rule gives among counts (n,), of one run on each; `noise`: variance of ln t of a run.

    With a risk r more cores are taken only where they are better by the tolerance though intervals, as far as these are wider
    than the narrowest, count with the share r: so a larger risk never gives more cores. Cost O(n), with a risk O(n**2).
    """
    columns = np.empty((3, len(counts)))
    columns[TIMES], columns[HIGHS] = answer.elapsed_s, answer.high_s
    of_cores = request.objective == CORE_SECONDS
    place, fewest, best = KERNELS.choose_among(
        base.records, slot, counts, noise, request.tolerance, request.risk, of_cores, columns
    )
    return Chosen(place, fewest, best, counts, columns, at_place(answer, place))


def at_place(answer: Prediction, place: int) -> Prediction:
    """Return one of the points of a prediction."""
    each = (answer.elapsed_s, answer.low_s, answer.high_s)
    value, low, high = (float(values[place]) for values in each)
    outside = np.broadcast_to(answer.extrapolates, np.shape(answer.elapsed_s))
    return replace(answer, elapsed_s=value, low_s=low, high_s=high, extrapolates=float(outside[place]))


def answer_of(
    request: CoreRequest, seen: CoresSeen, chosen: Chosen, trial: tuple[int, Prediction] | None, assumed: Sequence[str]
) -> CoreChoice:
    """Return the answer to a question about a component that was seen; `trial`: a count that is worth trying, and its run."""
    own, why = chosen.cores, chosen.why(request.tolerance)
    cores, answer = own, chosen.answer
    trials: list[int] = []
    if trial is not None:
        others = sum(runs for count, runs in request.under_way.items() if count != own)
        trials = [trial[0]] * (request.count // TRIALS_EVERY if request.count > 1 else int(not others))
    if trial is not None and trials:
        cores, answer = trial if request.count == 1 else (own, answer)
        tried = f"{len(trials)} trial{'' if len(trials) == 1 else 's'} on {_cores(trial[0])}"
        why = f"{tried}, which may well be better than {_cores(own)}; else {why}"
    if request.risk > 0.0:
        why += f"; more cores only where the gain is sure, at the risk {request.risk:g}"
    if not seen.least <= cores <= seen.most:
        assumed = (*assumed, f"{_cores(cores)} as predicted: not tried")
    return CoreChoice(
        cores, answer.elapsed_s, answer.low_s, answer.high_s, answer.model, int(chosen.counts[chosen.best]),
        float(chosen.columns[TIMES, chosen.best]), answer.extrapolates, f"{why}; {seen.words}", seen.counts,
        tuple(assumed), bool(trials),
        (*trials, *[own] * (request.count - len(trials))) if request.count > 1 else (cores,), answer.nearest,
    )  # fmt: skip


def first_answer(request: CoreRequest, counts: Sequence[int], answer: Prediction, assumed: Sequence[str]) -> CoreChoice:
    """Return the answer while nothing is known: a count for each run, those under way left out."""
    under_way = Counter({int(cores): runs for cores, runs in request.under_way.items()})
    left = sorted((Counter(counts) - under_way).elements(), key=counts.index)
    given = tuple(left[: request.count])
    first = given[0]
    usual = (
        "the usual count"
        if request.usual is not None
        else f"between {request.allowed.least} and {request.allowed.most}"
    )
    how = f"first run on {_cores(first)}: {usual}"
    return CoreChoice(
        first, float(answer.elapsed_s), float(answer.low_s), float(answer.high_s), answer.model, first,
        float(answer.elapsed_s), float(answer.extrapolates), f"{how}; nothing was seen", (), (*assumed, how), False,
        given, answer.nearest,
    )  # fmt: skip


def trial_place(found: Solved, request: CoreRequest, seen: CoresSeen, chosen: Chosen, x: Any) -> int | None:
    """Return the place of the count that is worth trying beside the chosen one; None where there is none.

    d = ln score(own) - ln score(c) of the means is normal, with the learner's own mean and variance; noise of runs is no part
    of it. A count is tried when it is less known than the own one, P(d > ln(1 + tolerance)) >= 0.4 and
    runs seen E[max(d, 0)] > E[max(-d, 0)]; of those the one of the greatest expected gain.
    Cost O(n cells**2 + n**2 cells) for n counts, four a doubling.
    """
    counts, scores, own = chosen.counts, chosen.scores, chosen.place
    doublings = PER_DOUBLING * int(log2(counts[-1] / counts[0])) + PER_DOUBLING + 1
    ladder: Floats = np.rint(counts[0] * 2.0 ** (np.arange(doublings) / PER_DOUBLING))
    places: Ints = np.unique([*np.searchsorted(counts, ladder).tolist(), own])
    places = places[places < len(counts)]
    cores, mine = counts[places], int(np.searchsorted(places, own))
    points = np.broadcast_to(x, (len(places), found.table.axes - 1)), cores
    covariance = found.covariance(points, points)
    outside = (cores < seen.least) | (cores > seen.most)
    doubt = np.where(outside, 1.0, float(found.table.column("doubt")[found.place]))
    alone = covariance.diagonal()
    variance = alone + alone[mine] - 2.0 * covariance[mine]
    spread = np.sqrt(np.maximum(variance, 0.0) * np.maximum(doubt, doubt[mine]))
    spread[alone * doubt <= alone[mine] * doubt[mine]] = 0.0  # a run on the own count teaches more
    least, most_gain, best = log1p(request.tolerance), 0.0, None
    for place, sd in zip(places.tolist(), spread.tolist(), strict=True):
        mean = log(float(scores[own]) / float(scores[place]))
        if place == own or sd <= 0.0 or 0.5 * (1.0 + erf((mean - least) / sd / sqrt(2.0))) < CHANCE_LEAST:
            continue
        gain = _expected_gain(mean, sd)
        if seen.runs * gain > gain - mean and gain > most_gain:
            most_gain, best = gain, place
    return best


def _expected_gain(mean: float, sd: float) -> float:
    """Return E[max(d, 0)] of a normal d."""
    u = mean / sd
    return sd * exp(-0.5 * u * u) / sqrt(2.0 * pi) + mean * 0.5 * (1.0 + erf(u / sqrt(2.0)))


def _span(counts: Floats) -> str:
    return f"{counts[0]:.0f}" if len(counts) == 1 else f"{counts[0]:.0f} to {counts[-1]:.0f}"


def _cores(n: int) -> str:
    return f"{n} core{'' if n == 1 else 's'}"
