"""Take the cores that are free now, or wait for more?"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log
from statistics import NormalDist

from advisor.domain.answers import CoreChoice, TakeOrWait
from advisor.domain.wording import seconds

LEAST_SPREAD = 1e-9  # of log time: a run without noise


def take_or_wait(now: CoreChoice | None, later: CoreChoice, wait_s: float, level: float) -> CoreChoice:
    """Return the choice of the two that ends earlier, with what tells them apart.

    Both are predictions of one run, whose input and luck are the same on any cores: with f the run's log-normal deviation
    from its prediction, taking ends earlier when f T_now < wait + f T_later, so with probability
    P = Phi(log(wait / (T_now - T_later)) / sd) where T_now > T_later, sd from the interval at `level`.

    Parameters
    ----------
    now, later : CoreChoice
        The best on the cores free now (None: none are free) and on all of them.
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
