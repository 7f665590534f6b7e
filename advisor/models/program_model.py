"""The model of a whole task-parallel program (paper 3): runs in, the elapsed time of larger inputs on more workers out.

Intermediate models of `program_terms` are fitted to what runs report, each by cross-validated non-negative lasso from Gram
matrices (`lasso`), and put together by Eq. 9,

    time(n, p) = (T1(n, p) + delay(n, p) + no_work(n, p)) / p.

The variant ``printed`` is that. ``extended`` has more size terms; where runs told their span it takes what has no work from the
learned span, and lets no time be below max(T1 / p, span). The state is one record of words, the same size after any number of
runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.models.lasso import Fit, fitted, rows_into
from advisor.models.program_terms import INTERMEDIATE, Point
from advisor.models.student import quantile

Floats = NDArray[np.float64]

FOLDS: Final = 5  # as scikit-learn's default, which the paper leaves in place
SCORED_AT: Final = 8  # runs from which on predictions are scored before they are learned; doubled each time
VARIANTS: Final = ("printed", "extended")
# Deviations of log time that an interval assumes at the least: ours is no better than that where few runs were scored.
LEAST_DEVIATION: Final = 0.01
UNSCORED_DEVIATION: Final = 0.25  # before any run was scored: the paper's errors lie around that
TAIL_FREEDOM: Final = 30.0  # degrees of freedom beyond which more scores do not narrow a quantile

_SIZES = {name: len(each.terms) + 2 for name, each in INTERMEDIATE.items()}
_HEAD = (
    "runs", "n_low", "n_high", "p_low", "p_high", "spans", "elapsed", "accounted",
    *(f"{kind}_{variant}_{where}" for variant in VARIANTS for where in ("inside", "beyond") for kind in ("scores", "errors")),
    "scored_from",
)  # fmt: skip
_AT: Final = {name: place for place, name in enumerate(_HEAD)}
_ADDED: Final = tuple(
    name for name in _HEAD if name not in ("n_low", "n_high", "p_low", "p_high", "scored_from")
)  # merged by adding
_GRAMS: Final = len(_HEAD)
_FITS: Final = _GRAMS + sum(FOLDS * size * size for size in _SIZES.values())
WORDS: Final = _FITS + sum(_SIZES.values())  # the fits that score: weights, intercept, error


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run; seconds. `size` is transformed. What was not measured is nan: `serial_work_s`, `span_s`."""

    size: float
    workers: float
    serial_work_s: float
    work_s: float
    delay_s: float
    no_work_s: float
    creates: float
    waits: float
    elapsed_s: float
    span_s: float = math.nan


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """What a program would take, and of what that is made; seconds.

    `distance` is how far outside of what was seen, in powers of two of size and of workers together.
    """

    elapsed_s: float
    low_s: float
    high_s: float
    serial_work_s: float
    work_s: float
    delay_s: float
    no_work_s: float
    creates: float
    waits: float
    span_s: float
    variant: str
    floored: bool
    distance: float


