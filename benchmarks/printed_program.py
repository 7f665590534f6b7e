"""Paper 3's model of a whole program as it is printed, Eqs. 9 to 15: what the package's own model is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.domain.runs import ProgramRun
from advisor.models.lasso import LassoFit, fitted, rows_into
from advisor.models.program_model import FOLDS
from advisor.models.program_terms import Point

Floats = NDArray[np.float64]


def _logs(n: float) -> tuple[float, float]:
    return float(np.log(n)), float(np.log(np.log(n))) if n >= np.e else 0.0


def serial_columns(at: Point) -> Floats:
    """Return the columns of Eq. 11."""
    n, (log, loglog) = at.size, _logs(at.size)
    return np.array([n, n * log, n**2, n**2 * log, n**3, n * loglog])


def count_columns(at: Point) -> Floats:
    """Return the columns of Eqs. 13 and 14."""
    n, (log, loglog) = at.size, _logs(at.size)
    return np.array([n, n * log, n**2, n**3, n * loglog])


def delay_columns(at: Point) -> Floats:
    """Return the columns of Eq. 12."""
    p = at.workers
    return np.outer((at.creates, at.waits), (1.0, p - 1.0, (p - 1.0) / p)).reshape(-1)


MODELS: dict[str, tuple[Callable[[Point], Floats], bool]] = {  # columns, and whether a constant is fitted too
    "serial_work": (serial_columns, True),
    "creates": (count_columns, False),
    "waits": (count_columns, False),
    "inflation": (lambda at: at.serial_work * np.array([(at.workers - 1.0) / at.workers, at.workers - 1.0]), False),
    "delay": (delay_columns, False),
    "no_work": (lambda at: (at.workers - 1.0) ** 2 * np.array([1, at.size, at.size * _logs(at.size)[0], at.size**2]), False),
}  # fmt: skip


class PrintedModel:
    """Fits of the six models to runs of transformed sizes, in the order in which they came."""

    def __init__(self, runs: Sequence[ProgramRun]) -> None:
        self.fits: dict[str, LassoFit | None] = {}
        for name in MODELS:
            self.fits[name] = self._fitted(name, runs)

    def _fitted(self, name: str, runs: Sequence[ProgramRun]) -> LassoFit | None:
        columns, intercept = MODELS[name]
        width = len(columns(Point(2.0, 2.0)))
        folds = np.zeros((FOLDS, width + 2, width + 2))
        for number, run in enumerate(runs):
            serial = run.work_s if run.serial_work_s is None and run.workers == 1.0 else run.serial_work_s
            known = serial if serial is not None else self.value("serial_work", Point(run.size, run.workers))
            target = {
                "serial_work": serial, "creates": run.creates, "waits": run.waits, "delay": run.delay_s,
                "inflation": run.work_s - known, "no_work": run.no_work_s,
            }[name]  # fmt: skip
            if target is not None:
                at = Point(run.size, run.workers, known, run.creates, run.waits)
                rows_into(folds, number % FOLDS, columns(at), target)
        return fitted(folds, intercept=intercept)

    def value(self, name: str, at: Point) -> float:
        """Return what an intermediate model says at a point; 0 where it has no rows."""
        fit = self.fits.get(name)
        return 0.0 if fit is None else float(fit.weights @ MODELS[name][0](at)) + fit.intercept

    def predict(self, size: float, workers: float) -> float:
        """Return the elapsed time for a transformed size, by Eq. 9."""
        at = Point(size, workers)
        serial, creates, waits = (self.value(name, at) for name in ("serial_work", "creates", "waits"))
        at = Point(size, workers, serial, creates, waits)
        parts = (self.value(name, at) for name in ("inflation", "delay", "no_work"))
        return (serial + sum(parts)) / workers
