"""How many cores a call is given: what is known, as far as a question is worth its time.

The first calls of a component try the powers of two, from one core to all; a component that is known needs none of them. Then
what is predicted of each count is compared, and again where half as many runs more were learned, or where a run took twice or
half of what was predicted: between, the answer for a predictor of that size is kept. The calls number 8, 12, 16, 24, … try
half or twice the cores of the answer, in turn, where what such calls have lost and what this one may is less than a hundredth
of the time of all components. Questions take another hundredth.

A learner is not carried away by single wild runs. But where threads wait for one another on a busy machine one call in
twenty takes a hundred times as long, and the mean is what a caller pays: so each count's prediction is multiplied by what
the runs on so many cores took over what was predicted of them, in sums of seconds, begun with a mean run of the component that
took so many seconds more as runs on so many cores did, of all components.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

FLOOR_S: Final = 2e-4  # ten times what a call through the adapter costs: below it nothing can be gained
ASK_SHARE: Final = 0.01  # of the time of all calls, for questions
SLOWER: Final = 8.0  # times a question, that one before it counts at most
LOSS_SHARE: Final = 0.01  # of it, that calls with other cores than the answer's may lose
GROWN: Final = 1.5  # runs since an answer: the learner chooses its settings at such counts
SURPRISE: Final = 2.0  # a run that is so far off its answer asks again
PER_DOUBLING: Final = 4  # sizes of predictors whose answers are kept: a fifth apart
COUNTS_ALL: Final = 64  # cores compared one by one
SIZES_MAX: Final = 1024  # answers kept of a component: 60 doublings of one predictor take 240
FIRST_LOOK: Final = 8  # the number of the first call that looks beside the answer
OCTAVES: Final = 22  # of the most cores that a run can have
Key = tuple[int, ...]  # the octaves of a predictor's values


class Size:
    """What is known of calls of one size."""

    __slots__ = ("answered_at", "compared_s", "core_s", "cores", "expected_s", "key")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.cores = 0  # of the last answer; 0: none yet
        self.expected_s: Sequence[float] = ()  # predicted on each of the counts
        self.compared_s: Sequence[float] = ()  # the same, as such runs kept their word
        self.answered_at = 0  # the component's runs then
        self.core_s = math.inf  # cores times seconds of the last run: no less than it takes on one


class Together:
    """What calls of all components took: their seconds, those lost beside answers, and those beyond what was predicted.

    The budget for looks is one for all: on a machine where threads stall it is spent once, and not by each component.
    """

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.lost_s = 0.0
        self._asked_s = 0.0
        self._questions = 0
        self._excess_s = [0.0] * OCTAVES
        self._runs = [0] * OCTAVES

    def ran(self, octave: int, elapsed_s: float, expected_s: float) -> None:
        """Add a run on cores of an octave."""
        self._excess_s[octave] += elapsed_s - expected_s
        self._runs[octave] += 1

    @property
    def may_ask(self) -> bool:
        """True while questions have taken less than their share of the calls' time."""
        return self._asked_s <= ASK_SHARE * self.spent_s

    def asked(self, seconds: float) -> None:
        """Add a question; a quick one bounds what the earlier ones count, which loaded and compiled what answers."""
        self._questions += 1
        self._asked_s = min(self._asked_s + seconds, SLOWER * self._questions * seconds)

    def excess_s(self, octave: int) -> float:
        """Return the mean seconds of a run beyond what was predicted, 0 or more."""
        return max(0.0, self._excess_s[octave] / max(1, self._runs[octave]))