class ProgramModel:
    """A view of a record of `WORDS` words.

    Parameters
    ----------
    words : float64 array (WORDS,)
        Changed in place by `learn`; a record of zeros has learned nothing.
    """

    def __init__(self, words: Floats) -> None:
        self.words = words

    @property
    def runs(self) -> int:
        """Runs learned."""
        return int(self.words[_AT["runs"]])

    def number(self, name: str) -> float:
        """Return a field of the head."""
        return float(self.words[_AT[name]])

    def folds(self, name: str) -> Floats:
        """Return the Gram matrices (FOLDS, m + 2, m + 2) of an intermediate model, a view."""
        start = _GRAMS
        for each, size in _SIZES.items():
            if each == name:
                return self.words[start : start + FOLDS * size * size].reshape(FOLDS, size, size)
            start += FOLDS * size * size
        raise KeyError(name)

    # -- learning ---------------------------------------------------------------------------------------------------------

    def learn(self, row: RunRow) -> None:
        """Learn a run; it is predicted first by the fits of an earlier count, which tells how good predictions are.

        The fits are made anew when the count of runs has doubled. Cost O(sum m^2), and that of a solve now and then.
        """
        self._score(row)
        fold = self.runs % FOLDS
        serial = row.serial_work_s
        if not math.isfinite(serial):
            serial = row.work_s if row.workers == 1.0 else self._scoring_value("serial_work", row.size, row.workers)
        point = Point(row.size, row.workers, serial, row.creates, row.waits, row.span_s)
        targets = {
            "creates": row.creates, "waits": row.waits, "delay": row.delay_s, "no_work": row.no_work_s,
        }  # fmt: skip
        if math.isfinite(serial):
            targets |= {"serial_work": serial, "inflation": row.work_s - serial}
        if math.isfinite(row.span_s):
            targets |= {"span": row.span_s, "no_work_span": row.no_work_s}
            self.words[_AT["spans"]] += 1.0
        for name, target in targets.items():
            rows_into(self.folds(name), fold, INTERMEDIATE[name].columns(point), target)
        self._range("n_low", "n_high", row.size)
        self._range("p_low", "p_high", row.workers)
        self.words[_AT["elapsed"]] += row.elapsed_s * row.workers
        self.words[_AT["accounted"]] += row.work_s + row.delay_s + row.no_work_s
        self.words[_AT["runs"]] += 1.0
        if self.runs >= SCORED_AT and self.runs & (self.runs - 1) == 0:
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
        self.words[_GRAMS:_FITS] += other.words[_GRAMS:_FITS]
        if self.runs >= SCORED_AT:
            self._keep(self.fits())

    def _range(self, low: str, high: str, value: float) -> None:
        if self.runs == 0:
            self.words[_AT[low]] = self.words[_AT[high]] = value
        self.words[_AT[low]] = min(self.words[_AT[low]], value)
        self.words[_AT[high]] = max(self.words[_AT[high]], value)

    def _keep(self, fits: dict[str, Fit]) -> None:
        start = _FITS
        for name, size in _SIZES.items():
            fit = fits.get(name)
            if fit is not None:
                self.words[start : start + size] = (*fit.weights, fit.intercept, fit.error)
            start += size
        self.words[_AT["scored_from"]] = self.runs

    def _kept(self) -> dict[str, Fit]:
        found: dict[str, Fit] = {}
        start = _FITS
        for name, size in _SIZES.items():
            part = self.words[start : start + size]
            found[name] = Fit(part[:-2], float(part[-2]), float(part[-1]), 0.0)
            start += size
        return found

    def _scoring_value(self, name: str, size: float, workers: float) -> float:
        if not self.words[_AT["scored_from"]]:
            return math.nan
        return _value(self._kept()[name], name, Point(size, workers))

    def _score(self, row: RunRow) -> None:
        if not self.words[_AT["scored_from"]]:
            return
        fits = self._kept()
        beyond = "beyond" if self.distance(row.size, row.workers) > 0.0 else "inside"
        for variant in VARIANTS if self.words[_AT["spans"]] else VARIANTS[:1]:
            time = self._parts(fits, row.size, row.workers, variant).elapsed_s
            if time > 0.0:
                self.words[_AT[f"scores_{variant}_{beyond}"]] += 1.0
                self.words[_AT[f"errors_{variant}_{beyond}"]] += math.log(time / row.elapsed_s) ** 2

    # -- predicting -------------------------------------------------------------------------------------------------------

    def fits(self) -> dict[str, Fit]:
        """Return the fitted intermediate models: some milliseconds each."""
        found = {name: fitted(self.folds(name), intercept=each.intercept) for name, each in INTERMEDIATE.items()}
        return {name: fit for name, fit in found.items() if fit is not None}

    def predict(
        self, fits: dict[str, Fit], size: float, workers: float, level: float, variant: str | None = None
    ) -> RunPrediction:
        """Return the prediction for a transformed size and workers, with an interval of one run.

        Parameters
        ----------
        fits : dict
            Of `fits()`.
        variant : str, optional
            One of `VARIANTS`; None: the one that predicted runs best so far, ``span`` where spans are known and nothing else
            speaks.
        """
        variant = variant or self.best_variant(fits)
        found = self._parts(fits, size, workers, variant)
        distance = self.distance(size, workers)
        deviation, freedom = self._deviation(variant, distance)
        factor = math.exp(min(quantile(level, freedom) * deviation, 300.0))
        low = found.elapsed_s / factor
        if variant == "span":
            low = max(low, min(found.elapsed_s, max(found.work_s / workers, found.span_s) / factor))
        return RunPrediction(
            found.elapsed_s, low, found.elapsed_s * factor, found.serial_work_s, found.work_s, found.delay_s,
            found.no_work_s, found.creates, found.waits, found.span_s, variant, found.floored, distance,
        )  # fmt: skip

    def best_variant(self, fits: dict[str, Fit]) -> str:
        """Return the variant whose predictions erred least, beyond what was seen where that was tried."""
        if "span" not in fits:
            return "paper"
        for where in ("beyond", "inside"):
            counts = [self.number(f"scores_{variant}_{where}") for variant in VARIANTS]
            if min(counts) >= SCORED_AT:
                errors = [self.number(f"errors_{variant}_{where}") / n for variant, n in zip(VARIANTS, counts, strict=True)]
                return VARIANTS[int(np.argmin(errors))]
        return "span"

    def distance(self, size: float, workers: float) -> float:
        """Return log2 of how far a point lies outside of what was seen, size and workers together; 0 inside."""
        far = 0.0
        for value, low, high in ((size, "n_low", "n_high"), (workers, "p_low", "p_high")):
            least, most = self.number(low), self.number(high)
            if value > most > 0.0:
                far += math.log2(value / most)
            elif 0.0 < value < least:
                far += math.log2(least / value)
        return far

    def _deviation(self, variant: str, distance: float) -> tuple[float, float]:
        """Return the deviation of log time at a distance, and its degrees of freedom.

        Errors inside of what was seen are those of predictions made there; beyond it, those of predictions made beyond, one
        step at a time mostly, which grow with the distance as a random walk does.
        """
        counts = {where: self.number(f"scores_{variant}_{where}") for where in ("inside", "beyond")}
        means = {
            where: math.sqrt(self.number(f"errors_{variant}_{where}") / n) if n else math.nan for where, n in counts.items()
        }
        where = "beyond" if distance > 0.0 and counts["beyond"] else "inside"
        if not counts[where]:
            return UNSCORED_DEVIATION * math.sqrt(1.0 + distance), 1.0
        return max(means[where], LEAST_DEVIATION) * math.sqrt(1.0 + distance), min(counts[where], TAIL_FREEDOM)

    def _parts(self, fits: dict[str, Fit], size: float, workers: float, variant: str) -> RunPrediction:
        at = Point(size, workers)
        serial, creates, waits, span = (
            _value(fits.get(name), name, at) for name in ("serial_work", "creates", "waits", "span")
        )
        at = Point(size, workers, serial, creates, waits, span)
        work = serial + _value(fits.get("inflation"), "inflation", at)
        delay = _value(fits.get("delay"), "delay", at)
        no_work = _value(fits.get("no_work"), "no_work", at)
        if variant == "span":
            no_work = _value(fits.get("no_work_span"), "no_work_span", at)
        time = (work + delay + no_work) / workers  # Eq. 9
        floor = max(work / workers, span) if variant == "span" else 0.0
        return RunPrediction(
            max(time, floor), 0.0, 0.0, serial, work, delay, no_work, creates, waits, span, variant, time < floor, 0.0
        )


def _value(fit: Fit | None, name: str, at: Point) -> float:
    if fit is None:
        return 0.0
    return float(fit.weights @ INTERMEDIATE[name].columns(at)) + fit.intercept
