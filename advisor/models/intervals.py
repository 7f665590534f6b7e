"""How many standard deviations an interval reaches below and above a prediction, from the scores of earlier predictions.

A score is (y - prediction) / sd of a row that was predicted before it was learned. Were the model right, scores would follow
Student's t; `BELIEVED` quantiles of it, as large as the scores are on the mean, stand in for as many scores, and the
component's latest scores outvote them as they come: intervals narrow where the model was too modest and widen, within some
dozens of rows, where it no longer holds. A tail too thin for its scores to tell is that of Student's t, stretched as the tail
of `TAIL` asks.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from advisor.models.student import quantile

Floats = NDArray[np.float64]

BELIEVED = 40  # scores that the model's own claim counts for
FREEDOM_LEAST, FREEDOM_MOST = 4.0, 60.0  # of the claim: never as thin as a normal tail, never without a variance
SIZE_BELIEVED = 6  # scores that the claim's sd counts for: after six of another size its quantiles are half way there
SIZE_MOST = 8.0  # of one score in the mean size: a single wild one does not stretch the rest
FREEDOM_STRETCHED = 8.0  # of a tail beyond what scores tell: run times have heavier tails than a normal law
TAIL = 0.05  # on one side: three of 64 scores lie beyond


def reach(scores: Floats, level: float, freedom: float) -> tuple[float, float]:
    """Return (low, high), multiples of the sd, between which a share `level` of runs should lie. Cost O(scores log scores)."""
    freedom = min(max(round(freedom), FREEDOM_LEAST), FREEDOM_MOST)
    tail = 0.5 * (1.0 - level)
    seen = max(tail, TAIL)
    believed, mean_size = _believed(freedom)
    if len(scores):
        size = float(np.add.reduce(np.minimum(np.abs(scores), SIZE_MOST))) / mean_size
        believed = believed * ((SIZE_BELIEVED + size) / (SIZE_BELIEVED + len(scores)))
    together = np.concatenate([scores, believed])
    together.sort()
    low, high = _at(together, seen), _at(together, 1.0 - seen)
    if seen > tail:
        heavy = min(freedom, FREEDOM_STRETCHED)
        stretch = quantile(level, heavy) / quantile(1.0 - 2.0 * seen, heavy)
        low, high = low * stretch, high * stretch
    return min(low, 0.0), max(high, 0.0)


def _at(ordered: Floats, share: float) -> float:
    """Return the quantile at `share`, as a conformal predictor ranks it: one of n + 1 gaps."""
    position = min(max(share * (len(ordered) + 1) - 1.0, 0.0), len(ordered) - 1.0)
    whole = int(position)
    after = min(whole + 1, len(ordered) - 1)
    return float(ordered[whole] + (position - whole) * (ordered[after] - ordered[whole]))


@lru_cache(maxsize=128)
def _believed(freedom: float) -> tuple[Floats, float]:
    """Return the scores that are believed, and their mean size."""
    unit = sqrt((freedom - 2.0) / freedom)  # scores are in sd
    half = [quantile(2.0 * (i + 0.5) / BELIEVED, freedom) * unit for i in range(BELIEVED // 2)]
    scores = np.array([*(-value for value in reversed(half)), *half])
    return scores, float(np.abs(scores).mean())
