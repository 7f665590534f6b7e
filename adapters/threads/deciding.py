"""How many cores a call is given: what is known, as far as a question is worth its time.

The first calls of a component try the powers of two, from one core to all; a component that is known needs none of them.
Then what is predicted of each count is compared. The model is asked again where half as many runs more were learned, or where
a run took twice or half of what was predicted: between, its answer for a predictor of that size is kept. A question answers
for all sizes of its component whose answers are old. Questions take half a hundredth of the time of all components; those
about what nobody knows are free.

A count that no run nearly as long had is tried once where its cores are idle: of short runs the model knows what threads cost.

A learner is not carried away by single outliers. But where threads wait for one another on a busy machine one call in
twenty takes a hundred times as long, and the mean is what a caller pays. So stalls are booked apart: the seconds of runs
that took more than twice what they should, for each octave of cores. A count costs what is predicted of it and the mean
stall of runs on so many cores. Where others have cores that the threads would need, a stall is reckoned with before one was
seen. All of it is forgotten when a hundredth of the calls' time would pay for the worst stall. Then each component looks,
too, at half or twice the cores of its answers, in turn: where that is predicted to lose less than a hundredth of its time,
and for as long as no such run takes longer.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from advisor.adapters.threads.size import FLOOR_S, Key, Size
from advisor.domain.limits import DIMENSIONS_MAX, PREDICTOR_MAX
from advisor.errors import InvalidValue

TOLERANCE: Final = 0.02  # fewer cores are taken where they lose less: repeats of a call differ by more
ASK_SHARE: Final = 0.005  # of the time of all calls, for questions
SLOWER: Final = 8.0  # times a question, that one before it counts at most
LOSS_SHARE: Final = 0.01  # of it, that stalls may lose again in the long run
# UNSEEN_S: of a stall that is reckoned with: a thread waits while others have its processor, some slices of milliseconds
UNSEEN_S: Final = 0.03
GROWN: Final = 1.5  # runs since an answer: the learner chooses its settings at such counts
SURPRISE: Final = 2.0  # a run that is so far off its answer asks again, and one that is so much slower has stalled
LONGER: Final = 4.0  # times the longest run that was tried on so many cores: a run of such a size is tried, too
AGAIN: Final = 1.125  # times the runs: then stalls are weighed that are so much rarer
PER_DOUBLING: Final = 4  # sizes of predictors whose answers are kept: a fifth apart
COUNTS_ALL: Final = 64  # cores compared one by one
POINTS: Final = 256  # sizes times counts of a question
SIZES_MAX: Final = 1024  # answers kept of a component: 60 doublings of one predictor take 240
OCTAVES: Final = 22  # of the most cores that a run can have
SEVERAL: Final = 2  # the octave from which on a run has several


class CallTotals:
    """What calls of all components took, and which of them stalled, by the octave of their cores."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.begun = 0  # how often stalls were forgotten
        self.turn = 0  # moves where what is to be expected of stalls has changed
        self._runs = 0
        self._asked_s = 0.0
        self._questions = 0
        self._unseen_s = self._worst_s = UNSEEN_S
        self._forgotten_s = 0.0  # of the time spent, when stalls were forgotten
        self._octave_runs = [0] * OCTAVES
        self._octave_stalls_s = [0.0] * OCTAVES  # that these took beyond what they should
        self._weighed_at = 0  # runs, when stalls were last weighed for their being rarer

    def ran(self, octave: int, beyond_s: float, most_s: float) -> None:
        """Add a run on cores of an octave, what it stalled, and what it may have stalled at most."""
        self._runs += 1
        if beyond_s > 0.0 or self._runs >= AGAIN * self._weighed_at:
            self._weighed_at = self._runs
            self.turn += 1
        self._worst_s = max(self._worst_s, most_s)
        self._octave_runs[octave] += 1
        self._octave_stalls_s[octave] += beyond_s
        if LOSS_SHARE * (self.spent_s - self._forgotten_s) >= self._worst_s:
            self._forgotten_s = self.spent_s
            self._unseen_s, self._worst_s = 0.0, UNSEEN_S
            self._octave_runs, self._octave_stalls_s = [0] * OCTAVES, [0.0] * OCTAVES
            self.begun += 1
            self.turn += 1

    def stall_s(self, octave: int) -> float:
        """Return the mean stall of a run on cores of an octave."""
        return self._octave_stalls_s[octave] / (1 + self._octave_runs[octave])

    def unseen_s(self) -> float:
        """Return the mean stall that is to be reckoned with beside those seen, where threads may have to wait."""
        return self._unseen_s / (1 + sum(self._octave_runs[SEVERAL:]))

    @property
    def may_ask(self) -> bool:
        """True while questions have taken less than their share of the calls' time."""
        return self._asked_s <= ASK_SHARE * self.spent_s

    def asked(self, seconds: float) -> None:
        """Add a question; the first one, which loads what answers, counts nothing, and a quick one bounds those before it."""
        if self._questions:
            self._asked_s = min(self._asked_s + seconds, SLOWER * self._questions * seconds)
        self._questions += 1


