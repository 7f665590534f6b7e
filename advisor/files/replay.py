"""The replay of a table through a learner, row by row: predict, compare, then learn (prequential error).

The learner is anything with the advisor's verbs: an `Advisor` in this process, or a client of a service.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain.answers import Prediction
from advisor.domain.observations import Columns
from advisor.errors import InvalidValue, NotEnoughData, UnknownComponent

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

ROWS_UNSCORED = 5  # the first rows of a component: nothing can be known yet
ROWS_ONE_BY_ONE = 64  # until here a component learns each row before the next is predicted
BLOCK_SHARE = 16  # later a block of a sixteenth of the rows seen is predicted at once: the model hardly moves within it
ERROR_MAX = 1000.0  # times the value: what one row may count at most in a mean
# Of relative errors, for their quantiles: from 0.01 % to a factor of 1000 in steps of 12 %.
ERROR_BOUNDS = np.geomspace(1e-4, ERROR_MAX, 141)


class Learner(Protocol):
    """What the replay needs of an advisor or of its client."""

    @property
    def predict(self) -> Callable[..., Prediction]: ...

    def observe_columns(
        self,
        *,
        components: Sequence[str],
        index: ArrayLike,
        predictor: ArrayLike | None,
        cores: ArrayLike,
        elapsed_s: ArrayLike,
        **optional: Any,
    ) -> Any: ...


@dataclass(slots=True)
class ComponentScore:
    """Prequential error of one component; constant space."""

    # rows, scored: rows seen, and rows that a prediction was compared with
    rows: int = 0
    scored: int = 0
    error_sum: float = 0.0
    bias_sum: float = 0.0
    counts: Floats = field(default_factory=lambda: np.zeros(len(ERROR_BOUNDS) + 1), compare=False)

    def quantile(self, share: float) -> float:
        """Return the absolute relative error below which so many lie, to 12 %; unlike `error`, tiny times do not ruin it."""
        if not self.scored:
            return math.nan
        place = int(np.searchsorted(np.cumsum(self.counts), share * self.scored))
        return float(ERROR_BOUNDS[min(place, len(ERROR_BOUNDS) - 1)]) if place else 0.0

    @property
    def error(self) -> float:
        """Mean absolute relative error |predicted - t| / t; NaN where nothing was scored."""
        return self.error_sum / self.scored if self.scored else math.nan

    @property
    def bias(self) -> float:
        """Mean signed relative error (predicted - t) / t; a learner that predicts low is flattered by `error`."""
        return self.bias_sum / self.scored if self.scored else math.nan

    def count_errors(self, first_row: int, relative: Floats) -> None:
        """Count the signed relative errors of rows first_row, first_row + 1, … (from 1)."""
        counted = np.clip(relative[max(0, ROWS_UNSCORED + 1 - first_row) :], -ERROR_MAX, ERROR_MAX)
        if not len(counted):
            return
        self.scored += len(counted)
        self.counts += np.bincount(np.searchsorted(ERROR_BOUNDS, np.abs(counted)), minlength=len(self.counts))
        self.error_sum += float(np.abs(counted).sum())
        self.bias_sum += float(counted.sum())


class Prequential:
    """Predicts each row before it is learned, component by component, and keeps the score.

    Parameters
    ----------
    learner : Learner
        Who predicts and learns.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._on_progress: Callable[[int, int], None] | None = None
        self._done = 0
        self.scores: dict[str, ComponentScore] = {}

    def report_progress(self, on_progress: Callable[[int, int], None]) -> None:
        """Call this with the rows of the batch that are done and the rows it has, again and again: for a progress bar."""
        self._on_progress = on_progress

    def predict_and_learn(self, columns: Columns) -> Floats:
        """Predict and learn a batch of n rows, in row order within each component.

        Components do not influence one another, so the order between them does not matter.

        Returns
        -------
        float64 array (n,)
            What was predicted for each row, in seconds; NaN where nobody could, or was not asked.
        """
        self._done = 0
        predicted = np.full(len(columns), np.nan)
        order = np.argsort(columns.index, kind="stable")
        starts = np.flatnonzero(np.diff(columns.index[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(order) else ():
            self._take_component(columns.components.names[int(columns.index[rows[0]])], columns, rows, predicted)
        return predicted

    def _take_component(self, name: str, columns: Columns, rows: Rows, predicted: Floats) -> None:
        score = self.scores.setdefault(name, ComponentScore())
        done = 0
        while done < len(rows):
            seen = score.rows
            size = 1 if seen < ROWS_ONE_BY_ONE else seen // BLOCK_SHARE
            block = rows[done : done + size]
            if seen + len(block) > ROWS_UNSCORED:
                answered = [part for part in alike(columns, block) if self._predict(name, columns, part, predicted)]
                if answered:  # a row that nobody could predict is not scored; `scored` tells
                    those = np.sort(np.concatenate(answered))
                    score.count_errors(seen + 1, predicted[those] / columns.elapsed_s[those] - 1.0)
            score.rows += len(block)
            for part in alike(columns, block, by_machine=False):
                self.learner.observe_columns(
                    components=[name],
                    index=np.zeros(len(part), np.int64),
                    predictor=points(columns, part),
                    cores=columns.cores[part],
                    elapsed_s=columns.elapsed_s[part],
                    **optional_columns(columns, part),
                )
            done += len(block)
            self._done += len(block)
            if self._on_progress is not None:
                self._on_progress(self._done, len(columns))

    def _predict(self, name: str, columns: Columns, part: Rows, predicted: Floats) -> bool:
        """Predict rows of one machine and width; False where nobody could."""
        machine = -1 if columns.machine is None else int(columns.machine[part[0]])
        where = {} if machine < 0 else {"machine": columns.machines[machine]}
        try:
            answer = self.learner.predict(name, predictor=points(columns, part), cores=columns.cores[part], **where)
        except (NotEnoughData, UnknownComponent):
            return False
        except InvalidValue:  # a machine not met, or a point of another width
            return False
        if np.shape(answer.elapsed_s) != part.shape:  # points of two values, to a component whose points have one
            return False
        predicted[part] = answer.elapsed_s
        return True


def alike(columns: Columns, rows: Rows, *, by_machine: bool = True) -> Sequence[Rows]:
    """Return the rows in parts of one width of predictor and, by default, one machine; each in order."""
    keys: list[NDArray[Any]] = []
    if columns.further is not None:
        keys.append(np.count_nonzero(~np.isnan(columns.further[rows]), axis=1))
    if columns.machine is not None and by_machine:
        keys.append(columns.machine[rows])
    if not keys or len(rows) == 1:
        return (rows,)
    _, part = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    part = part.ravel()
    if not by_machine:  # learned in row order: runs of one width
        return np.split(rows, np.flatnonzero(np.diff(part)) + 1)
    return [rows[part == number] for number in range(int(part.max()) + 1)]


def points(columns: Columns, part: Rows) -> Floats | None:
    """Return the predictors of rows of one width d: (n,) where d is 1, (n, d) otherwise; None of a table without any."""
    if columns.absent is not None:
        return None
    first = columns.predictor[part]
    if columns.further is None:
        return first
    further = columns.further[part]
    width = int(np.count_nonzero(~np.isnan(further[0])))
    return np.column_stack([first, further[:, :width]]) if width else first


def optional_columns(columns: Columns, part: Rows) -> dict[str, Any]:
    """Return what rows have beside their plain values, as `observe_columns` takes it; empty where they have nothing."""
    found: dict[str, Any] = {}
    if columns.machine is not None:
        found |= {"machine": columns.machine[part].astype(np.uint32), "labels": list(columns.machines)}
    if columns.measures:
        found["measures"] = {name: values[part] for name, values in columns.measures.items()}
    return found
