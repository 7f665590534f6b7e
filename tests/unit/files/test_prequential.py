"""Prequential error: every row is predicted before it is learned, and counted as stated."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from advisor.domain.answers import Prediction
from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.errors import InvalidValue, UnknownComponent
from advisor.files import Prequential
from advisor.files.replay import ROWS_UNSCORED


class MeanLearner:
    """Predicts the mean of what it has seen: simple enough to compute the expected score by hand."""

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = defaultdict(list)

    def predict(self, component: str, *, predictor: Any, cores: Any, model: str | None = None) -> Prediction:
        if not self.seen[component]:
            raise UnknownComponent(component)
        mean = sum(self.seen[component]) / len(self.seen[component])
        return Prediction(np.full(len(predictor), mean), 0.0, 0.0, "mean", (), len(self.seen[component]), 0.0)

    def observe_columns(self, *, components: Any, index: Any, predictor: Any, cores: Any, elapsed_s: Any) -> None:
        for place, t in zip(index, elapsed_s, strict=True):
            self.seen[components[place]].append(float(t))


def stream(rng: np.random.Generator, rows: int) -> Columns:
    index = rng.integers(0, 3, rows)
    return columns_of(ComponentNames(["a", "b", "c"]), index, np.ones(rows), np.ones(rows), rng.uniform(1, 2, rows))


def test_each_of_the_first_rows_is_predicted_from_the_rows_before_it() -> None:
    columns = stream(np.random.default_rng(1), 90)
    prequential = Prequential(MeanLearner())
    predicted = prequential.predict_and_learn(columns)
    for number, name in enumerate("abc"):
        t = columns.elapsed_s[columns.index == number]
        means = [math.nan] * ROWS_UNSCORED + [t[:n].mean() for n in range(ROWS_UNSCORED, len(t))]
        np.testing.assert_allclose(predicted[columns.index == number], means, rtol=1e-12)
        expected = np.abs(means / t - 1)[ROWS_UNSCORED:]
        score = prequential.scores[name]
        assert (score.rows, score.scored) == (len(t), len(expected))
        assert score.error == pytest.approx(np.mean(expected), rel=1e-12)


class Recorder:
    """A learner that answers 1 and remembers what it was asked and told; machine "lost" is one that it cannot answer for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any]] = []
        self.reported: list[dict[str, Any]] = []

    def predict(
        self, component: str, *, predictor: Any, cores: Any, model: Any = None, machine: Any = None
    ) -> Prediction:
        if machine == "lost":
            raise InvalidValue("machine", machine, "a machine that was seen")
        self.asked.append((np.asarray(predictor).tolist(), machine))
        return Prediction(np.ones(len(cores)), 0.0, 0.0, "one", (), 0, 0.0)

    def observe_columns(self, **columns: Any) -> None:
        self.reported.append(columns)


def test_points_machines_and_measures_are_asked_for_and_passed_on() -> None:
    n = 200
    rng = np.random.default_rng(7)
    machine = rng.choice(["m", "n", "lost"], n).astype(object)
    machine[rng.random(n) < 0.2] = None
    x = rng.integers(1, 9, (n, 2)).astype(float)
    energy = np.where(rng.random(n) < 0.5, np.nan, 3.0)
    columns = columns_of(
        ComponentNames(["a"]), np.zeros(n, int), x, np.ones(n), np.full(n, 2.0), machine=machine,
        measures={"energy_j": energy},
    )  # fmt: skip
    learner = Recorder()
    prequential = Prequential(learner)
    predicted = prequential.predict_and_learn(columns)
    # Learned: every row once, in order, with all that it has.
    again = [columns_of(ComponentNames(reported.pop("components")), **reported) for reported in learner.reported]
    assert np.array_equal(np.concatenate([np.column_stack([b.predictor, b.further[:, 0]]) for b in again]), x)
    named = [
        None if b.machine is None or number < 0 else b.machines[number]
        for b in again
        for number in ([-1] * len(b) if b.machine is None else b.machine)
    ]
    assert named == machine.tolist()
    reported = [b.measures.get("energy_j", np.full(len(b), np.nan)) for b in again]
    assert np.array_equal(np.concatenate(reported), energy, equal_nan=True)
    # Asked: each row on its machine; what nobody could answer is not scored.
    lost = machine == "lost"
    assert np.isnan(predicted[lost]).all()
    assert (predicted[ROWS_UNSCORED:][~lost[ROWS_UNSCORED:]] == 1.0).all()
    asked = sorted((tuple(point), str(where)) for points, where in learner.asked for point in points)
    late = np.arange(n) >= ROWS_UNSCORED
    assert asked == sorted(
        (tuple(point), str(where)) for point, where in zip(x[late & ~lost].tolist(), machine[late & ~lost], strict=True)
    )
    score = prequential.scores["a"]
    assert (score.rows, score.scored) == (n, int(np.count_nonzero(late & ~lost)))
    assert (score.error, score.bias) == (0.5, -0.5)
