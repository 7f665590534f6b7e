"""Figures of a simulation in its steady state: the warm-up cut off, confidence intervals from batch means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BATCHES = 20  # Schmeiser (1982): more than 30 narrow the interval little, and shorter batches are less independent
CUT_MAX = 0.5  # of the records: MSER's minimum beyond it means that no steady state was reached
T_QUANTILE = 2.0930  # Student's t, 97.5 %, BATCHES - 1 degrees of freedom
GROUP = 5  # records averaged before MSER: White (1997), MSER-5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with the half width of its 95 % confidence interval."""

    mean: float
    half_width: float

    @property
    def relative(self) -> float:
        """Half width over mean."""
        return self.half_width / self.mean if self.mean else math.inf


@dataclass(frozen=True, slots=True)
class Trace:
    """Times of exit and latencies, seconds, float64 arrays (n,), in the order of exit."""

    exits_s: Floats
    latencies_s: Floats


def warm_up(values: Floats) -> int:
    """Return how many values to cut off: MSER-5, the cut that minimises var(rest) / len(rest).

    Groups of five are averaged first; the cut lies in the first half. Cost O(n). Source: White (1997).
    """
    groups = len(values) // GROUP
    means = values[: groups * GROUP].reshape(groups, GROUP).mean(axis=1)
    left = np.arange(groups, 0, -1, dtype=np.float64)
    total, squares = np.cumsum(means[::-1])[::-1], np.cumsum((means * means)[::-1])[::-1]
    error = (squares - total * total / left) / left**2
    return int(error[: max(1, int(groups * CUT_MAX))].argmin()) * GROUP


def from_batches(means: Floats) -> Estimate:
    """Return the mean of the means of BATCHES batches, with its t interval."""
    half = T_QUANTILE * means.std(ddof=1) / math.sqrt(len(means))
    return Estimate(float(means.mean()), float(half))


def ratio(parts: Floats, spans: Floats) -> Estimate:
    """Return sum(parts) / sum(spans) of batches, with its t interval: the ratio estimator of regenerative methods."""
    value = float(parts.sum() / spans.sum())
    return Estimate(value, from_batches(parts - value * spans).half_width / float(spans.mean()))


def estimates(
    trace: Trace, marks: Sequence[int], busy_s: Floats, servers: Sequence[int]
) -> tuple[Estimate, Estimate, Estimate, list[Estimate], int]:
    """Return throughput, mean and 95th percentile of the latency, utilisations, and the records of the warm-up.

    Parameters
    ----------
    marks, busy_s
        At which exits the stations' busy seconds were noted, and these, shape (marks, stations).
    """
    cut = warm_up(trace.latencies_s)
    kept = len(trace.latencies_s) - cut
    size = kept // BATCHES
    latencies = trace.latencies_s[len(trace.latencies_s) - size * BATCHES :].reshape(BATCHES, size)
    edges = trace.exits_s[np.arange(len(trace.exits_s) - size * BATCHES - 1, len(trace.exits_s), size).clip(0)]
    spans = np.diff(edges)
    used: list[Estimate] = []
    noted = np.asarray(marks)
    first = int(np.searchsorted(noted, cut + 1))
    chosen = np.linspace(first, len(noted) - 1, BATCHES + 1).astype(int)
    times = trace.exits_s[noted[chosen] - 1]
    for station, count in enumerate(servers):
        used.append(ratio(np.diff(busy_s[chosen, station]) / count, np.diff(times)))
    # Batches of equal numbers of records: the rate is the harmonic mean, so the spans are averaged and inverted.
    span = from_batches(spans)
    rate = Estimate(size / span.mean, size / span.mean * span.relative)
    return rate, from_batches(latencies.mean(axis=1)), from_batches(np.quantile(latencies, 0.95, axis=1)), used, cut
