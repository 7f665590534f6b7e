"""Part (b) of the demo: paper 1's setting through a service, judged on the true curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.client import SyncClient
from advisor.demo.paper_setting import (
    CORE_COUNTS,
    CORES,
    NETWORK,
    PIPELINE,
    RUNS,
    SIZES,
    equal_shares,
    mean_elapsed_s,
    measurements,
    proportional_shares,
    truth,
)
from advisor.files import Prequential
from advisor.protocol.verbs import ObjectiveWord

Floats = NDArray[np.float64]

ROWS_CHUNK = 400  # rows that arrive together: the stream, not the file
CHUNKS = -(-len(PIPELINE) * len(SIZES) * len(CORE_COUNTS) * RUNS // ROWS_CHUNK)
MODELS = (None, "two_step")
LABELS = {None: "default", "two_step": "two_step"}
GOALS = ("throughput", "latency")
WINDOWS = (6, 16, 31, 101, 301, 1001, 4001)  # edges of the row numbers that an error is shown for
SIZE_SMALL = 500  # up to here the paper finds too much noise to predict


@dataclass(frozen=True, slots=True)
class Shares:
    """An allocation of the pipeline, judged on the true curves: mean times over the sizes."""

    label: str
    cores: tuple[int, ...]
    throughput_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Streamed:
    """What part (b) measured."""

    row: NDArray[np.int64]  # int64 array (n,): number of each row within its component, from 1
    predictor: Floats  # float64 array (n,)
    # mapping of model to float64 array (n,): |predicted - truth| / truth of each row, predicted before it was learned;
    # NaN where there was no prediction
    error: dict[str | None, Floats]
    shares: tuple[Shares, ...]  # the allocations compared; the last is the best there is, found by trying all

    def quantile(self, model: str | None, share: float, window: int, above: float = 0.0) -> float:
        """Return a quantile of the error over the rows of a window, for predictors above a value."""
        return float(np.quantile(self.errors_of(model, window, above), share))

    def within(self, model: str | None, bound: float, window: int, above: float = 0.0) -> float:
        """Return the share of rows whose error is at most `bound`."""
        return float(np.mean(self.errors_of(model, window, above) <= bound))

    def errors_of(self, model: str | None, window: int, above: float = 0.0) -> Floats:
        """Return the errors of the rows of a window, for predictors above a value; an unanswered row counts as 1."""
        low, high = WINDOWS[window], WINDOWS[window + 1]
        error = self.error[model][(self.row >= low) & (self.row < high) & (self.predictor > above)]
        return np.where(np.isnan(error), 1.0, error)


class _Settled:
    """A client whose rows are learned before its next question: a row is never predicted from fewer rows than it says."""

    def __init__(self, client: SyncClient) -> None:
        self.predict = client.predict
        self._client = client

    def observe_columns(self, **columns: Any) -> None:
        self._client.observe_columns(**columns)
        self._client.flush()


def run_paper(client: SyncClient, seed: int, *, tick: Callable[[], object] = lambda: None) -> Streamed:
    """Run part (b) against a service, which does not know the timer's noise; `tick` is called once a chunk."""
    rows = measurements(PIPELINE, seed)
    prequential = Prequential(_Settled(client), MODELS)
    predicted: dict[str | None, list[Floats]] = {model: [] for model in MODELS}
    early: Shares | None = None
    for start in range(0, len(rows), ROWS_CHUNK):
        for model, values in prequential.predict_and_learn(rows.select_rows(slice(start, start + ROWS_CHUNK))).items():
            predicted[model].append(values)
        if start == 0:
            early = _advised(client, "throughput", f"advised after {ROWS_CHUNK} rows")
        tick()
    true_s = truth(PIPELINE, rows.index, rows.predictor, rows.cores)
    error = {model: np.abs(np.concatenate(values) / true_s - 1.0) for model, values in predicted.items()}
    return Streamed(_row_numbers(rows.index), rows.predictor, error, tuple(_allocations(client, early)))


def _row_numbers(index: NDArray[np.int64]) -> NDArray[np.int64]:
    numbers = np.empty(len(index), np.int64)
    for component in np.unique(index):
        mine = index == component
        numbers[mine] = np.arange(1, np.count_nonzero(mine) + 1)
    return numbers


def _allocations(client: SyncClient, early: Shares | None) -> list[Shares]:
    return [
        _judged("equal shares", equal_shares(len(PIPELINE), CORES)),
        _judged("proportional shares", proportional_shares(mean_elapsed_s(PIPELINE, 1), CORES)),
        *([early] if early else []),
        *(_advised(client, goal, f"advised, {goal}") for goal in GOALS),
        *(_judged(f"best possible, {goal}", best) for goal, best in _best().items()),
    ]


def _advised(client: SyncClient, goal: ObjectiveWord, label: str) -> Shares:
    cores = client.allocate(NETWORK, cores=CORES, objective=goal, turns="never").cores  # as the paper has it: own cores
    return _judged(label, [cores[component.name] for component in PIPELINE])


def _judged(label: str, cores: Sequence[int]) -> Shares:
    mean_s = mean_elapsed_s(PIPELINE, cores)
    return Shares(label, tuple(cores), float(1.0 / mean_s.max()), float(mean_s.sum()))


def _best() -> dict[str, list[int]]:
    """Return the best allocation for each objective by trying every way to cut the cores."""
    table = np.array([mean_elapsed_s([component] * CORES, np.arange(1, CORES + 1)) for component in PIPELINE])
    cuts = np.array(list(combinations(range(1, CORES), len(PIPELINE) - 1)))
    cores = np.diff(np.column_stack([np.zeros(len(cuts), int), cuts, np.full(len(cuts), CORES)]), axis=1)
    mean_s = table[np.arange(len(PIPELINE)), cores - 1]
    return {
        goal: cores[np.argmin(fold(mean_s, axis=1))].tolist()
        for goal, fold in zip(GOALS, (np.max, np.sum), strict=True)
    }