class Deciding:
    """Decides for one component, up to `cores_max`; the answers of `ask` are kept.

    Parameters
    ----------
    ask : callable
        (predictors, counts) to the seconds of each predictor on each count; none where nothing is known, None where nobody
        answered.
    together : CallTotals
        Of all components.
    """

    def __init__(
        self,
        cores_max: int,
        ask: Callable[[Sequence[Any], Sequence[int]], Sequence[Sequence[float]] | None],
        together: CallTotals,
    ) -> None:
        self.cores_max = cores_max
        self.runs = 0
        self._counts = counts_to(cores_max)
        self._ask = ask
        self._together = together
        self._trials: Iterator[int] | None = None
        self.sizes: dict[Key, Size] = {}
        self.passing: dict[int, Size] = {}  # of short calls with one predictor, by its octave
        # by octave, what the longest run on so many takes on one core
        self._tried_s = [0.0] * (cores_max.bit_length() + 1)
        self._begun = 0
        self._spent_s = 0.0  # since a look took longer
        self._looks = False
        self._down = False

    def size(self, predictor: Any) -> Size:
        """Return what is known of calls like this one."""
        several = isinstance(predictor, tuple)
        key = tuple(map(_octave, cast("tuple[float, ...]", predictor))) if several else (_octave(predictor),)
        found = self.sizes.get(key)
        if found is None:
            if len(self.sizes) >= SIZES_MAX:
                self.sizes = {}
                self.passing.clear()
            found = self.sizes[key] = Size(key, predictor)
        if found.passes and not several:
            self.passing[key[0]] = found
        return found

    def cores(
        self, size: Size, predictor: Any, available: int, clock: Callable[[], float], idle: float = math.inf
    ) -> int:
        """Return the cores of the call that begins now, 1 to `available`; others leave `idle` cores to it."""
        if size.core_s < FLOOR_S:
            return 1
        if self._trials is None:
            known = self._answer(size, clock)
            self._trials = iter(() if known else powers(self.cores_max))
        cores = next(self._trials, 0)
        if not cores:
            if self._stale(size) and self._together.may_ask:
                self._answer(size, clock)
            known = size if size.expected_s else self._nearest(size)
            if known.expected_s and (known.weighed_at != self._together.turn or known.idle != idle):
                self._weigh(known, idle)
            cores = known.cores or 1
            if known.cores and available == self.cores_max:
                cores = self._untried(known, idle) or (self._beside(size) if self._looks and size.cores else cores)
        return min(cores, available)

    def ran(self, size: Size, cores: int, elapsed_s: float) -> None:
        """Note a run."""
        self.runs += 1
        self._together.spent_s += elapsed_s
        size.measured(cores * elapsed_s)
        if not size.cores:
            return
        octave = cores.bit_length()
        self._tried_s[octave] = max(self._tried_s[octave], size.expected_s[0])
        expected_s = self._expected_s(size, cores)
        if not expected_s / SURPRISE <= elapsed_s <= expected_s * SURPRISE:
            size.answered_at = 0
        # On one core it would have taken no longer: a prediction that stalls have raised is no excuse for the next one.
        should_s = min(expected_s, size.expected_s[0])
        beyond_s = elapsed_s - should_s if elapsed_s > SURPRISE * should_s else 0.0
        self._spent_s += elapsed_s
        if self._looks and cores != size.cores and elapsed_s > self._expected_s(size, size.cores):
            self._looks, self._spent_s = False, 0.0
        size.least_s = min(size.least_s, elapsed_s)
        most_s = elapsed_s - min(should_s, size.least_s) if beyond_s else 0.0  # stalls may have raised a prediction
        self._together.ran(octave, beyond_s, most_s)

    def _answer(self, size: Size, clock: Callable[[], float]) -> bool:
        """Ask for a size, and for those near it at once: a point costs a thirtieth of a question. False without an answer."""
        begun = clock()
        stale = [other for other in [*self.sizes.values()] if self._stale(other)]
        sizes = sorted(stale, key=lambda other: _distance(other.key, size.key))
        sizes = sizes[: max(1, POINTS // len(self._counts))]
        answers = self._ask([each.predictor for each in sizes], self._counts)
        if answers or answers is None:
            self._together.asked(clock() - begun)
        for each, expected_s in zip(sizes, answers or (), strict=False):
            each.expected_s, each.answered_at, each.weighed_at = expected_s, self.runs, -1
        return bool(answers)

    def _stale(self, size: Size) -> bool:
        return not size.expected_s or self.runs >= GROWN * size.answered_at

    def _weigh(self, size: Size, idle: float) -> None:
        """Choose the fewest cores near the fastest, by what is predicted and what stalls add."""
        together, unseen_s = self._together, self._together.unseen_s()
        if self._begun != together.begun:
            self._begun, self._looks, self._down = together.begun, True, not self._down
        stalls = [together.stall_s(octave) for octave in range(len(self._tried_s))]
        cost = [
            expected + stalls[count.bit_length()] + (unseen_s if 1 < count > idle else 0.0)
            for count, expected in zip(self._counts, size.expected_s, strict=True)
        ]
        least = min(cost) * (1.0 + TOLERANCE)
        size.cores = next(count for count, seconds in zip(self._counts, cost, strict=True) if seconds <= least)
        size.weighed_at, size.idle = together.turn, idle

    def _untried(self, size: Size, idle: float) -> int:
        """Return a power of two above the answer that no run near as long as this one had, 0 where there is none that is idle.

        Of small runs on many cores the model knows what threads cost, not what they are worth to large ones.
        """
        longest_s = size.expected_s[0] / LONGER
        for octave in range(size.cores.bit_length(), len(self._tried_s)):
            count = min(1 << octave, self.cores_max)
            if self._tried_s[count.bit_length()] < longest_s and size.cores < count <= idle:
                self._tried_s[count.bit_length()] = size.expected_s[0]
                return count
        return 0

    def _beside(self, size: Size) -> int:
        """Return half or twice the cores of an answer where these are idle and it can be afforded; else the answer."""
        twice, half = min(2 * size.cores, self.cores_max), max(1, size.cores // 2)
        beside = half if (self._down and half != size.cores) or twice == size.cores else twice
        at_risk_s = self._expected_s(size, beside) - self._expected_s(size, size.cores)
        return beside if beside <= max(half, size.idle) and at_risk_s <= LOSS_SHARE * self._spent_s else size.cores

    def _expected_s(self, size: Size, cores: int) -> float:
        return size.expected_s[bisect_right(self._counts, cores) - 1]

    def _nearest(self, size: Size) -> Size:
        """Return the size that is nearest, of those that have an answer; this one where none has."""
        answered = [other for other in [*self.sizes.values()] if other.expected_s]
        return min(answered, key=lambda other: _distance(other.key, size.key), default=size)


def counts_to(cores_max: int) -> list[int]:
    """Return the counts that are compared: all up to `COUNTS_ALL`, then a fifth apart, and `cores_max`."""
    counts = list(range(1, min(cores_max, COUNTS_ALL) + 1))
    while counts[-1] < cores_max:
        counts.append(min(cores_max, math.ceil(counts[-1] * 2 ** (1 / PER_DOUBLING))))
    return counts


def powers(cores_max: int) -> list[int]:
    """Return the powers of two below `cores_max`, and it."""
    return [*(1 << k for k in range((cores_max - 1).bit_length())), cores_max]


def _octave(x: float) -> int:
    return int(PER_DOUBLING * math.log2(x)) if x > 0.0 else -(1 << 20)


def _distance(one: Key, other: Key) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=False))


def checked_predictor(predictor: Any) -> Any:
    """Return a predictor as plain numbers: one, or a tuple of up to four; raises InvalidValue."""
    values = cast("list[Any]", [*predictor] if isinstance(predictor, (tuple, list)) else [predictor])
    try:
        numbers = list(map(float, values))
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= DIMENSIONS_MAX or not all(0.0 <= x <= PREDICTOR_MAX for x in numbers):
        raise InvalidValue(
            "predictor",
            values if len(values) != 1 else values[0],
            f"1 to {DIMENSIONS_MAX} numbers from 0 to {PREDICTOR_MAX:g}",
            "mend what predictor= gives",
        )
    return tuple(numbers) if len(numbers) > 1 else numbers[0]
