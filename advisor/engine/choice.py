"""How many cores for one invocation: the fastest, or the fewest close to it; those that are free now, or more later."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf, log, log2
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.answers import CoreChoice, Prediction, TakeOrWait
from advisor.domain.wording import seconds

ALL_COUNTS = 256  # core counts tried one by one; beyond, every power of 2**(1/32) as well: 2 % apart
PER_DOUBLING = 32
LEAST_SPREAD = 1e-9  # of log time: a run without noise
EQUAL = 1e-12  # relative: times closer than this are one time, and fewer cores win


@lru_cache(maxsize=64)
def counts_to(last: int) -> NDArray[np.int64]:
    """Return the core counts that are tried, 1 to `last`."""
    counts = np.arange(1, min(last, ALL_COUNTS) + 1)
    if last > ALL_COUNTS:
        first, end = (int(log2(n) * PER_DOUBLING) for n in (ALL_COUNTS, last))
        steps = np.linspace(first, end, end - first + 1) / PER_DOUBLING
        counts = np.unique(np.concatenate([counts, np.rint(2.0**steps).astype(np.int64), [last]]))
    counts.setflags(write=False)
    return counts


def choose(counts: NDArray[np.int64], answer: Prediction, tolerance: float, risk: float) -> CoreChoice:
    """Return the fewest cores whose predicted time is within `tolerance` of the fastest. Cost O(counts).

    `counts`: int64 array (n,), from `counts_to`. `answer`: of one invocation on each. `risk`: 0 to 1: the share of the way
    from the expected time to the interval's upper end at which counts are compared.
    """
    elapsed, high = answer.elapsed_s, answer.high_s
    compared = elapsed if risk == 0.0 else elapsed * elementary.power(high / elapsed, risk)
    fastest = int((compared <= compared.min() * (1.0 + EQUAL)).argmax())
    fewest, least = fastest, float(compared[fastest])
    if tolerance > EQUAL:
        fewest = int((compared <= least * (1.0 + tolerance)).argmax())
    cores, best, last = int(counts[fewest]), int(counts[fastest]), int(counts[-1])
    told = f"{best} core{'s' if best > 1 else ''} at {seconds(float(elapsed[fastest]))}"
    if fewest == fastest:
        why = f"{told} is the fastest predicted of 1 to {last}"
    else:
        loss = float(compared[fewest]) / least - 1.0
        taken = "1 core takes" if cores == 1 else f"{cores} cores take"
        why = f"{taken} {loss:.1%} longer than the fastest, {told}, within the tolerance of {tolerance:.1%}"
    if risk > 0.0:
        why += f"; compared at the risk {risk:g}, on the way to the upper end of each interval"
    outside = float(np.broadcast_to(answer.extrapolates, counts.shape)[fewest])
    if answer.observations == 0:
        why += f"; {'; '.join(answer.notes)}"
    elif outside > 0.0:
        why += f"; beyond what was seen by a factor of {2.0**outside:.2g}"
    return CoreChoice(
        cores, float(elapsed[fewest]), float(answer.low_s[fewest]), float(high[fewest]), answer.model, best,
        float(elapsed[fastest]), outside, why, nearest=answer.nearest,
    )  # fmt: skip


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


def _cores(n: int) -> str:
    return f"{n} core{'' if n == 1 else 's'}"
