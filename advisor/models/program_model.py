"""The model of a whole task-parallel program (paper 3): runs in, the elapsed time of larger inputs on more workers out.

Intermediate models of `program_terms` are fitted to what runs report, each by cross-validated non-negative lasso from Gram
matrices (`lasso`), and put together by Eq. 9,

    time(n, p) = (T1(n, p) + delay(n, p) + no_work(n, p)) / p.

It has more size terms than the paper; where runs have a span it takes what has no work from the learned span, and lets no
time be below max(T1 / p, span). The state is one record of words, the same size after any number of runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.domain import elementary
from advisor.domain.runs import ProgramRun
from advisor.domain.vectors import Floats
from advisor.models.lasso import LassoFit, fitted, rows_into
from advisor.models.program_terms import INTERMEDIATE, Point
from advisor.models.records import offsets
from advisor.models.student import quantile

FOLDS: Final = 5  # as scikit-learn's default, which the paper leaves in place
SCORED_AT: Final = 8  # runs from which on predictions are scored before they are learned; doubled each time
NAME: Final = "extended"
# Deviations of log time. The paper's errors, a quarter on the whole at some four powers of two beyond what was trained, stand
# for what was not tried yet: as much as one run inside, and as two powers of two beyond.
LEAST_DEVIATION: Final = 0.01  # a run varies by that much where predictions seem perfect
UNTRIED_INSIDE: Final = 0.25
UNTRIED_BEYOND: Final = 0.06  # a power of two
TRIED_AS: Final = 4.0  # squared powers of two that the latter counts for
FADING: Final = 0.5  # of scores beyond, at each new set of fits
TAIL_FREEDOM: Final = 30.0  # degrees of freedom beyond which more scores do not narrow a quantile

# A row's squared error counts over its target, as of counts: with equal weights the largest sizes alone would be fitted, with
# relative ones the far larger sizes that are asked for would be missed.
ROOT_WEIGHTED: Final = ("serial_work", "creates", "waits", "span")
_SIZES = {name: len(each.terms) + 2 for name, each in INTERMEDIATE.items()}
SCORES: Final = ("scores", "errors", "beyond", "reached")  # of predictions inside, with their errors, and beyond
_RANGE = ("n_low", "n_high", "p_low", "p_high")
_KEPT_RANGE = tuple(f"kept_{name}" for name in _RANGE)  # what the fits that score had seen
_HEAD = (
    "runs",
    "n_low",
    "n_high",
    "p_low",
    "p_high",
    "spans",
    "elapsed",
    "accounted",
    *SCORES,
    "scored_from",
    *_KEPT_RANGE,
)
_ADDED: Final = tuple(name for name in _HEAD if name not in ("scored_from", *_RANGE, *_KEPT_RANGE))  # merged by adding
_BLOCKS: Final = offsets(
    [(name, 1, "f", 0.0) for name in _HEAD]
    + [(f"folds of {name}", FOLDS * size * size, "f", 0.0) for name, size in _SIZES.items()]
    + [(f"fit of {name}", size, "f", 0.0) for name, size in _SIZES.items()]  # that score: weights, intercept, error
)
_AT: Final = {name: at.start for name, at in _BLOCKS.items()}
WORDS: Final[int] = max(at.stop for at in _BLOCKS.values())


@dataclass(frozen=True, slots=True)
class ProgramPrediction:
    """What a program would take, and of what that is made; seconds.

    `distance` is how far outside of what was seen, in powers of two of size and of workers together.
    """

    elapsed_s: float
    serial_work_s: float
    work_s: float
    delay_s: float
    no_work_s: float
    creates: float
    waits: float
    span_s: float
    floored: bool
    low_s: float = 0.0
    high_s: float = 0.0
    distance: float = 0.0


class ProgramModel:
    """A view of a record, words (WORDS,), changed in place by `learn`; a record of zeros has learned nothing."""

    def __init__(self, words: Floats) -> None:
        self.words = words

    @property
    def runs(self) -> int:
        """Runs learned."""
        return int(self.head_field("runs"))

    def head_field(self, name: str) -> float:
        """Return a field of the head."""
        return float(self.words[_AT[name]])

    def folds(self, name: str) -> Floats:
        """Return the Gram matrices (FOLDS, m + 2, m + 2) of an intermediate model, a view."""
        return self.words[_BLOCKS[f"folds of {name}"]].reshape(FOLDS, _SIZES[name], _SIZES[name])

    # -- learning ---------------------------------------------------------------------------------------------------------

    def learn(self, row: ProgramRun) -> None:
        """Learn a run of a transformed size; it is predicted first by fits of an earlier count: how good predictions are.

        The fits are made anew when the count of runs has doubled. Cost O(sum m^2), and that of a solve now and then.
        """
        self._score(row)
        fold = self.runs % FOLDS
        serial = measured = row.work_s if row.serial_work_s is None and row.workers == 1.0 else row.serial_work_s
        if serial is None and self.words[_AT["scored_from"]]:
            serial = _value(self.kept(), "serial_work", Point(row.size, row.workers))
        point = Point(row.size, row.workers, serial or 0.0, row.creates, row.waits, row.span_s or 0.0)
        targets = {
            "creates": row.creates, "waits": row.waits, "delay": row.delay_s, "no_work": row.no_work_s,
        }  # fmt: skip
        if measured is not None:
            targets["serial_work"] = measured
        if serial is not None:
            targets["inflation"] = row.work_s - serial
        if row.span_s is not None:
            targets |= {"span": row.span_s, "no_work_span": row.no_work_s}
            self.words[_AT["spans"]] += 1.0
        for name, target in targets.items():
            scale = math.sqrt(target) if name in ROOT_WEIGHTED and target > 0.0 else 1.0
            rows_into(self.folds(name), fold, INTERMEDIATE[name].columns(point), target, scale)
        self._range("n_low", "n_high", row.size)
        self._range("p_low", "p_high", row.workers)
        self.words[_AT["elapsed"]] += row.elapsed_s * row.workers
        self.words[_AT["accounted"]] += row.work_s + row.delay_s + row.no_work_s
        self.words[_AT["runs"]] += 1.0
        if self.runs >= SCORED_AT and (self.runs & (self.runs - 1) == 0 or self._outgrown()):
            self._keep(self.fits())

    def merge(self, other: ProgramModel) -> None:
        """Add what another record has learned: exact to rounding, fold by fold; the fits that score are made anew."""
        first = self.runs == 0
        for low, high in (("n_low", "n_high"), ("p_low", "p_high")):
            if other.runs:
                bounds = other.words[_AT[low]], other.words[_AT[high]]
                self.words[_AT[low]] = bounds[0] if first else min(self.words[_AT[low]], bounds[0])
                self.words[_AT[high]] = bounds[1] if first else max(self.words[_AT[high]], bounds[1])
        for name in _ADDED:
            self.words[_AT[name]] += other.words[_AT[name]]
        for name in INTERMEDIATE:
            self.folds(name)[:] += other.folds(name)
        if self.runs >= SCORED_AT:
            self._keep(self.fits())

    def _range(self, low: str, high: str, value: float) -> None:
        if self.runs == 0:
            self.words[_AT[low]] = self.words[_AT[high]] = value
        self.words[_AT[low]] = min(self.words[_AT[low]], value)
        self.words[_AT[high]] = max(self.words[_AT[high]], value)

    def _keep(self, fits: dict[str, LassoFit]) -> None:
        for name, fit in fits.items():
            self.words[_BLOCKS[f"fit of {name}"]] = (*fit.weights, fit.intercept, fit.error)
        self.words[_AT["scored_from"]] = self.runs
        for name in _RANGE:
            self.words[_AT[f"kept_{name}"]] = self.words[_AT[name]]
        # What fits of fewer runs did beyond their range says less and less of what these do beyond theirs.
        self.words[_AT["beyond"]] *= FADING
        self.words[_AT["reached"]] *= FADING

    def _outgrown(self) -> bool:
        """Return whether sizes or workers have come that lie twice as far out as those that the fits that score have seen."""
        return self._distance("kept_", self.head_field("n_high"), self.head_field("p_high")) >= 1.0 or (
            self._distance("kept_", self.head_field("n_low"), self.head_field("p_low")) >= 1.0
        )

    def kept(self) -> dict[str, LassoFit]:
        """Return the fits that score."""
        parts = {name: self.words[_BLOCKS[f"fit of {name}"]] for name in INTERMEDIATE}
        return {name: LassoFit(part[:-2], float(part[-2]), float(part[-1]), 0.0) for name, part in parts.items()}

    def _score(self, row: ProgramRun) -> None:
        if not self.words[_AT["scored_from"]]:
            return
        fits, distance = self.kept(), self._distance("kept_", row.size, row.workers)
        if distance > self._width("n") + self._width("p") or not self._width("n"):
            return  # one size, or a range narrower than the way to go: nobody would trust that
        time = self._parts(fits, row.size, row.workers).elapsed_s
        if time <= 0.0:
            return
        error = elementary.log(time / row.elapsed_s) ** 2
        if distance > 0.0:
            self.words[_AT["beyond"]] += error
            self.words[_AT["reached"]] += distance**2
        else:
            self.words[_AT["errors"]] += error
            self.words[_AT["scores"]] += 1.0

    # -- predicting -------------------------------------------------------------------------------------------------------

    def fits(self) -> dict[str, LassoFit]:
        """Return the fitted intermediate models: some milliseconds each."""
        found = {name: fitted(self.folds(name), intercept=each.intercept) for name, each in INTERMEDIATE.items()}
        return {name: fit for name, fit in found.items() if fit is not None}

    def predict(self, fits: dict[str, LassoFit], size: float, workers: float, level: float) -> ProgramPrediction:
        """Return the prediction for a transformed size and workers, with an interval of one run, by `fits()`."""
        found = self._parts(fits, size, workers)
        distance = self.distance(size, workers)
        deviation, freedom = self._deviation(distance)
        factor = elementary.exp(min(quantile(level, freedom) * deviation, 300.0))
        low = found.elapsed_s / factor
        if found.span_s > 0.0:
            low = max(low, min(found.elapsed_s, max(found.work_s / workers, found.span_s) / factor))
        return replace(found, low_s=low, high_s=found.elapsed_s * factor, distance=distance)

    def distance(self, size: float, workers: float) -> float:
        """Return log2 of how far a point lies outside of what was seen, size and workers together; 0 inside."""
        return self._distance("", size, workers)

    def _distance(self, prefix: str, size: float, workers: float) -> float:
        far = 0.0
        for value, name in ((size, "n"), (workers, "p")):
            least, most = self.head_field(f"{prefix}{name}_low"), self.head_field(f"{prefix}{name}_high")
            if value > most > 0.0:
                far += elementary.log2(value / most)
            elif 0.0 < value < least:
                far += elementary.log2(least / value)
        return far

    def _width(self, name: str) -> float:
        """Return log2 of the range of sizes ("n") or workers ("p") that the fits that score have seen."""
        return elementary.log2(self.head_field(f"kept_{name}_high") / self.head_field(f"kept_{name}_low"))

    def _deviation(self, distance: float) -> tuple[float, float]:
        """Return the deviation of log time at a distance, and its degrees of freedom.

        Inside of what was seen it is that of predictions made there. Beyond, an error is taken to grow with the distance, by
        what predictions made beyond showed of it.
        """
        scores, errors, beyond, reached = (self.head_field(name) for name in SCORES)
        inside = (UNTRIED_INSIDE**2 + errors) / (1.0 + scores)
        slope = (TRIED_AS * UNTRIED_BEYOND**2 + beyond) / (TRIED_AS + reached)
        deviation = math.sqrt(max(inside, LEAST_DEVIATION**2) + slope * distance**2)
        return deviation, min(1.0 + scores, TAIL_FREEDOM)

    def _parts(self, fits: dict[str, LassoFit], size: float, workers: float) -> ProgramPrediction:
        at = Point(size, workers)
        serial, creates, waits = (_value(fits, name, at) for name in ("serial_work", "creates", "waits"))
        span = _value(fits, "span", at)
        at = Point(size, workers, serial, creates, waits, span)
        work = serial + _value(fits, "inflation", at)
        delay = _value(fits, "delay", at)
        no_work = _value(fits, "no_work_span" if span > 0.0 else "no_work", at)
        time = (work + delay + no_work) / workers  # Eq. 9
        floor = max(work / workers, span) if span > 0.0 else 0.0
        return ProgramPrediction(max(time, floor), serial, work, delay, no_work, creates, waits, span, time < floor)


def _value(fits: Mapping[str, LassoFit], name: str, at: Point) -> float:
    fit = fits.get(name)
    return 0.0 if fit is None else elementary.weighted(fit.weights, INTERMEDIATE[name].columns(at)) + fit.intercept
