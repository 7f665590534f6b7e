"""Take the cores that are free now, or wait for more?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.errors import InvalidValue
from advisor.planning.asked.requests import number, whole


@dataclass(frozen=True, slots=True)
class Taking:
    """The answer to "take the n cores free now, or wait?".

    Attributes
    ----------
    wait : bool
        True when waiting ends earlier.
    cores : int
        To run on: now, or after the wait.
    finish_s : float
        Seconds from now to the end, waiting included.
    other_s : float
        The same for the other choice.
    break_even_s : float
        Waiting pays up to this long; 0 where more cores would not help.
    why : str
    """

    wait: bool
    cores: int
    finish_s: float
    other_s: float
    break_even_s: float
    why: str


def wait_or_take(curve: Sequence[float] | NDArray[np.float64], free_now: int, more_later: int, wait_s: float) -> Taking:
    """Return whether one run ends earlier on cores free now or, after `wait_s`, on `more_later` cores in addition.

    Either way the run takes the fewest cores on which it is fastest among those it has: a curve may rise again.

    Parameters
    ----------
    curve : (m,) of float
        Expected seconds on 1 .. m cores; beyond m the last value holds.
    free_now : int
        At least 1.
    more_later : int
        Further cores that become free; the ones free now are kept meanwhile.
    wait_s : float

    Raises
    ------
    InvalidValue, TooLarge
        When the curve is empty or not positive, or a number is out of its domain.

    Examples
    --------
    >>> wait_or_take([8.0, 4.0, 3.0, 2.0], free_now=1, more_later=3, wait_s=2.0).wait
    True
    """
    seconds = np.asarray(curve, np.float64)
    if seconds.ndim != 1 or not len(seconds) or not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise InvalidValue(
            "curve", seconds.tolist()[:8] if seconds.ndim == 1 else None, "positive, finite seconds by cores"
        )
    now = whole("free_now", free_now, limits.ALLOCATE_CORES_MAX)
    more = whole("more_later", more_later, limits.ALLOCATE_CORES_MAX)
    delay = number("wait_s", wait_s)
    few = int(seconds[: min(now, len(seconds))].argmin()) + 1
    many = int(seconds[: min(now + more, len(seconds))].argmin()) + 1
    here, there = float(seconds[few - 1]), float(seconds[many - 1])
    gain = here - there
    waits = gain > delay
    if waits:
        why = f"{many} cores after {delay:.4g} s end after {delay + there:.4g} s; {few} cores now after {here:.4g} s"
    elif gain > 0:
        why = f"{few} cores now end after {here:.4g} s; {many} cores would save {gain:.4g} s, less than the wait"
    else:
        why = f"{few} cores now end after {here:.4g} s; more cores would not be faster"
    finish, other = (delay + there, here) if waits else (here, delay + there)
    return Taking(waits, many if waits else few, finish, other, max(gain, 0.0), why)