class Deciding:
    """Decides for one component, up to `cores_max`; the answers of `ask` are kept.

    Parameters
    ----------
    ask : callable
        (predictor, counts) to the seconds on each count, or None where nothing is known.
    together : Together
        Of all components.
    """

    def __init__(
        self,
        cores_max: int,
        tolerance: float,
        ask: Callable[[Any, Sequence[int]], Sequence[float] | None],
        together: Together,
    ) -> None:
        self.cores_max = cores_max
        self.runs = 0
        self._counts = counts_to(cores_max)
        self._tolerance = tolerance
        self._ask = ask
        self._together = together
        self._spent_s = 0.0  # in runs
        self._trials: Iterator[int] | None = None
        self._sizes: dict[Key, Size] = {}
        self._took_s = [0.0] * OCTAVES  # in runs, by octave of their cores
        self._promised_s = [0.0] * OCTAVES  # what answers had said of them
        self._look = FIRST_LOOK
        self._looked = False

    def size(self, predictor: Any) -> Size:
        """Return what is known of calls like this one."""
        several = isinstance(predictor, tuple)
        key = tuple(map(_octave, cast("tuple[float, ...]", predictor))) if several else (_octave(predictor),)
        found = self._sizes.get(key)
        if found is None:
            if len(self._sizes) >= SIZES_MAX:
                self._sizes = {}
            found = self._sizes[key] = Size(key)
        return found

    def cores(self, size: Size, predictor: Any, available: int, clock: Callable[[], float]) -> int:
        """Return the cores of the call that begins now, 1 to `available`."""
        if size.core_s < FLOOR_S:
            return 1
        if self._trials is None:
            known = self._answer(size, predictor, clock)
            self._trials = iter(() if known else powers(self.cores_max))
        cores = next(self._trials, 0)
        if not cores:
            stale = not size.cores or self.runs >= GROWN * size.answered_at
            if stale and self._together.may_ask:
                self._answer(size, predictor, clock)
            cores = size.cores or self._nearest(size)
            if self.runs + 1 >= self._look and available == self.cores_max and size.cores:
                cores = self._beside(size)
        return min(cores, available)

    def ran(self, size: Size, cores: int, elapsed_s: float) -> None:
        """Note a run."""
        self.runs += 1
        self._spent_s += elapsed_s
        self._together.spent_s += elapsed_s
        size.core_s = cores * elapsed_s
        if not size.cores:
            return
        expected_s = size.expected_s[self._place(cores)]
        octave = cores.bit_length()
        self._took_s[octave] += elapsed_s
        self._promised_s[octave] += expected_s
        self._together.ran(octave, elapsed_s, expected_s)
        if not expected_s / SURPRISE <= elapsed_s <= expected_s * SURPRISE:
            size.answered_at = 0
        if cores != size.cores:
            self._together.lost_s += max(0.0, elapsed_s - size.expected_s[self._place(size.cores)])

    def _answer(self, size: Size, predictor: Any, clock: Callable[[], float]) -> bool:
        begun = clock()
        answer = self._ask(predictor, self._counts)
        self._together.asked(clock() - begun)
        if answer is None:
            return False
        size.expected_s = answer
        kept = self._kept()
        compared = [expected * kept[count.bit_length()] for count, expected in zip(self._counts, answer, strict=True)]
        size.compared_s = compared
        least = min(compared) * (1.0 + self._tolerance)
        size.cores = next(count for count, seconds in zip(self._counts, compared, strict=True) if seconds <= least)
        size.answered_at = self.runs
        return True

    def _kept(self) -> list[float]:
        """Return what runs took over what was predicted of them, by octave of their cores."""
        mean_s = self._spent_s / self.runs if self.runs else 1.0
        return [
            (mean_s + self._together.excess_s(octave) + took) / (mean_s + promised)
            for octave, (took, promised) in enumerate(zip(self._took_s, self._promised_s, strict=True))
        ]

    def _nearest(self, size: Size) -> int:
        """Return the answer for the size that is nearest, of those that have one; else 1."""
        answered = [other for other in list(self._sizes.values()) if other.cores]
        return min(answered, key=lambda other: _distance(other.key, size.key)).cores if answered else 1

    def _beside(self, size: Size) -> int:
        """Return half or twice the cores of an answer, in turn, where what that may lose can be afforded; else the answer."""
        self._look = next_look(self._look)
        self._looked = not self._looked
        twice, half = min(2 * size.cores, self.cores_max), max(1, size.cores // 2)
        first, second = (half, twice) if self._looked else (twice, half)
        beside = first if first != size.cores else second
        at_risk_s = size.compared_s[self._place(beside)] - size.compared_s[self._place(size.cores)]
        afforded = self._together.lost_s + at_risk_s <= LOSS_SHARE * self._together.spent_s
        return beside if afforded else size.cores

    def _place(self, cores: int) -> int:
        return bisect_right(self._counts, cores) - 1


def counts_to(cores_max: int) -> list[int]:
    """Return the counts that are compared: all up to `COUNTS_ALL`, then a fifth apart, and `cores_max`."""
    counts = list(range(1, min(cores_max, COUNTS_ALL) + 1))
    while counts[-1] < cores_max:
        counts.append(min(cores_max, math.ceil(counts[-1] * 2 ** (1 / PER_DOUBLING))))
    return counts


def powers(cores_max: int) -> list[int]:
    """Return the powers of two below `cores_max`, and it."""
    return [*(1 << k for k in range((cores_max - 1).bit_length())), cores_max]


def next_look(look: int) -> int:
    """Return the number after `look` in 8, 12, 16, 24, 32, …"""
    power = 1 << (look.bit_length() - 1)
    return power + power // 2 if look == power else 2 * power


def _octave(x: float) -> int:
    return round(PER_DOUBLING * math.log2(x)) if x > 0.0 else -(1 << 20)


def _distance(one: Key, other: Key) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=False))
