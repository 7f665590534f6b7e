"""How many cores for one invocation."""

from __future__ import annotations

from functools import lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import CoreChoice, Prediction
from advisor.domain.wording import seconds

ALL_COUNTS = 256  # core counts tried one by one; beyond, every power of 2**(1/32) as well: 2 % apart
PER_DOUBLING = 32
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

    Parameters
    ----------
    counts : int64 array (n,)
        From `counts_to`.
    answer : Prediction
        Of one invocation on each.
    risk : float
        0 to 1: the share of the way from the expected time to the interval's upper end at which counts are compared.
    """
    elapsed, high = answer.elapsed_s, answer.high_s
    compared = elapsed if risk == 0.0 else elapsed * (high / elapsed) ** risk
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
