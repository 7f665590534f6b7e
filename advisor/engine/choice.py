"""How many cores for one invocation."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import CoreChoice, Prediction

Floats = NDArray[np.float64]

ALL_COUNTS = 256  # core counts tried one by one; beyond, every power of 2**(1/32) as well: 2 % apart
PER_DOUBLING = 32
COUNTS_LEAST = 16  # a curve kept for reuse has at least so many
EQUAL = 1e-12  # relative: times closer than this are one time, and fewer cores win


@dataclass(frozen=True, slots=True)
class ChoiceCurve:
    """One invocation's predicted times by cores.

    Attributes
    ----------
    rows : int
        Of the component when it was predicted.
    counts : int64 array (n,)
    elapsed, low, high, outside : float64 arrays (n,)
    name : str
        The form that answers.
    """

    rows: int
    counts: NDArray[np.int64]
    elapsed: Floats
    low: Floats
    high: Floats
    outside: Floats
    name: str

    @classmethod
    def of(cls, rows: int, counts: NDArray[np.int64], answer: Prediction) -> ChoiceCurve:
        """Return the curve of a prediction of all counts."""
        return cls(
            rows, counts, answer.elapsed_s, answer.low_s, answer.high_s,
            np.broadcast_to(answer.extrapolates, counts.shape), answer.model,
        )  # fmt: skip


def counts_kept(cores_max: int) -> int:
    """Return the last count of the curve from which `cores_max` is answered: one curve serves all of a power of two."""
    return (
        cores_max if cores_max > ALL_COUNTS else min(ALL_COUNTS, max(COUNTS_LEAST, 1 << (cores_max - 1).bit_length()))
    )


def counts_to(last: int) -> NDArray[np.int64]:
    """Return the core counts that are tried, 1 to `last`."""
    counts = np.arange(1, min(last, ALL_COUNTS) + 1)
    if last > ALL_COUNTS:
        first, end = (int(log2(n) * PER_DOUBLING) for n in (ALL_COUNTS, last))
        steps = np.linspace(first, end, end - first + 1) / PER_DOUBLING
        counts = np.unique(np.concatenate([counts, np.rint(2.0**steps).astype(np.int64), [last]]))
    return counts


def choose(curve: ChoiceCurve, cores_max: int, tolerance: float) -> CoreChoice:
    """Return the fewest cores whose predicted time is within `tolerance` of the fastest. Cost O(min(cores_max, 256)).

    Parameters
    ----------
    curve : ChoiceCurve
        Of `counts_to(counts_kept(cores_max))`.
    """
    counts, elapsed = curve.counts, curve.elapsed
    if counts[-1] > cores_max:
        elapsed = elapsed[:cores_max]  # no more than ALL_COUNTS: the counts are 1, 2, 3, ...
    fastest = int((elapsed <= elapsed.min() * (1.0 + EQUAL)).argmax())
    fewest, least = fastest, float(elapsed[fastest])
    if tolerance > EQUAL:
        fewest = int((elapsed <= least * (1.0 + tolerance)).argmax())
    cores, best = int(counts[fewest]), int(counts[fastest])
    told = f"{best} core{'s' if best > 1 else ''} at {least:.3g} s"
    if fewest == fastest:
        why = f"{told} is the fastest predicted of 1 to {cores_max}"
    else:
        loss = float(elapsed[fewest]) / least - 1.0
        taken = "1 core takes" if cores == 1 else f"{cores} cores take"
        why = f"{taken} {loss:.1%} longer than the fastest, {told}, within the tolerance of {tolerance:.1%}"
    return CoreChoice(
        cores, float(elapsed[fewest]), float(curve.low[fewest]), float(curve.high[fewest]), curve.name, best, least,
        float(curve.outside[fewest]), why,
    )  # fmt: skip
