"""The one rule by which core counts are chosen for runs of a component; and free cores now against more of them later.

First run: the caller's usual count, else the allowed count nearest to least (most / least)**share. Then, among the allowed
counts from half the least to twice the largest seen, the fewest within the tolerance of the best. The last count stays while
it is within 1.5 tolerances of the best and is not a third too many. Nothing is random, and nothing is tried unless asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import erf, exp, inf, log, log1p, log2, pi, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.answers import CoreChoice, Prediction, TakeOrWait
from advisor.domain.core_requests import CORE_SECONDS, TIME, CoreRequest
from advisor.domain.vectors import Floats, Ints
from advisor.domain.wording import seconds
from advisor.engine.learners import Solved
from advisor.models.cores_seen import CoresSeen
from advisor.models.logarithm import exp2_of, log2_of

FIRST_SHARE = {TIME: 0.75, CORE_SECONDS: 0.5}  # of the way from the least to the most, on a log scale, by objective
BEYOND = 2.0  # times the largest count seen, and the share of the least: an extrapolation that one run mends
STAYS = 1.5  # tolerances by which the last count may be worse than the best: noise moves no count
TOO_MANY = 4.0 / 3.0  # times the fewest that are good enough: more cores than that are given up
SPREAD = (0, -1, 1, -2)  # doublings from the first count: what runs that begin at once, all unknown, are spread over
SPREAD_RUNS = 8  # on each count but the first: enough to compare means, whatever the array's length
CHANCE_LEAST = 0.4  # that a trial beats the present count by the tolerance
TRIALS_EVERY = 50  # runs that begin at once, for each trial among them: 2 %
PER_DOUBLING = 4  # of the counts that a trial may be on: their covariances cost the square of their number
LEAST_SPREAD = 1e-9  # of log time: a run without noise
EQUAL = 1e-12  # relative: times closer than this are one time, and fewer cores win


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


def counts_within(request: CoreRequest, seen: CoresSeen) -> Ints:
    """Return the counts (n,) that are compared, ascending: allowed ones near those seen; where only seen ones may run, these.

    At least one: where none is allowed there, the allowed one nearest to the last.
    """
    allowed, near = request.allowed, seen.last or seen.most
    if request.explore == "freeze":
        found = {int(cores) for cores, _ in seen.counts if cores % 1.0 == 0.0 and int(cores) in allowed}
    else:
        part = allowed.between(seen.least / BEYOND, seen.most * BEYOND)
        found = set(part.compared) if part is not None else set[int]()
        found |= {int(seen.last)} if seen.last in allowed else set()
    return np.array(sorted(found or {allowed.nearest(near)}), np.int64)


def choose(request: CoreRequest, seen: CoresSeen, counts: Ints, answer: Prediction) -> tuple[int, Floats, str]:
    """Return the place of the chosen count among counts (n,), the scores (n,) that were compared, and why. Cost O(n).

    `answer` is of one invocation on each. With a risk r more cores are taken only where they are better by the tolerance
    though the interval's upper ends, as far as they are wider there, count with the share r: so a larger risk never gives
    more cores. Cost then O(n**2).
    """
    scores = answer.elapsed_s * counts if request.objective == CORE_SECONDS else answer.elapsed_s
    best = int((scores <= scores.min() * (1.0 + EQUAL)).argmax())
    slack = 1.0 + max(request.tolerance, EQUAL)
    bounds: Floats = np.full(len(counts), scores.min())
    if request.risk > 0.0:
        wider = elementary.power(answer.high_s / answer.elapsed_s, request.risk)
        above = scores * np.maximum(wider / wider[:, None], 1.0)  # of each count by those of more cores
        bounds = np.where(np.arange(len(counts)) > np.arange(len(counts))[:, None], above, inf).min(axis=1)
    fewest = int((scores <= bounds * slack).argmax())
    last = int(np.searchsorted(counts, seen.last))
    if last < len(counts) and counts[last] == seen.last != counts[fewest]:
        loss = 1.0 + STAYS * max(request.tolerance, EQUAL)
        if scores[last] <= scores.min() * loss and counts[last] <= TOO_MANY * counts[fewest]:
            return last, scores, f"stays on {_cores(int(counts[last]))}, {_loss(scores, last)} of the best"
    if fewest == best:
        why = f"{_cores(int(counts[best]))} at {seconds(float(answer.elapsed_s[best]))}: the best of {_span(counts)}"
        return fewest, scores, why
    told = f"{_cores(int(counts[best]))} at {seconds(float(answer.elapsed_s[best]))}"
    why = f"{_cores(int(counts[fewest]))}, {_loss(scores, fewest)} of the best, {told} (tolerance {request.tolerance:.1%})"
    return fewest, scores, why


def answer_of(
    request: CoreRequest, seen: CoresSeen, counts: Ints, answer: Prediction, chosen: tuple[int, Floats, str],
    trial: int | None, assumed: Sequence[str],
) -> CoreChoice:  # fmt: skip
    """Return the answer to a question about a component that was seen; `trial` is the place of a count that is tried."""
    own, scores, why = chosen
    best = int((scores <= scores.min() * (1.0 + EQUAL)).argmax())
    tried = request.count // TRIALS_EVERY if request.count > 1 else 1
    others = sum(runs for cores, runs in request.under_way.items() if cores != counts[own])
    tried = 0 if trial is None or (others and request.count == 1) else tried
    at = trial if trial is not None and tried and request.count == 1 else own
    if trial is not None and tried:
        trials = f"{tried} trial{'' if tried == 1 else 's'} on {_cores(int(counts[trial]))}"
        why = f"{trials}, which may well be better than {_cores(int(counts[own]))}; else {why}"
    if request.risk > 0.0:
        why += f"; more cores only where the gain is sure, at the risk {request.risk:g}"
    outside = np.broadcast_to(answer.extrapolates, counts.shape)
    further = (
        [f"{_cores(int(counts[at]))} as predicted: not tried"] if not seen.least <= counts[at] <= seen.most else []
    )
    trials = [] if trial is None else [int(counts[trial])] * tried
    return CoreChoice(
        int(counts[at]), float(answer.elapsed_s[at]), float(answer.low_s[at]), float(answer.high_s[at]), answer.model,
        int(counts[best]), float(answer.elapsed_s[best]), float(outside[at]), f"{why}; {seen.words}",
        seen=seen.counts, assumed=(*assumed, *further), trial=bool(tried),
        counts=(*trials, *[int(counts[own])] * (request.count - tried)) if request.count > 1 else (int(counts[at]),),
        nearest=answer.nearest,
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
        float(answer.elapsed_s), float(answer.extrapolates), f"{how}; nothing was seen", assumed=(*assumed, how),
        counts=given, nearest=answer.nearest,
    )  # fmt: skip


def trial_place(
    found: Solved, request: CoreRequest, seen: CoresSeen, counts: Ints, scores: Floats, own: int, x: Any
) -> int | None:
    """Return the place of the count that is worth trying, of the one at `own`; None where there is none.

    d = ln score(own) - ln score(c) of the means is normal, with the learner's own mean and variance; noise of runs is no part
    of it. A count is tried when P(d > ln(1 + tolerance)) >= 0.4 and runs seen E[max(d, 0)] > E[max(-d, 0)]; of those the one
    of the greatest expected gain. Cost O(n cells**2 + n**2 cells) for n counts, four a doubling.
    """
    doublings = PER_DOUBLING * int(log2(counts[-1] / counts[0])) + PER_DOUBLING + 1
    ladder: Floats = np.rint(counts[0] * 2.0 ** (np.arange(doublings) / PER_DOUBLING))
    places: Ints = np.unique([*np.searchsorted(counts, ladder).tolist(), own])
    places = places[places < len(counts)]
    cores, mine = counts[places].astype(np.float64), int(np.searchsorted(places, own))
    points = np.broadcast_to(x, (len(places), found.table.axes - 1)), cores
    covariance = found.covariance(points, points)
    outside = (cores < seen.least) | (cores > seen.most)
    doubt = np.where(outside, 1.0, float(found.table.column("doubt")[found.place]))
    variance = covariance.diagonal() + covariance[mine, mine] - 2.0 * covariance[mine]
    spread = np.sqrt(np.maximum(variance, 0.0) * np.maximum(doubt, doubt[mine]))
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


def take_or_wait(now: CoreChoice | None, later: CoreChoice, wait_s: float, level: float) -> CoreChoice:
    """Return the choice of the two that ends earlier, with what tells them apart.

    Both are predictions of one run, whose input and luck are the same on any cores: with f the run's log-normal deviation
    from its prediction, taking ends earlier when f T_now < wait + f T_later, so with probability
    P = Phi(log(wait / (T_now - T_later)) / sd) where T_now > T_later, sd from the interval at `level`.

    `now`, `later`: the best on the cores free now (None: none are free) and on all of them.
    """
    if now is None:
        why = f"no core is free: {later.cores} cores in {seconds(wait_s)} end after {seconds(wait_s + later.elapsed_s)}"
        return replace(
            later, take_or_wait=TakeOrWait(True, 0, None, later.cores, wait_s + later.elapsed_s, 0.0), why=why
        )
    gained = now.elapsed_s - later.elapsed_s
    if gained <= 0.0:
        sooner = 1.0
    else:
        half = NormalDist().inv_cdf(0.5 * (1.0 + level))
        spread = max(log(now.high_s / now.low_s) / (2.0 * half), LEAST_SPREAD) if now.low_s > 0 else inf
        sooner = NormalDist().cdf(log(wait_s / gained) / spread) if wait_s > 0 else 0.0
    ends_later = wait_s + later.elapsed_s
    wait = ends_later < now.elapsed_s
    told = TakeOrWait(wait, now.cores, now.elapsed_s, later.cores, ends_later, sooner)
    taken = f"{_cores(now.cores)} now end after {seconds(now.elapsed_s)}"
    waited = f"{_cores(later.cores)} in {seconds(wait_s)} after {seconds(ends_later)}"
    advice = "wait" if wait else f"take {_cores(now.cores)}"
    why = f"{advice}: {taken}, {waited}; taking ends earlier with probability {sooner:.2f}"
    return replace(later if wait else now, take_or_wait=told, why=why)


def _loss(scores: Floats, at: int) -> str:
    return f"within {float(scores[at] / scores.min()) - 1.0:.1%}"


def _span(counts: NDArray[np.int64]) -> str:
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _cores(n: int) -> str:
    return f"{n} core{'' if n == 1 else 's'}"
