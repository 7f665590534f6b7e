"""Whether a change did what was promised of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.planning.estimates import normal_below
from advisor.planning.requests import OBJECTIVES, Floats, Ints

RUNS_MIN = 16  # of each component whose time decides, before a change is judged by what it did
OUTCOME_RISK = 0.05  # of saying wrongly that a change paid, or did not: said once, and nothing is moved for it


class Outcome(NamedTuple):
    """What a change did: measured against what was promised."""

    paid: bool
    before: float
    promised: float
    measured: float
    text: str


def outcome(
    before: float, promised: float, seconds: Floats, spread: Floats, runs: Ints, *, objective: str, group: Ints | None = None
) -> Outcome | None:  # fmt: skip
    """Return whether a change paid, once that is known; None before. Cost O(n).

    `before` and `promised` are seconds, of the period or of the latency: without the change, by the curves of now, and
    with the gain promised. `seconds`, `spread`, `runs` (n,) were measured since: each component's mean time a record,
    visits and instances included, its relative standard error, and runs. Of the period the times of a `group` that takes
    turns count together. Those that can be the slowest decide on a period, all on a latency. Paid: what was measured is
    below the middle, in log, between `before` and `promised`, and surely so; not paid: surely above it. Surely is 1 -
    OUTCOME_RISK.
    """
    latency = OBJECTIVES[objective].by_latency
    if group is not None and not latency:
        seconds, spread, runs = _together(seconds, spread, runs, group)
    log_seconds, sd = elementary.log(np.maximum(seconds, 1e-300)), np.maximum(spread, 1e-9)
    if latency:
        deciding = seconds > 0
        measured = float(seconds.sum())
        error = math.sqrt(float(np.square(seconds * sd).sum())) / max(measured, 1e-300)
    else:
        deciding = log_seconds + 3.0 * sd >= (log_seconds - 3.0 * sd).max()
        slowest = int(seconds.argmax())
        measured, error = float(seconds[slowest]), float(sd[slowest])
    if (runs[deciding] < RUNS_MIN).any() or measured <= 0.0:
        return None
    middle = math.sqrt(before * promised)
    z = math.log(middle / measured) / error
    chance = float(normal_below(np.array([z]))[0])
    if OUTCOME_RISK < chance < 1.0 - OUTCOME_RISK:
        return None
    paid = chance > 0.5
    noun = "latency" if latency else "time a record"
    text = (
        f"the change {'paid' if paid else 'did not pay'}: without it the {noun} would be {before:.4g} s; {promised:.4g} s were"
        f" promised, {measured:.4g} s were measured"
    )
    return Outcome(paid, before, promised, measured, text)


def _together(seconds: Floats, spread: Floats, runs: Ints, group: Ints) -> tuple[Floats, Floats, Ints]:
    """Return the turns of groups, their relative errors, and the fewest runs of a member."""
    total = np.bincount(group, weights=seconds).astype(np.float64)
    error = np.sqrt(np.bincount(group, weights=np.square(seconds * spread)))
    fewest = np.full(len(total), np.iinfo(np.int64).max)
    np.minimum.at(fewest, group, runs)
    return total, error / np.maximum(total, 1e-300), fewest
